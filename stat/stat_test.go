package stat

import (
	"math"
	"math/rand/v2"
	"testing"
)

// side draws slots of n log-normal observations, whose medians follow a
// first-order autoregression, in buckets of 1/32 of an octave.
func side(r *rand.Rand, slots, n int, phi, spread float64) *Series {
	return sideAround(r, medians(r, slots, phi, spread), n, 0)
}

func medians(r *rand.Rand, slots int, phi, spread float64) []float64 {
	m := make([]float64, slots)
	x := spread * r.NormFloat64()
	for t := range m {
		if t > 0 {
			x = phi*x + spread*math.Sqrt(1-phi*phi)*r.NormFloat64()
		}
		m[t] = x
	}
	return m
}

func sideAround(r *rand.Rand, medians []float64, n int, shift float64) *Series {
	const low, high = -160, 320
	edges := make([]float64, 0, high-low+1)
	for k := low; k <= high; k++ {
		edges = append(edges, math.Exp2(float64(k)/32))
	}
	counts := make([][]float64, len(medians))
	sums := make([]float64, len(medians))
	for t := range counts {
		counts[t] = make([]float64, len(edges)-1)
		for range n {
			x := shift + medians[t] + 0.6*r.NormFloat64()
			k := int(math.Floor(x * 32 / math.Ln2))
			counts[t][min(max(k, low), high-1)-low]++
			sums[t] += math.Exp(x)
		}
	}
	s, err := NewSeriesOfCounts(edges, counts, sums)
	if err != nil {
		panic(err)
	}
	return s
}

func source(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// A change of 20 % is seen, with the truth in the interval; no change is not.
func TestQuantileOfWindows(t *testing.T) {
	r := source(1)
	a := sideAround(r, medians(r, 360, 0.6, 0.15), 100, 0)
	b := sideAround(r, medians(r, 360, 0.6, 0.15), 100, math.Log(1.2))
	for _, p := range []float64{0.5, 0.95, 0.99} {
		c, err := Quantile(Side{a}, Side{b}, p, nil, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if !c.CI.Contains(math.Log(1.2)) || c.CI.Contains(0) || c.P > 0.05 {
			t.Errorf("p%v: %+v, want an interval with %.4f and without 0", 100*p, c, math.Log(1.2))
		}
		if c.A <= 0 || math.Abs(math.Log(c.B/c.A)-c.Effect) > 1e-9 {
			t.Errorf("p%v: effect %v of %v and %v", 100*p, c.Effect, c.A, c.B)
		}
	}
}

// Sides that share their slots are distinguished by a change far too small for
// windows that differ in time.
func TestPairedIsFarMoreSensitive(t *testing.T) {
	r := source(2)
	m := medians(r, 360, 0.9, 0.3)
	a, b := sideAround(r, m, 200, 0), sideAround(r, m, 200, math.Log(1.05))
	paired, err := Quantile(Side{a}, Side{b}, 0.95, nil, Options{Paired: true})
	if err != nil {
		t.Fatal(err)
	}
	apart, err := Quantile(Side{a}, Side{b}, 0.95, nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if paired.SE*4 > apart.SE {
		t.Errorf("standard error %.4f paired, %.4f apart: want a quarter or less", paired.SE, apart.SE)
	}
	if paired.P > 0.01 || !paired.CI.Contains(math.Log(1.05)) {
		t.Errorf("paired: %+v", paired)
	}
}
