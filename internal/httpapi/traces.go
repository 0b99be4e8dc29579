package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"tailscope/api"
	"tailscope/internal/query"
)

type tracesInput struct {
	Span
	Min   Duration `query:"min" doc:"requests that took at least so many seconds"`
	Max   Duration `query:"max" doc:"requests that took at most so many seconds"`
	Why   List     `query:"why" doc:"only those kept for being slow, failed or an exemplar"`
	Sort  string   `query:"sort" doc:"slowest, newest, or nearest to at and time; slowest unless said otherwise"`
	At    Duration `query:"at" doc:"the duration to be nearest to, in seconds"`
	Time  Time     `query:"time" doc:"the moment to be nearest to"`
	Step  Duration `query:"step" doc:"how long that moment lasts, as a column of a heatmap does"`
	Limit Int      `query:"limit" doc:"requests to answer, at most 1000; 100 unless said otherwise"`
}

func (s *server) registerTraces(a huma.API) {
	get(s, a, "traces", "Requests of kept traces", s.traces)
	register(s, a, http.MethodGet, "/api/v1/traces/{id}", "get-trace", "A kept trace, span by span", http.StatusOK,
		func(ctx context.Context, in *traceInput) (*body[api.TraceResponse], error) {
			out, err := s.trace(ctx, in)
			if err != nil {
				return nil, s.failed(ctx, "trace", err)
			}
			return &body[api.TraceResponse]{out}, nil
		})
}

func (s *server) traces(ctx context.Context, in *tracesInput) (*api.TracesResponse, error) {
	sel, err := s.span(in.Span)
	if err != nil {
		return nil, err
	}
	r := query.TracesRequest{Selection: sel, Sort: in.Sort}
	if in.Time != "" {
		if r.Time, err = in.Time.Parse("time", s.Now(), s.Now()); err != nil {
			return nil, err
		}
		if in.Start == "" && in.End == "" { // the range is around the moment
			r.Start, r.End = r.Time.Add(-defaultRange/2), r.Time.Add(defaultRange/2)
		}
	}
	if r.Min, err = seconds(in.Min, "min"); err != nil {
		return nil, err
	}
	if r.Max, err = seconds(in.Max, "max"); err != nil {
		return nil, err
	}
	if r.Why, err = in.Why.Names("why"); err != nil {
		return nil, err
	}
	if r.At, err = seconds(in.At, "at"); err != nil {
		return nil, err
	}
	if r.Step, err = in.Step.Parse("step"); err != nil {
		return nil, err
	}
	if r.Limit, err = in.Limit.Parse("limit"); err != nil {
		return nil, err
	}
	out, err := query.Traces(ctx, s.Store, r)
	if err != nil {
		return nil, err
	}
	out.Link = s.TraceLink
	return out, nil
}
