package stat

import (
	"math"
	"math/rand/v2"
	"testing"
)

// holed is jumps without what lies in the slots from up to to.
func holed(r *rand.Rand, slots, from, to int, phi float64, shift func(int) float64) *Series {
	whole := jumps(r, slots, 30, phi, shift)
	s := *whole
	s.counts, s.total, s.occupied = make([]float64, len(s.counts)), 0, 0
	s.cum = nil
	s.begin(slots)
	for t := range slots {
		var counts []float64
		if t < from || t >= to {
			counts = append(counts, whole.cum[whole.start[t]:whole.start[t+1]]...)
			for i := len(counts) - 1; i > 0; i-- {
				counts[i] -= counts[i-1]
			}
		}
		add(&s, whole.first[t], counts, 0)
	}
	return s.finish()
}

// Time without requests is not a change, nor does it make one of what follows.
func TestChangePointsBesideAHole(t *testing.T) {
	const trials = 30
	none := within(0, 0, 1)
	for _, hole := range [][3]int{{560, 0, 360}, {400, 80, 280}} {
		alarms := 0
		for i := range trials {
			p, err := ChangePoints(holed(source(uint64(i)), hole[0], hole[1], hole[2], 0.3, none), ChangeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if len(p) > 0 {
				alarms++
			}
		}
		if alarms > 6 { // 1 in 300 at 6 %
			t.Errorf("nothing in slots %d to %d: %d of %d series without a change show one", hole[1], hole[2], alarms, trials)
		}
	}
	// A change within the hole lies anywhere in it, one after it where it is, to
	// two slots that are taken as one.
	for _, at := range []int{200, 340} {
		s := holed(source(1), 400, 80, 280, 0, within(at, 400, 2))
		p, err := ChangePoints(s, ChangeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(p) != 1 || p[0].Low > at || p[0].High < at || s.count(p[0].At) == 0 || at == 200 && (p[0].Low < 79 || p[0].Low > 80 || p[0].At != 280) {
			t.Errorf("%+v, want a change at %d", p, at)
		}
	}
}

func TestChangePointsOfNumbersBesideAHole(t *testing.T) {
	alarms := 0
	for i := range 60 {
		r := source(uint64(i))
		rows := make([][]float64, 300)
		for k := range rows {
			rows[k] = []float64{r.NormFloat64()}
			if k < 200 {
				rows[k][0] = math.NaN()
			} else if i == 0 && k >= 250 {
				rows[k][0] += 4
			}
		}
		p, err := ChangePointsOf(rows, ChangeOptions{})
		switch {
		case err != nil:
			t.Fatal(err)
		case i == 0 && (len(p) != 1 || p[0].At != 250 || p[0].After-p[0].Before < 3):
			t.Errorf("%+v, want a change at 250", p)
		case i > 0 && len(p) > 0:
			alarms++
		}
	}
	if alarms > 9 {
		t.Errorf("%d of 59 sequences without a change show one", alarms)
	}
}
