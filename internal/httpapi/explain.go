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

type explainInput struct {
	Selection
	From   Time   `query:"from" doc:"where the rectangle begins, inclusive; start unless said otherwise"`
	To     Time   `query:"to" doc:"where the rectangle ends, exclusive; end unless said otherwise"`
	Low    string `query:"low" doc:"value above which the rectangle lies; no bound unless said otherwise"`
	High   string `query:"high" doc:"value up to which the rectangle reaches; no bound unless said otherwise"`
	Labels List   `query:"labels" doc:"only these labels"`
	Pairs  Bool   `query:"pairs" doc:"whether to look at pairs of labels too; true unless said otherwise"`
	Limit  Int    `query:"limit" doc:"labels and pairs to answer, at most 200; 20 unless said otherwise"`
}

func (s *server) registerExplain(a huma.API) {
	get(s, a, "explain", "What a rectangle of the heatmap has more often than the rest", s.explain)
}

func (s *server) explain(ctx context.Context, in *explainInput) (*api.ExplainResponse, error) {
	now := s.Now()
	sel, err := in.Selection.parse(now)
	if err != nil {
		return nil, err
	}
	r := explain.Request{Selection: sel}
	if r.From, err = in.From.Parse("from", now, time.Time{}); err != nil {
		return nil, err
	}
	if r.To, err = in.To.Parse("to", now, time.Time{}); err != nil {
		return nil, err
	}
	if r.Low, err = parseBound("low", in.Low, math.Inf(-1)); err != nil {
		return nil, err
	}
	if r.High, err = parseBound("high", in.High, math.Inf(1)); err != nil {
		return nil, err
	}
	if r.Labels, err = in.Labels.Names("labels"); err != nil {
		return nil, err
	}
	if in.Pairs != "" {
		pairs, err := in.Pairs.Parse("pairs")
		if err != nil {
			return nil, err
		}
		r.Alone = !pairs
	}
	if r.Limit, err = in.Limit.Parse("limit"); err != nil {
		return nil, err
	}
	return explain.Explain(ctx, s.Store, r)
}

// parseBound reads a finite value; empty means unbounded.
func parseBound(field, text string, unbounded float64) (float64, error) {
	if text = strings.TrimSpace(text); text == "" {
		return unbounded, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, query.Invalid(field, "%s is not a number; write seconds such as 0.2, or leave %s out for no bound", quote(text), field)
	}
	return v, nil
}
