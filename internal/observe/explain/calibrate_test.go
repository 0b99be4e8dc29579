package explain

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/trials"
)

// alike draws a table in which nothing has to do with the rectangle: tenants
// and operations whose requests come and go, each by itself, with the given
// correlation of neighbouring slots, and a share inside that wanders for all of
// them together.
func alike(rng *rand.Rand, window, rest int, phi, perSlot float64) *table {
	t := &table{window: window, rest: rest, index: map[string]int{}}
	walk := func(sd float64) []float64 {
		x, out := sd*rng.NormFloat64(), make([]float64, window+rest)
		for i := range out {
			out[i] = math.Exp(x)
			x = phi*x + sd*math.Sqrt(1-phi*phi)*rng.NormFloat64()
		}
		return out
	}
	inside := walk(0.5)
	q := 0.02 + 0.3*rng.Float64()
	const operations, tenants = 4, 6
	var byOperation, byTenant [][]float64
	for range operations {
		byOperation = append(byOperation, walk(0.3))
	}
	for range tenants {
		byTenant = append(byTenant, walk(0.3))
	}
	for o := range operations {
		for n := range tenants {
			c := t.empty()
			for i := range c.all {
				c.all[i] = float64(trials.Poisson(rng, perSlot/(1+float64(n))*byOperation[o][i]*byTenant[n][i]))
				if i < window {
					p := min(0.9, q*inside[i])
					for range int(c.all[i]) {
						if rng.Float64() < p {
							c.in[i]++
						}
					}
				}
			}
			t.rows = append(t.rows, c)
			t.labels = append(t.labels, labels.FromStrings("operation", fmt.Sprint("op-", o), "tenant", fmt.Sprint("t-", n)))
		}
	}
	return t
}

// favour gives the first tenant so many times its requests inside, as far as
// it has that many.
func favour(t *table, times float64) {
	for i, l := range t.labels {
		if l.Get("tenant") != "t-0" {
			continue
		}
		for s, v := range t.rows[i].in {
			t.rows[i].in[s] = min(t.rows[i].all[s], math.Round(v*times))
		}
	}
}

func judged(t *table) *api.ExplainResponse {
	q := &question{Request: Request{Limit: maxLimit, Against: Rest}, what: "requests", each: 1, out: &api.ExplainResponse{}}
	q.judge(t, t, t.total())
	return q.out
}

// Where labels have nothing to do with the rectangle, hardly a rectangle of
// twenty names one, and hardly one a pair. TAILSCOPE_TRIALS measures it better.
func TestFalseAlarms(t *testing.T) {
	trials := trials.Of(20)
	for _, c := range []struct {
		name         string
		window, rest int
	}{{"all the time", 60, 0}, {"a third", 40, 80}, {"two thirds", 60, 30}, {"nearly all", 60, 5}, {"a tenth", 30, 60}, {"a few slots", 6, 60}} {
		for _, phi := range []float64{0, 0.6, 0.9} {
			t.Run(fmt.Sprintf("%s/%v", c.name, phi), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(7, uint64(100*phi)))
				var byLabel, byPair int
				for range trials {
					var label, pair int
					for _, i := range judged(alike(rng, c.window, c.rest, phi, 12)).Items {
						if len(i.Labels) == 2 {
							pair = 1
						} else {
							label = 1
						}
					}
					byLabel, byPair = byLabel+label, byPair+pair
				}
				n := float64(trials)
				t.Logf("labels %.1f %%, pairs %.1f %%", 100*float64(byLabel)/n, 100*float64(byPair)/n)
				most := 0.05*n + 3*math.Sqrt(0.05*n)
				if float64(byLabel) > most || float64(byPair) > most {
					t.Errorf("%d of %d name a label, %d a pair", byLabel, trials, byPair)
				}
			})
		}
	}
}

// A tenant that is twice as often inside is found, by itself.
func TestFound(t *testing.T) {
	trials := trials.Of(10)
	for _, c := range []struct {
		name         string
		window, rest int
	}{{"all the time", 60, 0}, {"a third", 40, 80}, {"a few slots", 6, 60}} {
		for _, phi := range []float64{0, 0.6} {
			t.Run(fmt.Sprintf("%s/%v", c.name, phi), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(8, uint64(100*phi)))
				found, first := 0, 0
				for range trials {
					x := alike(rng, c.window, c.rest, phi, 12)
					favour(x, 2)
					for n, i := range judged(x).Items {
						if i.Labels["tenant"] == "t-0" && len(i.Labels) == 1 {
							if found++; n == 0 {
								first++
							}
						}
					}
				}
				t.Logf("found in %.1f %%, first in %.1f %%", 100*float64(found)/float64(trials), 100*float64(first)/float64(trials))
				if c.window >= fewestSlots && 2*found < trials {
					t.Errorf("found in %d of %d", found, trials)
				}
			})
		}
	}
}
