package session

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"sync"
	"time"

	"tailscope/api"
	"tailscope/internal/experiment/bench"
	"tailscope/internal/experiment/bench/load"
	"tailscope/internal/experiment/bench/tally"
)

// Run sends the load and returns its outcome. When ctx is done it ends in order: the
// outcome covers what was measured until then, with Aborted set. It returns an error
// if nothing was measured: a Mistake if the options are wrong, else because the
// target is not reached. A missed threshold and an invalid run are not errors.
func Run(ctx context.Context, o Options) (*Outcome, error) {
	r, err := prepare(o)
	if err != nil {
		return nil, Mistake{err}
	}
	return r.run(ctx)
}

// Mistake is the error of wrong options: no request was sent, and trying again does
// not help.
type Mistake struct{ Err error }

func (m Mistake) Error() string { return m.Err.Error() }
func (m Mistake) Unwrap() error { return m.Err }

// run is the state of one run.
type run struct {
	o      Options
	plan   bench.Plan // with the warm-up before it
	skip   time.Duration
	tally  *tally.Tally
	usage  usage
	delays *delays
	sender *sender
	phases []api.BenchPhase

	mu      sync.Mutex
	started time.Time // of the load, warm-up included; zero until it begins
	end     context.CancelCauseFunc
	aborted string // which threshold ended it
}

