// Package search finds the most load, or the fewest servers, at which an objective
// is kept, with an interval. It has no clock and sends nothing: it says which load
// is to be held next and for how long, is shown what came of it batch by batch, and
// ends with an answer.
//
//	s, err := search.New(search.Options{Objective: o, Lowest: 10, Highest: 10000})
//	for {
//		step, more := s.Next()
//		if !more {
//			break
//		}
//		w := s.Watch()
//		// drain, then hold step.X for step.For at most; every 100 to 200 ms:
//		w.Add(batch)
//		// stop at once if w.Broken(), end the step if w.Enough()
//		s.Done(search.Outcome{Took: …})
//	}
//	answer, verdict := s.Answer(), s.Verdict()
//
// Values belong to one goroutine at a time.
package search

import (
	"fmt"
	"math"
	"time"

	"tailscope/api"
	"tailscope/internal/experiment/capacity/objective"
)

// Options configures a search. Objective, Lowest and Highest are required.
type Options struct {
	Objective objective.Objective
	// Lowest and Highest bound X, which is above 0; both may be tried.
	Lowest, Highest float64
	// Start is the first X; default Lowest, or Highest if Falling.
	Start float64
	// Factor, above 1, is the ratio of X between steps of the rise; default 2, and
	// 4/3 if Falling.
	Factor float64
	// Precision is half the width of the asked interval, relative to the answer;
	// default 0.03.
	Precision float64
	Level     float64 // of the interval; 0 is 0.95
	// Budget bounds the time of all steps together; default 5 minutes.
	Budget time.Duration
	// Step bounds the time of a step of the narrowing, with the discarded part;
	// default 20 s. Steps of the rise last 2 s at most.
	Step time.Duration
	// Discard is the beginning of each step that is not measured; default 20 times
	// the longest limit of latency, between 1 s and 3 s.
	Discard time.Duration
	// SettlingTime is the time until a load has arrived in full, for example copies
	// of live requests that are spread. It comes before Discard.
	SettlingTime time.Duration
	Integer      bool   // X is a whole number
	Falling      bool   // less X is more load for each: servers of a pool
	Unit         string // of X, in sentences; "" is requests/s, or servers if Falling
}

// Step is a load to be held.
type Step struct {
	Phase string  // rise, shrink, narrow
	X     float64 // requests/s, copies, servers
	// Drain is the longest wait before the step until nothing is under way any more;
	// 0 if the step may follow the one before without a gap.
	Drain time.Duration
	// Discard is the beginning that is not measured. It is shown to Watch
	// nevertheless.
	Discard time.Duration
	For     time.Duration // how long it lasts, Discard included
}

// Outcome describes a step that has ended.
type Outcome struct {
	Took time.Duration // drain included
	// Invalid says why the step shows nothing of the target, for example because the
	// generator could not keep up. If it fails at X again but not at less, X becomes
	// an upper bound.
	Invalid string
	// Disturbed is the generator's own lateness, or its wait for a core, as a share
	// of what is allowed; 0 if it is not known. A step that broke at half of it or
	// more is tried again if other steps contradict.
	Disturbed float64
	// Idle reports whether the generator itself hardly ran. Something else then kept
	// it from sending, and has to recur more often to be taken for its limit.
	Idle bool
}

// Verdicts of a search.
const (
	Found     api.CapacityVerdict = "found"
	AtLeast   api.CapacityVerdict = "at least"
	Below     api.CapacityVerdict = "below"
	TooLittle api.CapacityVerdict = "too little data"
)

// Verdicts are all verdicts.
var Verdicts = []api.CapacityVerdict{Found, AtLeast, Below, TooLittle}

// Verdicts of a step, or of one of its conditions.
const (
	Kept    = "kept"
	Broken  = "broken"
	Unclear = "unclear"
)

func (o *Options) ensureDefaults() {
	set := func(v *float64, to float64) {
		if *v == 0 {
			*v = to
		}
	}
	set(&o.Precision, 0.03)
	set(&o.Level, 0.95)
	if o.Falling {
		set(&o.Start, o.Highest)
		set(&o.Factor, 4.0/3)
	}
	set(&o.Start, o.Lowest)
	set(&o.Factor, 2)
	if o.Unit == "" {
		o.Unit = "requests/s"
		if o.Falling {
			o.Unit = "servers"
		}
	}
	if o.Budget == 0 {
		o.Budget = 5 * time.Minute
	}
	if o.Step == 0 {
		o.Step = 20 * time.Second
	}
	if o.Discard == 0 {
		longest := 0.0
		for _, c := range o.Objective {
			if c.Measure != "errors" {
				longest = max(longest, c.Limit)
			}
		}
		o.Discard = min(max(time.Duration(20*longest*float64(time.Second)), time.Second), 3*time.Second)
	}
}

