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
	positive int // place of positive bucket positiveFrom
	negative int // place of negative bucket negativeFrom, which has the highest values
	zero     int // place of the zero bucket, -1 if there is none

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
	// Between lies the zero bucket, or nothing; it reaches to its neighbours so
	// that edges ascend without gaps.
	l.zero = -1
	low, high := math.Inf(1), math.Inf(-1)
	if h.ZeroCount > 0 || len(neg.Counts) > 0 && len(pos.Counts) > 0 {
		if len(neg.Counts) > 0 {
			low = l.edges[len(l.edges)-1]
		} else {
			low = 0
			l.edges = append(l.edges, low)
		}
		l.zero = len(l.edges) - 1
		high = h.ZeroThreshold
		if len(pos.Counts) > 0 {
			high = hist.UpperBound(pos.Offset-1, h.Schema)
		} else if low < 0 {
			high = 0
		}
		l.edges = append(l.edges, max(high, math.Nextafter(low, 1)))
	} else if len(pos.Counts) > 0 {
		l.edges = append(l.edges, hist.UpperBound(pos.Offset-1, h.Schema))
	}
	l.positive, l.positiveFrom = len(l.edges)-1, pos.Offset
	for i := range pos.Counts {
		l.edges = append(l.edges, hist.UpperBound(pos.Offset+int32(i), h.Schema))
	}
	return l
}

// fill sets the counts of h, whose form is the layout's, and says which places
// it touched.
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

// emptied makes h an empty histogram of the form of like.
func emptied(h, like *hist.Histogram) {
	if like.Schema == hist.Explicit {
		e, err := hist.NewExplicit(like.Bounds)
		if err == nil {
			*h = *e
		}
		return
	}
	h.Reset(like.Schema)
	if like.ZeroThreshold > h.ZeroThreshold {
		_ = h.SetZeroThreshold(like.ZeroThreshold) // it was accepted before
	}
}
