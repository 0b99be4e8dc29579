package stat

import (
	"math"
	"slices"

	"tailscope/hist"
)

// layout numbers a histogram's buckets from the lowest values to the highest:
// negative ones, the zero bucket, positive ones.
type layout struct {
	edges    []float64
	positive int // index of positive bucket positiveFrom
	negative int // index of negative bucket negativeFrom, which has the highest values
	zero     int // index of the zero bucket, -1 if there is none

	positiveFrom, negativeFrom int32
}

func layoutOf(h *hist.Histogram) layout {
	if h.Schema == hist.Explicit {
		edges := append([]float64{math.Inf(-1)}, h.Bounds...)
		return layout{edges: append(edges, math.Inf(1)), zero: -1}
	}
	var l layout
	neg, pos := h.Negative, h.Positive
	for i := len(neg.Counts) - 1; i >= 0; i-- {
		l.edges = append(l.edges, -hist.UpperBound(neg.Offset+int32(i), h.Schema))
	}
	l.negative, l.negativeFrom = len(neg.Counts)-1, neg.Offset
	if len(neg.Counts) > 0 {
		l.edges = append(l.edges, -hist.UpperBound(neg.Offset-1, h.Schema))
	}
	// Between lies the zero bucket; what is left up to its neighbours becomes
	// buckets that nothing is counted in.
	l.zero = -1
	edge := func(v float64) {
		if len(l.edges) == 0 || v > l.edges[len(l.edges)-1] {
			l.edges = append(l.edges, v)
		}
	}
	if h.ZeroCount > 0 {
		if len(neg.Counts) > 0 {
			edge(-h.ZeroThreshold)
		} else {
			edge(0)
		}
		l.zero = len(l.edges) - 1
		edge(max(h.ZeroThreshold, math.SmallestNonzeroFloat64))
	}
	if len(pos.Counts) > 0 {
		edge(hist.UpperBound(pos.Offset-1, h.Schema))
	}
	l.positive, l.positiveFrom = len(l.edges)-1, pos.Offset
	for i := range pos.Counts {
		l.edges = append(l.edges, hist.UpperBound(pos.Offset+int32(i), h.Schema))
	}
	return l
}

// fill sets the counts of h, which has the layout's form, and returns the range of
// indices that it set.
func (l *layout) fill(row []float64, h *hist.Histogram) (lo, hi int) {
	lo, hi = len(row), 0
	set := func(place int, n uint64) {
		if n > 0 {
			row[place] += float64(n)
			lo, hi = min(lo, place), max(hi, place+1)
		}
	}
	if h.Schema == hist.Explicit {
		for i, n := range h.Positive.Counts {
			set(i, n)
		}
		return min(lo, hi), hi
	}
	for i, n := range h.Negative.Counts {
		set(l.negative-int(h.Negative.Offset+int32(i)-l.negativeFrom), n)
	}
	if h.ZeroCount > 0 {
		set(l.zero, h.ZeroCount)
	}
	for i, n := range h.Positive.Counts {
		if n > 0 {
			set(l.positive+int(h.Positive.Offset+int32(i)-l.positiveFrom), n)
		}
	}
	return min(lo, hi), hi
}

func sameBounds(a, b *hist.Histogram) bool {
	return a.Schema != hist.Explicit || slices.Equal(a.Bounds, b.Bounds)
}

// formed returns h's counts and sum in the form of the histogram that it was merged
// into.
func formed(h, like *hist.Histogram) (*hist.Histogram, error) {
	if like.Schema != hist.Explicit {
		c := h.Clone()
		c.ToExponential(like.Schema)
		c.Reduce(like.Schema)
		return c, c.SetZeroThreshold(like.ZeroThreshold)
	}
	// Merging leaves the common bounds, so each bucket lies within one of like's.
	c := &hist.Histogram{Schema: hist.Explicit, Bounds: like.Bounds, Count: h.Count, Sum: h.Sum}
	c.Positive.Counts = make([]uint64, len(like.Bounds)+1)
	to := 0
	for i, n := range h.Positive.Counts {
		for to < len(like.Bounds) && (i == len(h.Bounds) || h.Bounds[i] > like.Bounds[to]) {
			to++
		}
		c.Positive.Counts[to] += n
	}
	return c, nil
}
