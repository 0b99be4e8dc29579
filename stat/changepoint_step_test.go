package stat

import (
	"fmt"
	"math"
	"testing"
)

// missed is by how many of the series no change is found within three slots of
// at.
func missed(t *testing.T, seeds, at int, draw func(seed uint64) *Series) (missed int) {
	t.Helper()
	for seed := range uint64(seeds) {
		found, err := ChangePoints(draw(seed), ChangeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ok := false
		for _, p := range found {
			ok = ok || math.Abs(float64(p.At-at)) <= 3
		}
		if !ok {
			missed++
		}
	}
	return missed
}

// drawn is a series whose slots have medians that persist with phi and vary by
// sd, shifted by what shift says.
func drawn(seed uint64, slots, n int, phi, sd float64, shift func(t int) float64) *Series {
	r := source(seed)
	m := medians(r, slots, phi, sd)
	for t := range m {
		m[t] += shift(t)
	}
	return sideAround(r, m, n, 0)
}

// A step of a hundred times is found wherever it is, however much slots vary
// and for however long.
func TestChangePointsFindAGreatStep(t *testing.T) {
	all, without := 0, 0
	for _, slots := range []int{60, 120, 300} {
		for _, phi := range []float64{0, 0.6, 0.9} {
			for _, sd := range []float64{0.15, 0.5, 1} {
				for i, share := range []float64{0.1, 0.25, 0.75, 0.9} {
					at := min(slots-defaultLeast, max(defaultLeast, int(share*float64(slots))))
					shift := within(at, slots, 100)
					if i%2 == 1 {
						shift = within(0, at, 100)
					}
					all++
					without += missed(t, 1, at, func(uint64) *Series { return drawn(uint64(500+all), slots, 60, phi, sd, shift) })
				}
			}
		}
	}
	if without > 2 {
		t.Errorf("a step of a hundred times was missed in %d of %d series", without, all)
	}
}

// While a program starts everything waits: the first 22 slots take seconds, more
// and more, what follows a millisecond, whatever range is asked for.
func TestChangePointsFindTheStart(t *testing.T) {
	for _, after := range []int{20, 40, 64, 130, 300} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			const before, seeds = 22, 8
			n := missed(t, seeds, before, func(seed uint64) *Series {
				return drawn(11+seed, before+after, 100, 0.9, 1.15, func(t int) float64 {
					if t < before {
						return 2 + float64(t)/10
					}
					return -3
				})
			})
			if n > 1 {
				t.Errorf("missed in %d of %d series", n, seeds)
			}
		})
	}
}

// One to three slots far out, twice, are not a change.
func TestChangePointsPassOverLoneSlots(t *testing.T) {
	const trials = 12
	for _, phi := range []float64{0, 0.6, 0.9} {
		alarms := 0
		for long := 1; long <= 3; long++ {
			for seed := range uint64(trials) {
				r := source(900 + seed)
				a, b := r.IntN(150), r.IntN(150)
				got, err := ChangePoints(jumps(r, 160, 60, phi, func(t int) float64 {
					return max(within(a, a+long, 20)(t), within(b, b+long, 20)(t))
				}), ChangeOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if len(got) > 0 {
					alarms++
				}
			}
		}
		if alarms > 6 { // 1 in 500 at a rate of 6 %
			t.Errorf("correlation %v: %d of %d series show a change", phi, alarms, 3*trials)
		}
	}
}
