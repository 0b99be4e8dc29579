package proxy

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// primary holds the connections to the primary's servers.
type primary struct {
	p       *Proxy
	servers []*server
	turn    atomic.Uint32
}

// server is one address with its idle connections, the one used last at the end.
type server struct {
	address string
	open    atomic.Int64 // connections, in use or not
	mu      sync.Mutex
	idle    []*upstream
	closed  bool
}

// upstream is one connection to the primary. The goroutine that took it owns it.
type upstream struct {
	nc     net.Conn
	server *server
	probe  *probe
	tls    bool
	used   bool  // for a request before
	since  int64 // tick at which it was put back
	closed atomic.Bool
	one    [1]byte // read by more
}

// close closes the connection; a second call does nothing.
func (u *upstream) close() {
	if u.closed.CompareAndSwap(false, true) {
		u.server.open.Add(-1)
		u.nc.Close()
	}
}

// Connections returns the number of open connections to the primary's servers.
func (p *Proxy) Connections() (n int) {
	for _, s := range p.primary.servers {
		n += int(s.open.Load())
	}
	return n
}

func newPrimary(p *Proxy) *primary {
	pr := &primary{p: p}
	for _, a := range p.o.Addresses {
		pr.servers = append(pr.servers, &server{address: a})
	}
	return pr
}

// getUpstream returns a connection: an idle one, else a new one. Idle ones are probed first,
// however short a time ago they were used: bytes that the server has sent meanwhile
// would be taken for the answer, and given to another client.
func (pr *primary) getUpstream() (*upstream, error) {
	var first error
	n := len(pr.servers)
	turn := 0
	if n > 1 {
		turn = int(pr.turn.Add(1)) % n
	}
	for i := range n {
		s := pr.servers[(turn+i)%n]
		for {
			u := s.takeUpstream()
			if u == nil {
				break
			}
			if !u.stale() {
				return u, nil
			}
			u.close()
		}
		u, err := pr.dial(s)
		if err == nil {
			return u, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// dial returns a new connection to s.
func (pr *primary) dial(s *server) (*upstream, error) {
	ctx, cancel := context.WithTimeout(pr.p.ctx, pr.p.o.DialTimeout)
	defer cancel()
	nc, err := pr.p.o.Dial(ctx, s.address)
	if err != nil {
		return nil, err
	}
	s.open.Add(1)
	_, tls := nc.(interface{ NetConn() net.Conn })
	return &upstream{nc: fast(nc), server: s, probe: newProbe(nc), tls: tls}, nil
}

// putUpstream gives back a connection on which nothing is under way.
func (pr *primary) putUpstream(u *upstream) {
	u.used, u.since = true, pr.p.tick.Load()
	s := u.server
	s.mu.Lock()
	if !s.closed {
		s.idle = append(s.idle, u)
		u = nil
	}
	s.mu.Unlock()
	if u != nil {
		u.close()
	}
}

func (s *server) takeUpstream() *upstream {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.idle)
	if n == 0 {
		return nil
	}
	u := s.idle[n-1]
	s.idle[n-1] = nil
	s.idle = s.idle[:n-1]
	return u
}

// stale reports whether the server has ended the connection, or sent something that
// nobody asked for. TLS records before the first answer do not count.
func (u *upstream) stale() bool { return u.probe.raw != nil && !u.probe.quiet() }

// more reports whether the bytes read from the socket hold more than the answer: TLS
// may have read two records at once.
func (u *upstream) more() bool {
	if !u.tls {
		return false
	}
	u.nc.SetReadDeadline(past) // so that the socket is not read
	n, err := u.nc.Read(u.one[:])
	u.nc.SetReadDeadline(time.Time{})
	return n > 0 || !errors.Is(err, os.ErrDeadlineExceeded)
}

// sweep closes connections that were idle for long, or that the server has closed.
func (pr *primary) sweep(now int64) {
	var end []*upstream // closed without the lock: TLS says goodbye
	for _, s := range pr.servers {
		s.mu.Lock()
		keep := s.idle[:0]
		for _, u := range s.idle {
			age := now - u.since
			if age > pr.p.o.PrimaryIdle.Milliseconds() || u.stale() {
				end = append(end, u)
				continue
			}
			keep = append(keep, u)
		}
		clear(s.idle[len(keep):])
		s.idle = keep
		s.mu.Unlock()
	}
	for _, u := range end {
		u.close()
	}
}

func (pr *primary) close() {
	for _, s := range pr.servers {
		s.mu.Lock()
		s.closed = true
		for _, u := range s.idle {
			u.close()
		}
		s.idle = nil
		s.mu.Unlock()
	}
}
