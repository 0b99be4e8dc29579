package stat

import (
	"math"
	"math/rand/v2"
	"testing"
)

// jumps draws a series of log-normal slots whose median shifts by what shift
// says.
func jumps(r *rand.Rand, slots, n int, phi float64, shift func(t int) float64) *Series {
	m := medians(r, slots, phi, 0.15)
	for t := range m {
		m[t] += shift(t)
	}
	return sideAround(r, m, n, 0)
}

func TestChangeOfTheMedian(t *testing.T) {
	s := jumps(source(1), 360, 100, 0.3, func(t int) float64 {
		if t >= 200 {
			return math.Log(1.3)
		}
		return 0
	})
	got, err := ChangePoints(s, ChangeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Low > 200 || got[0].High < 200 || got[0].P > 0.01 {
		t.Errorf("%+v, want a change at 200", got)
	}
}
