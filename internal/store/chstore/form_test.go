package chstore

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"tailscope/hist"
	"tailscope/internal/store/storetest"
)

// drawHistogram draws a histogram of any kind that is stored.
func drawHistogram(rt *rapid.T) *hist.Histogram {
	var h *hist.Histogram
	if rapid.IntRange(0, 4).Draw(rt, "kind") == 0 {
		h, _ = hist.NewExplicit([]float64{-1, 0, 0.5, 2}[:rapid.IntRange(0, 4).Draw(rt, "bounds")])
	} else {
		h = hist.New(int8(rapid.IntRange(hist.MinSchema, hist.MaxSchema).Draw(rt, "schema")))
		if rapid.Bool().Draw(rt, "threshold") {
			_ = h.SetZeroThreshold(rapid.SampledFrom([]float64{0, 1e-3, 2}).Draw(rt, "zero threshold"))
		}
	}
	for range rapid.IntRange(0, 20).Draw(rt, "observations") {
		v := rapid.OneOf(rapid.Float64Range(-5, 5), rapid.SampledFrom([]float64{0, 1e-9, 1e300, math.MaxFloat64, 0.25, 3})).Draw(rt, "value")
		_ = h.RecordN(v, rapid.SampledFrom([]uint64{1, 1, 1, 7}).Draw(rt, "weight"))
	}
	if rapid.IntRange(0, 5).Draw(rt, "unknown") == 0 {
		h.Min, h.Max = math.NaN(), math.NaN()
	}
	return h
}

// What is stored of a histogram, and added up in its form, is the histogram.
func TestValuesOfHistograms(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := drawHistogram(rt)
		var v value
		m := &meta{forms: map[form]formMeta{}}
		if f := v.distribution(h); f != nil {
			m.forms[v.form] = *f
		}
		c := cell{sum: sum{rows: 1, count: v.count, flags: v.flags, upper: v.nanos / (1 << 32), lower: v.nanos % (1 << 32), rest: v.rest, low: v.low, high: v.high,
			squares: v.squares, err: v.err, zero: v.zero}}
		for i, b := range v.buckets {
			c.buckets = append(c.buckets, bucket{b, v.counts[i]})
		}
		got, err := m.newHistogram(v.form)
		if err != nil {
			rt.Fatal(err)
		}
		c.fill(got)
		if d := storetest.DiffHist(got, h); d != "" || got.ZeroThreshold != h.ZeroThreshold || math.Float64bits(got.Sum) != math.Float64bits(h.Sum) {
			rt.Fatalf("got %+v, want %+v: %s", got, h, d)
		}
		if h.Count > 0 && got.Validate() != nil {
			rt.Fatal(got.Validate())
		}
	})
}
