package stat

import (
	"testing"
)

// Few requests a slot do not make false findings: slots are taken
// together until they say enough, and a change is still found among them.
func TestChangePointsOfFewRequests(t *testing.T) {
	const trials = 60
	for _, each := range []int{2, 7} {
		alarms := 0
		for i := range trials {
			p, err := ChangePoints(jumps(source(uint64(i)), 540, each, 0.3, within(0, 0, 1)), ChangeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if len(p) > 0 {
				alarms++
			}
		}
		if alarms > 8 { // 1 in 150 at 5 %; without, 14 % of them alarm
			t.Errorf("%d requests a slot: %d of %d series without a change show one", each, alarms, trials)
		}
	}
	const at = 300
	p, err := ChangePoints(jumps(source(1), 540, 7, 0.3, within(at, 540, 2)), ChangeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(p) != 1 || p[0].Low > at || p[0].High < at || p[0].High-p[0].Low > 40 {
		t.Errorf("%+v, want a change at %d", p, at)
	}
}

// Slots that are taken together have the distribution of all of them.
func TestGrouped(t *testing.T) {
	s := jumps(source(3), 100, 5, 0.3, within(40, 60, 3))
	g := s.grouped(7)
	if g.Slots() != 15 || g.Count() != s.Count() {
		t.Fatalf("%d slots of %v, want 15 of %v", g.Slots(), g.Count(), s.Count())
	}
	for _, p := range seen {
		if a, b := s.quantile(p), g.quantile(p); a != b {
			t.Errorf("quantile %v is %v, was %v", p, b, a)
		}
	}
	for i := range g.Slots() {
		n := 0.0
		for t := 7 * i; t < min(7*i+7, s.Slots()); t++ {
			n += s.count(t)
		}
		if g.count(i) != n {
			t.Errorf("group %d has %v, want %v", i, g.count(i), n)
		}
	}
}