// prepare finds every mistake before anything is sent.
func prepare(o Options) (*run, error) {
	if o.Target == nil || o.Set == nil {
		return nil, errors.New("a run of load needs a target and a set of requests")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Every == 0 {
		o.Every = time.Second
	}
	if o.Name == "" {
		o.Name = o.Target.Host
	}
	if o.Service == "" {
		o.Service = o.Target.Hostname()
	}
	if o.Set.Recorded() != (o.Plan.Arrivals == bench.Recorded) {
		if !o.Set.Recorded() {
			return nil, errors.New("arrivals recorded: the requests have no times of their own (hint: say a rate, or replay a recording)")
		}
		return nil, errors.New("the requests have times of their own, and the plan says others (hint: leave the rate out)")
	}
	if err := o.Plan.Validate(); err != nil {
		return nil, err
	}
	if o.WarmUp < 0 || o.Duration < 0 {
		return nil, fmt.Errorf("warm-up %s, duration %s: must not be negative", o.WarmUp, o.Duration)
	}
	if o.WarmUp > 0 && o.Plan.Arrivals == bench.Recorded {
		return nil, errors.New("recorded requests come at their own times, so there is no warm-up before them (hint: leave it out)")
	}
	r := &run{o: o, plan: o.Plan, phases: phasesOf(o.Plan)}
	var names []string
	for _, p := range r.phases {
		names = append(names, p.Name)
	}
	var quantiles []float64
	for _, t := range o.Thresholds {
		if err := t.Check(o.Set.Queries(), names, o.Set.Tenants()); err != nil {
			return nil, err
		}
		if q, ok := t.Quantile(); ok {
			quantiles = append(quantiles, q)
		}
	}
	r.warm()
	if n, ok := r.plan.Requests(); ok {
		if err := o.Set.Enough(n); err != nil {
			return nil, err
		}
	}
	if err := o.Set.Lasts(r.duration()); err != nil {
		return nil, err
	}
	to := tally.Options{
		Queries: o.Set.Queries(), Tenants: o.Set.Tenants(), Checks: o.Set.Checks(), Accepts: o.Set.Accepts,
		Phases: len(r.phases), Skip: r.skip, Quantiles: quantiles, Keep: o.Sink != nil,
	}
	if o.Plan.Arrivals >= bench.Closed {
		to.Phase = r.o.Plan.PhaseAt
	}
	r.tally = tally.New(to)
	return r, nil
}

// warm puts the warm-up before the plan: a whole number of requests at its first
// rate, so that the plan's own begin when it ends.
func (r *run) warm() {
	if r.skip = r.o.WarmUp; r.skip == 0 {
		return
	}
	ph := bench.Phase{Name: "warm-up", For: r.skip}
	if r.plan.Arrivals < bench.Closed {
		first := r.plan.Phases[0]
		rate := first.From
		if rate == 0 {
			rate = (first.From + first.To) / 2
		}
		if rate > 0 {
			n := math.Ceil(rate * r.skip.Seconds())
			r.skip = time.Duration(math.Round(n / rate * 1e9))
			ph.For = r.skip
		}
		ph.From, ph.To = rate, rate
	}
	r.plan.Phases = append([]bench.Phase{ph}, r.plan.Phases...)
}

func phasesOf(p bench.Plan) []api.BenchPhase {
	none := api.Float(math.NaN())
	if len(p.Phases) == 0 {
		return []api.BenchPhase{{Name: "recording", Start: 0, End: none, From: none, To: none}}
	}
	var out []api.BenchPhase
	at := time.Duration(0)
	for i, ph := range p.Phases {
		x := api.BenchPhase{Name: ph.Name, Start: api.Float(at.Seconds()), End: none, From: none, To: none}
		if x.Name == "" {
			x.Name = fmt.Sprint(i + 1)
		}
		if at += ph.For; ph.For > 0 {
			x.End = api.Float(at.Seconds())
		}
		if p.Arrivals < bench.Closed {
			x.From, x.To = api.Float(ph.From), api.Float(ph.To)
		}
		out = append(out, x)
	}
	return out
}

// Towards returns lo with the address of target in fields that are empty.
func Towards(target *url.URL, lo load.Options) load.Options {
	if lo.Address == "" {
		port := target.Port()
		if port == "" {
			port = map[string]string{"https": "443"}[target.Scheme]
		}
		if port == "" {
			port = "80"
		}
		lo.Address = net.JoinHostPort(target.Hostname(), port)
	}
	if lo.Host == "" {
		lo.Host = target.Host
	}
	return lo
}

// options returns the engine's options.
func (r *run) options() load.Options {
	lo := Towards(r.o.Target, r.o.Load)
	lo.Source, lo.Checker = r.o.Set.Source, r.o.Set.Checker()
	lo.Recorder = func(loop, loops int) load.Recorder {
		r.mu.Lock()
		r.started = r.o.Now()
		r.mu.Unlock()
		return r.tally.Recorder(loop, loops)
	}
	lo.Duration = r.plan.Duration()
	if r.o.Duration > 0 && (lo.Duration == 0 || r.o.Duration+r.skip < lo.Duration) {
		lo.Duration = r.o.Duration + r.skip
	}
	switch r.plan.Arrivals {
	case bench.Recorded:
		lo.Recorded = true
	case bench.Closed:
	default:
		lo.Pacer = func(loop, loops int) (load.Pacer, error) { return r.plan.Pacer(loop, loops) }
	}
	return lo
}

// errAborted ends a run whose threshold is missed.
var errAborted = errors.New("a threshold was missed")

func (r *run) run(ctx context.Context) (*Outcome, error) {
	loading, end := context.WithCancelCause(ctx)
	defer end(nil)
	r.end = end
	r.sender = newSender(ctx, r.o)
	stop, done := make(chan struct{}), make(chan struct{})
	r.usage, r.delays = measureUsage(r.o.Now()), newDelays()
	go func() {
		defer close(done)
		tick := time.NewTicker(r.o.Every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				r.tick()
			case <-stop:
				return
			}
		}
	}()
	account, err := load.Run(loading, r.options())
	close(stop)
	<-done
	if err != nil {
		r.sender.close()
		return nil, err
	}
	return r.finish(ctx, loading, account)
}

// tick collects, reports, and ends the run if a threshold asks for it.
func (r *run) tick() {
	now := r.o.Now()
	r.tally.Collect(now)
	r.delays.sample()
	r.mu.Lock()
	started := r.started
	r.mu.Unlock()
	if started.IsZero() {
		return
	}
	began := started.Add(r.skip)
	elapsed := now.Sub(began)
	m := r.moment(r.result(began, max(elapsed, 0), 0), began, elapsed)
	if elapsed > 0 {
		for i, t := range r.o.Thresholds {
			if t.Hopeless(m.Result, elapsed) && r.aborted == "" {
				m.Result.Thresholds[i].Aborted = true
				r.aborted = t.String()
				r.end(errAborted)
			}
		}
	}
	if r.o.Progress != nil {
		r.o.Progress(m)
	}
	pending, lost := r.tally.Take()
	r.sender.send(pending, lost, m.Result)
}

