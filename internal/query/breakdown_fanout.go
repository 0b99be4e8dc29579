package query

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// fanOuts answers the parts that were called on several instances at once, by
// falling calls: how often each instance was the last to end.
func fanOuts(ctx context.Context, st store.Store, q store.Query, band buckets) ([]api.FanOut, error) {
	type key struct {
		partKey
		instance string
	}
	calls, last := map[key]uint64{}, map[key]*hist.Histogram{}
	for _, family := range []string{series.BreakdownFanout, series.BreakdownLast} {
		q.Family, q.Step, q.By, q.Measure = family, 0, append(slices.Clone(partLabels), series.LabelPartInstance), store.Buckets
		if family == series.BreakdownFanout {
			q.Measure = store.Moments
		}
		res, err := st.Query(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, g := range res.Groups {
			k := key{partOf(g.Labels), g.Labels.Get(series.LabelPartInstance)}
			switch {
			case len(g.Points) == 0 || g.Points[0].Hist == nil:
			case family == series.BreakdownFanout:
				calls[k] = g.Points[0].Hist.Count
			default:
				last[k] = g.Points[0].Hist
			}
		}
	}
	type sums struct{ calls, last, band uint64 }
	all := map[partKey]*sums{}
	instances := map[partKey][]key{}
	for k, n := range calls {
		if all[k.partKey] == nil {
			all[k.partKey] = &sums{}
		}
		s := all[k.partKey]
		s.calls += n
		s.last += total(last[k])
		s.band += band.count(last[k])
		instances[k.partKey] = append(instances[k.partKey], k)
	}
	var out []api.FanOut
	for p, ks := range instances {
		if len(ks) < 2 {
			continue
		}
		f := api.FanOut{Service: p.service, Component: p.component, Operation: p.operation, System: p.system}
		s := all[p]
		for _, k := range ks {
			f.Instances = append(f.Instances, api.FanOutInstance{
				Instance: k.instance, Calls: calls[k], Last: total(last[k]),
				Share: api.Float(float64(total(last[k])) / float64(s.last)), BandShare: api.Float(float64(band.count(last[k])) / float64(s.band)),
			})
		}
		slices.SortFunc(f.Instances, func(a, b api.FanOutInstance) int {
			return cmp.Or(cmp.Compare(b.Last, a.Last), strings.Compare(a.Instance, b.Instance))
		})
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b api.FanOut) int {
		x, y := partKey{a.Service, a.Component, a.Operation, a.System}, partKey{b.Service, b.Component, b.Operation, b.System}
		return cmp.Or(cmp.Compare(all[y].calls, all[x].calls), comparePart(x, y))
	})
	return out, nil
}

// skews answers the clocks that disagree among the services of the parts.
func skews(ctx context.Context, st store.Store, q store.Query, service string, list []*part) ([]api.Skew, error) {
	services := map[string]bool{service: true}
	for _, p := range list {
		services[p.service] = true
	}
	const peer, direction = "peer", "direction"
	res, err := st.Query(ctx, store.Query{
		Family: series.ClockSkew, Start: q.Start, End: q.End, By: []string{series.LabelService, peer, direction}, Schema: hist.MaxSchema,
	})
	if err != nil {
		return nil, err
	}
	var out []api.Skew
	for _, g := range res.Groups {
		s, p := g.Labels.Get(series.LabelService), g.Labels.Get(peer)
		if len(g.Points) == 0 || g.Points[0].Hist == nil || !services[s] || p != series.ComponentQueue && !services[p] {
			continue
		}
		h := g.Points[0].Hist
		out = append(out, api.Skew{
			Service: s, Peer: p, Direction: g.Labels.Get(direction), Calls: h.Count,
			Median: api.Float(h.Quantile(0.5)), Max: api.Float(h.Max),
		})
	}
	slices.SortFunc(out, func(a, b api.Skew) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), strings.Compare(a.Service, b.Service), strings.Compare(a.Peer, b.Peer), strings.Compare(a.Direction, b.Direction))
	})
	return out, nil
}

var nan = api.Float(math.NaN())
