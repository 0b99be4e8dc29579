package shadow

import (
	"math"
	"strconv"
	"syscall"
	"time"

	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/experiment/mirror/rawsocket"
)

// send writes the rest of the request under way, on a goroutine of its own.
func (c *conn) send() {
	c.mu.Lock()
	if c.written == 0 {
		c.leg.Start = c.l.o.Now()
	}
	c.mu.Unlock()
	cause := c.sendRest()

	c.mu.Lock()
	c.sending = false
	if cause == pair.None {
		c.sentAll()
	}
	switch {
	case c.lost:
		// Nobody reads any more, and the copy waits to be ended here.
		c.finish()
	case c.answered:
		if cause != pair.None || c.stopped.Load() {
			c.dead = true
			c.nc.SetReadDeadline(past)
		}
		c.finish()
	case cause == pair.None:
		c.mu.Unlock()
	case cause == pair.Reset:
		c.dead = true
		if c.killed == pair.None {
			c.nc.SetReadDeadline(time.Now().Add(lateAnswerWait))
		}
		c.mu.Unlock()
	default:
		c.mu.Unlock()
		c.kill(cause)
	}
}

// sendRest writes the rest of c.out and then the streamed body. It returns None if
// that was all, Reset if the connection does not take it, or the cause why the body
// is not whole.
func (c *conn) sendRest() pair.Cause {
	if _, err := c.nc.Write(c.out[c.written:]); err != nil {
		return pair.Reset
	}
	r := c.j.r
	if r == nil {
		return pair.None
	}
	chunked := r.s.length < 0
	buf := c.out[:0]
	for taken := 0; ; {
		p, more, cause := r.next(taken)
		taken = len(p)
		switch {
		case c.stopped.Load():
			return pair.Reset
		case len(p) > 0:
			if chunked {
				buf = strconv.AppendInt(buf[:0], int64(len(p)), 16)
				buf = append(buf, "\r\n"...)
				buf = append(buf, p...)
				buf = append(buf, "\r\n"...)
				p = buf
			}
			if _, err := c.nc.Write(p); err != nil {
				return pair.Reset
			}
		case more:
			// The client's time is not the shadow's.
			c.deadline.Store(math.MaxInt64)
			<-r.wake
			c.deadline.Store(c.l.o.Now() + int64(c.l.o.Timeout))
		case cause != pair.None:
			return cause
		case chunked:
			buf = append(buf[:0], "0\r\n"...)
			buf = append(buf, r.s.trailer...)
			buf = append(buf, "\r\n"...)
			if _, err := c.nc.Write(buf); err != nil {
				return pair.Reset
			}
			return pair.None
		default:
			return pair.None
		}
	}
}

// stopSending stops the writer, wherever it waits. Under c.mu.
func (c *conn) stopSending() {
	c.stopped.Store(true)
	c.nc.SetWriteDeadline(past)
	if c.j.r != nil {
		c.j.r.poke()
	}
}

// peerClosed reports whether the server has ended the connection. The reader may not
// know yet. Under c.mu.
func (c *conn) peerClosed() bool {
	c.peerEnded = false
	c.raw.Control(c.probe)
	return c.peerEnded
}

// probeNow is c.probe's callback. Anything that the other side sent counts as its end.
func (c *conn) probeNow(fd uintptr) {
	_, err := rawsocket.Peek(fd)
	c.peerEnded = err != syscall.EAGAIN
}
