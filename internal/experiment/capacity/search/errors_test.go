package search_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"tailscope/internal/experiment/capacity/objective"
	"tailscope/internal/experiment/capacity/search"
)

// Where no request fails, errors are known to be few as soon as requests are many, and
// what is not known of them does not hold a step back.
func TestErrorsThatNeverCame(t *testing.T) {
	for _, c := range []struct {
		a, b   int // requests in 0.1 s, in turn
		failed int // of the last batch
		most   float64
		kept   string
	}{
		{1, 0, 0, 0.12, search.Unclear},  // 75 requests: none would be expected to fail
		{6, 7, 0, 0.012, search.Unclear}, // too few for the latency
		{20, 20, 0, 0.004, search.Kept},
		{100, 100, 0, 0.00099, search.Kept}, // as its interval says
		{20, 20, 40, 0.2, search.Broken},    // 1.3 % of them, where 0.1 % may
	} {
		s, err := search.New(search.Options{Objective: parse(t, "p99 < 100ms and errors < 0.1%"), Lowest: 1000, Highest: 9000, Factor: 1.01})
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		var w *search.Watch
		for step := range 6 { // of which the first ones tell how requests clump
			s.Next()
			w = s.Watch()
			for k := range 155 {
				n := c.a
				if k%2 == 1 {
					n = c.b
				}
				b := answered(k, n, 0, 1)
				for range n / 2 { // as many again, two to four times as long
					_ = b.Ended[objective.Part{}].Latency.Record(0.02 + 0.02*rng.Float64())
				}
				if c.failed > 0 && k%20 == 0 && step == 5 {
					e := b.Ended[objective.Part{}]
					e.Errors = uint64(c.failed / 8)
					b.Ended[objective.Part{}] = e
				}
				w.Add(b)
			}
			if step < 5 {
				s.Done(search.Outcome{Took: 2 * time.Second})
			}
		}
		errors := w.Objectives()[1]
		if float64(errors.High) > c.most || c.kept != w.Kept() || c.failed == 0 && errors.Low != 0 {
			t.Errorf("%d requests, %d failed: %s, errors %+v", (c.a+c.b)*77, c.failed, w.Kept(), errors)
		}
	}
}

// A step of the rise lasts until it has seen something, however long its load takes to
// be there.
func TestRiseSeesEnough(t *testing.T) {
	for _, settlingTime := range []time.Duration{0, 2 * time.Second} {
		for _, n := range []int{1, 5, 50} {
			s, err := search.New(search.Options{Objective: parse(t, "p99 < 100ms"), Lowest: 10, Highest: 2000, SettlingTime: settlingTime})
			if err != nil {
				t.Fatal(err)
			}
			step, _ := s.Next()
			w := s.Watch()
			seen, took := 0, time.Duration(0)
			for k := 0; !w.Enough(); k++ {
				b := answered(k, n, 0, 1)
				if took = b.At; took > step.Discard {
					seen += n
				}
				w.Add(b)
			}
			if measured := took - step.Discard; seen < 100 && took < step.For || measured < 800*time.Millisecond || took > step.For {
				t.Errorf("%d/s: %d requests in %v that are measured, of %+v", 10*n, seen, measured, step)
			}
		}
	}
}
