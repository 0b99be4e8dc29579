package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"tailscope/api"
	"tailscope/internal/experiment/bench/session"
	"tailscope/internal/experiment/bench/tally"
	"tailscope/internal/series"
)

// MeasureOptions configures one measurement on a stage.
type MeasureOptions struct {
	// Vars replace those of the scenario, see Stage.Apply.
	Vars                      map[string]string
	Name, Variant, Experiment string
	Labels                    map[string]string
	Seed                      uint64 // 0: the scenario's
	SkipWarmUp                bool
	Sink                      session.Sink
	Limits                    tally.Limits // zero fields: the scenario's
	Report                    func(ctx context.Context, r *api.BenchResult) error
	Progress                  func(session.Moment)
	Environment               *api.Environment
}

// Measure warms up, sends the load and returns the outcome. It has undone all faults
// on return. With an error the outcome holds what was measured until something broke:
// a server that ended, a fault that could not be undone.
func (st *Stage) Measure(ctx context.Context, o MeasureOptions) (*session.Outcome, error) {
	if err := st.Apply(ctx, o.Vars); err != nil {
		st.failed = true
		return nil, err
	}
	out, err := st.measure(ctx, st.s.seeded(o.Seed), o)
	st.failed = st.failed || err != nil
	return out, err
}

// seeded returns the scenario with another seed.
func (s *Scenario) seeded(seed uint64) *Scenario {
	if seed == 0 {
		return s
	}
	c := *s
	c.Plan.Seed, c.Requests.Seed = seed, seed
	return &c
}

func (st *Stage) measure(ctx context.Context, s *Scenario, o MeasureOptions) (*session.Outcome, error) {
	base, err := st.session(s, o)
	if err != nil {
		return nil, err
	}
	var warmed *api.BenchWarmUp
	if s.WarmUp != nil && !o.SkipWarmUp {
		if warmed, err = st.warmUp(ctx, s, base); err != nil {
			return nil, err
		}
	}
	set, err := s.compile()
	if err != nil {
		return nil, err
	}
	defer set.Close()

	begun := make(chan time.Time, 1) // when the phases begin
	wreck := &chaos{st: st, s: s}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	around, over := context.WithCancel(context.WithoutCancel(ctx))
	defer over()

	so := base
	so.Load.Begun = func(at time.Time) { begun <- at }
	so.Set, so.Plan, so.Duration, so.Thresholds = set, s.Plan, s.Duration, s.Thresholds
	so.Report, so.Warmed, so.Sink = o.Report, warmed, nil
	read := newReadings(st.servers, st.o.Note)
	read.labels = labelsOf(s.Service, o)
	if o.Sink != nil {
		shared := &oneByOne{sink: o.Sink}
		so.Sink, read.sink = shared, shared
	}
	if len(st.servers) > 0 {
		so.Resources = read.result
	}
	st.mu.Lock()
	before := slices.Clone(st.events)
	so.Loads = slices.Clone(st.loads)
	st.mu.Unlock()
	so.Events = func() []api.BenchEvent { return append(slices.Clone(before), wreck.shown()...) }
	so.Progress = func(m session.Moment) {
		for _, v := range st.servers {
			if err := wreck.surprised(v); err != nil {
				end(err)
			}
		}
		if o.Progress != nil {
			o.Progress(m)
		}
	}

	st.o.Note("measuring")
	var others sync.WaitGroup
	others.Go(func() {
		select {
		case at := <-begun:
			wreck.happen(around, at)
		case <-around.Done():
		}
	})
	if len(st.servers) > 0 {
		others.Go(func() { read.follow(around) })
	}
	out, err := session.Run(ctx, so)
	over()
	others.Wait()
	if err != nil {
		return nil, errors.Join(st.checkServers("before it was measured"), err)
	}
	// The last undone faults, and the last readings.
	r := out.Result
	r.Events = append(r.Events[:0:0], r.Events...)
	for _, e := range wreck.shown() {
		if at := slices.IndexFunc(r.Events, func(x api.BenchEvent) bool { return x.Kind == e.Kind && x.Name == e.Name && x.Time == e.Time }); at >= 0 {
			r.Events[at] = e
		} else {
			r.Events = append(r.Events, e)
		}
	}
	if len(st.servers) > 0 {
		r.Resources = read.result(r.Account.Answered)
	}
	st.environment(s, &r.Environment)
	wrong := wreck.wrong
	for _, v := range st.servers {
		wrong = append(wrong, wreck.surprised(v))
	}
	return out, errors.Join(wrong...)
}

