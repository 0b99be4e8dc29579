package httpapi

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"tailscope/api"
	"tailscope/internal/query"
)

func (s *server) registerTraces(a huma.API) {
	get(s, a, "traces", "Requests of kept traces", s.traces)
	answerTo(s, a, "/api/v1/traces/{id}", "get-trace", "trace", "A kept trace, span by span", s.trace)
}

func (s *server) traces(ctx context.Context, in *api.TracesRequest) (*api.TracesResponse, error) {
	sel, err := s.span(in.Requests)
	if err != nil {
		return nil, err
	}
	r := query.TracesRequest{Selection: sel, Sort: in.Sort, Why: in.Why, Step: in.Step, Limit: in.Limit}
	if in.Time != "" {
		if r.Time, err = Time(in.Time).Parse("time", s.Now(), s.Now()); err != nil {
			return nil, err
		}
		if in.Start == "" && in.End == "" { // the range is around the moment
			r.Start, r.End = r.Time.Add(-defaultRange/2), r.Time.Add(defaultRange/2)
		}
	}
	if r.Min, err = inSeconds(in.Min, "min"); err != nil {
		return nil, err
	}
	if r.Max, err = inSeconds(in.Max, "max"); err != nil {
		return nil, err
	}
	if r.At, err = inSeconds(in.At, "at"); err != nil {
		return nil, err
	}
	out, err := query.Traces(ctx, s.Store, r)
	if err != nil {
		return nil, err
	}
	out.Link = s.TraceLink
	return out, nil
}
