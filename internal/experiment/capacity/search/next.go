package search

import (
	"math"
	"time"
)

// Next returns the step to be held now; more is false once the search has ended.
func (s *Search) Next() (step Step, more bool) {
	if s.now != nil {
		return s.now.step, true
	}
	if s.ended {
		return Step{}, false
	}
	step, more = s.next()
	if !more || s.used >= s.o.Budget {
		s.ended = true
		return Step{}, false
	}
	if n := len(s.steps); n > 0 && (s.steps[n-1].broke != "" || s.steps[n-1].probably() > 0.5) {
		step.Drain = s.o.Step
	}
	step.Discard += s.o.SettlingTime
	step.For += s.o.SettlingTime
	// The rest of the budget is used if a step can still show something in it.
	if left := s.o.Budget - s.used; left < step.For {
		if step.For = left; left < step.Discard+least {
			s.ended = true
			return Step{}, false
		}
	}
	s.now = s.watch(step)
	return step, true
}

func (s *Search) watch(step Step) *Watch {
	w := &Watch{search: s, step: step}
	for _, c := range s.o.Objective {
		w.series = append(w.series, &series{c: c, discard: step.Discard.Seconds()})
	}
	return w
}

const (
	rise     = 2 * time.Second // how long a step of the rise lasts
	slowRise = 5 * time.Second // at most, where requests are few
	few      = 100             // requests
	least    = time.Second     // what any step measures
	pass     = 2 * time.Second // what a moment that spoilt a step may take to pass
	clumpsIn = 0.8             // seconds, in which clumps begin to be seen
)

func (s *Search) next() (Step, bool) {
	o := s.o
	phase := "rise"
	if o.Falling {
		phase = "shrink"
	}
	short := Step{Phase: phase, Discard: min(o.Discard, rise/4), For: min(max(rise, min(slowRise, o.Budget/12)), o.Step)}
	if s.doubt != nil {
		return s.resolve(short), true
	}
	if len(s.steps) == 0 && s.invalid == "" {
		short.X = o.Start
		return short, true
	}
	if s.past == nil {
		return Step{}, false
	}
	converged := s.converged()
	if w := s.dubious(converged); w != nil {
		w.again, s.retried = true, w
		short.X = w.step.X
		short.Discard += pass
		short.For += pass
		return short, true
	}
	if converged {
		return Step{}, false
	}
	switch {
	case math.IsInf(s.broke, 1) && s.kept < s.highest:
		short.X = s.further(s.kept)
		return short, true
	case math.IsInf(s.kept, -1) && s.broke > s.lowest:
		short.X = s.nearer(s.broke)
		return short, true
	}
	return s.narrow(), true
}

// further returns the next X of the rise.
func (s *Search) further(load float64) float64 {
	x := s.x(load + math.Log(s.o.Factor))
	if s.o.Integer && x == s.x(load) {
		x = s.x(load)
		if s.o.Falling {
			x--
		} else {
			x++
		}
	}
	return min(max(x, s.o.Lowest), s.o.Highest)
}

// nearer returns the next load if already the first step broke.
func (s *Search) nearer(load float64) float64 {
	x := s.x(load - 2*math.Log(s.o.Factor))
	if s.o.Integer && x == s.x(load) {
		if s.o.Falling {
			x++
		} else {
			x--
		}
	}
	return min(max(x, s.o.Lowest), s.o.Highest)
}

// half returns half the width of the interval of the breaking load.
func (s *Search) half(p *posterior) float64 {
	tail := (1 - s.o.Level) / 2
	return (p.quantile(1-tail) - p.quantile(tail)) / 2
}

// converged reports whether the answer has the asked precision.
func (s *Search) converged() bool {
	tail := (1 - s.o.Level) / 2
	switch low, high := s.bounds(s.past); {
	case s.past.below(s.lowest) > 1-tail, s.past.below(s.highest) < tail:
		return true
	case s.o.Integer:
		return low == high
	default:
		return s.half(s.past) <= math.Log1p(s.o.Precision)
	}
}

// narrow places a step where it is most informative, no further beyond what was kept
// than the rise goes.
func (s *Search) narrow() Step {
	step := s.place()
	if most := s.further(max(s.kept, s.lowest)); s.load(step.X) > s.load(most) {
		step.X = most
	}
	return step
}

func (s *Search) place() Step {
	step := Step{Phase: "narrow", Discard: s.o.Discard, For: s.o.Step}
	p := s.past
	middle := p.quantile(0.5)
	if s.o.Integer {
		step.X = s.undecided(p)
		return step
	}
	wide := p.quantile(0.9) - p.quantile(0.1)
	if wide > 0.2 {
		step.For = (s.o.Step + s.o.Discard) / 2
		step.X = s.x(middle)
		return step
	}
	slope := 0.0
	for i, f := range p.first {
		slope += f * p.slope[i]
	}
	aside := min(max(0.7/slope, wide/8), 1.3*s.o.Precision)
	if s.narrowed()%2 == 0 {
		aside = -aside
	}
	step.X = s.x(middle + aside)
	return step
}

// narrowed returns the number of steps that narrow has placed.
func (s *Search) narrowed() int {
	n := 0
	for _, w := range s.steps {
		if w.step.Phase == "narrow" {
			n++
		}
	}
	return n
}

// undecided returns the whole number that is kept or broken with the least certainty.
func (s *Search) undecided(p *posterior) float64 {
	best, at := -1.0, s.o.Lowest
	for x := s.x(p.quantile(0.001)); ; {
		if q := p.below(s.load(x)); q*(1-q) > best {
			best, at = q*(1-q), x
		}
		next := x + 1
		if s.o.Falling {
			next = x - 1
		}
		if next < s.o.Lowest || next > s.o.Highest || s.load(next) > p.quantile(0.999)+0.7 {
			return at
		}
		x = next
	}
}

// enough reports whether the current step may end.
func (s *Search) enough(w *Watch) bool {
	measured := w.took - w.step.Discard.Seconds()
	narrow := w.step.Phase == "narrow"
	// Enough to show something, and how its requests clump.
	if measured < clumpsIn || !narrow && w.requests() < few || w.took-w.asked < 1 {
		return false
	}
	w.asked = w.took
	worst := w.probably()
	switch {
	case !narrow:
		return worst < 0.3
	case measured < 3:
		return false
	case worst < surely || worst > 1-surely:
		return true
	}
	if half := s.half(s.past); half > 1.5*math.Log1p(s.o.Precision) || w.took-w.judged < 3 {
		return false
	}
	w.judged = w.took
	return s.half(s.judge(w)) <= math.Log1p(s.o.Precision)
}
