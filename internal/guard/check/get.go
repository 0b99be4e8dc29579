package check

import (
	"context"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/expr"
	"tailscope/internal/guard/check/profile"
	"tailscope/internal/guard/check/spec"
	"tailscope/internal/guard/check/state"
	"tailscope/internal/query"
	"tailscope/internal/store"
)

const (
	defaultPoints = 300
	mostPoints    = 5000
)

// Get returns one check with its past.
func (e *Engine) Get(ctx context.Context, r GetRequest) (*api.CheckResponse, error) {
	leave, err := e.short.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	now := e.o.Now()
	if r.End.IsZero() {
		r.End = now
	}
	if r.Start.IsZero() {
		r.Start = r.End.Add(-24 * time.Hour)
	}
	start, end, step, err := grid(r.Start, r.End, r.Step)
	if err != nil {
		return nil, err
	}
	e.readResults(ctx)
	e.mu.Lock()
	in, err := e.find(r.ID)
	if err != nil {
		e.mu.Unlock()
		return nil, err
	}
	c := in.c
	out := &api.CheckResponse{
		Range: api.Range{Start: start, End: end}, Check: *e.apiCheck(in, now), Definition: in.d.c.YAML(), Step: float64(step),
		Null: c.Null.String(), Threshold: apiThreshold(c.Threshold), Rules: apiRules(c.Rules),
		States:    in.statesBetween(time.Unix(start, 0), time.Unix(end, 0)),
		Incidents: e.overlapping(IncidentsRequest{Check: in.id, Kind: "check", Start: time.Unix(start, 0), End: time.Unix(end, 0), Limit: 200}),
	}
	own, last := in.labels, in.last
	e.mu.Unlock()
	out.Learned = e.lessons.frozen(in.d.profile, in.id)
	if c.File != "" {
		out.File = c.File + ":" + strconv.Itoa(c.Line)
	}
	if c.Value.Expr != nil {
		out.Expression = c.Value.Expr.String()
	}
	if out.Points, err = e.loadPoints(ctx, own, start, end, step); err != nil {
		return nil, err
	}
	out.Check.Warnings = e.cautions(ctx, in)[0]
	asked, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if c.Value.Expr != nil {
		out.ValueSteps = e.explain(asked, in.d.view, c.Value.Expr, now, expr.EvalOptions{Nulls: c.Null, Steps: true})
	}
	o := expr.EvalOptions{Nulls: c.Null, Steps: true}
	if !last.Time.IsZero() && !last.Reading.Null {
		o.Vars = map[string]float64{"value": last.Reading.Value}
	}
	for _, program := range thresholdPrograms(in, now) {
		out.ThresholdSteps = append(out.ThresholdSteps, e.explain(asked, in.d.view, program, now, o)...)
	}
	return out, nil
}

// thresholdPrograms are the expressions that the threshold is made of at a moment:
// of a profile those of the two hours that it lies between.
func thresholdPrograms(in *instance, at time.Time) (out []*expr.Program) {
	switch t := in.c.Threshold; {
	case t == nil:
	case t.Of.Expr != nil:
		return []*expr.Program{t.Of.Expr}
	case in.profile != nil:
		b := in.profile.At(at)
		for _, q := range []profile.Quantity{b.From, b.To} {
			if q.Program != nil && (len(out) == 0 || b.Fraction > 0 && q.Program.String() != out[0].String()) {
				out = append(out, q.Program)
			}
		}
	}
	return out
}

// grid cuts a range into steps: start and end in Unix seconds, whole steps.
func grid(from, to time.Time, every time.Duration) (start, end, step int64, err error) {
	if !to.After(from) {
		return 0, 0, 0, query.Invalid("end", "the end must be after the start")
	}
	if to.Sub(from) > 400*24*time.Hour {
		return 0, 0, 0, query.Invalid("start", "the range is longer than 400 days; write a later start")
	}
	step = int64(every / time.Second)
	if every < 0 {
		return 0, 0, 0, query.Invalid("step", "a step is longer than nothing; write 60s")
	}
	if step == 0 {
		step = int64(to.Sub(from).Seconds()) / defaultPoints
		for _, nice := range []int64{10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 21600, 43200, 86400} {
			if nice >= step || nice == 86400 {
				step = nice
				break
			}
		}
	}
	step = (step + 9) / 10 * 10
	start = from.Unix() / step * step
	end = (to.Unix() + step - 1) / step * step
	if (end-start)/step > mostPoints {
		return 0, 0, 0, query.Invalid("step", "the answer would have %d points, at most %d are possible; write a longer step or a shorter range", (end-start)/step, mostPoints)
	}
	return start, end, step, nil
}

// bandFamilies are those that points are made of, the value first.
var bandFamilies = familyNames[outValue : outHighCritical+1]

