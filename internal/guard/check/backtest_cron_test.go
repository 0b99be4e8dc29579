package check

import (
	"testing"
	"testing/synctest"
	"time"

	"tailscope/api"
)

// A backtest of what runs by a clock, or after that, has the runs that there were.
func TestBacktestGoesByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, `
checks:
  hourly: {value: {tcp: {address: "hourly:80"}}, cron: "7 * * * *"}
  follows: {value: {tcp: {address: "follows:80"}}, after: hourly, delay: 30s}
`)
		for hour := range 12 {
			v := 1.0
			if hour >= 5 && hour < 8 {
				v = 3
			}
			w.probe.set("hourly:80", v)
			w.probe.set("follows:80", v)
			time.Sleep(time.Hour)
		}
		for _, name := range []string{"hourly", "follows"} {
			r, err := w.Backtest(t.Context(), api.CheckBacktest{Check: name, Start: api.UnixTime(time.Now().Add(-12 * time.Hour)),
				Threshold: &api.CheckThreshold{Must: "<", Of: "2", Critical: "0"}, States: &api.CheckStates{Bad: "2 of 2"}})
			if err != nil {
				t.Fatal(err)
			}
			if r.Runs != 12 || r.Nulls != 0 || len(r.Alarms) != 1 || r.Seconds != 7200 {
				t.Errorf("%s: %d runs, %d nulls, not OK for %g s, alarms %+v", name, r.Runs, r.Nulls, float64(r.Seconds), r.Alarms)
			}
		}
		w.stop()
	})
}
