package stat

import (
	"math"
	"testing"

	"tailscope/internal/trials"
)

// Where the true ratio is that of the margin, to either side, at most 5 % are said to lie
// beyond it and at most 5 % within; of the probabilities below 0.01, which lists of many
// rest on, as few are as say so.
func TestErrorsAtAMargin(t *testing.T) {
	n := trials.Of(60)
	for _, c := range []struct {
		name            string
		slots, requests int
		phi, p, margin  float64
	}{
		{"p50 of half an hour", 180, 40, 0, 0.5, 0.05},
		{"p95 of an hour, correlation 0.6", 360, 20, 0.6, 0.95, 0.15},
		{"p99 of few requests", 60, 20, 0, 0.99, 0.6},
		{"p99 of fewer", 60, 8, 0, 0.99, 1},
	} {
		for _, side := range []float64{1, -1} {
			truth := side * math.Log1p(c.margin)
			beyond, surely, within, same := 0, 0, 0, 0
			for i := range n {
				r := source(trials.First() + uint64(i))
				a := sideAround(r, medians(r, c.slots, c.phi, 0.15), c.requests, 0)
				b := sideAround(r, medians(r, c.slots, c.phi, 0.15), c.requests, truth)
				x, err := Quantile(Side{a}, Side{b}, c.p, nil, Options{})
				if err != nil {
					t.Fatal(err)
				}
				switch p := x.Beyond(math.Log1p(c.margin)); {
				case p < 0.01:
					surely++
					fallthrough
				case p < 0.05:
					beyond++
				}
				switch p := x.Within(c.margin); {
				case p < 0.01:
					same++
					fallthrough
				case p < 0.05:
					within++
				}
			}
			t.Logf("%s, truth %+.2f: of %d, beyond %d, below 0.01 %d; within %d, below 0.01 %d", c.name, truth, n, beyond, surely, within, same)
			most := func(share float64) int { // three deviations
				return int(share*float64(n) + 3*math.Sqrt(share*float64(n)) + 1)
			}
			if beyond > most(0.05) || within > most(0.05) || surely > most(0.01) || same > most(0.01) {
				t.Errorf("%s, truth %+.2f: too many", c.name, truth)
			}
		}
	}
}
