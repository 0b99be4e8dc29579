package query

import (
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/store"
)

// over returns a store that answers what is asked of the days shown with what
// was measured on the overlay's, so that a question need not know which day it
// is asked of; st itself without an overlay. What would lie at until (Unix
// seconds) or later is left out: the shown day has not come so far.
//
// Only Query moves, and only distributions: the last value of a counter means
// nothing where days are cut. TopK is refused, for every piece of a day would
// choose its own groups.
func (o Overlay) over(st store.Store, until int64) store.Store {
	if o.Name == "" {
		return st
	}
	return earlier{st, o, until}
}

type earlier struct {
	store.Store
	overlay Overlay
	until   int64
}

// grainOf is the length of the steps in which q is moved. Clocks change at
// quarters of an hour in every zone, so a question of one range needs no finer
// ones than its ends do.
func grainOf(q store.Query) int64 {
	if q.Step > 0 {
		return q.Step
	}
	for _, g := range [...]int64{900, 300, 60, 10} {
		if q.Start%g == 0 && q.End%g == 0 {
			return g
		}
	}
	return 1
}

// Query answers q at the times of the days shown.
func (e earlier) Query(ctx context.Context, q store.Query) (*store.Result, error) {
	if q.TopK > 0 {
		return nil, Invalid("overlay", "the groups with the most observations are chosen day by day; leave overlay or limit out")
	}
	grain := grainOf(q)
	out := &store.Result{Start: q.Start, End: q.End}
	groups := map[string]*store.Group{}
	for _, p := range e.overlay.pieces(q.Start, grain, int((q.End-q.Start+grain-1)/grain)) {
		shown := q.Start + int64(p.first)*grain
		shift := shown - p.start
		part := q
		part.Start, part.End = p.start, min(shown+int64(p.n)*grain, q.End, e.until)-shift
		if part.End <= part.Start {
			continue
		}
		res, err := e.Store.Query(ctx, part)
		if err != nil {
			return nil, err
		}
		out.Resolution = max(out.Resolution, res.Resolution)
		out.Series = max(out.Series, res.Series)
		out.PointsRead += res.PointsRead
		for _, g := range res.Groups {
			key := g.Labels.String()
			to := groups[key]
			if to == nil {
				to = &store.Group{Labels: g.Labels, Kind: g.Kind}
				groups[key] = to
			}
			for _, pt := range g.Points {
				pt.Start += shift
				if q.Step == 0 {
					pt.Start = q.Start
				}
				if err := addPoint(to, pt); err != nil {
					return nil, err
				}
			}
		}
	}
	for _, g := range groups {
		out.Groups = append(out.Groups, *g)
	}
	slices.SortFunc(out.Groups, func(a, b store.Group) int { return labels.Compare(a.Labels, b.Labels) })
	return out, nil
}

// addPoint adds a point that is not before the group's last; points of one
// step become one.
func addPoint(g *store.Group, p store.MergedPoint) error {
	k := len(g.Points) - 1
	if k < 0 || g.Points[k].Start != p.Start {
		g.Points = append(g.Points, p)
		return nil
	}
	last := &g.Points[k]
	last.Number.Merge(p.Number)
	switch {
	case p.Hist == nil:
	case last.Hist == nil:
		last.Hist = p.Hist
	default:
		last.Hist = last.Hist.Clone() // the store's own may be shared
		return last.Hist.Merge(p.Hist)
	}
	return nil
}
