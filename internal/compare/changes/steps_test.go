package changes

import (
	"math/rand/v2"
	"strings"
	"testing"

	"tailscope/api"
	"tailscope/internal/judge"
	"tailscope/internal/series"
)

// Three steps with three minutes between them are one change, with the value before the first
// and after the last; the same steps a quarter of an hour apart are three.
func TestStepsAreOneChange(t *testing.T) {
	for apart, want := range map[int]int{18: 1, 90: 3} {
		const trials, first = 4, 240
		right, slots := 0, first+3*apart+120
		for i := range uint64(trials) {
			st := flow(t, rand.New(rand.NewPCG(15, i)), slots, series.Base, 0, traffic{"shop", "GET /cart", always(80), always(0), func(slot int) float64 {
				return 1 + 0.5*float64(min(3, max(0, slot-first+apart)/apart))
			}})
			var of []api.Change
			for _, c := range found(t, NewFinder(st), asked(0, int64(10*slots))).Changes {
				if c.Operation == "" && c.Verdict == judge.Regression {
					of = append(of, c)
				}
			}
			if len(of) != want {
				t.Log(len(of), of)
				continue
			}
			if c := of[0]; want > 1 || strings.Contains(c.Headline, " in steps, from ") && c.Shape.End-c.Shape.Start >= 340 && c.Shape.Value/c.Shape.Usual > 2.2 {
				right++
			}
			t.Log(of[0].Sentence)
		}
		if right < trials-1 {
			t.Errorf("steps of %d slots: %d of %d", apart, right, trials)
		}
	}
}

// The called lead what becomes slower, their callers what stops or comes more often.
func TestWhatLeadsAnEvent(t *testing.T) {
	calls := map[string]map[string]bool{"edge": {"orders": true, "stock": true}, "orders": {"stock": true}}
	change := func(service string, verdict api.Verdict, found ...string) *api.Change {
		return &api.Change{ID: service, Service: service, Found: found, Verdict: verdict}
	}
	for _, c := range []struct {
		name    string
		changes []*api.Change
		want    string
		graded  bool // the others stay so
	}{
		{"slower", []*api.Change{change("edge", judge.Regression, Durations), change("stock", judge.Regression, Durations)}, "stock", true},
		{"an outage of the caller", []*api.Change{change("stock", judge.Improvement, Durations), change("orders", judge.Regression, Rate), change("edge", judge.Regression, Rate)}, "edge", false},
		{"a burst", []*api.Change{change("stock", judge.Changed, Rate), change("edge", judge.Changed, Rate)}, "edge", false},
		{"a burst that slows", []*api.Change{change("stock", judge.Regression, Durations), change("edge", judge.Changed, Rate)}, "stock", false},
		{"a lower rate with faster requests", []*api.Change{{ID: "orders", Service: "orders", Found: []string{Rate}, Verdict: judge.Regression, Measures: make([]api.CompareMeasure, 1)}, change("edge", Mix, Durations)}, "edge", false},
		{"another mix", []*api.Change{change("stock", judge.Changed, Rate), change("edge", Mix, Durations)}, "edge", false},
	} {
		e := event{changes: c.changes}
		services := inOrder(e.services(), calls)
		lead := leadOf(services, calls)
		if putUnder(services, calls); lead.ID != c.want {
			t.Errorf("%s: %s leads, want %s", c.name, lead.ID, c.want)
		}
		for _, x := range c.changes {
			if x != lead && (x.Under != lead.ID || (x.Verdict == judge.Changed) == c.graded) {
				t.Errorf("%s: %s is %s under %q", c.name, x.ID, x.Verdict, x.Under)
			}
		}
	}
}
