package capacity

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/experiment/bench/tally"
	"tailscope/internal/experiment/capacity/search"
)

// held holds what is known of a step of the search's own load.
type held struct {
	l     *Load
	st    search.Step
	rate  float64   // that is asked for
	start time.Time // when its first request could be due

	from, to time.Time // measured so far; from is zero before
	closed   bool      // what comes now is only shown
	seen     *observed // in that time, until it begins since start
	early    *observed // what was before, once it has begun

	queuedEarly float64
	timedEarly  uint64

	queued  float64
	timed   uint64
	timing  *Timing
	meter   api.BenchGenerator
	slots   []heldSlot
	metered time.Time

	disturbed float64 // see search.Outcome

	stopped string
	broke   time.Time     // when that was seen
	broken  time.Duration // likewise on the engine's clock
	last    time.Duration // when the last request was sent, on the engine's clock
}

type heldSlot struct {
	latency *hist.Histogram
	errors  uint64
}

// heldWidth is the width of a column of a step's heatmap.
const heldWidth = 250 * time.Millisecond

func newHeld(l *Load, st search.Step, rate float64) *held {
	return &held{l: l, st: st, rate: rate, seen: newObserved(l.step, len(l.o.Set.Queries()))}
}

// addSample adds a sample. What ended before the step is measured, or after, is in its
// slots only.
func (h *held) addSample(o *sample) {
	i := int(o.at.Sub(h.start) / heldWidth)
	for len(h.slots) <= i {
		h.slots = append(h.slots, heldSlot{latency: hist.New(hist.DefaultSchema)})
	}
	_ = h.slots[i].latency.Merge(o.step.all)
	h.slots[i].errors += o.step.errors
	h.last = max(h.last, o.step.last)
	if o.at.Sub(h.metered) >= time.Second {
		h.metered = o.at
		h.l.meter.Sample()
	}
	if h.closed {
		return
	}
	h.to = o.at
	h.seen.merge(o.step)
	h.queued, h.timed, h.timing = h.queued+o.queued, h.timed+o.timed, o.timing
	if h.from.IsZero() && o.at.Sub(h.start)+sampleEvery/2 >= h.st.Discard {
		// What came before does not belong to the step.
		h.from, h.early, h.seen = o.at, h.seen, newObserved(o.step.step, len(o.step.under))
		h.queuedEarly, h.timedEarly, h.queued, h.timed = h.queued, h.timed, 0, 0
		h.l.meter.Lap(o.at, 0)
	}
}

// close ends the measured part of the step.
func (h *held) close() {
	h.closed = true
	if h.from.IsZero() || h.to.Sub(h.from) < 2*sampleEvery { // it was stopped before: all is of it that there is
		if h.from = h.start; h.early != nil {
			h.seen.merge(h.early)
			h.queued, h.timed = h.queued+h.queuedEarly, h.timed+h.timedEarly
		}
	}
	if !h.broke.IsZero() {
		h.broken = h.broke.Sub(h.l.engines[0].dial.Started())
	}
	if !h.from.IsZero() {
		h.meter = h.l.meter.Lap(h.to, h.seen.begun)
	}
}

// report returns the step so far.
func (h *held) report(w *search.Watch) *api.CapacityStep {
	s := &api.CapacityStep{
		Phase: h.st.Phase, X: api.Float(h.st.X), Asked: api.Float(h.rate), Kept: w.Kept(), Objectives: w.Objectives(), Valid: true,
		Start: none, End: none, Rate: none, Errors: none, Concurrency: none, Waited: none, Queued: none, Worked: none, CPU: none, StoppedAfter: none,
		Latency: tally.Latency(h.seen.all, true), Uncorrected: tally.Latency(h.seen.served, false),
		Generator: h.meter, Slots: []api.CapacitySlot{},
	}
	if !h.closed || h.from.IsZero() {
		s.Generator = api.BenchGenerator{CPUSeconds: none, CPUPerRequest: none, Cores: none, Host: none, Delayed: none, Busiest: none}
	}
	s.Generator.Loops = h.l.engines[0].loops * len(h.l.engines)
	s.Generator.Late, s.Generator.Blocked = tally.Latency(h.seen.late, false), tally.Latency(nil, false)
	if h.stopped != "" {
		s.Kept, s.Stopped = search.Broken, h.stopped
		s.StoppedAfter = api.Float(max(h.last-h.broken, 0).Seconds())
	}
	h.figures(s)
	h.picture(s)
	if h.closed && !h.from.IsZero() {
		h.judge(s)
	}
	return s
}

