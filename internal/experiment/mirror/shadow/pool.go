package shadow

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"tailscope/internal/experiment/mirror/pair"
)

// server is one of a sender's pool. The sender's lock guards its fields except the
// target.
type server struct {
	target
	sender *Sender
	index  int

	conns  []*conn // those that are being made included
	idle   []*conn // that can take a copy at once, the last used last
	making int     // connections
	busy   int     // copies under way
	http2  bool    // it has spoken HTTP/2
	known  bool    // which of both it speaks

	// After a failure to connect:
	fails   int
	retryAt int64
	broken  atomic.Int32 // copies in a row whose connection broke
	cause   pair.Cause
	down    string
}

// Back-off after the first, and at most after later failures to connect.
const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 2 * time.Second
)

// lockBehind locks l.mu for one of the sender's own goroutines. They wait for each
// other elsewhere, so that when hundreds of connections come or go together only one
// of them competes with Offer.
func (l *Sender) lockBehind() {
	l.behind.Lock()
	l.mu.Lock()
	l.behind.Unlock()
}

// send sends a copy, or queues it, or drops it.
func (l *Sender) send(j job) {
	for {
		l.mu.Lock()
		c, cause := l.place(&j)
		l.mu.Unlock()
		if cause != pair.None {
			l.drop(&j, cause)
			return
		}
		if c == nil || c.start(j) {
			return
		}
		l.refused(c)
	}
}

// place returns a connection that can carry j at once, or queues j and begins a
// connection for it, or returns the cause why neither is possible. Under l.mu.
func (l *Sender) place(j *job) (*conn, pair.Cause) {
	if l.closed {
		return nil, pair.Stopped
	}
	if l.using == 0 {
		return nil, pair.NoServer
	}
	// The server with the least to do among those that can take a copy at once,
	// and among those that could if they had another connection.
	var free, more *server
	if l.using == 1 {
		if s := l.servers[0]; len(s.idle) > 0 {
			free = s
		}
	} else {
		l.turn++
		for i := range l.using {
			s := l.servers[(l.turn+i)%l.using]
			switch {
			case len(s.idle) > 0:
				if free == nil || s.busy < free.busy {
					free = s
				}
			case s.making == 0 && (more == nil || s.busy < more.busy):
				if s.retryAt == 0 || s.canConnect(l.o.Now()) {
					more = s
				}
			}
		}
	}
	if free != nil {
		if more != nil && more.busy < free.busy && more.canConnect(math.MaxInt64) {
			more.connect() // so that it gets its part of what follows
		}
		c := free.idle[len(free.idle)-1]
		c.leaveIdle(free)
		return c, pair.None
	}
	now := l.o.Now()
	if cause := l.hopeless(now); cause != pair.None {
		return nil, cause
	}
	if l.queue.n >= l.o.Queue {
		return nil, pair.QueueFull
	}
	if size := j.p.size(); j.held == 0 {
		if !l.budget.Reserve(size) {
			return nil, pair.BufferFull
		}
		j.held = size
	}
	j.since = now
	if j.due == 0 {
		j.due = now
	}
	l.queue.push(*j)
	l.connectFor(now)
	return nil, pair.None
}

// hopeless returns the cause if no server can be reached: none has a connection, and
// all are waiting after a failure. Under l.mu.
func (l *Sender) hopeless(now int64) pair.Cause {
	cause := pair.None
	for _, s := range l.servers[:l.using] {
		if len(s.conns) > 0 || now >= s.retryAt {
			return pair.None
		}
		cause = s.cause
	}
	return cause
}

// connectFor begins connections for the copies that wait, each to the least busy
// server. Under l.mu.
func (l *Sender) connectFor(now int64) {
	making := 0
	for _, s := range l.servers[:l.using] {
		making += s.making
	}
	for ; making < l.queue.n; making++ {
		var least *server
		for _, s := range l.servers[:l.using] {
			if s.canConnect(now) && (least == nil || s.busy+s.making < least.busy+least.making) {
				least = s
			}
		}
		if least == nil {
			return
		}
		least.connect()
	}
}

// canConnect reports whether another connection may be begun: only one at a time
// while the server's protocol is not known, or after a failure.
func (s *server) canConnect(now int64) bool {
	if now < s.retryAt || len(s.conns) >= s.sender.o.Connections {
		return false
	}
	return s.making == 0 || !(s.fails > 0 || s.http2 || s.scheme != "http" && !s.known)
}

// connect makes a connection in the background. Under l.mu.
func (s *server) connect() {
	l := s.sender
	c := newConn(l, s)
	s.conns = append(s.conns, c)
	s.making++
	l.open++
	l.wg.Go(c.run)
}

// leaveIdle removes the connection, the last of s.idle, from it if it cannot carry a
// further copy beside the one that it is about to get. Under l.mu.
func (c *conn) leaveIdle(s *server) {
	s.busy++
	c.streams++
	if c.streams >= c.most {
		c.idling = false
		s.idle = s.idle[:len(s.idle)-1]
	}
}

// takeIdle removes all connections from s.idle, and appends those without a copy to
// dst. Under l.mu.
func (s *server) takeIdle(dst []*conn) []*conn {
	for _, c := range s.idle {
		c.idling = false
		if c.streams == 0 {
			dst = append(dst, c)
		}
	}
	clear(s.idle)
	s.idle = s.idle[:0]
	return dst
}

// wanted reports whether the sender uses the server. The caller holds l.mu.
func (l *Sender) wanted(s *server) bool {
	return !l.closed && s.index < l.using
}

