package stat

import "testing"

func TestWilsonOfNoneAndOfAll(t *testing.T) {
	for n := 1.0; n < 1e6; n *= 1.37 {
		for _, crit := range []float64{1.96, 2.58, 3.3} {
			if low, high := wilson(0, n, crit); low != 0 || !(high > 0 && high < 1) {
				t.Errorf("none of %g: %g–%g", n, low, high)
			}
			if low, high := wilson(1, n, crit); high != 1 || !(low > 0 && low < 1) {
				t.Errorf("all of %g: %g–%g", n, low, high)
			}
		}
	}
}
