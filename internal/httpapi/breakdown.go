package httpapi

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"tailscope/api"
	"tailscope/internal/query"
)

// span reads the selection of a question whose families are not a choice.
func (s *server) span(in api.Requests) (query.Selection, error) {
	sel, err := s.selection(api.Selection{Match: in.Match, Start: in.Start, End: in.End})
	if err == nil && sel.Family != "" {
		err = query.Invalid("match", "this question has families of its own; leave %s out of match", sel.Family)
	}
	return sel, err
}

func (s *server) registerBreakdown(a huma.API) {
	get(s, a, "breakdown", "Where the time of requests goes", s.breakdown)
	get(s, a, "operations", "Operations by the time they take", s.operations)
	get(s, a, "callers", "The requests that lead to an operation", s.callers)
}

func (s *server) breakdown(ctx context.Context, in *api.BreakdownRequest) (*api.BreakdownResponse, error) {
	sel, err := s.span(in.Requests)
	if err != nil {
		return nil, err
	}
	r := query.BreakdownRequest{Selection: sel, Now: s.Now(), Limit: in.Limit}
	r.Above = float64(in.Above)
	if r.Grid, err = grid(in.Grid); err != nil {
		return nil, err
	}
	if r.Overlay, err = overlay(in.EarlierDay); err != nil {
		return nil, err
	}
	if r.Quantiles, err = parseQuantiles(in.Quantiles); err != nil {
		return nil, err
	}
	if r.Low, err = inSeconds(in.Low, "low"); err != nil {
		return nil, err
	}
	if r.High, err = inSeconds(in.High, "high"); err != nil {
		return nil, err
	}
	return query.Breakdown(ctx, s.Store, r)
}

// inSeconds reads how long a request took.
func inSeconds(v time.Duration, field string) (float64, error) {
	if v < 0 {
		return 0, query.Invalid(field, "%s is negative; write seconds, such as 0.25", field)
	}
	return v.Seconds(), nil
}

func (s *server) operations(ctx context.Context, in *api.OperationsRequest) (*api.OperationsResponse, error) {
	sel, err := s.span(in.Requests)
	if err != nil {
		return nil, err
	}
	r := query.OperationsRequest{Selection: sel, Now: s.Now(), Newest: s.Seconds, Sort: in.Sort, Search: in.Search, Components: in.Components, Kinds: in.Kinds, Offset: in.Offset, Limit: in.Limit}
	if r.Grid, err = grid(in.Grid); err != nil {
		return nil, err
	}
	if r.Overlay, err = overlay(in.EarlierDay); err != nil {
		return nil, err
	}
	if r.Quantiles, err = parseQuantiles(in.Quantiles); err != nil {
		return nil, err
	}
	out, err := query.Operations(ctx, s.Store, r)
	if err == nil && out.Overlay == nil {
		out.Whole = s.whole(sel, out.End)
	}
	return out, err
}

func (s *server) callers(ctx context.Context, in *api.CallersRequest) (*api.CallersResponse, error) {
	sel, err := s.span(api.Requests{Start: in.Start, End: in.End})
	if err != nil {
		return nil, err
	}
	return query.Callers(ctx, s.Store, query.CallersRequest{Selection: sel, Service: in.Service, Component: in.Component, Operation: in.Operation})
}
