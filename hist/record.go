package hist

import "math"

// Record adds one observation. It refuses NaN and infinities with ErrInvalid.
func (h *Histogram) Record(v float64) error { return h.RecordN(v, 1) }

// RecordN adds one observation of v that stands for n, as a sampled span does;
// n above 1 marks h as Weighted, n = 0 changes nothing. It refuses NaN and
// infinities, and counts that would overflow, with ErrInvalid.
func (h *Histogram) RecordN(v float64, n uint64) error {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return invalid("observation %v", v)
	}
	if n == 0 {
		return nil
	}
	if h.Count+n < h.Count {
		return invalid("count overflows: %d and %d more", h.Count, n)
	}
	v += 0 // −0 is 0: the same values are the same bytes, in any order
	h.addTimes(v, n)
	h.record(v, n)
	return nil
}

// RecordNanos is RecordN of Seconds(ns), faster and exact. Use it for durations. It
// records negative ones as such; the caller refuses them.
func (h *Histogram) RecordNanos(ns int64, n uint64) error {
	if n == 0 {
		return nil
	}
	if h.Count+n < h.Count {
		return invalid("count overflows: %d and %d more", h.Count, n)
	}
	v := Seconds(ns)
	if p, ok := mulNanos(ns, n); ok {
		h.addNanos(p)
	} else {
		p := v * float64(n)
		h.addFloat(p, math.FMA(v, float64(n), -p))
	}
	h.record(v, n)
	return nil
}

// record adds n observations of v, finite, to everything but the sum.
func (h *Histogram) record(v float64, n uint64) {
	if n > 1 || h.Weighted {
		h.Squares = h.SquaredWeights() + float64(n)*float64(n)
		h.Weighted = true
	}
	if h.Count == 0 {
		h.Min, h.Max = v, v
	} else {
		// Comparisons are false for an unknown (NaN) extreme: it stays unknown.
		if v < h.Min {
			h.Min = v
		}
		if v > h.Max {
			h.Max = v
		}
	}
	h.Count += n
	switch {
	case h.Schema == Explicit:
		h.Positive.Counts[h.explicitIndex(v)] += n
	case v > h.ZeroThreshold:
		i := h.Positive.index(coarsen(index8(v), uint(MaxSchema-h.Schema)&15))
		h.Positive.Counts[i] += n
	case v < -h.ZeroThreshold:
		i := h.Negative.index(coarsen(index8(-v), uint(MaxSchema-h.Schema)&15))
		h.Negative.Counts[i] += n
	default:
		h.ZeroCount += n
	}
}
