package proxy

import (
	"bytes"

	"tailscope/internal/experiment/mirror/choose"
	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/experiment/mirror/shadow"
	"tailscope/internal/http1"
)

var (
	methodGet     = []byte("GET")
	methodHead    = []byte("HEAD")
	methodConnect = []byte("CONNECT")
)

// forward passes on the request whose head is in[r:r+n], and its answer back. It
// reports whether the connection goes on.
func (c *conn) forward(n int) bool {
	h := &c.head
	if h.Has&http1.Of(http1.Mark, http1.Passed) != 0 && c.circles() {
		c.refuse(508, "this request has passed this mirror before: the primary, or a shadow, leads back here")
		return false
	}
	raw, err := c.bodyHere(c.in[c.r+n : c.w])
	if err != nil {
		e := err.(*http1.Error)
		c.refuse(e.Status, e.Reason)
		return false
	}
	body := c.in[c.r+n : c.r+n+raw]
	c.note()
	d := c.choose()
	c.up, err = c.p.primary.getUpstream()
	if err != nil {
		c.unreached(d, err)
		c.r += n + raw
		return c.whole && !c.last
	}
	c.spoiled = false
	c.out = append(c.appendHead(c.out[:0]), body...)
	c.open(d, body)
	c.r += n + raw
	cause := c.ask(body)
	c.endOffer()
	if cause != pair.None {
		return c.failed(cause)
	}
	if c.answer.Framing == http1.Tunnel {
		c.tunnel()
		return false
	}
	return c.relay()
}

// circles reports whether the request has passed this session before, on its way to
// the primary or as a copy.
func (c *conn) circles() bool {
	for i := range c.head.Fields {
		f := &c.head.Fields[i]
		if f.Known != http1.Mark && f.Known != http1.Passed {
			continue
		}
		if id, _, _ := bytes.Cut(f.Value, []byte("/")); c.p.o.Session != "" && string(id) == c.p.o.Session {
			return true
		}
	}
	return false
}

// bodyHere returns the length of the body's part in buf, and sets c.whole if that is
// all of it.
func (c *conn) bodyHere(buf []byte) (raw int, err error) {
	c.sent.Reset(&c.head)
	raw, err = c.sent.Skip(buf)
	c.whole = c.sent.Done()
	return raw, err
}

// note keeps the parts of the head that are needed after it has been overwritten.
func (c *conn) note() {
	h := &c.head
	p := &c.pump
	p.bad, p.clientClosed, p.deaf = nil, false, false
	p.broke.Store(false)
	c.method, c.repeatable = methodGet, true
	switch string(h.Method) {
	case "GET", "OPTIONS", "TRACE", "PUT", "DELETE":
	case "HEAD":
		c.method = methodHead
	case "CONNECT":
		c.method, c.repeatable = methodConnect, false
	default:
		c.repeatable = false
	}
	c.upgrade = h.Upgrade != nil
	c.repeatable = c.repeatable && c.whole && !c.upgrade
	c.minor, c.last, c.expect = h.Minor, h.Close, h.Expect
}

func (c *conn) choose() choose.Decision {
	h := &c.head
	r := &c.request
	r.Method, r.Target, r.Host = h.Method, h.Target, h.Host
	d := c.p.o.Chooser.Choose(r)
	switch {
	case !d.Mirror:
	case h.Upgrade != nil:
		d.Mirror, d.Reason = false, pair.Upgrade
	case len(h.Method) == 7 && string(h.Method) == "CONNECT":
		d.Mirror, d.Reason = false, pair.Connect
	default:
		c.p.o.Bound(&d, h.Length > 0 || h.Framing == http1.Chunked, h.Length)
	}
	return d
}

// appendHead appends the request's head for the primary.
func (c *conn) appendHead(b []byte) []byte {
	h := &c.head
	b = http1.AppendRequestLine(b, h.Method, h.Target)
	drop := http1.HopByHop&^http1.Of(http1.TransferEncoding) | http1.Of(http1.XForwardedFor)
	switch f := h.Find(http1.Host); {
	case c.p.o.Host != "":
		drop |= http1.Of(http1.Host)
		b = http1.AppendField(b, "Host", c.p.o.Host)
	case f == nil && len(h.Host) == 0:
		b = http1.AppendField(b, "Host", c.up.server.address)
	case f == nil || !bytes.Equal(f.Value, h.Host):
		drop |= http1.Of(http1.Host)
		b = http1.AppendField(b, "Host", h.Host)
	}
	b = h.AppendFields(b, drop)
	b = c.appendForwarded(b)
	b = append(b, c.p.passed...)
	if h.Trailers {
		b = append(b, "TE: trailers\r\n"...)
	}
	if c.upgrade {
		b = http1.AppendField(b, "Upgrade", h.Upgrade)
	}
	switch {
	case h.Trailers && c.upgrade:
		b = append(b, "Connection: TE, Upgrade\r\n"...)
	case h.Trailers:
		b = append(b, "Connection: TE\r\n"...)
	case c.upgrade:
		b = append(b, "Connection: Upgrade\r\n"...)
	}
	return append(b, "\r\n"...)
}

