package check

import (
	"log/slog"
	"sync"
	"time"
)

const (
	// lateEvery is the least time between two warnings that stories come late.
	lateEvery = 10 * time.Minute
	// onTime is for how long no story may come late until it is said that they no longer do.
	onTime = 2 * storyEvery
)

// lateStories logs that stories of incidents are not known in time, and that they are again: many
// incidents ask for one each minute, and one cause makes all of them late.
type lateStories struct {
	mu     sync.Mutex
	since  time.Time // of the first that was late; zero while none is
	last   time.Time // of the last that was
	warned time.Time
	missed int // since the last warning
}

// fail notes that the story of an incident is not known.
func (l *lateStories) fail(log *slog.Logger, now time.Time, incident, service string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since.IsZero() {
		l.since = now
	}
	l.last = now
	l.missed++
	if !l.warned.IsZero() && now.Sub(l.warned) < lateEvery {
		return
	}
	log.Warn("searches for what changed fall behind: receivers hear of incidents without a reason, which is looked for again every minute for a quarter of an hour; "+
		"if this lasts give the server more CPU, or have it search fewer services",
		"since", l.since, "missed", l.missed, "incident", incident, "service", service, "error", err)
	l.warned, l.missed = now, 0
}

// found notes that a story was looked for in time.
func (l *lateStories) found(log *slog.Logger, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since.IsZero() || now.Sub(l.last) < onTime {
		return
	}
	if !l.warned.Before(l.since) { // it was said that they are late
		log.Info("searches for what changed have caught up", "behind", l.last.Sub(l.since).Round(time.Second).String())
	}
	l.since = time.Time{}
}
