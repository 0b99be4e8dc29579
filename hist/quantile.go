package hist

import (
	"iter"
	"math"
)

// Bucket is one bucket with its bounds. Exponential buckets are closed at the
// bound farther from zero and open at the other; the zero bucket is closed at
// both; explicit ones are open below, closed above, and may reach infinity.
type Bucket struct {
	Lower, Upper float64
	Count        uint64
	Index        int32 // of the positive or negative bucket, or of the explicit one; 0 for the zero bucket
}

// All yields the occupied buckets from the lowest values to the highest.
func (h *Histogram) All() iter.Seq[Bucket] {
	return func(yield func(Bucket) bool) {
		for i := len(h.Negative.Counts) - 1; i >= 0; i-- {
			if h.Negative.Counts[i] > 0 && !yield(h.negative(i)) {
				return
			}
		}
		if h.ZeroCount > 0 && !yield(h.zero()) {
			return
		}
		for i, c := range h.Positive.Counts {
			if c > 0 && !yield(h.positive(i)) {
				return
			}
		}
	}
}

func (h *Histogram) positive(i int) Bucket {
	k := h.Positive.Offset + int32(i)
	b := Bucket{Count: h.Positive.Counts[i], Index: k}
	if h.Schema == Explicit {
		b.Lower, b.Upper = h.explicitRange(i)
	} else {
		b.Lower, b.Upper = UpperBound(k-1, h.Schema), UpperBound(k, h.Schema)
	}
	return b
}

func (h *Histogram) negative(i int) Bucket {
	k := h.Negative.Offset + int32(i)
	return Bucket{-UpperBound(k, h.Schema), -UpperBound(k-1, h.Schema), h.Negative.Counts[i], k}
}

func (h *Histogram) zero() Bucket {
	return Bucket{-h.ZeroThreshold, h.ZeroThreshold, h.ZeroCount, 0}
}

// Quantile returns an estimate of the q-quantile for q in [0, 1], in the unit
// of the observations. It is PromQL's: the bucket that holds the observation
// of rank q·Count, exponentially interpolated (linearly within the zero bucket
// and explicit ones), and then cut to [Min, Max] where those are known. The
// outermost explicit buckets, which PromQL answers with their one bound, end at
// Min and Max where those are known.
//
// The relative error is at most RelativeError, except that in a zero bucket
// wider than the default the absolute error is at most ZeroThreshold. It
// returns NaN if h is empty or q NaN, -Inf for q < 0, +Inf for q > 1, all as
// PromQL does.
func (h *Histogram) Quantile(q float64) float64 {
	switch {
	case q < 0:
		return math.Inf(-1)
	case q > 1:
		return math.Inf(1)
	case h.Count == 0 || math.IsNaN(q):
		return math.NaN()
	}
	n := float64(h.Count)
	var b Bucket
	var rank float64 // within the bucket, from below
	if q < 0.5 || math.IsNaN(h.Sum) {
		rank = q * n
		var count float64
		b, count = h.fromBelow(rank)
		rank -= count - float64(b.Count)
	} else {
		rank = (1 - q) * n
		var count float64
		b, count = h.fromAbove(rank)
		rank = count - rank
	}
	v := h.interpolate(b, max(0, min(1, rank/float64(b.Count))))
	if v < h.Min {
		v = h.Min
	}
	if v > h.Max {
		v = h.Max
	}
	return v
}

// fromBelow finds the bucket where the cumulative count reaches rank.
func (h *Histogram) fromBelow(rank float64) (b Bucket, count float64) {
	n := uint64(0)
	for i := len(h.Negative.Counts) - 1; i >= 0; i-- {
		if c := h.Negative.Counts[i]; c > 0 {
			if n += c; float64(n) >= rank {
				return h.negative(i), float64(n)
			}
		}
	}
	if h.ZeroCount > 0 {
		if n += h.ZeroCount; float64(n) >= rank {
			return h.zero(), float64(n)
		}
	}
	last := 0
	for i, c := range h.Positive.Counts {
		if c > 0 {
			last = i
			if n += c; float64(n) >= rank {
				break
			}
		}
	}
	return h.positive(last), float64(n)
}

// fromAbove is fromBelow counting from the highest bucket down.
func (h *Histogram) fromAbove(rank float64) (b Bucket, count float64) {
	n := uint64(0)
	for i := len(h.Positive.Counts) - 1; i >= 0; i-- {
		if c := h.Positive.Counts[i]; c > 0 {
			if n += c; float64(n) >= rank {
				return h.positive(i), float64(n)
			}
		}
	}
	if h.ZeroCount > 0 {
		if n += h.ZeroCount; float64(n) >= rank {
			return h.zero(), float64(n)
		}
	}
	last := 0
	for i, c := range h.Negative.Counts {
		if c > 0 {
			last = i
			if n += c; float64(n) >= rank {
				break
			}
		}
	}
	return h.negative(last), float64(n)
}

