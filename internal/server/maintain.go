package server

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"tailscope/api"
	"tailscope/internal/cluster"
	"tailscope/internal/figure"
)

// maintainEvery is how often the store compacts, rolls up and expires what is due.
// Rollups of a minute are wanted soon after it ends.
const maintainEvery = 10 * time.Second

// settleQuiet is how long nothing must have been added to a stretch of time before the
// store puts it in its final order: longer than from one flush to the next.
const settleQuiet = 15 * time.Second

// leapWait is how long a clock that leapt must stand before data expires by it. A leap
// is a problem from leapReported on, or from stopReported on where the server may have
// been off: a stop over a holiday is not a problem.
const (
	leapWait     = time.Hour
	leapReported = 24 * time.Hour
	stopReported = 90 * 24 * time.Hour
)

// clockProblem reports a clock that maintenance does not follow yet.
func clockProblem(leap clockLeap, leapt bool) []api.Problem {
	threshold, since := stopReported, "the last maintenance of the store"
	if leap.Running {
		threshold, since = leapReported, "the time that has passed"
	}
	if !leapt || leap.Ahead < threshold {
		return nil
	}
	left := fmt.Sprintf("in %s of running", figure.Counted(max(1, int((leap.Left+time.Minute-1)/time.Minute)), "minute"))
	return []api.Problem{{
		Code: problemClock, From: unixOrNull(time.Time{}), To: unixOrNull(time.Time{}),
		Summary: "The clock leapt ahead: nothing expires by it for an hour. Check the clock.",
		Text: fmt.Sprintf("The clock is %d days ahead of %s. Nothing expires by it yet; %s it is believed, and what is too old by it is deleted.",
			leap.Ahead/(24*time.Hour), since, left),
		Next: "check the clock with date -u: if it is wrong, set it right or stop the server before that",
	}}
}

// leapt returns how far the clock is ahead of the time that maintenance uses, or 0 if it
// did not leap.
func (s *Server) leapt() time.Duration { return s.data.leapt(s.now()) }

// startMaintenance starts the loop that maintains the store.
func (s *Server) startMaintenance() {
	if !s.ticks {
		return
	}
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
	s.health.watch(func() []api.Problem { return clockProblem(s.data.leap()) })
	go func() {
		defer close(done)
		tick := time.NewTicker(maintainEvery)
		defer tick.Stop()
		for {
			begin := time.Now()
			did, err := s.once(ctx, workMaintenance, func(ctx context.Context) error { return s.store.Maintain(ctx, begin) })
			switch {
			case ctx.Err() != nil:
				return
			case !did, errors.Is(err, cluster.ErrExpired): // another server maintains it
				failing.Store(nil)
			case err != nil:
				// Compaction can wait: the next run tries again, and until then queries
				// read the points that are not compacted.
				s.metrics.maintainFailures.Inc()
				failing.Store(&err)
				s.log.Error("maintain the store", "error", err)
			default:
				failing.Store(nil)
				s.log.Debug("maintained the store", "took", time.Since(begin))
			}
			if did {
				s.metrics.maintainSeconds.Observe(time.Since(begin).Seconds())
			}
			releaseMemory()
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
