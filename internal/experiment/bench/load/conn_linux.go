package load

import (
	"time"

	"golang.org/x/sys/unix"
)

// conn is a connection of a loop, or the place for one, and the request that it
// carries.
type conn struct {
	id, generation int32 // generation changes with the connection
	prev, next     int32 // in the list that it is in
	in             *list
	fd             int // -1 without
	connecting     bool
	polled         bool // for writing, too
	reused         bool // it had carried a request before this one
	idempotent     bool // and so is the request (RFC 9110, section 9.2.2)
	head           bool
	wantHdr        bool
	wantBdy        bool
	query, tenant  int
	phase          int
	due, sent      time.Duration
	first, late    time.Duration
	since          time.Duration // it has been idle
	out            []byte
	written        int // of out
	answer         parser
}

// list is connections in order, linked through them.
type list struct {
	first, last int32 // -1 if empty
	n           int
}

func (l *loop) push(to *list, c *conn) {
	c.in, c.prev, c.next = to, to.last, -1
	if to.last >= 0 {
		l.conns[to.last].next = c.id
	} else {
		to.first = c.id
	}
	to.last = c.id
	to.n++
}

// unlink removes a connection from its list.
func (l *loop) unlink(c *conn) {
	in := c.in
	if in == nil {
		return
	}
	if c.prev >= 0 {
		l.conns[c.prev].next = c.next
	} else {
		in.first = c.next
	}
	if c.next >= 0 {
		l.conns[c.next].prev = c.prev
	} else {
		in.last = c.prev
	}
	in.n--
	c.in = nil
}

// pick takes a free connection, the one that was used last. Its memory is the
// warmest, and no more connections are opened than are needed.
func (l *loop) pick() *conn {
	id := l.idle.last
	if id < 0 {
		id = l.shut.last
	}
	c := &l.conns[id]
	l.unlink(c)
	return c
}

// load writes the loop's request into a connection's buffer.
func (l *loop) load(c *conn) {
	r := &l.request
	c.out = appendWire(c.out[:0], r, l.o.Host, l.o.NoKeepAlive)
	c.query, c.tenant = r.Query, r.Tenant
	c.head = r.Method == "HEAD"
	c.idempotent = r.Method != "POST" && r.Method != "PATCH" && r.Method != "CONNECT"
	c.wantHdr, c.wantBdy = false, false
	if l.o.Checker != nil {
		c.wantHdr, c.wantBdy = l.o.Checker.Wants(r.Query)
	}
}

// launch sends a connection's request.
func (l *loop) launch(c *conn) {
	now := l.now()
	c.sent, c.first = now, 0
	c.late = max(0, now-max(c.due, l.freeSince))
	l.push(&l.busy, c)
	l.account.Sent++
	if l.beginner != nil {
		l.beginner.Begin(c.query, c.phase, c.due, now)
	}
	c.reused = c.fd >= 0
	l.transmit(c)
}

// transmit begins to send what is loaded, over a new connection if the old one is
// closed.
func (l *loop) transmit(c *conn) {
	c.written = 0
	c.answer.begin(c.head, c.wantHdr, c.wantBdy, l.o.BodyLimit)
	if c.fd >= 0 {
		l.write(c)
		return
	}
	if !l.open(c) {
		l.finish(c, Connect, l.now())
	} else if !c.connecting {
		l.write(c)
	}
}

