package check

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tailscope/api"
	"tailscope/internal/agg"
)

const perOperation = `
receivers:
  log: {file: {path: events.log}}
checks:
  slow:
    every: 10s
    each: {series: 'span_duration_seconds{service="shop"}', by: [operation], most: 3, within: 10m}
    value: {query: {measure: p99, series: 'span_duration_seconds{service="shop", operation="$operation"}', over: 1m}}
    threshold: {must: "<", of: 1, critical: 0}
    receivers: [log]
  failing:
    every: 10s
    each: {series: 'span_duration_seconds{service="shop"}', by: [operation]}
    value: {query: {measure: errors, series: 'span_duration_seconds{service="shop", operation="$operation"}', over: 1m}}
  satisfied:
    every: 10s
    value: {query: {measure: apdex, series: 'span_duration_seconds{service="shop"}', over: 1m}}
  calls:
    every: 10s
    value: {query: {measure: rate, series: 'span_duration_seconds{service="shop"}', over: 1m}}
  twice:
    every: 10s
    value: '2 * {check="calls"}[0]'
    threshold: {must: "<", of: 'max({check="calls"}[0:9]) * 3', critical: 0}
`

// traffic sends spans of each operation, one a second, until its time is over.
func (w *world) traffic(lasts time.Duration, seconds map[string]float64) {
	for range int(lasts / time.Second) {
		b := w.agg.NewBatch()
		for op, d := range seconds {
			status := "ok"
			if time.Now().Second()%4 == 0 {
				status = "error"
			}
			id := agg.SpanIdentity{Service: "shop", Operation: op, Component: "app", Kind: "server", Status: status}
			b.Observe(w.agg.SpanTarget(&id), time.Now().UnixNano(), int64(d*1e9), 1)
		}
		if _, err := b.Commit(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
		time.Sleep(time.Second)
	}
}

func (w *world) list(match string) string {
	w.t.Helper()
	ms, err := parseMatchers(match)
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := w.List(w.t.Context(), ListRequest{Match: ms})
	if err != nil {
		w.t.Fatal(err)
	}
	var lines []string
	for _, c := range r.Checks {
		lines = append(lines, fmt.Sprintf("%s %s %.2g", c.ID, c.State, float64(c.Value)))
	}
	return strings.Join(lines, "\n")
}

func TestEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, perOperation)
		w.traffic(3*time.Minute, map[string]float64{"GET /a": 0.1, "GET /b": 0.2})
		w.expect(w.list(`check="slow"`), `slow{operation="GET /a"} OK 0.1
slow{operation="GET /b"} OK 0.2`)
		w.expect(w.list(`check="failing"`), `failing{operation="GET /a"} OK 0.25
failing{operation="GET /b"} OK 0.25`)
		// Three quarters did not fail, and each took at most 0.5 s.
		w.expect(w.list(`check=~"satisfied|calls|twice"`), "calls OK 2\nsatisfied OK 0.75\ntwice OK 4")
		w.traffic(3*time.Minute, map[string]float64{"GET /a": 0.1, "GET /b": 2, "GET /c": 0.1, "GET /d": 0.1})
		w.expect(w.notes.take(), `slow{operation="GET /b"} opened 1 OK>CRITICAL: slow{operation="GET /b"} is CRITICAL: 2.00 is above 1`)
		if s := w.Stats(); s.Beyond != 1 {
			t.Errorf("%d beyond the bound of 3, want 1", s.Beyond)
		}
		one, err := w.RunNow(t.Context(), `slow{operation="GET /b"}`)
		if err != nil || one.State != "CRITICAL" || math.Abs(float64(one.Value)-2) > 0.05 {
			t.Errorf("%+v, %v", one, err)
		}
		w.traffic(14*time.Minute, map[string]float64{"GET /a": 0.1})
		said := w.notes.take()
		if !strings.Contains(said, `slow{operation="GET /b"} is over after`) || !strings.Contains(said, "no data of it for 10 min") {
			t.Errorf("a series that is gone: %s", said)
		}
		w.expect(w.list(`check="slow"`), `slow{operation="GET /a"} OK 0.1`)

		bt, err := w.Backtest(t.Context(), api.CheckBacktest{Check: "calls", Threshold: &api.CheckThreshold{Must: "<", Of: "3", Critical: "0"},
			Start: api.UnixTime(time.Now().Add(-20 * time.Minute)), States: &api.CheckStates{Bad: "1"}})
		if err != nil {
			t.Fatal(err)
		}
		if len(bt.Alarms) != 1 || bt.Before == nil || bt.Before.Alarms != 0 || bt.Runs < 100 || bt.Truncated {
			t.Errorf("backtest: %d runs, alarms %+v, before %+v", bt.Runs, bt.Alarms, bt.Before)
		}
		if len(bt.Before.Bands) != len(bt.Points) || len(bt.Before.Opened) != 0 || !math.IsNaN(float64(bt.Before.Bands[len(bt.Points)-1].Threshold)) {
			t.Errorf("the check as it is: %+v beside %d points", bt.Before, len(bt.Points))
		}
		_, err = w.MarkIncident(t.Context(), api.MarkedIncident{Name: "rush", Service: "shop", Start: bt.Alarms[0].Start - 60, End: bt.Alarms[0].Start + 30})
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.MarkIncident(t.Context(), api.MarkedIncident{Name: "quiet", Start: bt.Alarms[0].End + 60, End: bt.Alarms[0].End + 90})
		if err != nil {
			t.Fatal(err)
		}
		// Of a query that was never a check's: asked again as of then.
		bt, err = w.Backtest(t.Context(), api.CheckBacktest{Value: `count(span_duration_seconds{service="shop"}[-60M:-0M]) / 3600`,
			Threshold: &api.CheckThreshold{Must: "<", Of: "0.2", Warning: "0"}, Start: api.UnixTime(time.Now().Add(-20 * time.Minute)), Every: 60})
		if err != nil || bt.Runs != 20 || len(bt.Alarms) == 0 {
			t.Errorf("backtest of an expression: %d runs, alarms %+v, %v", bt.Runs, bt.Alarms, err)
		}
		bt, err = w.Backtest(t.Context(), api.CheckBacktest{Check: "calls", Threshold: &api.CheckThreshold{Must: "<", Of: "3", Critical: "0"},
			Start: api.UnixTime(time.Now().Add(-20 * time.Minute)), States: &api.CheckStates{Bad: "1"}})
		if err != nil || bt.Found != 1 || bt.Missed != 1 || bt.False != 0 || bt.Incidents[0].After != 60 {
			t.Errorf("backtest against marked incidents: %+v, %+v, %v", bt.Alarms, bt.Incidents, err)
		}
		ev, err := w.Evaluate(t.Context(), api.CheckEvaluate{Expression: `avg({check="calls"}[-5M:-0M])`, Start: api.UnixTime(time.Now().Add(-10 * time.Minute)), Step: 60})
		if err != nil || len(ev.Points) < 10 || len(ev.Steps) == 0 || math.Abs(float64(ev.Value)-1) > 0.01 {
			t.Errorf("evaluate: %+v, %v", ev, err)
		}
		if _, err = w.Evaluate(t.Context(), api.CheckEvaluate{Expression: `avg(x[-24])`}); err == nil || !strings.Contains(err.Error(), "unit") {
			t.Errorf("x[-24]: %v", err)
		}
		w.stop()
	})
}

