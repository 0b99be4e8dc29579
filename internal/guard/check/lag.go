package check

import (
	"math"
	"sync"
	"time"

	"tailscope/hist"
)

// lags remembers how late runs began in the last five to ten minutes: in two
// distributions that take turns.
type lags struct {
	mu       sync.Mutex
	now, old *hist.Histogram
	since    time.Time
	all      *hist.Histogram
}

const lagWindow = 5 * time.Minute

func (l *lags) add(late time.Duration, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn(at)
	if l.all == nil {
		l.all = hist.New(hist.DefaultSchema)
	}
	for _, h := range []*hist.Histogram{l.now, l.all} {
		_ = h.RecordNanos(max(0, late.Nanoseconds()), 1) // never negative
	}
}

// total is of all runs.
func (l *lags) total() *hist.Histogram {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		return hist.New(hist.DefaultSchema)
	}
	return l.all.Clone()
}

func (l *lags) turn(at time.Time) {
	if l.now == nil || at.Sub(l.since) >= 2*lagWindow {
		l.now, l.old, l.since = hist.New(hist.DefaultSchema), nil, at
	} else if at.Sub(l.since) >= lagWindow {
		l.now, l.old, l.since = hist.New(hist.DefaultSchema), l.now, at
	}
}

// p99 is in seconds, NaN before the first run.
func (l *lags) p99(at time.Time) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn(at)
	all := l.now.Clone()
	if l.old != nil {
		if err := all.Merge(l.old); err != nil {
			return math.NaN()
		}
	}
	if all.Count == 0 {
		return math.NaN()
	}
	return all.Quantile(0.99)
}
