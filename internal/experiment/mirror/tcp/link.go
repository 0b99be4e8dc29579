package tcp

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"tailscope/internal/experiment/mirror/pair"
)

const (
	// An answer is whole when it is as long as the primary's, or when nothing came
	// for a while. That while halves each time nothing came indeed, and doubles when
	// something did: a candidate's answers may be shorter than the primary's every
	// time.
	leastQuiet, mostQuiet = 50 * time.Microsecond, 5 * time.Millisecond
	// longestHold bounds the wait of a turn for the answer to the one before. After
	// that the connection's turns are no longer timed: which bytes answer which is
	// not known.
	longestHold = time.Second

	smallSegment = 2 << 10
)

var small = sync.Pool{New: func() any { b := make([]byte, 0, smallSegment); return &b }}

// segment is bytes that wait for a shadow; turn, if not nil, begins with them.
type segment struct {
	data *[]byte
	turn *turn
}

// link is a shadow's connection. Put, finish and end never wait for the shadow.
type link struct {
	sender  *sender
	server  *server
	c       *conn
	x       *pair.Exchange
	connect *pair.Exchange
	cancel  context.CancelFunc // of connecting
	wake    chan struct{}
	offered bool // the turn that c begins; by c.up alone

	mu       sync.Mutex
	queue    []segment
	queued   int64 // capacity of its bytes
	finished bool  // the client has sent all
	over     int64 // since when the client's connection has ended, 0 if it has not
	sent     bool  // all of it was written
	dead     bool
	cause    pair.Cause
	conn     net.Conn
	eof      bool // the shadow has closed
	timed    bool // turns were taken out of step
	turn     *turn
	turnAt   int64 // when the turn's bytes were about to be written
	answer   int64 // bytes since then
	readAt   int64
	heldAt   int64 // since when a turn waits for the one before
	quiet    time.Duration
	quietAt  int64 // readAt when it was last waited for
	writeAt  int64 // since when a write has not returned
	start    int64 // when connecting began, once it has succeeded
	first    int64
	bytes    int64
}

func (l *link) alive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.dead
}

// queueBytes copies the client's bytes into the queue. The link ends if they exceed the
// budget.
func (l *link) queueBytes(data []byte, t *turn) {
	if t != nil && !l.offered {
		t = nil
	}
	l.mu.Lock()
	if l.dead {
		cause := l.cause
		l.mu.Unlock()
		if t != nil {
			t.x.EndCopy(l.sender.shadow, pair.Leg{Cause: cause})
		}
		return
	}
	if n := len(l.queue); t == nil && n > 0 {
		if last := l.queue[n-1].data; len(*last)+len(data) <= cap(*last) {
			*last = append(*last, data...)
			l.mu.Unlock()
			return // who waits for the turn's first bytes takes these too
		}
	}
	size := int64(max(len(data), smallSegment))
	why := pair.None
	if l.queued+size > l.sender.p.o.ConnBuffer {
		why = pair.BodyBehind
	} else if !l.sender.budget.Reserve(size) {
		why = pair.BufferFull
	}
	if why != pair.None {
		l.mu.Unlock()
		if t != nil {
			t.x.EndCopy(l.sender.shadow, pair.Leg{Cause: why})
		}
		l.end(why)
		return
	}
	s := segment{turn: t}
	if len(data) <= smallSegment {
		s.data = small.Get().(*[]byte)
	} else {
		b := make([]byte, 0, len(data))
		s.data = &b
	}
	*s.data = append((*s.data)[:0], data...)
	l.queued += size
	l.queue = append(l.queue, s)
	idle := len(l.queue) == 1
	l.mu.Unlock()
	if idle { // else it is busy, or waits for an answer
		l.signal()
	}
}

func (l *link) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// finish notes that the client has sent everything.
func (l *link) finish() {
	l.mu.Lock()
	l.finished = true
	l.mu.Unlock()
	l.signal()
}

