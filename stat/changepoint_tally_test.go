package stat

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"tailscope/internal/trials"
	"testing"
)

// drawTally draws a tally of so many slots of about each observations: counts of them, or
// the share of them that shift says. Slots vary by sd and persist by phi.
func drawTally(r *rand.Rand, kind TallyKind, slots int, each, phi, sd float64, level func(t int) float64) Tally {
	wander := medians(r, slots, phi, sd)
	out := Tally{Num: make([]float64, slots), Den: make([]float64, slots)}
	for i := range out.Num {
		at := level(i) * math.Exp(wander[i])
		if kind == CountTally {
			out.Num[i], out.Den[i] = float64(trials.Poisson(r, each*at)), 10
			continue
		}
		out.Den[i] = float64(trials.Poisson(r, each))
		for range int(out.Den[i]) {
			if r.Float64() < at {
				out.Num[i]++
			}
		}
	}
	return out
}

func steps(at int, before, after float64) func(int) float64 {
	return func(t int) float64 {
		if t < at {
			return before
		}
		return after
	}
}

// Errors that rise from 1 to 3 % and load that rises by half are found within five
// slots, and hardly anything where nothing changes.
func TestChangePointsOfTally(t *testing.T) {
	trials := trials.Of(40)
	const slots, at = 360, 200
	for _, c := range []struct {
		kind          TallyKind
		each, phi, sd float64
		before, after float64
		found         float64 // share of the trials, at least
	}{
		{ShareTally, 100, 0.5, 0.1, 0.01, 0.03, 0.9},
		{ShareTally, 400, 0.5, 0.1, 0.01, 0.03, 0.95},
		{ShareTally, 100, 0, 0.1, 0.001, 0.02, 0.95},
		{CountTally, 100, 0, 0.1, 1, 1.5, 0.95},
		{CountTally, 100, 0.5, 0.1, 1, 1.5, 0.95},
		{CountTally, 20, 0.3, 0.1, 1, 1.5, 0.9},
		{CountTally, 100, 0.9, 0.1, 1, 1.5, 0.5},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			alarms, found, covered := 0, 0, 0
			for i := range trials {
				r := source(uint64(4000 + i))
				points := func(level func(int) float64) []ChangePoint {
					p, err := ChangePointsOfTally(drawTally(r, c.kind, slots, c.each, c.phi, c.sd, level), c.kind, ChangeOptions{})
					if err != nil {
						t.Fatal(err)
					}
					return p
				}
				if len(points(steps(0, 0, c.before))) > 0 {
					alarms++
				}
				for _, p := range points(steps(at, c.before, c.after)) {
					if math.Abs(float64(p.At-at)) <= 5 {
						found++
						if p.Low <= at && at <= p.High && (p.After > p.Before) == (c.after > c.before) {
							covered++
						}
					}
				}
			}
			t.Logf("%d trials: %d alarms without a change, found in %d, %d intervals hold the moment", trials, alarms, found, covered)
			if float64(alarms) > 0.05*float64(trials)+2.5*math.Sqrt(0.05*float64(trials)) || float64(found) < c.found*float64(trials) || float64(covered) < 0.85*float64(found) {
				t.Errorf("%d trials: %d alarms without a change, found in %d, %d intervals hold the moment", trials, alarms, found, covered)
			}
		})
	}
}

func TestChangePointsOfTallyRefuse(t *testing.T) {
	for _, bad := range []Tally{{Num: []float64{1}}, {Num: []float64{1}, Den: []float64{-1}}, {Num: []float64{math.NaN()}, Den: []float64{1}}, {Num: []float64{1}, Den: []float64{math.Inf(1)}}} {
		if _, err := ChangePointsOfTally(bad, ValueTally, ChangeOptions{}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%v: %v, want it refused", bad, err)
		}
	}
	for _, n := range []int{0, 19, 60} {
		even := Tally{Num: make([]float64, n), Den: make([]float64, n)}
		for i := range even.Den {
			even.Num[i], even.Den[i] = 5, 10
		}
		if got, err := ChangePointsOfTally(even, CountTally, ChangeOptions{}); err != nil || len(got) > 0 {
			t.Errorf("%d slots alike: %v, %v", n, got, err)
		}
	}
}

// A ratio that is the same in every slot, but for how floats are rounded, has no change.
func TestChangePointsOfConstantTallies(t *testing.T) {
	for _, kind := range []TallyKind{ShareTally, CountTally, ValueTally} {
		for _, slots := range []int{60, 178, 360} {
			for _, value := range []float64{0, 0.03, 1, 9.3} {
				tally := Tally{Num: make([]float64, slots), Den: make([]float64, slots)}
				for i := range slots {
					tally.Den[i] = 10
					for range 10 + i%7 { // sums of more and fewer
						tally.Num[i] += 10 * value / float64(10+i%7)
					}
				}
				if p, err := ChangePointsOfTally(tally, kind, ChangeOptions{}); err != nil || len(p) > 0 {
					t.Errorf("kind %d, %d slots of %v: %v, %v", kind, slots, value, p, err)
				}
			}
		}
	}
}
