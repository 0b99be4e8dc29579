package httpapi

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"tailscope/api"
	"tailscope/internal/query/querytest"
)

func decodeJSON[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// Targets are set, listed, used by every page that scores, and removed.
func TestTargets(t *testing.T) {
	srv := shop(t, Options{})
	rows := func(path string) []api.ApdexRow {
		code, body := fetch(t, srv, "/api/v1/apdex"+path)
		if code != 200 {
			t.Fatal(body)
		}
		return decodeJSON[api.ApdexResponse](t, body).Rows
	}
	before := rows("?start=now-1h")
	if len(before) != 2 || before[1].Service != "checkout" || before[1].From != "default" || before[1].T != 0.5 {
		t.Fatalf("before: %+v", before)
	}
	for _, body := range []string{`{"service":"checkout","t":0.01}`, `{"service":"checkout","operation":"POST /order","t":2}`, `{"service":"not yet there","t":1}`} {
		if code, answer := send(t, srv, "PUT", "/api/v1/apdex-targets", body); code != 200 || strings.TrimSpace(answer) == "" {
			t.Fatalf("%s: %d %s", body, code, answer)
		}
	}
	_, body := fetch(t, srv, "/api/v1/apdex-targets")
	if want := `{"default":0.5,"targets":[{"service":"checkout","t":0.01},{"service":"checkout","operation":"POST /order","t":2},{"service":"not yet there","t":1}]}`; strings.TrimSpace(body) != want {
		t.Errorf("got  %s\nwant %s", body, want)
	}
	after := rows("?start=now-1h")[1]
	if after.From != "service" || after.T != 0.01 || after.Apdex >= before[1].Apdex || after.Requests != before[1].Requests {
		t.Errorf("the hour was not re-scored: %+v, was %+v", after, before[1])
	}
	if !(after.Low <= after.Apdex && after.Apdex <= after.High && after.Low < after.High) {
		t.Errorf("bounds %v ≤ %v ≤ %v", after.Low, after.Apdex, after.High)
	}
	if sum := after.Satisfied + after.Tolerating + after.Frustrated; sum < api.Float(after.Requests)-1e-6 || sum > api.Float(after.Requests)+1e-6 {
		t.Errorf("%v requests in three parts, want %d", sum, after.Requests)
	}
	byOperation := rows("?start=now-1h&by=operation&match=%7Bservice=%22checkout%22%7D")
	if len(byOperation) != 2 || byOperation[0].From != "service" || byOperation[1].Operation != "POST /order" || byOperation[1].From != "operation" || byOperation[1].T != 2 {
		t.Errorf("by operation: %+v", byOperation)
	}
	if asked := rows("?t=0.02&by=operation"); asked[0].From != "asked" || asked[0].T != 0.02 {
		t.Errorf("asked: %+v", asked[0])
	}
	_, body = fetch(t, srv, "/api/v1/services")
	if s := decodeJSON[api.ServicesResponse](t, body).Services[1]; s.ApdexT != 0.01 || s.Apdex != after.Apdex {
		t.Errorf("services say T %v, Apdex %v; want 0.01, %v", s.ApdexT, s.Apdex, after.Apdex)
	}
	_, body = fetch(t, srv, "/api/v1/sla", "match", `{service="checkout"}`, "period", "day", "count", "1")
	if r := decodeJSON[api.SLAResponse](t, body); r.T != 0.01 || r.Rows[0].Apdex != after.Apdex || r.Rows[0].Requests != after.Requests {
		t.Errorf("the report says T %v, Apdex %v of %d; want 0.01, %v of %d", r.T, r.Rows[0].Apdex, r.Rows[0].Requests, after.Apdex, after.Requests)
	}
	if code, body := send(t, srv, "DELETE", "/api/v1/apdex-targets?service=checkout&operation=POST+/order", ""); code != 204 {
		t.Errorf("delete: %d %s", code, body)
	}
	if code, body := send(t, srv, "DELETE", "/api/v1/apdex-targets?service=checkout&operation=POST+/order", ""); code != 404 || !strings.Contains(body, "has no target of its own") {
		t.Errorf("delete again: %d %s", code, body)
	}
	if got := rows("?start=now-1h&by=operation&match=%7Boperation=%22POST+/order%22%7D"); got[0].From != "service" {
		t.Errorf("after delete: %+v", got)
	}
}

// A target outlives the server.
func TestTargetsSurviveRestart(t *testing.T) {
	st := filled(t, pebble(t))
	srv := serve(t, Options{Store: st})
	for range 2 { // the second is another generation
		if code, body := send(t, srv, "PUT", "/api/v1/apdex-targets", `{"service":"checkout","t":0.02}`); code != 200 {
			t.Fatal(body)
		}
	}
	again := serve(t, Options{Store: st})
	_, body := fetch(t, again, "/api/v1/apdex", "match", `{service="checkout"}`)
	if r := decodeJSON[api.ApdexResponse](t, body).Rows[0]; r.T != 0.02 || r.From != "service" {
		t.Errorf("got %v from %s", r.T, r.From)
	}
}

func TestApdexSteps(t *testing.T) {
	srv := shop(t, Options{})
	_, body := fetch(t, srv, "/api/v1/apdex", "match", `{service="checkout"}`, "start", "now-90m", "step", "30m")
	r := decodeJSON[api.ApdexResponse](t, body)
	row := r.Rows[0]
	if len(r.Times) != 3 || len(row.Over) != 3 || r.Times[1] != querytest.Epoch {
		t.Fatalf("%v %v", r.Times, row.Over)
	}
	// The shop sends 36 requests a minute.
	if row.Requests != 2160 || !row.Thin || !row.ThinOver[2] {
		t.Errorf("%d requests, thin %v %v", row.Requests, row.Thin, row.ThinOver)
	}
	if row.Over[0] == row.Over[0] || !(row.Over[1] > 0.9 && row.Over[1] < 1) {
		t.Errorf("over time %v", row.Over)
	}
}

func TestBadSLAInput(t *testing.T) {
	srv := shop(t, Options{})
	const one = "match=%7Bservice=%22checkout%22%7D&"
	for _, c := range []struct{ method, path, body, field, words string }{
		{"GET", "sla", "", "match", `write match={service="checkout"}`},
		{"GET", "sla?" + one + "period=fortnight", "", "period", "no period"},
		{"GET", "sla?" + one + "period=wek", "", "period", `did you mean "week"?`},
		{"GET", "sla?" + one + "tz=Europe/Berln", "", "tz", `did you mean "Europe/Berlin"?`},
		{"GET", "sla?" + one + "tz=new+york", "", "tz", `did you mean "America/New_York"?`},
		{"GET", "sla?" + one + "tz=Local", "", "tz", "there is no time zone"},
		{"GET", "sla?" + one + "tz=../../etc/passwd", "", "tz", "there is no time zone"},
		{"GET", "sla?" + one + "objective=99", "", "under", "needs"},
		{"GET", "sla?" + one + "objective=99&under=0.5", "", "objective", "write 0.99"},
		{"GET", "sla?" + one + "under=0.5", "", "objective", "such as objective=0.99"},
		{"GET", "sla?" + one + "objective=0.99&under=7000", "", "under", "between 1 µs and 1 h"},
		{"GET", "sla?" + one + "count=1000", "", "count", "between 1 and 400"},
		{"GET", "sla?" + one + "count=400&period=month&end=1000000000", "", "count", "before 1970"},
		{"GET", "sla?match=span_duration_seconds%7Bservice=%22a%22%7D", "", "match", "requests are spans"},
		{"GET", "timeline?overlay=yesterday", "", "overlay", "write one of day, like, week"},
		{"GET", "timeline?overlay=wek", "", "overlay", `did you mean "week"?`},
		{"GET", "timeline?overlay=day&offset=1d", "", "overlay", "write one of them"},
		{"GET", "timeline?overlay=day&tz=Berlin", "", "tz", `did you mean "Europe/Berlin"?`},
		{"GET", "apdex?overlay=wek", "", "overlay", `did you mean "week"?`},
		{"GET", "apdex?overlay=day&tz=Berlin", "", "tz", `did you mean "Europe/Berlin"?`},
		{"GET", "timeline?per=second", "", "per", "write request"},
		{"GET", "timeline?per=request&family=orders_total", "", "match", `write match={service="checkout"}`},
		{"GET", "apdex?t=-1", "", "t", "one positive number"},
		{"GET", "apdex?by=tenant", "", "by", "write operation"},
		{"PUT", "apdex-targets", "", "body", `write {"service": "checkout", "t": 0.3}`},
		{"PUT", "apdex-targets", `{"service":"a","t":"fast"}`, "t", "t is a string"},
		{"PUT", "apdex-targets", `{"service":"a"}`, "t", "positive number of seconds"},
		{"PUT", "apdex-targets", `{"service":"a","t":null}`, "t", "positive number of seconds"},
		{"PUT", "apdex-targets", `{"service":"a","t":500000}`, "t", "it is in seconds"},
		{"PUT", "apdex-targets", `{"t":1}`, "service", "needs a service"},
		{"PUT", "apdex-targets", `{"service":"a\u0000b","t":1}`, "service", "cannot be printed"},
		{"PUT", "apdex-targets", `{"service":"a","t":1,"oparation":"x"}`, "oparation", `did you mean "operation"?`},
		{"PUT", "apdex-targets", `{"service":"a","t":1}{}`, "body", "goes on"},
		{"DELETE", "apdex-targets", "", "service", "needs a service"},
	} {
		code, body := send(t, srv, c.method, "/api/v1/"+c.path, c.body)
		e := decodeJSON[api.Error](t, body).Error
		if want := 400; code != want || e.Field != c.field || !strings.Contains(e.Message, c.words) {
			t.Errorf("%s %s %s: %d %s %q, want %s %q", c.method, c.path, c.body, code, e.Field, e.Message, c.field, c.words)
		}
	}
}

// An earlier day is answered at the times shown, with its name.
func TestOverlay(t *testing.T) {
	srv := shop(t, Options{})
	code, body := fetch(t, srv, "/api/v1/timeline", "match", `{service="checkout"}`, "start", "2026-05-10T08:00:00Z", "end", "2026-05-10T09:00:00Z",
		"step", "10m", "overlay", "day", "tz", "Europe/Berlin")
	r := decodeJSON[api.TimelineResponse](t, body)
	if code != 200 || r.Overlay == nil || *r.Overlay != (api.Overlay{Name: "day", Of: "Sat 9 May", Zone: "Europe/Berlin"}) || len(r.Groups) != 1 {
		t.Fatalf("%d %s", code, body)
	}
	if r.Times[0] != querytest.Epoch+86400 || r.Groups[0].Count[0] == 0 {
		t.Errorf("%v %v", r.Times, r.Groups[0].Count)
	}
	for _, path := range []string{"breakdown", "operations"} {
		code, body := fetch(t, srv, "/api/v1/"+path, "match", `{service="checkout"}`, "start", "2026-05-11T08:00:00Z", "end", "2026-05-11T09:00:00Z",
			"step", "10m", "overlay", "week", "tz", "Europe/Berlin")
		r := decodeJSON[struct {
			Overlay *api.Overlay
			Times   []int64
		}](t, body)
		if code != 200 || r.Overlay == nil || r.Overlay.Of != "Mon 4 May" || r.Times[0] != querytest.Epoch+2*86400 {
			t.Errorf("%s: %d %s", path, code, body)
		}
		code, body = fetch(t, srv, "/api/v1/"+path, "match", `{service="checkout"}`, "overlay", "fortnight")
		if e := decodeJSON[api.Error](t, body).Error; code != 400 || e.Field != "overlay" {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

// Apdex of an earlier day is what that day had been scored at.
func TestApdexOverlay(t *testing.T) {
	srv := shop(t, Options{})
	score := func(params ...string) api.ApdexResponse {
		code, body := fetch(t, srv, "/api/v1/apdex", append([]string{"match", `{service="checkout"}`, "step", "10m", "t", "0.02"}, params...)...)
		if code != 200 {
			t.Fatalf("%d %s", code, body)
		}
		return decodeJSON[api.ApdexResponse](t, body)
	}
	was := score("start", "2026-05-09T08:00:00Z", "end", "2026-05-09T09:00:00Z")
	laid := score("start", "2026-05-10T08:00:00Z", "end", "2026-05-10T09:00:00Z", "overlay", "day", "tz", "Europe/Berlin")
	if laid.Overlay == nil || laid.Overlay.Of != "Sat 9 May" || laid.Times[0] != was.Times[0]+86400 || len(laid.Rows) != 1 {
		t.Fatalf("%+v", laid)
	}
	if got, want := laid.Rows[0], was.Rows[0]; !slices.Equal(got.Over, want.Over) || got.Requests != want.Requests || got.Requests == 0 || got.Apdex != want.Apdex {
		t.Errorf("laid over: %+v\nthat day: %+v", got, want)
	}
}

// Any histogram that arrives as a metric, such as pauses of garbage collection,
// is drawn with all its percentiles by the questions of requests.
func TestHistogramsOfMetrics(t *testing.T) {
	srv := shop(t, Options{})
	_, body := fetch(t, srv, "/api/v1/timeline", "family", "job_seconds", "step", "5m", "q", "0.5,0.9,0.99")
	g := decodeJSON[api.TimelineResponse](t, body).Groups[0]
	if len(g.Quantiles) != 3 {
		t.Fatal(body)
	}
	at := len(g.Count) - 12
	if !(g.Quantiles["0.5"][at] > 0.1 && g.Quantiles["0.5"][at] < g.Quantiles["0.9"][at] && g.Quantiles["0.9"][at] <= g.Quantiles["0.99"][at] && g.Quantiles["0.99"][at] <= 1) {
		t.Errorf("%v", g.Quantiles)
	}
	if _, body := fetch(t, srv, "/api/v1/heatmap", "family", "job_seconds"); decodeJSON[api.HeatmapResponse](t, body).Count != 10 {
		t.Error(body)
	}
}
