package stat

import (
	"math"
	"math/rand/v2"
	"testing"

	"tailscope/internal/trials"
)

// sharesAt draws n observations a slot of which a share is of interest, whose logit wanders.
func sharesAt(r *rand.Rand, n int, phi, spread float64, share []float64) (t Tally) {
	wander := medians(r, len(share), phi, spread)
	for i, p := range share {
		odds := p / (1 - p) * math.Exp(wander[i])
		num := 0.0
		for range n {
			if r.Float64() < odds/(1+odds) {
				num++
			}
		}
		t.Num, t.Den = append(t.Num, num), append(t.Den, float64(n))
	}
	return t
}

// A share that rose and stays, wanders, or falls by half is hardly ever said to be back; one that is back
// is so within six slots, and since when it is.
func TestReturn(t *testing.T) {
	trials := trials.Of(200)
	const usual, rose, since, back = 60, 0.1, 60, 6
	level := func(end int, left float64) []float64 {
		out := make([]float64, since+back)
		for i := range out {
			if out[i] = rose; i >= end {
				out[i] = left
			}
		}
		return out
	}
	for _, c := range []struct {
		name        string
		n           int
		phi, spread float64
		share       []float64
		least, most float64
	}{
		{"lasts, few requests", 10, 0, 0, level(since+back, 0), 0, 0},
		{"lasts", 100, 0.5, 0.2, level(since+back, 0), 0, 0.01},
		{"lasts and wanders", 100, 0.9, 0.5, level(since+back, 0), 0, 0.03},
		{"half is left", 100, 0.5, 0.2, level(since, 0.05), 0, 0.03},
		{"back", 100, 0.5, 0.2, level(since, 0.01), 0.9, 1},
		{"back, of much traffic", 600, 0.9, 0.3, level(since, 0.01), 0.7, 1},
		{"back at once", 100, 0.5, 0.2, level(3, 0.01), 0.85, 1},
	} {
		r, found, placed := source(31), 0, 0
		for range trials {
			before := make([]float64, usual)
			for i := range before {
				before[i] = 0.01
			}
			at, ok, err := FindReturn(sharesAt(r, c.n, c.phi, c.spread, before), sharesAt(r, c.n, c.phi, c.spread, c.share))
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				continue
			}
			found++
			end := since
			if c.name == "back at once" {
				end = 3
			}
			if abs(at-end) <= 1 {
				placed++
			}
		}
		t.Logf("%s: back in %d of %d trials, where it is in %d", c.name, found, trials, placed)
		if share := float64(found) / float64(trials); share < c.least || share > c.most {
			t.Errorf("%s: back in %d of %d trials, want %g to %g", c.name, found, trials, c.least, c.most)
		}
		if c.least > 0 && float64(placed) < 0.9*float64(found) {
			t.Errorf("%s: placed in %d of %d", c.name, placed, found)
		}
	}
	if _, _, err := FindReturn(Tally{Num: []float64{1}}, Tally{}); err == nil {
		t.Error("a tally without as many slots of both sums is no error")
	}
	if _, ok, err := FindReturn(Tally{}, Tally{}); ok || err != nil {
		t.Errorf("without slots: %v, %v", ok, err)
	}
}
