package changes

import (
	"fmt"
	"testing"

	"tailscope/internal/compare"
)

// Points that are not clear enough go; where two of them follow each other, what a stricter search
// finds among them comes in their place.
func TestKeepClear(t *testing.T) {
	at := func(slot int, p float64) point { return point{at: slot, low: slot - 5, high: slot + 5, p: p} }
	for _, c := range []struct {
		name          string
		points, again []point
		want          string
		searches      int
	}{
		{"all are clear", []point{at(10, 1e-6), at(50, 1e-4)}, nil, "[10 50]", 0},
		{"one is not", []point{at(10, 1e-6), at(50, 0.03), at(90, 1e-6)}, []point{at(48, 1e-4)}, "[10 90]", 0},
		{"two steps of one rise", []point{at(10, 1e-6), at(50, 0.03), at(80, 0.04), at(120, 1e-6)}, []point{at(11, 1e-7), at(52, 1e-5), at(119, 1e-6)}, "[10 52 120]", 1},
		{"two that are nothing", []point{at(50, 0.03), at(80, 0.04)}, nil, "[]", 1},
		{"what is found elsewhere stays out", []point{at(50, 0.03), at(80, 0.04)}, []point{at(20, 1e-5)}, "[]", 1},
		{"two runs, one search", []point{at(20, 0.03), at(40, 0.02), at(60, 1e-6), at(80, 0.03), at(100, 0.04)}, []point{at(22, 1e-5), at(99, 1e-4)}, "[22 60 99]", 1},
	} {
		searches := 0
		kept, err := keepClear(c.points, 0.01, func() (searched, error) {
			searches++
			return searched{points: c.again}, nil
		})
		got := []int{}
		for _, x := range kept {
			got = append(got, x.at)
		}
		if err != nil || fmt.Sprint(got) != c.want || searches != c.searches {
			t.Errorf("%s: %v after %d searches, %v; want %s after %d", c.name, got, searches, err, c.want, c.searches)
		}
	}
}

// Stretches of errors of all end at errors of few tenants, where enough is left of them.
func TestApartFrom(t *testing.T) {
	few := []candidate{{ofFew: true, point: point{at: 100, low: 98, high: 102}}, {ofFew: true, point: point{at: 300, low: 298, high: 302}}}
	for _, c := range []struct {
		of            string
		before, after compare.Stretch
		want          string
	}{
		{Errors, compare.Stretch{From: 0, To: 400}, compare.Stretch{From: 410, To: 500}, "{302 400} {410 500}"},
		{Errors, compare.Stretch{From: 0, To: 310}, compare.Stretch{From: 320, To: 500}, "{102 310} {320 500}"},
		{Errors, compare.Stretch{From: 0, To: 40}, compare.Stretch{From: 50, To: 500}, "{0 40} {50 98}"},
		{Durations, compare.Stretch{From: 0, To: 400}, compare.Stretch{From: 410, To: 500}, "{0 400} {410 500}"},
	} {
		x := candidate{point: point{of: []string{c.of}}, before: c.before, after: c.after}
		x.apartFrom(few)
		if got := fmt.Sprint(x.before, " ", x.after); got != c.want {
			t.Errorf("%s of %v and %v: %s, want %s", c.of, c.before, c.after, got, c.want)
		}
	}
}