// open begins to open a connection.
func (l *loop) open(c *conn) bool {
	fd, err := unix.Socket(l.target.family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	stamped(fd)
	err = unix.Connect(fd, l.target.address)
	events := uint32(unix.EPOLLIN)
	if c.connecting = err == unix.EINPROGRESS; c.connecting {
		events |= unix.EPOLLOUT
		err = nil
	}
	c.generation++
	if err == nil {
		err = l.poll.control(unix.EPOLL_CTL_ADD, fd, events, c.id, c.generation)
	}
	if err != nil {
		_ = unix.Close(fd)
		return false
	}
	c.fd, c.polled = fd, c.connecting
	if c.connecting {
		l.blockedWrites++
	} else {
		l.account.Connections++
	}
	return true
}

// close closes the connection if it is open.
func (l *loop) close(c *conn) {
	if c.fd >= 0 {
		_ = unix.Close(c.fd) // which removes it from epoll
		c.fd = -1
		if c.polled {
			l.blockedWrites--
		}
		c.connecting, c.polled = false, false
		c.generation++
	}
}

// watch starts or stops polling the connection for writing.
func (l *loop) watch(c *conn, writable bool) {
	if c.polled == writable {
		return
	}
	c.polled = writable
	events := uint32(unix.EPOLLIN)
	if writable {
		events |= unix.EPOLLOUT
		l.blockedWrites++
	} else {
		l.blockedWrites--
	}
	_ = l.poll.control(unix.EPOLL_CTL_MOD, c.fd, events, c.id, c.generation)
}

// write writes as much as the socket takes. An error of the connection is left to the
// reader: an answer may have arrived.
func (l *loop) write(c *conn) {
	for c.written < len(c.out) {
		n, errno := send(c.fd, c.out[c.written:])
		switch errno {
		case 0:
			c.written += n
		case unix.EINTR:
		case unix.EAGAIN:
			l.watch(c, true)
			return
		default:
			l.watch(c, false)
			return
		}
	}
	l.watch(c, false)
}

// handle does what a connection's events ask for, and reports whether it became free.
func (l *loop) handle(c *conn, events uint32) (free bool) {
	switch {
	case c.in != &l.busy:
		// The target closes an idle connection, or sends what nobody asked for.
		l.close(c)
		if c.in == &l.idle {
			l.unlink(c)
			l.push(&l.shut, c)
		}
		return false
	case c.connecting:
		if code, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ERROR); err != nil || code != 0 {
			return l.finish(c, Connect, l.now())
		}
		c.connecting = false
		l.account.Connections++
		l.write(c)
		return false
	}
	if events&unix.EPOLLOUT != 0 {
		l.write(c)
	}
	if events&^uint32(unix.EPOLLOUT) != 0 {
		return l.read(c)
	}
	return false
}

// reads bounds the reads from one connection before others have their turn.
const reads = 8

// read reads what has arrived.
func (l *loop) read(c *conn) (free bool) {
	for range reads {
		n, at, errno := l.in.receive(c.fd)
		now := l.now()
		if at == 0 {
			at, l.prompt = now, now+attentive // the kernel does not say
		}
		at = max(min(at, now), c.sent, c.first) // clocks disagree by a little
		switch {
		case errno == unix.EAGAIN || errno == unix.EINTR:
			return false
		case errno != 0:
			return l.broken(c, Reset, now)
		case n == 0:
			if c.answer.eof() {
				return l.finish(c, Answered, now)
			}
			return l.broken(c, Closed, now)
		}
		if c.answer.size == 0 {
			c.first = at
		}
		took, err := c.answer.feed(l.in.buf[:n])
		if err != nil {
			return l.finish(c, NotHTTP, at)
		}
		if c.answer.done {
			if took < n || c.written < len(c.out) {
				c.answer.keep = false // more than was asked for, or an answer before the whole request
			}
			return l.finish(c, Answered, at)
		}
		l.prompt = now + attentive
		if n < len(l.in.buf) {
			return false
		}
	}
	return false
}

// stale is the age from which the end of a connection under a request may be that of
// an idle one: the target closed it as the request was sent.
const stale = 500 * time.Millisecond

// broken handles the end of a connection under a request. If the target closed an
// idle connection just as it was used again, the request is sent once more (RFC 9112,
// section 9.3.1), and its clock runs on.
func (l *loop) broken(c *conn, cause Cause, now time.Duration) (free bool) {
	if c.reused && c.idempotent && c.answer.size == 0 && c.sent-c.since >= stale {
		l.close(c)
		c.reused = false
		l.transmit(c)
		return c.in != &l.busy
	}
	return l.finish(c, cause, now)
}

// finish accounts for a connection's request, which ended at end, and frees the
// connection.
func (l *loop) finish(c *conn, cause Cause, end time.Duration) (free bool) {
	o := &l.seen
	*o = Observation{
		Query: c.query, Tenant: c.tenant, Phase: c.phase,
		Due: c.due, Sent: c.sent, FirstByte: c.first, End: end,
		Late: c.late, Bytes: c.answer.size, Cause: cause, Check: -1,
	}
	if c.first == 0 {
		o.FirstByte = end
	}
	if cause == Answered {
		o.Status = c.answer.status
		if l.o.Checker != nil {
			o.Check = l.o.Checker.Check(c.query, o.Status, c.answer.header(), c.answer.body)
		}
	}
	l.recorder.Observe(o)

	l.unlink(c)
	if l.free() == 0 {
		l.freeSince = end
	}
	if cause == Answered && c.answer.keep && !l.o.NoKeepAlive {
		c.since = end
		l.watch(c, false)
		l.push(&l.idle, c)
	} else {
		l.close(c)
		l.push(&l.shut, c)
	}
	if l.queue == nil && !l.o.Recorded {
		pause := time.Duration(0)
		if cause == Connect {
			pause = refusedPause
		}
		l.again(c.id, l.now(), pause)
	}
	return true
}

// target is the address of a loop's connections; connect writes into it.
type target struct {
	family  int
	address unix.Sockaddr
}
