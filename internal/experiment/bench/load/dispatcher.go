package load

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// A dispatcher hands the requests of one loop to its lines as they fall due, and
// accounts for them. A line carries one request at a time: a connection of HTTP/1.1,
// a stream of HTTP/2. A line that has finished a request takes the next one that
// waits. The dispatcher's own goroutine sends the requests that find a line free.
type dispatcher struct {
	o        *Options
	start    time.Time
	source   Source
	recorder Recorder
	beginner Beginner // the recorder, if it is one
	pacer    Pacer    // nil of a closed loop and of recorded requests
	alarm    *alarm
	empty    chan struct{} // closed once ending and nothing is under way nor waits

	mu       sync.Mutex
	request  Request
	lines    []*line
	open     ring[*line] // free and, last they were seen, connected; longest free first
	shut     []*line     // free without a connection
	waiting  ring[job]
	limit    int // of waiting
	thinking thoughts
	under    int  // requests under way
	ending   bool // no more requests fall due
	ended    bool // and none that wait are sent
	account  Account
}

// job is a request that waits for a line. request is nil unless it was recorded: the
// source is then asked for it when it is sent.
type job struct {
	due     time.Duration
	phase   int
	request *Request
}

// line carries one request at a time. The dispatcher's mu guards its fields, except
// those of the request under way, which the carrier reads.
type line struct {
	dispatcher *dispatcher
	via        carrier

	o       Observation
	free    time.Duration // since when, while it is
	head    bool          // the request's method is HEAD
	busy    bool          // a request is under way
	open    bool          // it has a connection
	expired bool          // its request has timed out
	cut     bool          // its request was cut off
}

// carrier sends a line's requests.
type carrier interface {
	// keep stores what send needs of r. The dispatcher is locked.
	keep(r *Request)
	// send begins to send what was taken, without waiting for anything.
	// dispatcher.done is called at its end.
	send()
	// abandon gives up the request under way. It reports whether the request has
	// ended: if not, dispatcher.done is called later. The dispatcher is locked.
	abandon() (ended bool)
}

// answer is the outcome of a request that was sent.
type answer struct {
	first, end time.Duration
	status     int
	bytes      int64
	cause      Cause
	check      int
}

func (d *dispatcher) now() time.Duration { return time.Since(d.start) }

// pace sends requests as they fall due, until the run ends.
func (d *dispatcher) pace(ctx context.Context) {
	switch {
	case d.o.Recorded:
		d.replay(ctx)
	case d.pacer != nil:
		d.follow(ctx)
	default:
		d.repeat(ctx)
	}
	if d.o.Duration > 0 && d.waits() && d.until(ctx, d.o.Duration) {
		d.end()
	}
	d.mu.Lock()
	d.ending = true
	d.closeIfEmpty()
	d.mu.Unlock()
}

// waits reports whether requests that have fallen due are still to be sent.
func (d *dispatcher) waits() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waiting.len() > 0
}

// end lets nothing be sent any more that waits.
func (d *dispatcher) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leaveUnsent()
}

// leaveUnsent counts what waits as unsent. The dispatcher is locked.
func (d *dispatcher) leaveUnsent() {
	d.account.Unsent += uint64(d.waiting.len())
	d.waiting = ring[job]{}
}

// until waits until due and reports whether the run goes on.
func (d *dispatcher) until(ctx context.Context, due time.Duration) bool {
	for {
		now := d.now()
		if ctx.Err() != nil {
			return false
		}
		if now >= due {
			return true
		}
		d.mu.Lock()
		ending := d.ending
		d.mu.Unlock()
		if ending {
			return false
		}
		d.alarm.wait(due - now)
	}
}

// follow sends by the pacer's schedule.
func (d *dispatcher) follow(ctx context.Context) {
	for {
		due, phase, ok := d.pacer.Next()
		if !ok || d.o.Duration > 0 && due >= d.o.Duration || !d.until(ctx, due) {
			return
		}
		d.withdraw()
		if phase != Again && !d.dispatch(job{due: due, phase: phase}) {
			return
		}
	}
}

// withdraw drops the waiting requests that are not to be sent any more.
func (d *dispatcher) withdraw() {
	if d.o.Withdrawn == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for upTo := d.o.Withdrawn(); d.waiting.len() > 0 && d.waiting.first().phase <= upTo; {
		j := d.waiting.pop()
		d.account.Dropped++
		d.recorder.Drop(j.due, j.phase)
	}
}

// replay sends by the requests' own times.
func (d *dispatcher) replay(ctx context.Context) {
	var r Request
	for {
		r = Request{}
		d.mu.Lock()
		ok := d.source.Next(&r)
		d.account.Exhausted = !ok
		d.mu.Unlock()
		if !ok || d.o.Duration > 0 && r.Due >= d.o.Duration || !d.until(ctx, r.Due) || !d.dispatch(job{due: r.Due, request: &r}) {
			return
		}
	}
}

