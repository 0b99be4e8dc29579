package stat

import (
	"math"
	"testing"
)

// The bound in standard errors of a normal variable, by its formula, at the
// information that the mixture is made for, before and after.
func TestLiveBound(t *testing.T) {
	l := &Live{Slots: 360}
	for _, tc := range []struct {
		slots int
		want  float64
	}{
		// sqrt((1+r)(ln(1+1/r) + 5.99146)), r = 360/8.22/slots
		{360, 3.0351}, {36, 3.8223}, {90, 3.2507}, {3600, 3.2464},
	} {
		if got := l.critical(0.05, 1e9, tc.slots, tc.slots); math.Abs(got-tc.want) > 2e-4 {
			t.Errorf("%d slots: %.4f, want %.4f", tc.slots, got, tc.want)
		}
	}
	share := &Live{Share: 0.2}
	if got := share.critical(0.05, 1e9, 360, 85); math.Abs(got-2.5758) > 2e-4 { // of 1 %
		t.Errorf("a share of 0.2: %.4f", got)
	}
	for _, l := range []*Live{l, share} {
		for _, df := range []float64{8, 30, 1e9} {
			for _, alpha := range []float64{0.2, 0.05, 0.001} {
				bound := l.critical(alpha, df, 360, 120)
				if p := l.probability(bound, df, 360, 120); math.Abs(p/alpha-1) > 1e-6 {
					t.Errorf("%+v, %v degrees of freedom: at the bound of %v the probability is %v", l, df, alpha, p)
				}
			}
		}
	}
	if p := l.probability(0, 30, 360, 360); p != 1 {
		t.Errorf("no effect has a probability of %v", p)
	}
}

// Looking at independent normal slots at each step, the bound is crossed in
// fewer than 5 % of walks, and the fixed one in many.
func TestLiveBoundHoldsAtEveryLook(t *testing.T) {
	r := source(9)
	l := &Live{Slots: 200, Fixed: 400}
	const walks = 600
	crossed, fixed := 0, 0
	for range walks {
		// Side A is complete: its mean has variance 1/400.
		a, sum := r.NormFloat64()/20, 0.0
		live, once := false, false
		for n := 1; n <= 600; n++ {
			sum += r.NormFloat64()
			z := math.Abs(sum/float64(n)-a) / math.Sqrt(1.0/400+1/float64(n))
			live = live || z > l.critical(0.05, 1e9, 400, n)
			once = once || z > 1.96
		}
		if live {
			crossed++
		}
		if once {
			fixed++
		}
	}
	if crossed > walks*5/100 || fixed < walks*25/100 {
		t.Errorf("of %d walks %d cross the bound, %d the fixed one", walks, crossed, fixed)
	}
}

// What is watched needs more data for the same power: at the tightest bound of
// 3.035 standard errors instead of 1.96, (3.035+1.282)²/(1.96+1.282)² times.
func TestLiveNeedsMore(t *testing.T) {
	once := Change{SE: 0.02, DF: 1e9, Level: 0.95, Log: true}
	live := once
	live.options.Live = &Live{}
	ratio := live.Needed(0.05, 0.9).Both / once.Needed(0.05, 0.9).Both
	if math.Abs(ratio-1.773) > 0.01 {
		t.Errorf("%v times the data", ratio)
	}
	if r := live.Detectable(0.9) / once.Detectable(0.9); math.Abs(r*r-ratio) > 0.01 {
		t.Errorf("detectable %v", r)
	}
}
