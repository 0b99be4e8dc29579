package search_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"tailscope/internal/experiment/capacity/objective"
	"tailscope/internal/experiment/capacity/search"
)

// Whatever is seen, and wherever the search is ended, the answer names only loads that
// were held, or lie between such.
func TestAnswersLieBetweenWhatWasHeld(t *testing.T) {
	open := map[bool]int{}
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 6))
		o := search.Options{Objective: parse(t, "p99 < 100ms"), Lowest: 10, Highest: 1000, Budget: 25 * time.Second, Falling: seed%2 == 1, Integer: seed%4 > 1}
		if o.Falling {
			o.Lowest, o.Highest = 1, 4
		}
		s, err := search.New(o)
		if err != nil {
			t.Fatal(err)
		}
		least, most := math.Inf(1), math.Inf(-1)
		slow := 1 + rng.IntN(60)
		for step, more := s.Next(); more; step, more = s.Next() {
			w := s.Watch()
			k := 0
			for ; time.Duration(k)*100*time.Millisecond < step.For; k++ {
				n := rng.IntN(50)
				w.Add(answered(k, n, rng.IntN(n+1)/slow, 0.3))
				if _, broken := w.Broken(); broken || w.Enough() {
					break
				}
			}
			s.Done(search.Outcome{Took: time.Duration(k+1) * 100 * time.Millisecond})
			least, most = min(least, step.X), max(most, step.X)
			a := s.Answer()
			for name, v := range map[string]float64{"value": float64(a.Value), "low": float64(a.Low), "high": float64(a.High)} {
				open[math.IsNaN(v)]++
				if v < least || v > most {
					t.Fatalf("seed %d: %s %v of what was held from %v to %v: %s", seed, name, v, least, most, a.Sentence)
				}
			}
			if a.Low > a.Value || a.Value > a.High || strings.Contains(a.Sentence, "NaN") {
				t.Fatalf("seed %d: %+v", seed, a)
			}
		}
	}
	if open[true] < 20 || open[false] < 20 {
		t.Errorf("%v ends were open", open)
	}
}

// Searches that were ended before anything broke, and one whose interval goes beyond
// the bounds, in words.
func TestSentencesOfOpenIntervals(t *testing.T) {
	for _, c := range []struct {
		name      string
		o         search.Options
		steps     int
		slow      func(x float64, k int) int // of 50
		want      string
		low, high float64
	}{
		{"a pool whose command fails after the second step", search.Options{Lowest: 1, Highest: 11, Falling: true, Integer: true}, 2,
			func(float64, int) int { return 0 }, "p99 < 100ms takes no more than 9 servers (95 % interval); fewer than 8 were not held", math.NaN(), 9},
		{"a rise that is ended", search.Options{Lowest: 500, Highest: 8000}, 2,
			func(float64, int) int { return 0 }, "p99 < 100ms is kept up to at least 702 requests/s (95 % interval); more than 1000 was not held", 702, math.NaN()},
		{"one step that says little", search.Options{Lowest: 500, Highest: 8000}, 1,
			func(_ float64, k int) int { return (k + 1) % 2 }, "it is not certain whether p99 < 100ms is kept at 500 requests/s, and ", math.NaN(), math.NaN()},
	} {
		c.o.Objective = parse(t, "p99 < 100ms")
		s, err := search.New(c.o)
		if err != nil {
			t.Fatal(err)
		}
		for range c.steps {
			step, _ := s.Next()
			w := s.Watch()
			for k := range 20 {
				w.Add(answered(k, 50, c.slow(step.X, k), 0.3))
			}
			s.Done(search.Outcome{Took: 2 * time.Second})
		}
		a := s.Answer()
		same := func(v, want float64) bool { return math.Abs(v-want) < 1 || math.IsNaN(v) && math.IsNaN(want) }
		if !strings.HasPrefix(a.Sentence, c.want) || !same(float64(a.Low), c.low) || !same(float64(a.High), c.high) || !math.IsNaN(float64(a.Value)) {
			t.Errorf("%s: %+v", c.name, a)
		}
	}
}

// The bound that cuts an interval off is named.
func TestWiderBoundsAreNamed(t *testing.T) {
	s, err := search.New(search.Options{Objective: parse(t, "p99 < 100ms"), Lowest: 100, Highest: 120, Budget: 25 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	drive(t, s, func(x float64, k int) objective.Batch { return answered(k, int(x/10), (k%15)/14, 0.3) })
	if a := s.Answer(); s.Verdict() != search.TooLittle || !strings.Contains(a.Next, "requests/s as well; ") {
		t.Errorf("%s: %+v", s.Verdict(), a)
	}
}

func TestAmounts(t *testing.T) {
	for _, c := range []struct {
		x    float64
		unit string
		want string
	}{{1, "servers", "1 server"}, {2, "servers", "2 servers"}, {1, "copies", "1 copy"}, {1.5, "copies", "1.5 copies"}, {1, "requests/s", "1 requests/s"}, {812.34, "requests/s", "812.3 requests/s"}} {
		if got := search.Amount(c.x, c.unit); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