// repeat keeps every line busy. Each thinks before its request.
func (d *dispatcher) repeat(ctx context.Context) {
	for _, l := range d.lines {
		d.mu.Lock()
		more := d.again(l, d.now(), 0)
		d.mu.Unlock()
		if more {
			l.via.send()
		}
	}
	for ctx.Err() == nil {
		ready, next := d.thought()
		for _, l := range ready {
			l.via.send()
		}
		if next < 0 {
			return
		}
		d.alarm.wait(next)
	}
}

// thought returns the lines that have thought long enough, with their requests
// launched, and the time until the next line is ready, negative at the end of the
// loop.
func (d *dispatcher) thought() (ready []*line, next time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	over := d.o.Duration > 0 && now >= d.o.Duration
	if d.ending || over {
		return nil, -1
	}
	for len(d.thinking) > 0 && d.thinking[0].o.Due <= now {
		l := heap.Pop(&d.thinking).(*line)
		d.account.Due++
		d.launch(l)
		ready = append(ready, l)
	}
	next = time.Hour
	if len(d.thinking) > 0 {
		next = d.thinking[0].o.Due - now
	}
	if d.o.Duration > 0 {
		next = min(next, d.o.Duration-now)
	}
	return ready, next
}

// dispatch hands a request that has fallen due to a free line, or queues it, or drops
// it. It reports whether there are more requests.
func (d *dispatcher) dispatch(j job) bool {
	d.mu.Lock()
	if d.ending {
		d.mu.Unlock()
		return false
	}
	d.account.Due++
	withdrawn := d.o.Withdrawn != nil && j.phase <= d.o.Withdrawn()
	var l *line
	if !withdrawn {
		l = d.pick()
	}
	if l == nil {
		if !withdrawn && d.waiting.len() < d.limit {
			j.keep()
			d.waiting.push(j)
		} else {
			d.account.Dropped++
			d.recorder.Drop(j.due, j.phase)
		}
		d.mu.Unlock()
		return true
	}
	ok := d.begin(l, j)
	d.mu.Unlock()
	if ok {
		l.via.send()
	}
	return ok
}

// keep copies a request so that it outlasts its source's next.
func (j *job) keep() {
	if j.request == nil {
		return
	}
	r := *j.request
	r.Header = append([]Field(nil), r.Header...)
	r.Body = append([]byte(nil), r.Body...)
	r.Wire = append([]byte(nil), r.Wire...)
	j.request = &r
}

// pick takes the line that has been free longest, one with an open connection if it
// can. It returns nil if all are busy.
func (d *dispatcher) pick() *line {
	for d.open.len() > 0 {
		l := d.open.pop()
		if l.open {
			return l
		}
		d.shut = append(d.shut, l) // its connection was closed meanwhile
	}
	if n := len(d.shut); n > 0 {
		l := d.shut[n-1]
		d.shut = d.shut[:n-1]
		return l
	}
	return nil
}

// begin gives a free line a request. It returns false if the requests have run out.
func (d *dispatcher) begin(l *line, j job) bool {
	r := j.request
	if r == nil {
		r = &d.request
		*r = Request{}
		if !d.source.Next(r) {
			d.exhaust(1)
			return false
		}
	}
	d.load(l, r)
	l.o.Due, l.o.Phase = j.due, j.phase
	d.launch(l)
	return true
}

// load puts a request on a line.
func (d *dispatcher) load(l *line, r *Request) {
	l.o = Observation{Query: r.Query, Tenant: r.Tenant, Check: -1}
	l.head = r.Method == "HEAD"
	l.via.keep(r)
}

// launch marks a line's request as under way.
func (d *dispatcher) launch(l *line) {
	now := d.now()
	l.o.Sent = now
	l.o.Late = max(0, now-max(l.o.Due, l.free))
	l.busy, l.expired, l.cut = true, false, false
	d.under++
	d.account.Sent++
	if d.beginner != nil {
		d.beginner.Begin(l.o.Query, l.o.Phase, l.o.Due, now)
	}
}

// exhaust ends the run because the requests have run out. It takes back asked
// requests that were counted as due, and those that wait.
func (d *dispatcher) exhaust(asked int) {
	d.account.Due -= uint64(asked + d.waiting.len())
	d.waiting = ring[job]{}
	d.account.Exhausted, d.ending = true, true
	d.closeIfEmpty()
	d.alarm.wake()
}

// done accounts for a line's request. more reports that the line has taken another
// request, which the caller has to send. Otherwise the line is free, and open says
// whether its connection is.
func (d *dispatcher) done(l *line, a answer, open bool) (more bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l.open = open
	return d.finish(l, a)
}

