package search

import (
	"fmt"
	"math"
	"time"
)

// A step that did not count says that the generator could not keep up there, or that
// its machine was busy with something else. Later steps show which: a lower load is
// tried, and then that load again. If the lower one counts and the same does not,
// twice, the generator is the limit and bounds the search. A generator that hardly
// ran has to fail twice as often. If lower ones do not count either the machine is to
// blame, and going on teaches nothing.

// doubt holds a load whose step did not count.
type doubt struct {
	step  Step
	v     float64 // its load
	below float64 // the least load that did not count since
	times int     // that this load did not count, the first and after a lower one that did
	calm  bool    // a lower load counted, and the generator was well
	busy  bool    // a lower load counted, and the generator was not
}

const (
	// mostVain bounds the steps in a row that do not count, vainFor their time: the
	// trouble may pass.
	mostVain = 3
	vainFor  = 15 * time.Second
	// failures at a load are enough to bound the search, idleFailures if the
	// generator hardly ran.
	failures, idleFailures = 2, 4
	// shaky is the share of the allowed lateness up to which a generator is not
	// doubted.
	shaky = 0.5
	// near is the relative distance from a load that counted within which the
	// generator's limit is searched.
	near = 0.1
)

// handleLost handles a step that did not count.
func (s *Search) handleLost(w *Watch, o Outcome) {
	v, why := s.load(w.step.X), o.Invalid
	s.vain++
	s.vainTook += o.Took
	d := s.doubt
	switch {
	case d == nil:
		step := w.step
		step.Drain, step.Discard, step.For = 0, step.Discard-s.o.SettlingTime, step.For-s.o.SettlingTime
		d = &doubt{step: step, v: v, below: v, times: 1}
		s.doubt = d
	case v < d.v:
		d.below = min(d.below, v)
	case d.calm:
		enough := failures
		if o.Idle {
			enough = idleFailures
		}
		if d.times++; d.times >= enough {
			s.doubt = nil
			s.limit(v, why)
			return
		}
	}
	if s.vain >= mostVain && s.vainTook >= min(vainFor, s.o.Budget/5) && (d.below < d.v || d.busy || v <= s.lowest) {
		s.busy, s.ended = why, true
	}
	d.calm, d.busy = false, false
}

// limit bounds the search by a load that the generator cannot send.
func (s *Search) limit(v float64, why string) {
	if s.kept >= v {
		return // it could before
	}
	s.invalid = why
	below := max(s.kept, s.lowest)
	if s.o.Integer || v-below <= near {
		s.highest = below
	} else {
		s.highest = (v + below) / 2
	}
}

// handleCounted handles a step that counted.
func (s *Search) handleCounted(w *Watch) {
	if w.disturbed < shaky {
		s.vain, s.vainTook = 0, 0
	}
	switch d := s.doubt; {
	case d == nil:
	case s.load(w.step.X) >= d.v:
		s.doubt = nil
	default:
		d.calm, d.busy = w.disturbed < 1, w.disturbed >= 1
	}
}

// resolve returns the next step while there is a doubt.
func (s *Search) resolve(short Step) Step {
	d := s.doubt
	if d.calm || d.busy {
		return d.step
	}
	v := s.kept
	if v >= d.below || math.IsInf(v, -1) {
		v = d.below - math.Log(s.o.Factor)
	}
	if short.X = s.x(v); s.load(short.X) >= d.v {
		return d.step
	}
	return short
}

// dubious returns the step at the least load that broke, if the generator was in
// trouble then. It does so once the generator is well and other steps contradict, or
// in any case before the search ends. Before the search ends as broken already at the
// lowest load, which a moment and a few requests may have decided, that step is
// dubious however the generator was, except if another broke there too. It returns
// nil if there is no such step, or if it was tried again.
func (s *Search) dubious(end bool) *Watch {
	if len(s.steps) == 0 || !end && s.steps[len(s.steps)-1].disturbed >= shaky {
		return nil
	}
	alone := end && s.past.below(s.lowest) > 1-(1-s.o.Level)/2 && s.brokeAt(s.broke) == 1
	for _, w := range s.steps {
		v := s.load(w.step.X)
		if w.disturbed < shaky && !alone || w.again || v > s.broke || !w.broken() {
			continue
		}
		if end {
			return w
		}
		all := s.steps
		s.steps = without(all, w)
		p := s.judge()
		s.steps = all
		if p.below(v) < 0.5 {
			return w
		}
	}
	return nil
}

// brokeAt returns the number of steps that broke at a load or below.
func (s *Search) brokeAt(load float64) int {
	n := 0
	for _, w := range s.steps {
		if w.broken() && s.load(w.step.X) <= load {
			n++
		}
	}
	return n
}

func without(steps []*Watch, w *Watch) []*Watch {
	out := make([]*Watch, 0, len(steps))
	for _, other := range steps {
		if other != w {
			out = append(out, other)
		}
	}
	return out
}

// broken reports whether the step broke, as far as the rise is concerned.
func (w *Watch) broken() bool { return w.broke != "" || w.probably() > 0.9 }

// Trouble says why the search ended without an answer: the machine was busy with
// something else. It is empty otherwise.
func (s *Search) Trouble() string {
	if s.busy == "" {
		return ""
	}
	return fmt.Sprintf("the last %d steps did not count, at lower loads no more than at higher ones, so this is not a limit of the generator: its machine is busy with something else; end that, or send from another machine, and search again. Of the last step: %s", s.vain, s.busy)
}
