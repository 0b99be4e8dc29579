package proxy

import (
	"net"
	"sync/atomic"
	"time"
)

// phase is the wait that a goroutine is in.
type phase uint8

const (
	busy     phase = iota // for nobody, or for as long as it takes
	idle                  // the client's next request
	heading               // the rest of its head
	waiting               // the head of the primary's answer
	relaying              // the rest of it
	sending               // the client to take bytes
	filling               // the client's next part of a body
	joining               // the end of a body whose answer has come already
	overdue               // was interrupted: it took too long
	lost                  // was interrupted: the client has closed
)

// watch holds a goroutine's phase and its begin in one atomic word. The goroutine
// writes it at every step. The sweeper reads it, and may interrupt the wait by
// setting it to overdue or lost first; the goroutine finds that in set.
type watch struct {
	state atomic.Uint64
	// stop interrupts the wait of a phase.
	stop func(phase)
}

// set enters a phase and returns the one before.
func (w *watch) set(ph phase, tick int64) phase {
	return phase(w.state.Swap(uint64(ph)<<56|uint64(tick)) >> 56)
}

func (w *watch) get() (phase, int64, uint64) {
	v := w.state.Load()
	return phase(v >> 56), int64(v & (1<<56 - 1)), v
}

// interrupt ends the wait that v stands for, if it has not ended meanwhile.
func (w *watch) interrupt(v uint64, why phase) {
	if w.state.CompareAndSwap(v, uint64(why)<<56) {
		w.stop(phase(v >> 56))
	}
}

// hurry ends the wait for a next request.
func (w *watch) hurry() {
	if ph, _, v := w.get(); ph == idle {
		w.interrupt(v, overdue)
	}
}

// past is a deadline that makes reads and writes return.
var past = time.Unix(1, 0)

// sweeps calls sweep for all connections at intervals.
func (p *Proxy) sweeps() {
	every := 250 * time.Millisecond
	for _, d := range []time.Duration{p.o.HeadTimeout, p.o.IdleTimeout, p.o.PrimaryTimeout, p.o.PrimaryIdle} {
		if d > 0 {
			every = max(min(every, d/8), 5*time.Millisecond)
		}
	}
	t := time.NewTicker(every)
	defer t.Stop()
	for n := int64(0); ; n++ {
		select {
		case <-p.ctx.Done():
			return
		case <-t.C:
		}
		now := int64(time.Since(p.began)/time.Millisecond) + 1
		p.tick.Store(now)
		p.mu.Lock()
		for c := range p.conns {
			c.sweep(now)
		}
		p.mu.Unlock()
		p.primary.sweep(now)
	}
}

// lostAfter is the wait for an answer after which the proxy checks whether the client
// is still there.
const lostAfter = 1000

// sweep interrupts c if it has waited for too long.
func (c *conn) sweep(now int64) {
	o := &c.p.o
	ph, since, v := c.watch.get()
	var limit time.Duration
	switch ph {
	case idle:
		if limit = o.IdleTimeout; c.p.draining.Load() {
			limit = time.Nanosecond
		}
	case heading:
		limit = o.HeadTimeout
	case sending:
		limit = o.IdleTimeout
	case joining:
		_, bs, _ := c.pump.watch.get()
		limit, since = o.IdleTimeout, max(since, bs)
	case waiting:
		limit = o.PrimaryTimeout
		// The primary may wait for the body.
		switch bp, bs, _ := c.pump.watch.get(); bp {
		case filling:
			limit = 0
		case busy:
			since = max(since, bs)
		}
	}
	if limit > 0 && time.Duration(now-since)*time.Millisecond > limit {
		c.watch.interrupt(v, overdue)
		return
	}
	if (ph == waiting || ph == relaying) && now-since > lostAfter && c.client.reset() {
		c.watch.interrupt(v, lost)
		return
	}
	if ph, since, v := c.pump.watch.get(); ph == filling && time.Duration(now-since)*time.Millisecond > o.IdleTimeout {
		c.pump.watch.interrupt(v, overdue)
	}
}

// stopWait makes c's wait return. The sweeper, which holds Proxy.mu, calls it.
func (c *conn) stopWait(ph phase) {
	switch ph {
	case waiting, relaying:
		if c.up != nil {
			c.up.nc.SetDeadline(past)
		}
	case joining:
		c.up.nc.SetDeadline(past)
		c.nc.SetDeadline(past)
	default:
		c.nc.SetDeadline(past)
	}
}

// interrupted reports whether the phase that was left was interrupted. The sweeper
// has then finished with what c points to.
func (c *conn) interrupted(was phase) bool {
	if was < overdue {
		return false
	}
	c.p.mu.Lock() // waits for the sweep
	defer c.p.mu.Unlock()
	c.wasLost = was == lost
	return true
}

// closeWriter is a connection that can be closed in one direction.
type closeWriter interface{ CloseWrite() error }

// socket returns the TCP connection below c, or nil.
func socket(c net.Conn) *net.TCPConn {
	for {
		t, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return tcp(c)
		}
		c = t.NetConn()
	}
}
