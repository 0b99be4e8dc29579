package verdicts

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/judge"
)

// changes returns the change points of services, without their operations'.
func (w *world) changes(match string, from, to time.Duration) (found []api.Change) {
	w.t.Helper()
	r, err := w.Changes(w.t.Context(), api.ChangesRequest{Match: match, Start: unix(epoch.Add(from)), End: unix(epoch.Add(to))})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range r.Changes {
		if c.Operation == "" {
			found = append(found, c)
		}
	}
	return found
}

// Errors that rise and a load that rises are change points, dated to five slots, and said.
func TestErrorsAndRatesAreChangePoints(t *testing.T) {
	loads := with(crowd("shop", 6), func(l *load) { l.failed = 0.01 })
	for _, c := range []struct {
		name, measure string
		change        func(l *load)
	}{
		{"errors 1 to 6 %", judge.ErrorShare, func(l *load) { l.failed = 0.06 }},
		{"load times 3", judge.Rate, func(l *load) { l.perSecond *= 3 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			trials(t, 0.95, func(w *world) (bool, string) {
				w.send(40*time.Minute, loads...)
				moment := w.clock()
				w.send(40*time.Minute, with(loads, c.change)...)
				found := w.changes(`{service="shop"}`, 0, 80*time.Minute)
				for _, f := range found {
					for _, m := range f.Measures {
						if m.Name == c.measure && judge.Moved(m.Verdict) && math.Abs(float64(f.Time)-float64(moment.Unix())) <= 50 {
							var others []string
							for _, o := range found {
								if o.ID != f.ID {
									others = append(others, o.Sentence)
								}
							}
							return true, all(f.Sentence, "| others:", others)
						}
					}
				}
				return false, all(len(found), "found, not this one")
			})
		})
	}
}

// A change of which only two minutes are known has its figure, from slots of one second.
func TestNewestChangeHasAFigure(t *testing.T) {
	loads := []load{{service: "shop", operation: "GET /cart", perSecond: 20, median: 0.05}}
	trials(t, 0.95, func(w *world) (bool, string) {
		w.send(20*time.Minute, loads...)
		w.sendEvery(10*time.Minute, 10*time.Second, loads...)
		moment := w.clock()
		w.sendEvery(150*time.Second, 10*time.Second, with(loads, slow("", "", 2))...)
		said := []string{}
		for _, f := range w.changes(`{service="shop"}`, 0, 33*time.Minute) {
			said = append(said, f.Sentence)
			if math.Abs(float64(f.Time)-float64(moment.Unix())) <= 50 && f.Verdict == judge.Regression && strings.Contains(f.Headline, ", provisionally, on ") {
				return true, f.Sentence
			}
		}
		return false, strings.Join(said, " | ")
	})
}

// Stationary traffic of services is as quiet where a span stands for 32 requests as where it
// stands for one.
func TestWeightsRaiseNoAlarm(t *testing.T) {
	const services = 4
	for _, weight := range []int{1, 32} {
		t.Run(fmt.Sprint("weight ", weight), func(t *testing.T) {
			trials(t, 0.95, func(w *world) (bool, string) {
				var loads []load
				for s := range services {
					for tenant := range 6 {
						loads = append(loads, load{service: fmt.Sprint("service-", s), operation: "GET /cart", tenant: fmt.Sprint("tenant-", tenant),
							perSecond: 0.4, median: 0.5, spread: 0.8, failed: 0.02, weight: weight})
					}
				}
				w.send(time.Hour, loads...)
				var said []string
				for _, c := range w.changes("", 0, time.Hour) {
					said = append(said, c.Sentence)
				}
				for s := range services {
					r, err := w.SLA(w.t.Context(), api.SLARequest{Match: fmt.Sprintf(`{service="service-%d"}`, s), Period: "day", Count: 1, End: unix(epoch.Add(time.Hour))})
					if err != nil {
						w.t.Fatal(err)
					}
					if len(r.Rows) > 0 && r.Rows[len(r.Rows)-1].Worst != nil {
						said = append(said, fmt.Sprintf("service-%d has a worst tenant", s))
					}
				}
				return len(said) == 0, strings.Join(said, " | ")
			})
		})
	}
}