// loadPoints returns the stored points of a check, thinned.
func (e *Engine) loadPoints(ctx context.Context, own labels.Labels, start, end, step int64) ([]api.CheckPoint, error) {
	n := int((end - start) / step)
	nan := api.Float(math.NaN())
	points, bands := make([]api.CheckPoint, n), make([]event.Bands, n)
	for i := range points {
		points[i] = api.CheckPoint{Time: api.Float(start + int64(i)*step), Value: nan, Min: nan, Max: nan}
		bands[i] = noBands("")
	}
	seen := make([]bool, n)
	for f, name := range bandFamilies {
		res, err := e.o.Store.Query(ctx, store.Query{Family: name, Matchers: exactly(own), Start: start, End: end, Step: step, Schema: hist.DefaultSchema})
		if err != nil {
			return nil, err
		}
		for _, g := range res.Groups {
			last, at := math.NaN(), -1 // bands are stored when they change, and each minute
			for _, p := range g.Points {
				i := int((p.Start - start) / step)
				if i < 0 || i >= n || p.Number.Count == 0 {
					continue
				}
				seen[i] = true
				if f == outValue {
					points[i].Value = api.Float(p.Number.Sum / float64(p.Number.Count))
					points[i].Min, points[i].Max = api.Float(p.Number.Min), api.Float(p.Number.Max)
					continue
				}
				for j := at + 1; at >= 0 && j < i && int64(j-at)*step <= int64(steady/time.Second); j++ {
					*bandOf(&bands[j], f) = last
				}
				last, at = p.Number.Last, i
				*bandOf(&bands[i], f) = last
			}
			for j := at + 1; at >= 0 && j < n && int64(j-at)*step <= int64(steady/time.Second); j++ {
				*bandOf(&bands[j], f) = last
			}
		}
	}
	for i := range points {
		points[i].Bands = apiBands(&bands[i])
	}
	first, lastSeen := slices.Index(seen, true), n-1
	if first < 0 {
		return []api.CheckPoint{}, nil
	}
	for !seen[lastSeen] {
		lastSeen--
	}
	return points[first : lastSeen+1], nil
}

func bandOf(b *event.Bands, family int) *float64 {
	switch family {
	case outThreshold:
		return &b.Threshold
	case outLowCritical:
		return &b.LowCritical
	case outLowWarning:
		return &b.LowWarning
	case outHighWarning:
		return &b.HighWarning
	}
	return &b.HighCritical
}

// statesBetween returns the bands of state within a range. Needs mu.
func (c *condition) statesBetween(start, end time.Time) []api.CheckState {
	out := []api.CheckState{}
	for i, t := range c.transitions {
		until := time.Time{}
		if i+1 < len(c.transitions) {
			until = c.transitions[i+1].At
		}
		if !t.At.Before(end) || !until.IsZero() && !until.After(start) {
			continue
		}
		s := api.CheckState{Start: api.UnixTime(t.At), End: api.UnixTime(until), State: t.State.String(), Why: t.Why}
		if t.Flaps {
			s.Why = "flapping"
		}
		if t.At.Before(start) {
			s.Start = api.UnixTime(start)
		}
		if until.After(end) {
			s.End = api.UnixTime(end)
		}
		out = append(out, s)
	}
	// What is soft now.
	if n := len(out); n > 0 && c.machine.Soft() && math.IsNaN(float64(out[n-1].End)) && c.machine.Differs.Before(end) {
		from := api.UnixTime(c.machine.Differs)
		out[n-1].End = max(from, out[n-1].Start)
		out = append(out, api.CheckState{Start: out[n-1].End, End: api.Float(math.NaN()), State: c.machine.Last.String(), Soft: true, Why: "not for long enough"})
	}
	return out
}

// explain evaluates an expression step by step; an error is the whole's step.
func (e *Engine) explain(ctx context.Context, h expr.History, p *expr.Program, at time.Time, o expr.EvalOptions) []api.CheckStep {
	res, err := p.Eval(ctx, h, at, o)
	if err != nil {
		return []api.CheckStep{{Text: p.String(), Value: err.Error(), Number: api.Float(math.NaN())}}
	}
	return apiSteps(res.Steps)
}

func apiSteps(steps []expr.Step) []api.CheckStep {
	out := make([]api.CheckStep, len(steps))
	for i, s := range steps {
		out[i] = api.CheckStep{Text: s.Text, Offset: s.Offset, Depth: s.Depth, Value: s.Value, Number: api.Float(s.Number)}
	}
	return out
}

func apiThreshold(t *spec.Threshold) *api.CheckThreshold {
	if t == nil {
		return nil
	}
	out := &api.CheckThreshold{Must: t.Must, Warning: distanceText(t.Warning), Critical: distanceText(t.Critical)}
	switch {
	case t.Of.Number != nil:
		out.Of = strconv.FormatFloat(*t.Of.Number, 'g', -1, 64)
	case t.Of.Expr != nil:
		out.Of = t.Of.Expr.String()
	default:
		out.Of = "profile " + t.Of.Profile
	}
	return out
}

func distanceText(d *spec.Distance) string {
	switch {
	case d == nil:
		return ""
	case d.Share != 0:
		return strconv.FormatFloat(math.Round(d.Share*1e8)/1e6, 'g', -1, 64) + "%"
	}
	return strconv.FormatFloat(d.Absolute, 'g', -1, 64)
}

func apiRules(r state.Rules) api.CheckStates {
	return api.CheckStates{Bad: r.Soft.String(), Good: r.Recover.String()}
}
