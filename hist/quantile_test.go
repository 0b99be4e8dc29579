package hist

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// shapes are distributions of durations in seconds that latency takes.
var shapes = map[string]func(r *rand.Rand) float64{
	"uniform":     func(r *rand.Rand) float64 { return 0.001 + r.Float64() },
	"log-normal":  func(r *rand.Rand) float64 { return 0.02 * math.Exp(0.7*r.NormFloat64()) },
	"exponential": func(r *rand.Rand) float64 { return 0.03 * r.ExpFloat64() },
	"bimodal": func(r *rand.Rand) float64 {
		if r.IntN(2) == 0 {
			return 0.005 * math.Exp(0.1*r.NormFloat64())
		}
		return 0.045 * math.Exp(0.03*r.NormFloat64())
	},
	"pareto":   func(r *rand.Rand) float64 { return 0.01 * math.Pow(1-r.Float64(), -1/1.1) },
	"constant": func(*rand.Rand) float64 { return 0.025 },
	"symmetric": func(r *rand.Rand) float64 {
		return 10 * r.NormFloat64()
	},
	"many zeros": func(r *rand.Rand) float64 { return max(0, r.NormFloat64()) },
}

// The estimate is within the stated error of the order statistic whose bucket
// it is taken from: rank ceil(qN), or floor(qN)+1 when counting from above.
func TestQuantileAgainstOrderStatistics(t *testing.T) {
	for name, draw := range shapes {
		t.Run("shape="+name, rapid.MakeCheck(func(t *rapid.T) {
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
			n := rapid.SampledFrom([]int{1, 2, 3, 10, 100, 2000}).Draw(t, "n")
			schema := rapid.SampledFrom([]int8{5, 5, 5, 8, 3, 0, -2}).Draw(t, "schema")
			h := New(schema)
			vs := make([]float64, n)
			for i := range vs {
				vs[i] = draw(r)
				if err := h.Record(vs[i]); err != nil {
					t.Fatal(err)
				}
			}
			slices.Sort(vs)
			bound := h.RelativeError() + 1e-12
			last := math.Inf(-1)
			for _, q := range []float64{0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1} {
				got := h.Quantile(q)
				// Both neighbours may be the one where qN is whole.
				ok := false
				for _, i := range []int{int(math.Ceil(q*float64(n)-1e-9)) - 1, int(math.Floor(q*float64(n) + 1e-9))} {
					truth := vs[max(0, min(n-1, i))]
					ok = ok || math.Abs(got-truth) <= bound*math.Abs(truth)
				}
				if !ok {
					i := max(0, min(n-1, int(q*float64(n))))
					t.Fatalf("q=%v of %d at schema %d: got %v, truth about %v, allowed error %v", q, n, schema, got, vs[i], bound)
				}
				if got < last {
					t.Fatalf("quantile falls at %v: %v after %v", q, got, last)
				}
				last = got
			}
			if h.Quantile(0) < vs[0] || h.Quantile(1) > vs[n-1] {
				t.Fatalf("quantiles %v..%v beyond %v..%v", h.Quantile(0), h.Quantile(1), vs[0], vs[n-1])
			}
			sum := 0.0
			for _, v := range vs {
				sum += v
			}
			if mean := h.Mean(); math.Abs(mean-sum/float64(n)) > 1e-12*tolerance(h)*1e12 {
				t.Fatalf("mean %v, want %v", mean, sum/float64(n))
			}
		}))
	}
}

func TestQuantileEdges(t *testing.T) {
	empty, one := New(5), New(5)
	_ = one.Record(0.1)
	for _, c := range []struct {
		h       *Histogram
		q, want float64
	}{
		{empty, 0.5, math.NaN()}, {one, math.NaN(), math.NaN()}, {one, -0.1, math.Inf(-1)}, {one, 1.1, math.Inf(1)},
		{one, 0, 0.1}, {one, 0.5, 0.1}, {one, 1, 0.1},
	} {
		if got := c.h.Quantile(c.q); got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("quantile %v: got %v, want %v", c.q, got, c.want)
		}
	}
	if m := empty.Mean(); !math.IsNaN(m) {
		t.Errorf("mean of nothing: %v", m)
	}
	if e := New(5).RelativeError(); math.Abs(e-0.0218971) > 1e-6 {
		t.Errorf("relative error at schema 5: %v", e)
	}
}

