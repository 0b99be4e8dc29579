package stat

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"tailscope/hist"
)

// histograms draws slots, some of them empty.
func histograms(t *rapid.T, name string, slots int) []*hist.Histogram {
	r := source(rapid.Uint64().Draw(t, name))
	out := make([]*hist.Histogram, slots)
	for i := range out {
		if r.IntN(8) == 0 {
			continue
		}
		h := hist.New(hist.DefaultSchema)
		for range 1 + r.IntN(30) {
			if err := h.Record(math.Exp(0.6 * r.NormFloat64())); err != nil {
				t.Fatal(err)
			}
		}
		out[i] = h
	}
	return out
}

func seriesOf(t interface{ Fatal(...any) }, slots []*hist.Histogram) *Series {
	s, err := NewSeries(slots)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Quantiles, counts and means are those of the merged histogram.
func TestSeriesIsItsMergedHistogram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := histograms(t, "slots", 30)
		zeros := rapid.IntRange(0, 3).Draw(t, "zeros")
		if slots[0] != nil {
			for range zeros {
				if err := slots[0].Record(0); err != nil {
					t.Fatal(err)
				}
			}
		}
		if i := rapid.IntRange(0, 29).Draw(t, "coarser"); slots[i] != nil {
			slots[i].Reduce(3)
		}
		if i := rapid.IntRange(0, 29).Draw(t, "wider"); slots[i] != nil {
			if err := slots[i].SetZeroThreshold(rapid.SampledFrom([]float64{0, 0.25, 0.5}).Draw(t, "threshold")); err != nil {
				t.Fatal(err)
			}
		}
		s := seriesOf(t, slots)
		whole := hist.New(hist.DefaultSchema)
		for _, h := range slots {
			if h != nil {
				if err := whole.Merge(h); err != nil {
					t.Fatal(err)
				}
			}
		}
		if s.Count() != float64(whole.Count) {
			t.Fatalf("%v observations, want %d", s.Count(), whole.Count)
		}
		p := rapid.Float64Range(0.01, 0.99).Draw(t, "p")
		if got, want := s.quantile(p), whole.Quantile(p); math.Abs(got-want) > 1e-9*want {
			t.Fatalf("quantile %v is %v, want %v", p, got, want)
		}
		v := max(math.Exp(rapid.Float64Range(-2, 2).Draw(t, "v")), whole.ZeroThreshold) // within the zero bucket a series spreads evenly
		want, _, _ := whole.AtMost(v)
		got := 0.0
		for i := range s.Slots() {
			got += s.atMost(i, s.placeOf(v))
		}
		if math.Abs(got-want) > 1e-6 {
			t.Fatalf("%v at most %v, want %v", got, v, want)
		}
	})
}

// Turning the sides round turns the interval round; a unit changes nothing.
func TestChangeIsAntisymmetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := seriesOf(t, histograms(t, "a", 60)), seriesOf(t, histograms(t, "b", 60))
		o := Options{Paired: rapid.Bool().Draw(t, "paired"), Level: rapid.Float64Range(0.5, 0.99).Draw(t, "level")}
		if rapid.Bool().Draw(t, "live") {
			o.Live = &Live{}
		}
		p := rapid.Float64Range(0.2, 0.95).Draw(t, "p")
		ab, err := Quantile(Side{a}, Side{b}, p, nil, o)
		if err != nil {
			t.Fatal(err)
		}
		ba, err := Quantile(Side{b}, Side{a}, p, nil, o)
		if err != nil {
			t.Fatal(err)
		}
		same := func(x, y float64) bool { return x == y || math.Abs(x-y) < 1e-9 }
		if !same(ab.Effect, -ba.Effect) || !same(ab.CI.Low, -ba.CI.High) || !same(ab.CI.High, -ba.CI.Low) || !same(ab.P, ba.P) {
			t.Fatalf("%+v\nturned round %+v", ab, ba)
		}
		if !ab.CI.Contains(ab.Effect) {
			t.Fatalf("the interval %v leaves out the estimate %v", ab.CI, ab.Effect)
		}
		if inside, small := ab.CI.Contains(0), ab.P < 1-ab.Level; inside == small && math.Abs(ab.P-(1-ab.Level)) > 1e-6 {
			t.Fatalf("interval %v, probability %v at level %v", ab.CI, ab.P, ab.Level)
		}
	})
}

