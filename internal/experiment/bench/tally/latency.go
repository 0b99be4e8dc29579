package tally

import (
	"math"
	"strconv"

	"tailscope/api"
	"tailscope/hist"
)

// Quantiles are the quantiles of every result.
var Quantiles = []float64{0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999}

// Key returns the name of a quantile in api.BenchLatency.
func Key(q float64) string { return strconv.FormatFloat(q, 'g', -1, 64) }

// maxBars bounds the buckets of a distribution in a chart.
const maxBars = 96

// Latency returns h as figures: Quantiles and more. With chart it adds the buckets,
// widened until there are maxBars at most.
func Latency(h *hist.Histogram, chart bool, more ...float64) api.BenchLatency {
	none := api.Float(math.NaN())
	out := api.BenchLatency{Mean: none, Min: none, Max: none, Error: none, Quantiles: map[string]api.Float{}}
	for _, qs := range [][]float64{Quantiles, more} {
		for _, q := range qs {
			if out.Quantiles[Key(q)] = none; h != nil && h.Count > 0 {
				out.Quantiles[Key(q)] = api.Float(h.Quantile(q))
			}
		}
	}
	if h == nil || h.Count == 0 {
		return out
	}
	out.Count, out.Mean, out.Min, out.Max = h.Count, api.Float(h.Mean()), api.Float(h.Min), api.Float(h.Max)
	out.Error = api.Float(h.RelativeError())
	if chart {
		out.Bounds, out.Counts = bars(h)
	}
	return out
}

// bars returns h's buckets without gaps: counts[i] lie in (bounds[i], bounds[i+1]].
// Zeros are in the first bucket, which begins at 0.
func bars(h *hist.Histogram) (bounds []api.Float, counts []uint64) {
	h = h.Clone()
	first, last := span(h)
	for last-first >= maxBars && h.Schema > hist.MinSchema {
		h.Reduce(h.Schema - 1)
		first, last = span(h)
	}
	if h.ZeroCount > 0 {
		bounds, counts = append(bounds, 0), append(counts, h.ZeroCount)
	}
	if first > last {
		return append(bounds, api.Float(h.ZeroThreshold)), counts
	}
	bounds = append(bounds, api.Float(hist.UpperBound(first-1, h.Schema)))
	for k := first; k <= last; k++ {
		n := uint64(0)
		if i := int(k - h.Positive.Offset); i >= 0 && i < len(h.Positive.Counts) {
			n = h.Positive.Counts[i]
		}
		bounds, counts = append(bounds, api.Float(hist.UpperBound(k, h.Schema))), append(counts, n)
	}
	return bounds, counts
}

// span returns the first and the last bucket that hold something, or first > last if
// none does.
func span(h *hist.Histogram) (first, last int32) {
	first, last = 0, -1
	for i, n := range h.Positive.Counts {
		if n == 0 {
			continue
		}
		if last < first {
			first = h.Positive.Offset + int32(i)
		}
		last = h.Positive.Offset + int32(i)
	}
	return first, last
}
