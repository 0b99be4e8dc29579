package shadow

import (
	"container/heap"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"tailscope/internal/mirror/pair"
)

// amplify says how many copies each request gets, so that the first n requests
// get floor(n*factor) together.
type amplify struct {
	bits atomic.Uint64 // of the factor
	mu   sync.Mutex
	part float64 // of a copy that is due, [0, 1)
}

func (a *amplify) factor() float64 { return math.Float64frombits(a.bits.Load()) }

func (a *amplify) set(f float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bits.Store(math.Float64bits(f))
	a.part = 0
}

func (a *amplify) next() int {
	f := a.factor()
	whole := math.Floor(f)
	if whole == f {
		return int(whole)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.part += f - whole
	// Steps like 0.1 do not add up to 1 exactly.
	if a.part >= 1-1e-9 {
		a.part = max(0, a.part-1)
		return int(whole) + 1
	}
	return int(whole)
}

// lateAfter is how far behind its time an extra copy counts as late.
const lateAfter = 10 * time.Millisecond

// spreader holds copies until they are due.
type spreader struct {
	l    *Lane
	late atomic.Uint64
	wake chan struct{} // something is due before what is waited for

	mu     sync.Mutex
	due    dueHeap
	closed bool
}

func newSpreader(l *Lane) *spreader {
	return &spreader{l: l, wake: make(chan struct{}, 1)}
}

// add has a copy wait until a moment. It returns why it cannot.
func (s *spreader) add(j job, at int64) pair.Cause {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return pair.Stopped
	}
	if len(s.due) >= s.l.o.Queue {
		return pair.QueueFull
	}
	first := len(s.due) == 0 || at < s.due[0].since
	j.since = at
	heap.Push(&s.due, j)
	if first {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	return pair.None
}

// take takes what is due, and says how long to wait for what is next; a
// negative wait is for nothing.
func (s *spreader) take(dst []job, now int64) ([]job, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.due) > 0 && s.due[0].since <= now {
		dst = append(dst, heap.Pop(&s.due).(job))
	}
	if len(s.due) == 0 {
		return dst, -1
	}
	return dst, time.Duration(s.due[0].since - now)
}

// run sends what is due until the lane is closed.
func (s *spreader) run() {
	var due []job
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		now := s.l.o.Now()
		var wait time.Duration
		due, wait = s.take(due[:0], now)
		for i := range due {
			j := due[i]
			due[i] = job{}
			if now-j.since > int64(lateAfter) {
				s.late.Add(1)
			}
			s.l.room.give(j.held)
			j.held = 0
			s.l.send(j)
		}
		if wait < 0 {
			wait = time.Hour
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-s.wake:
		case <-s.l.swept:
			return
		}
	}
}

// close appends what is still waiting to dst. Nothing is taken after it.
func (s *spreader) close(dst []job) []job {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	dst = append(dst, s.due...)
	s.due = nil
	return dst
}

// dueHeap is copies by when they are due.
type dueHeap []job

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].since < h[j].since }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(job)) }
func (h *dueHeap) Pop() any {
	old := *h
	j := old[len(old)-1]
	old[len(old)-1] = job{}
	*h = old[:len(old)-1]
	return j
}