// Shares are those of counting the observations bucket by bucket.
func TestRank(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schema := int8(rapid.IntRange(MinSchema, MaxSchema).Draw(t, "schema"))
		gen := rapid.OneOf(rapid.Float64Range(-1, 1), rapid.Float64Range(0, 100), rapid.SampledFrom([]float64{0, 1, 0.25, -1}))
		vs := rapid.SliceOfN(gen, 1, 100).Draw(t, "vs")
		h := New(schema)
		for _, v := range vs {
			_ = h.Record(v)
		}
		at := rapid.OneOf(gen, rapid.SampledFrom(vs)).Draw(t, "at")
		r := h.Rank(at)
		// The place of a bucket in the order of values.
		place := func(v float64) float64 {
			switch {
			case v > DefaultZeroThreshold:
				return 1e6 + float64(BucketIndex(v, schema))
			case v < -DefaultZeroThreshold:
				return -1e6 - float64(BucketIndex(-v, schema))
			}
			return 0
		}
		var below, same, above, atMost float64
		for _, v := range vs {
			switch {
			case place(v) < place(at):
				below++
			case place(v) > place(at):
				above++
			default:
				same++
			}
			if v <= at {
				atMost++
			}
		}
		n := float64(len(vs))
		if r.Below != below/n || r.Same != same/n || r.Above != above/n || math.Abs(r.Below+r.Same+r.Above-1) > 1e-15 {
			t.Fatalf("got %+v, want %v, %v, %v of %v", r, below, same, above, n)
		}
		if at < r.Low || at > r.High {
			t.Fatalf("%v is not in %v..%v", at, r.Low, r.High)
		}
		est, lo, hi := h.AtMost(at)
		if float64(lo) > atMost || float64(hi) < atMost || est < float64(lo) || est > float64(hi) {
			t.Fatalf("at most %v: %v in %d..%d, want %v", at, est, lo, hi, atMost)
		}
	})
	h := New(5)
	_ = h.Record(1)
	for _, c := range []struct {
		v    float64
		want Rank
	}{
		{math.Inf(1), Rank{1, 0, 0, math.Inf(1), math.Inf(1)}},
		{math.Inf(-1), Rank{0, 0, 1, math.Inf(-1), math.Inf(-1)}},
		{0, Rank{0, 0, 1, -DefaultZeroThreshold, DefaultZeroThreshold}},
		{1, Rank{0, 1, 0, UpperBound(-1, 5), 1}},
	} {
		if got := h.Rank(c.v); got != c.want {
			t.Errorf("rank of %v: got %+v, want %+v", c.v, got, c.want)
		}
	}
	if r := New(5).Rank(1); !math.IsNaN(r.Below) {
		t.Errorf("rank in nothing: %+v", r)
	}
}

func TestAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := genHistogram().Draw(t, "h")
		last, n := math.Inf(-1), uint64(0)
		for b := range h.All() {
			if b.Count == 0 || b.Lower < last || b.Upper < b.Lower {
				t.Fatalf("bucket %+v after %v", b, last)
			}
			last = b.Upper
			n += b.Count
		}
		if n != h.Count {
			t.Fatalf("%d observations, want %d", n, h.Count)
		}
		for range h.All() {
			break
		}
	})
}

// The outermost explicit buckets have no bounds of their own, but extremes
// that came with the counts bound them.
func TestQuantileOfOuterBuckets(t *testing.T) {
	for _, c := range []struct {
		bounds   []float64
		counts   []uint64
		min, max float64
		q, want  float64
	}{
		{[]float64{0.1, 0.5}, []uint64{0, 0, 10}, math.NaN(), math.NaN(), 0.9, 0.5},
		{[]float64{0.1, 0.5}, []uint64{0, 0, 10}, 0.6, 1.5, 0.9, 1.4},
		{[]float64{0.1, 0.5}, []uint64{10, 0, 0}, math.NaN(), math.NaN(), 0.4, 0.04},
		{[]float64{0.1, 0.5}, []uint64{10, 0, 0}, 0.05, 0.09, 0.4, 0.07},
		{nil, []uint64{10}, math.NaN(), math.NaN(), 0.4, math.NaN()},
		{nil, []uint64{10}, 2, 12, 0.4, 6},
	} {
		h, err := NewExplicit(c.bounds)
		if err != nil {
			t.Fatal(err)
		}
		for i, n := range c.counts {
			h.Positive.Counts[i] = n
			h.Count += n
		}
		h.Min, h.Max = c.min, c.max
		if err := h.Validate(); err != nil {
			t.Fatal(err)
		}
		if got := h.Quantile(c.q); !(math.Abs(got-c.want) < 1e-12) && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%v %v in [%v, %v]: q%v is %v, want %v", c.bounds, c.counts, c.min, c.max, c.q, got, c.want)
		}
	}
}