// A mix of strata that are alike is the same as any one of them, whatever the
// weights, and influences sum to nothing.
func TestMixOfEqualStrata(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := seriesOf(t, histograms(t, "x", 40))
		w := rapid.Float64Range(0, 1).Draw(t, "weight")
		p := rapid.Float64Range(0.1, 0.9).Draw(t, "p")
		d := Side{x, x}.mixture([]float64{w, 1 - w})
		if got, want := d.quantile(p), x.quantile(p); math.Abs(got-want) > 1e-9*want {
			t.Fatalf("quantile %v of the mix is %v, want %v", p, got, want)
		}
		sum := 0.0
		for _, v := range d.above([]float64{d.quantile(p)}, []float64{p})[0] {
			sum += v
		}
		if math.Abs(sum) > 1e-9 {
			t.Fatalf("influences sum to %v", sum)
		}
	})
}

// A part of a series is the series of the part.
func TestSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := histograms(t, "slots", 30)
		from := rapid.IntRange(0, 29).Draw(t, "from")
		to := rapid.IntRange(from, 30).Draw(t, "to")
		part, want := seriesOf(t, slots).Slice(from, to), seriesOf(t, slots[from:to])
		if part.Slots() != want.Slots() || part.Count() != want.Count() || part.occupied != want.occupied {
			t.Fatalf("%d slots, %v observations; want %d, %v", part.Slots(), part.Count(), want.Slots(), want.Count())
		}
		// Between the extremes of all slots and at a bound both agree exactly.
		if got, want := part.atMostAll(part.placeOf(1)), want.atMostAll(want.placeOf(1)); want > 0 && got != want {
			t.Fatalf("%v at most 1, want %v", got, want)
		}
	})
}

// Selected families pay for those that are not selected.
func TestAmongFamilies(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		p    []float64
		want float64
	}{
		{nil, 1}, {[]float64{nan}, 1}, {[]float64{0.04}, 1}, {[]float64{0.2}, 1}, {[]float64{0.001, 0.9, 0.5, nan}, 3},
		{[]float64{0.001, 0.03, 0.5}, 1.5}, {[]float64{0.001, 0.03, 0.04}, 1},
	} {
		if got := AmongFamilies(c.p, 0.05); got != c.want {
			t.Errorf("%v: %v, want %v", c.p, got, c.want)
		}
	}
}

// P is that of the widest interval that leaves out no difference: one of a level a little
// lower leaves it out, of a level a little higher holds it.
func TestProbabilityIsThatOfIntervals(t *testing.T) {
	r := source(12)
	seen := 0
	for i := range 40 {
		a := side(r, 200, 20, 0, 0.1)
		b := sideAround(r, medians(r, 30, 0, 0.1), 20, math.Log([]float64{1.4, 0.7}[i%2]))
		at := func(level float64) Change {
			c, err := Quantiles(Side{a}, Side{b}, []float64{0.95}, nil, Options{Level: level})
			if err != nil {
				t.Fatal(err)
			}
			return c[0]
		}
		p := at(0.95).P
		if !(p < 0.04) || p < 1e-9 {
			continue
		}
		seen++
		if c := at(1 - 1.01*p); !(c.CI.Low > 0 || c.CI.High < 0) {
			t.Errorf("P %v: at a level of %v the interval is %+v", p, c.Level, c.CI)
		}
		if c := at(1 - 0.99*p); !(c.CI.Low <= 0 && 0 <= c.CI.High) {
			t.Errorf("P %v: at a level of %v the interval is %+v", p, c.Level, c.CI)
		}
	}
	if seen < 10 {
		t.Errorf("%d probabilities were looked at", seen)
	}
}

func TestBenjaminiHochbergKeepsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.Float64Range(0, 1), 1, 20).Draw(t, "p")
		q := BenjaminiHochberg(p)
		for i := range p {
			if q[i] < p[i]*(1-1e-12) || q[i] > 1 {
				t.Fatalf("%v became %v", p[i], q[i])
			}
			for j := range p {
				if p[i] < p[j] && q[i] > q[j]*(1+1e-12) {
					t.Fatalf("%v, %v became %v, %v", p[i], p[j], q[i], q[j])
				}
			}
		}
	})
}
