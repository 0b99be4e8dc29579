package check

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"tailscope/internal/agg"
)

// sink hands samples to the aggregator, those of half a second in one batch.
type sink struct {
	agg     *agg.Aggregator
	refused atomic.Uint64

	mu      sync.Mutex
	waiting []sample
	more    chan struct{}
	free    []sample
}

type sample struct {
	to     *written
	millis int64
	value  float64
}

const (
	sinkEvery = 500 * time.Millisecond
	sinkBatch = 20000
	sinkMost  = 500000 // samples that wait for an aggregator which is overloaded
)

func (s *sink) add(samples []sample) {
	if len(samples) == 0 {
		return
	}
	s.mu.Lock()
	if len(s.waiting)+len(samples) > sinkMost {
		s.refused.Add(uint64(len(samples)))
	} else {
		s.waiting = append(s.waiting, samples...)
	}
	s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// serve ends when ctx is done; what waits is committed before.
func (s *sink) serve(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			s.flush(context.WithoutCancel(ctx))
			return
		case <-s.more:
		}
		select { // what else is on its way goes along
		case <-ctx.Done():
		case <-time.After(sinkEvery):
		}
		s.flush(context.WithoutCancel(ctx))
	}
}

func (s *sink) flush(ctx context.Context) {
	s.mu.Lock()
	all := s.waiting
	s.waiting, s.free = s.free[:0], nil
	s.mu.Unlock()
	for rest := all; len(rest) > 0; {
		n := min(len(rest), sinkBatch)
		if err := s.commit(ctx, rest[:n]); err != nil {
			s.mu.Lock() // tried again with the next
			s.waiting = append(append([]sample{}, rest...), s.waiting...)
			s.mu.Unlock()
			select {
			case s.more <- struct{}{}:
			default:
			}
			return
		}
		rest = rest[n:]
	}
	s.mu.Lock()
	if cap(all) <= 1<<18 {
		s.free = all[:0]
	}
	s.mu.Unlock()
}

func (s *sink) commit(ctx context.Context, samples []sample) error {
	b := s.agg.NewBatch()
	epoch := b.Epoch()
	for _, x := range samples {
		if x.to.epoch != epoch || x.to.target == 0 {
			x.to.target, x.to.epoch = s.agg.SeriesTarget(x.to.series), epoch
		}
		b.Number(x.to.target, x.millis*1e6, x.value)
	}
	rejects, err := b.Commit(ctx)
	if err != nil {
		return err
	}
	s.refused.Add(uint64(rejects.Total()))
	return nil
}
