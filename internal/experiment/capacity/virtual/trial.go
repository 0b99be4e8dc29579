package virtual

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"tailscope/api"
	"tailscope/internal/experiment/capacity/objective"
	"tailscope/internal/experiment/capacity/search"
)

// Trial is the result of one search.
type Trial struct {
	Verdict          api.CapacityVerdict
	Value, Low, High float64
	Took             time.Duration // virtual
	Steps            int
	Beyond           time.Duration // of it, at loads beyond the truth by a tenth or more
}

// Covers reports whether the interval holds the truth.
func (t Trial) Covers(truth float64) bool { return t.Low <= truth && truth <= t.High }

// Try searches the rate of a shape; the options' objective is the shape's.
func Try(s Shape, o search.Options, seed uint64) (Trial, error) {
	line := New(s.Server, rand.New(rand.NewPCG(seed, 1)))
	return try(s.Objective, o, line, s.Gaps, func(x float64) (rate float64, beyond bool) { return x, x > 1.1*s.Truth })
}

// TryPool searches the fewest servers of a pool.
func TryPool(p Pool, o search.Options, seed uint64) (Trial, error) {
	o.Integer, o.Falling = true, true
	line := New(p.Server, rand.New(rand.NewPCG(seed, 1)))
	return try(p.Objective, o, line, false, func(x float64) (rate float64, beyond bool) {
		line.resize(int(x) * p.Workers)
		return p.Rate, int(x) < p.Truth
	})
}

func try(text string, o search.Options, line *Line, gaps bool, set func(x float64) (rate float64, beyond bool)) (Trial, error) {
	var t Trial
	var err error
	if o.Objective, err = objective.Parse(text); err != nil {
		return t, err
	}
	s, err := search.New(o)
	if err != nil {
		return t, err
	}
	for step, more := s.Next(); more; step, more = s.Next() {
		w := s.Watch()
		if gaps {
			step.Drain = time.Minute
		}
		took := line.Idle(step.Drain.Seconds())
		rate, beyond := set(step.X)
		took += line.Hold(rate, step.For.Seconds(), 0.1, func(b objective.Batch) bool {
			w.Add(b)
			_, broken := w.Broken()
			return !broken && !w.Enough()
		})
		spent := time.Duration(took * float64(time.Second))
		s.Done(search.Outcome{Took: spent})
		t.Steps++
		if t.Took += spent; beyond {
			t.Beyond += spent
		}
	}
	a := s.Answer()
	// An open end is infinitely far away.
	far := func(v api.Float, away float64) float64 {
		if math.IsNaN(float64(v)) {
			return away
		}
		return float64(v)
	}
	t.Verdict, t.Value, t.Low, t.High = s.Verdict(), far(a.Value, math.Inf(1)), far(a.Low, 0), far(a.High, math.Inf(1))
	return t, nil
}

// Summary sums up many trials. Errors, bias and widths are percent of the truth,
// times seconds.
type Summary struct {
	Trials, Covered, Found int
	Within                 int     // answers within 3 % of the truth
	Error, Worse           float64 // median, and what a tenth of trials is beyond
	Bias                   float64 // median
	Half                   float64 // median of half the interval's width
	Took, Longer           float64 // median, and what a tenth of trials is beyond
	Beyond                 float64 // median
}

// Calibrate makes trials with seeds from 0 on, two at a time.
func Calibrate(ctx context.Context, trials int, truth float64, one func(seed uint64) (Trial, error)) (Summary, error) {
	out := make([]Trial, trials)
	errs := make([]error, trials)
	seeds := make(chan int)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for i := range seeds {
				out[i], errs[i] = one(uint64(i))
			}
		})
	}
	for i := range out {
		if ctx.Err() != nil {
			break
		}
		seeds <- i
	}
	close(seeds)
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return Summary{}, err
	}
	sum := Summary{Trials: trials}
	var off, bias, half, took, beyond []float64
	for i, t := range out {
		if errs[i] != nil {
			return sum, fmt.Errorf("trial %d: %w", i, errs[i])
		}
		if t.Covers(truth) {
			sum.Covered++
		}
		if t.Verdict == search.Found {
			sum.Found++
		}
		e := 100 * (t.Value/truth - 1)
		if math.Abs(e) <= 3 {
			sum.Within++
		}
		off, bias, half = append(off, math.Abs(e)), append(bias, e), append(half, 50*(t.High-t.Low)/truth)
		took, beyond = append(took, t.Took.Seconds()), append(beyond, t.Beyond.Seconds())
	}
	at := func(values []float64, q float64) float64 {
		slices.Sort(values)
		return values[min(int(q*float64(len(values))), len(values)-1)]
	}
	sum.Error, sum.Worse, sum.Bias, sum.Half = at(off, 0.5), at(off, 0.9), at(bias, 0.5), at(half, 0.5)
	sum.Took, sum.Longer, sum.Beyond = at(took, 0.5), at(took, 0.9), at(beyond, 0.5)
	return sum, nil
}
