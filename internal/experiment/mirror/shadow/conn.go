package shadow

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/net/http2"

	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/experiment/mirror/rawsocket"
	"tailscope/internal/http1"
)

// conn is a connection to a server. One goroutine makes it, reads answers, and closes
// it. On HTTP/1.1 the request is written by the goroutine that hands it the copy:
// Offer's, or the one that reads. The part that does not fit into the socket's
// buffer, a body that is still coming in, and everything over TLS is written by a
// goroutine of its own, which ends with the request.
//
// l.mu and c.mu are never held at once.
type conn struct {
	l *Sender
	s *server

	// Under l.mu.
	making    bool
	idling    bool // it is in s.idle
	discarded bool // it takes no more copies
	streams   int  // copies under way
	most      int  // and their bound: 1 if it speaks HTTP/1.1
	unused    int64

	// Set before connected is called.
	nc    net.Conn
	raw   syscall.RawConn    // nil if writing may wait
	write func(uintptr) bool // c.writeNow
	probe func(uintptr)      // c.probeNow
	h2    *http2.ClientConn
	ended chan struct{} // of HTTP/2: closed with the connection
	// answers counts the answers of HTTP/2.
	answers atomic.Int64

	// deadline of the copy under way, 0 if there is none. It is put off while the
	// connection waits for the client.
	deadline atomic.Int64
	stopped  atomic.Bool // the writer is to stop

	mu        sync.Mutex
	dead      bool                   // it takes no more copies
	under     map[*exchange]struct{} // of HTTP/2: copies under way
	peerEnded bool                   // what probeNow found
	killed    pair.Cause             // why it was ended from outside
	copyState

	// Of the goroutine that reads.
	head http1.Head
	body http1.Body
	rest []byte // of a head that is not there in whole
	used int    // copies it has had
}

// copyState describes the copy under way on a connection of HTTP/1.1, under c.mu.
type copyState struct {
	busy      bool
	sending   bool // by a goroutine of its own
	delivered bool // all of the request was written
	touched   bool // a byte of an answer has come
	inBody    bool // the final head has been read
	early     int  // bytes of early answers (1xx)
	answered  bool // the answer is whole, and the request still being sent
	lost      bool // nothing more is read, and the request still being sent
	keep      bool
	j         job
	leg       pair.Leg
	out       []byte
	written   int // of out
	writeErr  error
}

func newConn(l *Sender, s *server) *conn {
	return &conn{l: l, s: s, making: true}
}

// run is the connection's goroutine.
func (c *conn) run() {
	most, cause, err := c.connect()
	if err != nil {
		if c.nc != nil {
			c.nc.Close()
		}
		c.l.unreachable(c, cause, err)
		return
	}
	c.l.connected(c, most)
	if c.h2 != nil {
		<-c.ended
		c.l.discard(c)
	} else {
		c.read()
	}
	c.nc.Close()
	c.l.removeConn(c)
}

// connect makes the connection. It returns the number of copies that it carries at a
// time, or why it failed.
func (c *conn) connect() (most int, cause pair.Cause, err error) {
	l, s := c.l, c.s
	ctx, cancel := context.WithTimeout(l.stopping, l.o.Connect)
	defer cancel()
	fail := func(cause pair.Cause, err error) (int, pair.Cause, error) {
		switch {
		case l.stopping.Err() != nil:
			cause = pair.Stopped
		case ctx.Err() != nil:
			cause = pair.ConnectTime
		}
		return 0, cause, err
	}
	nc, err := l.o.Dial(ctx, "tcp", s.address)
	if err != nil {
		return fail(pair.Refused, err)
	}
	two := s.scheme == "h2c"
	if s.scheme == "https" {
		config := l.o.TLS.Clone()
		if config.ServerName == "" {
			config.ServerName = s.host
		}
		if config.NextProtos == nil {
			config.NextProtos = []string{"h2", "http/1.1"}
		}
		t := tls.Client(nc, config)
		if err := t.HandshakeContext(ctx); err != nil {
			nc.Close()
			return fail(pair.Handshake, err)
		}
		two = t.ConnectionState().NegotiatedProtocol == "h2"
		nc = t
	}
	c.mu.Lock()
	c.nc = nc
	dead := c.dead
	c.mu.Unlock()
	if dead {
		return 0, pair.Stopped, net.ErrClosed
	}
	if two {
		if err := c.speakHTTP2(ctx); err != nil {
			return fail(pair.Handshake, err)
		}
		return l.o.Streams, pair.None, nil
	}
	if sc, ok := nc.(syscall.Conn); ok && rawsocket.Direct {
		if raw, err := sc.SyscallConn(); err == nil {
			c.raw, c.write, c.probe = raw, c.writeNow, c.probeNow
		}
	}
	return 1, pair.None, nil
}

