package search_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"tailscope/hist"
	"tailscope/internal/experiment/capacity/objective"
	"tailscope/internal/experiment/capacity/search"
	"tailscope/internal/experiment/capacity/virtual"
)

func parse(t *testing.T, text string) objective.Objective {
	t.Helper()
	o, err := objective.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// answered returns a batch of 0.1 s in which so many were answered, some of them slowly.
func answered(k, n, slow int, slowTime float64) objective.Batch {
	h := hist.New(hist.DefaultSchema)
	if err := h.RecordN(0.01, uint64(n-slow)); err != nil {
		panic(err)
	}
	if err := h.RecordN(slowTime, uint64(slow)); err != nil {
		panic(err)
	}
	return objective.Batch{
		At:      time.Duration(k+1) * 100 * time.Millisecond,
		Ended:   map[objective.Part]objective.Ended{{}: {Requests: uint64(n), Latency: h}},
		Waiting: map[objective.Part]objective.Waiting{{}: {Due: uint64(n)}},
	}
}

// drive answers every step by what batch says of its X, and returns what was asked.
func drive(t *testing.T, s *search.Search, batch func(x float64, k int) objective.Batch) []search.Step {
	t.Helper()
	var steps []search.Step
	for step, more := s.Next(); more; step, more = s.Next() {
		if steps = append(steps, step); len(steps) > 200 {
			t.Fatal("the search does not end")
		}
		w := s.Watch()
		k := 0
		for ; time.Duration(k)*100*time.Millisecond < step.For; k++ {
			w.Add(batch(step.X, k))
			if _, broken := w.Broken(); broken || w.Enough() {
				break
			}
		}
		s.Done(search.Outcome{Took: time.Duration(k+1) * 100 * time.Millisecond})
	}
	return steps
}

func TestNeverBroken(t *testing.T) {
	s, err := search.New(search.Options{Objective: parse(t, "p99 < 100ms"), Lowest: 100, Highest: 3000})
	if err != nil {
		t.Fatal(err)
	}
	steps := drive(t, s, func(x float64, k int) objective.Batch { return answered(k, int(x/10), 0, 1) })
	a := s.Answer()
	if s.Verdict() != search.AtLeast || float64(a.Low) != 3000 || !math.IsNaN(float64(a.Value)) {
		t.Errorf("%s: %+v", s.Verdict(), a)
	}
	if last := steps[len(steps)-1]; last.X != 3000 {
		t.Errorf("the last step was at %v, want the highest", last.X)
	}
	if want := "p99 < 100ms is kept at 3000 requests/s, as far as was tried"; a.Sentence != want {
		t.Errorf("got %q, want %q", a.Sentence, want)
	}
}

func TestBrokenAtTheLowest(t *testing.T) {
	s, err := search.New(search.Options{Objective: parse(t, "p99 < 100ms"), Lowest: 100, Highest: 3000})
	if err != nil {
		t.Fatal(err)
	}
	steps := drive(t, s, func(x float64, k int) objective.Batch { return answered(k, int(x/10), int(x/10), 0.3) })
	a := s.Answer()
	if s.Verdict() != search.Below || float64(a.High) != 100 || a.Next == "" || a.Limit != "p99 < 100ms" {
		t.Errorf("%s: %+v", s.Verdict(), a)
	}
	for _, st := range steps {
		if st.X != 100 {
			t.Errorf("went to %v although the lowest is broken", st.X)
		}
	}
	if s.Verdict() == search.Below && !strings.Contains(a.Sentence, "broken already at 100") {
		t.Errorf("%q", a.Sentence)
	}
}

// A generator that cannot send more bounds the search.
func TestInvalidStepBounds(t *testing.T) {
	s, err := search.New(search.Options{Objective: parse(t, "p99 < 100ms"), Lowest: 100, Highest: 100000})
	if err != nil {
		t.Fatal(err)
	}
	highest := 0.0
	for step, more := s.Next(); more; step, more = s.Next() {
		w := s.Watch()
		if step.X > 1000 {
			s.Done(search.Outcome{Took: time.Second, Invalid: "the generator is the limit"})
			continue
		}
		highest = max(highest, step.X)
		for k := range 200 {
			w.Add(answered(k, int(step.X/10), 0, 1))
			if w.Enough() {
				break
			}
		}
		s.Done(search.Outcome{Took: 2 * time.Second})
	}
	a := s.Answer()
	if s.Verdict() != search.AtLeast || math.Abs(float64(a.Low)-highest) > 1e-6 || !strings.Contains(a.Next, "the generator is the limit") {
		t.Errorf("%s: %+v, highest valid was %v", s.Verdict(), a, highest)
	}
}

// What breaks in the middle of a step is broken within a second of when its first
// request could be known to be late.
func TestStopsAtOnce(t *testing.T) {
	breaks := 5.0
	freezing := virtual.Server{Workers: 8, Freezes: breaks, Service: func(r *rand.Rand) float64 { return 0.01 + r.ExpFloat64()*0.005 }}
	for _, c := range []struct {
		name   string
		batch  func(k int) objective.Batch
		within float64
	}{
		{"slow", func(k int) objective.Batch {
			if k < 50 {
				return answered(k, 50, 0, 1)
			}
			return answered(k, 50, 50, 0.5)
		}, 0.5},
		{"just too slow", func(k int) objective.Batch {
			if k < 50 {
				return answered(k, 50, 0, 1)
			}
			return answered(k, 50, 50, 0.22)
		}, 0.9},
		{"errors", func(k int) objective.Batch {
			b := answered(k, 50, 0, 1)
			if k >= 50 {
				e := b.Ended[objective.Part{}]
				e.Errors = e.Requests
				b.Ended[objective.Part{}] = e
			}
			return b
		}, 0.5},
		{"slow, seen once a second", func(k int) objective.Batch {
			slow := 0
			if k >= 5 {
				slow = 500
			}
			b := answered(k, 500, slow, 0.5)
			b.At *= 10
			return b
		}, 1},
		{"slow, few", func(k int) objective.Batch {
			if k < 50 {
				return answered(k, 1, 0, 1)
			}
			return answered(k, 1, 1, 0.5)
		}, 2.6},
	} {
		s, err := search.New(search.Options{Objective: parse(t, "p99 < 200ms and errors < 1%"), Lowest: 500, Start: 500, Highest: 501})
		if err != nil {
			t.Fatal(err)
		}
		if _, more := s.Next(); !more {
			t.Fatal("no step")
		}
		w := s.Watch()
		stopped := math.Inf(1)
		for k := range 200 {
			b := c.batch(k)
			w.Add(b)
			if why, broken := w.Broken(); broken {
				stopped = b.At.Seconds()
				t.Logf("%s: stopped after %.1f s: %s", c.name, stopped-breaks, why)
				break
			}
		}
		if after := stopped - breaks; after < 0 || after > c.within {
			t.Errorf("%s: stopped %.1f s after it broke, want within %v", c.name, after, c.within)
		}
		if w.Kept() == search.Kept {
			t.Errorf("%s: the step is said to be kept", c.name)
		}
	}

	s, err := search.New(search.Options{Objective: parse(t, "p99 < 200ms"), Lowest: 400, Highest: 401})
	if err != nil {
		t.Fatal(err)
	}
	s.Next()
	w := s.Watch()
	stopped := virtual.New(freezing, rand.New(rand.NewPCG(1, 1))).Hold(400, 20, 0.1, func(b objective.Batch) bool {
		w.Add(b)
		_, broken := w.Broken()
		return !broken
	})
	// Nothing is answered any more: the first is late after the limit.
	if after := stopped - breaks; after < 0.2 || after > 0.9 {
		t.Errorf("a server that hangs: stopped after %.1f s", after)
	}
}

// Moments beyond the limit are what a percentile allows.
func TestHiccupsAreAllowed(t *testing.T) {
	s, err := search.New(search.Options{Objective: parse(t, "p99 < 200ms"), Lowest: 500, Highest: 501})
	if err != nil {
		t.Fatal(err)
	}
	s.Next()
	w := s.Watch()
	for k := range 200 {
		slow := 0
		if k%100 == 50 { // a tenth of a second in ten
			slow = 40
		}
		w.Add(answered(k, 50, slow, 0.4))
		if why, broken := w.Broken(); broken {
			t.Fatalf("stopped after %.1f s: %s", float64(k+1)/10, why)
		}
	}
	o := w.Objectives()[0]
	if o.Kept != search.Unclear || !(o.Low <= o.Value) || o.Value > o.High {
		t.Errorf("%+v: the interval does not hold the value", o)
	}
}

// A step in whose measured part nothing ended does not have an interval.
func TestNothingEndedInTime(t *testing.T) {
	for _, text := range []string{"p99 < 200ms", "max < 1s", "mean < 100ms", "errors < 1%"} {
		s, err := search.New(search.Options{Objective: parse(t, text), Lowest: 1, Highest: 1000})
		if err != nil {
			t.Fatal(err)
		}
		step, _ := s.Next()
		w := s.Watch()
		for k := range int(2*step.Discard.Seconds()) * 10 {
			n := 0
			if k == 0 {
				n = 1
			}
			w.Add(answered(k, n, 0, 0))
			if o := w.Objectives()[0]; !math.IsNaN(float64(o.Low)) && o.Kept != search.Unclear {
				t.Errorf("%+v of one request", o)
			}
			w.Kept()
		}
	}
}

// The limit lies in the interval of a percentile exactly when the condition is
// unclear, and an end that few requests cannot show is left open.
func TestIntervalAgreesWithTheVerdict(t *testing.T) {
	came := map[string]int{}
	r := rand.New(rand.NewPCG(4, 9))
	for range 300 {
		s, err := search.New(search.Options{Objective: parse(t, "p95 < 200ms"), Lowest: 10, Highest: 1000})
		if err != nil {
			t.Fatal(err)
		}
		s.Next()
		w := s.Watch()
		median := 0.2 * math.Exp(-3*r.Float64())
		n := 1 + r.IntN(200)
		for k := range 100 {
			b := answered(k, n, 0, 0)
			h := hist.New(hist.DefaultSchema)
			for range n {
				if err := h.Record(median * math.Exp(0.5*r.NormFloat64())); err != nil {
					t.Fatal(err)
				}
			}
			b.Ended[objective.Part{}] = objective.Ended{Requests: uint64(n), Latency: h}
			w.Add(b)
		}
		o := w.Objectives()[0]
		came[o.Kept]++
		low, high, limit := float64(o.Low), float64(o.High), float64(o.Limit)
		wrong := false
		switch o.Kept {
		case search.Kept:
			wrong = !(high < 1.02*limit)
		case search.Broken:
			wrong = !(low > limit/1.02)
		default:
			wrong = low > 1.02*limit || high < limit/1.02
		}
		if wrong || float64(o.Value) < low || float64(o.Value) > high {
			t.Errorf("%d requests: %+v", 100*n, o)
		}
		if math.IsNaN(high) {
			came["open"]++
		}
	}
	for _, kind := range []string{search.Kept, search.Broken, search.Unclear, "open"} {
		if came[kind] < 10 {
			t.Errorf("only %d of %v are %s", came[kind], came, kind)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	o := parse(t, "p99 < 200ms")
	for _, c := range []struct {
		o    search.Options
		want string
	}{
		{search.Options{Lowest: 1, Highest: 2}, "no objective"},
		{search.Options{Objective: o, Highest: 2}, "bounds 0 and 2"},
		{search.Options{Objective: o, Lowest: 3, Highest: 2}, "bounds 3 and 2"},
		{search.Options{Objective: o, Lowest: 1.5, Highest: 2, Integer: true}, "whole numbers"},
		{search.Options{Objective: o, Lowest: 1, Highest: 2, Start: 5}, "start 5"},
		{search.Options{Objective: o, Lowest: 1, Highest: 2, Factor: 0.5}, "factor 0.5"},
		{search.Options{Objective: o, Lowest: 1, Highest: 2, Precision: 2}, "precision 2"},
		{search.Options{Objective: o, Lowest: 1, Highest: 2, Budget: time.Second}, "budget of 1s"},
		{search.Options{Objective: o, Lowest: 1, Highest: 2, Discard: time.Hour}, "leave nothing to measure"},
	} {
		if _, err := search.New(c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// Whatever is seen, searches end within their budget and a step, and stay in their
// bounds.
func TestEndsWhateverIsSeen(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 5))
		o := search.Options{Objective: parse(t, "p99 < 100ms and mean < 50ms"), Lowest: 10, Highest: 1000, Budget: 30 * time.Second, Falling: seed%2 == 1, Integer: seed%3 == 0}
		s, err := search.New(o)
		if err != nil {
			t.Fatal(err)
		}
		steps := drive(t, s, func(_ float64, k int) objective.Batch {
			n := rng.IntN(50)
			return answered(k, n, rng.IntN(n+1)/(1+rng.IntN(30)), 0.3)
		})
		for _, st := range steps {
			if st.X < 10 || st.X > 1000 || o.Integer && st.X != math.Trunc(st.X) || st.For <= st.Discard {
				t.Fatalf("seed %d: %+v", seed, st)
			}
		}
		if a := s.Answer(); a == nil || a.Sentence == "" {
			t.Errorf("seed %d: no answer", seed)
		}
	}
}

// Too little time gives an interval that says so, and how much longer it takes.
func TestTooLittleTime(t *testing.T) {
	shape := virtual.Shapes()[0]
	got, err := virtual.Try(shape, search.Options{Lowest: 50, Highest: 5000, Budget: 40 * time.Second}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got.Verdict == search.Found && got.High/got.Low > 1.2 || !got.Covers(shape.Truth) {
		t.Errorf("%+v", got)
	}
}
