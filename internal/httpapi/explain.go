package httpapi

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"tailscope/api"
	"tailscope/internal/observe/explain"
	"tailscope/internal/query"
)

func (s *server) registerExplain(a huma.API) {
	get(s, a, "explain", "Who became slow, or is slow, in a rectangle of the heatmap", s.explain)
}

func (s *server) explain(ctx context.Context, in *api.ExplainRequest) (*api.ExplainResponse, error) {
	now := s.Now()
	sel, err := s.selection(in.Selection)
	if err != nil {
		return nil, err
	}
	r := explain.Request{Selection: sel, Low: math.Inf(-1), High: math.Inf(1), Labels: in.Labels, Alone: in.Pairs != nil && !*in.Pairs, Limit: in.Limit, Against: in.Against,
		Changes: s.cuts(now)}
	if in.Before != "" {
		w, err := parseWindow("before", in.Before, now)
		if err != nil {
			return nil, err
		}
		r.BeforeStart, r.BeforeEnd = w.Start, w.End
	}
	if r.From, err = Time(in.From).Parse("from", now, time.Time{}); err != nil {
		return nil, err
	}
	if r.To, err = Time(in.To).Parse("to", now, time.Time{}); err != nil {
		return nil, err
	}
	if in.Low != nil {
		r.Low = *in.Low
	}
	if in.High != nil {
		r.High = *in.High
	}
	return explain.Explain(ctx, s.Store, r)
}

// parseBound reads a finite value; nil is unbounded.
func parseBound(field, text string) (*float64, error) {
	if text = strings.TrimSpace(text); text == "" {
		return nil, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return nil, query.Invalid(field, "%s is not a number; write seconds such as 0.2, or leave %s out for no bound", quote(text), field)
	}
	return &v, nil
}
