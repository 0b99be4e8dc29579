package clock

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Poisson asks at random moments, so many a second on average and for so long, and
// returns what each took from when it was due, seconds, in that order. ask is called
// by a goroutine for each; its first error ends all.
func Poisson(ctx context.Context, r *rand.Rand, rate float64, during time.Duration, ask func(ctx context.Context, i int) error) ([]float64, error) {
	var due []time.Duration
	for t := r.ExpFloat64() / rate; t < during.Seconds(); t += r.ExpFloat64() / rate {
		due = append(due, time.Duration(t*float64(time.Second)))
	}
	took := make([]float64, len(due))
	ctx, cancel := context.WithCancelCause(ctx)
	c := New()
	var asked, clocks sync.WaitGroup
	clocks.Go(func() { c.Run(ctx) })
	began := time.Now().Add(time.Millisecond)
	for i, d := range due {
		at := began.Add(d)
		c.Until(ctx, at)
		if ctx.Err() != nil {
			break
		}
		asked.Go(func() {
			if err := ask(ctx, i); err != nil {
				cancel(err)
			}
			took[i] = time.Since(at).Seconds()
		})
	}
	asked.Wait()
	err := context.Cause(ctx)
	cancel(nil)
	clocks.Wait()
	return took, err
}
