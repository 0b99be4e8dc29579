package load

import (
	"sync/atomic"
	"time"
)

// A loop is one thread that sends its share of the requests over its share of the
// connections, without waiting for any single one. Nothing in it is shared but
// stop. In the steady state it allocates nothing: a request is written into its
// connection's buffer, answers are read through one buffer, and whoever waits is
// in the lists below.
type loop struct {
	o        *Options
	target   target
	poll     *poll
	stop     atomic.Bool // with poll.wake: end now
	start    time.Time
	source   Source
	recorder Recorder
	beginner Beginner // the recorder, if it is one
	queue    *queue   // nil of a closed loop and of recorded requests

	conns         []conn
	busy          list    // a request is under way; sent first first
	idle          list    // connected and free; used last first
	shut          list    // free without a connection
	thinking      []int32 // heap of a closed loop's connections by when their request is due
	freeSince     time.Duration
	request       Request // of recorded requests the next, if ahead
	ahead         bool
	ended         bool // nothing more falls due
	over          bool // nor is sent: what waits stays unsent
	drained       time.Duration
	in            *receiver
	seen          Observation
	lead          time.Duration // how much earlier than it should wake a sleep is to end
	blockedWrites int           // connections that wait until they can write
	prompt        time.Duration // until when answers are read as soon as they arrive

	account Account
	starved time.Duration // ready to run without a core
	err     error
}

// spin is the longest wait that is spent polling: a sleep would cost as much.
const spin = 4 * time.Microsecond

// refusedPause is the time that a closed loop's user waits after a connection that
// failed. Without it a target that refuses would be asked as fast as it can refuse.
const refusedPause = 10 * time.Millisecond

func (l *loop) now() time.Duration { return time.Since(l.start) }

// free returns the number of requests that could be sent now.
func (l *loop) free() int { return l.idle.n + l.shut.n }

// run sends until the end, on the loop's own thread.
func (l *loop) run() {
	before, waited := threadCPU(), threadWait()
	for l.now() < 0 && !l.stop.Load() {
		_, _ = l.poll.wait(-l.now())
	}
	switch {
	case l.o.Recorded:
		l.fetch()
	case l.queue == nil:
		for range l.conns {
			l.again(l.shut.first, 0, 0)
		}
	}
	for l.step() {
	}
	for i := range l.conns {
		l.close(&l.conns[i])
	}
	l.account.Elapsed = l.now()
	l.account.CPU = threadCPU() - before
	l.starved = max(0, threadWait()-waited)
}

// step does what is to be done now, waits for what comes next, and reports whether
// there is more.
func (l *loop) step() bool {
	now := l.now()
	if l.stop.Load() || l.ended && now >= l.drained {
		l.cutOff(now)
		return false
	}
	l.expire(now)
	l.send(now)
	if l.ended && l.busy.n == 0 && !l.waits() {
		return false
	}
	next := l.next()
	d := next - l.now()
	leave := l.leaves(d)
	if d -= l.lead; d < spin {
		d, leave = 0, false
	}
	if leave {
		nap(d)
		now := l.now()
		l.woke(next - now)
		if l.free() > l.busy.n {
			l.send(now) // first, since the kernel has the times of answers, and connections are many
		}
		d = 0
	}
	events, err := l.poll.wait(d)
	if err != nil {
		l.err = err
		l.cutOff(l.now())
		return false
	}
	if len(events) > 0 {
		l.in.check(l.now())
	} else if d > 0 {
		l.woke(next - l.now())
	}
	for i := range events {
		e := &events[i]
		if e.Fd == wakeID {
			continue // stop is set
		}
		c := &l.conns[e.Fd]
		if c.generation != e.Pad {
			continue // of a connection that was closed meanwhile
		}
		if l.handle(c, e.Events) {
			l.send(l.now())
		}
	}
	return true
}

// woke learns from a sleep that ended by itself, early before the time for which it
// was meant. To wake takes tens of microseconds on a virtual machine. The alarm is
// set ahead by the least that it takes: any more would be spent spinning.
func (l *loop) woke(early time.Duration) {
	const margin, step, most = time.Microsecond, 50 * time.Nanosecond, 30 * time.Microsecond
	switch {
	case early > l.lead: // a signal ended it
	case early > 0:
		l.lead = max(0, l.lead-early-margin)
	case early < -margin:
		l.lead = min(most, l.lead+step)
	}
}

// attentive is the time for which answers are read at once after one that could not
// be left.
const attentive = time.Second

// leaves reports whether answers may be left unread for d, until the next request is
// due. One sleep instead of two halves the cost of a loop that has little to do, and
// the kernel says when the answers arrived. Answers are not left if anything may wait
// for them: a request for a connection, a connection for space in its socket, the
// rest of an answer.
func (l *loop) leaves(d time.Duration) bool {
	return d < short && l.busy.n > 0 && l.free() > 0 && l.blockedWrites == 0 &&
		(l.queue != nil || l.o.Recorded) && l.now() > l.prompt && !l.ended
}

// waits reports whether requests that have fallen due are still to be sent.
func (l *loop) waits() bool {
	return !l.over && (l.queue != nil && l.queue.waiting > 0 || l.ahead || len(l.thinking) > 0)
}

