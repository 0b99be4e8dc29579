package search_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/experiment/capacity/objective"
	"tailscope/internal/experiment/capacity/search"
	"tailscope/internal/experiment/capacity/virtual"
)

// searched returns a search of four workers that take 20 ms each, whose limit is 174
// requests/s; how says of a step at a time, in seconds, how the generator was, and
// whether the machine was so busy that everything took long.
func searched(t *testing.T, o search.Options, how func(at, x float64) (disturbed float64, slow bool), idle ...bool) (s *search.Search, lost, steps int) {
	t.Helper()
	o.Objective = parse(t, "p99 < 100ms and errors < 0.1%")
	s, err := search.New(o)
	if err != nil {
		t.Fatal(err)
	}
	clock := 0.0
	var slowed bool
	line := virtual.New(virtual.Server{Workers: 4, Service: func(*rand.Rand) float64 {
		if slowed {
			return 0.3
		}
		return 0.02
	}}, rand.New(rand.NewPCG(7, 1)))
	for step, more := s.Next(); more; step, more = s.Next() {
		if steps++; steps > 200 {
			t.Fatal("the search does not end")
		}
		w := s.Watch()
		took := line.Idle(step.Drain.Seconds())
		disturbed, slow := how(clock, step.X)
		slowed = slow
		took += line.Hold(step.X, step.For.Seconds(), 0.1, func(b objective.Batch) bool {
			w.Add(b)
			_, broken := w.Broken()
			return !broken && !w.Enough()
		})
		slowed = false
		out := search.Outcome{Took: time.Duration(took * 1e9), Disturbed: disturbed}
		// What looks kept on the way to the limit is, whatever the generator added.
		if _, broken := w.Broken(); disturbed >= 1 && (broken || step.Phase == "narrow" && w.Kept() != search.Kept) {
			out.Invalid, out.Idle = "the generator sent late", len(idle) > 0
			lost++
		}
		clock += took
		took += line.Idle(10)
		s.Done(out)
	}
	return s, lost, steps
}

// What a busy machine shows bounds nothing: it is tried again, or said.
func TestDisturbedMachine(t *testing.T) {
	calm := func(float64, float64) (float64, bool) { return 0, false }
	while := func(from, to, disturbed float64) func(at, x float64) (float64, bool) {
		return func(at, _ float64) (float64, bool) {
			if at >= from && at < to {
				return disturbed, true
			}
			return 0, false
		}
	}
	for _, c := range []struct {
		name  string
		how   func(at, x float64) (float64, bool)
		least float64 // that the interval may begin at
	}{
		{"calm", calm, 140},
		{"one step looked broken", while(9, 10.5, 0.8), 120},
		{"so did the ones after it", while(9, 12, 0.8), 40},
		{"one step did not count", while(9, 12, 2), 140},
		{"a later one did not count", while(35, 45, 2), 140},
		{"a moment at the lowest rate, the generator well", while(0, 0.1, 0), 140},
		{"late while all was kept", func(at, _ float64) (float64, bool) { return 30 / (at + 1), false }, 140},
	} {
		s, lost, steps := searched(t, search.Options{Lowest: 10, Highest: 20000, Budget: 2 * time.Minute}, c.how)
		a := s.Answer()
		t.Logf("%s: %d steps, %d lost, %s", c.name, steps, lost, a.Sentence)
		if low, high := float64(a.Low), float64(a.High); !(low < 174 && high > 174 && low > c.least && high < 260) {
			t.Errorf("%s: %s %s, %d steps of which %d were lost", c.name, a.Sentence, a.Next, steps, lost)
		}
	}
}

// That nothing is kept is looked at twice, and no more.
func TestNothingIsKept(t *testing.T) {
	s, _, steps := searched(t, search.Options{Lowest: 10, Highest: 20000, Budget: 2 * time.Minute}, func(float64, float64) (float64, bool) { return 0, true })
	if s.Verdict() != search.Below || steps != 2 {
		t.Errorf("%s after %d steps: %+v", s.Verdict(), steps, s.Answer())
	}
}

// A machine that stays busy ends the search before its time.
func TestBusyMachine(t *testing.T) {
	for _, from := range []float64{0, 5, 30} {
		s, lost, steps := searched(t, search.Options{Lowest: 10, Highest: 20000, Budget: 5 * time.Minute}, func(at, _ float64) (float64, bool) { return 3, at >= from })
		a := s.Answer()
		next := s.Trouble()
		if a != nil && a.Next != next {
			t.Errorf("from %v s on: it says %q", from, a.Next)
		}
		if s.Verdict() != search.TooLittle || lost < 3 || lost > 20 || !strings.Contains(next, "busy with something else") || !strings.Contains(next, "the generator sent late") {
			t.Errorf("from %v s on: %s after %d steps, %d of them lost: %q %+v", from, s.Verdict(), steps, lost, next, a)
		}
	}
}

// A generator that is later the more it sends is the limit.
func TestGeneratorIsTheLimit(t *testing.T) {
	s, lost, steps := searched(t, search.Options{Lowest: 10, Highest: 20000, Budget: 2 * time.Minute}, func(_, x float64) (float64, bool) { return x / 100, x >= 100 })
	a := s.Answer()
	if s.Verdict() != search.AtLeast || !(a.Low >= 80 && a.Low < 100) || !strings.Contains(a.Next, "could not be tried: the generator sent late") {
		t.Errorf("%s after %d steps, %d of them lost: %+v", s.Verdict(), steps, lost, a)
	}
}

// A generator that hardly runs is not the limit because it was late twice at one
// load, but is if it stays so.
func TestIdleGenerator(t *testing.T) {
	for _, c := range []struct {
		late    int // so many times from 60 requests/s on
		verdict api.CapacityVerdict
	}{{2, search.Found}, {3, search.Found}, {1000, search.AtLeast}} {
		left := c.late
		s, lost, steps := searched(t, search.Options{Lowest: 10, Highest: 20000, Budget: 3 * time.Minute, Precision: 0.2}, func(_, x float64) (float64, bool) {
			if x < 60 || left == 0 {
				return 0, false
			}
			left--
			return 8, true
		}, true)
		a := s.Answer()
		if s.Verdict() != c.verdict || lost > 30 {
			t.Errorf("late %d times: %s after %d steps, %d of them lost: %+v", c.late, s.Verdict(), steps, lost, a)
		}
		if c.verdict == search.Found && !(a.Low < 174 && a.High > 174) {
			t.Errorf("late %d times: %s", c.late, a.Sentence)
		}
	}
}

// What would take hours is not recommended.
func TestWhatElseHelps(t *testing.T) {
	s, _, _ := searched(t, search.Options{Lowest: 10, Highest: 20000, Budget: 30 * time.Second, Precision: 0.001}, func(float64, float64) (float64, bool) { return 0, false })
	if next := s.Answer().Next; !strings.Contains(next, "ask for less") || !strings.Contains(next, "p90 in place of p99") || strings.Contains(next, "give it about") {
		t.Errorf("it says %q", next)
	}
}
