package shadow

import (
	"io"
	"sync"
	"syscall"

	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/experiment/mirror/rawsocket"
	"tailscope/internal/http1"
)

const (
	// readBytes is the size of a read, and bounds an answer's head.
	readBytes = 32 << 10
	// maxEarlyBytes bounds the early answers (RFC 9110 section 15.2) before an answer. They
	// may come without end, and none of them counts as part of the answer's body.
	maxEarlyBytes = 64 << 10
)

// buffers are in use during reads, not during waits.
var buffers = sync.Pool{New: func() any { return new([readBytes]byte) }}

// read reads answers until the connection ends, and ends the copy that is under
// way then.
func (c *conn) read() {
	var end readEnd
	if c.raw != nil {
		// All reading is within one call, each time after the socket was found
		// readable and until it is empty. So no read finds nothing, as one does with
		// net.Conn before every wait.
		err := c.raw.Read(func(fd uintptr) bool { return c.readable(fd, &end) })
		if err != nil && end.cause == pair.None {
			end.cause = pair.Reset
		}
	} else {
		c.readWaiting(&end)
	}
	c.endRead(end)
}

// readEnd is the reason why nothing more is read.
type readEnd struct {
	eof   bool
	at    int64
	cause pair.Cause
}

// readable reads what has arrived. It returns true when nothing more is to be read.
func (c *conn) readable(fd uintptr, end *readEnd) bool {
	buf := buffers.Get().(*[readBytes]byte)
	defer buffers.Put(buf)
	for {
		have := copy(buf[:], c.rest)
		n, err := rawsocket.Read(fd, buf[have:])
		switch err {
		case 0:
		case syscall.EAGAIN:
			return false
		default:
			end.cause = pair.Reset
			return true
		}
		now := c.l.o.Now()
		if n == 0 {
			end.eof, end.at = true, now
			return true
		}
		then, cause := c.feed(buf[:have+n], now)
		if then == stop {
			end.cause = cause
			return true
		}
		if then == readOn && c.body.Bytes > freeBytes {
			c.l.pace(n)
		}
		if then == wait && n < len(buf)-have {
			// The socket is empty; the poller reports when it no longer is. Its end
			// may have come with the bytes, and is then found with the next copy; in
			// the middle of an answer it is checked at once.
			return false
		}
	}
}

// readWaiting is read for connections that block.
func (c *conn) readWaiting(end *readEnd) {
	buf := make([]byte, readBytes)
	for {
		have := copy(buf, c.rest)
		n, err := c.nc.Read(buf[have:])
		now := c.l.o.Now()
		if n > 0 {
			then, cause := c.feed(buf[:have+n], now)
			if then == stop {
				end.cause = cause
				return
			}
			if then == readOn && c.body.Bytes > freeBytes {
				c.l.pace(n)
			}
		}
		if err == io.EOF {
			end.eof, end.at = true, now
			return
		}
		if err != nil {
			end.cause = pair.Reset
			return
		}
	}
}

// then is the action after a read.
type then uint8

const (
	stop   then = iota // nothing more is read
	wait               // for the next answer
	readOn             // in the middle of one
)

