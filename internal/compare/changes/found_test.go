package changes

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/compare"
	"tailscope/internal/judge"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
	"tailscope/internal/trials"
)

// traffic is one operation of a service: requests a slot, which vary by a tenth and
// persist, with a share that fails.
type traffic struct {
	service, operation string
	requests, failed   func(slot int) float64
	slow               func(slot int) float64
}

func always(v float64) func(int) float64 { return func(int) float64 { return v } }

func from(at int, before, after float64) func(int) float64 {
	return func(slot int) float64 {
		if slot < at {
			return before
		}
		return after
	}
}

// flow writes slots of traffic, of so many seconds each, into a store. Durations, rates
// and shares of errors of an operation wander by themselves, and persist with phi.
func flow(t testing.TB, rng *rand.Rand, slots int, step series.Resolution, phi float64, all ...traffic) store.Store {
	t.Helper()
	b := &store.Batch{Writer: "flow", Generation: 1, Resolution: step}
	wander := make([][3]float64, len(all))
	for i, f := range all {
		for _, status := range []string{"ok", "error"} {
			b.Series = append(b.Series, series.Series{Family: series.SpanDuration, View: series.Marginal, Labels: labels.FromStrings("service", f.service,
				"operation", f.operation, "component", "app", "kind", "server", "status", status, "instance", "i")})
		}
		for j := range wander[i] {
			wander[i][j] = 0.1 * rng.NormFloat64()
		}
	}
	for slot := range slots {
		for i, f := range all {
			for j := range wander[i] {
				wander[i][j] = phi*wander[i][j] + 0.1*math.Sqrt(1-phi*phi)*rng.NormFloat64()
			}
			counts := [2]int{trials.Poisson(rng, f.requests(slot)*math.Exp(wander[i][0]))}
			for range counts[0] {
				if rng.Float64() < f.failed(slot)*math.Exp(wander[i][1]) {
					counts[0], counts[1] = counts[0]-1, counts[1]+1
				}
			}
			slow := 1.0
			if f.slow != nil {
				slow = f.slow(slot)
			}
			for j, n := range counts {
				if n == 0 {
					continue
				}
				h := hist.New(hist.DefaultSchema)
				for range n {
					if err := h.Record(0.05 * slow * math.Exp(wander[i][2]+0.6*rng.NormFloat64())); err != nil {
						t.Fatal(err)
					}
				}
				data, err := h.AppendBinary(nil)
				if err != nil {
					t.Fatal(err)
				}
				b.Points = append(b.Points, store.Point{Series: uint32(2*i + j), Slot: epoch + int64(slot)*int64(step), Data: data})
			}
		}
	}
	st := storetest.NewTwin()
	if err := st.Put(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return st
}

// Errors that rise from 1 to 3 %, and load that rises by half, are found within five
// slots: what changed, when, and by how much.
func TestErrorsAndRatesAreFound(t *testing.T) {
	trials := trials.Of(20)
	const slots, at = 360, 200
	for _, c := range []struct {
		of               string
		requests, failed func(int) float64
		sentence, name   string
		measure          string
		low, high        float64 // holds the effect
	}{
		{Errors, always(200), from(at, 0.01, 0.03), "the share of errors of GET /cart of shop is ", "errors of GET /cart more errors", "errors", 0.015, 0.025},
		{Rate, from(at, 100, 150), always(0.01), "the rate of GET /cart of shop is ", "rate of GET /cart higher", "rate", 1.35, 1.65},
	} {
		t.Run(c.of, func(t *testing.T) {
			found5, inside := 0, 0
			for i := range trials {
				st := flow(t, rand.New(rand.NewPCG(31, uint64(i))), slots, series.Base, 0.5, traffic{"shop", "GET /cart", c.requests, c.failed, nil})
				r := found(t, NewFinder(st), asked(0, 10*slots, "operation", "GET /cart"))
				for _, x := range r.Changes {
					if math.Abs(float64(x.Time)-float64(epoch+10*at)) > 50 || !slices.Contains(x.Found, c.of) {
						continue
					}
					found5++
					m := x.Measures[slices.IndexFunc(x.Measures, func(m api.CompareMeasure) bool { return m.Name == c.measure })]
					if m.Raw.Low <= m.Raw.Effect && c.low <= float64(m.Raw.Effect) && float64(m.Raw.Effect) <= c.high {
						inside++
					}
					if len(x.Found) == 1 && m.Verdict != judge.TooLittle && (!strings.HasPrefix(x.Headline, c.sentence) || x.Name != c.name) {
						t.Errorf("trial %d: %q, %q", i, x.Headline, x.Name)
					}
					if len(x.Found) == 1 && c.of == Rate && x.Verdict != judge.Changed {
						t.Errorf("trial %d: %q is %s", i, x.Headline, x.Verdict)
					}
				}
			}
			t.Logf("%d trials: found within five slots in %d, %d effects near the truth", trials, found5, inside)
			if float64(found5) < 0.95*float64(trials) || float64(inside) < 0.9*float64(found5) {
				t.Errorf("%d trials: found within five slots in %d, %d effects near the truth", trials, found5, inside)
			}
		})
	}
}

// Of services that a day goes by in without a change, at most one in twenty has a change
// found, whatever is searched.
func TestFalseAlarmsOfADay(t *testing.T) {
	count := trials.Of(4)
	for _, phi := range []float64{0, 0.5, 0.9} {
		alarms := 0
		of := map[string]int{}
		for i := range count {
			st := flow(t, rand.New(rand.NewPCG(32+uint64(100*phi), trials.First()+uint64(i))), 1440, series.Minute, phi,
				traffic{"shop", "GET /cart", always(80), always(0.01), nil}, traffic{"shop", "GET /search", always(40), always(0.002), nil})
			r := found(t, NewFinder(st), asked(0, 86400))
			if len(r.Changes) > 0 {
				alarms++
			}
			for _, x := range r.Changes {
				if len(x.Measures) == 0 {
					of["short spikes"]++
				}
				for _, f := range x.Found {
					of[f]++
				}
			}
		}
		t.Logf("%d days, correlation %v: %d with a change: %v", count, phi, alarms, of)
		if float64(alarms) > 0.05*float64(count)+2.5*math.Sqrt(0.05*float64(count)) {
			t.Errorf("%d days, correlation %v: %d with a change: %v", count, phi, alarms, of)
		}
	}
}

// Where slots are long it is said up to when a change can be found.
func TestNewestThatIsSearched(t *testing.T) {
	end := moment(86400).Unix()
	for slot, want := range map[int64]string{10: "", 600: "nothing newer than 2026-05-10 06:20 UTC can be found in slots of 10 min; ask for a shorter range"} {
		if got := strings.Join(searchedUntil(&api.ChangesResponse{Range: api.Range{End: end}, Slot: slot}), " "); got != want {
			t.Errorf("slots of %d s: %q, want %q", slot, got, want)
		}
	}
}

// A service that begins within the range has a rate from its first whole slot on.
func TestRateOfAServiceThatBegins(t *testing.T) {
	st := flow(t, rand.New(rand.NewPCG(33, 1)), 200, series.Base, 0.3, traffic{"old", "GET /", always(50), always(0), nil},
		traffic{"new", "GET /", func(slot int) float64 { return []float64{0, 30, 200}[min(2, max(0, slot-39))] }, always(0), nil})
	r := asked(0, 2000)
	s, err := compare.Read(t.Context(), st, compare.Request{Selection: r.Selection, Now: r.Now, Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range s.Parts() {
		errors, rate := s.Tallies(p)
		first := map[string]int{"old": 0, "new": 41}[p.Service]
		if got := occupied(rate); got[0] != first || len(got) != 200-first {
			t.Errorf("%s has a rate from slot %d on, in %d", p.Service, got[0], len(got))
		}
		if got := occupied(errors); got[0] != max(0, first-1) {
			t.Errorf("%s has requests from slot %d on", p.Service, got[0])
		}
	}
}
