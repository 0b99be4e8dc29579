package stat

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The distribution function is the inverse of the quantiles, at any mix, and
// the bounds are where it may bend.
func TestAtMost(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		edges := []float64{1, 1.5, 2, 3, 5, 8, 13}
		slots := rapid.IntRange(1, 4).Draw(rt, "slots") // the strata of a side have the same
		series := func(name string) *Series {
			counts := make([][]float64, slots)
			for i := range counts {
				for range len(edges) - 1 {
					counts[i] = append(counts[i], float64(rapid.IntRange(0, 5).Draw(rt, name)))
				}
			}
			counts[0][2]++ // never empty
			s, err := NewSeriesOfCounts(edges, counts, nil)
			if err != nil {
				rt.Fatal(err)
			}
			return s
		}
		side := Side{series("first"), series("second")}
		w := rapid.Float64Range(0, 1).Draw(rt, "weight")
		mix := []float64{w, 1 - w}
		if rapid.Bool().Draw(rt, "raw") {
			mix = nil
		}
		bounds := Bounds(side)
		shares := side.AtMost(bounds, mix)
		if !slices.IsSorted(bounds) || !slices.IsSorted(shares) || shares[0] != 0 && bounds[0] == 1 || math.Abs(shares[len(shares)-1]-1) > 1e-12 {
			rt.Fatalf("at %v: %v", bounds, shares)
		}
		d := side.mixture(mix)
		for _, p := range []float64{0.01, 0.3, 0.5, 0.95, 0.999} {
			v := d.quantile(p)
			if got := side.AtMost([]float64{v, v * (1 - 1e-9)}, mix); got[0] < p-1e-9 || got[1] > p+1e-6 {
				rt.Fatalf("%v at or below the %v-quantile %v, %v just below it", got[0], p, v, got[1])
			}
		}
	})
	if got := (Side{}).AtMost([]float64{1}, nil); !math.IsNaN(got[0]) {
		t.Errorf("of nothing %v", got)
	}
}
