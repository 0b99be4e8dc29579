package capacity

import (
	"sync"
	"time"

	"tailscope/hist"
	"tailscope/internal/experiment/bench/load"
)

// An observer counts what an engine's loops observe, step by step, and what is under
// way. Steps are the engine's phases, which rise.
type observer struct {
	queries int
	accepts func(query, status int) bool

	mu    sync.Mutex
	loops []*loopObserver
}

func newObserver(queries int, accepts func(query, status int) bool) *observer {
	return &observer{queries: max(queries, 1), accepts: accepts}
}

// Recorder is load.Options.Recorder.
func (t *observer) Recorder(_, _ int) load.Recorder {
	l := &loopObserver{observer: t}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.loops = append(t.loops, l)
	return l
}

// loopObserver observes one loop. takeCounts removes the counts, and leaves what is under
// way; both hold the lock for moments only.
type loopObserver struct {
	observer *observer
	mu       sync.Mutex
	of       []*stepCounts // steps of which something is under way or not taken yet
}

// stepCounts counts the requests of a step.
type stepCounts struct {
	step    int
	queries []queryCounts
	begun   uint64        // sent
	dropped uint64        // due and never sent
	last    time.Duration // when the last was sent
	late    *hist.Histogram
	waited  time.Duration // of all that ended: from due to sent
}

type queryCounts struct {
	begun         uint64
	ended, errors uint64
	cut           uint64          // off by the end of the load
	latency       *hist.Histogram // of all that ended, from when they were due; nil if none did
	service       *hist.Histogram // likewise from when they were sent
	under         ages
}

// ages counts requests under way by when they were due, rounded to ageWidth.
type ages map[int64]uint32

const ageWidth = 5 * time.Millisecond

func (a ages) add(due time.Duration) { a[int64(due/ageWidth)]++ }

func (a ages) remove(due time.Duration) {
	k := int64(due / ageWidth)
	if n := a[k]; n > 1 {
		a[k] = n - 1
	} else {
		delete(a, k)
	}
}

// sum returns the number of requests under way, and the least age of the oldest.
func (a ages) sum(now time.Duration) (n uint64, oldest time.Duration) {
	for k, c := range a {
		n += uint64(c)
		oldest = max(oldest, now-time.Duration(k+1)*ageWidth)
	}
	return n, oldest
}

// step returns the counts of a step. The loop is locked.
func (l *loopObserver) step(step int) *stepCounts {
	for i := len(l.of) - 1; i >= 0; i-- {
		if l.of[i].step == step {
			return l.of[i]
		}
	}
	t := &stepCounts{step: step, queries: make([]queryCounts, l.observer.queries), late: hist.New(hist.DefaultSchema)}
	for i := range t.queries {
		t.queries[i].under = ages{}
	}
	l.of = append(l.of, t)
	return t
}

func (t *stepCounts) query(i int) *queryCounts { return &t.queries[min(max(i, 0), len(t.queries)-1)] }

// Begin counts a request that is sent.
func (l *loopObserver) Begin(query, phase int, due, sent time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.step(phase)
	q := t.query(query)
	t.begun++
	t.last = max(t.last, sent)
	q.begun++
	q.under.add(due)
}

// Observe counts a request that ended.
func (l *loopObserver) Observe(o *load.Observation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.step(o.Phase)
	q := t.query(o.Query)
	q.under.remove(o.Due)
	if o.Cause == load.CutOff {
		q.cut++
		return
	}
	q.ended++
	if o.Cause != load.Answered || o.Check >= 0 || !l.observer.accepts(o.Query, o.Status) {
		q.errors++
	}
	if q.latency == nil {
		q.latency, q.service = hist.New(hist.DefaultSchema), hist.New(hist.DefaultSchema)
	}
	_ = q.latency.RecordNanos(int64(max(o.End-o.Due, 0)), 1) // refuses only what cannot be
	_ = q.service.RecordNanos(int64(max(o.End-o.Sent, 0)), 1)
	_ = t.late.RecordNanos(int64(o.Late), 1)
	t.waited += o.Sent - o.Due
}

