package check

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/expr"
	"tailscope/internal/guard/check/schedule"
	"tailscope/internal/guard/check/spec"
	"tailscope/internal/guard/check/state"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/strictyaml"
)

const (
	backtestBudget = 25 * time.Second
	backtestBack   = 28 * 24 * time.Hour
	mostRuns       = 500000 // of one backtest
	mostAlarms     = 2000
)

// Backtest computes what a threshold would have done. Values are those that the
// check stored; where it has stored none, a query, an expression or PromQL is
// asked again as of then. It runs from the start on until the end, or until its
// time is over: then the answer's End is where it stopped, and it is Truncated.
func (e *Engine) Backtest(ctx context.Context, r api.CheckBacktest) (*api.CheckBacktestResponse, error) {
	leave, err := e.long.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	p, err := e.plan(r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, backtestBudget)
	defer cancel()
	if err := p.beginLearning(ctx); err != nil {
		return nil, err
	}
	if err := p.play(ctx); err != nil {
		return nil, err
	}
	return p.answer(), nil
}

// backtest is a backtest under way.
type backtest struct {
	e     *Engine
	d     *definition // of which in is an instance, with the threshold asked for
	in    *instance
	own   labels.Labels // of the check's series; empty: nothing is stored
	every time.Duration
	slot  time.Duration      // of stored values: every, or less if runs go by a clock
	cron  *schedule.Schedule // when runs go by a clock
	start time.Time
	end   time.Time

	tested, before *variant
	marked         []api.Incident
	points         thinned
	held           []api.CheckBands // before, one for each of points
	runs, nulls    int
	bare           int       // runs without a threshold
	begun          bool      // something was stored before
	guards         time.Time // when the source had data for a whole window; zero: not known yet
	seen           []minute  // what may be learned from
	truncated      bool
}

// variant judges the values by one threshold.
type variant struct {
	d       *definition
	c       *spec.Check
	id      string
	machine state.Machine
	events  []state.Event
	lesson  *learner // nil unless its profile learns

	states  []api.CheckState
	alarms  []api.Alarm
	more    bool // alarms beyond the bound
	bad     time.Duration
	last    time.Time
	lastBad bool
}

