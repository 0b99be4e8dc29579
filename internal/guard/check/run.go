package check

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/expr"
	"tailscope/internal/guard/check/profile"
	"tailscope/internal/guard/check/spec"
)

// outcome is one run of an instance before it becomes a state.
type outcome struct {
	in      *instance
	at      time.Time
	reading event.Reading
	bands   event.Bands
	level   event.Level
}

// runTask measures, judges by thresholds, and applies the outcomes.
func (e *Engine) runTask(ctx context.Context, t *task) {
	e.mu.Lock()
	instances := t.d.instances
	if t.only != nil {
		instances = []*instance{t.only}
	}
	if t.removed.Load() {
		instances = nil
	}
	e.mu.Unlock()
	if len(instances) == 0 {
		return
	}
	timeout := t.d.c.Timeout
	if timeout <= 0 {
		timeout = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	outcomes := e.measure(ctx, t.d, instances, e.o.Now())
	if errors.Is(ctx.Err(), context.Canceled) {
		return // the engine stops: what was cut off says nothing
	}
	e.apply(outcomes)
}

// measure runs instances of one definition at a moment.
func (e *Engine) measure(ctx context.Context, d *definition, instances []*instance, at time.Time) []outcome {
	out := make([]outcome, len(instances))
	begin := time.Now()
	if d.grouped != nil {
		q := d.grouped
		if len(instances) == 1 {
			q = instances[0].query()
		}
		answers, err := e.asker.measure(ctx, q, d.by, lastWhole(at))
		each := time.Since(begin) / time.Duration(len(instances))
		for i, in := range instances {
			r, ok := answers[in.group]
			switch {
			case err != nil:
				r = failedReading(err)
			case !ok:
				r = emptyReading(d.grouped.Measure)
			}
			r.Took = each
			out[i] = outcome{in: in, at: at, reading: r}
		}
	} else {
		for i, in := range instances {
			out[i] = outcome{in: in, at: at, reading: e.readValue(ctx, d, in.c, at)}
		}
	}
	for i := range out {
		e.applyThreshold(ctx, d, &out[i])
	}
	return out
}

// query returns the query of an Each for this instance alone.
func (in *instance) query() *spec.Query {
	q := *in.d.grouped
	q.Series.Matchers = append(slices.Clip(q.Series.Matchers), exactly(labels.FromMap(in.each))...)
	return &q
}

func failedReading(err error) event.Reading {
	return event.Reading{Null: true, Value: math.NaN(), Err: err}
}

// readValue measures one instance.
func (e *Engine) readValue(ctx context.Context, d *definition, c *spec.Check, at time.Time) (r event.Reading) {
	begin := time.Now()
	switch v := &c.Value; {
	case v.Query != nil:
		answers, err := e.asker.measure(ctx, v.Query, nil, lastWhole(at))
		if err != nil {
			r = failedReading(err)
		} else {
			r = answers[""]
		}
	case v.Expr != nil:
		res, err := v.Expr.Eval(ctx, d.view, at, expr.EvalOptions{Nulls: c.Null})
		switch {
		case err != nil:
			r = failedReading(err)
		case res.Null:
			r = event.Reading{Null: true, Value: math.NaN(), Text: "the expression is null"}
		default:
			r = reading(res.Value, "")
		}
	case v.PromQL != "":
		r = promQL(ctx, e.o.Prom, v.PromQL, lastWhole(at))
	case e.o.Prober == nil:
		r = failedReading(errors.New("nothing here measures " + v.Kind()))
	default:
		r = e.o.Prober.Probe(ctx, v)
	}
	if r.Took == 0 {
		r.Took = time.Since(begin)
	}
	if r.Null || math.IsNaN(r.Value) || math.IsInf(r.Value, 0) {
		r.Null, r.Value = true, math.NaN()
	}
	return r
}

// applyThreshold looks the threshold up and judges the value by it.
func (e *Engine) applyThreshold(ctx context.Context, d *definition, o *outcome) {
	c := o.in.c
	var err error
	o.bands, err = e.bands(ctx, d, o.in.profile, c, o.in.id, o.at, o.reading)
	o.level = levelOf(c, &o.reading, &o.bands, err)
	if err != nil && o.reading.Err == nil {
		o.reading.Err = fmt.Errorf("threshold: %w", err)
	}
}

// levelOf returns the level of a run: the source's own level if it has one, made worse,
// never better, by the threshold; OnNull without a value; OK without a threshold; UNKNOWN
// if the threshold cannot be evaluated.
func levelOf(c *spec.Check, r *event.Reading, b *event.Bands, thresholdErr error) event.Level {
	level := event.OK
	if r.Level != nil {
		level = *r.Level
	}
	if r.Null {
		null := event.Unknown
		if c.OnNull == "OK" && r.Err == nil {
			null = event.OK
		}
		if r.Level != nil && r.Err == nil { // a plugin without numbers
			return level
		}
		return worse(level, null)
	}
	if thresholdErr != nil {
		return worse(level, event.Unknown)
	}
	return worse(level, judge(r.Value, b))
}

func worse(a, b event.Level) event.Level {
	if b.Severity() > a.Severity() {
		return b
	}
	return a
}

// bands returns the thresholds of c, the check id, at a moment; p is its profile, if
// it has one.
func (e *Engine) bands(ctx context.Context, d *definition, p *profile.Profile, c *spec.Check, id string, at time.Time, r event.Reading) (event.Bands, error) {
	t, nan := c.Threshold, math.NaN()
	switch {
	case t == nil:
		return noBands(""), nil
	case t.Of.Number != nil:
		return profile.Bands(t.Must, *t.Of.Number, nan, nan, t.Warning, t.Critical), nil
	}
	o := expr.EvalOptions{Nulls: c.Null}
	if !r.Null {
		o.Vars = map[string]float64{"value": r.Value}
	}
	if t.Of.Expr != nil {
		v, null, err := evaluate(ctx, d.view, t.Of.Expr, at, o)
		if err != nil || null {
			return noBands("no threshold: the expression is null"), err
		}
		return profile.Bands(t.Must, v, nan, nan, t.Warning, t.Critical), nil
	}
	if p != nil && p.Learn() != nil {
		if l := e.lessons.profileFor(p, id); l != nil {
			p = l
		}
	}
	if p == nil {
		return noBands("no threshold: no profile"), nil
	}
	return profileBands(ctx, d.view, p, t, at, o)
}

func evaluate(ctx context.Context, h expr.History, p *expr.Program, at time.Time, o expr.EvalOptions) (v float64, null bool, err error) {
	res, err := p.Eval(ctx, h, at, o)
	if err != nil || res.Null || math.IsNaN(res.Value) || math.IsInf(res.Value, 0) {
		return math.NaN(), true, err
	}
	return res.Value, false, nil
}

// profileBands returns the thresholds of a profile: around T, or beyond the band that
// was learned, by the same distances.
func profileBands(ctx context.Context, h expr.History, p *profile.Profile, t *spec.Threshold, at time.Time, o expr.EvalOptions) (event.Bands, error) {
	blend := p.At(at)
	if blend.None() {
		return noBands("no threshold: " + blend.Rule), nil
	}
	quantity := func(q profile.Quantity) (float64, error) {
		if q.Program == nil {
			return q.Number, nil
		}
		v, _, err := evaluate(ctx, h, q.Program, at, o)
		return v, err
	}
	from, err := quantity(blend.From)
	if err != nil {
		return noBands(blend.Rule), err
	}
	to := from
	if blend.Fraction > 0 {
		if to, err = quantity(blend.To); err != nil {
			return noBands(blend.Rule), err
		}
	}
	v := blend.T(from, to)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return noBands("no threshold: " + blend.Rule + " is null"), nil
	}
	return blend.Bands(t.Must, v, t.Warning, t.Critical), nil
}
