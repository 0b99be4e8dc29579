package mirror

import (
	"context"
	"sync"
	"time"

	"tailscope/api"
)

// reportEvery is the interval of reports, reportTimeout bounds one.
const (
	reportEvery   = time.Second
	reportTimeout = 5 * time.Second
	lastReports   = 3 // tries of the last one
)

// report sends the session's state until ctx is done, and applies the changes in the
// replies. A server that is not reached misses reports alone: each holds everything.
func (s *Session) report(ctx context.Context) {
	if s.o.Report == nil {
		close(s.reported)
		<-ctx.Done()
		return
	}
	reported := sync.OnceFunc(func() { close(s.reported) })
	ticker := time.NewTicker(reportEvery)
	defer ticker.Stop()
	away := false
	every := reportEvery
	for {
		reply, err := s.sendReport(ctx, false)
		reported()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !away:
			away = true
			s.log.Warn("mirror: the server does not take reports; the session goes on, and tries again", "error", err)
		case err == nil && away:
			away = false
			s.log.Info("mirror: the server takes reports again")
		}
		if err == nil && reply.Change != nil {
			if err := s.Apply(*reply.Change); err != nil {
				s.log.Warn("mirror: a change cannot be made", "number", reply.Change.Number, "error", err)
			}
		}
		if e := s.reportsEvery(); e != every {
			every = e
			ticker.Reset(every)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		s.giveBack(time.Now())
	}
}

// lastReport reports that the session has ended.
func (s *Session) lastReport(ctx context.Context) {
	if s.o.Report == nil {
		return
	}
	for try := range lastReports {
		if try > 0 {
			select {
			case <-ctx.Done():
				return
			case <-time.After(reportEvery):
			}
		}
		_, err := s.sendReport(ctx, true)
		if err == nil {
			return
		}
		s.log.Warn("mirror: the server did not take the last report", "error", err)
	}
}

func (s *Session) sendReport(ctx context.Context, ended bool) (api.SessionReply, error) {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	state := s.State()
	return s.o.Report(ctx, api.SessionReport{
		Kind:    "mirror",
		Name:    s.o.Name,
		Service: s.o.Service,
		Start:   api.Float(float64(s.started.UnixMilli()) / 1000),
		Ended:   ended,
		Mirror:  &state,
	})
}
