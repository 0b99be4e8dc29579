package proxy

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"tailscope/internal/experiment/mirror/choose"
	"tailscope/internal/experiment/mirror/offer"
	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/experiment/mirror/shadow"
	"tailscope/internal/http1"
	"tailscope/internal/listen"
)

const (
	inBytes   = 8 << 10   // read from the client, until more is needed
	backBytes = 16 << 10  // read from the primary, until more is needed
	maxOut    = 64 << 10  // of what is written, kept for the next request
	maxAnswer = 256 << 10 // an answer's head
)

// buffers belong to a connection while a request is under way. Idle clients, of which
// there may be many, have none.
type buffers struct {
	out  []byte // the request as it is written to the primary, then the answer
	back []byte // read from the primary and not used up: back[br:bw]
}

var unused = sync.Pool{New: func() any {
	return &buffers{out: make([]byte, 0, backBytes), back: make([]byte, backBytes)}
}}

// conn is one client's connection, and the request under way on it.
type conn struct {
	p      *Proxy
	nc     net.Conn
	place  *listen.Conn // nil: nobody bounds the connections
	client *probe
	watch  watch
	pump   pump

	address netip.Addr
	text    []byte // the address
	https   bool

	in     []byte // read from the client and not used up: in[r:w]
	r, w   int
	br, bw int
	*buffers

	head   http1.Head // points into in
	answer http1.Head // points into back
	sent   http1.Body // of the request
	got    http1.Body // of the answer

	// Of the request, as head is overwritten when a body is streamed.
	method     []byte // GET, HEAD or CONNECT: as far as an answer's framing needs it
	minor      int
	last       bool // the client ends the connection after it
	whole      bool // its body came with it
	repeatable bool // it may be sent twice: idempotent (RFC 9110 section 9.2.2), and whole
	upgrade    bool
	expect     bool // and no 100 was passed on

	up      *upstream
	spoiled bool // up cannot be used again
	wasLost bool // the client was found to have closed
	x       *pair.Exchange
	leg     pair.Leg
	lastAt  int64 // when the last read of the primary returned

	payload *shadow.Payload // nil: no copies, or none any more
	spool   *shadow.Spool
	copies  offer.Offer
	request choose.Request
}

func newConn(p *Proxy, nc net.Conn, peeked []byte) *conn {
	place := listen.Under(nc)
	if nc == net.Conn(place) {
		nc = place.NetConn()
	}
	c := &conn{p: p, place: place, nc: fast(nc), client: newProbe(nc), in: make([]byte, max(inBytes, len(peeked)))}
	c.w = copy(c.in, peeked)
	c.address = addr(nc.RemoteAddr())
	if c.address.IsValid() {
		c.text = c.address.AppendTo(nil)
	}
	_, c.https = nc.(interface{ NetConn() net.Conn })
	c.watch.stop = c.stopWait
	c.pump.watch.stop = func(phase) { c.nc.SetReadDeadline(past) }
	c.pump.done = make(chan struct{}, 1)
	c.request.Client = c.address
	c.request.Header = c
	return c
}

// serve serves requests until the connection ends.
func (c *conn) serve() {
	defer c.nc.Close()
	for {
		n, ok := c.readHead()
		if !ok {
			return
		}
		c.place.Begin()
		on := c.serveOne(n)
		c.place.End()
		if !on {
			return
		}
	}
}

// serveOne serves the request whose head is in[r:r+n], and reports whether the
// connection goes on.
func (c *conn) serveOne(n int) bool {
	c.buffers = unused.Get().(*buffers)
	on := c.forward(n)
	c.release()
	if on && c.r == c.w && len(c.in) > inBytes {
		c.in = make([]byte, inBytes) // it was for a long head, or the end of a body
		c.r, c.w = 0, 0
	}
	return on
}

// release gives the buffers back, once.
func (c *conn) release() {
	if c.buffers == nil {
		return
	}
	if len(c.back) == backBytes && cap(c.out) <= maxOut {
		unused.Put(c.buffers)
	}
	c.buffers = nil
}

func (c *conn) free() {
	if c.up != nil {
		c.up.close()
		c.up = nil
	}
}

// enter enters a phase, and reports whether the one before was interrupted.
func (c *conn) enter(ph phase) bool {
	return c.interrupted(c.watch.set(ph, c.p.tick.Load()))
}

// readHead reads until in holds a whole head, and returns its length. Without one it
// has answered the client.
func (c *conn) readHead() (int, bool) {
	seen, ph := 0, busy
	c.method, c.minor = methodGet, 1
	for {
		buf := c.in[c.r:c.w]
		if len(buf) > 0 && (seen == 0 || http1.Ends(buf, seen)) {
			n, err := c.head.ParseRequest(buf)
			if err != nil {
				e := err.(*http1.Error)
				c.enter(busy)
				c.refuse(e.Status, e.Reason)
				return 0, false
			}
			if n > 0 {
				return n, ph == busy || !c.enter(busy)
			}
		}
		seen = len(buf)
		if seen >= c.p.o.HeadLimit {
			c.enter(busy)
			c.refuse(431, "the head of the request is too long")
			return 0, false
		}
		c.reserveInput()
		next := idle
		if seen > 0 {
			next = heading
		}
		if next != ph {
			if c.interrupted(c.watch.set(next, c.p.tick.Load())) {
				return 0, false
			}
			ph = next
		}
		if ph == idle && c.p.draining.Load() {
			return 0, false
		}
		n, err := c.nc.Read(c.in[c.w:])
		c.w += n
		if n == 0 && err != nil {
			if c.enter(busy) && seen > 0 && !c.p.draining.Load() {
				c.nc.SetDeadline(time.Time{})
				c.refuse(408, "the head of the request did not come in time")
			}
			return 0, false
		}
	}
}

// reserveInput makes space to read into in. Nothing may point into it.
func (c *conn) reserveInput() {
	switch {
	case c.r == c.w:
		c.r, c.w = 0, 0
	case c.w < len(c.in):
	case c.r > 0:
		c.w = copy(c.in, c.in[c.r:c.w])
		c.r = 0
	default:
		in := make([]byte, 2*len(c.in))
		copy(in, c.in[:c.w])
		c.in = in
	}
}

// Lookup returns the i-th value of the request's field of that name. It implements
// choose.Header.
func (c *conn) Lookup(name string, i int) ([]byte, bool) {
	for k := range c.head.Fields {
		f := &c.head.Fields[k]
		if http1.Is(f.Name, name) {
			if i == 0 {
				return f.Value, true
			}
			i--
		}
	}
	return nil, false
}
