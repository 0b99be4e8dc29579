package httpapi

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/judge"
	"tailscope/internal/query/querytest"
)

// Two halves of an hour in which nothing changed.
func TestCompare(t *testing.T) {
	srv := shop(t, Options{})
	half := querytest.Epoch + 1800
	at := func(sec int64) string { return time.Unix(sec, 0).UTC().Format(time.RFC3339) }
	code, body := fetch(t, srv, "/api/v1/compare", "match", `{service="checkout"}`,
		"a", at(querytest.Epoch)+"/"+at(half), "b", at(half)+"/"+at(half+1800), "within", "0.2", "limit", "1")
	if code != 200 {
		t.Fatal(body)
	}
	r := decodeJSON[api.CompareResponse](t, body)
	if r.Of != "checkout" || r.Slot != 10 || r.Paired || r.Within != 0.2 || len(r.Operations) != 1 || len(r.Measures) != 10 {
		t.Errorf("got %s", body)
	}
	if r.Verdict == "regression" || r.Verdict == "improvement" || r.Verdict == "mixed" {
		t.Errorf("%s, where nothing changed: %s", r.Verdict, r.Sentence)
	}
	// A mark's sides, once there is one.
	code, body = send(t, srv, "POST", "/api/v1/marks", `{"name":"deploy","time":"`+at(half+5)+`"}`)
	if code != 201 {
		t.Fatal(body)
	}
	mark := decodeJSON[api.Mark](t, body)
	code, body = fetch(t, srv, "/api/v1/compare", "match", `{service="checkout"}`, "mark", mark.ID, "window", "15m", "settle", "30s")
	if code != 200 {
		t.Fatal(body)
	}
	r = decodeJSON[api.CompareResponse](t, body)
	if r.Mark == nil || r.Mark.Name != "deploy" || r.A.Start != half-900 || r.A.End != half || r.B.Start != half+40 || r.B.End != half+940 {
		t.Errorf("mark %+v, A %+v, B %+v", r.Mark, r.A, r.B)
	}
	// The pods share their slots.
	code, body = fetch(t, srv, "/api/v1/compare", "match", `{service="checkout"}`, "start", "now-1h", "label", "instance", "a", "pod-a", "b", "pod-c", "measures", "p50,mean")
	if code != 200 {
		t.Fatal(body)
	}
	if r = decodeJSON[api.CompareResponse](t, body); !r.Paired || r.A.Name != "pod-a" || len(r.Measures) != 2 || len(r.Tenants) != 0 {
		t.Errorf("got %s", body)
	}
}

// Several windows make a side, written out or repeated.
func TestCompareWindows(t *testing.T) {
	srv := shop(t, Options{})
	code, body := fetch(t, srv, "/api/v1/compare", "match", `{service="checkout"}`,
		"a", "now-60m/now-55m,now-50m/now-45m,now-40m/now-35m", "b", "now-20m/now-15m, now-14m/now-10m, now-9m/now-5m")
	if code != 200 {
		t.Fatal(body)
	}
	r := decodeJSON[api.CompareResponse](t, body)
	if len(r.A.Windows) != 3 || len(r.B.Windows) != 3 || r.B.Windows[1].End-r.B.Windows[1].Start != 240 || r.A.Slots != 90 || judge.Moved(r.Verdict) {
		t.Errorf("got %s", body)
	}
	code, body = fetch(t, srv, "/api/v1/compare", "match", `{service="checkout"}`, "tz", "Europe/Berlin",
		"a", "daily 22:00-06:00 last 3 before now-30m", "b", "now-20m/now-10m")
	if code != 200 {
		t.Fatal(body)
	}
	if r = decodeJSON[api.CompareResponse](t, body); len(r.A.Windows) != 3 || r.A.Windows[0].End-r.A.Windows[0].Start != 8*3600 || r.Verdict != judge.TooLittle {
		t.Errorf("got %s", body)
	}
}

// What is drawn of a comparison, and one that is watched.
func TestCompareIncludes(t *testing.T) {
	srv := shop(t, Options{})
	params := []string{"match", `{service="checkout"}`, "a", "now-60m/now-30m", "b", "now-30m/now", "measures", "p50"}
	code, body := fetch(t, srv, "/api/v1/compare", append(params, "include", "curve,heat", "width", "30", "rows", "20")...)
	if code != 200 {
		t.Fatal(body)
	}
	r := decodeJSON[api.CompareResponse](t, body)
	if r.Live || r.Whole == nil || r.Whole.Resamples != 1000 || r.Whole.Verdict == "" || r.Curve == nil || len(r.Curve.Ps) != 60 || len(r.Curve.High) != 60 || r.Heat == nil || len(r.Heat.Bounds) > 21 || len(r.Heat.Columns) != 60 {
		t.Errorf("got %s", body)
	}
	code, body = fetch(t, srv, "/api/v1/compare", append(params, "live", "true")...)
	if code != 200 {
		t.Fatal(body)
	}
	live := decodeJSON[api.CompareResponse](t, body)
	f, g := r.Measures[0].Raw, live.Measures[0].Raw
	if !live.Live || live.Whole != nil || live.Curve != nil || live.Heat != nil || f.Effect != g.Effect || g.High-g.Low <= f.High-f.Low {
		t.Errorf("once %+v, live %+v", f, g)
	}
}

