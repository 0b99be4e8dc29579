package shadow

import (
	"sync"
	"sync/atomic"
	"time"

	"tailscope/internal/experiment/mirror/pair"
)

const (
	// lateAfter is the delay after which an extra copy counts as late.
	lateAfter = 10 * time.Millisecond
	// spreadStep is the shortest wait for the next copies, so that many are sent
	// for one wake-up.
	spreadStep = time.Millisecond
	// maxSpread bounds the copies that wait for their time. The sender's bound on
	// bytes holds for them, too.
	maxSpread = 1 << 17
)

// spreader holds copies until they are due, and sends them from a goroutine of its
// own: all but the first of a request, so that Offer does not wait.
type spreader struct {
	l    *Sender
	late atomic.Uint64
	wake chan struct{} // something is due before what is waited for

	mu     sync.Mutex
	due    heap
	closed bool
}

func newSpreader(l *Sender) *spreader {
	return &spreader{l: l, wake: make(chan struct{}, 1)}
}

// add queues a copy until a moment. It returns the cause if it cannot.
func (s *spreader) add(j job, at int64) pair.Cause {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return pair.Stopped
	}
	if len(s.due) >= maxSpread {
		return pair.QueueFull
	}
	first := len(s.due) == 0 || at < s.due[0].since
	j.since = at
	s.due.push(j)
	if first {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	return pair.None
}

// takeDue appends the copies that are due, and returns the wait for the next one,
// negative if there is none.
func (s *spreader) takeDue(dst []job, now int64) ([]job, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.due) > 0 && s.due[0].since <= now {
		dst = append(dst, s.due.pop())
	}
	if len(s.due) == 0 {
		return dst, -1
	}
	return dst, time.Duration(s.due[0].since - now)
}

// run sends what is due until the sender is closed.
func (s *spreader) run() {
	var due []job
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		now := s.l.o.Now()
		var wait time.Duration
		due, wait = s.takeDue(due[:0], now)
		for i := range due {
			j := due[i]
			due[i] = job{}
			if now-j.since > int64(lateAfter) {
				s.late.Add(1)
			}
			s.l.budget.Release(j.held)
			j.held = 0
			s.l.send(j)
		}
		if wait < 0 {
			wait = time.Hour
		}
		timer.Reset(max(wait, spreadStep))
		select {
		case <-timer.C:
		case <-s.wake:
		case <-s.l.swept:
			return
		}
	}
}

// close appends the waiting copies to dst. Nothing is added after it.
func (s *spreader) close(dst []job) []job {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	dst = append(dst, s.due...)
	s.due = nil
	return dst
}

// heap orders copies by when they are due; the children of i are at 2i+1 and 2i+2.
// container/heap would allocate for each.
type heap []job

func (h *heap) push(j job) {
	a := append(*h, j)
	*h = a
	for i := len(a) - 1; i > 0; {
		up := (i - 1) / 2
		if a[up].since <= a[i].since {
			return
		}
		a[up], a[i] = a[i], a[up]
		i = up
	}
}

// pop removes the first copy. The heap must not be empty.
func (h *heap) pop() job {
	a := *h
	first, last := a[0], len(a)-1
	a[0] = a[last]
	a[last] = job{}
	a = a[:last]
	*h = a
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < last; c++ {
			if a[c].since < a[least].since {
				least = c
			}
		}
		if least == i {
			return first
		}
		a[i], a[least] = a[least], a[i]
		i = least
	}
}
