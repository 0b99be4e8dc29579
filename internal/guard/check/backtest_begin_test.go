package check

import (
	"testing"
	"testing/synctest"
	"time"

	"tailscope/api"
)

// A test of a check that is young begins when the check did, and an expression
// is asked of before then.
func TestBacktestBeginsWithTheCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, `
checks:
  young:
    every: 10s
    value: {tcp: {address: "young:80"}}
    threshold: {must: "<", of: 1, critical: 0}
  sum:
    every: 10s
    value: 2 + 3
    unit: orders
    threshold: {must: "<", of: 1, critical: 0}
    soft: 1 of 1
`)
		w.probe.set("young:80", 0.1)
		began := time.Now()
		time.Sleep(3 * time.Minute)
		from := api.Float(began.Add(-26 * time.Hour).Unix())
		// Thresholds are stored when they change and each minute, and drawn in between.
		c, err := w.Get(t.Context(), GetRequest{ID: "young"})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range c.Points {
			if p.Bands.HighCritical != 1 {
				t.Errorf("at %v: threshold %v", p.Time, p.Bands.HighCritical)
			}
		}
		r, err := w.Backtest(t.Context(), api.CheckBacktest{Check: "young", Start: from})
		if err != nil {
			t.Fatal(err)
		}
		if r.Start < began.Unix()-20 || r.Nulls > 2 || r.Runs < 15 || r.Runs > 19 || len(r.Alarms) != 0 {
			t.Errorf("of the young: start %d, began %d, %d runs, %d without a value, alarms %v", r.Start, began.Unix(), r.Runs, r.Nulls, r.Alarms)
		}
		r, err = w.Backtest(t.Context(), api.CheckBacktest{Check: "sum", Start: from})
		if err != nil {
			t.Fatal(err)
		}
		if r.Runs < 26*360 || r.Nulls > 2 || len(r.Alarms) != 1 || r.Alarms[0].Worst != "CRITICAL" || r.Unit != "orders" {
			t.Errorf("of the sum: %d runs, %d without a value, alarms %v in %q", r.Runs, r.Nulls, r.Alarms, r.Unit)
		}
		w.stop()
	})
}

// A window up to now holds whole slots, as many as it is long, whenever it is asked for.
func TestARateUpToNowIsOfWholeSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, `
checks:
  traffic:
    every: 10s
    value: count(span_duration_seconds{operation="GET /a"}[-30S:-0M]) / 30
    threshold: {must: ">", of: 0.9, critical: 0}
    soft: 1 of 1
`)
		w.traffic(2*time.Minute, map[string]float64{"GET /a": 0.1})
		began := time.Now()
		for range 20 {
			w.traffic(7*time.Second, map[string]float64{"GET /a": 0.1})
			r, err := w.Evaluate(t.Context(), api.CheckEvaluate{Expression: `count(span_duration_seconds{operation="GET /a"}[-30S:-0M]) / 30`})
			if err != nil || r.Value != 1 {
				t.Errorf("after %s: %v requests a second, want 1 (%v)", time.Since(began), r.Value, err)
			}
		}
		w.expect(w.check("traffic"), "OK")
		w.stop()
	})
}

// Weeks before the first request of a service are no outage of it.
func TestBacktestBeginsWithTheData(t *testing.T) {
	for value, must := range map[string]string{
		`p50(span_duration_seconds{operation="GET /a"}[-1M:-0M])`:         "<",
		`count(span_duration_seconds{operation="GET /a"}[-30S:-0M]) / 30`: ">",
	} {
		testBacktestBeginsWithTheData(t, value, must)
	}
}

func testBacktestBeginsWithTheData(t *testing.T, value, must string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, `
checks:
  p50:
    every: 10s
    value: p50(span_duration_seconds{operation="GET /a"}[-1M:-0M])
    threshold: {must: "<", of: 1, critical: 0}
`)
		began := time.Now()
		w.traffic(5*time.Minute, map[string]float64{"GET /a": 0.1})
		r, err := w.Backtest(t.Context(), api.CheckBacktest{Value: value, Threshold: &api.CheckThreshold{Must: must, Of: map[string]string{"<": "1", ">": "0.9"}[must]}, Every: 10, Start: api.Float(began.Add(-14 * 24 * time.Hour).Unix())})
		if err != nil {
			t.Fatal(err)
		}
		if r.Start < began.Unix()-20 || r.Nulls > 2 || r.Runs < 20 || r.Runs > 32 || len(r.Alarms) != 0 {
			t.Errorf("%s: start %d, began %d, %d runs, %d without a value, alarms %v", value, r.Start, began.Unix(), r.Runs, r.Nulls, r.Alarms)
		}
		w.stop()
	})
}
