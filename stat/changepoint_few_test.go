package stat

import (
	"fmt"
	"tailscope/internal/trials"
	"testing"
)

// Few errors, and few slow requests, are a change as soon as they are sure: of the slots after
// it, ten seconds each, there are as few as soon says. Without a change hardly any is found.
func TestChangesOfFewEvents(t *testing.T) {
	trials := trials.Of(20)
	const before = 1200
	for _, c := range []struct {
		of        string
		each      float64 // requests a slot
		low, high float64 // shares of errors, or how many times as slow
		soon      int
	}{
		{"errors", 10, 0.01, 0.1, 30},
		{"errors", 2, 0, 1, 6},
		{"errors", 2, 0, 0.3, 18},
		{"errors", 0.5, 0.01, 0.5, 60},
		{"durations", 2, 1, 5, 15},
		{"durations", 6, 1, 2, 24},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			alarms, found := 0, 0
			for i := range trials {
				points := func(slots int, high float64) []ChangePoint {
					r := source(uint64(8000 + i))
					var p []ChangePoint
					var err error
					if c.of == "durations" {
						p, err = ChangePoints(jumps(r, slots, int(c.each), 0.3, within(before, slots, high)), ChangeOptions{})
					} else {
						p, err = ChangePointsOfTally(drawTally(r, ShareTally, slots, c.each, 0.5, 0.1, steps(before, c.low, high)), ShareTally, ChangeOptions{})
					}
					if err != nil {
						t.Fatal(err)
					}
					return p
				}
				if len(points(before+240, c.low)) > 0 {
					alarms++
				}
				if p := points(before+c.soon, c.high); len(p) > 0 && p[len(p)-1].P < 1e-3 && p[len(p)-1].Low-12 <= before && before <= p[len(p)-1].High+12 {
					found++
				}
			}
			t.Logf("%d trials: %d alarms without a change, found within %d slots in %d", trials, alarms, c.soon, found)
			if alarms > max(1, trials/10) || float64(found) < 0.9*float64(trials) {
				t.Errorf("%d trials: %d alarms without a change, found within %d slots in %d", trials, alarms, c.soon, found)
			}
		})
	}
}

// A stretch that is over is bounded by two changes once its end is sure, and has one before.
func TestFewEventsThatEnd(t *testing.T) {
	const from, to = 1000, 1040
	tally := func(slots int) Tally {
		return drawTally(source(5), ShareTally, slots, 10, 0, 0, func(t int) float64 {
			if from <= t && t < to {
				return 0.3
			}
			return 0.01
		})
	}
	for _, c := range []struct{ slots, points int }{{from, 0}, {to - 20, 1}, {to, 1}, {to + 60, 2}} {
		p, err := ChangePointsOfTally(tally(c.slots), ShareTally, ChangeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(p) != c.points {
			t.Errorf("%d slots: %+v, want %d changes", c.slots, p, c.points)
		}
	}
}
