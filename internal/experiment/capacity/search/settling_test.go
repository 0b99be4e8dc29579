package search

import (
	"testing"
	"time"

	"tailscope/internal/experiment/capacity/objective"
)

// The time until a load has arrived is not part of the step.
func TestSettlingTime(t *testing.T) {
	o, err := objective.Parse("p99 < 100ms")
	if err != nil {
		t.Fatal(err)
	}
	first := func(settlingTime time.Duration) Step {
		s, err := New(Options{Objective: o, Lowest: 1, Highest: 8, SettlingTime: settlingTime})
		if err != nil {
			t.Fatal(err)
		}
		step, _ := s.Next()
		return step
	}
	a, b := first(0), first(2*time.Second)
	if b.Discard != a.Discard+2*time.Second || b.For != a.For+2*time.Second || a.For <= a.Discard {
		t.Errorf("a step of %v, %v of it discarded; with a load that takes 2 s, of %v, %v", a.For, a.Discard, b.For, b.Discard)
	}
}
