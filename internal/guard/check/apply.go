package check

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/state"
	"tailscope/internal/series"
)

// steady is the time after which a series is written again whose value has not changed:
// state and bands. It must be shorter than PromQL's lookback.
const steady = time.Minute

// apply turns outcomes of one definition into states, stores them and notifies receivers.
func (e *Engine) apply(outcomes []outcome) {
	if len(outcomes) == 0 {
		return
	}
	c := outcomes[0].in.d.c
	var results []event.Result
	notify := len(c.Receivers) > 0 && !c.Silent && e.o.Notifier != nil
	if notify {
		results = make([]event.Result, 0, len(outcomes))
	}
	samples := e.scratch.Get().(*[]sample)
	*samples = (*samples)[:0]
	e.mu.Lock()
	for i := range outcomes {
		o := &outcomes[i]
		if o.in.removed || overtaken(o) {
			continue // its check is gone, or was run in between
		}
		e.updateState(o)
		if notify {
			results = append(results, o.in.last)
		}
		*samples = o.in.appendSamples(o, *samples)
	}
	e.mu.Unlock()
	for _, s := range *samples { // history has them before the store
		e.o.History.Observe(s.to.series, series.Sample{TimeMillis: s.millis, Value: s.value})
	}
	e.sink.add(*samples)
	e.scratch.Put(samples)
	if len(results) > 0 {
		e.o.Notifier.Results(c.Receivers, results)
	}
}

// overtaken reports that a run that began later has been applied. One that is later
// by more than a run lasts is of a clock that was set back since.
func overtaken(o *outcome) bool {
	by := o.in.last.Time.Sub(o.at)
	return by > 0 && by <= max(o.in.c.Timeout, 10*time.Second)+time.Minute
}

// updateState turns an outcome into a state. Needs mu.
func (e *Engine) updateState(o *outcome) {
	in := o.in
	m := &in.machine
	was, ran, last, wasFlapping := m.Hard, m.Ran, m.Last, m.Flapping
	e.stats.Runs++
	if o.reading.Err != nil {
		e.stats.Failures++
	}
	quiet := e.quietReason(in, o.at)
	in.masked = strings.HasPrefix(quiet, dependsOn)
	e.said = m.Run(in.d.c.Rules, o.level, o.at, quiet, in.newID, e.said[:0])
	in.last = in.makeResult(o, quiet)
	e.recordTransition(in, e.said)
	if !ran || m.Hard != was || m.Flapping != wasFlapping {
		why := in.last.Reading.Text
		if err := in.last.Reading.Err; err != nil {
			why = err.Error()
		}
		e.noteTransition(in.condition, o.at, why)
	}
	// A run that changes nothing but what flapping is judged by is not kept.
	if !ran || last != m.Last || m.Hard != was || len(e.said) > 0 || m.Last != m.Hard {
		e.touchCondition(in.condition)
	}
	if m.Incident != nil {
		e.open[in.id] = in.condition
	}
}

// newID makes the id of an incident from the moment it opens at and its check.
func (c *condition) newID(at time.Time) string {
	return strconv.FormatInt(at.UnixMilli(), 36) + "-" + fmt.Sprintf("%08x", uint32(xxh3.HashString(c.id)))
}

// makeResult returns the result of a run for receivers of every run and for the page.
// Needs mu.
func (in *instance) makeResult(o *outcome, quiet string) event.Result {
	m := &in.machine
	r := event.Result{
		Key: in.key, Host: in.host(), Service: in.service(), Labels: in.labels, Time: o.at, Reading: o.reading, Bands: o.bands,
		Level: o.level, State: m.Hard, Soft: m.Soft(), Unit: in.c.Unit, Quiet: quiet,
	}
	if r.Quiet == "" {
		r.Quiet = machineQuiet(m)
	}
	return r
}

func machineQuiet(m *state.Machine) string {
	switch {
	case m.Ack != nil:
		return "acknowledged by " + m.Ack.User
	case m.Flapping:
		return "flapping"
	}
	return ""
}

func (in *instance) host() string {
	if in.c.Host != "" {
		return in.c.Host
	}
	for _, name := range []string{"host", series.LabelService} {
		if v := in.labels.Get(name); v != "" {
			return v
		}
	}
	return "tailscope"
}

func (in *instance) service() string {
	if in.c.Service != "" {
		return in.c.Service
	}
	return in.id
}

// appendSamples appends the samples of an outcome. Needs mu.
func (in *instance) appendSamples(o *outcome, dst []sample) []sample {
	millis := o.at.UnixMilli()
	always := func(family int, v float64) {
		if !math.IsNaN(v) {
			dst = append(dst, sample{in.output(family), millis, v})
		}
	}
	changed := func(family int, v float64) {
		w := &in.out[family]
		if math.IsNaN(v) {
			w.at = 0
			return
		}
		if w.at == 0 || w.value != v || millis-w.at >= steady.Milliseconds() || millis < w.at {
			w = in.output(family)
			w.value, w.at = v, millis
			dst = append(dst, sample{w, millis, v})
		}
	}
	if !o.reading.Null {
		always(outValue, o.reading.Value)
	}
	b := &o.bands
	changed(outThreshold, b.Threshold)
	changed(outLowCritical, b.LowCritical)
	changed(outLowWarning, b.LowWarning)
	changed(outHighWarning, b.HighWarning)
	changed(outHighCritical, b.HighCritical)
	changed(outState, float64(in.machine.Hard))
	if !in.d.store || o.reading.Null { // so that each run leaves something: backtests leave out what did not run
		always(outSeconds, o.reading.Took.Seconds())
	} else if w := &in.out[outSeconds]; w.at == 0 || millis-w.at >= steady.Milliseconds() || millis < w.at {
		changed(outSeconds, o.reading.Took.Seconds())
	}
	for i := range o.reading.Perf {
		p := &o.reading.Perf[i]
		if w := in.perfOutput(p.Label); w != nil && !math.IsNaN(p.Value) && !math.IsInf(p.Value, 0) {
			dst = append(dst, sample{w, millis, p.Value})
		}
	}
	return dst
}

// eventOf makes an event for receivers of a machine's. Needs mu.
func (e *Engine) eventOf(in *instance, s *state.Event) event.Event {
	all := map[string]string{}
	for _, l := range labelsOf(in.labels) {
		all[l.Name] = l.Value
	}
	r := &in.last
	value, bands := math.NaN(), noBands("")
	if !r.Time.IsZero() {
		value, bands = r.Reading.Value, r.Bands
	}
	out := event.Event{
		Incident: s.Incident, Seq: s.Seq, Kind: s.Kind, Key: in.key, Labels: all, Host: in.host(), Service: in.service(),
		Time: s.Time, Opened: s.Opened, Since: in.events.since(s.Opened), From: s.From, To: s.To, Value: value, Bands: bands, Unit: in.c.Unit,
		Link: e.link(in.id),
	}
	if s.Ack != nil {
		out.User, out.Comment = s.Ack.User, s.Ack.Comment
	}
	out.Text = sentence(in, s, r, e.o.Now())
	return out
}
