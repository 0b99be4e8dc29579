package tcp

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/listen"
)

const readSize = 32 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, readSize); return &b }}

// conn is a client's connection with the primary's. Serve reads the client,
// another goroutine the primary; links write to the shadows.
type conn struct {
	p       *Proxy
	client  net.Conn
	place   *listen.Conn // nil: nobody bounds the connections
	primary net.Conn
	links   []*link // by shadow, nil if it gets no copy

	turn     atomic.Pointer[turn] // that the primary has not answered
	turns    bool
	answered atomic.Bool  // since the client's last bytes
	answer   atomic.Int64 // bytes of the primary in this turn
	bytes    atomic.Int64 // in all
	first    int64        // by down alone
	cause    atomic.Uint32
	mu       sync.Mutex
	cutShort bool
}

// turn is shared by the connection and its links.
type turn struct {
	x        *pair.Exchange
	start    int64        // at the primary
	before   int64        // bytes of the primary's answer to the turn before
	answered atomic.Int64 // when the primary did, 0 if it has not
}

func (c *conn) serve() {
	p := c.p
	start := p.o.Now()
	primary, err := (&net.Dialer{Timeout: p.o.DialTimeout}).DialContext(p.ctx, "tcp", p.o.Primary)
	connected := p.o.Now()
	if err != nil {
		p.conns.Begin(pair.Names{Operation: Connection}, nil, false).EndPrimary(pair.Leg{Start: start, End: connected, Cause: dialCause(p.ctx, err)})
		if last := p.warned.Load(); connected-last > 1e9 && p.warned.CompareAndSwap(last, connected) {
			p.o.Log.Warn("the primary cannot be reached, so a client's connection is reset", "primary", p.o.Primary, "error", err)
		}
		reset(c.client)
		return
	}
	c.mu.Lock()
	c.primary = primary
	if c.cutShort {
		reset(primary)
	}
	c.mu.Unlock()
	x := c.begin(start, connected)

	down := make(chan struct{})
	go func() {
		defer close(down)
		c.down()
	}()
	c.up()
	<-down
	c.client.Close()
	c.primary.Close()
	for _, l := range c.links {
		l.ends()
	}
	cause := pair.Cause(c.cause.Load())
	end := p.o.Now()
	if t := c.turn.Swap(nil); t != nil {
		why := cause
		if why == pair.None {
			why = pair.ClientClosed
		}
		t.x.EndPrimary(pair.Leg{Start: t.start, End: end, Cause: why})
	}
	x.EndPrimary(pair.Leg{Start: start, FirstByte: c.first, End: end, Bytes: c.bytes.Load(), Cause: cause})
}

// begin begins the exchange, and the shadows' connections in random order.
func (c *conn) begin(start, connected int64) *pair.Exchange {
	p := c.p
	names := pair.Names{Operation: Connection}
	var copies []uint8
	why := p.choose()
	if why == pair.Chosen {
		copies = make([]uint8, len(p.senders))
		for i := range copies {
			copies[i] = 1
		}
	}
	connect := p.connects.Begin(names, copies, false)
	var x *pair.Exchange
	if why == pair.Chosen {
		x = p.conns.Begin(names, copies, false)
		c.links = make([]*link, len(p.senders))
		for _, i := range rand.Perm(len(p.senders)) {
			c.links[i] = p.senders[i].open(c, x, connect)
		}
	} else {
		x = p.conns.Skip(names, why)
	}
	connect.EndPrimary(pair.Leg{Start: start, FirstByte: connected, End: connected})
	return x
}

// up copies the client's bytes to the primary, and then to the shadows.
func (c *conn) up() {
	b := buffers.Get().(*[]byte)
	defer buffers.Put(b)
	spoken := false
	for {
		n, err := c.client.Read(*b)
		if n > 0 {
			if !spoken {
				// Whether a connection is idle cannot be known without its protocol:
				// one that was used is not closed for a newcomer.
				spoken = true
				c.place.Begin()
			}
			data := (*b)[:n]
			t := c.begins()
			_, werr := c.primary.Write(data)
			for _, l := range c.links {
				l.queueBytes(data, t)
			}
			if werr != nil {
				c.abort(pair.Reset)
				return
			}
		}
		if err == io.EOF {
			closeWrite(c.primary)
			for _, l := range c.links {
				l.finish()
			}
			return
		}
		if err != nil {
			c.abort(pair.ClientClosed)
			return
		}
	}
}

// begins returns the turn that the client's bytes begin, or nil if they continue one.
func (c *conn) begins() *turn {
	if len(c.links) == 0 {
		return nil
	}
	if c.turns && !c.answered.Load() {
		return nil
	}
	c.turns = true
	c.answered.Store(false)
	var copies [256]uint8
	for i, l := range c.links {
		if l.alive() {
			copies[i] = 1
		}
	}
	t := &turn{before: c.answer.Swap(0), x: c.p.turns.Begin(pair.Names{Operation: Turn}, copies[:len(c.links)], false)}
	for i, l := range c.links {
		l.offered = copies[i] > 0
	}
	t.start = c.p.o.Now()
	c.turn.Store(t)
	return t
}

// down copies the primary's bytes to the client.
func (c *conn) down() {
	b := buffers.Get().(*[]byte)
	defer buffers.Put(b)
	for {
		n, err := c.primary.Read(*b)
		if n > 0 {
			if c.first == 0 || c.turn.Load() != nil {
				now := c.p.o.Now()
				if c.first == 0 {
					c.first = now
				}
				if t := c.turn.Swap(nil); t != nil {
					t.answered.Store(now)
					t.x.EndPrimary(pair.Leg{Start: t.start, FirstByte: now, End: now})
				}
			}
			c.answer.Add(int64(n))
			c.bytes.Add(int64(n))
			c.answered.Store(true)
			if _, err := c.client.Write((*b)[:n]); err != nil {
				c.abort(pair.ClientClosed)
				return
			}
		}
		if err == io.EOF {
			closeWrite(c.client)
			return
		}
		if err != nil {
			c.abort(pair.Reset)
			return
		}
	}
}

// abort resets both sides after one of them was reset. The first cause stays.
func (c *conn) abort(why pair.Cause) {
	if !c.cause.CompareAndSwap(uint32(pair.None), uint32(why)) {
		return
	}
	c.mu.Lock()
	c.cutShort = true
	reset(c.client)
	if c.primary != nil {
		reset(c.primary)
	}
	c.mu.Unlock()
	if why == pair.ClientClosed {
		// The shadows' are reset as the primary's was.
		for _, l := range c.links {
			l.end(why)
		}
	}
}

func closeWrite(c net.Conn) {
	if t, ok := c.(interface{ CloseWrite() error }); ok {
		_ = t.CloseWrite() // the other direction says what is wrong
	}
}

// reset closes at once, so that the peer sees no orderly end.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

// dialCause returns the cause of a failure to connect.
func dialCause(ctx context.Context, err error) pair.Cause {
	var timeout net.Error
	switch {
	case ctx.Err() != nil:
		return pair.Stopped
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return pair.ConnectTime
	}
	return pair.Refused
}

// passing reports whether accepting may work again soon.
func passing(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