// Drop counts a request that was due and dropped.
func (l *loopObserver) Drop(_ time.Duration, phase int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.step(phase).dropped++
}

// observed holds what all loops observed of a step since the last take.
type observed struct {
	stepCounts
	under  []uint64 // by query: requests that are sent and not answered
	oldest []time.Duration
	all    *hist.Histogram // latency of all queries
	served *hist.Histogram // from when they were sent
	ended  uint64
	errors uint64
}

func newObserved(step, queries int) *observed {
	return &observed{
		stepCounts: stepCounts{step: step, queries: make([]queryCounts, queries), late: hist.New(hist.DefaultSchema)},
		under:      make([]uint64, queries), oldest: make([]time.Duration, queries),
		all: hist.New(hist.DefaultSchema), served: hist.New(hist.DefaultSchema),
	}
}

// takeCounts returns what was observed since the last call, by step. now is the engine's
// time.
func (t *observer) takeCounts(now time.Duration) map[int]*observed {
	out := map[int]*observed{}
	t.mu.Lock()
	loops := t.loops
	t.mu.Unlock()
	for _, l := range loops {
		for _, s := range l.takeCounts() {
			g := out[s.step]
			if g == nil {
				g = newObserved(s.step, t.queries)
				out[s.step] = g
			}
			g.add(s, now)
		}
	}
	return out
}

// takeCounts removes the counts and leaves copies of what is under way.
func (l *loopObserver) takeCounts() []*stepCounts {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out, left []*stepCounts
	for i, s := range l.of {
		next := &stepCounts{step: s.step, queries: make([]queryCounts, len(s.queries)), late: hist.New(hist.DefaultSchema), last: s.last}
		busy := i == len(l.of)-1
		for k := range s.queries {
			q := &s.queries[k]
			next.queries[k].under = q.under
			under := make(ages, len(q.under))
			for at, n := range q.under {
				under[at] = n
			}
			q.under, busy = under, busy || len(under) > 0
		}
		if out = append(out, s); busy {
			left = append(left, next)
		}
	}
	l.of = left
	return out
}

func (g *observed) add(s *stepCounts, now time.Duration) {
	g.begun, g.dropped, g.waited, g.last = g.begun+s.begun, g.dropped+s.dropped, g.waited+s.waited, max(g.last, s.last)
	_ = g.late.Merge(s.late)
	for i := range s.queries {
		from, to := &s.queries[i], &g.queries[i]
		to.begun, to.ended, to.errors, to.cut = to.begun+from.begun, to.ended+from.ended, to.errors+from.errors, to.cut+from.cut
		g.ended, g.errors = g.ended+from.ended, g.errors+from.errors
		if from.latency != nil {
			if to.latency == nil {
				to.latency = hist.New(hist.DefaultSchema)
			}
			_ = to.latency.Merge(from.latency)
			_ = g.all.Merge(from.latency)
			_ = g.served.Merge(from.service)
		}
		n, oldest := from.under.sum(now)
		g.under[i], g.oldest[i] = g.under[i]+n, max(g.oldest[i], oldest)
	}
}

// merge adds what another engine observed of the same step at the same moment.
func (g *observed) merge(o *observed) {
	g.begun, g.dropped, g.waited, g.last = g.begun+o.begun, g.dropped+o.dropped, g.waited+o.waited, max(g.last, o.last)
	g.ended, g.errors = g.ended+o.ended, g.errors+o.errors
	_ = g.late.Merge(o.late)
	_ = g.all.Merge(o.all)
	_ = g.served.Merge(o.served)
	for i := range o.queries {
		from, to := &o.queries[i], &g.queries[i]
		to.begun, to.ended, to.errors, to.cut = to.begun+from.begun, to.ended+from.ended, to.errors+from.errors, to.cut+from.cut
		if from.latency != nil {
			if to.latency == nil {
				to.latency = hist.New(hist.DefaultSchema)
			}
			_ = to.latency.Merge(from.latency)
		}
		g.under[i], g.oldest[i] = g.under[i]+o.under[i], max(g.oldest[i], o.oldest[i])
	}
}
