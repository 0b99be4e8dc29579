package query

import (
	"context"
	"slices"
	"sort"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"golang.org/x/sync/errgroup"

	"tailscope/api"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// LabelsRequest asks what there is to filter by.
type LabelsRequest struct {
	Selection
	Names []string // only these labels; empty means all
	Limit int      // values per label, default 100
}

// Labels lists every label of the selection with its most frequent values. A
// matcher on a label does not narrow that label's own values, so that a filter
// can offer what it does not show.
func Labels(ctx context.Context, st store.Store, r LabelsRequest) (*api.LabelsResponse, error) {
	if err := checkLimit(&r.Limit, 100, MaxGroups); err != nil {
		return nil, err
	}
	sel, err := resolve(ctx, st, r.Selection, nil)
	if err != nil {
		return nil, err
	}
	names, err := labelNames(ctx, st, sel)
	if err != nil {
		return nil, err
	}
	if len(r.Names) > 0 {
		names = slices.DeleteFunc(names, func(n string) bool { return !slices.Contains(r.Names, n) })
	}
	out := &api.LabelsResponse{Labels: make([]api.LabelValues, 0, len(names))}
	tallies := map[series.View]map[string]tally{}
	totals := map[series.View]uint64{}
	for _, name := range names {
		q := sel.q
		q.Measure = store.Moments
		q.Matchers = without(sel.q.Matchers, name)
		view, ok := ViewOf(q.Family, append(matcherNames(q.Matchers), name)...)
		if !ok {
			continue // instance or peer beside a selected tenant
		}
		q.View = view
		var values tally
		var total uint64
		if len(q.Matchers) == len(sel.q.Matchers) && view != series.Full {
			// One pass over a small view counts all its labels.
			if tallies[view] == nil {
				if tallies[view], totals[view], err = tallyAll(ctx, st, q); err != nil {
					return nil, err
				}
			}
			values, total = tallies[view][name], totals[view]
		} else if values, total, err = tallyOne(ctx, st, q, name); err != nil {
			return nil, err
		}
		if len(values) > 0 {
			out.Labels = append(out.Labels, values.render(name, total, r.Limit))
		}
	}
	return out, nil
}

// labelNames lists the labels of the selected series, those of every view of a span family.
func labelNames(ctx context.Context, st store.Store, sel *resolved) ([]string, error) {
	views := []series.View{series.Full}
	if sel.span {
		views = append(views, series.Marginal)
	}
	var names []string
	for _, v := range views {
		if v == series.Marginal && named(sel.q.Matchers, series.LabelTenant) || v == series.Full && sel.span && besideTenant(sel.q.Matchers) {
			continue
		}
		n, err := st.LabelNames(ctx, sel.info.Name, v, sel.q.Matchers, sel.q.Start, sel.q.End)
		if err != nil {
			return nil, err
		}
		names = append(names, n...)
	}
	for _, m := range sel.q.Matchers {
		names = append(names, m.Name)
	}
	sort.Strings(names)
	return slices.Compact(names), nil
}

func matcherNames(ms []*labels.Matcher) []string {
	out := make([]string, 0, len(ms)+1)
	for _, m := range ms {
		out = append(out, m.Name)
	}
	return out
}

func without(ms []*labels.Matcher, label string) []*labels.Matcher {
	return slices.DeleteFunc(slices.Clone(ms), func(m *labels.Matcher) bool { return m.Name == label })
}

// only returns the matchers of one label.
func only(ms []*labels.Matcher, label string) []*labels.Matcher {
	return slices.DeleteFunc(slices.Clone(ms), func(m *labels.Matcher) bool { return m.Name != label })
}

// tally counts observations per value of one label.
type tally map[string]uint64

// tallyAll counts per value of each label, and all observations.
func tallyAll(ctx context.Context, st store.Store, q store.Query) (map[string]tally, uint64, error) {
	q.Each = true
	res, err := st.Query(ctx, q)
	if err != nil {
		return nil, 0, err
	}
	out, total := map[string]tally{}, uint64(0)
	for _, g := range res.Groups {
		n := groupCount(g)
		total += n
		g.Labels.Range(func(l labels.Label) {
			if out[l.Name] == nil {
				out[l.Name] = tally{}
			}
			out[l.Name][l.Value] += n
		})
	}
	return out, total, nil
}

func tallyOne(ctx context.Context, st store.Store, q store.Query, name string) (tally, uint64, error) {
	q.By = []string{name}
	res, err := st.Query(ctx, q)
	if err != nil {
		return nil, 0, err
	}
	out, total := make(tally, len(res.Groups)), uint64(0)
	for _, g := range res.Groups {
		n := groupCount(g)
		total += n
		if v := g.Labels.Get(name); v != "" {
			out[v] += n
		}
	}
	return out, total, nil
}

func groupCount(g store.Group) uint64 {
	var n uint64
	for _, p := range g.Points {
		if p.Hist != nil {
			n += p.Hist.Count
		} else {
			n += p.Number.Count
		}
	}
	return n
}

// render returns the values with the most of total observations.
func (t tally) render(name string, total uint64, limit int) api.LabelValues {
	out := api.LabelValues{Name: name, Total: len(t), Values: make([]api.LabelValue, 0, len(t)), Without: total}
	for v, n := range t {
		out.Without -= n
		out.Values = append(out.Values, api.LabelValue{Value: v, Count: n})
	}
	sort.Slice(out.Values, func(i, j int) bool {
		a, b := out.Values[i], out.Values[j]
		if a.Count != b.Count {
			return a.Count > b.Count
		}
		return a.Value < b.Value
	})
	out.Values = out.Values[:min(len(out.Values), limit)]
	return out
}

// familiesAtOnce is how many families are looked at at the same time.
const familiesAtOnce = 4

// familiesOf keeps the families that the service has a series of on a day that
// [start, end) touches. Most of what a service has it has on the last of them,
// which is looked at first.
func familiesOf(ctx context.Context, st store.Store, all []store.FamilyInfo, service string, start, end int64) ([]store.FamilyInfo, error) {
	const day = 86400
	ms := []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, series.LabelService, service)}
	last := max(start, (end-1)-((end-1)%day+day)%day)
	has := make([]bool, len(all))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(familiesAtOnce)
	for i, f := range all {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			view, _ := ViewOf(f.Name, series.LabelService)
			for _, part := range [...][2]int64{{last, end}, {start, last}} {
				if part[0] >= part[1] || has[i] {
					continue
				}
				found, err := st.LabelValues(ctx, f.Name, view, series.LabelService, ms, part[0], part[1])
				if err != nil {
					return err
				}
				has[i] = len(found) > 0
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	kept := all[:0:0]
	for i, f := range all {
		if has[i] {
			kept = append(kept, f)
		}
	}
	return kept, nil
}

// FamiliesRequest asks what is measured.
type FamiliesRequest struct {
	Service    string // only families that this service has series of; empty: all
	Start, End time.Time
}

// Families lists what is measured, by name. Those of one service are the ones
// that have a series of it on a day (UTC) that the range touches.
func Families(ctx context.Context, st store.Store, r FamiliesRequest) (*api.FamiliesResponse, error) {
	all, err := st.Families(ctx)
	if err != nil {
		return nil, err
	}
	if r.Service != "" {
		if err := checkRange(r.Start, r.End); err != nil {
			return nil, err
		}
		start, end := Base(r.Start, r.End)
		if all, err = familiesOf(ctx, st, all, r.Service, start, end); err != nil {
			return nil, err
		}
	}
	out := &api.FamiliesResponse{Families: make([]api.Family, 0, len(all))}
	for _, f := range all {
		out.Families = append(out.Families, api.Family{Name: f.Name, Kind: KindName(f.Kind), Interval: f.IntervalSeconds, Unit: unitOf(f.Name)})
	}
	sort.Slice(out.Families, func(i, j int) bool { return out.Families[i].Name < out.Families[j].Name })
	return out, nil
}