// next returns the time at which something is to be done, whatever happens before.
func (l *loop) next() time.Duration {
	next := l.now() + time.Second
	if l.busy.n > 0 {
		next = min(next, l.conns[l.busy.first].sent+l.o.Timeout)
	}
	if l.ended {
		next = min(next, l.drained)
	}
	if l.o.Duration > 0 && l.waits() {
		next = min(next, l.o.Duration)
	}
	switch {
	case l.queue != nil:
		if l.free() > 0 {
			next = min(next, l.queue.due)
		} else {
			pause := 100 * time.Millisecond // drops are reported in time
			if l.o.Withdrawn != nil {
				pause = dialAhead // and what a Dial stood at meanwhile is known
			}
			next = min(next, l.now()+pause)
		}
	case l.o.Recorded:
		if l.ahead && l.free() > 0 {
			next = min(next, l.request.Due)
		}
	default:
		if len(l.thinking) > 0 {
			next = min(next, l.conns[l.thinking[0]].due)
		}
		if !l.ended && l.o.Duration > 0 {
			next = min(next, l.o.Duration)
		}
	}
	return next
}

// end lets nothing more fall due.
func (l *loop) end(now time.Duration) {
	if l.ended {
		return
	}
	l.ended = true
	l.drained = max(now, l.o.Duration) + l.o.Drain
}

// send sends the requests that are due and find a connection free. At the end of the
// run's time it does so once more.
func (l *loop) send(now time.Duration) {
	if l.over {
		return
	}
	if l.o.Duration > 0 && now >= l.o.Duration {
		defer func() {
			l.over = true
			l.leaveUnsent(now)
			l.end(now)
		}()
		if q := l.queue; q != nil && q.waiting > 0 {
			q.arrive(now, 0)
			return
		}
	}
	switch {
	case l.queue != nil:
		l.sendQueue(now)
	case l.o.Recorded:
		for l.ahead && l.request.Due <= now && l.free() > 0 {
			c := l.pick()
			c.due, c.phase = l.request.Due, 0
			l.load(c)
			l.fetch()
			l.account.Due++
			l.launch(c)
		}
		if !l.ahead {
			l.end(now)
		}
	default:
		if l.o.Duration > 0 && now >= l.o.Duration {
			l.end(now)
			l.thinking = l.thinking[:0] // their requests never fall due
		}
		for len(l.thinking) > 0 && l.conns[l.thinking[0]].due <= now {
			l.account.Due++
			l.launch(&l.conns[l.wakeThinker()])
		}
	}
}

func (l *loop) sendQueue(now time.Duration) {
	q := l.queue
	if q.due > now && q.waiting == 0 {
		if q.due == never {
			l.end(now)
		}
		return
	}
	q.arrive(now, l.free())
	if l.o.Withdrawn != nil && q.waiting > 0 {
		q.withdraw(l.o.Withdrawn())
	}
	for q.waiting > 0 && l.free() > 0 {
		l.request = Request{}
		if !l.source.Next(&l.request) {
			l.account.Exhausted = true
			q.arrived -= uint64(q.waiting) // there are no such requests
			q.waiting, q.due = 0, never
			break
		}
		c := l.pick()
		c.due, c.phase = q.pop()
		l.load(c)
		l.launch(c)
	}
	if q.due == never {
		l.end(now)
	}
}

// fetch reads the next recorded request.
func (l *loop) fetch() {
	l.request = Request{}
	if l.ahead = l.source.Next(&l.request); !l.ahead {
		l.account.Exhausted = true
	} else if l.o.Duration > 0 && l.request.Due >= l.o.Duration {
		l.ahead = false
	}
}

// again gives a closed loop's connection, which is in the list shut or idle, its next
// request, at the earliest after pause.
func (l *loop) again(id int32, now, pause time.Duration) {
	if l.ended || l.o.Duration > 0 && now >= l.o.Duration {
		l.end(now)
		return
	}
	l.request = Request{}
	if !l.source.Next(&l.request) {
		l.account.Exhausted = true
		l.end(now)
		return
	}
	c := &l.conns[id]
	l.unlink(c)
	l.load(c)
	c.due, c.phase = now+max(l.request.Think, pause), 0
	if c.due > now {
		l.think(id)
		return
	}
	l.account.Due++
	l.launch(c)
}

// expire gives up requests whose time has run out.
func (l *loop) expire(now time.Duration) {
	for l.busy.n > 0 {
		c := &l.conns[l.busy.first]
		if c.sent+l.o.Timeout > now {
			return
		}
		l.finish(c, Timeout, now)
	}
}

// leaveUnsent counts recorded requests that have fallen due as unsent. Those of a queue
// are what is left in it.
func (l *loop) leaveUnsent(now time.Duration) {
	for l.ahead && l.request.Due <= now {
		l.account.Due++
		l.account.Unsent++
		l.fetch()
	}
}

// cutOff ends what is under way and what waits.
func (l *loop) cutOff(now time.Duration) {
	if l.queue != nil {
		l.queue.arrive(min(now, never-1), 0)
	}
	l.leaveUnsent(now)
	l.ended, l.drained, l.ahead = true, now, false
	for l.busy.n > 0 {
		l.finish(&l.conns[l.busy.first], CutOff, now)
	}
}

// total returns the loop's account. The loop has ended.
func (l *loop) total() Account {
	a := l.account
	if q := l.queue; q != nil {
		a.Due, a.Dropped, a.Unsent = q.arrived, q.dropped, uint64(q.waiting)
	}
	return a
}
