package check

import (
	"container/heap"
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tailscope/internal/guard/check/schedule"
)

// task runs as one: all instances of a definition whose values are in
// the store, or one instance of another. Guarded by loop.mu.
type task struct {
	d       *definition
	only    *instance          // nil: all
	own     *schedule.Schedule // instead of the definition's
	due     time.Time          // when queued
	at      int                // in the heap, -1: not in it
	busy    bool
	removed atomic.Bool
}

func (t *task) schedule() schedule.Schedule {
	if t.own != nil {
		return *t.own
	}
	return t.d.schedule
}

// loop starts tasks when they are due. A heap holds when that is; those that are
// due wait in one of two queues, since checks that wait for something outside must not
// delay those that the store answers.
type loop struct {
	now     func() time.Time
	run     func(ctx context.Context, t *task, due time.Time)
	skipped atomic.Uint64
	lag     lags

	mu     sync.Mutex
	heap   dueHeap
	follow map[string][]*task // by the check that they run after
	rounds map[*definition]*round
	seen   time.Time // when dispatch last looked
	wake   chan struct{}

	store, outside taskQueue
}

// round counts the instances of an Each that have run, where each runs by itself.
type round struct {
	all map[string]*task // by labels
	ran map[*task]bool   // since the last round was over
}

// markRan notes that t has run, and reports whether a round is over: all have run, or t
// has run twice.
func (r *round) markRan(t *task) bool {
	if r.ran[t] {
		r.ran = map[*task]bool{t: true}
		return true
	}
	r.ran[t] = true
	if len(r.ran) < len(r.all) {
		return false
	}
	clear(r.ran)
	return true
}

// taskQueue holds due tasks, the oldest first.
type taskQueue struct {
	mu    sync.Mutex
	tasks []started
	more  chan struct{} // holds a token while tasks may be there
}

type started struct {
	t   *task
	due time.Time
}

func newLoop(now func() time.Time) *loop {
	l := &loop{now: now, follow: map[string][]*task{}, rounds: map[*definition]*round{}, wake: make(chan struct{}, 1)}
	l.store.more, l.outside.more = make(chan struct{}, 1), make(chan struct{}, 1)
	return l
}

// add schedules a task from a moment on.
func (l *loop) add(t *task, after time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.at = -1
	if t.only != nil && t.d.c.Each != nil {
		r := l.rounds[t.d]
		if r == nil {
			r = &round{all: map[string]*task{}, ran: map[*task]bool{}}
			l.rounds[t.d] = r
		}
		r.all[t.only.key.Labels] = t
	}
	if name, _, ok := t.schedule().After(); ok {
		l.follow[name] = append(l.follow[name], t)
		return
	}
	if t.due = t.schedule().Next(after); !t.due.IsZero() {
		heap.Push(&l.heap, t)
		l.wakeUp()
	}
}

func (l *loop) remove(t *task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.removed.Store(true)
	if t.at >= 0 {
		heap.Remove(&l.heap, t.at)
	}
	if r := l.rounds[t.d]; r != nil && r.all[t.only.key.Labels] == t {
		delete(r.all, t.only.key.Labels)
		delete(r.ran, t)
		if len(r.all) == 0 {
			delete(l.rounds, t.d)
		}
	}
	if name, _, ok := t.schedule().After(); ok {
		if l.follow[name] = slices.DeleteFunc(l.follow[name], func(o *task) bool { return o == t }); len(l.follow[name]) == 0 {
			delete(l.follow, name)
		}
	}
}

// dueTime returns when a task is due, zero if that is not known.
func (l *loop) dueTime(t *task) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.at < 0 {
		return time.Time{}
	}
	return t.due
}

func (l *loop) wakeUp() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// serve runs tasks until ctx is done, and returns when none is under way.
func (l *loop) serve(ctx context.Context, outside int) {
	var all sync.WaitGroup
	for range max(2, runtime.GOMAXPROCS(0)) {
		all.Go(func() { l.work(ctx, &l.store) })
	}
	for range outside {
		all.Go(func() { l.work(ctx, &l.outside) })
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		wait := l.dispatch()
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			all.Wait()
			return
		case <-l.wake:
		case <-timer.C:
		}
	}
}

// dispatch moves due tasks to their queue, and returns the time until the next is due.
func (l *loop) dispatch() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if back := l.seen.Round(0).Sub(now.Round(0)); back > time.Second {
		l.replan(now)
	}
	l.seen = now
	for len(l.heap) > 0 {
		t := l.heap[0]
		if wait := t.due.Sub(now); wait > 0 {
			return min(wait, time.Minute)
		}
		due := t.due
		if _, _, follows := t.schedule().After(); follows {
			heap.Pop(&l.heap)
		} else {
			// Runs that were slept through are not made up for.
			if t.due = t.schedule().Next(now); t.due.IsZero() {
				heap.Pop(&l.heap)
			} else {
				heap.Fix(&l.heap, 0)
			}
		}
		if t.busy {
			l.skipped.Add(1)
			continue
		}
		t.busy = true
		if t.d.store {
			l.store.push(started{t, due})
		} else {
			l.outside.push(started{t, due})
		}
	}
	return time.Minute
}

// replan makes what is due anew after the clock was set back: else nothing would
// run until it has come as far again. Needs mu.
func (l *loop) replan(now time.Time) {
	for _, t := range l.heap {
		next := t.schedule().Next(now)
		if _, delay, follows := t.schedule().After(); follows {
			next = now.Add(delay)
		}
		if next.Before(t.due) {
			t.due = next
		}
	}
	heap.Init(&l.heap)
}

func (l *taskQueue) push(s started) {
	l.mu.Lock()
	l.tasks = append(l.tasks, s)
	l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// pop removes the oldest task, and leaves a token if another waits.
func (l *taskQueue) pop() (started, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.tasks) == 0 {
		return started{}, false
	}
	s := l.tasks[0]
	l.tasks[0] = started{}
	l.tasks = l.tasks[1:]
	if len(l.tasks) > 0 {
		select {
		case l.more <- struct{}{}:
		default:
		}
	}
	return s, true
}

func (l *loop) work(ctx context.Context, from *taskQueue) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-from.more:
		}
		for ctx.Err() == nil {
			s, ok := from.pop()
			if !ok {
				break
			}
			l.lag.add(l.now().Sub(s.due), l.now())
			l.run(ctx, s.t, s.due)
			l.finish(s.t)
		}
	}
}

// finish lets a task run again, and what follows its check: of two Each over the same
// labels the instance of the same values, else when all instances have run.
func (l *loop) finish(t *task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.busy = false
	now := l.now()
	r, over := l.rounds[t.d], t.only == nil || t.d.c.Each == nil
	if !over && r != nil && r.all[t.only.key.Labels] == t {
		over = r.markRan(t)
	}
	for _, f := range l.follow[t.d.c.Name] {
		if f.at >= 0 || f.removed.Load() {
			continue // it waits already
		}
		if r != nil && f.only != nil && slices.Equal(f.d.by, t.d.by) && r.all[f.only.key.Labels] != nil {
			if f.only.key.Labels != t.only.key.Labels {
				continue // its own is another
			}
		} else if !over {
			continue // once when all have run, not for each
		}
		_, delay, _ := f.schedule().After()
		f.due = now.Add(delay)
		heap.Push(&l.heap, f)
		l.wakeUp()
	}
}

type dueHeap []*task

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}
func (h *dueHeap) Push(x any) {
	t := x.(*task)
	t.at = len(*h)
	*h = append(*h, t)
}
func (h *dueHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	t.at = -1
	*h = old[:len(old)-1]
	return t
}