// plan checks what is asked.
func (e *Engine) plan(r api.CheckBacktest) (*backtest, error) {
	now := e.o.Now()
	p := &backtest{e: e, end: now}
	c := &spec.Check{Name: "backtest"}
	strictyaml.Fill(&c.Rules, nil)
	d := &definition{store: true, byKey: map[string]*instance{}}
	e.mu.Lock()
	defer e.mu.Unlock()
	var before *instance
	var each map[string]string
	if r.Check != "" {
		in, err := e.find(r.Check)
		if err != nil {
			return nil, inField(err, "check")
		}
		before, each = in, in.each
		same, sameDefinition := *in.c, *in.d
		c, d = &same, &sameDefinition
		d.grouped, d.profile, p.own = nil, in.profile, in.labels
		if in.d.grouped != nil {
			c.Value = spec.Source{Query: in.query()}
		}
	}
	d.c = c
	changed := false
	if r.Value != "" {
		program, err := parseAsked("value", r.Value)
		if err != nil {
			return nil, err
		}
		c.Value, p.own, changed = spec.Source{Expr: program}, labels.EmptyLabels(), true
	} else if r.Check == "" {
		return nil, query.Invalid("check", "name a check, or give an expression as value")
	}
	var err error
	if c.Null, err = nullsNamed(r.Null, c.Null); err != nil {
		return nil, err
	}
	if r.Threshold != nil {
		if c.Threshold, err = e.thresholdAsked(*r.Threshold, c.Threshold, d, each); err != nil {
			return nil, err
		}
		changed = true
	}
	if r.States != nil {
		if err := runsAsked("states.bad", r.States.Bad, &c.Soft); err != nil {
			return nil, err
		}
		if err := runsAsked("states.good", r.States.Good, &c.Recover); err != nil {
			return nil, err
		}
		changed = true
	}
	if given(r.End) {
		p.end = r.End.Time()
	}
	if kept := lastWhole(now).Add(-10 * time.Second); p.end.After(kept) { // what is newer is not all stored yet
		p.end = kept
	}
	p.start = p.end.Add(-backtestBack)
	if given(r.Start) {
		p.start = r.Start.Time()
	}
	switch {
	case !p.end.After(p.start):
		return nil, query.Invalid("start", "the start must be before the end, and in the past")
	case p.end.Sub(p.start) > 400*24*time.Hour:
		return nil, query.Invalid("start", "the range is longer than 400 days; write a later start")
	}
	root := e.leader(d)
	if p.every = root.schedule.Interval(); p.every <= 0 {
		p.every = time.Minute
	}
	if root.c.Schedule.Cron != "" && !given(r.Every) {
		p.cron = &root.schedule
	}
	if given(r.Every) {
		p.every = time.Duration(float64(r.Every) * float64(time.Second))
	}
	// The store has slots of ten seconds, and nothing finer.
	p.every = max(10*time.Second, p.every.Round(10*time.Second))
	if p.slot = p.every; p.cron != nil {
		p.slot = 10 * time.Second
	}
	if runs := p.end.Sub(p.start) / p.every; runs > mostRuns {
		return nil, query.Invalid("every", "that would be %d runs, at most %d are possible; write a longer every or a later start", runs, mostRuns)
	}
	p.start = time.Unix(p.start.Unix()/10*10, 0)
	d.view = e.o.History.For(d.past)
	id := "backtest"
	if before != nil {
		id = before.id
	}
	p.d, p.in = d, &instance{d: d, c: c, condition: &condition{id: id, labels: p.own}}
	p.tested = &variant{d: d, c: c, id: id}
	if before != nil && changed && r.Value == "" {
		asItIs := *before.d
		asItIs.profile = before.profile
		p.before = &variant{d: &asItIs, c: before.c, id: id}
	}
	service := ""
	if before != nil {
		service = before.labels.Get(series.LabelService)
	}
	for _, k := range e.overlapping(IncidentsRequest{Kind: "marked", Start: p.start, End: p.end}) {
		if k.Service != "" && service != "" && k.Service != service {
			continue
		}
		if k.Check != "" && before != nil && k.Check != before.id && k.Check != before.c.Name {
			continue
		}
		p.marked = append(p.marked, k)
	}
	slices.Reverse(p.marked)
	p.points.begin(p.start, p.end)
	return p, nil
}

func given(f api.Float) bool { return f != 0 && !math.IsNaN(float64(f)) }

// runsAsked reads "3 of 5", or "3" for 3 of 3, into runs. An empty text changes nothing.
func runsAsked(field, text string, runs *state.Runs) error {
	if text == "" {
		return nil
	}
	if err := runs.ReadText(text); err != nil || runs.Of > state.MostRuns {
		return query.Invalid(field, "%q is not so many of so many runs; write 3 of 5, of at most %d", text, state.MostRuns)
	}
	return nil
}

// thresholdAsked reads a threshold as the API has it. What it leaves out is that
// of own, which may be nil. Needs mu.
func (e *Engine) thresholdAsked(t api.CheckThreshold, own *spec.Threshold, d *definition, each map[string]string) (*spec.Threshold, error) {
	if was := apiThreshold(own); was != nil {
		if t.Must == "" {
			t.Must = was.Must
		}
		if t.Of == "" {
			t.Of = was.Of
		}
		if t.Warning == "" && t.Critical == "" {
			t.Warning, t.Critical = was.Warning, was.Critical
		}
	}
	out := &spec.Threshold{Must: t.Must}
	if !slices.Contains([]string{"<", ">", "="}, t.Must) {
		return nil, query.Invalid("threshold.must", "must is %q; write < for values that stay below, > above, = near", t.Must)
	}
	of := strings.TrimSpace(t.Of)
	if v, err := strconv.ParseFloat(of, 64); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
		out.Of.Number = &v
	} else if name, ok := strings.CutPrefix(of, "profile "); ok {
		name = strings.TrimSpace(name)
		p := e.profiles[name]
		if p == nil {
			return nil, query.Invalid("threshold.of", "there is no profile %q; %s", name, query.Suggest(name, sortedKeys(e.profiles)))
		}
		if p, err := p.Of(each); err != nil {
			return nil, query.Invalid("threshold.of", "profile %s: %v", name, err)
		} else {
			d.profile, out.Of.Profile = p, name
		}
	} else {
		program, err := parseAsked("threshold.of", of)
		if err != nil {
			return nil, err
		}
		out.Of.Expr = program
	}
	var err error
	if out.Warning, err = distanceAsked("threshold.warning", t.Warning); err != nil {
		return nil, err
	}
	if out.Critical, err = distanceAsked("threshold.critical", t.Critical); err != nil {
		return nil, err
	}
	if out.Warning == nil && out.Critical == nil {
		out.Critical = &spec.Distance{}
	}
	return out, nil
}