func (r *run) moment(res *api.BenchResult, began time.Time, elapsed time.Duration) Moment {
	m := Moment{Result: res, Live: r.tally.Live(began), Elapsed: elapsed, Left: -1, Asked: math.NaN(), Trouble: r.sender.trouble(), Phase: r.o.Plan.PhaseAt(max(elapsed, 0))}
	whole := r.duration()
	if whole > 0 {
		m.Left = max(whole-max(elapsed, 0), 0)
	}
	if r.o.Plan.Arrivals < bench.Closed && elapsed > 0 {
		due, handled := dueBefore(r.o.Plan, elapsed), res.Account.Sent+res.Account.Dropped
		m.Behind = uint64(due) - min(uint64(due), handled)
		if last := min(m.Live.Seconds, elapsed.Seconds()); last > 0 && (whole == 0 || elapsed < whole) {
			m.Asked = (due - dueBefore(r.o.Plan, elapsed-time.Duration(last*1e9))) / last
		}
	}
	return m
}

// duration returns the length of the measured part, or 0 if it is not known.
func (r *run) duration() time.Duration {
	d := r.o.Plan.Duration()
	if r.o.Duration > 0 && (d == 0 || r.o.Duration < d) {
		d = r.o.Duration
	}
	return d
}

// finish makes the result of a run that has ended.
func (r *run) finish(ctx, loading context.Context, account load.Account) (*Outcome, error) {
	now := r.o.Now()
	r.tally.Collect(now)
	began := account.Started.Add(r.skip)
	elapsed := max(account.Elapsed-r.skip, 0)
	// A plan that ran to its end took its whole duration, even if its last request
	// was answered before.
	whole := r.duration()
	stopped := loading.Err() != nil
	if !stopped && !account.Exhausted {
		elapsed = max(elapsed, whole)
	}
	res := r.result(began, elapsed, account.Unsent)
	res.End = tally.Unix(began.Add(elapsed))
	switch {
	case r.aborted != "":
		for i, t := range r.o.Thresholds {
			if t.String() == r.aborted {
				res.Thresholds[i].Aborted = true
				res.Aborted = "the threshold " + r.aborted + " was missed after " + elapsed.Round(time.Second).String()
			}
		}
	case stopped:
		res.Aborted = "it was ended after " + elapsed.Round(time.Second/10).String()
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
			res.Aborted += ": " + cause.Error()
		}
	case account.Exhausted && whole > 0 && elapsed < whole-time.Second:
		res.Aborted = "the requests ran out after " + elapsed.Round(time.Second/10).String()
		if why := r.o.Set.RanOut(); why != "" {
			res.Aborted += ": " + why
		}
	}
	if res.Aborted != "" {
		res.Events = append(res.Events, api.BenchEvent{Time: res.End, End: api.Float(math.NaN()), Kind: "abort", Name: "end", Text: res.Aborted})
	}
	r.generator(res, account, now)
	res.Invalid = r.o.Limits.Judge(res)
	res.Valid = len(res.Invalid) == 0
	res.Headline = headline(res)

	out := &Outcome{Result: res, Latency: r.tally.Totals().Latency(), Uncorrected: r.tally.Totals().Service()}
	for _, t := range res.Thresholds {
		out.Missed = out.Missed || !t.Met
	}
	for h := range r.tally.Totals().Halves() {
		out.Series = append(out.Series, Series{h.Query, h.Tenant, h.Status, h.Latency, h.Service})
	}
	if r.o.Progress != nil {
		m := r.moment(res, began, elapsed)
		m.Ended = true
		r.o.Progress(m)
	}
	pending, lost := r.tally.Take()
	r.sender.send(pending, lost, res)
	r.sender.close()
	out.Trouble = r.sender.trouble()
	return out, nil
}

func (r *run) generator(res *api.BenchResult, account load.Account, now time.Time) {
	g := &res.Generator
	r.delays.sample()
	fill(g, measureUsage(now).since(r.usage), r.delays.sum, r.delays.known, account.Sent)
	g.Loops, g.Busiest, g.Starved = account.Loops, api.Float(account.Busiest), api.Float(account.Starved)
}
