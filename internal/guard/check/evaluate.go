package check

import (
	"context"
	"errors"
	"math"
	"time"

	"tailscope/api"
	"tailscope/internal/guard/check/expr"
	"tailscope/internal/guard/check/history"
	"tailscope/internal/query"
)

const (
	mostExpression = expr.MaxSource   // bytes
	evaluateBudget = 10 * time.Second // of a range
)

// Evaluate returns the value of an expression at a moment, and over a range.
func (e *Engine) Evaluate(ctx context.Context, r api.CheckEvaluate) (*api.CheckEvaluateResponse, error) {
	leave, err := e.long.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	p, err := parseAsked("expression", r.Expression)
	if err != nil {
		return nil, err
	}
	now := e.o.Now()
	o := expr.EvalOptions{Steps: true}
	f := history.ForOptions{}
	if r.Check != "" {
		e.mu.Lock()
		in, err := e.find(r.Check)
		if err != nil {
			e.mu.Unlock()
			return nil, inField(err, "check")
		}
		o.Nulls, f = in.c.Null, in.d.past
		if last := &in.last; !last.Time.IsZero() && !last.Reading.Null {
			o.Vars = map[string]float64{"value": last.Reading.Value}
		}
		e.mu.Unlock()
	}
	if o.Nulls, err = nullsNamed(r.Null, o.Nulls); err != nil {
		return nil, err
	}
	if t := float64(r.Tolerance); t != 0 && !math.IsNaN(t) {
		if t < 0 || t > 7*86400 {
			return nil, query.Invalid("tolerance", "a tolerance is of at most 7 days; write seconds")
		}
		f.Tolerance = time.Duration(t * float64(time.Second))
	}
	at := now
	if t := float64(r.At); t != 0 && !math.IsNaN(t) {
		at = r.At.Time()
	}
	ctx, cancel := context.WithTimeout(ctx, evaluateBudget)
	defer cancel()
	h := e.o.History.For(f)
	res, err := p.Eval(ctx, h, at, o)
	if err != nil {
		return nil, evalError("expression", err)
	}
	out := &api.CheckEvaluateResponse{Value: api.Float(math.NaN()), Steps: apiSteps(res.Steps)}
	if !res.Null {
		out.Value = api.Float(res.Value)
	}
	if s := float64(r.Start); s == 0 || math.IsNaN(s) {
		return out, nil
	}
	end := now
	if t := float64(r.End); t != 0 && !math.IsNaN(t) {
		end = r.End.Time()
	}
	every := 0.0
	if !math.IsNaN(float64(r.Step)) {
		every = float64(r.Step)
	}
	from, to, step, err := grid(r.Start.Time(), end, time.Duration(every*float64(time.Second)))
	if err != nil {
		return nil, err
	}
	o.Steps = false
	out.Points = []api.CheckPoint{}
	nan := api.Float(math.NaN())
	none := noBands("")
	for t := from; t < to && t <= now.Unix(); t += step {
		res, err := p.Eval(ctx, h, time.Unix(t, 0), o)
		if errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			out.Truncated = true
			break
		}
		if err != nil {
			return nil, evalError("expression", err)
		}
		v := nan
		if !res.Null {
			v = api.Float(res.Value)
		}
		out.Points = append(out.Points, api.CheckPoint{Time: api.Float(t), Value: v, Min: v, Max: v, Bands: apiBands(&none)})
	}
	return out, nil
}

// parseAsked reads an expression that somebody sent.
func parseAsked(field, text string) (*expr.Program, error) {
	if text == "" {
		return nil, query.Invalid(field, "write an expression, such as avg(x[-60M:-0M])")
	}
	if len(text) > mostExpression {
		return nil, query.Invalid(field, "the expression is longer than %d bytes", mostExpression)
	}
	p, err := expr.Parse(text, expr.Options{Variables: []string{"value"}})
	if err != nil {
		if old, oldErr := expr.Parse(text, expr.Options{Variables: []string{"value"}, Old: true}); oldErr == nil {
			return old, nil
		}
		return nil, query.Invalid(field, "%v", err)
	}
	return p, nil
}

// evalError tells an error of the expression from one of the server.
func evalError(field string, err error) error {
	var wrong *expr.Error
	var ambiguous *expr.AmbiguousError
	switch {
	case errors.As(err, &wrong), errors.As(err, &ambiguous):
		return query.Invalid(field, "%v", err)
	case errors.Is(err, context.DeadlineExceeded):
		return query.Invalid(field, "it took longer than %s; look less far back, or at fewer series", evaluateBudget)
	}
	return err
}

// inField renames the parameter that an error is about.
func inField(err error, field string) error {
	var q *query.Error
	if errors.As(err, &q) {
		renamed := *q
		renamed.Field = field
		return &renamed
	}
	return err
}

func nullsNamed(name string, def expr.Nulls) (expr.Nulls, error) {
	if name == "" {
		return def, nil
	}
	if def.ReadText(name) != nil {
		return 0, query.Invalid("null", "null %q is not known; write strict, skip or zero", name)
	}
	return def, nil
}