func distanceAsked(field, text string) (*spec.Distance, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, nil
	}
	d := new(spec.Distance)
	if d.ReadText(text) != nil {
		return nil, query.Invalid(field, "%q is not a distance; write 10%% of the threshold, or an amount such as 5", text)
	}
	return d, nil
}

// play runs over all values, a day's at a time.
func (p *backtest) play(ctx context.Context) error {
	for from := p.start; from.Before(p.end); {
		to := from.Add(day(p.slot))
		if to.After(p.end) {
			to = p.end
		}
		values, err := p.loadValues(ctx, from, to)
		if err == nil {
			err = p.runAll(ctx, from, to, values)
		}
		if errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			p.truncated = true
			return nil
		}
		if err != nil {
			return err
		}
		from = to
	}
	p.points.end = p.end
	return nil
}

// leader is the definition that decides when d runs: d, or the one that it follows
// in the end. Needs mu.
func (e *Engine) leader(d *definition) *definition {
	for range len(e.definitions) {
		name, _, ok := d.schedule.After()
		if !ok || e.byName[name] == nil {
			break
		}
		d = e.byName[name]
	}
	return d
}

// first is the first run at or after a moment, next the first after it.
func (p *backtest) first(at time.Time) time.Time {
	if p.cron == nil {
		return at
	}
	return p.cron.Next(at.Add(-1))
}

func (p *backtest) next(at time.Time) time.Time {
	if p.cron == nil {
		return at.Add(p.every)
	}
	return p.cron.Next(at)
}

// day is a day, in whole runs.
func day(every time.Duration) time.Duration {
	return max(1, 24*time.Hour/every) * every
}

// runAll holds values against thresholds and makes states of them.
func (p *backtest) runAll(ctx context.Context, from, to time.Time, values func(context.Context, time.Time) (event.Reading, error)) error {
	for at := p.first(from); at.Before(to) && !at.IsZero(); at = p.next(at) {
		r, err := values(ctx, at)
		if err == errNotYet { // the test begins when the check did
			p.start = at.Add(p.every)
			p.points.begin(p.start, p.end)
			continue
		}
		if err == errNotRun {
			continue
		}
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.relearn(at); err != nil {
			return err
		}
		bands, err := p.tested.run(ctx, p.e, at, r)
		if err != nil {
			return err
		}
		var was event.Bands
		if p.before != nil {
			if was, err = p.before.run(ctx, p.e, at, r); err != nil {
				return err
			}
		}
		p.runs++
		if r.Null {
			p.nulls++
		} else {
			p.see(at, r.Value)
		}
		if math.IsNaN(bands.Threshold) {
			p.bare++
		}
		p.points.add(at, &r, &bands)
		if p.before != nil {
			p.hold(&was)
		}
		if p.points.end = at.Add(p.every); p.points.end.After(p.end) {
			p.points.end = p.end
		}
	}
	return nil
}

// hold keeps the bands of before beside the newest point.
func (p *backtest) hold(was *event.Bands) {
	for none := noBands(""); len(p.held) < len(p.points.all); {
		p.held = append(p.held, apiBands(&none))
	}
	p.held[len(p.held)-1] = apiBands(was)
}

