package httpapi

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"tailscope/api"
	"tailscope/internal/query"
)

// Span is the selection of questions whose families are not a choice.
type Span struct {
	Match Selector `query:"match"`
	Start Time     `query:"start" doc:"beginning of the range, inclusive; six hours before end unless said otherwise"`
	End   Time     `query:"end" doc:"end of the range, exclusive; now unless said otherwise"`
}

func (s *server) span(in Span) (query.Selection, error) {
	sel, err := (&Selection{Match: in.Match, Start: in.Start, End: in.End}).parse(s.Now())
	if err == nil && sel.Family != "" {
		err = query.Invalid("match", "this question has families of its own; leave %s out of match", sel.Family)
	}
	return sel, err
}

type breakdownInput struct {
	Span
	Grid
	Overlay
	Q     List     `query:"q" doc:"quantiles between 0 and 1, parted by commas; 0.5,0.95,0.99 unless said otherwise"`
	Above List     `query:"above" doc:"the band: requests above this quantile; 0.95 unless said otherwise"`
	Low   Duration `query:"low" doc:"the band instead: requests that took longer than so many seconds"`
	High  Duration `query:"high" doc:"the band instead: requests that took no longer than so many seconds"`
	Limit Int      `query:"limit" doc:"parts whose time is answered per step too; 10 unless said otherwise"`
}

type operationsInput struct {
	Span
	Grid
	Overlay
	Sort      string `query:"sort" doc:"total, calls, errors, mean, name or one of the quantiles (0.99 or p99); a leading minus turns it round"`
	Search    string `query:"search" doc:"part of an operation's name"`
	Offset    Int    `query:"offset" doc:"operations to pass over"`
	Limit     Int    `query:"limit" doc:"operations to answer, at most 1000; 50 unless said otherwise"`
	Q         List   `query:"q" doc:"quantiles between 0 and 1, parted by commas; 0.5,0.95,0.99 unless said otherwise"`
	Component List   `query:"component" doc:"only these components: app, db, cache, external, messaging"`
	Kind      List   `query:"kind" doc:"only these kinds of spans: server and consumer are requests, client and producer are calls"`
}

type callersInput struct {
	Service   string `query:"service" doc:"that the operation runs in, or is called from if it sends no spans"`
	Component string `query:"component" doc:"of the operation"`
	Operation string `query:"operation" doc:"whose callers are meant"`
	Start     Time   `query:"start" doc:"beginning of the range, inclusive; six hours before end unless said otherwise"`
	End       Time   `query:"end" doc:"end of the range, exclusive; now unless said otherwise"`
}

func (s *server) registerBreakdown(a huma.API) {
	get(s, a, "breakdown", "Where the time of requests goes", s.breakdown)
	get(s, a, "operations", "Operations by the time they take", s.operations)
	get(s, a, "callers", "The requests that lead to an operation", s.callers)
}

func (s *server) breakdown(ctx context.Context, in *breakdownInput) (*api.BreakdownResponse, error) {
	sel, err := s.span(in.Span)
	if err != nil {
		return nil, err
	}
	r := query.BreakdownRequest{Selection: sel, Now: s.Now()}
	if r.Grid, err = in.Grid.parse(); err != nil {
		return nil, err
	}
	if r.Overlay, err = in.Overlay.parse(); err != nil {
		return nil, err
	}
	if r.Quantiles, err = query.ParseQuantiles(string(in.Q), defaultQuantiles); err != nil {
		return nil, err
	}
	if in.Above != "" {
		above, err := query.ParseQuantiles(string(in.Above), "")
		if err != nil || len(above) != 1 || above[0].Q == 0 || above[0].Q == 1 {
			return nil, query.Invalid("above", "%s is not a quantile between 0 and 1; write one, such as 0.95", quote(string(in.Above)))
		}
		r.Above = above[0].Q
	}
	if r.Low, err = seconds(in.Low, "low"); err != nil {
		return nil, err
	}
	if r.High, err = seconds(in.High, "high"); err != nil {
		return nil, err
	}
	if r.Limit, err = in.Limit.Parse("limit"); err != nil {
		return nil, err
	}
	return query.Breakdown(ctx, s.Store, r)
}

// seconds reads a duration of a request.
func seconds(d Duration, field string) (float64, error) {
	v, err := d.Parse(field)
	if err == nil && v < 0 {
		err = query.Invalid(field, "%s is negative; write seconds, such as 0.25", field)
	}
	return v.Seconds(), err
}

func (s *server) operations(ctx context.Context, in *operationsInput) (*api.OperationsResponse, error) {
	sel, err := s.span(in.Span)
	if err != nil {
		return nil, err
	}
	r := query.OperationsRequest{Selection: sel, Sort: in.Sort, Search: in.Search}
	if r.Grid, err = in.Grid.parse(); err != nil {
		return nil, err
	}
	if r.Overlay, err = in.Overlay.parse(); err != nil {
		return nil, err
	}
	if r.Quantiles, err = query.ParseQuantiles(string(in.Q), defaultQuantiles); err != nil {
		return nil, err
	}
	if r.Components, err = in.Component.Names("component"); err != nil {
		return nil, err
	}
	if r.Kinds, err = in.Kind.Names("kind"); err != nil {
		return nil, err
	}
	if r.Offset, err = in.Offset.Parse("offset"); err != nil {
		return nil, err
	}
	if r.Limit, err = in.Limit.Parse("limit"); err != nil {
		return nil, err
	}
	return query.Operations(ctx, s.Store, r)
}

func (s *server) callers(ctx context.Context, in *callersInput) (*api.CallersResponse, error) {
	sel, err := s.span(Span{Start: in.Start, End: in.End})
	if err != nil {
		return nil, err
	}
	return query.Callers(ctx, s.Store, query.CallersRequest{Selection: sel, Service: in.Service, Component: in.Component, Operation: in.Operation})
}
