package check

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/promql"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/expr"
	"tailscope/internal/guard/check/spec"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

type valuesAt = func(context.Context, time.Time) (event.Reading, error)

// errNotYet reports that the check did not exist at a moment and its source cannot be
// asked of then, or that nothing had been measured yet.
var errNotYet = errors.New("the check was not there yet")

// errNotRun reports that a check of which other runs are stored did not run at a moment:
// it stored neither a value nor how long measuring took.
var errNotRun = errors.New("the check did not run")

// loadValues returns what the check measured within [from, to): what was stored, or
// what the source says of then.
func (p *backtest) loadValues(ctx context.Context, from, to time.Time) (valuesAt, error) {
	if p.own.IsEmpty() {
		return p.evaluateValues(ctx, from, to)
	}
	stored, first, err := p.loadStored(ctx, from, to)
	if err != nil || p.begun || !first.IsZero() && !first.After(from) {
		p.begun = true
		return stored, err
	}
	if first.IsZero() {
		first = to
	}
	// What the store has begins within this while, or later.
	asked, err := p.evaluateValues(ctx, from, first)
	if err != nil {
		return nil, err
	}
	p.begun = p.begun || first.Before(to)
	return func(ctx context.Context, at time.Time) (event.Reading, error) {
		if at.Before(first) {
			return asked(ctx, at)
		}
		return stored(ctx, at)
	}, nil
}

// evaluateValues asks the source as of then. Until its first value there was
// nothing to guard, nor while a window that counts reaches to before the data.
func (p *backtest) evaluateValues(ctx context.Context, from, to time.Time) (valuesAt, error) {
	if p.guards.IsZero() {
		var err error
		if p.guards, err = p.findData(ctx); err != nil {
			return nil, err
		}
	}
	ask, err := p.source(ctx, from, to)
	return func(ctx context.Context, at time.Time) (event.Reading, error) {
		if at.Before(p.guards) && p.runs == 0 {
			return missing, errNotYet
		}
		r, err := ask(ctx, at)
		if err == nil && r.Null && r.Err == nil && p.runs == 0 {
			return r, errNotYet
		}
		return r, err
	}, err
}

// findData returns from when on a query or an expression has data for the whole of its
// window: the start if they are older, or it is not known.
func (p *backtest) findData(ctx context.Context) (time.Time, error) {
	var of []spec.Series
	window := time.Duration(0)
	switch v := &p.in.c.Value; {
	case v.Query != nil:
		of = append(of, v.Query.Series)
		if slices.Contains([]string{"count", "rate", "sum"}, v.Query.Measure) {
			window = cmp.Or(v.Query.Over, 5*time.Minute)
		}
	case v.Expr != nil:
		counts := v.Expr.Calls("count", "sum")
		for _, s := range v.Expr.Selectors() {
			of = append(of, spec.Series{Family: s.Family, Matchers: s.Matchers})
			if counts && s.By == expr.ByTimeRange && s.Newer == 0 && s.Older <= time.Hour {
				window = max(window, s.Older)
			}
		}
	}
	first := p.end
	if len(of) == 0 {
		first = p.start
	}
	for _, s := range of {
		at, err := p.firstData(ctx, s, p.start.Add(-window))
		if err != nil {
			return at, err
		}
		if at.Before(first) {
			first = at
		}
	}
	// What is older than the first window may be so by far.
	if !first.After(p.start.Add(-window)) {
		return p.start, nil
	}
	whole := first.Add(window + query.Whole)
	if window == 0 || !whole.Before(p.end) { // data shorter than a window are tested as they are
		return first, nil
	}
	return whole, nil
}

// firstData returns the start of the first slot of a selection from a moment on, the
// end if there is none.
func (p *backtest) firstData(ctx context.Context, s spec.Series, from time.Time) (time.Time, error) {
	var names []string
	for _, m := range s.Matchers {
		names = append(names, m.Name)
	}
	q := store.Query{Family: family(s.Family), Matchers: s.Matchers, Start: series.Base.Slot(from.Unix()), End: p.end.Unix(), Measure: store.Moments, Schema: hist.DefaultSchema}
	var ok bool
	if q.View, ok = query.ViewOf(q.Family, names...); !ok {
		return p.start, nil
	}
	for _, q.Step = range []int64{int64(series.Hour), int64(series.Base)} {
		res, err := p.e.o.Store.Query(ctx, q)
		if err != nil {
			return from, err
		}
		first := q.End
		for _, g := range res.Groups {
			for _, point := range g.Points {
				if point.Number.Count > 0 || point.Hist != nil && point.Hist.Count > 0 {
					first = min(first, point.Start)
				}
			}
		}
		if first == q.End {
			if q.Step == int64(series.Hour) {
				return p.end, nil
			}
			break // the hour is kept as a whole
		}
		q.Start, q.End = max(first, q.Start), min(first+q.Step, q.End)
	}
	return time.Unix(q.Start, 0), nil
}