// ends notes the end of the client's connection, so that the shadow's ends too.
func (l *link) ends() {
	l.mu.Lock()
	l.finished = true
	l.over = l.sender.p.o.Now()
	l.mu.Unlock()
	l.signal()
}

// release gives back the budget of a segment; needs mu.
func (l *link) release(s segment) {
	size := int64(cap(*s.data))
	l.queued -= size
	l.sender.budget.Release(size)
	if size == smallSegment {
		small.Put(s.data)
	}
}

// end closes the link and the accounts of everything that it still owed. A second
// call does nothing.
func (l *link) end(why pair.Cause) {
	l.mu.Lock()
	if l.dead {
		l.mu.Unlock()
		return
	}
	l.dead, l.cause = true, why
	queue := l.queue
	l.queue = nil
	for _, s := range queue {
		l.release(s)
	}
	t, at := l.turn, l.turnAt
	l.turn = nil
	if l.conn != nil {
		if why == pair.None {
			l.conn.Close()
		} else {
			reset(l.conn)
		}
	}
	now := l.sender.p.o.Now()
	leg := pair.Leg{Start: l.start, FirstByte: l.first, End: now, Bytes: l.bytes, Cause: why}
	connecting := l.start == 0
	l.mu.Unlock()
	l.signal()
	if l.cancel != nil {
		l.cancel()
	}

	late := why
	if late == pair.None {
		late = pair.Expired
	}
	shadow := l.sender.shadow
	if t != nil {
		t.x.EndCopy(shadow, pair.Leg{Start: at, End: now, Cause: late})
	}
	for _, s := range queue {
		if s.turn != nil {
			s.turn.x.EndCopy(shadow, pair.Leg{Cause: late})
		}
	}
	if connecting {
		l.connect.EndCopy(shadow, pair.Leg{Cause: why})
	}
	if why != pair.None {
		l.sender.missed(why)
	}
	l.x.EndCopy(shadow, leg)
	if l.cancel != nil { // else it was never counted at a server
		l.server.count.Add(-1)
	}
	l.sender.count.Add(-1)
}

// run connects, and writes the queue.
func (l *link) run(ctx context.Context) {
	p := l.sender.p
	start := p.o.Now()
	c, err := l.server.dial(ctx)
	connected := p.o.Now()
	if err != nil {
		l.end(dialCause(p.ctx, err))
		return
	}
	l.mu.Lock()
	if l.dead {
		l.mu.Unlock()
		reset(c)
		return
	}
	l.conn, l.start = c, start
	l.x.Sent(l.sender.shadow)
	l.connect.EndCopy(l.sender.shadow, pair.Leg{Start: start, FirstByte: connected, End: connected})
	l.mu.Unlock()

	done := make(chan struct{})
	go func() {
		defer close(done)
		l.read(c)
	}()
	l.write(c)
	<-done
}

// write writes segments until the client has sent everything, or the link has ended.
func (l *link) write(c net.Conn) {
	for {
		s, why := l.next()
		if why == over {
			return
		}
		if why == all {
			closeWrite(c)
			l.mu.Lock()
			l.sent = true
			eof := l.eof
			l.mu.Unlock()
			if eof {
				l.end(l.closed())
			}
			return
		}
		_, err := c.Write(*s.data)
		l.mu.Lock()
		l.writeAt = 0
		l.release(s)
		l.mu.Unlock()
		if err != nil {
			l.end(pair.Reset)
			return
		}
	}
}

type step int

const (
	some step = iota
	all       // all of the client's bytes are written
	over      // the link has ended
)

// next waits for a segment that may be written.
func (l *link) next() (segment, step) {
	for {
		l.mu.Lock()
		if l.dead {
			l.mu.Unlock()
			return segment{}, over
		}
		if len(l.queue) == 0 {
			finished := l.finished
			l.mu.Unlock()
			if finished {
				return segment{}, all
			}
			<-l.wake
			continue
		}
		if l.eof {
			l.mu.Unlock()
			l.end(pair.Reset) // it closed before the client had said all
			return segment{}, over
		}
		s := l.queue[0]
		now := l.sender.p.o.Now()
		if s.turn != nil {
			if wait := l.holds(s.turn, now); wait > 0 {
				l.mu.Unlock()
				l.await(wait)
				continue
			}
			l.begin(s.turn, now)
		}
		l.queue[0] = segment{}
		if l.queue = l.queue[1:]; len(l.queue) == 0 {
			l.queue = nil
		}
		l.writeAt = now
		l.mu.Unlock()
		return s, some
	}
}

