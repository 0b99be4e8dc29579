package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/http1"
)

// bigBytes is the size of a read of a streamed body.
const bigBytes = 64 << 10

var big = sync.Pool{New: func() any { return new([bigBytes]byte) }}

// pump passes on a body that did not come with its head, on a goroutine of its
// own while the connection's waits for the answer.
type pump struct {
	watch watch
	// active belongs to the connection: a body is, or was, on its way, and the pump
	// has not been waited for.
	active bool
	done   chan struct{} // capacity 1
	// broke reports that the pump has ended the primary's connection.
	broke atomic.Bool
	// Read after done:
	bad          *http1.Error // the body is malformed
	clientClosed bool         // the client broke it off
	deaf         bool         // the primary did not take all of it
}

// startPump passes on what follows first, which was written with the head.
func (c *conn) startPump(first []byte) {
	p := &c.pump
	p.active = true
	c.sent.Reset(&c.head)
	_, _ = c.feed(first)
	c.r, c.w = 0, 0
	p.watch.set(busy, c.p.tick.Load())
	up := c.up
	c.p.wg.Go(func() {
		c.pumpBody(up)
		p.done <- struct{}{}
	})
}

func (c *conn) pumpBody(up *upstream) {
	p := &c.pump
	buf := big.Get().(*[bigBytes]byte)
	defer big.Put(buf)
	for !c.sent.Done() {
		if p.watch.set(filling, c.p.tick.Load()) >= overdue {
			p.clientClosed = true
			break
		}
		n, err := c.nc.Read(buf[:])
		if p.watch.set(busy, c.p.tick.Load()) >= overdue || n == 0 && err != nil {
			p.clientClosed = true
			break
		}
		m, err := c.feed(buf[:n])
		if err != nil {
			p.bad = err.(*http1.Error)
			break
		}
		if !p.deaf {
			_, err := up.nc.Write(buf[:m])
			p.deaf = err != nil
		}
		if m < n { // the next request
			if len(c.in) < n-m {
				c.in = make([]byte, bigBytes)
			}
			c.r, c.w = 0, copy(c.in, buf[m:n])
		}
	}
	switch {
	case p.bad != nil || p.clientClosed:
		if c.spool != nil {
			c.spool.Abort(pair.ClientClosed)
		}
		// The primary must not take what it has for the whole body.
		p.broke.Store(true)
		up.close()
	case c.spool != nil:
		c.spool.Close(c.sent.Trailer())
	}
	p.watch.set(busy, c.p.tick.Load())
}

// feed parses the part of raw that belongs to the body, and writes it to the copies.
func (c *conn) feed(raw []byte) (taken int, err error) {
	if c.spool == nil {
		return c.sent.Skip(raw)
	}
	for taken < len(raw) && !c.sent.Done() {
		n, data, err := c.sent.Next(raw[taken:])
		c.spool.Write(data)
		if taken += n; err != nil {
			return taken, err
		}
	}
	return taken, nil
}

// bodySent reports whether all of the body was sent to the primary, without waiting
// for it.
func (c *conn) bodySent() bool {
	if !c.pump.active {
		return true
	}
	select {
	case <-c.pump.done:
		c.joined()
		return !c.pump.deaf && !c.pump.clientClosed && c.pump.bad == nil
	default:
		return false
	}
}

// joinPump waits for the pump.
func (c *conn) joinPump() {
	if c.pump.active {
		<-c.pump.done
		c.joined()
	}
}

func (c *conn) joined() {
	c.pump.active = false
	c.releaseSpool()
}

// lingerFor is the time for which the client's bytes are read and discarded before
// the connection is closed. If it were closed with bytes unread, the other side could
// lose the end of the answer (RFC 9112 section 9.6).
const lingerFor = 2 * time.Second

// linger ends a connection on which the client may still be sending.
func (c *conn) linger() {
	if c.up != nil {
		c.up.close() // the pump throws away from here on
		c.up = nil
	}
	if w, ok := c.nc.(closeWriter); ok {
		_ = w.CloseWrite()
	}
	c.enter(busy)
	_ = c.nc.SetReadDeadline(time.Now().Add(lingerFor))
	c.joinPump()
	if c.pump.clientClosed {
		return
	}
	buf := big.Get().(*[bigBytes]byte)
	defer big.Put(buf)
	for total := 0; total < 64<<20; {
		n, err := c.nc.Read(buf[:])
		if total += n; err != nil {
			return
		}
	}
}
