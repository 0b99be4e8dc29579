package check

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tailscope/api"
)

const lived = `
receivers:
  log: {file: {path: events.log}}
checks:
  fixed: {every: 10s, value: {tcp: {address: "a:80"}}, threshold: {must: "<", of: 10, warning: 10%, critical: 50%}, receivers: [log]}
  own:
    every: 10s
    value: {tcp: {address: "b:80"}}
    threshold: {must: "<", of: 'avg({check="own"}[0:9]) + stddev({check="own"}[-10M:-5M])', warning: 30%, critical: 60%}
    soft: 2 of 3
    recover: 2 of 2
    null: skip
    receivers: [log]
  clock:
    cron: "*/2 * * * *"
    value: {tcp: {address: "c:80"}}
    threshold: {must: ">", of: 'median({check="clock"}[-30M:-10M])', critical: 40%}
    soft: 1 of 1
    null: skip
    receivers: [log]
  virtual:
    every: 30s
    value: avg({check="fixed"}[0:4]) / avg({check="own"}[-5M:-1M])
    threshold: {must: "=", of: 1, warning: 50%, critical: 200%}
    null: skip
    receivers: [log]
`

// What a backtest of a check as it is answers is what the check did: the same
// incidents, to a run. In between the server was down for a while, and a source
// that did not answer, which is not a value.
func TestABacktestIsWhatTheCheckDid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, lived)
		began := time.Now()
		// Noise that repeats, and now and then something bad that lasts.
		feed := func(minutes int) {
			for i := range minutes * 6 {
				for j, address := range []string{"a:80", "b:80", "c:80"} {
					v := 8 + math.Sin(float64(i*(j+3)))
					switch k := (i + 40*j) % 300; {
					case k >= 200 && k < 225:
						v *= 1.3
					case k >= 225 && k < 240:
						v *= 2
					case k == 100, k == 102:
						v *= 2
					}
					if j == 2 {
						v = 16 - v
					}
					w.probe.set(address, v)
				}
				w.probe.mu.Lock()
				if k := i % 400; k >= 350 && k < 360 {
					delete(w.probe.values, "a:80") // refused: UNKNOWN
				}
				if k := i % 300; k >= 30 && k < 42 {
					delete(w.probe.values, "c:80")
				}
				w.probe.mu.Unlock()
				time.Sleep(10 * time.Second)
			}
		}
		feed(180)
		w.stop()
		time.Sleep(20*time.Minute + 3*time.Second)
		w.open(lived)
		feed(180)
		time.Sleep(time.Minute)
		for _, name := range []string{"fixed", "own", "clock", "virtual"} {
			every := map[string]time.Duration{"clock": 2 * time.Minute, "virtual": 30 * time.Second}[name]
			if every == 0 {
				every = 10 * time.Second
			}
			r, err := w.Backtest(t.Context(), api.CheckBacktest{Check: name, Start: api.UnixTime(began)})
			if err != nil {
				t.Fatal(err)
			}
			in, err := w.Incidents(t.Context(), IncidentsRequest{Check: name})
			if err != nil {
				t.Fatal(err)
			}
			slices.Reverse(in.Incidents)
			line := func(start, end api.Float, worst string) string {
				at := func(s api.Float) string {
					if math.IsNaN(float64(s)) {
						return "still"
					}
					return s.Time().Sub(began).Round(time.Second).String()
				}
				return fmt.Sprintf("%s to %s %s\n", at(start), at(end), worst)
			}
			var did, would strings.Builder
			same := len(in.Incidents) == len(r.Alarms)
			for i, k := range in.Incidents {
				did.WriteString(line(k.Start, k.End, k.Worst))
				if same {
					a := r.Alarms[i]
					near := func(x, y api.Float) bool {
						return math.Abs(float64(x-y)) <= every.Seconds()+0.001 || math.IsNaN(float64(x)) && math.IsNaN(float64(y))
					}
					same = near(a.Start, k.Start) && near(a.End, k.End) && a.Worst == k.Worst
				}
			}
			for _, a := range r.Alarms {
				would.WriteString(line(a.Start, a.End, a.Worst))
			}
			if !same || len(in.Incidents) < 4 {
				t.Errorf("%s did\n%sand would have, in %d runs, %d of them null,\n%s", name, &did, r.Runs, r.Nulls, &would)
			}
		}
		w.stop()
	})
}