func (p *backtest) source(ctx context.Context, from, to time.Time) (valuesAt, error) {
	switch v := &p.in.c.Value; {
	case v.Query != nil && v.Query.Cohort == "":
		if slid, ok, err := p.slid(ctx, from, to); ok || err != nil {
			return slid, err
		}
		return p.again, nil
	case v.Query != nil, v.Expr != nil:
		return p.again, nil
	case v.PromQL != "" && p.e.o.Prom != nil && p.cron != nil:
		return p.again, nil
	case v.PromQL != "" && p.e.o.Prom != nil:
		return p.prom(ctx, from, to)
	}
	return func(context.Context, time.Time) (event.Reading, error) { return missing, errNotYet }, nil
}

var missing = event.Reading{Null: true, Value: math.NaN(), Text: "nothing was stored"}

// again measures as of then.
func (p *backtest) again(ctx context.Context, at time.Time) (event.Reading, error) {
	r := p.e.readValue(ctx, p.d, p.in.c, at)
	if r.Err != nil {
		if err := evalErrorUnless(ctx, "value", r.Err); ctx.Err() != nil || query.AsError(err).Code == query.CodeInvalid {
			return r, err
		}
	}
	return r, nil
}

// loadStored reads the check's own values: of a slot the mean. Slots become longer with
// age; then one holds for all runs within it. Runs begin late at times, so that a
// slot has none of its own and the one beside it two: then it is one of these. By a
// clock it is what came within five minutes of a run, before the next. first is the earliest, zero
// if there is none.
func (p *backtest) loadStored(ctx context.Context, from, to time.Time) (_ valuesAt, first time.Time, _ error) {
	values, err := p.loadSlots(ctx, FamilyValue, from, to)
	if err != nil {
		return nil, first, err
	}
	if values.first != 0 {
		first = time.Unix(values.first, 0)
		if p.cron != nil {
			first = first.Add(-5 * time.Minute)
		}
	}
	var took *slotted // read when it is needed
	return func(ctx context.Context, at time.Time) (event.Reading, error) {
		late := p.late(at)
		if v, ok := values.at(at, late); ok {
			return reading(v, ""), nil
		}
		if took == nil {
			var err error
			if took, err = p.loadSlots(ctx, FamilySeconds, from, to); err != nil {
				return missing, err
			}
		}
		if _, ran := took.at(at, late); !ran {
			return missing, errNotRun
		}
		return missing, nil
	}, first, nil
}

// slotted is one of the check's series in slots, in Unix seconds.
type slotted struct {
	begin, step, lasts, first int64
	slots                     map[int64]slotMean
}

type slotMean struct {
	mean float64
	n    uint64
}

func (p *backtest) loadSlots(ctx context.Context, family string, from, to time.Time) (*slotted, error) {
	q := store.Query{
		Family: family, Matchers: exactly(p.own), Start: from.Unix(), End: to.Unix(), Step: int64(p.slot / time.Second), Schema: hist.DefaultSchema,
	}
	res, err := p.e.o.Store.Query(ctx, q)
	if err != nil {
		return nil, err
	}
	s := &slotted{begin: q.Start, step: q.Step, lasts: max(q.Step, int64(res.Resolution)), slots: map[int64]slotMean{}}
	for _, g := range res.Groups {
		for _, point := range g.Points {
			if n := point.Number; n.Count > 0 {
				s.slots[point.Start] = slotMean{n.Sum / float64(n.Count), n.Count}
				if s.first == 0 || point.Start < s.first {
					s.first = point.Start
				}
			}
		}
	}
	return s, nil
}

// late is how many seconds after a moment a run by the clock may begin, negative if
// runs do not go by the clock.
func (p *backtest) late(at time.Time) int64 {
	if p.cron == nil {
		return -1
	}
	late := int64(300)
	if next := p.cron.Next(at); !next.IsZero() {
		late = min(late, next.Unix()-at.Unix()-1)
	}
	return late
}

// at returns the mean that belongs to the run at a moment, see late.
func (s *slotted) at(at time.Time, late int64) (mean float64, ok bool) {
	own := s.begin + (at.Unix()-s.begin)/s.step*s.step
	for t := own; t > own-s.lasts; t -= s.step {
		if v, ok := s.slots[t]; ok {
			return v.mean, true
		}
	}
	if late >= 0 {
		for t := own + s.step; t <= at.Unix()+late; t += s.step {
			if v, ok := s.slots[t]; ok {
				return v.mean, true
			}
		}
		return 0, false
	}
	for _, t := range []int64{own + s.step, own - s.step} {
		if v := s.slots[t]; v.n >= 2 {
			return v.mean, true
		}
	}
	return 0, false
}

