package httpapi

import (
	"strings"
	"testing"

	"tailscope/api"
)

// The shop does not change; the answer says what was searched.
func TestChanges(t *testing.T) {
	srv := shop(t, Options{})
	code, body := fetch(t, srv, "/api/v1/changes", "match", `{service="checkout"}`, "start", "now-1h", "operations", "1")
	if code != 200 {
		t.Fatal(body)
	}
	r := decodeJSON[api.ChangesResponse](t, body)
	if r.Searched != 2 || r.Slot != 10 || r.Changes == nil || len(r.Notes) == 0 || !strings.Contains(r.Notes[0], "were not searched") {
		t.Errorf("got %s", body)
	}
	for _, c := range []struct {
		params      []string
		field, says string
	}{
		{[]string{"operations", "0.5"}, "operations", "whole number"},
		{[]string{"operations", "501"}, "operations", "not between 1 and 500"},
		{[]string{"status", "dismised"}, "status", `did you mean "dismissed"?`},
		{[]string{"match", "span_self_seconds"}, "match", "leave the name"},
		{[]string{"start", "soon"}, "start", ""},
		{[]string{"family", "span_self_seconds"}, "family", ""},
		{[]string{"start", "now", "end", "now-1h"}, "end", "later end"},
	} {
		code, body := fetch(t, srv, "/api/v1/changes", c.params...)
		e := decodeJSON[api.Error](t, body)
		if code != 400 || e.Error.Field != c.field || !strings.Contains(e.Error.Message, c.says) {
			t.Errorf("%q: %d %s, want %s: %s", c.params, code, body, c.field, c.says)
		}
	}
	for body, field := range map[string]string{
		``:                         "body",
		`[]`:                       "",
		`{"id":7}`:                 "id",
		`{"id":"x","mark":"y"}`:    "mark",
		`{"id":"x"}`:               "status",
		`{"id":"x"} {}`:            "body",
		`{"id":"x","time":"noon"}`: "time",
	} {
		code, answer := send(t, srv, "POST", "/api/v1/changes", body)
		if e := decodeJSON[api.Error](t, answer); code != 400 || e.Error.Field != field || e.Error.Message == "" {
			t.Errorf("%s: %d %s, want 400 of %q", body, code, answer, field)
		}
	}
	code, body = send(t, srv, "POST", "/api/v1/changes", `{"id":"0123456789abcdef","time":1778313700,"low":1778313690,"high":1778313710,"service":"checkout","status":"dismissed"}`)
	if code != 404 || decodeJSON[api.Error](t, body).Error.Field != "id" {
		t.Errorf("an unknown change: %d %s", code, body)
	}
}
