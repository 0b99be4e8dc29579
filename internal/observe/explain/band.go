package explain

import (
	"math"

	"tailscope/hist"
)

// band holds the values of the rectangle as whole buckets of one layout.
type band struct {
	low, high float64 // exclusive, inclusive; infinite: no bound
	schema    int8    // hist.Explicit: by bounds
	// Exponential buckets: positive ones in (above, upTo], negative ones in [nearest,
	// farthest], and whether the zero bucket is within.
	above, upTo       int32
	nearest, farthest int32
	zero              bool
}

// rounding is the relative distance from a bucket's bound within which a value stands
// for that bound: URLs keep five digits, a bucket is 2 % wide.
const rounding = 1e-3

// bandOf widens (low, high] to whole buckets of histograms like h, which is in
// the coarsest layout of them.
func bandOf(h *hist.Histogram, low, high float64) band {
	if h.Schema == hist.Explicit {
		return explicitBand(h.Bounds, low, high)
	}
	b := band{low: low, high: high, schema: h.Schema, above: math.MinInt32, upTo: math.MaxInt32, nearest: math.MinInt32, farthest: math.MaxInt32}
	if len(h.Negative.Counts) == 0 && low <= 0 {
		low, b.low = math.Inf(-1), math.Inf(-1) // there are no values below 0
	}
	switch {
	case low > 0:
		k, exact := nearestBucket(low, h.Schema)
		if b.above = k; !exact {
			b.above = k - 1
		}
		b.low, b.farthest = hist.UpperBound(b.above, h.Schema), math.MinInt32
	case low == 0:
		b.farthest = math.MinInt32
	case !math.IsInf(low, -1):
		b.farthest, _ = nearestBucket(-low, h.Schema)
		b.low = -hist.UpperBound(b.farthest, h.Schema)
	}
	switch {
	case math.IsInf(high, 1):
	case high > 0:
		b.upTo, _ = nearestBucket(high, h.Schema)
		b.high = hist.UpperBound(b.upTo, h.Schema)
	case high == 0:
		b.upTo = math.MinInt32
	default:
		k, exact := nearestBucket(-high, h.Schema)
		if b.nearest = k; exact {
			b.nearest = k + 1
		}
		b.high, b.upTo = -hist.UpperBound(b.nearest-1, h.Schema), math.MinInt32
	}
	b.zero = low <= 0 && high >= 0
	return b
}

// nearestBucket returns the bucket that holds v > 0, or, with exact, the one that ends near v.
func nearestBucket(v float64, schema int8) (k int32, exact bool) {
	k = hist.BucketIndex(v, schema)
	switch {
	case hist.UpperBound(k, schema) <= v*(1+rounding):
		return k, true
	case hist.UpperBound(k-1, schema) >= v*(1-rounding):
		return k - 1, true
	}
	return k, false
}

func explicitBand(bounds []float64, low, high float64) band {
	b := band{low: math.Inf(-1), high: math.Inf(1), schema: hist.Explicit}
	for _, v := range bounds {
		if v <= low+rounding*math.Abs(low) {
			b.low = v
		}
	}
	for i := len(bounds) - 1; i >= 0; i-- {
		if v := bounds[i]; v >= high-rounding*math.Abs(high) {
			b.high = v
		}
	}
	return b
}

// count returns the observations of h within the band.
func (b *band) count(h *hist.Histogram) uint64 {
	if b.schema == hist.Explicit || h.Schema != b.schema {
		return b.between(h)
	}
	n := countWithin(h.Positive, b.above, b.upTo)
	if b.zero {
		n += h.ZeroCount
	}
	if len(h.Negative.Counts) > 0 && b.nearest <= b.farthest {
		n += countWithin(h.Negative, max(b.nearest, math.MinInt32+1)-1, b.farthest)
	}
	return n
}

// countWithin counts buckets (above, upTo].
func countWithin(b hist.Buckets, above, upTo int32) (n uint64) {
	from := max(0, int64(above)+1-int64(b.Offset))
	to := min(int64(len(b.Counts)), int64(upTo)+1-int64(b.Offset))
	for i := from; i < to; i++ {
		n += b.Counts[i]
	}
	return n
}

// between counts by the buckets' bounds, and buckets of another layout by their middles.
func (b *band) between(h *hist.Histogram) (n uint64) {
	for x := range h.All() {
		if x.Lower >= b.low && x.Upper <= b.high {
			n += x.Count
		} else if mid := x.Lower + (x.Upper-x.Lower)/2; mid > b.low && mid <= b.high && h.Schema != b.schema {
			n += x.Count
		}
	}
	return n
}
