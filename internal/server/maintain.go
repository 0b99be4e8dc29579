package server

import (
	"context"
	"time"
)

// maintainEvery is how often the store is asked to settle, roll up and expire
// what is due. Rollups of a minute are wanted soon after it ends.
const maintainEvery = 10 * time.Second

// startMaintenance owns the loop that keeps the store in order.
func (s *Server) startMaintenance() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(maintainEvery)
		defer tick.Stop()
		for {
			begin := time.Now()
			err := s.store.Maintain(ctx, begin)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				// Settling can wait: it is tried again, and until then
				// questions read what is not settled.
				s.metrics.maintainFailures.Inc()
				s.log.Error("maintain the store", "error", err)
			default:
				s.log.Debug("maintained the store", "took", time.Since(begin))
			}
			s.metrics.maintainSeconds.Observe(time.Since(begin).Seconds())
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	s.started("maintenance", func(context.Context) error {
		cancel()
		<-done
		return nil
	})
}
