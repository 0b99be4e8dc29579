package hist_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser/posrange"

	"tailscope/hist"
)

// toPrometheus turns h into Prometheus' own form, one span per bucket.
func toPrometheus(h *hist.Histogram) *histogram.FloatHistogram {
	f := &histogram.FloatHistogram{
		Schema: int32(h.Schema), ZeroThreshold: h.ZeroThreshold, ZeroCount: float64(h.ZeroCount),
		Count: float64(h.Count), Sum: h.Sum,
	}
	side := func(b hist.Buckets) (spans []histogram.Span, counts []float64) {
		next := int32(0)
		for i, c := range b.Counts {
			if c == 0 {
				continue
			}
			k := b.Offset + int32(i)
			spans = append(spans, histogram.Span{Offset: k - next, Length: 1})
			counts = append(counts, float64(c))
			next = k + 1
		}
		return spans, counts
	}
	f.PositiveSpans, f.PositiveBuckets = side(h.Positive)
	f.NegativeSpans, f.NegativeBuckets = side(h.Negative)
	return f
}

// Prometheus' literals for bounds are some ulps off the nearest float64 here and there.
func close(a, b float64) bool { return math.Abs(a-b) <= 1e-15*math.Abs(b) }

// Bounds are Prometheus', and so are quantiles, but for the cut at minimum and
// maximum.
func TestAgreesWithPrometheus(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for schema := int8(hist.MinSchema); schema <= hist.MaxSchema; schema++ {
		for _, negative := range []bool{false, true} {
			h := hist.New(schema)
			for range 500 {
				v := 0.02 * math.Exp(1.5*r.NormFloat64())
				if negative && r.IntN(3) == 0 {
					v = -v
				}
				if r.IntN(20) == 0 {
					v = 0
				}
				if err := h.Record(v); err != nil {
					t.Fatal(err)
				}
			}
			f := toPrometheus(h)
			if err := f.Validate(); err != nil {
				t.Fatal(err)
			}
			it := f.AllBucketIterator()
			for b := range h.All() {
				for it.Next() && it.At().Count == 0 {
				}
				if p := it.At(); !close(b.Lower, p.Lower) || !close(b.Upper, p.Upper) || float64(b.Count) != p.Count {
					t.Errorf("schema %d: bucket %+v, Prometheus has %v", schema, b, p)
				}
			}
			lo, hi := h.Min, h.Max
			h.Min, h.Max = math.NaN(), math.NaN()
			for _, q := range []float64{0, 0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.999, 1} {
				want, _ := promql.HistogramQuantile(q, f, "x", posrange.PositionRange{})
				if got := h.Quantile(q); math.Abs(got-want) > 1e-12*math.Abs(want)+hist.DefaultZeroThreshold {
					t.Errorf("schema %d: quantile %v: got %v, Prometheus says %v", schema, q, got, want)
				}
			}
			h.Min, h.Max = lo, hi
			if h.Quantile(0) != lo || h.Quantile(1) != hi {
				t.Errorf("schema %d: quantiles 0 and 1 are %v and %v, want %v and %v", schema, h.Quantile(0), h.Quantile(1), lo, hi)
			}
		}
	}
}
