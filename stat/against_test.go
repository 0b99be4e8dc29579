package stat

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// quotients are slots of ratios X/Y, each of two log-normal durations, in buckets
// of 1/32 of an octave; inverse are those of Y/X.
func quotients(r *rand.Rand, medians []float64, n int, shift float64) (s, inverse *Series) {
	const low, high = -320, 320
	var edges []float64
	for k := low; k <= high; k++ {
		edges = append(edges, math.Exp2(float64(k)/32))
	}
	counts, turned := make([][]float64, len(medians)), make([][]float64, len(medians))
	for t := range counts {
		counts[t], turned[t] = make([]float64, len(edges)-1), make([]float64, len(edges)-1)
		for range n {
			k := int(math.Floor((shift + medians[t] + 0.3*r.NormFloat64()) * 32 / math.Ln2))
			k = min(max(k, low), high-1) - low
			counts[t][k]++
			turned[t][len(edges)-2-k]++
		}
	}
	var out [2]*Series
	for i, c := range [][][]float64{counts, turned} {
		var err error
		if out[i], err = NewSeriesOfCounts(edges, c, nil); err != nil {
			panic(err)
		}
	}
	return out[0], out[1]
}

// What is said of X/Y is said of Y/X the other way round.
func TestAgainstIsAntisymmetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := source(rapid.Uint64().Draw(t, "seed"))
		shift, p := rapid.Float64Range(-0.5, 0.5).Draw(t, "shift"), rapid.Float64Range(0.05, 0.95).Draw(t, "p")
		o := Options{}
		if rapid.Bool().Draw(t, "live") {
			o.Live = &Live{Slots: 100}
		}
		s, inverse := quotients(r, medians(r, 40, 0.3, 0.1), 50, shift)
		x, err := QuantilesAgainst(1, Side{s}, []float64{p}, nil, o)
		if err != nil {
			t.Fatal(err)
		}
		y, err := QuantilesAgainst(1, Side{inverse}, []float64{1 - p}, nil, o)
		if err != nil {
			t.Fatal(err)
		}
		near := func(a, b float64) bool { return a == b || math.Abs(a-b) < 1e-6 }
		if !near(x[0].Effect, -y[0].Effect) || !near(x[0].CI.Low, -y[0].CI.High) || !near(x[0].CI.High, -y[0].CI.Low) || !near(x[0].P, y[0].P) {
			t.Fatalf("%+v\n%+v", x[0], y[0])
		}
	})
}

// The interval holds the truth in 95 of 100 trials, however slots depend on each
// other.
func TestAgainstCalibrated(t *testing.T) {
	const trials = 400
	for _, phi := range []float64{0, 0.6} {
		r, missed := source(31), 0
		for range trials {
			s, _ := quotients(r, medians(r, 180, phi, 0.05), 40, 0)
			c, err := QuantilesAgainst(1, Side{s}, []float64{0.5}, nil, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if !c[0].CI.Contains(0) {
				missed++
			}
			if c[0].CI.Contains(0) != (c[0].P > 0.05) {
				t.Fatalf("the interval and the probability disagree: %+v", c[0])
			}
		}
		if share := float64(missed) / trials; share < 0.015 || share > 0.085 {
			t.Errorf("correlation %v: %.3f of the intervals leave out the truth", phi, share)
		}
	}
}

func TestBeyond(t *testing.T) {
	r := source(5)
	s, _ := quotients(r, medians(r, 120, 0, 0.02), 100, math.Log(1.1))
	for _, o := range []Options{{}, {Live: &Live{}}} {
		found, err := QuantilesAgainst(1, Side{s}, []float64{0.5}, nil, o)
		if err != nil {
			t.Fatal(err)
		}
		c := found[0]
		if got := c.Beyond(0); got != c.P {
			t.Errorf("beyond nothing %v, the probability %v", got, c.P)
		}
		// At the end of the interval it is what the level leaves, and rises.
		if got := c.Beyond(c.CI.Low); math.Abs(got-0.05) > 1e-3 {
			t.Errorf("at the end of the interval %v", got)
		}
		last := c.P
		for _, margin := range []float64{0.01, 0.03, 0.06, 0.09} {
			if got := c.Beyond(margin); got < last {
				t.Errorf("beyond %v: %v after %v", margin, got, last)
			} else {
				last = got
			}
		}
		for _, margin := range []float64{c.Effect, 1, math.Inf(1), math.NaN(), -1} {
			if got := c.Beyond(margin); got != 1 {
				t.Errorf("beyond %v: %v", margin, got)
			}
		}
	}
}

func TestAgainstRefuses(t *testing.T) {
	s, _ := quotients(source(1), make([]float64, 30), 10, 0)
	for _, value := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := QuantilesAgainst(value, Side{s}, []float64{0.5}, nil, Options{}); err == nil {
			t.Errorf("no error against %v", value)
		}
	}
	if _, err := QuantilesAgainst(1, Side{s}, []float64{1}, nil, Options{}); err == nil {
		t.Error("no error of quantile 1")
	}
	few, _ := quotients(source(1), make([]float64, 19), 10, 0)
	c, err := QuantilesAgainst(1, Side{few}, []float64{0.5}, nil, Options{})
	if err != nil || c[0].Short == "" || c[0].Verdict(0) != TooLittle {
		t.Errorf("19 slots: %+v, %v", c, err)
	}
}
