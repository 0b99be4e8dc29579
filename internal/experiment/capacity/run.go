// Package capacity finds how far a running system goes: the most requests a second,
// the most copies of live requests, or the fewest servers, at which an objective is
// kept.
//
// Run is the search; a Holder holds its steps. One Holder sends its own load, one
// shrinks a pool of servers under a fixed load, and one copies live traffic. All
// remove the load as soon as the objective is surely broken, and restore everything
// before Run returns.
package capacity

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/experiment/bench/tally"
	"tailscope/internal/experiment/capacity/search"
	"tailscope/internal/scaling"
)

// Holder holds the steps of a search, one after another.
type Holder interface {
	// Hold brings the system to st.X, shows w the results some ten times a second,
	// and returns the outcome of the step when w has seen enough, when the step's
	// time is over, when ctx ends, or when the objective is broken; in the last case
	// it has removed the load. It calls report with the step as it grows; the
	// argument does not change any more. The step holds what was measured even with
	// an error, which ends the search.
	Hold(ctx context.Context, st search.Step, w *search.Watch, report func(*api.CapacityStep)) (*api.CapacityStep, search.Outcome, error)
	// Restore brings load or pool back to what they were before the search. It is
	// called once, at the end, whatever happened, and ctx has not ended then.
	Restore(ctx context.Context) error
}

// Options configures a search. Search is required.
type Options struct {
	Search search.Options
	// Fields of the report, see api.Capacity.
	Name, Service, Target, Command, Mode, Arrivals string
	Seed                                           uint64
	Environment                                    api.Environment
	// Bounds are the bounds of the slots of the Holder's steps; DefaultBounds for
	// most.
	Bounds []float64
	// Report is called with the state of the search: as steps grow, about once a
	// second, and at the end. Its argument does not change any more. It must not wait
	// for anything, because the load goes on meanwhile. Default none.
	Report func(*api.Capacity)
	// Events returns events for the report; default none.
	Events func() []api.BenchEvent
	// Warn returns what makes the answer less certain than it seems; default none.
	Warn func(*api.Capacity) []api.CompareWarning
	Now  func() time.Time // time.Now if nil
}

// restoreWithin bounds the time to restore everything: a pool's command gets all of
// its time once more.
const restoreWithin = poolWithin + 30*time.Second

// drainWithin bounds the time for a target to come to rest after a step that was
// stopped.
const drainWithin = 10 * time.Second

// searching is the state of a search.
type searching struct {
	o        Options
	s        *search.Search
	c        api.Capacity
	reported time.Time
}

// Run searches, and returns the result once load and pool are restored. It returns an
// error only if the options are wrong, and nothing was sent. If the search ended
// before its time, Failed says why.
func Run(ctx context.Context, h Holder, o Options) (*api.Capacity, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	s, err := search.New(o.Search)
	if err != nil {
		return nil, err
	}
	r := &searching{o: o, s: s, c: api.Capacity{
		Format: 1, Name: o.Name, Service: o.Service, Target: o.Target, Command: o.Command, Mode: o.Mode, Unit: unitOf(o.Search),
		Objective: o.Search.Objective.String(), Arrivals: o.Arrivals, Seed: o.Seed, Start: tally.Unix(o.Now()), End: api.Float(math.NaN()),
		Environment: o.Environment, Bounds: floats(o.Bounds), Steps: []api.CapacityStep{}, Events: []api.BenchEvent{}, Warnings: []api.CompareWarning{},
	}}
	err = r.search(ctx, h)
	restoring, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreWithin)
	defer cancel()
	r.c.Progress = "making everything as it was"
	r.report(true)
	if wrong := h.Restore(restoring); wrong != nil {
		r.c.RestoreError = wrong.Error()
	} else {
		r.c.Restored = true
	}
	r.finish(ctx, err)
	return r.snapshot(), nil
}

// search holds steps until the search has ended.
func (r *searching) search(ctx context.Context, h Holder) error {
	for ctx.Err() == nil {
		st, more := r.s.Next()
		if !more {
			return nil
		}
		n := len(r.c.Steps)
		if n > 0 && r.c.Steps[n-1].Stopped != "" && st.Drain == 0 {
			st.Drain = drainWithin
		}
		r.c.Progress = fmt.Sprintf("step %d, %s: %s", n+1, st.Phase, search.Amount(st.X, r.c.Unit))
		r.report(true)
		step, outcome, err := h.Hold(ctx, st, r.s.Watch(), func(step *api.CapacityStep) {
			r.c.Steps = append(r.c.Steps[:n:n], *step)
			r.report(false)
		})
		if step != nil {
			r.c.Steps = append(r.c.Steps[:n:n], *step)
		}
		if err != nil {
			return err
		}
		r.s.Done(outcome)
		r.c.Answer, r.c.Verdict = r.s.Answer(), r.s.Verdict()
	}
	return context.Cause(ctx)
}

// finish writes the answer.
func (r *searching) finish(ctx context.Context, err error) {
	c := &r.c
	c.End, c.Progress = tally.Unix(r.o.Now()), ""
	switch {
	case err == nil:
	case ctx.Err() != nil:
		c.Failed = "it was ended"
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
			c.Failed = cause.Error()
		}
	default:
		c.Failed = err.Error()
	}
	c.Answer, c.Verdict = r.s.Answer(), r.s.Verdict()
	if c.Answer != nil {
		c.Answer.Rate = r.rate()
		if c.Failed != "" {
			c.Answer.Next = "" // more time is not what it takes
		}
	}
	if c.Mode != "servers" {
		c.Law = r.law()
	}
	r.headline()
	r.warn()
	r.report(true)
}