// feed parses bytes that were read at now, after those in c.rest. It returns what to
// do next, and the cause if they are wrong.
func (c *conn) feed(p []byte, now int64) (then, pair.Cause) {
	fresh := len(c.rest) == 0
	c.rest = c.rest[:0]
	c.mu.Lock()
	if !c.busy || c.answered {
		// Nobody asked for it.
		c.dead = true
		c.mu.Unlock()
		return stop, pair.BadAnswer
	}
	if c.killed != pair.None {
		// There may always be something to read, so the deadline is checked here.
		return c.fail(c.killed)
	}
	c.touched = true
	for !c.inBody {
		if c.leg.FirstByte == 0 || fresh {
			c.leg.FirstByte = now
		}
		n, err := c.head.ParseResponse(p, c.j.p.Method)
		if err != nil || c.head.Framing == http1.Tunnel || n == 0 && len(p) == readBytes {
			return c.fail(pair.BadAnswer)
		}
		if n == 0 {
			if len(p) == 0 {
				c.leg.FirstByte = 0
			}
			c.rest = append(c.rest, p...)
			c.mu.Unlock()
			return readOn, pair.None
		}
		p = p[n:]
		fresh = true
		if c.head.Status < 200 {
			if c.early += n; c.early > maxEarlyBytes {
				return c.fail(pair.BadAnswer)
			}
			c.head.Status = 0
			continue
		}
		c.inBody = true
		c.leg.Status = c.head.Status
		c.body.Reset(&c.head)
		if c.keep {
			c.leg.Answer = pair.AnswerOf(&c.head, c.l.o.KeepLimit)
		}
		if c.l.o.OnHeader != nil {
			c.l.o.OnHeader(pair.AnswerOf(&c.head, 0).Header)
		}
	}
	for len(p) > 0 && !c.body.Done() {
		n, data, err := c.body.Next(p)
		if err != nil {
			return c.fail(pair.BadAnswer)
		}
		p = p[n:]
		if c.leg.Answer != nil {
			c.leg.Answer.Add(data, c.l.o.KeepLimit)
		}
	}
	c.leg.Bytes = c.body.Bytes
	if c.leg.Bytes > c.l.o.AnswerLimit {
		return c.fail(pair.AnswerLimit)
	}
	if !c.body.Done() {
		c.mu.Unlock()
		return readOn, pair.None
	}
	c.leg.End = now
	c.used++
	if c.head.Close || len(p) > 0 {
		c.dead = true
	}
	if c.sending {
		// An early answer. The rest of the request is still sent if the server has
		// not had enough.
		c.answered = true
		if c.dead || c.leg.Status >= 400 {
			c.stopSending()
		}
	}
	after := wait
	if c.dead {
		after = stop
	}
	if c.answered {
		c.mu.Unlock()
	} else {
		c.finish()
	}
	return after, pair.None
}

// fail ends the connection for what it received. c.mu is locked on entry and unlocked
// on return.
func (c *conn) fail(cause pair.Cause) (then, pair.Cause) {
	c.dead = true
	c.mu.Unlock()
	return stop, cause
}

// endRead ends the copy under way when nothing more is read.
func (c *conn) endRead(end readEnd) {
	c.mu.Lock()
	c.dead = true
	if !c.busy {
		c.mu.Unlock()
		return
	}
	whole := c.answered
	if !whole {
		if end.eof && c.inBody && c.body.AtEOF() {
			c.leg.End = end.at
			whole = true
		} else if end.cause == pair.None {
			end.cause = pair.Reset
		}
	}
	switch {
	case whole:
	case c.killed != pair.None:
		c.leg.Cause = c.killed
	case !c.touched && c.used > 0 && !c.sending && c.j.tries < maxTries && !c.j.write && c.j.r == nil:
		// The server had ended a connection that was not in use, and never saw
		// the request (RFC 9112 section 9.3.1).
		c.retry()
		return
	default:
		c.leg.Cause = end.cause
	}
	if !whole {
		c.leg.End = 0
	}
	if c.sending {
		c.lost = true
		c.stopSending()
		c.mu.Unlock()
		return
	}
	c.finish()
}

// maxTries bounds the retries of a copy. Each follows the end of a connection that
// had been used before.
const maxTries = 10

// retry sends the copy under way on another connection. c.mu is locked on entry and
// unlocked on return.
func (c *conn) retry() {
	j := c.j
	j.tries++
	j.start = c.leg.Start
	if j.due == 0 {
		j.due = j.start
	}
	c.copyState = copyState{}
	c.deadline.Store(0)
	c.mu.Unlock()
	c.l.done(c, true)
	c.l.send(j)
}
