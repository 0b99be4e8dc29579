package query

import (
	"math"

	"tailscope/hist"
)

// eachBucket calls yield with every occupied bucket, lowest first: its lower
// and upper bound and its count. The zero bucket reaches from -threshold (0
// when there are no negative buckets) to threshold. The outermost explicit
// buckets reach to the extremes seen, or to infinity when those are unknown.
func eachBucket(h *hist.Histogram, yield func(low, high float64, count uint64)) {
	if h.Schema == hist.Explicit {
		for i, n := range h.Positive.Counts {
			if n > 0 {
				low, high := explicitBounds(h, i)
				yield(low, high, n)
			}
		}
		return
	}
	for i := len(h.Negative.Counts) - 1; i >= 0; i-- {
		if n := h.Negative.Counts[i]; n > 0 {
			k := h.Negative.Offset + int32(i)
			yield(-hist.UpperBound(k, h.Schema), -hist.UpperBound(k-1, h.Schema), n)
		}
	}
	if h.ZeroCount > 0 {
		low := 0.0
		if len(h.Negative.Counts) > 0 {
			low = -h.ZeroThreshold
		}
		yield(low, h.ZeroThreshold, h.ZeroCount)
	}
	for i, n := range h.Positive.Counts {
		if n > 0 {
			k := h.Positive.Offset + int32(i)
			yield(hist.UpperBound(k-1, h.Schema), hist.UpperBound(k, h.Schema), n)
		}
	}
}

// explicitBounds returns the bounds of explicit bucket i. The first begins at
// 0 when its upper bound is positive and nothing smaller was seen.
func explicitBounds(h *hist.Histogram, i int) (low, high float64) {
	low, high = math.Inf(-1), math.Inf(1)
	if i > 0 && i-1 < len(h.Bounds) {
		low = h.Bounds[i-1]
	} else if i == 0 && len(h.Bounds) > 0 && h.Bounds[0] > 0 && !(h.Min < 0) {
		low = 0
	} else if i == 0 && !math.IsNaN(h.Min) {
		low = h.Min
	}
	if i < len(h.Bounds) {
		high = h.Bounds[i]
	} else if !math.IsNaN(h.Max) {
		high = max(h.Max, low)
	}
	return low, high
}

// widthError is the relative error of a value placed anywhere in its bucket at
// the schema: the bucket's bounds grow by 1 plus it.
func widthError(schema int8) float64 {
	return math.Exp2(math.Exp2(-float64(schema))) - 1
}
