package stat

import (
	"fmt"
	"math"
	"math/rand/v2"
	"tailscope/internal/trials"
	"testing"
)

// numbers draws rows of one column: exp(shift + noise), whose noise persists by phi and
// has a standard deviation sd, above a random walk of steps of wander.
func numbers(r *rand.Rand, n int, phi, sd, wander float64, shift func(t int) float64) [][]float64 {
	m := medians(r, n, phi, sd)
	rows := make([][]float64, n)
	walk := 0.0
	for t := range rows {
		walk += wander * r.NormFloat64()
		rows[t] = []float64{100 * math.Exp(m[t]+walk+shift(t))}
	}
	return rows
}

// A step is found amid drift, by the noise beside it: 12 % down and 18 % up where the
// level wanders by as much as the steps.
func TestChangePointsAmidDrift(t *testing.T) {
	trials := trials.Of(20)
	const n = 300
	steps := func(t int) float64 { return within(100, n, 0.88)(t) + within(220, n, 1.18)(t) }
	both, more := 0, 0
	for i := range trials {
		found, err := ChangePointsOf(numbers(source(uint64(6000+i)), n, 0, 0.02, 0.01, steps), ChangeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		right := 0
		for _, p := range found {
			if math.Abs(float64(p.At-100)) <= 3 && p.After < p.Before || math.Abs(float64(p.At-220)) <= 3 && p.After > p.Before {
				right++
			}
		}
		if right == 2 {
			both++
		}
		more += len(found) - right
	}
	t.Logf("%d trials: both steps in %d, %d others", trials, both, more)
	if float64(both) < 0.7*float64(trials) || float64(more) > 0.5*float64(trials) {
		t.Errorf("%d trials: both steps in %d, %d others", trials, both, more)
	}
}

// Numbers that persist, drift, climb or bend have no steps. What bends has a kink, where it
// does, and the others have none.
func TestChangePointsOfNumbersWithoutAStep(t *testing.T) {
	trials := trials.Of(40)
	const n = 360
	none := func(int) float64 { return 0 }
	for _, c := range []struct {
		name            string
		phi, sd, wander float64
		shift           func(t int) float64
		most            float64 // share of series with a step
	}{
		{"independent", 0, 0.15, 0, none, 0.05},
		{"correlation 0.3", 0.3, 0.15, 0, none, 0.05},
		{"correlation 0.6", 0.6, 0.15, 0, none, 0.05},
		{"correlation 0.9", 0.9, 0.15, 0, none, 0.05},
		{"drift", 0, 0.05, 0.02, none, 0.05},
		{"a climb to twice", 0.3, 0.05, 0, func(t int) float64 { return math.Ln2 * float64(t) / n }, 0.05},
		{"a bend", 0.3, 0.05, 0, func(t int) float64 { return max(0, float64(t-180)) / 180 }, 0.25},
	} {
		steps, kinks, kinked, right := 0, 0, 0, 0
		for i := range trials {
			found, err := ChangePointsOf(numbers(source(uint64(7000+i)), n, c.phi, c.sd, c.wander, c.shift), ChangeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			step, kink := 0, 0
			for _, p := range found {
				if !p.Kink {
					step = 1
					continue
				}
				kink, kinks = 1, kinks+1
				if p.Low-5 <= 180 && 180 <= p.High+5 {
					right++
				}
			}
			steps, kinked = steps+step, kinked+kink
		}
		said := fmt.Sprintf("%s: %d series, a step in %d, %d kinks in %d, %d of them about slot 180", c.name, trials, steps, kinks, kinked, right)
		t.Log(said)
		if c.name == "a bend" {
			if float64(right) < 0.9*float64(trials) || float64(kinks-right) > 0.2*float64(trials) {
				t.Error(said)
			}
		} else if float64(kinked) > 0.05*float64(trials)+2.5*math.Sqrt(0.05*float64(trials)) {
			t.Error(said)
		}
		if float64(steps) > c.most*float64(trials)+2.5*math.Sqrt(c.most*float64(trials)) {
			t.Error(said)
		}
	}
}
