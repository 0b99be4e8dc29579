package query

import (
	"github.com/prometheus/prometheus/model/histogram"

	"tailscope/hist"
)

// FloatHistogram converts a distribution to Prometheus' form: a gauge, since
// it is what happened and not a running total. Explicit bounds become custom
// buckets. h is not referenced afterwards, but for its bounds.
func FloatHistogram(h *hist.Histogram) *histogram.FloatHistogram {
	f := &histogram.FloatHistogram{
		CounterResetHint: histogram.GaugeType,
		Schema:           int32(h.Schema),
		Count:            float64(h.Count),
		Sum:              h.Sum,
	}
	f.PositiveSpans, f.PositiveBuckets = spans(h.Positive)
	if h.Schema == hist.Explicit {
		f.Schema = histogram.CustomBucketsSchema
		f.CustomValues = h.Bounds
		return f
	}
	f.NegativeSpans, f.NegativeBuckets = spans(h.Negative)
	if h.ZeroCount > 0 || h.ZeroThreshold != hist.DefaultZeroThreshold {
		// An empty zero bucket of the default width says nothing.
		f.ZeroThreshold, f.ZeroCount = h.ZeroThreshold, float64(h.ZeroCount)
	}
	return f
}

// momentsOnly is FloatHistogram for distributions that were read without buckets.
func momentsOnly(h *hist.Histogram) *histogram.FloatHistogram {
	return &histogram.FloatHistogram{CounterResetHint: histogram.GaugeType, Count: float64(h.Count), Sum: h.Sum}
}

// spans cuts a dense window at gaps of more than two empty buckets, where a
// span costs less than the zeros.
func spans(b hist.Buckets) ([]histogram.Span, []float64) {
	lo, hi, ok := occupied(b)
	if !ok {
		return nil, nil
	}
	counts := b.Counts[lo-b.Offset : hi-b.Offset+1]
	n, gaps, zeros := 0, 0, 0
	for _, c := range counts {
		if c == 0 {
			zeros++
			continue
		}
		if zeros > 2 {
			gaps++
		} else {
			n += zeros
		}
		n, zeros = n+1, 0
	}
	out := make([]histogram.Span, 0, gaps+1)
	buckets := make([]float64, 0, n)
	out = append(out, histogram.Span{Offset: lo})
	zeros = 0
	for _, c := range counts {
		if c == 0 {
			zeros++
			continue
		}
		last := &out[len(out)-1]
		if zeros > 2 {
			out = append(out, histogram.Span{Offset: int32(zeros)})
			last = &out[len(out)-1]
		} else {
			for range zeros {
				buckets = append(buckets, 0)
			}
			last.Length += uint32(zeros)
		}
		last.Length++
		buckets = append(buckets, float64(c))
		zeros = 0
	}
	return out, buckets
}