// connected lets a new connection take copies, most at a time.
func (l *Sender) connected(c *conn, most int) {
	s := c.s
	l.lockBehind()
	s.making--
	if s.broken.Load() < breaks {
		s.well()
	}
	s.known, s.http2 = true, c.h2 != nil
	c.making, c.most = false, most
	l.next(c)
}

// unreachable handles a failure to connect. If there is nothing else to wait for, the
// waiting copies are dropped for the same cause.
func (l *Sender) unreachable(c *conn, cause pair.Cause, err error) {
	if cause != pair.Stopped {
		l.lockBehind()
		c.s.backOff(l.o.Now(), cause, err)
		l.mu.Unlock()
	}
	l.removeConn(c)
}

// breaks is the number of copies in a row whose connections may break before their
// server is left alone for a while. A new connection for every copy costs more than
// the copy, and clients would share that cost.
const breaks = 16

var errBreaks = errors.New("it breaks every connection")

// noteEnd counts copies in a row whose connection broke.
func (s *server) noteEnd(cause pair.Cause) {
	switch cause {
	case pair.None:
		if s.broken.Load() != 0 && s.broken.Swap(0) >= breaks {
			s.sender.lockBehind()
			s.well()
			s.sender.mu.Unlock()
		}
	case pair.Reset, pair.BadAnswer:
		if s.broken.Add(1) >= breaks {
			s.sender.lockBehind()
			s.backOff(s.sender.o.Now(), cause, errBreaks)
			s.sender.mu.Unlock()
		}
	}
}

// backOff leaves the server alone for some time, longer after every failure.
// Connections that were begun together fail together, and count once. Under l.mu.
func (s *server) backOff(now int64, cause pair.Cause, err error) {
	if now < s.retryAt {
		return
	}
	s.retryAt = now + int64(min(firstBackoff<<min(s.fails, 10), lastBackoff))
	s.fails++
	s.cause, s.down = cause, why(err)
}

// well clears the back-off. Under l.mu.
func (s *server) well() { s.fails, s.retryAt, s.cause, s.down = 0, 0, pair.None, "" }

// why describes in short why a server is not reached.
func why(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		if op.Timeout() {
			return fmt.Sprintf("%s: no connection in time", op.Op)
		}
		return fmt.Sprintf("%s: %v", op.Op, op.Err)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no connection in time"
	}
	return err.Error()
}

// done ends one copy on a connection, and lets it take those that wait if it is
// alive.
func (l *Sender) done(c *conn, dead bool) {
	l.lockBehind()
	c.streams--
	c.s.busy--
	if dead {
		c.discarded = true
		c.s.unidle(c)
	}
	l.next(c)
}

// next lets a connection take waiting copies up to its capacity, and be idle then. A
// connection that is no longer wanted is ended. l.mu is locked on entry and unlocked
// on return.
func (l *Sender) next(c *conn) {
	s := c.s
	for {
		if c.discarded || !l.wanted(s) {
			end := c.streams == 0
			l.mu.Unlock()
			if end {
				c.kill(pair.Stopped)
			}
			return
		}
		if c.streams >= c.most {
			l.mu.Unlock()
			return
		}
		if l.queue.n == 0 {
			if !c.idling {
				c.idling = true
				s.idle = append(s.idle, c)
			}
			if c.streams == 0 {
				c.unused = l.o.Now()
			}
			l.mu.Unlock()
			return
		}
		j := l.queue.pop()
		c.streams++
		s.busy++
		l.mu.Unlock()
		if !c.start(j) {
			l.refused(c)
			l.send(j)
			return
		}
		if c.most == 1 {
			return
		}
		l.mu.Lock()
	}
}

// refused takes a copy back from a connection. A connection without another copy is
// of no use any more.
func (l *Sender) refused(c *conn) {
	l.mu.Lock()
	c.streams--
	c.s.busy--
	c.s.unidle(c)
	end := c.streams == 0
	if end && c.h2 != nil && c.answers.Load() == 0 {
		c.s.backOff(l.o.Now(), pair.Handshake, errNoStreams)
	}
	l.mu.Unlock()
	if end {
		c.kill(pair.Stopped)
	}
}

var errNoStreams = errors.New("it speaks HTTP/2 and takes no requests")

// unidle takes c out of s.idle. Under l.mu.
func (s *server) unidle(c *conn) {
	if !c.idling {
		return
	}
	c.idling = false
	if i := slices.Index(s.idle, c); i >= 0 {
		s.idle = slices.Delete(s.idle, i, i+1)
	}
}

// discard lets a connection take nothing more.
func (l *Sender) discard(c *conn) {
	l.lockBehind()
	c.discarded = true
	c.s.unidle(c)
	l.mu.Unlock()
}

// removeConn removes a connection from the pool. Waiting copies get another, or are
// dropped if none is possible.
func (l *Sender) removeConn(c *conn) {
	s := c.s
	var dropped []job
	l.lockBehind()
	c.discarded = true
	s.unidle(c)
	if c.making {
		s.making--
	}
	if i := slices.Index(s.conns, c); i >= 0 {
		s.conns = slices.Delete(s.conns, i, i+1)
	}
	l.open--
	if l.closed && l.open == 0 {
		close(l.empty)
	}
	cause := pair.None
	if l.queue.n > 0 {
		now := l.o.Now()
		if cause = l.hopeless(now); cause != pair.None {
			dropped = l.queue.takeAll(dropped)
		} else {
			l.connectFor(now)
		}
	}
	l.mu.Unlock()
	for i := range dropped {
		l.drop(&dropped[i], cause)
	}
}