// figures writes the figures of the measured part.
func (h *held) figures(s *api.CapacityStep) {
	if h.start.IsZero() {
		return
	}
	if s.Start, s.End = tally.Unix(h.start), tally.Unix(h.start); h.from.IsZero() {
		return
	}
	s.Start, s.End = tally.Unix(h.from), tally.Unix(h.to)
	seconds, ended := h.to.Sub(h.from).Seconds(), float64(h.seen.ended)
	if seconds <= 0 || ended == 0 {
		return
	}
	mean, service := h.seen.all.Mean(), h.seen.served.Mean()
	s.Rate, s.Errors = api.Float((ended-float64(h.seen.errors))/seconds), api.Float(float64(h.seen.errors)/ended)
	s.Concurrency = api.Float(ended / seconds * mean)
	s.Waited = api.Float(h.seen.waited.Seconds() / ended)
	worked := service
	if h.timed > 0 && h.timing != nil {
		queued := h.queued / float64(h.timed)
		if h.timing.Worked {
			queued = max(service-queued, 0)
		}
		queued = min(queued, service) // as of other answers than those that were measured, just before
		s.Queued, s.QueuedBy = api.Float(queued), h.timing.String()
		worked = max(service-queued, 0)
	}
	s.Worked = api.Float(worked)
	h.l.o.Usage.writeTo(s, h.from, h.to)
}

// Usage returns the mean usage of the processes under test between two moments: cores
// altogether, NaN if nothing was read, and all other readings by process and name.
// nil if nobody reads them.
type Usage func(from, to time.Time) (cores float64, resources map[string]float64)

// writeTo writes the usage during a step.
func (u Usage) writeTo(s *api.CapacityStep, from, to time.Time) {
	if u == nil || from.IsZero() {
		return
	}
	cores, resources := u(from, to)
	s.CPU = api.Float(cores)
	for name, v := range resources {
		if s.Resources == nil {
			s.Resources = map[string]api.Float{}
		}
		s.Resources[name] = api.Float(v)
	}
}

func (h *held) picture(s *api.CapacityStep) {
	for i, at := range h.slots {
		s.Slots = append(s.Slots, api.CapacitySlot{
			Time: api.Float((time.Duration(i) * heldWidth).Seconds()), Width: api.Float(heldWidth.Seconds()),
			Counts: countsIn(at.latency, h.l.o.Bounds), Errors: at.errors,
		})
	}
}

// within reports whether no condition looks broken. On the way to the limit that is
// enough, whatever the generator's own error.
func within(s *api.CapacityStep) bool {
	return !slices.ContainsFunc(s.Objectives, func(o api.CapacityObjective) bool { return !(o.Value <= o.Limit) })
}

// judge checks whether the generator kept up: its own error must be small against the
// objective's limits. A step that was kept in spite of the error is valid, since the
// error is part of the measurement.
func (h *held) judge(s *api.CapacityStep) {
	limit := math.Inf(1)
	for _, c := range h.l.o.Objective {
		if c.Measure != "errors" {
			limit = min(limit, c.Limit)
		}
	}
	o := h.l.o.Limits.WithDefaults()
	allowed := o.Share * limit
	if math.IsInf(limit, 1) { // only errors count
		allowed = o.Share * max(float64(s.Latency.Quantiles["0.99"]), 10*o.Late.Seconds()/o.Share)
	}
	allowed = max(allowed, o.Late.Seconds())
	late, delayed := 0.0, 0.0
	if s.Generator.Late.Count >= 100 {
		late = float64(s.Generator.Late.Quantiles["0.99"])
	}
	if float64(s.Generator.Host) > o.Host {
		delayed = float64(s.Generator.Delayed)
	}
	h.disturbed = 0
	for _, by := range []float64{late, delayed} {
		if by > 0 { // and not unknown
			h.disturbed = max(h.disturbed, by/allowed)
		}
	}
	if s.Kept == search.Kept || s.Phase != "narrow" && within(s) || s.Stopped != "" && float64(s.Latency.Quantiles["0.5"])-late > limit {
		return
	}
	var why []string
	if late > allowed {
		why = append(why, fmt.Sprintf("the generator sent late: at p99 %s after requests were due although a connection was free (allowed: %s) (hint: run it on a machine with idle cores, or end other programs here; nice -n -5 helps)", tally.Short(late), tally.Short(allowed)))
	}
	if delayed > allowed {
		why = append(why, fmt.Sprintf("all cores of this machine were busy, and the generator waited for one for %s a request (allowed: %s) (hint: move the target or the generator to another machine, or end other programs here)", tally.Short(delayed), tally.Short(allowed)))
	}
	if len(why) > 0 {
		s.Valid, s.Why = false, strings.Join(why, "; ")
	}
}