// A sampler that is switched on, or off, midway changes nothing.
func TestSamplersThatChangeRaiseNoAlarm(t *testing.T) {
	loads := []load{{service: "shop", operation: "GET /cart", tenant: "a", perSecond: 16, median: 0.1}, {service: "shop", operation: "GET /search", tenant: "b", perSecond: 16, median: 0.2, failed: 0.02}}
	sampled := func(weight int) []load {
		return with(loads, func(l *load) { l.perSecond, l.weight = l.perSecond/float64(weight), weight })
	}
	for _, c := range [][2]int{{1, 32}, {1, 8}, {8, 1}} {
		t.Run(fmt.Sprint("weight ", c[0], " then ", c[1]), func(t *testing.T) {
			trials(t, 0.95, func(w *world) (bool, string) {
				w.send(time.Hour, sampled(c[0])...)
				w.send(time.Hour, sampled(c[1])...)
				found := w.changes("", 0, 2*time.Hour)
				var said []string
				for _, f := range found {
					said = append(said, f.Sentence)
				}
				return len(found) == 0, strings.Join(said, " | ")
			})
		})
	}
}

// became asks what is beyond 300 ms in the hour after the change.
func (w *world) became() *api.ExplainResponse {
	w.t.Helper()
	low := 0.3
	r, err := w.Explain(w.t.Context(), api.ExplainRequest{
		Selection: api.Selection{Match: `{service="shop"}`, Start: unix(epoch), End: unix(epoch.Add(2 * time.Hour))},
		From:      unix(epoch.Add(time.Hour)), To: unix(epoch.Add(2 * time.Hour)), Low: &low,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// names says that one of the items is of the labels, and nothing else.
func names(items []api.ExplainItem, value string) bool {
	for _, i := range items {
		for _, v := range i.Labels {
			if v == value {
				return true
			}
		}
	}
	return false
}

func listed(r *api.ExplainResponse) string {
	var out []string
	for _, i := range r.Items[:min(3, len(r.Items))] {
		out = append(out, i.Sentence)
	}
	return strings.Join(append(append(out, r.Sentence), r.Notes...), " | ")
}

// Who became slow is named first, a second cause among the first three, and nobody where
// nothing did, however slow somebody always was.
func TestWhoBecameSlow(t *testing.T) {
	loads := append(crowd("shop", 6), load{service: "shop", operation: "GET /report", tenant: "tenant-1", perSecond: 0.5, median: 0.8})
	for _, c := range []struct {
		name   string
		change func(l *load)
		right  func(items []api.ExplainItem) bool
	}{
		{"one cause", slow("", "tenant-3", 3), func(items []api.ExplainItem) bool { return len(items) > 0 && names(items[:1], "tenant-3") }},
		{"two causes", func(l *load) { slow("", "tenant-3", 3)(l); slow("GET /search", "tenant-7", 5)(l) },
			func(items []api.ExplainItem) bool {
				first := items[:min(3, len(items))]
				return names(first, "tenant-3") && names(first, "tenant-7")
			}},
		{"no cause", func(*load) {}, func(items []api.ExplainItem) bool { return len(items) == 0 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			trials(t, 0.95, func(w *world) (bool, string) {
				w.send(time.Hour, loads...)
				w.send(time.Hour, with(loads, c.change)...)
				r := w.became()
				return c.right(r.Items) && !slices.ContainsFunc(r.Items, func(i api.ExplainItem) bool { return !(i.EffLow <= i.Effect && i.Effect <= i.EffHigh) }), listed(r)
			})
		})
	}
}

// A service in production and in staging is two.
func TestEnvironmentsAreApart(t *testing.T) {
	in := func(environment string, median float64) load {
		return load{service: "cart", operation: "GET /cart", perSecond: 2, median: median, resource: []string{"deployment.environment.name", environment}}
	}
	w := newWorld(t, 1)
	w.send(10*time.Minute, in("production", 0.02), in("staging", 0.9))
	r, err := w.Services(w.t.Context(), api.ServicesRequest{Selection: api.Selection{Start: unix(epoch), End: unix(w.clock())}})
	if err != nil {
		t.Fatal(err)
	}
	var medians []float64
	for _, s := range r.Services {
		medians = append(medians, float64(s.Quantiles["0.5"]))
	}
	t.Logf("medians %v", medians)
	if len(medians) != 2 || math.Abs(math.Log(min(medians[0], medians[1])/0.02)) > 0.1 || math.Abs(math.Log(max(medians[0], medians[1])/0.9)) > 0.1 {
		t.Errorf("the medians of services are %v, want 20 ms in production and 900 ms in staging", medians)
	}
}
