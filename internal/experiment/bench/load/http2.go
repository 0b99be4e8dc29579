package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// runHTTP2 sends requests as streams of HTTP/2 (RFC 9113). Each of
// Options.Connections lines is one stream at a time. The target's limit of streams
// decides how many connections are opened.
func runHTTP2(ctx context.Context, o Options) (Account, error) {
	s := newStreams(&o)
	defer s.end()
	first, err := s.connect(ctx)
	if err != nil {
		return Account{}, fmt.Errorf("target %s: %w", o.Address, err)
	}
	limit := first.limit
	_ = first.net.Close()
	if limit == 0 {
		return Account{}, fmt.Errorf("target %s allows no streams of HTTP/2 (hint: send HTTP/1.1)", o.Address)
	}
	s.opened.Store(0) // that one was no part of the run
	return s.run(ctx, func(d *dispatcher, n int) (stop func()) {
		var groups []*group
		for n > 0 {
			g := &group{s: s, dispatcher: d, conns: map[*conn2]bool{}}
			for range min(n, limit) {
				st := &stream{group: g}
				st.line = d.line(st)
			}
			n -= limit
			groups = append(groups, g)
		}
		return func() {
			for _, g := range groups {
				g.stop()
			}
		}
	})
}

// group holds the streams that share a connection, and that connection. When it goes
// away the next is dialled.
type group struct {
	s          *streams
	dispatcher *dispatcher

	mu      sync.Mutex
	conn    *conn2          // where requests go; nil if there is none
	conns   map[*conn2]bool // it, and those that only finish what they have
	dialing bool
	stopped bool
	pending []*stream // that wait for a connection with capacity
}

// stream carries one request at a time. Its group's mu guards its fields, except
// those of the answer, which are the reader's while it is under way.
type stream struct {
	line  *line
	group *group
	block []byte // the request's header block
	body  []byte

	state   streamState
	aborted bool // given up before it was sent
	conn    *conn2
	id      uint32
	left    []byte // of body, not sent
	window  int64  // how much may be sent
	again   int    // how often the target has refused it
	wants   struct{ header, body bool }

	answer answer
	header []Field
	kept   []byte // of the answer's body
}

type streamState uint8

const (
	idle    streamState = iota
	taken               // the line has a request that is not sent
	pending             // in group.pending
	flying              // in conn.streams
)

func (st *stream) keep(r *Request) {
	o := st.group.s.o
	st.group.mu.Lock()
	defer st.group.mu.Unlock()
	st.block = appendBlock(st.block[:0], r, o)
	st.body = append(st.body[:0], r.Body...)
	st.state, st.aborted, st.again = taken, false, 0
	st.wants.header, st.wants.body = false, false
	if o.Checker != nil {
		st.wants.header, st.wants.body = o.Checker.Wants(r.Query)
	}
}

func (st *stream) send() { st.submit(true) }

// submit sends the request that was taken, and flushes the connection unless its
// reader is about to.
func (st *stream) submit(flush bool) {
	g := st.group
	g.mu.Lock()
	for st.aborted {
		st.state, st.aborted = idle, false
		g.mu.Unlock()
		if !g.dispatcher.done(st.line, answer{end: g.dispatcher.now(), cause: CutOff}, true) {
			return
		}
		g.mu.Lock()
	}
	st.state = pending
	g.pending = append(g.pending, st)
	g.pump()
	c := g.conn
	g.mu.Unlock()
	if c != nil && flush {
		c.flush()
	}
}

// pump starts pending requests as far as the connection has capacity, and dials if
// there is no connection. The group is locked.
func (g *group) pump() {
	n := 0
	for n < len(g.pending) && g.conn != nil && g.conn.hasCapacity() {
		g.conn.start(g.pending[n])
		n++
	}
	g.pending = slices.Delete(g.pending, 0, n)
	if g.conn == nil && len(g.pending) > 0 && !g.dialing && !g.stopped {
		g.dialing = true
		g.s.wg.Go(g.dial)
	}
}

func (g *group) dial() {
	c, err := g.s.connect(g.s.ctx)
	g.mu.Lock()
	g.dialing = false
	if err == nil && g.stopped {
		_ = c.net.Close()
		err = net.ErrClosed
	}
	if err != nil {
		failed := g.pending
		g.pending = nil
		for _, st := range failed {
			st.state = idle
		}
		g.mu.Unlock()
		g.fail(failed, refusal(err))
		return
	}
	c.group, g.conn = g, c
	g.conns[c] = true
	g.s.wg.Go(c.read)
	g.pump()
	g.mu.Unlock()
	c.flush()
}

// fail accounts for requests that were given up.
func (g *group) fail(failed []*stream, cause Cause) {
	for _, st := range failed {
		if g.dispatcher.done(st.line, answer{end: g.dispatcher.now(), cause: cause}, true) {
			st.send()
		}
	}
}

func (st *stream) abandon() (ended bool) {
	g := st.group
	g.mu.Lock()
	defer g.mu.Unlock()
	switch st.state {
	case taken:
		st.aborted = true
		return false
	case pending:
		g.pending = slices.DeleteFunc(g.pending, func(p *stream) bool { return p == st })
	case flying:
		c := st.conn
		c.removeStream(st)
		c.reset(st.id, http2.ErrCodeCancel)
		g.pump()
		g.s.wg.Go(c.flush)
	case idle:
		return false // its end is being accounted for
	}
	st.state = idle
	return true
}

// stop closes the connections. Nothing may be under way.
func (g *group) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopped = true
	for c := range g.conns {
		_ = c.net.Close()
	}
}

// connect opens a connection and waits for the target's settings, Options.Timeout at
// most.
func (s *streams) connect(ctx context.Context) (*conn2, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	conn, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	if t, ok := conn.(*tls.Conn); ok && t.ConnectionState().NegotiatedProtocol != "h2" {
		_ = conn.Close()
		return nil, &handshakeError{errors.New("it does not agree to HTTP/2 in the TLS handshake (hint: switch it on there, or send HTTP/1.1)")}
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	c, err := greet(conn)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return c, nil
}
