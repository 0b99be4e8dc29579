// Package clock wakes those who wait when they asked to be woken, and asks at random
// moments that are kept.
package clock

import (
	"container/heap"
	"context"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Clock wakes those who wait, some ten microseconds late: the runtime's own timers
// are up to a millisecond late, because they wait for the network poller.
type Clock struct {
	mu      sync.Mutex
	waiting alarms
	more    chan struct{} // something waits where nothing did
}

type alarm struct {
	due  time.Time
	ring chan struct{}
}

// nap bounds one sleep, since an earlier alarm may be set meanwhile.
const nap = 200 * time.Microsecond

// New is one that rings while it runs.
func New() *Clock { return &Clock{more: make(chan struct{}, 1)} }

// Run rings until ctx ends.
func (c *Clock) Run(ctx context.Context) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		c.mu.Lock()
		now := time.Now()
		for len(c.waiting) > 0 && !c.waiting[0].due.After(now) {
			close(heap.Pop(&c.waiting).(alarm).ring)
		}
		left := time.Duration(-1)
		if len(c.waiting) > 0 {
			left = c.waiting[0].due.Sub(now)
		}
		c.mu.Unlock()
		if left >= 0 && ctx.Err() == nil {
			ts := unix.NsecToTimespec(int64(min(left, nap)))
			_ = unix.Nanosleep(&ts, nil) // an interrupted nap is a short one
			continue
		}
		select {
		case <-c.more:
		case <-ctx.Done():
			return
		}
	}
}

// Until waits for a moment, or for ctx.
func (c *Clock) Until(ctx context.Context, due time.Time) {
	a := alarm{due, make(chan struct{})}
	c.mu.Lock()
	heap.Push(&c.waiting, a)
	c.mu.Unlock()
	select {
	case c.more <- struct{}{}:
	default:
	}
	select {
	case <-a.ring:
	case <-ctx.Done():
	}
}

type alarms []alarm

func (a alarms) Len() int           { return len(a) }
func (a alarms) Less(i, j int) bool { return a[i].due.Before(a[j].due) }
func (a alarms) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *alarms) Push(x any)        { *a = append(*a, x.(alarm)) }
func (a *alarms) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}
