package hist

import (
	"math"
	"sort"
)

// NewExplicit returns an empty histogram of explicit buckets. Bounds are the inclusive
// upper bounds, finite and ascending; above the last lies one more bucket. The slice is
// retained and must not change.
func NewExplicit(bounds []float64) (*Histogram, error) {
	h := New(DefaultSchema)
	h.setExplicit(bounds)
	if err := h.validateExplicit(); err != nil {
		return nil, err
	}
	return h, nil
}

func (h *Histogram) setExplicit(bounds []float64) {
	if bounds == nil {
		bounds = []float64{}
	}
	h.Schema, h.ZeroThreshold, h.Bounds = Explicit, 0, bounds
	h.Positive.Offset = 0
	h.Positive.Counts = append(h.Positive.Counts[:0], make([]uint64, len(bounds)+1)...)
}

func (h *Histogram) validateExplicit() error {
	for i, b := range h.Bounds {
		if math.IsNaN(b) || math.IsInf(b, 0) {
			return invalid("bound %v", b)
		}
		if i > 0 && b <= h.Bounds[i-1] {
			return invalid("bound %v after %v", b, h.Bounds[i-1])
		}
	}
	if len(h.Positive.Counts) != len(h.Bounds)+1 || h.Positive.Offset != 0 {
		return invalid("%d bounds with %d buckets", len(h.Bounds), len(h.Positive.Counts))
	}
	if h.ZeroCount != 0 || h.ZeroThreshold != 0 || len(h.Negative.Counts) != 0 {
		return invalid("zero or negative buckets beside explicit ones")
	}
	total, ok := addCounts(h.Positive.Counts)
	if !ok {
		return invalid("counts overflow")
	}
	if total != h.Count {
		return invalid("count %d, but buckets hold %d", h.Count, total)
	}
	return nil
}

// explicitIndex returns the bucket of v: the first whose bound is not below it.
func (h *Histogram) explicitIndex(v float64) int {
	return sort.SearchFloat64s(h.Bounds, v)
}

// explicitRange returns the bounds of bucket i, open below, closed above.
func (h *Histogram) explicitRange(i int) (lo, hi float64) {
	lo, hi = math.Inf(-1), math.Inf(1)
	if i > 0 {
		lo = h.Bounds[i-1]
	}
	if i < len(h.Bounds) {
		hi = h.Bounds[i]
	}
	return lo, hi
}

func equalBounds(a, b []float64) bool {
	if len(a) != len(b) {
		return false
	}
	if len(a) == 0 || &a[0] == &b[0] {
		return true
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// mergeExplicit merges where h, o or both are explicit; done is false if both must be
// merged as exponential (h already is then).
func (h *Histogram) mergeExplicit(o *Histogram) (done bool, err error) {
	switch {
	case h.Count == 0:
		weighted, e := h.Weighted, h.Error
		if o.Schema == Explicit {
			h.Reset(DefaultSchema)
			h.setExplicit(o.Bounds)
			copy(h.Positive.Counts, o.Positive.Counts)
			h.Weighted = weighted
			h.mergeMoments(o)
			h.Error = max(h.Error, e)
			return true, nil
		}
		h.Reset(o.Schema)
		h.Weighted, h.Error = weighted, e
		return false, nil
	case h.Schema != o.Schema:
		if h.Schema == Explicit {
			h.ToExponential(o.Schema)
		}
		return false, nil
	}
	if !equalBounds(h.Bounds, o.Bounds) {
		common := commonBounds(h.Bounds, o.Bounds)
		h.rebin(common)
		o = o.Clone()
		o.rebin(common)
	}
	for i, c := range o.Positive.Counts {
		h.Positive.Counts[i] += c
	}
	h.mergeMoments(o)
	return true, nil
}

func commonBounds(a, b []float64) []float64 {
	common := make([]float64, 0, min(len(a), len(b)))
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] < b[0]:
			a = a[1:]
		case a[0] > b[0]:
			b = b[1:]
		default:
			common = append(common, a[0])
			a, b = a[1:], b[1:]
		}
	}
	return common
}

// rebin keeps only some of the bounds.
func (h *Histogram) rebin(bounds []float64) {
	counts := make([]uint64, len(bounds)+1)
	for i, c := range h.Positive.Counts {
		_, hi := h.explicitRange(i)
		counts[sort.SearchFloat64s(bounds, hi)] += c
	}
	h.Bounds, h.Positive.Counts = bounds, counts
}

// ToExponential turns explicit buckets into exponential ones, which can be merged with
// such. Each bucket's count goes to one place inside it that depends on its bounds alone
// (so that merging before or after gives the same): the geometric mean of two bounds of
// one sign, half the bound if the other is zero or absent, just beyond the bound of a
// bucket that is open to infinity. Error becomes at least the explicit buckets' own
// error. It does not change exponential histograms.
func (h *Histogram) ToExponential(schema int8) {
	if h.Schema != Explicit {
		return
	}
	e := New(schema)
	for i, c := range h.Positive.Counts {
		if c > 0 {
			e.record(h.representative(i), c)
		}
	}
	e.Error = max(h.Error, h.explicitError())
	e.Count, e.Min, e.Max, e.Weighted, e.Squares = h.Count, h.Min, h.Max, h.Weighted, h.Squares
	e.Sum, e.exact, e.scratch = h.Sum, h.exact, h.scratch
	*h = *e
}

func (h *Histogram) representative(i int) float64 {
	lo, hi := h.explicitRange(i)
	switch {
	case lo >= 0 && math.IsInf(hi, 1):
		return math.Nextafter(lo, math.MaxFloat64)
	case hi <= 0 && math.IsInf(lo, -1):
		return hi
	case lo > 0:
		return math.Sqrt(lo) * math.Sqrt(hi)
	case hi < 0:
		return -math.Sqrt(-lo) * math.Sqrt(-hi)
	case math.IsInf(lo, -1) && math.IsInf(hi, 1):
		return 0
	case math.IsInf(lo, -1):
		return hi / 2
	case math.IsInf(hi, 1):
		return 0
	}
	return lo/2 + hi/2
}

// explicitError returns the greatest hi/lo-1 of the occupied buckets, narrowed by a
// known minimum and maximum, or +Inf if one reaches zero or infinity.
func (h *Histogram) explicitError() float64 {
	worst := 0.0
	for i, c := range h.Positive.Counts {
		if c == 0 {
			continue
		}
		lo, hi := h.explicitRange(i)
		lo, hi = h.narrow(lo, hi)
		if lo == hi {
			continue
		}
		if hi <= 0 {
			lo, hi = -hi, -lo
		}
		if !(lo > 0) || math.IsInf(hi, 1) {
			return math.Inf(1)
		}
		worst = max(worst, hi/lo-1)
	}
	return worst
}

// narrow cuts a range to the known minimum and maximum.
func (h *Histogram) narrow(lo, hi float64) (float64, float64) {
	if h.Min > lo {
		lo = min(h.Min, hi)
	}
	if h.Max < hi {
		hi = max(h.Max, lo)
	}
	return lo, hi
}
