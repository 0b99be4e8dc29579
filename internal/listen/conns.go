package listen

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Listener bounds the open connections of a listener. At the bound a new connection
// evicts the one that has been idle for longest: one that has sent nothing yet, that
// drips the head of a request, or that is kept alive. The new connection is closed if
// none is idle.
type Listener struct {
	net.Listener
	max   int
	now   func() time.Time
	mu    sync.Mutex
	conns []*Conn // each knows its index

	evicted, refused atomic.Uint64
}

// Bound returns l with at most max connections open.
func Bound(l net.Listener, max int) *Listener {
	return &Listener{Listener: l, max: max, now: time.Now}
}

// ConnStats counts connections of a Listener.
type ConnStats struct {
	Open, Max int
	Evicted   uint64 // closed for a new connection
	Refused   uint64 // closed at once
}

// Stats returns the counts so far.
func (l *Listener) Stats() ConnStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return ConnStats{len(l.conns), l.max, l.evicted.Load(), l.refused.Load()}
}

// Accept returns the next connection, of type *Conn.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.admit(raw); c != nil {
			return c, nil
		}
		l.refused.Add(1)
		raw.Close() // closed before anything was sent on it
	}
}

// admit adds a connection, or returns nil at the bound.
func (l *Listener) admit(raw net.Conn) *Conn {
	c := &Conn{Conn: raw, l: l}
	c.since.Store(l.now().UnixNano())
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.conns) >= l.max && !l.evict() {
		return nil
	}
	c.at = len(l.conns)
	l.conns = append(l.conns, c)
	return c
}

// evict closes the connection that has been idle for longest, and reports whether there
// was one.
func (l *Listener) evict() bool {
	var victim *Conn
	var since int64
	for _, c := range l.conns {
		if at := c.since.Load(); c.busy.Load() == 0 && (victim == nil || at < since) {
			victim, since = c, at
		}
	}
	if victim == nil {
		return false
	}
	l.remove(victim)
	l.evicted.Add(1)
	victim.Conn.Close() // its reader gets an error and calls Close of the Conn
	return true
}

func (l *Listener) remove(c *Conn) {
	if c.at < 0 {
		return
	}
	last := l.conns[len(l.conns)-1]
	l.conns[c.at], last.at = last, c.at
	l.conns[len(l.conns)-1] = nil
	l.conns = l.conns[:len(l.conns)-1]
	c.at = -1
}

// Conn is a connection of a Listener.
type Conn struct {
	net.Conn
	l     *Listener
	at    int          // index in l.conns, or -1; guarded by l.mu
	busy  atomic.Int32 // requests in progress
	since atomic.Int64 // Unix nanoseconds: when it was accepted, or was last busy
}

// NetConn returns the underlying connection.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// Close closes the connection and removes it from its Listener.
func (c *Conn) Close() error {
	c.l.mu.Lock()
	c.l.remove(c)
	c.l.mu.Unlock()
	return c.Conn.Close()
}

// Begin marks the start of a request: the connection is not evicted until End. Begin and
// End do nothing on a nil Conn, which is not bounded.
func (c *Conn) Begin() {
	if c != nil {
		c.busy.Add(1)
	}
}

// End marks the end of a request.
func (c *Conn) End() {
	if c != nil {
		c.since.Store(c.l.now().UnixNano())
		c.busy.Add(-1)
	}
}

// Under returns c if it is a Conn, or the Conn that it wraps, or nil.
func Under(c net.Conn) *Conn {
	for {
		if g, ok := c.(*Conn); ok {
			return g
		}
		n, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		c = n.NetConn()
	}
}

type connKey struct{}

// ConnContext is an http.Server.ConnContext: Working and Guard find a request's
// connection through it.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, Under(c))
}

// Working returns next, with the request's connection marked busy while it runs.
func Working(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := r.Context().Value(connKey{}).(*Conn)
		c.Begin()
		defer c.End()
		next.ServeHTTP(w, r)
	})
}
