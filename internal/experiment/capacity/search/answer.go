package search

import (
	"fmt"
	"math"
	"time"

	"tailscope/api"
)

// bounds returns the ends of the interval in X. If X is whole they are numbers that
// are kept.
func (s *Search) bounds(p *posterior) (low, high float64) {
	tail := (1 - s.o.Level) / 2
	low, high = s.round(p.quantile(tail)), s.round(p.quantile(1-tail))
	if s.o.Falling {
		low, high = high, low
	}
	return low, high
}

// round returns the X of a load. If X is whole it is one that still keeps the
// objective.
func (s *Search) round(load float64) float64 {
	if !s.o.Integer {
		if s.o.Falling {
			load = -load
		}
		return math.Exp(load)
	}
	if s.o.Falling {
		return math.Ceil(math.Exp(-load) - 1e-9)
	}
	return math.Floor(math.Exp(load) + 1e-9)
}

// Verdict returns the verdict so far: one of Found, AtLeast, Below and TooLittle.
func (s *Search) Verdict() api.CapacityVerdict {
	if s.past == nil {
		return TooLittle
	}
	tail := (1 - s.o.Level) / 2
	switch {
	case s.past.below(s.lowest) > 1-tail:
		return Below
	case s.past.below(s.highest) < tail:
		return AtLeast
	case s.converged(), !s.o.Integer && s.half(s.past) <= 3*math.Log1p(s.o.Precision):
		return Found
	}
	return TooLittle
}

// Answer returns the answer so far, or nil before the first step has ended. It names
// only loads that were held or lie between such: an end of the interval or the value
// itself beyond them is left open. Rate is left to the caller.
func (s *Search) Answer() *api.CapacityAnswer {
	if s.past == nil {
		return nil
	}
	a := &api.CapacityAnswer{Value: api.Float(nan), Low: api.Float(nan), High: api.Float(nan), Rate: api.Float(nan), Level: api.Float(s.o.Level)}
	first := 0
	for i, p := range s.past.first {
		if p > s.past.first[first] {
			first = i
		}
	}
	untried := ""
	if s.invalid != "" {
		untried = "more could not be tried: " + s.invalid
	}
	switch s.Verdict() {
	case AtLeast:
		_, most := s.held(s.highest)
		x := s.x(most)
		a.Low = api.Float(x)
		if s.o.Falling {
			a.Low, a.High = api.Float(nan), api.Float(x)
		}
		a.Sentence = fmt.Sprintf("%s is kept at %s, as far as was tried", s.o.Objective, Amount(x, s.o.Unit))
		a.Next = untried
	case Below:
		least, _ := s.held(s.highest)
		x := s.x(least)
		a.High = api.Float(x)
		if s.o.Falling {
			a.Low, a.High = api.Float(x), api.Float(nan)
		}
		a.Limit = s.o.Objective[first].Text
		a.Sentence = fmt.Sprintf("%s is broken already at %s: %s is not kept", s.o.Objective, Amount(x, s.o.Unit), a.Limit)
		a.Next = "begin lower, or ask for less: nothing that was tried keeps it"
	default:
		e := s.estimate()
		a.Value, a.Low, a.High = api.Float(e.value), api.Float(e.low), api.Float(e.high)
		if e.beyond <= 0 {
			a.Limit = s.o.Objective[first].Text
		}
		a.Sentence = s.sentence(e)
		switch {
		case s.Trouble() != "":
			a.Next = s.Trouble()
		case e.above && untried != "":
			a.Next = untried
		case !s.converged():
			a.Next = s.wider(e) + s.more()
		}
	}
	return a
}

// longest is the longest additional time that a hint suggests.
const longest = 30 * time.Minute

// more says what would bring the answer to the asked precision.
func (s *Search) more() string {
	asked := fmt.Sprintf("an interval of ±%.3g %%", 100*s.o.Precision)
	if s.o.Integer {
		asked = "a certain answer"
	}
	if more := s.needs(); more <= longest {
		return fmt.Sprintf("for %s, give it about %v more", asked, more)
	}
	why := fmt.Sprintf("%s would take more than half an hour longer: ", asked)
	rare := false
	for _, c := range s.o.Objective {
		rare = rare || c.Measure == "errors" || c.Measure == "max" || c.Measure == "quantile" && c.Quantile > 0.95
	}
	if !s.o.Integer {
		why += fmt.Sprintf("ask for less, such as ±%.2g %%, or search only near the answer, from %s to %s", 100*min(max(2*s.o.Precision, s.half(s.past)/2), 0.5), Number(s.x(s.past.quantile(0.01))), Number(s.x(s.past.quantile(0.99))))
	} else {
		why += "search only between the numbers that are left"
	}
	if rare {
		why += "; a limit on a less rare figure (p90 in place of p99, more errors) needs fewer requests"
	}
	return why
}

// needs returns the time that is missing for the asked precision: an interval is half
// as wide after four times as long.
func (s *Search) needs() time.Duration {
	r := s.half(s.past) / math.Log1p(s.o.Precision)
	if s.o.Integer {
		r = 1.5
	}
	more := time.Duration(float64(s.used) * max(r*r-1, 0.25))
	return more.Round(10 * time.Second)
}