var past = time.Unix(1, 0)

// kill ends the connection from any goroutine, and the copy on it with cause.
func (c *conn) kill(cause pair.Cause) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killLocked(cause)
}

func (c *conn) killLocked(cause pair.Cause) {
	if c.killed == pair.None {
		c.killed = cause
	}
	c.dead = true
	c.stopped.Store(true)
	if c.nc != nil {
		c.nc.SetDeadline(past)
	}
	if c.j.r != nil {
		c.j.r.poke()
	}
}

// expire kills the connection if its copy has been under way for too long.
func (c *conn) expire(now int64) {
	if d := c.deadline.Load(); d == 0 || d > now {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// Under the lock, so that it is not the next copy that is meant.
	if d := c.deadline.Load(); d != 0 && d <= now {
		c.killLocked(pair.TimedOut)
	}
}

// start sends a copy, or has it sent. It returns false and does nothing if the
// connection has no capacity.
func (c *conn) start(j job) bool {
	if c.h2 != nil {
		return c.startStream(j)
	}
	l := c.l
	c.mu.Lock()
	if c.dead {
		c.mu.Unlock()
		return false
	}
	if j.write && c.raw != nil && c.peerClosed() {
		c.mu.Unlock()
		c.kill(pair.Reset)
		return false
	}
	if j.r != nil {
		if cause := j.r.begin(); cause != pair.None {
			c.mu.Unlock()
			l.drop(&j, cause)
			l.done(c, false)
			return true
		}
	}
	c.copyState = copyState{busy: true, j: j, out: l.appendRequest(c.out[:0], &j)}
	c.keep = j.k == 0 && j.to.Keep()
	if j.tries == 0 {
		j.to.Sent(j.shadow)
	}
	now := l.o.Now()
	c.leg.Start = now
	c.deadline.Store(now + int64(l.o.Timeout))
	if c.raw == nil || j.r != nil {
		c.sending = true
	} else {
		if err := c.raw.Write(c.write); err != nil && c.writeErr == nil {
			c.writeErr = err
		}
		switch {
		case c.writeErr != nil:
			c.dead = true
			if c.written == 0 {
				c.nc.SetReadDeadline(past)
			} else {
				c.nc.SetReadDeadline(time.Now().Add(lateAnswerWait))
			}
		case c.written < len(c.out):
			c.sending = true
		default:
			c.sentAll()
		}
	}
	if c.sending {
		// The connection's goroutine runs, so that l.wg is not 0.
		l.wg.Go(c.send)
	}
	c.mu.Unlock()
	return true
}

// lateAnswerWait bounds the wait for an answer after writing has failed: a server
// that refuses a body answers and closes.
const lateAnswerWait = time.Second

// writeNow writes what the socket takes without waiting. Under c.mu.
func (c *conn) writeNow(fd uintptr) bool {
	n, err := rawsocket.Write(fd, c.out[c.written:])
	switch err {
	case 0:
		c.written += n
	case syscall.EAGAIN:
	default:
		c.writeErr = err
	}
	return true
}

// sentAll notes that all of the request was written. Under c.mu.
func (c *conn) sentAll() {
	c.delivered = true
	if c.j.held > 0 {
		c.l.budget.Release(c.j.held)
		c.j.held = 0
	}
}

// finish ends the copy under way, and lets the connection take the next one. c.mu is
// locked on entry and unlocked on return. The reading goroutine calls it, or the
// writing one when the reader has finished with the copy.
func (c *conn) finish() {
	l := c.l
	j, leg := c.j, c.leg
	delivered := c.delivered && leg.Status != 0
	c.copyState = copyState{out: c.out[:0]}
	if cap(c.out) > keepBytes {
		c.out = nil
	}
	c.deadline.Store(0)
	dead := c.dead
	c.mu.Unlock()
	c.s.noteEnd(leg.Cause)
	l.done(c, dead) // early, so that the connection is not idle for long
	l.end(&j, leg, delivered)
}