// session returns the options that warm-up and measurement share.
func (st *Stage) session(s *Scenario, o MeasureOptions) (session.Options, error) {
	out := session.Options{
		Name: o.Name, Service: s.Service, Variant: o.Variant, Experiment: o.Experiment, Command: st.o.Command, Target: s.Target,
		Load: s.HTTP, Limits: s.limits(o.Limits), Labels: o.Labels, Environment: o.Environment, Version: st.o.Version, Now: st.o.Now,
	}
	if out.Name == "" {
		out.Name = s.Name
	}
	var err error
	if out.Load.TLS, err = s.TLS.Config(s.Target); err != nil {
		return out, err
	}
	return out, nil
}

// limits returns asked, default the scenario's.
func (s *Scenario) limits(asked tally.Limits) tally.Limits {
	return tally.Limits{
		Late:  cmp.Or(asked.Late, s.Limits.Late),
		Share: cmp.Or(asked.Share, s.Limits.Share), Busiest: cmp.Or(asked.Busiest, s.Limits.Busiest), Starved: cmp.Or(asked.Starved, s.Limits.Starved), Host: cmp.Or(asked.Host, s.Limits.Host),
	}
}

// Lenient reports whether the file accepts runs that would not count by default.
func (s *Scenario) Lenient() bool {
	usual := tally.Limits{}.WithDefaults()
	return s.Limits.Share > usual.Share || s.Limits.Busiest > usual.Busiest
}

// LimitsText lists the generator's limits that the file sets, or returns "".
func (s *Scenario) LimitsText() string {
	var out []string
	add := func(of float64, some, any string) {
		switch {
		case math.IsInf(of, 1):
			out = append(out, any)
		case of > 0:
			out = append(out, fmt.Sprintf(some, 100*of))
		}
	}
	add(s.Limits.Share, "late by up to %.3g %% of the latency", "late by any share of the latency")
	add(s.Limits.Busiest, "busy for up to %.3g %% of the time", "busy all the time")
	return strings.Join(out, " and ")
}

// environment adds what the file asks to record.
func (st *Stage) environment(s *Scenario, e *api.Environment) {
	versions, configs := map[string]string{}, map[string]string{}
	for name, v := range e.Versions {
		versions[name] = v
	}
	for name, v := range e.Configuration {
		configs[name] = v
	}
	for name, v := range st.versions {
		versions[name] = v
	}
	for _, name := range s.Configs {
		const most = 64 << 10
		b, err := os.ReadFile(name)
		if err != nil {
			b = []byte(err.Error())
		}
		configs[name] = string(b[:min(len(b), most)])
	}
	for name, v := range s.Vars {
		configs["var "+name] = v
	}
	if text := s.LimitsText(); text != "" {
		configs["limits"] = "the generator may be " + text
	}
	e.Versions, e.Configuration = versions, configs
}

func labelsOf(service string, o MeasureOptions) map[string]string {
	out := map[string]string{"service": service, "variant": o.Variant, "experiment": o.Experiment}
	for k, v := range o.Labels {
		out[k] = v
	}
	return out
}

// oneByOne shares a sink between the senders of requests' and of processes' series.
type oneByOne struct {
	mu   sync.Mutex
	sink session.Sink
}

func (s *oneByOne) Put(ctx context.Context, points []series.Point) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sink.Put(ctx, points)
}
