package load

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"time"
)

// runStreams sends requests in HTTP/1.1 over TLS, and over plain connections on
// systems without an event loop. Each connection has a goroutine that dials and
// reads.
func runStreams(ctx context.Context, o Options) (Account, error) {
	s := newStreams(&o)
	defer s.end()
	return s.run(ctx, func(d *dispatcher, n int) (stop func()) {
		conns := make([]*conn1, n)
		for i := range conns {
			c := &conn1{s: s, call: make(chan struct{}, 1)}
			c.line = d.line(c)
			conns[i] = c
			s.wg.Go(c.serve)
		}
		return func() {
			for _, c := range conns {
				c.stop()
			}
		}
	})
}

// conn1 carries requests over HTTP/1.1 connections, one after the other.
type conn1 struct {
	s    *streams
	line *line
	call chan struct{} // a request wants a connection; now and then one that has had one
	want struct{ header, body bool }

	mu      sync.Mutex // locked after the dispatcher's where both are
	wire    []byte     // the request
	unsent  bool       // it is to be sent, by whoever comes first
	given   bool       // it was given up
	writers int        // that have not returned from writing
	conn    net.Conn   // nil if there is none
	dialing context.CancelFunc
}

func (c *conn1) keep(r *Request) {
	o := c.s.o
	c.want.header, c.want.body = false, false
	if o.Checker != nil {
		c.want.header, c.want.body = o.Checker.Wants(r.Query)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unsent, c.given = true, false
	if c.writers > 0 { // the one that is being written has the buffer
		c.wire = nil
	}
	c.wire = appendWire(c.wire[:0], r, o.Host, o.NoKeepAlive)
}

func (c *conn1) send() {
	c.mu.Lock()
	switch {
	case !c.unsent:
		c.mu.Unlock()
	case c.conn == nil:
		c.mu.Unlock()
		select {
		case c.call <- struct{}{}:
		default:
		}
	case len(c.wire) > bodiesAtOnce: // it may take until the target reads
		write := c.writer()
		c.mu.Unlock()
		c.s.wg.Go(write)
	default:
		write := c.writer()
		c.mu.Unlock()
		write()
	}
}

// writer returns a function that writes the request. The connection is locked.
func (c *conn1) writer() func() {
	conn, wire := c.conn, c.wire
	c.unsent = false
	c.writers++
	return func() {
		_, _ = conn.Write(wire) // if it fails, so does the read
		c.mu.Lock()
		c.writers--
		c.mu.Unlock()
	}
}

// abandon closes the connection, which its reader notices.
func (c *conn1) abandon() (ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.given = true
	if c.conn != nil {
		hangUp(c.conn)
	}
	if c.dialing != nil {
		c.dialing()
	}
	return false
}

func (c *conn1) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		hangUp(c.conn)
	}
	close(c.call)
}

// hangUp closes a connection at once. The Close of a TLS connection would wait to
// send its alert.
func hangUp(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	_ = conn.Close()
}

func (c *conn1) serve() {
	d := c.line.dispatcher
	buffer := make([]byte, 16<<10)
	for range c.call {
		for {
			conn, cause := c.dial()
			more := false
			switch {
			case conn != nil:
				more = c.speak(conn, buffer)
			case cause != Answered:
				more = d.done(c.line, answer{end: d.now(), cause: cause}, false)
			}
			if !more {
				break
			}
		}
	}
}

// dial connects for the request that is to be sent. It returns neither a connection
// nor a cause if there is no such request.
func (c *conn1) dial() (net.Conn, Cause) {
	if !c.line.dispatcher.expects(c.line) {
		return nil, Answered
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.unsent:
		return nil, Answered
	case c.given:
		c.unsent = false
		return nil, CutOff
	}
	ctx, cancel := context.WithCancel(c.s.ctx)
	c.dialing = cancel
	c.mu.Unlock()
	conn, err := c.s.dial(ctx)
	cancel()
	c.mu.Lock()
	c.dialing = nil
	if err != nil {
		c.unsent = false
		return nil, refusal(err)
	}
	c.conn = conn
	if c.given {
		hangUp(conn)
	}
	return conn, Answered
}

// speak sends and reads until the connection ends. It reports whether a request waits
// for another connection.
func (c *conn1) speak(conn net.Conn, buffer []byte) (more bool) {
	d, o := c.line.dispatcher, c.s.o
	defer hangUp(conn)
	c.send()
	var p parser
	var a answer
	reading := false
	whole := func(end time.Duration) {
		a.end, a.cause, a.status, a.bytes = end, Answered, p.status, p.size
		if o.Checker != nil {
			a.check = o.Checker.Check(c.line.o.Query, p.status, p.header(), p.body)
		}
	}
	for {
		n, err := conn.Read(buffer)
		now := d.now()
		for data := buffer[:n]; len(data) > 0; {
			if !reading {
				if !d.expects(c.line) { // a server may say why it closes an idle connection
					return c.ended(answer{end: now, cause: Closed})
				}
				reading = true
				a = answer{first: now, check: -1}
				p.begin(c.line.head, c.want.header, c.want.body, o.BodyLimit)
			}
			used, bad := p.feed(data)
			data = data[used:]
			switch {
			case bad != nil:
				a.end, a.cause, a.bytes = now, NotHTTP, p.size
				return c.ended(a)
			case !p.done:
				continue
			}
			reading = false
			if whole(now); !p.keep || o.NoKeepAlive || len(data) > 0 || c.isWriting() {
				return c.ended(a)
			}
			if d.done(c.line, a, true) {
				c.send()
			}
		}
		switch {
		case err == nil:
			continue
		case reading && err == io.EOF && p.eof():
			whole(now)
		case reading:
			a.end, a.cause, a.bytes = now, broken(err), p.size
		default:
			a = answer{end: now, cause: broken(err)}
		}
		return c.ended(a)
	}
}

// isWriting reports whether a large request is still being sent.
func (c *conn1) isWriting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writers > 0 && len(c.wire) > bodiesAtOnce
}

// ended accounts for the end of a connection, and for the request under way on it. It
// reports whether another request is to be sent.
func (c *conn1) ended(a answer) (more bool) {
	d := c.line.dispatcher
	d.mu.Lock()
	defer d.mu.Unlock()
	c.line.open = false
	c.mu.Lock()
	c.conn = nil
	if c.line.busy {
		c.unsent = false
	}
	c.mu.Unlock()
	return c.line.busy && d.finish(c.line, a)
}
