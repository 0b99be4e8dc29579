package simulate

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"tailscope/hist"
)

func TestSamplesAreAsLikelyAsEachOther(t *testing.T) {
	d, err := FromSamples([]float64{4, 1, 2, 2})
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[float64]float64{0: 1, 0.1: 1, 0.25: 1, 0.3: 2, 0.75: 2, 0.8: 4, 1: 4} {
		if got := d.Quantile(p); got != want {
			t.Errorf("quantile %g is %g, want %g", p, got, want)
		}
	}
	for x, want := range map[float64]float64{0.5: 0, 1: 0.25, 1.5: 0.25, 2: 0.75, 3.9: 0.75, 4: 1, 5: 1} {
		if got := d.AtMost(x); got != want {
			t.Errorf("at most %g: %g, want %g", x, got, want)
		}
	}
	if d.Mean() != 2.25 || d.Max() != 4 || d.Observations() != 4 {
		t.Errorf("mean %g, max %g of %d", d.Mean(), d.Max(), d.Observations())
	}
}

func TestHistogramsKeepTheirQuantiles(t *testing.T) {
	for name, h := range map[string]*hist.Histogram{"fine": hist.New(5), "coarse": hist.New(-1)} {
		for i := 1; i <= 2000; i++ {
			if err := h.Record(0.001 * math.Exp(float64(i%97)/20)); err != nil {
				t.Fatal(err)
			}
		}
		if err := h.Record(0); err != nil {
			t.Fatal(err)
		}
		d, err := FromHistogram(h)
		if err != nil {
			t.Fatal(err)
		}
		for p := 0.01; p < 0.7; p += 0.01 { // before the coarse one's last bucket
			near(t, name, d.Quantile(p), h.Quantile(p), 0.01)
		}
		near(t, "max of "+name, d.Max(), h.Max, 0)
		if name == "fine" {
			near(t, "mean of "+name, d.Mean(), h.Mean(), 0.01)
		}
		if d.Observations() != 2001 {
			t.Errorf("%d observations", d.Observations())
		}
	}
}