func (d *dispatcher) finish(l *line, a answer) (more bool) {
	o := &l.o
	o.FirstByte, o.End, o.Status, o.Bytes, o.Cause, o.Check = a.first, a.end, a.status, a.bytes, a.cause, a.check
	if a.cause != Answered || l.expired || l.cut {
		o.Status, o.Check = 0, -1
	}
	switch {
	case l.expired:
		o.Cause = Timeout
	case l.cut:
		o.Cause = CutOff
	}
	if o.FirstByte == 0 {
		o.FirstByte = o.End
	}
	d.recorder.Observe(o)
	d.under--
	l.busy, l.free = false, a.end
	defer d.closeIfEmpty()
	if !d.ended {
		switch {
		case d.waiting.len() > 0:
			return d.begin(l, d.waiting.pop())
		case d.pacer == nil && !d.o.Recorded:
			pause := time.Duration(0)
			if a.cause == Connect || a.cause == TLS {
				pause = 10 * time.Millisecond // or a target that refuses is asked as fast as it can refuse
			}
			if !d.ending {
				return d.again(l, a.end, pause)
			}
		}
	}
	if l.open {
		d.open.push(l)
	} else {
		d.shut = append(d.shut, l)
	}
	return false
}

// again gives a closed loop's line its next request, at the earliest after pause. It
// reports whether the request is to be sent now.
func (d *dispatcher) again(l *line, now, pause time.Duration) bool {
	if d.o.Duration > 0 && now >= d.o.Duration {
		d.ending = true
		d.alarm.wake()
		return false
	}
	r := &d.request
	*r = Request{}
	if d.ending || !d.source.Next(r) {
		if !d.ending {
			d.exhaust(0)
		}
		return false
	}
	d.load(l, r)
	l.o.Due = now + max(r.Think, pause)
	if l.o.Due > now {
		heap.Push(&d.thinking, l)
		if d.thinking[0] == l {
			d.alarm.wake()
		}
		return false
	}
	d.account.Due++
	l.free = now
	d.launch(l)
	return true
}

// expects reports whether a line's request is under way.
func (d *dispatcher) expects(l *line) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return l.busy
}

// closeIfEmpty closes empty at the end of the run, when nothing waits or is under
// way. The dispatcher is locked.
func (d *dispatcher) closeIfEmpty() {
	if !d.ending || d.under > 0 || d.waiting.len() > 0 {
		return
	}
	select {
	case <-d.empty:
	default:
		close(d.empty)
	}
}

// cutOff ends what is under way and what waits.
func (d *dispatcher) cutOff() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ending, d.ended = true, true
	d.leaveUnsent()
	now := d.now()
	for _, l := range d.lines {
		if l.busy {
			l.cut = true
			if l.via.abandon() {
				d.finish(l, answer{end: now, cause: CutOff})
			}
		}
	}
	d.closeIfEmpty()
}

// watch gives up requests after Options.Timeout. The time-out is the same for all, so
// the oldest request is the next to run out.
func (d *dispatcher) watch(stop <-chan struct{}) {
	t := time.NewTimer(d.o.Timeout)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
		}
		next, more := d.expire()
		for _, l := range more {
			l.via.send()
		}
		t.Reset(next)
	}
}

// expire gives up requests that have run out. It returns the time until the next may,
// and the lines that have taken a request to be sent.
func (d *dispatcher) expire() (next time.Duration, more []*line) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	oldest := now
	for _, l := range d.lines {
		switch {
		case !l.busy || l.expired || l.cut:
		case now-l.o.Sent < d.o.Timeout:
			oldest = min(oldest, l.o.Sent)
		default:
			l.expired = true
			if l.via.abandon() && d.finish(l, answer{end: now, cause: Timeout}) {
				more = append(more, l)
			}
		}
	}
	return max(oldest+d.o.Timeout-now, 100*time.Microsecond), more
}

// thoughts is a heap of lines by when their next request is due, earliest first.
type thoughts []*line

func (t thoughts) Len() int           { return len(t) }
func (t thoughts) Less(i, j int) bool { return t[i].o.Due < t[j].o.Due }
func (t thoughts) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *thoughts) Push(x any)        { *t = append(*t, x.(*line)) }
func (t *thoughts) Pop() any {
	last := len(*t) - 1
	l := (*t)[last]
	*t = (*t)[:last]
	return l
}

// ring is a queue that grows.
type ring[T any] struct {
	at   []T // len is a power of two
	head int
	n    int
}

func (q *ring[T]) len() int { return q.n }

func (q *ring[T]) push(v T) {
	if q.n == len(q.at) {
		at := make([]T, max(16, 2*q.n))
		for i := range q.n {
			at[i] = q.at[(q.head+i)&(len(q.at)-1)]
		}
		q.at, q.head = at, 0
	}
	q.at[(q.head+q.n)&(len(q.at)-1)] = v
	q.n++
}

func (q *ring[T]) first() T { return q.at[q.head] }

func (q *ring[T]) pop() T {
	var none T
	v := q.at[q.head]
	q.at[q.head] = none
	q.head = (q.head + 1) & (len(q.at) - 1)
	q.n--
	return v
}
