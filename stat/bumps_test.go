package stat

import (
	"math"
	"math/rand/v2"
	"testing"

	"tailscope/hist"
)

// humps returns a side of slots with so many requests each, of which a share lies about
// the upper of two values and the others about the lower.
func humps(t *testing.T, rng *rand.Rand, slots, requests int, lower, upper, share, spread float64) Side {
	t.Helper()
	all := make([]*hist.Histogram, slots)
	for i := range all {
		all[i] = hist.New(hist.DefaultSchema)
		for range requests {
			at := lower
			if rng.Float64() < share {
				at = upper
			}
			if err := all[i].Record(at * math.Exp(spread*rng.NormFloat64())); err != nil {
				t.Fatal(err)
			}
		}
	}
	s, err := NewSeries(all)
	if err != nil {
		t.Fatal(err)
	}
	return Side{s}
}

// A quantile between two bumps is told from one that moved, and its shares are known.
func TestBetween(t *testing.T) {
	for _, c := range []struct {
		name                           string
		lowerA, upperA, lowerB, upperB float64
		shareA, shareB, spread, p      float64
		want                           bool
	}{
		{"the median jumps", 0.005, 0.3, 0.005, 0.3, 0.3, 0.7, 0.4, 0.5, false},
		{"the median may be in either", 0.005, 0.3, 0.005, 0.3, 0.5, 0.5, 0.4, 0.5, true},
		{"p99 at the foot of time-outs", 0.02, 5, 0.02, 5, 0.008, 0.012, 0.4, 0.99, true},
		{"one bump comes", 0.005, 0.3, 0.005, 0.3, 0, 0.52, 0.3, 0.5, true},
		{"the median within the lower", 0.005, 0.3, 0.005, 0.3, 0.2, 0.22, 0.4, 0.5, false},
		{"all ten times as slow", 0.005, 0.005, 0.05, 0.05, 0, 0, 0.4, 0.5, false},
		{"both bumps move", 0.005, 0.3, 0.01, 0.6, 0.2, 0.2, 0.4, 0.5, false},
		{"both bumps move by four", 0.005, 0.05, 0.02, 0.2, 0.3, 0.3, 0.3, 0.5, false},
		{"a long tail", 0.05, 0.05, 0.09, 0.09, 0, 0, 1.5, 0.999, false},
	} {
		const trials = 20
		got := 0
		for i := range trials {
			rng := rand.New(rand.NewPCG(71, uint64(i)))
			a := humps(t, rng, 60, 120, c.lowerA, c.upperA, c.shareA, c.spread)
			b := humps(t, rng, 60, 120, c.lowerB, c.upperB, c.shareB, c.spread)
			of, err := Quantile(a, b, c.p, nil, Options{})
			if err != nil {
				t.Fatal(err)
			}
			bumps, share, ok, err := Between(a, b, c.p, nil, &of, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				continue
			}
			got++
			if c.want && (math.Abs(math.Log(bumps.Lower/c.lowerA)) > 0.25 || math.Abs(math.Log(bumps.Upper/c.upperB)) > 0.3 || math.Abs(share.A-c.shareA) > 0.04 || math.Abs(share.B-c.shareB) > 0.04) {
				t.Errorf("%s: bumps %+v, shares %v and %v", c.name, bumps, share.A, share.B)
			}
		}
		t.Logf("%s: %d of %d", c.name, got, trials)
		if c.want && got < trials-1 || !c.want && got > 0 {
			t.Errorf("%s: between in %d of %d, want %v", c.name, got, trials, c.want)
		}
	}
}