func TestWhatIsNoDistribution(t *testing.T) {
	negative := hist.New(5)
	_ = negative.Record(-1)
	open, err := hist.NewExplicit([]float64{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	open.Count, open.Positive.Counts, open.Max = 3, []uint64{1, 1, 1}, math.NaN()
	for name, make := range map[string]func() (*Distribution, error){
		"no histogram":     func() (*Distribution, error) { return FromHistogram(nil) },
		"empty":            func() (*Distribution, error) { return FromHistogram(hist.New(5)) },
		"negative":         func() (*Distribution, error) { return FromHistogram(negative) },
		"open":             func() (*Distribution, error) { return FromHistogram(open) },
		"no samples":       func() (*Distribution, error) { return FromSamples(nil) },
		"negative samples": func() (*Distribution, error) { return FromSamples([]float64{-1}) },
		"NaN":              func() (*Distribution, error) { return FromSamples([]float64{math.NaN(), 1}) },
		"infinite":         func() (*Distribution, error) { return FromSamples([]float64{math.Inf(1), 1}) },
		"from 0.1":         func() (*Distribution, error) { return FromQuantiles([]float64{0.1, 1}, []float64{1, 2}) },
		"to 0.9":           func() (*Distribution, error) { return FromQuantiles([]float64{0, 0.9}, []float64{1, 2}) },
		"falling":          func() (*Distribution, error) { return FromQuantiles([]float64{0, 1}, []float64{2, 1}) },
		"lengths":          func() (*Distribution, error) { return FromQuantiles([]float64{0, 1}, []float64{1}) },
	} {
		if _, err := make(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is drawn has the distribution: shares below any duration are within what chance
// leaves (Kolmogorov's distance is below 2.2/√n but once in ten thousand).
func TestDrawsHaveTheDistribution(t *testing.T) {
	const n = 10_000
	s := newSource(1)
	few, many := make([]float64, 7), make([]float64, 500)
	for _, values := range [][]float64{few, many} {
		for i := range values {
			values[i] = s.exponential()
		}
	}
	ds := map[string]*Distribution{"exponential": Exponential(1), "constant": Constant(3), "two": twoPoint(1, 2)}
	for name, values := range map[string][]float64{"few": few, "many": many} {
		d, err := FromSamples(values)
		if err != nil {
			t.Fatal(err)
		}
		ds[name] = d
	}
	for name, d := range ds {
		for _, byScore := range []bool{false, true} {
			draws := make([]float64, n)
			for i := range draws {
				if byScore {
					draws[i] = d.table(true).at(0.6*drawScore(halfNormal(), s.next()) + 0.8*drawScore(halfNormal(), s.next()))
				} else {
					draws[i] = d.table(false).draw(s.next())
				}
			}
			slices.Sort(draws)
			far := 0.0
			for i, x := range draws {
				// Numbers are drawn in single precision.
				low, high := d.AtMost(x*(1-1e-6)-1e-12), d.AtMost(x*(1+1e-6)+1e-12)
				far = max(far, float64(i)/n-high, low-float64(i+1)/n)
			}
			if far > 2.2/math.Sqrt(n) {
				t.Errorf("%s, by score %v: %g away", name, byScore, far)
			}
		}
	}
}

// Chances of the tail are drawn as finely as those of the middle.
func TestTailsAreDrawn(t *testing.T) {
	d, s := Exponential(1).table(false), newSource(1)
	const n = 1_000_000
	beyond := map[float64]int{4: 0, 8: 0, 10: 0}
	sum := 0.0
	for range n {
		x := d.draw(s.next())
		sum += x
		for b := range beyond {
			if x > b {
				beyond[b]++
			}
		}
	}
	near(t, "mean", sum/n, 1, 0.004)
	for b, count := range beyond {
		want := n * math.Exp(-b)
		if math.Abs(float64(count)-want) > 4*math.Sqrt(want) {
			t.Errorf("%d of %d beyond %g, want %.1f", count, n, b, want)
		}
	}
}

func TestLeavesBySize(t *testing.T) {
	slot := func(d *Distribution) []*Distribution { return []*Distribution{d} }
	linear, err := FromQuantiles([]float64{0, 1}, []float64{0.004, 0.02})
	if err != nil {
		t.Fatal(err)
	}
	two, err := FromQuantiles([]float64{0, 1}, []float64{0.003, 0.012})
	if err != nil {
		t.Fatal(err)
	}
	one := Class{Fixed: 0.002, Sizes: []Size{{Shards: 4, Slots: slot(linear)}}}
	large := Class{Fixed: 0.01, Sizes: []Size{{Shards: 4, Slots: slot(linear)}}}
	several := Class{Sizes: []Size{{Shards: 4, Slots: slot(linear)}, {Shards: 8, Slots: slot(two)}, {Shards: 16, Slots: slot(Constant(0.003))}}}
	unknown := Class{Sizes: []Size{{Slots: slot(linear)}}}
	for _, c := range []struct {
		what        string
		class       Class
		shards      float64
		least, most float64
	}{
		{"as measured", one, 4, 0.004, 0.02},
		{"half a shard", one, 8, 0.003, 0.011},
		{"two in one", one, 2, 0.006, 0.038},
		{"more fixed than there is", large, 8, 0.004, 0.015},
		{"unknown", unknown, 8, 0.004, 0.02},
		{"one of several", several, 8, 0.003, 0.012},
		{"between", several, 16.0 / 3, 0.0035, 0.016}, // its shards are between those of 4 and 8 in size
		{"beyond", several, 2, 0.006, 0.036},
		{"beyond the other end", several, 32, 0.003, 0.003}, // quantiles do not cross
	} {
		d, err := c.class.For(c.shards, 0)
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		near(t, c.what+": least", d.Quantile(0), c.least, 1e-9)
		near(t, c.what+": most", d.Max(), c.most, 1e-9)
		if c.what == "half a shard" && d.Observations() != linear.Observations() {
			t.Errorf("%d observations", d.Observations())
		}
	}
}

func TestQuantilesAndSharesAreInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, err := FromSamples(rapid.SliceOfN(rapid.Float64Range(0, 10), 1, 30).Draw(t, "values"))
		if err != nil {
			t.Fatal(err)
		}
		p := rapid.Float64Range(0, 1).Draw(t, "p")
		x := d.Quantile(p)
		if d.AtMost(x) < p-1e-12 {
			t.Fatalf("quantile %g is %g, at most that are %g", p, x, d.AtMost(x))
		}
		if got, want := d.cursor()(p), x; got != want {
			t.Fatalf("quantile %g is %g, by cursor %g", p, want, got)
		}
	})
}