func TestLagsKeepTheLastMinutes(t *testing.T) {
	var l lags
	at := time.Unix(1e9, 0)
	if !math.IsNaN(l.p99(at)) {
		t.Error("a lag before the first run")
	}
	l.add(time.Second, at)
	if v := l.p99(at.Add(6 * time.Minute)); math.Abs(v-1) > 0.03 {
		t.Errorf("p99 %g, want 1", v)
	}
	if v := l.p99(at.Add(20 * time.Minute)); !math.IsNaN(v) {
		t.Errorf("p99 %g of long ago", v)
	}
}

// Expressions of a profile know the series as those of the check do.
func TestEachByProfile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, `
receivers:
  log: {file: {path: events.log}}
profiles:
  usual: {days: [{intervals: [{from: "00:00", to: "24:00", value: 'max(span_duration_seconds{operation="$operation"}[-90S:-60S])'}]}]}
checks:
  slow:
    every: 10s
    each: {series: 'span_duration_seconds{service="shop"}', by: [operation]}
    value: {query: {measure: max, series: 'span_duration_seconds{service="shop", operation="$operation"}', over: 20s}}
    threshold: {must: "<", of: profile usual, critical: 50%}
    soft: 1 of 1
    receivers: [log]
`)
		w.traffic(4*time.Minute, map[string]float64{"GET /a": 1, "GET /b": 0.1})
		w.expect(w.list(`check="slow"`), `slow{operation="GET /a"} OK 1
slow{operation="GET /b"} OK 0.1`)
		w.traffic(time.Minute, map[string]float64{"GET /a": 1, "GET /b": 0.5})
		w.expect(w.list(`check="slow"`), `slow{operation="GET /b"} CRITICAL 0.5
slow{operation="GET /a"} OK 1`)
		one, err := w.Get(t.Context(), GetRequest{ID: `slow{operation="GET /b"}`})
		if err != nil || len(one.ThresholdSteps) == 0 || one.ThresholdSteps[0].Text != `max(span_duration_seconds{operation="GET /b"}[-90S:-60S])` {
			t.Errorf("the threshold's steps: %+v, %v", one.ThresholdSteps, err)
		}
		w.traffic(time.Minute, map[string]float64{"GET /a": 1, "GET /b": 0.1})
		bt, err := w.Backtest(t.Context(), api.CheckBacktest{Check: `slow{operation="GET /b"}`, Threshold: &api.CheckThreshold{Of: "profile usual", Critical: "900%"},
			Start: api.UnixTime(time.Now().Add(-4 * time.Minute))})
		if err != nil {
			t.Fatal(err)
		}
		if len(bt.Alarms) != 0 || bt.Before == nil || bt.Before.Alarms != 1 {
			t.Errorf("backtest: alarms %+v, before %d", bt.Alarms, bt.Before.Alarms)
		}
		w.stop()
	})
}
