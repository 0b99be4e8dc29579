package solr

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"tailscope/benchmarks/clock"
)

// Pair is one question asked of each shard of a collection alone, one after another,
// and of all together, nothing else going on.
type Pair struct {
	Class  int
	Leaves []Sample
	Whole  Sample
}

// Pairs measures for so long. Classes are asked for by the square root of their
// weight, so that rare ones are known too. Of a collection of one shard the whole is
// asked as a leaf is. Which of both is first is chance: the second finds the
// processor's caches warmer. Between requests are pauses of this mean length,
// exponential: after one a core is slower for a while, as it is for requests that come
// now and then.
func (c *Cluster) Pairs(ctx context.Context, shards int, r *rand.Rand, pause, during time.Duration) (all []Pair, err error) {
	bell := clock.New()
	ctx, cancel := context.WithCancel(ctx)
	var bells sync.WaitGroup
	defer bells.Wait()
	defer cancel()
	bells.Go(func() { bell.Run(ctx) })
	rest := func() {
		if pause > 0 {
			bell.Until(ctx, time.Now().Add(time.Duration(r.ExpFloat64()*float64(pause))))
		}
	}
	root := make([]float64, len(c.Classes))
	for i, k := range c.Classes {
		root[i] = math.Sqrt(k.Weight)
	}
	for began := time.Now(); time.Since(began) < during; {
		q := c.Draw(r, root)
		p := Pair{Class: q.Class, Leaves: make([]Sample, shards)}
		for _, whole := range [2][2]bool{{true, false}, {false, true}}[r.IntN(2)] {
			switch {
			case !whole:
				for i := range p.Leaves {
					rest()
					if p.Leaves[i], err = c.Some(ctx, shards, q, i+1); err != nil {
						return all, err
					}
				}
			case shards == 1:
				rest()
				p.Whole, err = c.Some(ctx, 1, q, 1)
			default:
				rest()
				p.Whole, err = c.Whole(ctx, shards, q)
			}
			if err != nil {
				return all, err
			}
			q.Numbers = r.IntN(len(c.rows))
		}
		all = append(all, p)
	}
	return all, nil
}

// WarmUp asks everything that is measured for so long.
func (c *Cluster) WarmUp(ctx context.Context, r *rand.Rand, during time.Duration, shards ...int) error {
	for began := time.Now(); time.Since(began) < during; {
		for _, n := range shards {
			if _, err := c.Whole(ctx, n, c.Draw(r, nil)); err != nil {
				return err
			}
			if _, err := c.Some(ctx, n, c.Draw(r, nil), 1+r.IntN(n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Answer is the cost of one query.
type Answer struct {
	Class   int
	Seconds float64 // from when it was due
}

// OneByOne asks all shards questions by their weights, each when the one before is
// answered.
func (c *Cluster) OneByOne(ctx context.Context, shards int, r *rand.Rand, during time.Duration) (all []Answer, err error) {
	for began := time.Now(); time.Since(began) < during; {
		q := c.Draw(r, nil)
		s, err := c.Whole(ctx, shards, q)
		if err != nil {
			return all, err
		}
		all = append(all, Answer{q.Class, s.Wall})
	}
	return all, nil
}

// AtRate asks all shards questions by their weights at random moments, so many a
// second on average.
func (c *Cluster) AtRate(ctx context.Context, shards int, r *rand.Rand, rate float64, during time.Duration) ([]Answer, error) {
	// More than there can be, to be drawn before they are asked.
	all := make([]Answer, int(2*rate*during.Seconds())+100)
	questions := make([]Question, len(all))
	for i := range all {
		questions[i] = c.Draw(r, nil)
		all[i].Class = questions[i].Class
	}
	took, err := clock.Poisson(ctx, r, rate, during, func(ctx context.Context, i int) error {
		_, err := c.Whole(ctx, shards, questions[i])
		return err
	})
	for i := range took {
		all[i].Seconds = took[i]
	}
	return all[:len(took)], err
}

// Neighbours measures what a leaf's CPU time grows by when the other core is busy
// with another: the same questions of one shard, one by one and two at a time.
func (c *Cluster) Neighbours(ctx context.Context, r *rand.Rand, questions int) (alone, both time.Duration, err error) {
	asked := make([]Question, questions)
	for i := range asked {
		asked[i] = c.Draw(r, nil)
	}
	ask := func(some []Question) error {
		for _, q := range some {
			if _, err := c.Some(ctx, 1, q, 1); err != nil {
				return err
			}
		}
		return nil
	}
	half := questions / 2
	for _, two := range []bool{false, true, true, false} {
		for i := range asked {
			asked[i].Numbers = r.IntN(len(c.rows))
		}
		before := c.CPU()
		if !two {
			if err := ask(asked); err != nil {
				return 0, 0, err
			}
			alone += c.CPU() - before
			continue
		}
		other := make(chan error, 1)
		go func() { other <- ask(asked[half:]) }()
		err := ask(asked[:half])
		if e := <-other; err == nil {
			err = e
		}
		if err != nil {
			return 0, 0, err
		}
		both += c.CPU() - before
	}
	return alone, both, nil
}