// run is one run of a variant.
func (c *variant) run(ctx context.Context, e *Engine, at time.Time, r event.Reading) (event.Bands, error) {
	bands, err := e.bands(ctx, c.d, c.d.profile, c.c, c.id, at, r)
	if err != nil {
		var wrong *expr.Error
		var ambiguous *expr.AmbiguousError
		if ctx.Err() != nil || errors.As(err, &wrong) || errors.As(err, &ambiguous) {
			return bands, evalErrorUnless(ctx, "threshold.of", err)
		}
	}
	level := levelOf(c.c, &r, &bands, err)
	was, ran := c.machine.Hard, c.machine.Ran
	c.events = c.machine.Run(c.c.Rules, level, at, "", func(t time.Time) string { return strconv.FormatInt(t.Unix(), 36) }, c.events[:0])
	if ran && c.lastBad {
		c.bad += at.Sub(c.last)
	}
	c.last, c.lastBad = at, c.machine.Hard != event.OK
	if (!ran || c.machine.Hard != was) && len(c.states) < 2*mostAlarms {
		if n := len(c.states); n > 0 {
			c.states[n-1].End = api.UnixTime(at)
		}
		c.states = append(c.states, api.CheckState{Start: api.UnixTime(at), End: api.Float(math.NaN()), State: c.machine.Hard.String(), Why: r.Text})
	}
	for _, s := range c.events {
		n := len(c.alarms)
		switch {
		case s.Kind == event.Opened && n < mostAlarms:
			c.alarms = append(c.alarms, api.Alarm{Start: api.UnixTime(at), End: api.Float(math.NaN()), Worst: s.To.String(), Value: api.Float(r.Value)})
		case s.Kind == event.Opened:
			c.more = true
		case s.Kind == event.Resolved && n > 0 && math.IsNaN(float64(c.alarms[n-1].End)):
			c.alarms[n-1].End = api.UnixTime(at)
		case s.Kind == event.Changed && n > 0 && s.To.Severity() > levelNamed(c.alarms[n-1].Worst).Severity():
			c.alarms[n-1].Worst = s.To.String()
		}
	}
	return bands, nil
}

func evalErrorUnless(ctx context.Context, field string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return evalError(field, err)
}

// summary holds alarms against marked incidents. An alarm is of the incident that
// it overlaps; one that began before it, too.
func (c *variant) summary(marked []api.Incident, start, end time.Time) (api.BacktestSummary, []api.BacktestIncident) {
	s := api.BacktestSummary{Alarms: len(c.alarms), Seconds: api.Float(c.bad.Seconds()), PerWeek: api.Float(math.NaN())}
	if weeks := end.Sub(start).Hours() / 168; weeks > 0 {
		s.PerWeek = api.Float(float64(len(c.alarms)) / weeks)
	}
	found := make([]api.BacktestIncident, len(marked))
	of := make([]bool, len(c.alarms))
	for i, k := range marked {
		found[i] = api.BacktestIncident{Incident: k, After: api.Float(math.NaN())}
		for j := range c.alarms {
			a := &c.alarms[j]
			if a.Start >= k.End || !math.IsNaN(float64(a.End)) && a.End <= k.Start {
				continue
			}
			if of[j] = true; a.Incident == "" {
				a.Incident = k.ID
			}
			if !found[i].Found {
				found[i].Found, found[i].After = true, a.Start-k.Start
			}
		}
		if found[i].Found {
			s.Found++
		} else {
			s.Missed++
		}
	}
	for _, within := range of {
		if !within {
			s.False++
		}
	}
	return s, found
}

// answer returns the result of all runs.
func (p *backtest) answer() *api.CheckBacktestResponse {
	end := p.points.end
	if end.Before(p.start) {
		end = p.start
	}
	s, found := p.tested.summary(p.marked, p.start, end)
	out := &api.CheckBacktestResponse{
		Range: api.Range{Start: p.start.Unix(), End: end.Unix()}, Runs: p.runs, Nulls: p.nulls, NoThreshold: p.bare,
		Every: p.every.Seconds(), Unit: p.in.c.Unit, Step: p.points.step.Seconds(), Points: p.points.points(), States: p.tested.states, Alarms: p.tested.alarms,
		Incidents: found, Found: s.Found, Missed: s.Missed, False: s.False, PerWeek: s.PerWeek, Seconds: s.Seconds,
		Truncated: p.truncated || p.tested.more,
	}
	if out.States == nil {
		out.States = []api.CheckState{}
	}
	if out.Alarms == nil {
		out.Alarms = []api.Alarm{}
	}
	if p.before != nil {
		b, _ := p.before.summary(p.marked, p.start, end)
		b.Opened, b.Bands = append([]api.Alarm{}, p.before.alarms...), append([]api.CheckBands{}, p.held...)
		out.Before = &b
	}
	return out
}