// appendForwarded appends the X-Forwarded fields: the client is added to
// X-Forwarded-For, the others are set if no proxy before this one has set them.
func (c *conn) appendForwarded(b []byte) []byte {
	h := &c.head
	b = append(b, "X-Forwarded-For: "...)
	if h.Has.Has(http1.XForwardedFor) {
		for i := range h.Fields {
			if f := &h.Fields[i]; f.Known == http1.XForwardedFor && len(f.Value) > 0 {
				b = append(b, f.Value...)
				b = append(b, ", "...)
			}
		}
	}
	if len(c.text) == 0 {
		b = append(b, "unknown"...)
	}
	b = append(b, c.text...)
	b = append(b, "\r\n"...)
	if !h.Has.Has(http1.XForwardedHost) && len(h.Host) > 0 {
		b = http1.AppendField(b, "X-Forwarded-Host", h.Host)
	}
	switch {
	case h.Has.Has(http1.XForwardedProto):
	case c.https:
		b = append(b, "X-Forwarded-Proto: https\r\n"...)
	default:
		b = append(b, "X-Forwarded-Proto: http\r\n"...)
	}
	return b
}

// open begins the exchange, and fills the payload of the copies. body is the part of
// the body that has arrived, with its framing.
func (c *conn) open(d choose.Decision, body []byte) {
	c.leg = pair.Leg{}
	var wanted bool
	if c.x, wanted = c.copies.Begin(c.p.o.Maker, &d); !wanted {
		return
	}
	c.makePayload(body)
	if c.p.o.Watched != nil {
		c.show(d)
	}
}

// show is apart so that decisions stay on the stack where nobody watches.
func (c *conn) show(d choose.Decision) {
	c.x.Request = c.p.o.Watched(&d, c.payload, c.x.Began())
}

const notCopied = http1.HopByHop | 1<<http1.Host | 1<<http1.ContentLength | 1<<http1.Expect |
	1<<http1.Mark | 1<<http1.XForwardedFor

func (c *conn) makePayload(body []byte) {
	h := &c.head
	p := shadow.NewPayload()
	c.payload = p
	p.Method = append(p.Method, h.Method...)
	p.Target = append(p.Target, http1.OriginForm(h.Target)...)
	p.Host = append(p.Host, h.Host...)
	streamed := h.Framing != http1.None && (!c.whole || len(c.sent.Trailer()) > 0)
	drop := notCopied
	if !streamed {
		drop |= http1.Of(http1.Trailer)
	}
	p.Fields = c.appendForwarded(h.AppendFields(p.Fields, drop))
	switch {
	case streamed && h.Framing == http1.Length:
		c.spool = p.Stream(h.Length)
	case streamed:
		c.spool = p.Stream(-1)
	case h.Framing == http1.Length:
		p.HasBody = true
		p.Body = append(p.Body, body...)
	case h.Framing == http1.Chunked:
		p.HasBody = true
		c.sent.Reset(h)
		for len(body) > 0 {
			n, data, err := c.sent.Next(body)
			if n == 0 || err != nil {
				return
			}
			p.Body = append(p.Body, data...)
			body = body[n:]
		}
	}
}

// offer hands the copies to the senders.
func (c *conn) offer() {
	if c.payload == nil {
		return
	}
	c.copies.Give(c.x, c.payload)
	if c.spool == nil {
		c.payload.Release()
		c.payload = nil
	}
}

// endOffer offers the copies of a request if that has not been done, and ends a
// streamed body that will not go on.
func (c *conn) endOffer() {
	c.offer()
	if c.spool == nil || c.pump.active {
		return
	}
	c.spool.Abort(pair.ClientClosed)
	c.releaseSpool()
}

func (c *conn) releaseSpool() {
	if c.spool != nil {
		c.payload.Release()
		c.payload, c.spool = nil, nil
	}
}

// giveWhole gives copies a body that came with its head and is streamed for its
// trailer.
func (c *conn) giveWhole(body []byte) {
	c.sent.Reset(&c.head)
	if _, err := c.feed(body); err == nil {
		c.spool.Close(c.sent.Trailer())
	}
	c.releaseSpool()
}

// ask sends the request in out to the primary and reads until the head of the final
// answer is in answer. If the server has closed the connection before it got the
// request, ask replaces it by a new one, once.
func (c *conn) ask(body []byte) pair.Cause {
	again := c.up.used
	for {
		if c.enter(waiting) {
			return pair.TimedOut
		}
		c.leg.Start = c.p.o.Now()
		n, err := c.up.nc.Write(c.out)
		c.offer()
		if c.whole && c.spool != nil {
			c.giveWhole(body)
		}
		cause, heard := pair.Reset, false
		if err == nil {
			if !c.whole && !c.pump.active {
				c.startPump(body)
			}
			cause, heard = c.readAnswer()
			again = again && c.repeatable
		} else if n > 0 {
			again = again && c.repeatable
		}
		if cause == pair.None {
			return cause
		}
		if c.enter(busy) {
			c.spoiled = true
			return c.whyInterrupted()
		}
		if !again || heard || cause != pair.Reset {
			return cause
		}
		again = false
		c.up.close()
		up, err := c.p.primary.dial(c.up.server)
		if err != nil {
			c.up = nil
			return dialCause(err)
		}
		c.up = up
	}
}
