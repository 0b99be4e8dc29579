package query

import (
	"slices"

	"tailscope/hist"
	"tailscope/internal/store"
)

// Rows cut values into rows that histograms share, as those of a heatmap:
// buckets, made coarser until they fit.
type Rows struct{ of rower }

// NewRows finds at most limit rows for histograms, of which none may be nil or
// empty and one at least is needed.
func NewRows(of []*hist.Histogram, limit int) *Rows {
	points := make([]store.MergedPoint, len(of))
	for i, h := range of {
		points[i].Hist = h
	}
	return &Rows{newRows(points, limit)}
}

func newRows(points []store.MergedPoint, limit int) rower {
	if slices.ContainsFunc(points, func(p store.MergedPoint) bool { return p.Hist.Schema == hist.Explicit }) {
		return newExplicitRows(points, limit)
	}
	return newExponentialRows(points, limit)
}

// Bounds ascend; there is one more than rows.
func (r *Rows) Bounds() []float64 { return r.of.bounds() }

// Add adds the counts of one of the histograms to counts, one of each row.
func (r *Rows) Add(h *hist.Histogram, counts []uint64) { r.of.add(h, counts) }
