package httpapi

import (
	"strconv"
	"strings"
	"testing"

	"tailscope/api"
	"tailscope/internal/query/querytest"
)

func TestExplain(t *testing.T) {
	srv := shop(t, Options{})
	at := func(sec int64) string { return strconv.FormatInt(querytest.Epoch+sec, 10) }
	code, body := fetch(t, srv, "/api/v1/explain", "match", `{service="checkout"}`, "start", at(0), "end", at(3600), "from", at(605), "to", at(1200), "low", "0.01", "limit", "3", "against", "rest")
	if code != 200 {
		t.Fatal(body)
	}
	r := decodeJSON[api.ExplainResponse](t, body)
	if r.Start != querytest.Epoch || r.End != querytest.Epoch+3600 || r.From != querytest.Epoch+600 || r.To != querytest.Epoch+1200 || r.Low > 0.01 || r.Low < 0.0097 {
		t.Errorf("the rectangle is %s", body)
	}
	if !strings.Contains(body, `"high":null`) || r.Inside == 0 || r.Outside == 0 || r.LabelsTried == 0 || r.PairsTried == 0 || len(r.Items) > 3 {
		t.Errorf("got %s", body)
	}
	// The same requests as the heatmap has there.
	code, body = fetch(t, srv, "/api/v1/heatmap", "match", `{service="checkout"}`, "start", at(0), "end", at(3600), "step", "600")
	if code != 200 {
		t.Fatal(body)
	}
	h := decodeJSON[api.HeatmapResponse](t, body)
	var inside uint64
	for _, c := range h.Columns {
		for i, row := range c.Rows {
			if c.Start == r.From && h.Bounds[row] >= r.Low {
				inside += c.Counts[i]
			}
		}
	}
	if r.Inside != inside || r.Inside+r.Outside != h.Count {
		t.Errorf("%d inside and %d outside, the heatmap has %d of %d", r.Inside, r.Outside, inside, h.Count)
	}
	code, body = fetch(t, srv, "/api/v1/explain", "match", `{service="checkout"}`, "start", at(0), "end", at(3600), "low", "0.01", "pairs", "false", "labels", "tenant", "against", "rest")
	if r = decodeJSON[api.ExplainResponse](t, body); code != 200 || r.PairsTried != 0 {
		t.Errorf("labels alone: %s", body)
	}
}

func TestExplainRefuses(t *testing.T) {
	srv := shop(t, Options{})
	for _, c := range []struct {
		params      []string
		code        int
		field, says string
	}{
		{nil, 400, "low", "whole range"},
		{[]string{"low", "slow"}, 400, "low", "write seconds such as 0.2"},
		{[]string{"high", "Inf"}, 400, "high", "leave high out for no bound"},
		{[]string{"low", "2", "high", "1"}, 400, "high", "is empty"},
		{[]string{"from", "now+1h"}, 400, "from", "after the range ends"},
		{[]string{"to", "now-9h"}, 400, "to", "before the range begins"},
		{[]string{"from", "now-1h", "to", "now-2h"}, 400, "to", "before it begins"},
		{[]string{"from", "noon"}, 400, "from", "not a time"},
		{[]string{"low", "1", "labels", "tenent"}, 400, "labels", "did you mean"},
		{[]string{"low", "1", "labels", "a,,b"}, 400, "labels", "empty name"},
		{[]string{"low", "1", "pairs", "maybe"}, 400, "pairs", "neither true nor false"},
		{[]string{"low", "1", "limit", "500"}, 400, "limit", "between 1 and 200"},
		{[]string{"low", "1", "family", "nothing"}, 404, "family", "there is no family"},
		{[]string{"low", "1", "match", `{tenant="a",instance="b"}`}, 400, "match", "not kept together"},
		{[]string{"low", "1", "against", "tomorrow"}, 400, "against", "not something to compare with"},
		{[]string{"low", "1", "before", "yesterday"}, 400, "before", "is not a window"},
		{[]string{"low", "1", "before", "now-1h/now-2h"}, 400, "before", "ends before it begins"},
		{[]string{"low", "1", "before", "now-2h/now-1h", "against", "rest"}, 400, "before", "leave one of the two out"},
		{[]string{"low", "1", "height", "2"}, 400, "height", ""},
	} {
		code, body := fetch(t, srv, "/api/v1/explain", c.params...)
		e := decodeJSON[api.Error](t, body).Error
		if code != c.code || e.Field != c.field || !strings.Contains(e.Message, c.says) {
			t.Errorf("%v: got %d %+v, want %d %s %q", c.params, code, e, c.code, c.field, c.says)
		}
	}
}
