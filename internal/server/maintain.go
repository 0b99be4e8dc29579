package server

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"tailscope/api"
)

// maintainEvery is how often the store is asked to settle, roll up and expire
// what is due. Rollups of a minute are wanted soon after it ends.
const maintainEvery = 10 * time.Second

// startMaintenance owns the loop that keeps the store in order.
func (s *Server) startMaintenance() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	var failing atomic.Pointer[error]
	s.health.watch(func() []api.Problem {
		err := failing.Load()
		if err == nil {
			return nil
		}
		return []api.Problem{{
			Code: problemMaintenance, From: unixOrNull(time.Time{}), To: unixOrNull(time.Time{}),
			Summary: "The store is not compacted: questions become slower. Check the disk.",
			Text:    fmt.Sprintf("The store could not be compacted: %v. Questions are answered from what is not compacted, and slower.", *err),
			Next:    "see to the disk; it is tried again every ten seconds",
		}}
	})
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
				failing.Store(&err)
				s.log.Error("maintain the store", "error", err)
			default:
				failing.Store(nil)
				s.log.Debug("maintained the store", "took", time.Since(begin))
			}
			s.metrics.maintainSeconds.Observe(time.Since(begin).Seconds())
			giveBack()
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
