package tcp

import (
	"context"
	"fmt"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"tailscope/api"
	"tailscope/internal/experiment/mirror/pair"
)

// sender holds what all connections to one shadow share.
type sender struct {
	p       *Proxy
	shadow  int
	name    string
	role    pair.Role
	servers []*server
	using   atomic.Int64
	next    atomic.Uint64
	count   atomic.Int64 // of links
	budget  *pair.Budget // of the bytes that wait for it

	mu       sync.Mutex
	diverged int64 // when bytes were first missed, Unix nanoseconds
	why      string
}

type server struct {
	addr  string
	count atomic.Int64
	down  atomic.Pointer[string]
}

func newSender(p *Proxy, shadow int, s Shadow) *sender {
	l := &sender{p: p, shadow: shadow, name: s.Name, role: s.Role, budget: pair.NewBudget(p.o.Buffer)}
	for _, addr := range s.Servers {
		l.servers = append(l.servers, &server{addr: addr})
	}
	if s.Using <= 0 {
		s.Using = len(s.Servers)
	}
	l.setUsing(s.Using)
	return l
}

func (l *sender) setUsing(n int) { l.using.Store(int64(min(max(n, 0), len(l.servers)))) }

// open begins a connection on a goroutine of its own.
func (l *sender) open(c *conn, x, connect *pair.Exchange) *link {
	k := &link{sender: l, c: c, x: x, connect: connect, wake: make(chan struct{}, 1), quiet: mostQuiet}
	using := l.using.Load()
	if using > 0 {
		k.server = l.servers[l.next.Add(1)%uint64(using)]
	}
	l.count.Add(1)
	switch {
	case k.server == nil:
		k.end(pair.NoServer)
		return k
	case k.server.count.Add(1) > int64(l.p.o.Connections):
		k.server.count.Add(-1)
		k.end(pair.QueueFull)
		return k
	}
	var ctx context.Context
	ctx, k.cancel = context.WithTimeout(l.p.ctx, l.p.o.DialTimeout)
	p := l.p
	p.mu.Lock()
	p.links[k] = struct{}{}
	p.wg.Add(1)
	p.mu.Unlock()
	go func() {
		defer p.wg.Done()
		k.run(ctx)
		p.mu.Lock()
		delete(p.links, k)
		p.mu.Unlock()
	}()
	return k
}

// missed notes that a shadow's connection did not get, or not answer, all of its
// client's bytes: from then on its data may differ.
func (l *sender) missed(cause pair.Cause) {
	l.mu.Lock()
	if l.diverged == 0 {
		l.diverged, l.why = l.p.o.Now(), fmt.Sprintf("a connection was lost: %s", cause)
	}
	l.mu.Unlock()
}

func (l *sender) state() api.MirrorTarget {
	account := l.p.conns.Account(l.shadow)
	account.Buffered, account.BufferBound = l.budget.Held(), l.budget.Bound()
	t := api.MirrorTarget{
		Name: l.name, Role: "candidate", Using: int(l.using.Load()), Amplify: 1, Account: &account, Diverged: api.Float(math.NaN()),
	}
	if l.role == pair.Control {
		t.Role = "control"
	}
	for _, s := range l.servers {
		out := api.MirrorServer{URL: "tcp://" + s.addr, Connections: int(s.count.Load())}
		if why := s.down.Load(); why != nil {
			out.Down = *why
		}
		t.Servers = append(t.Servers, out)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.diverged != 0 {
		t.Diverged, t.DivergedWhy = api.Float(float64(l.diverged)/1e9), l.why
	}
	return t
}

const sweepEvery = 100 * time.Millisecond

// sweep ends links that are over their time, until the proxy has shut down.
func (p *Proxy) sweep() {
	defer close(p.swept)
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-tick.C:
		}
		now := p.o.Now()
		p.mu.Lock()
		links := p.snapshot()
		p.mu.Unlock()
		for _, l := range links {
			l.check(now)
		}
	}
}

func (s *server) dial(ctx context.Context) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.addr)
	if err != nil {
		text := err.Error()
		s.down.Store(&text)
		return nil, err
	}
	if s.down.Load() != nil {
		s.down.Store(nil)
	}
	return c, nil
}
