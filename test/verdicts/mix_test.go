package verdicts

import (
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/compare/changes"
)

// A slow tenant that sends more, or is new, is the mix that moved: no tenant became slower.
// One that became slower beside it is said.
func TestTenantsThatSendMoreAreTheMix(t *testing.T) {
	slowTenant := func(perSecond float64) (all []load) {
		for _, operation := range operations {
			all = append(all, load{service: "shop", operation: operation, tenant: "slow", perSecond: perSecond / 4, median: 0.6})
		}
		return all
	}
	for _, c := range []struct {
		name          string
		before, after []load
		tenant        string // that the mix is of; empty if requests became slower as well
	}{
		{"from 9 to 50 %", append(crowd("shop", 10), slowTenant(1)...), append(crowd("shop", 10), slowTenant(10)...), "slow"},
		{"a newcomer", crowd("shop", 6), append(crowd("shop", 6), load{service: "shop", operation: "GET /cart", tenant: "newcomer", perSecond: 3, median: 0.8}), "newcomer"},
		{"and all slower", append(crowd("shop", 10), slowTenant(1)...), with(append(crowd("shop", 10), slowTenant(10)...), slow("", "", 1.5)), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			trials(t, 0.95, func(w *world) (bool, string) {
				w.send(time.Hour, c.before...)
				moment := w.clock()
				w.send(time.Hour, c.after...)
				w.advance(2 * time.Minute)
				r, err := w.Changes(w.t.Context(), api.ChangesRequest{Match: `{service="shop"}`, Start: unix(epoch), End: unix(epoch.Add(2 * time.Hour))})
				if err != nil {
					t.Fatal(err)
				}
				right, said := false, []string{}
				for _, f := range r.Changes {
					said = append(said, f.Sentence)
					if f.Who != nil {
						said = append(said, f.Who.Sentence)
					}
					if f.Low > api.Float(moment.Unix()) || api.Float(moment.Unix()) > f.High {
						continue
					}
					mix := f.Verdict == changes.Mix && strings.Contains(f.Headline, "above all tenant "+c.tenant)
					switch {
					case c.tenant != "" && !mix:
						return false, f.Sentence
					case f.Operation == "":
						right = mix || c.tenant == "" && strings.Contains(f.Headline, "slower") && f.Verdict == "regression"
					}
				}
				return right, strings.Join(said, " | ")
			})
		})
	}
}

// A new tenant that is light and slow is the mix that moved, however long the range is, how
// many requests there are and how much they wander.
func TestLightSlowTenantBegins(t *testing.T) {
	for _, c := range []struct {
		name      string
		length    time.Duration
		perSecond float64
		noise     noise
	}{
		{"two hours", 2 * time.Hour, 12, noise{}},
		{"six hours", 6 * time.Hour, 12, noise{}},
		{"few requests", 2 * time.Hour, 4, noise{}},
		{"noise", 2 * time.Hour, 12, noise{keeps: 0.8, deviation: 0.1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			trials(t, 0.9, func(w *world) (bool, string) {
				w.noise = c.noise
				loads := crowd("edge", c.perSecond)
				w.send(time.Hour, loads...)
				for i, operation := range operations {
					loads = append(loads, load{service: "edge", operation: operation, tenant: "newbie", perSecond: 0.006 * c.perSecond / 4, median: 0.5 * float64(i+1)})
				}
				w.send(c.length-time.Hour, loads...)
				w.advance(2 * time.Minute)
				right, said := true, []string{}
				for _, f := range w.changes(`{service="edge"}`, 0, c.length) {
					said = append(said, f.Sentence)
					right = right && f.Verdict == changes.Mix && strings.Contains(f.Headline, "above all tenant newbie")
				}
				return right, strings.Join(said, " | ")
			})
		})
	}
}