func TestCompareRefuses(t *testing.T) {
	srv := shop(t, Options{})
	const a, b = "now-60m/now-30m", "now-30m/now"
	for _, c := range []struct {
		params      []string
		code        int
		field, says string
	}{
		{nil, 400, "a", "write its start and end"},
		{[]string{"a", a}, 400, "b", "write its start and end"},
		{[]string{"a", a, "b", "now/now-30m"}, 400, "b", "ends before it begins"},
		{[]string{"a", a, "b", "yesterday/now"}, 400, "b", "not a time"},
		{[]string{"a", a, "b", b, "mark", "x"}, 400, "", "leave "},
		{[]string{"mark", "x"}, 404, "mark", "there is no mark"},
		{[]string{"mark", "x", "settle", "-5s"}, 400, "settle", "negative"},
		{[]string{"mark", "x", "window", "0"}, 400, "window", "not positive"},
		{[]string{"a", a, "b", b, "level", "95"}, 400, "level", "write one such as 0.95"},
		{[]string{"a", a, "b", b, "level", "95%"}, 400, "level", "is not a number; write one such as 0.95"},
		{[]string{"a", a, "b", b, "within", "NaN"}, 400, "within", "write one such as 0.05"},
		{[]string{"a", a, "b", b, "measures", "p42"}, 400, "measures", "no measure"},
		{[]string{"a", a, "b", b, "allow", "p42=worse:3%"}, 400, "allow", "there is no measure"},
		{[]string{"a", a, "b", b, "allow", "slower:3%"}, 400, "allow", "write one such as worse:3% or p99=increase:3%"},
		{[]string{"a", a, "b", b, "include", "curves"}, 400, "include", "did you mean"},
		{[]string{"a", a, "b", b, "live", "yes"}, 400, "live", "neither true nor false"},
		{[]string{"a", a, "b", b, "width", "5000"}, 400, "width", "between 1 and 2000"},
		{[]string{"a", a, "b", b, "rows", "1"}, 400, "rows", "between 2 and 640"},
		{[]string{"a", a, "b", b, "days", "3"}, 400, "a", "leave a out"},
		{[]string{"a", "1", "b", "2", "label", "version", "like", "day"}, 400, "days", "leave days and like out"},
		{[]string{"b", b, "tz", "Nowhere"}, 400, "", ""},
		{[]string{"a", a, "b", "now/now+1h"}, 409, "b", "ask again later"},
		{[]string{"a", a + ",now-2h", "b", b}, 400, "a", "write its start and end"},
		{[]string{"a", a, "b", "daily 22:00-06:00 last five"}, 400, "b", "write one such as daily 22:00-06:00 last 5"},
		{[]string{"a", a, "b", "daily 22:00-06:00 last 5 before noon"}, 400, "b", "is not a time"},
		{[]string{"a", a, "b", "daily 22:00-06:00 first 5 after now"}, 409, "b", "ask again later"},
		{[]string{"a", a, "b", "now-29m/now-20m,now-15m/now", "live", "true"}, 400, "live", "are not watched"},
		{[]string{"a", a, "b", b, "limit", "1000"}, 400, "limit", "between 1 and 500"},
		{[]string{"a", a, "b", b, "family", "nothing"}, 404, "family", "there is no family"},
		{[]string{"a", "1", "b", "2", "label", "version"}, 400, "a", "no request in the range has version"},
	} {
		code, body := fetch(t, srv, "/api/v1/compare", c.params...)
		e := decodeJSON[api.Error](t, body).Error
		if code != c.code || c.field != "" && e.Field != c.field || !strings.Contains(e.Message, c.says) {
			t.Errorf("%v: got %d %+v, want %d %s %q", c.params, code, e, c.code, c.field, c.says)
		}
	}
}

// A comparison at a mark is of the mark's environment, and allows what the mark does,
// unless it says otherwise.
func TestCompareTakesWhatTheMarkSays(t *testing.T) {
	srv := shop(t, Options{})
	half := querytest.Epoch + 1800
	code, body := send(t, srv, "POST", "/api/v1/marks", fmt.Sprintf(`{"name":"deploy","service":"checkout","environment":"nowhere","allow":"worse:300%%","time":%d}`, half))
	if code != 201 {
		t.Fatal(body)
	}
	mark := decodeJSON[api.Mark](t, body)
	ask := func(match string, pairs ...string) api.CompareResponse {
		t.Helper()
		code, body := fetch(t, srv, "/api/v1/compare", append([]string{"match", match, "mark", mark.ID, "window", "15m", "measures", "p99"}, pairs...)...)
		if code != 200 {
			t.Fatal(code, body)
		}
		return decodeJSON[api.CompareResponse](t, body)
	}
	if r := ask(`{service="checkout"}`); r.Of != "checkout in nowhere" || r.A.Requests != 0 {
		t.Errorf("of %s, %d requests", r.Of, r.A.Requests)
	}
	allowed := func(pairs ...string) string {
		r := ask(`{service="checkout",environment=""}`, pairs...)
		if r.A.Requests == 0 {
			t.Errorf("no request of %s", r.Of)
		}
		return r.Measures[0].Allowed
	}
	own, none, other := allowed(), allowed("allow", "none"), allowed("allow", "worse:7%")
	if !strings.Contains(own, "300") || none != "" || !strings.Contains(other, "7") {
		t.Errorf("allowed by the mark %q, by none %q, by another %q", own, none, other)
	}
}