func (o *Options) check() error {
	switch {
	case len(o.Objective) == 0:
		return fmt.Errorf("no objective (hint: such as p99 < 200ms)")
	case !(o.Lowest > 0) || math.IsInf(o.Highest, 0) || !(o.Highest >= o.Lowest):
		return fmt.Errorf("bounds %v and %v of the search: the lowest is above 0 and the highest no less (hint: such as 10 and 2000)", o.Lowest, o.Highest)
	case o.Integer && (o.Lowest != math.Trunc(o.Lowest) || o.Highest != math.Trunc(o.Highest)):
		return fmt.Errorf("bounds %v and %v of the search: whole numbers are searched for", o.Lowest, o.Highest)
	case !(o.Start >= o.Lowest && o.Start <= o.Highest):
		return fmt.Errorf("start %v is not between %v and %v (hint: begin with one of these, or leave it out)", o.Start, o.Lowest, o.Highest)
	case !(o.Factor > 1):
		return fmt.Errorf("factor %v of the rise is not above 1", o.Factor)
	case !(o.Precision > 0 && o.Precision < 1):
		return fmt.Errorf("precision %v is not between 0 and 1 (hint: such as 3%%)", o.Precision)
	case !(o.Level > 0.5 && o.Level < 1):
		return fmt.Errorf("level %v of the interval is not between 0.5 and 1 (hint: such as 0.95)", o.Level)
	case o.Step <= o.Discard || o.Discard < 0:
		return fmt.Errorf("steps of %v, of which %v are discarded, leave nothing to measure (hint: longer steps, or discard less)", o.Step, o.Discard)
	case o.Budget < o.Step:
		return fmt.Errorf("a budget of %v is less than one step of %v (hint: search for longer, such as 2m, or with shorter steps)", o.Budget, o.Step)
	}
	return nil
}

// Search is the state of one search.
type Search struct {
	o        Options
	steps    []*Watch
	now      *Watch
	used     time.Duration
	lowest   float64 // bounds of load
	highest  float64
	invalid  string  // why no more than highest can be tried
	broke    float64 // the least load that broke at once or surely; +Inf if none
	kept     float64 // the most load that did not break; -Inf if none
	ended    bool
	doubt    *doubt
	vain     int // steps that did not count, since one did
	vainTook time.Duration
	busy     string     // why they did not, if that is where the search ended
	retried  *Watch     // the step that is tried again now
	past     *posterior // of what is done
}

// New begins a search. It returns an error that names what is wrong with the options.
func New(o Options) (*Search, error) {
	o.ensureDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &Search{o: o, broke: math.Inf(1), kept: math.Inf(-1)}
	s.lowest, s.highest = s.load(o.Lowest), s.load(o.Highest)
	if o.Falling {
		s.lowest, s.highest = s.highest, s.lowest
	}
	return s, nil
}

// load returns the logarithm of the load at x: on this scale searches for more rate
// and for fewer servers are the same.
func (s *Search) load(x float64) float64 {
	if s.o.Falling {
		return -math.Log(x)
	}
	return math.Log(x)
}

// x returns the setting of a load within bounds, whole if it must be and otherwise of
// four figures.
func (s *Search) x(load float64) float64 {
	load = min(max(load, s.lowest), s.highest)
	if s.o.Falling {
		load = -load
	}
	x := math.Exp(load)
	if s.o.Integer {
		x = math.Round(x)
	} else {
		unit := math.Pow(10, math.Floor(math.Log10(x))-3)
		x = math.Round(x/unit) * unit
	}
	return min(max(x, s.o.Lowest), s.o.Highest)
}

// Watch returns the Watch of the step that Next returned last.
func (s *Search) Watch() *Watch { return s.now }

// Done ends the step that Next returned last.
func (s *Search) Done(o Outcome) {
	w := s.now
	if w == nil {
		return
	}
	s.now = nil
	s.used += o.Took
	w.disturbed = o.Disturbed
	old := s.retried
	s.retried = nil
	if o.Invalid != "" {
		s.handleLost(w, o)
		return
	}
	w.again = old != nil
	s.steps = append(without(s.steps, old), w)
	s.handleCounted(w)
	s.broke, s.kept = math.Inf(1), math.Inf(-1)
	for _, w := range s.steps {
		if v := s.load(w.step.X); w.broken() {
			s.broke = min(s.broke, v)
		} else {
			s.kept = max(s.kept, v)
		}
	}
	s.past = s.judge()
}
