package stat

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestMediansOf(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 2, 9} {
		for _, slots := range []int{n - 1, n, 50} {
			x := make([]float64, slots)
			for i := range x {
				x[i] = float64(r.IntN(7)) // with ties
			}
			got := mediansOf(x, n)
			if want := max(0, slots-n+1); len(got) != want {
				t.Fatalf("%d medians of %d of %d values, want %d", len(got), n, slots, want)
			}
			for i, v := range got {
				sorted := slices.Sorted(slices.Values(x[i : i+n]))
				if want := sortedMedian(sorted); v != want {
					t.Errorf("median of %v is %v, want %v", x[i:i+n], v, want)
				}
			}
		}
	}
}