// interpolate returns the value at a fraction of the bucket.
func (h *Histogram) interpolate(b Bucket, fraction float64) float64 {
	lo, hi := b.Lower, b.Upper
	if h.Schema == Explicit {
		// PromQL has no extremes; known ones bound the outer buckets.
		if math.IsInf(lo, -1) && h.Min <= hi {
			lo = h.Min
		}
		if math.IsInf(hi, 1) && h.Max >= lo {
			hi = h.Max
		}
		switch {
		case math.IsInf(lo, -1) && hi <= 0:
			return hi
		case math.IsInf(lo, -1) && math.IsInf(hi, 1):
			return math.NaN()
		case math.IsInf(lo, -1):
			lo = 0
		case math.IsInf(hi, 1):
			return lo
		}
		return lo + (hi-lo)*fraction
	}
	if lo <= 0 && hi >= 0 {
		if hi == h.ZeroThreshold && lo == -hi { // the zero bucket
			if hi <= DefaultZeroThreshold {
				return 0
			}
			if len(h.Negative.Counts) == 0 {
				lo = 0
			} else if len(h.Positive.Counts) == 0 {
				hi = 0
			}
		}
		return lo + (hi-lo)*fraction
	}
	if lo > 0 {
		l, u := math.Log2(lo), math.Log2(hi)
		return min(hi, max(lo, math.Exp2(l+(u-l)*fraction)))
	}
	l, u := math.Log2(-lo), math.Log2(-hi)
	return min(hi, max(lo, -math.Exp2(l+(u-l)*fraction)))
}

// RelativeError returns the bound on |estimate-truth|/|truth| of a quantile: the
// relative width of a bucket, 2^(2^-schema)-1 (2.19 % at schema 5), widened by Error,
// which coarser inputs left. For explicit buckets it is the greatest relative width of
// an occupied one within [Min, Max], or +Inf if that reaches zero or infinity. The truth
// is the observation of the estimate's rank.
func (h *Histogram) RelativeError() float64 {
	if h.Schema == Explicit {
		return max(h.Error, h.explicitError())
	}
	width := math.Exp2(math.Exp2(-float64(h.Schema)))
	return (1+h.Error)*width - 1
}

// Rank is a value's place in a distribution, as shares of all observations.
type Rank struct {
	Below, Same, Above float64
	Low, High          float64 // bounds of the bucket that holds the value
}

// Rank returns the shares of observations in buckets below that of v, in the same
// bucket, and above. They sum to 1. Low and High bound v's bucket; the zero bucket is a
// bucket. The shares are NaN if h is empty or v is NaN. An infinite v is in a bucket of
// its own.
func (h *Histogram) Rank(v float64) (r Rank) {
	if h.Count == 0 || math.IsNaN(v) {
		nan := math.NaN()
		return Rank{nan, nan, nan, nan, nan}
	}
	below, same, b := h.counts(v)
	n := float64(h.Count)
	r.Below, r.Same, r.Above = float64(below)/n, float64(same)/n, float64(h.Count-below-same)/n
	r.Low, r.High = b.Lower, b.Upper
	return r
}

// AtMost estimates how many observations are at most v (for Apdex: satisfied
// if v is T, tolerating up to 4T), interpolating within v's bucket as Quantile
// does; the truth lies in [low, high]. All are 0 if h is empty or v NaN.
func (h *Histogram) AtMost(v float64) (estimate float64, low, high uint64) {
	switch {
	case h.Count == 0 || math.IsNaN(v) || v < h.Min:
		return 0, 0, 0
	case v >= h.Max || math.IsInf(v, 1):
		return float64(h.Count), h.Count, h.Count
	}
	below, same, b := h.counts(v)
	low, high = below, below+same
	if v == b.Upper && same > 0 && h.Schema != Explicit || v == b.Upper && h.Schema == Explicit {
		if b.Lower >= 0 || h.Schema == Explicit || b.Lower == -b.Upper {
			low = high
		}
	}
	return float64(low) + float64(high-low)*h.fraction(b, v), low, high
}

// fraction returns the inverse of interpolate.
func (h *Histogram) fraction(b Bucket, v float64) float64 {
	lo, hi := b.Lower, b.Upper
	if h.Schema == Explicit {
		lo, hi = h.narrow(lo, hi)
	}
	var f float64
	switch {
	case math.IsInf(hi, 1):
		return 0
	case math.IsInf(lo, -1):
		if lo = 0; hi <= 0 {
			return 0
		}
		f = v / hi
	case h.Schema == Explicit || lo <= 0 && hi >= 0:
		f = (v - lo) / (hi - lo)
	case lo > 0:
		f = math.Log2(v/lo) / math.Log2(hi/lo)
	default:
		f = 1 - math.Log2(v/hi)/math.Log2(lo/hi)
	}
	if math.IsNaN(f) {
		return 0
	}
	return max(0, min(1, f))
}

// counts returns how many observations are in buckets below that of v, and in it.
func (h *Histogram) counts(v float64) (below, same uint64, b Bucket) {
	switch {
	case math.IsInf(v, 1):
		return h.Count, 0, Bucket{Lower: v, Upper: v}
	case math.IsInf(v, -1):
		return 0, 0, Bucket{Lower: v, Upper: v}
	case h.Schema == Explicit:
		i := h.explicitIndex(v)
		for _, c := range h.Positive.Counts[:i] {
			below += c
		}
		return below, h.Positive.Counts[i], h.positive(i)
	case v < -h.ZeroThreshold:
		k := BucketIndex(-v, h.Schema)
		for i, c := range h.Negative.Counts {
			if h.Negative.Offset+int32(i) > k {
				below += c
			}
		}
		return below, h.Negative.at(int64(k)), Bucket{Lower: -UpperBound(k, h.Schema), Upper: -UpperBound(k-1, h.Schema)}
	}
	for _, c := range h.Negative.Counts {
		below += c
	}
	if v <= h.ZeroThreshold {
		return below, h.ZeroCount, h.zero()
	}
	below += h.ZeroCount
	k := BucketIndex(v, h.Schema)
	for i, c := range h.Positive.Counts {
		if h.Positive.Offset+int32(i) >= k {
			break
		}
		below += c
	}
	return below, h.Positive.at(int64(k)), Bucket{Lower: UpperBound(k-1, h.Schema), Upper: UpperBound(k, h.Schema)}
}
