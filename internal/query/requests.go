package query

import (
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// RequestsRequest asks for the requests of services, those that failed apart.
type RequestsRequest struct {
	Selection
	Grid
	Whole   bool     // one step, cut as finely as the kept slots allow; Grid is ignored
	By      []string // labels to group by, service and environment are always two
	Measure store.Measure
	Overlay Overlay // an earlier day, at the times of the range
}

// Requested are requests per group and step.
type Requested struct {
	Start, End int64        // covered, Unix seconds
	Step       int64        // 0 when asked for the whole
	Until      int64        // where the range asked for ends: the last step may reach beyond
	Slot       int64        // the coarsest slots that were read
	Overlay    *api.Overlay // which earlier days they are of; nil: those asked for
	// Entry says that spans of kind server or consumer were found, which are
	// then the only ones counted, at least for one of the services.
	Entry  bool
	Groups []RequestGroup
}

// RequestGroup holds a histogram per step, nil where nothing happened. They are
// the caller's.
type RequestGroup struct {
	Labels       labels.Labels
	Good, Failed []*hist.Histogram
}

// Count is how many requests there were in step i.
func (g *RequestGroup) Count(i int) (n uint64) {
	for _, h := range []*hist.Histogram{g.Good[i], g.Failed[i]} {
		if h != nil {
			n += h.Count
		}
	}
	return n
}

// Moment returns the moments of the requests of step i.
func (g *RequestGroup) Moment(i int) (m hist.Moment) {
	for _, h := range []*hist.Histogram{g.Good[i], g.Failed[i]} {
		if h != nil {
			m.Merge(h.Moment())
		}
	}
	return m
}

// Requests reads requests: a service's spans of kind server or consumer, or
// all of them when it has neither in the range. Groups are sorted by labels.
func Requests(ctx context.Context, st store.Store, r RequestsRequest) (*Requested, error) {
	by := slices.Clone(r.By)
	for _, name := range []string{series.LabelService, series.LabelEnvironment} {
		if !slices.Contains(by, name) {
			by = append(by, name)
		}
	}
	sel, err := resolve(ctx, st, r.Selection, slices.Concat(by, []string{series.LabelKind, series.LabelStatus}))
	if err != nil {
		return nil, err
	}
	if err := sel.wantDistribution("requests"); err != nil {
		return nil, err
	}
	if err := r.Overlay.check(); err != nil {
		return nil, err
	}
	st = r.Overlay.over(st, lastBase(r.End))
	sel.q.Measure = r.Measure
	out := &Requested{Until: lastBase(r.End), Overlay: r.Overlay.describe(r.Start.Unix(), r.End.Unix())}
	var res *store.Result
	n := 1
	if r.Whole {
		if res, err = st.Query(ctx, sel.q); err != nil {
			return nil, err
		}
		out.Start, out.End = res.Start, res.End
	} else {
		var q store.Query
		r.exact = true
		if res, q, err = stepped(ctx, st, sel.q, r.Start, r.End, r.Grid, 0); err != nil {
			return nil, err
		}
		out.Start, out.End, out.Step = q.Start, q.End, q.Step
		n = int((q.End - q.Start) / q.Step)
	}
	out.Slot = slotOf(res)
	entries := map[serviceIn]bool{}
	for _, g := range res.Groups {
		if len(g.Points) > 0 && isRequest(g) {
			entries[serviceInOf(g.Labels)] = true
			out.Entry = true
		}
	}
	index := make(map[string]int, len(res.Groups))
	var key []byte
	var spare []*hist.Histogram // there may be a group for each tenant, of one step
	for _, g := range res.Groups {
		if entries[serviceInOf(g.Labels)] && !isRequest(g) {
			continue
		}
		key = appendGroupKey(key[:0], g.Labels, by)
		i, ok := index[string(key)]
		if !ok {
			i = len(out.Groups)
			index[string(key)] = i
			if len(spare) < 2*n {
				spare = make([]*hist.Histogram, 2*n*min(len(res.Groups), 1+512/n))
			}
			out.Groups = append(out.Groups, RequestGroup{Labels: pick(g.Labels, by), Good: spare[:n:n], Failed: spare[n : 2*n : 2*n]})
			spare = spare[2*n:]
		}
		cells := out.Groups[i].Good
		if g.Labels.Get(series.LabelStatus) == statusError {
			cells = out.Groups[i].Failed
		}
		for _, p := range g.Points {
			if p.Hist == nil || p.Hist.Count == 0 {
				continue
			}
			at := 0
			if out.Step > 0 {
				at = int((p.Start - out.Start) / out.Step)
			}
			if cells[at] == nil {
				cells[at] = p.Hist
			} else if err := cells[at].Merge(p.Hist); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(out.Groups, func(a, b RequestGroup) int { return labels.Compare(a.Labels, b.Labels) })
	return out, nil
}

// Seconds is how much of step i lies within the range asked for.
func (r *Requested) Seconds(i int) float64 {
	t := timeline{start: r.Start, step: r.Step, until: r.Until}
	if r.Step == 0 {
		t.step = r.End - r.Start
	}
	return t.seconds(i)
}
