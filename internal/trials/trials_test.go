package trials

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestOf(t *testing.T) {
	for asked, want := range map[string]int{"": 3, "20": 20, "0": 3, "-1": 3, "many": 3} {
		t.Setenv("TAILSCOPE_TRIALS", asked)
		if got := Of(3); got != want {
			t.Errorf("%q: %d trials, want %d", asked, got, want)
		}
	}
}

func TestPoisson(t *testing.T) {
	const n, mean = 20000, 3.5
	r := rand.New(rand.NewPCG(1, 1))
	sum, squares := 0.0, 0.0
	for range n {
		x := float64(Poisson(r, mean))
		sum, squares = sum+x, squares+x*x
	}
	got := sum / n
	if variance := squares/n - got*got; math.Abs(got-mean) > 0.06 || math.Abs(variance-mean) > 0.15 {
		t.Errorf("mean %g and variance %g, want %g of both", got, variance, mean)
	}
}
