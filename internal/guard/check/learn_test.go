package check

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tailscope/api"
)

const learning = `
calendars:
  sweden: {zone: Europe/Stockholm}
profiles:
  usual: {calendar: sweden, learn: {by: hour, over: 1d, least: 5, refresh: {every: 1h}}}
checks:
  orders:
    value: {tcp: {address: "orders:80"}}
    every: 10m
    threshold: {must: "=", of: profile usual, warning: 0, critical: 50%}
`

// A check learns what is usual at each hour of its own values, holds them against
// that, and has not forgotten it after a restart.
func TestLearning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, learning)
		zone, err := time.LoadLocation("Europe/Stockholm")
		if err != nil {
			t.Fatal(err)
		}
		busy := func(m time.Time) bool { h := m.In(zone).Hour(); return h >= 8 && h < 16 }
		for range 27 {
			v := 10.0
			if busy(time.Now()) {
				v = 1000
			}
			w.probe.set("orders:80", v)
			time.Sleep(time.Hour)
		}
		bands := func(when string) {
			t.Helper()
			r, err := w.Get(t.Context(), GetRequest{ID: "orders"})
			if err != nil {
				t.Fatal(err)
			}
			want, b := 10.0, r.Check.Bands
			if busy(time.Unix(int64(r.Check.Last), 0)) {
				want = 1000
			}
			if float64(b.Threshold) != want || float64(b.LowWarning) != want || float64(b.HighCritical) != want*1.5 || !strings.HasPrefix(b.Rule, "profile usual, every day, ") {
				t.Errorf("%s, at %s: got %+v, want %g", when, time.Now(), b, want)
			}
			if !strings.HasPrefix(r.Learned, "# Learned from ") || !strings.Contains(r.Learned, "\n          - 1000..1000..1000             # 12:00\n") {
				t.Errorf("%s: learned %q", when, r.Learned)
			}
		}
		bands("after a day")
		w.probe.set("orders:80", 300)
		time.Sleep(35 * time.Minute)
		w.expect(w.check("orders")[:8], "CRITICAL")
		w.stop()
		w.open(learning)
		time.Sleep(11 * time.Minute)
		bands("after a restart")
		w.stop()
	})
}

// A backtest knows no more than the check could have known: what became usual on
// the second day was an incident on that day, though the check has learned it
// since.
func TestBacktestLearnsAsItGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, learning)
		w.probe.set("orders:80", 10)
		began := time.Now()
		time.Sleep(25 * time.Hour)
		w.probe.set("orders:80", 30)
		jumped := time.Now()
		time.Sleep(26 * time.Hour)
		w.expect(w.check("orders"), "OK")
		for _, threshold := range []*api.CheckThreshold{nil, {Must: "<", Of: "profile usual", Critical: "50%"}} {
			r, err := w.Backtest(t.Context(), api.CheckBacktest{Check: "orders", Start: api.Float(began.Unix()), Threshold: threshold})
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Alarms) == 0 || r.Alarms[0].Worst != "CRITICAL" || float64(r.Alarms[0].Start)-float64(jumped.Unix()) > 40*60 {
				t.Errorf("%+v: alarms %+v, want one of %d", threshold, r.Alarms, jumped.Unix())
			}
			// Nothing is known in the first hour; the next ones take from it.
			if r.NoThreshold < 4 || r.NoThreshold > 12 {
				t.Errorf("%+v: %d of %d runs without a threshold", threshold, r.NoThreshold, r.Runs)
			}
			if threshold != nil && (r.Before == nil || r.Before.Alarms != len(r.Alarms)) {
				t.Errorf("before: %+v, now %d alarms", r.Before, len(r.Alarms))
			}
		}
		w.stop()
	})
}
