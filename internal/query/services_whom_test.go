package query

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/query/querytest"
	"tailscope/internal/store/storetest"
	"tailscope/internal/trials"
)

// Of 20 worlds each, for whom a service is worse is said of those alone who feel it, and of
// most of them. initech is always slow, so that its requests are many of those that are bad.
func TestForWhomAServiceIsWorse(t *testing.T) {
	const worlds, before, incident = 20, 2400, 120
	tenants := []struct {
		name  string
		share float64
		slow  float64
	}{{"globex", 0.3, 1}, {"initech", 0.2, 3}, {"umbrella", 0.2, 1}, {"acme", 0.2, 1}, {"hooli", 0.1, 1}}
	type request struct {
		tenant  string
		seconds float64
		failed  bool
	}
	for _, c := range []struct {
		name   string
		change func(rng *rand.Rand, one string, r *request) // of a request in the incident
		want   string                                       // a sentence that may be said besides none; ONE is the tenant
		least  int                                          // worlds in which it is said
	}{
		{"one slow", func(_ *rand.Rand, one string, r *request) {
			if r.tenant == one {
				r.seconds *= 4
			}
		}, "worst for ONE", 15},
		{"one fails", func(rng *rand.Rand, one string, r *request) {
			r.failed = r.tenant == one && rng.Float64() < 0.5
		}, "worst for ONE", 15},
		{"all slow", func(_ *rand.Rand, _ string, r *request) { r.seconds *= 3 }, "worse for all tenants", 15},
		{"all fail", func(rng *rand.Rand, _ string, r *request) { r.failed = rng.Float64() < 0.3 }, "worse for all tenants", 15},
		{"none: more of who is always slow", func(rng *rand.Rand, _ string, r *request) {
			if rng.Float64() < 0.7 {
				if r.tenant != "initech" {
					r.seconds *= 3
				}
				r.tenant = "initech"
			}
		}, "", worlds},
		{"none", func(*rand.Rand, string, *request) {}, "", worlds},
	} {
		said := map[string]int{}
		worse := 0
		for world := range uint64(worlds) {
			rng := rand.New(rand.NewPCG(trials.First()+world, 11))
			one := tenants[rng.IntN(len(tenants))].name
			st, w := storetest.NewTwin(), querytest.NewWriter()
			for second := range int64(before + incident) {
				for range 8 {
					at, u := 0, rng.Float64()
					for u > tenants[at].share && at < len(tenants)-1 {
						u -= tenants[at].share
						at++
					}
					r := request{tenant: tenants[at].name, seconds: 0.02 * tenants[at].slow * math.Exp(0.5*rng.NormFloat64()), failed: rng.Float64() < 0.005}
					if second >= before {
						c.change(rng, one, &r)
					}
					w.Span(epoch+second, labels.FromStrings("service", "shop", "kind", "server", "tenant", r.tenant, "status", map[bool]string{false: "ok", true: "error"}[r.failed]), r.seconds)
				}
			}
			if err := w.Put(t.Context(), st, 1); err != nil {
				t.Fatal(err)
			}
			end := epoch + before + incident
			sv, err := Services(t.Context(), st, ServicesRequest{
				Selection: Selection{Start: at(epoch), End: at(end)}, Now: at(end).Add(Whole), Usual: &UsualCache{}, Whom: &WhomCache{},
			})
			if err != nil {
				t.Fatal(err)
			}
			s := sv.Services[0]
			if s.State == api.Worse {
				worse++
			}
			sentence := ""
			if s.Whom != nil {
				sentence = s.Whom.Sentence
			}
			want := c.want
			if want == "worst for ONE" {
				want = "worst for " + one
			}
			switch sentence {
			case want:
				said[c.want]++
			case "":
				said[""]++
			default:
				t.Errorf("%s, world %d: %q, want %q: %s", c.name, world, sentence, want, s.Why)
			}
		}
		t.Logf("%s: worse in %d of %d, said %v", c.name, worse, worlds, said)
		if said[c.want] < c.least {
			t.Errorf("%s: %q is said in %d of %d worlds, want %d", c.name, c.want, said[c.want], worlds, c.least)
		}
	}
}

// Of many tenants with few requests each the cohort is named, where it is not one of them.
func TestForWhichCohortAServiceIsWorse(t *testing.T) {
	share := func(bad, all float64) badShare { return badShare{bad, all, all} }
	many := func(bad, wasBad float64) (out []riser) {
		for i := range 40 {
			out = append(out, riser{fmt.Sprintf("small-%02d", i), share(bad, 10), share(wasBad, 600)})
		}
		return out
	}
	for _, c := range []struct {
		name string
		of   []riser
		want string
	}{
		{"the small", append(many(8, 6), riser{"globex", share(10, 1000), share(600, 60000)}), "medium tenants"},
		{"one of them", append(append(many(0.1, 6), riser{"loud", share(29, 29), share(6, 600)}), riser{"globex", share(10, 1000), share(600, 60000)}), ""},
		{"nobody", append(many(0.1, 6), riser{"globex", share(10, 1000), share(600, 60000)}), ""},
	} {
		got := ""
		if found := cohortsOfRisers(c.of, nil); found != nil {
			got = found.Cohort + " tenants"
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