// holds returns the longest time that a turn waits before it asks again, 0 if the one
// before has been answered. Needs mu.
func (l *link) holds(t *turn, now int64) time.Duration {
	if l.timed {
		return 0
	}
	if l.heldAt == 0 {
		l.heldAt = now
	}
	left := l.sender.p.o.hold - time.Duration(now-l.heldAt)
	switch {
	case left <= 0:
		l.timed = true
		return 0
	case l.answer == 0 && t.before > 0:
		return left
	case l.answer >= t.before:
		return 0
	}
	if l.quietAt != 0 && l.quietAt != l.readAt {
		l.quiet = min(2*l.quiet, mostQuiet)
	}
	l.quietAt = l.readAt
	if wait := l.quiet - time.Duration(now-l.readAt); wait > 0 {
		return min(left, wait)
	}
	l.quiet = max(l.quiet/2, leastQuiet)
	return 0
}

// begin starts the clock of a turn. Needs mu.
func (l *link) begin(t *turn, now int64) {
	l.heldAt, l.quietAt = 0, 0
	if old := l.turn; old != nil {
		l.turn = nil
		old.x.EndCopy(l.sender.shadow, pair.Leg{Start: l.turnAt, End: now, Cause: pair.TimedOut})
	}
	if l.timed {
		t.x.EndCopy(l.sender.shadow, pair.Leg{Cause: pair.Expired})
		return
	}
	l.turn, l.turnAt, l.answer = t, now, 0
}

// await waits to be woken, for d at most.
func (l *link) await(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-l.wake:
	case <-t.C:
	}
}

// read times what the shadow sends, and discards it.
func (l *link) read(c net.Conn) {
	b := buffers.Get().(*[]byte)
	defer buffers.Put(b)
	p := l.sender.p
	for {
		n, err := c.Read(*b)
		now := p.o.Now()
		if n > 0 {
			l.mu.Lock()
			if l.first == 0 {
				l.first = now
			}
			l.bytes += int64(n)
			l.answer += int64(n)
			l.readAt = now
			t, at, waiting := l.turn, l.turnAt, l.heldAt != 0
			l.turn = nil
			tooMuch := l.bytes > 4*l.c.bytes.Load()+p.o.AnswerLimit
			l.mu.Unlock()
			if t != nil {
				t.x.EndCopy(l.sender.shadow, pair.Leg{Start: at, FirstByte: now, End: now})
			}
			if waiting {
				l.signal()
			}
			if tooMuch {
				l.end(pair.AnswerLimit)
				return
			}
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) {
			l.end(pair.Reset) // nothing if it has ended
			return
		}
		l.mu.Lock()
		l.eof = true
		sent := l.sent
		l.mu.Unlock()
		if sent {
			l.end(l.closed())
		}
		l.signal()
		return
	}
}

// closed returns how a link ends whose shadow has closed after the client sent
// everything. A shadow that sends nothing where the primary has answered is at fault.
func (l *link) closed() pair.Cause {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bytes == 0 && l.c.bytes.Load() > 0 {
		return pair.Reset
	}
	return pair.None
}

// check ends a link that is over its time.
func (l *link) check(now int64) {
	limit := int64(l.sender.p.o.Timeout)
	l.mu.Lock()
	late := l.writeAt != 0 && now-l.writeAt > limit || l.over != 0 && now-l.over > limit
	if l.turn != nil {
		at := l.turn.answered.Load()
		late = late || at != 0 && now-max(at, l.turnAt) > limit
	}
	l.mu.Unlock()
	if late {
		l.end(pair.TimedOut)
	}
}