// slid computes a query of the common measures for all runs at once, as figures of
// a window that slides. ok is false for other measures.
func (p *backtest) slid(ctx context.Context, from, to time.Time) (valuesAt, bool, error) {
	v := p.in.c.Value.Query
	q, quantile := percentile(v.Measure)
	if !quantile && v.Measure != "mean" && v.Measure != "rate" && v.Measure != "errors" || !query.IsSpanFamily(family(v.Series.Family)) {
		return nil, false, nil
	}
	over := v.Over
	if over <= 0 {
		over = 5 * time.Minute
	}
	step := int64(p.every / time.Second)
	if over < p.every || int64(over/time.Second)%step != 0 || p.cron != nil {
		return nil, false, nil
	}
	r := query.TimelineRequest{
		// A run at t reads what is whole at t: up to two slots before.
		Selection: query.Selection{Family: family(v.Series.Family), Matchers: v.Series.Matchers, Start: lastWhole(from).Add(-p.every), End: lastWhole(to).Add(p.every)},
		Grid:      query.Grid{Step: step}, Slide: over,
	}
	if quantile {
		r.Quantiles = []query.Quantile{{Key: "q", Q: q}}
	}
	res, err := query.Timeline(ctx, p.e.o.Store, r)
	if err != nil {
		return nil, false, err
	}
	if res.Step != step || len(res.Groups) > 1 {
		return nil, false, nil
	}
	return func(_ context.Context, at time.Time) (event.Reading, error) {
		i := int((lastWhole(at).Unix()-res.Start)/step) - 1
		if len(res.Groups) == 0 || i < 0 || i >= len(res.Times) {
			return emptyReading(v.Measure), nil
		}
		g := &res.Groups[0]
		var x float64
		switch v.Measure {
		case "mean":
			x = float64(g.Mean[i])
		case "rate":
			x = float64(g.Rate[i])
		case "errors":
			x = float64(g.ErrorRate[i])
		default:
			x = float64(g.Quantiles["q"][i])
		}
		if math.IsNaN(x) {
			return emptyReading(v.Measure), nil
		}
		return reading(x, ""), nil
	}, true, nil
}

// prom asks PromQL for all runs at once.
func (p *backtest) prom(ctx context.Context, from, to time.Time) (valuesAt, error) {
	begin := lastWhole(from)
	q, err := p.e.o.Prom.Range(ctx, promql.NewPrometheusQueryOpts(false, 0), p.in.c.Value.PromQL, begin, lastWhole(to), p.every)
	if err != nil {
		return nil, query.Invalid("value", "%v", err)
	}
	defer q.Close()
	res := q.Exec(ctx)
	if res.Err != nil {
		return nil, res.Err
	}
	m, err := res.Matrix()
	if err != nil {
		return nil, query.Invalid("value", "%v", err)
	}
	if len(m) > 1 {
		return nil, query.Invalid("value", "the answer has %d series; aggregate them, for example by sum(…)", len(m))
	}
	values := map[int64]float64{}
	for _, s := range m {
		for _, f := range s.Floats {
			values[f.T] = f.F
		}
	}
	return func(_ context.Context, at time.Time) (event.Reading, error) {
		if v, ok := values[begin.Add(at.Sub(from)).UnixMilli()]; ok {
			return reading(v, ""), nil
		}
		return missing, nil
	}, nil
}

// thinned gathers runs in some 300 points.
type thinned struct {
	start, end time.Time
	step       time.Duration
	all        []api.CheckPoint
	count      []int
}

func (t *thinned) begin(start, end time.Time) {
	t.start, t.end = start, start
	t.step = max(10*time.Second, (end.Sub(start) / defaultPoints).Round(10*time.Second))
}

func (t *thinned) add(at time.Time, r *event.Reading, b *event.Bands) {
	i := int(at.Sub(t.start) / t.step)
	nan := api.Float(math.NaN())
	for len(t.all) <= i {
		none := noBands("")
		t.all = append(t.all, api.CheckPoint{Time: api.UnixTime(t.start.Add(time.Duration(len(t.all)) * t.step)), Value: nan, Min: nan, Max: nan, Bands: apiBands(&none)})
		t.count = append(t.count, 0)
	}
	p := &t.all[i]
	p.Bands = apiBands(b)
	if r.Null {
		return
	}
	v := api.Float(r.Value)
	if t.count[i]++; t.count[i] == 1 {
		p.Value, p.Min, p.Max = v, v, v
		return
	}
	p.Value += v // a sum, until all have come
	p.Min, p.Max = min(p.Min, v), max(p.Max, v)
}

func (t *thinned) points() []api.CheckPoint {
	out := make([]api.CheckPoint, len(t.all))
	for i, p := range t.all {
		if n := t.count[i]; n > 1 {
			p.Value /= api.Float(n)
		}
		out[i] = p
	}
	return out
}