// rate returns the rate of answers at the answer: the share of the asked rate that
// was answered at the nearest steps that did not break.
func (r *searching) rate() api.Float {
	value, best, rate, nearest := float64(r.c.Answer.Value), math.Inf(1), math.NaN(), math.NaN()
	if math.IsNaN(value) {
		value = float64(r.c.Answer.Low)
	}
	if math.IsNaN(value) && r.o.Search.Falling {
		value = float64(r.c.Answer.High)
	}
	for i := range r.c.Steps {
		s := &r.c.Steps[i]
		x := float64(s.X)
		if away := math.Abs(math.Log(x / value)); s.Valid && s.Kept != search.Broken && away < best && !math.IsNaN(float64(s.Rate)) {
			if best, rate = away, float64(s.Rate); !r.o.Search.Falling {
				rate *= value / x
			}
			nearest = x
		}
	}
	if r.s.Verdict() != search.Found && r.brokeBetween(nearest, value) {
		return none
	}
	return api.Float(rate)
}

// brokeBetween reports whether a step broke at a load beyond one, and not beyond
// other.
func (r *searching) brokeBetween(one, other float64) bool {
	return slices.ContainsFunc(r.c.Steps, func(s api.CapacityStep) bool {
		x := float64(s.X)
		return s.Valid && s.Kept == search.Broken && x != one && min(one, other) <= x && x <= max(one, other)
	})
}

// law fits the scaling law to the steps that show the target and not the generator.
func (r *searching) law() *api.ScalingLaw {
	var points []scaling.Point
	for i := range r.c.Steps {
		s := &r.c.Steps[i]
		n, rate := float64(s.Concurrency), float64(s.Rate)
		if !(n > 0) || !(rate > 0) {
			continue
		}
		points = append(points, scaling.Point{N: n, Rate: rate, Mean: float64(s.Latency.Mean), Time: math.NaN(), Left: !s.Valid || s.Stopped != "", Configuration: -1})
	}
	law, err := scaling.Fit(points, scaling.Options{Level: float64(r.level())})
	if err != nil {
		if len(points) > 2 {
			r.note("law", "scaling is not fitted: "+strings.TrimPrefix(err.Error(), scaling.ErrNoLaw.Error()+": "))
		}
		return nil
	}
	return law.API("steps")
}

func (r *searching) level() api.Float {
	if r.c.Answer != nil {
		return r.c.Answer.Level
	}
	return 0.95
}

func (r *searching) headline() {
	c := &r.c
	switch {
	case c.Answer != nil && c.Failed != "":
		c.Headline = fmt.Sprintf("%s, as far as it came: %s", c.Answer.Sentence, c.Failed)
	case c.Answer != nil && c.Verdict == search.TooLittle:
		c.Headline = "not certain yet: " + c.Answer.Sentence
	case c.Answer != nil:
		c.Headline = c.Answer.Sentence
	case c.Failed != "":
		c.Headline = "nothing was found out: " + c.Failed
	case r.s.Trouble() != "":
		c.Headline = "nothing was found out: " + r.s.Trouble()
	default:
		c.Headline = "nothing was found out"
	}
	if failed := failedUnasked(c); c.Answer != nil && failed > mostFailed {
		c.Headline += fmt.Sprintf("; but up to %.3g %% of requests failed, which it does not limit", 100*failed)
	}
}

func (r *searching) warn() {
	c := &r.c
	for _, w := range stepWarnings(c) {
		r.note(w.Code, w.Text)
	}
	if r.o.Warn != nil {
		for _, w := range r.o.Warn(c) {
			r.note(w.Code, w.Text)
		}
	}
	if c.RestoreError != "" {
		r.note("restore", "not everything is as it was before: "+c.RestoreError)
	}
}

func (r *searching) note(code, text string) {
	w := api.CompareWarning{Code: code, Text: text}
	if !slices.Contains(r.c.Warnings, w) {
		r.c.Warnings = append(r.c.Warnings, w)
	}
}

// report reports the state of the search, if a report is due.
func (r *searching) report(now bool) {
	if r.o.Report == nil {
		return
	}
	t := r.o.Now()
	if !now && t.Sub(r.reported) < time.Second-50*time.Millisecond {
		return
	}
	r.reported = t
	r.o.Report(r.snapshot())
}

// snapshot returns a copy of the search's state.
func (r *searching) snapshot() *api.Capacity {
	if r.o.Events != nil {
		r.c.Events = append([]api.BenchEvent{}, r.o.Events()...)
	}
	c := r.c
	c.Steps, c.Warnings = slices.Clone(c.Steps), slices.Clone(c.Warnings)
	if c.Answer != nil {
		a := *c.Answer
		c.Answer = &a
	}
	return &c
}

// DefaultBounds returns the bounds of slots: four to each doubling from 0.1 ms to
// half a minute. Smaller values are in the first.
func DefaultBounds() []float64 {
	const schema = 2
	bounds := []float64{0}
	for k := hist.BucketIndex(1e-4, schema); ; k++ {
		b := hist.UpperBound(k, schema)
		if bounds = append(bounds, b); b > 30 {
			return bounds
		}
	}
}

func unitOf(o search.Options) string {
	switch {
	case o.Unit != "":
		return o.Unit
	case o.Falling:
		return "servers"
	}
	return "requests/s"
}

func floats(of []float64) []api.Float {
	out := make([]api.Float, len(of))
	for i, v := range of {
		out[i] = api.Float(v)
	}
	return out
}
