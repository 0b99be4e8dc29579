package query

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// CallersRequest asks which requests lead to an operation. Component may be empty.
type CallersRequest struct {
	Selection                     // Family and Matchers are ignored
	Service, Component, Operation string
}

// Callers answers the requests, by service and operation, that an operation is
// a part of. Requests lie within one another, an inner service's within that of
// its caller; a request is direct when the operation runs in its own service,
// or is called from there. Time within a request that is not direct is time
// of a direct one too, so shares are of the direct ones' time, and are all of
// it when there is none.
func Callers(ctx context.Context, st store.Store, r CallersRequest) (*api.CallersResponse, error) {
	if r.Service == "" {
		return nil, Invalid("service", "name the service of the operation, such as service=checkout")
	}
	if r.Operation == "" {
		return nil, Invalid("operation", "name the operation, such as operation=SELECT orders")
	}
	if err := checkRange(r.Start, r.End); err != nil {
		return nil, err
	}
	q := store.Query{
		Matchers: []*labels.Matcher{
			labels.MustNewMatcher(labels.MatchEqual, series.LabelPartService, r.Service),
			labels.MustNewMatcher(labels.MatchEqual, series.LabelPartOperation, r.Operation),
		},
		By: []string{series.LabelService, series.LabelOperation, series.LabelComponent}, Measure: store.Moments, Schema: hist.DefaultSchema,
	}
	if r.Component != "" {
		q.Matchers = append(q.Matchers, labels.MustNewMatcher(labels.MatchEqual, series.LabelComponent, r.Component))
	}
	q.Start, q.End = Base(r.Start, r.End)
	type key struct{ service, operation string }
	type sums struct {
		component                    string
		micros, calls, with, repeats uint64
	}
	all := map[key]*sums{}
	out := &api.CallersResponse{Range: api.Range{Start: q.Start, End: q.End}, Callers: []api.Caller{}}
	for _, f := range []struct {
		family string
		add    func(*sums, uint64)
	}{
		{series.BreakdownSelf, func(s *sums, n uint64) { s.micros += n }},
		{series.BreakdownCalls, func(s *sums, n uint64) { s.calls += n }},
		{series.BreakdownWith, func(s *sums, n uint64) { s.with += n }},
		{series.BreakdownRepeats, func(s *sums, n uint64) { s.repeats += n }},
	} {
		q.Family = f.family
		res, err := st.Query(ctx, q)
		if err != nil {
			return nil, err
		}
		out.Start, out.End = min(out.Start, res.Start), max(out.End, res.End)
		for _, g := range res.Groups {
			k := key{g.Labels.Get(series.LabelService), g.Labels.Get(series.LabelOperation)}
			if all[k] == nil {
				all[k] = &sums{component: g.Labels.Get(series.LabelComponent)}
			}
			f.add(all[k], groupCount(g))
		}
	}
	var direct, any uint64
	for k, s := range all {
		any += s.micros
		if k.service == r.Service {
			direct += s.micros
		}
	}
	if direct == 0 {
		direct = any
	}
	for k, s := range all {
		out.Callers = append(out.Callers, api.Caller{
			Service: k.service, Operation: k.operation, Direct: k.service == r.Service, Calls: s.calls, Requests: s.with, Repeated: s.repeats,
			PerRequest: api.Float(float64(s.calls) / float64(s.with)), Seconds: api.Float(float64(s.micros) * micro),
			Share: api.Float(float64(s.micros) / float64(direct)), NPlusOne: NPlusOne(s.component, s.calls, s.with, s.repeats),
		})
	}
	slices.SortFunc(out.Callers, func(a, b api.Caller) int {
		return cmp.Or(-compare(float64(a.Seconds), float64(b.Seconds)), strings.Compare(a.Service, b.Service), strings.Compare(a.Operation, b.Operation))
	})
	return out, nil
}

// ServiceCalls returns, for each service, the services that its requests call, directly
// or by way of others.
func ServiceCalls(ctx context.Context, st store.Store, start, end int64) (map[string]map[string]bool, error) {
	q := store.Query{Family: series.BreakdownWith, By: []string{series.LabelService, series.LabelPartService}, Measure: store.Moments, Schema: hist.DefaultSchema, Start: start, End: end}
	res, err := st.Query(ctx, q)
	if err != nil {
		return nil, err
	}
	out := map[string]map[string]bool{}
	for _, g := range res.Groups {
		caller, callee := g.Labels.Get(series.LabelService), g.Labels.Get(series.LabelPartService)
		if caller == callee || groupCount(g) == 0 {
			continue
		}
		if out[caller] == nil {
			out[caller] = map[string]bool{}
		}
		out[caller][callee] = true
	}
	return out, nil
}
