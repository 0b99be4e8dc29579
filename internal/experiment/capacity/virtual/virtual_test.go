package virtual

import (
	"context"
	"math"
	"testing"
	"time"

	"tailscope/internal/experiment/capacity/search"
)

// The truths of the calibration, by other random numbers than they were found with.
// A million requests know the rate at which these break to about 1 %.
func TestTruths(t *testing.T) {
	for _, s := range Shapes() {
		if s.Name == "limiter" || s.Name == "slowing" {
			continue // many workers: slow; looked at by the benchmark
		}
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			below, err := s.Levels(0.96*s.Truth, 300_000, 7)
			if err != nil {
				t.Fatal(err)
			}
			above, err := s.Levels(1.04*s.Truth, 300_000, 7)
			if err != nil {
				t.Fatal(err)
			}
			broken := false
			for i := range below {
				if below[i] > 0 {
					t.Errorf("condition %d is broken at 0.96 of the truth, by %.2f", i, below[i])
				}
				broken = broken || above[i] > 0
			}
			if !broken {
				t.Errorf("nothing is broken at 1.04 of the truth: %.2f", above)
			}
		})
	}
}

// An M/M/1 of rates λ and μ has exponential times of response with the rate μ−λ.
func TestFindsClosedForm(t *testing.T) {
	s := Shape{Server{Name: "M/M/1", Workers: 1, Service: exponential(0.01)}, "p90 < 50ms", 0, false}
	want := 100 - math.Log(10)/0.05
	got, err := s.Find(30, 90, 1_000_000, 3)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(got/want-1) > 0.02 {
		t.Errorf("p90 breaks at %.2f requests/s, want %.2f", got, want)
	}
}

// Every shape three times; hundreds of times by the benchmark. With these seeds the
// outcome is the same each time.
func TestSearchesFindTheTruth(t *testing.T) {
	const each = 3
	covered, within, all := 0, 0, 0
	for _, s := range Shapes() {
		sum, err := Calibrate(context.Background(), each, s.Truth, func(seed uint64) (Trial, error) {
			return Try(s, search.Options{Lowest: 50, Highest: 10000, Budget: 4 * time.Minute}, seed)
		})
		if err != nil {
			t.Fatal(err)
		}
		if sum.Error > 4 || sum.Covered < each-1 {
			t.Errorf("%s: median error %.1f %%, %d of %d intervals hold the truth", s.Name, sum.Error, sum.Covered, each)
		}
		covered, within, all = covered+sum.Covered, within+sum.Within, all+each
	}
	t.Logf("%d of %d intervals hold the truth, %d answers within 3 %%", covered, all, within)
	if covered*10 < all*9 || within*100 < all*85 {
		t.Errorf("%d of %d intervals hold the truth, %d answers are within 3 %%", covered, all, within)
	}
}

func TestPoolsAreShrunk(t *testing.T) {
	for _, p := range Pools() {
		for seed := range uint64(4) {
			got, err := TryPool(p, search.Options{Lowest: 1, Highest: 11}, seed)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %+v", p.Name, got)
			if got.Verdict != search.Found || got.Value != float64(p.Truth) || !got.Covers(float64(p.Truth)) {
				t.Errorf("%s, seed %d: %+v, want %d servers", p.Name, seed, got, p.Truth)
			}
		}
	}
}

// A slow server has few requests to show: the interval of a short search holds the
// truth, and is no wider than it must be.
func TestSlowServersInLittleTime(t *testing.T) {
	// That of the calibration, at half the rate.
	shape := Shape{Server{Name: "M/D/4, slow", Workers: 4, Service: fixed(0.020)}, "p99 < 100ms and errors < 0.1%", 347.9 / 2, false}
	for _, c := range []struct {
		budget time.Duration
		half   float64 // percent of the truth, median at most
	}{
		{20 * time.Second, 75},
		{40 * time.Second, 35},
		{90 * time.Second, 20},
	} {
		const each = 9
		sum, err := Calibrate(context.Background(), each, shape.Truth, func(seed uint64) (Trial, error) {
			return Try(shape, search.Options{Lowest: 10, Highest: 20000, Budget: c.budget}, seed)
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%v: %+v", c.budget, sum)
		if sum.Covered < each-1 || sum.Half > c.half {
			t.Errorf("in %v %d of %d intervals hold the truth, half as wide as %.0f %% of it", c.budget, sum.Covered, each, sum.Half)
		}
	}
}
