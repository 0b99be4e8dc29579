package listen

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Listener bounds the connections of a listener. At the bound a newcomer takes
// the place of the connection that has had nothing to do for longest: one that
// sent nothing yet, that drips the head of a request, or that is kept for the
// next one. If all have something to do the newcomer is closed.
type Listener struct {
	net.Listener
	max   int
	now   func() time.Time
	mu    sync.Mutex
	conns []*Conn // of which each knows its place

	evicted, refused atomic.Uint64
}

// Bound returns l with at most max connections open.
func Bound(l net.Listener, max int) *Listener {
	return &Listener{Listener: l, max: max, now: time.Now}
}

// ConnStats counts connections of a Listener.
type ConnStats struct {
	Open, Max int
	Evicted   uint64 // closed for a newcomer
	Refused   uint64 // closed as newcomers
}

// Stats returns the counts so far.
func (l *Listener) Stats() ConnStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return ConnStats{len(l.conns), l.max, l.evicted.Load(), l.refused.Load()}
}

// Accept returns the next connection, a *Conn.
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
		raw.Close() // of a connection that nothing was sent on
	}
}

// admit adds a connection, or returns nil if there is no place for it.
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

// evict closes the connection that has had nothing to do for longest.
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
	victim.Conn.Close() // whoever reads it is told; Close of the Conn follows
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
	at    int          // in l.conns, -1 if not there; needs l.mu
	busy  atomic.Int32 // requests being worked on
	since atomic.Int64 // Unix nanoseconds: when it was accepted, or last had something to do
}

// NetConn returns the connection underneath.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// Close closes the connection and gives its place free.
func (c *Conn) Close() error {
	c.l.mu.Lock()
	c.l.remove(c)
	c.l.mu.Unlock()
	return c.Conn.Close()
}

// Begin says that a request is being worked on: until End the connection is not
// closed for a newcomer. A nil Conn, which nobody bounds, takes both.
func (c *Conn) Begin() {
	if c != nil {
		c.busy.Add(1)
	}
}

// End says that the work on a request is over.
func (c *Conn) End() {
	if c != nil {
		c.since.Store(c.l.now().UnixNano())
		c.busy.Add(-1)
	}
}

// Under returns the Conn that c is or is spoken over, nil if there is none.
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

// ConnContext is the http.Server's: it lets Working and Guard know a request's
// connection.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, Under(c))
}

// Working returns next, during which the request's connection is worked on.
func Working(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := r.Context().Value(connKey{}).(*Conn)
		c.Begin()
		defer c.End()
		next.ServeHTTP(w, r)
	})
}
