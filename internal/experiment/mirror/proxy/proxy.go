// Package proxy is the mirror's HTTP/1.1 proxy: it passes requests to the primary and
// its answers back, end-to-end parts byte for byte, and offers copies of chosen
// requests to senders.
//
// Each client's connection has one goroutine, which does everything for a
// request in turn:
//
//	read the head --> write it to the primary --> offer copies --> read the
//	answer --> write it to the client
//
// Only a body that has not come with its head has a second goroutine, as both
// directions then flow at once. Nothing that a sender does is waited for. Buffers
// belong to connections. Connections have no timers: one atomic word holds the state of
// each and since when it lasts, and a sweeper reads it.
package proxy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"tailscope/internal/experiment/mirror/offer"
	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/http1"
)

// Options configures a Proxy. Addresses, and the Maker with its Ledger and Chooser,
// are required.
type Options struct {
	// Addresses of the primary's servers, as Dial takes them: host:port. New
	// connections are made to them in turn.
	Addresses []string
	// Dial connects to one of them, ready for HTTP/1.1. Default TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Host is sent to the primary in place of the client's. Default the client's.
	Host string
	// Session is the session's id, which the primary gets in the field
	// Tailscope-Passed: requests that carry it there, or in a copy's mark, went round
	// in a circle and are refused.
	Session string

	*offer.Maker
	// KeepLimit bounds the part of a body that is kept for comparison; default 256
	// KiB.
	KeepLimit int

	HeadLimit      int           // bytes of a request's head; default 64 KiB. Above: 431
	HeadTimeout    time.Duration // from a head's first byte to its last; default 60 s. Then: 408
	IdleTimeout    time.Duration // between requests, and between parts of a body; default 3 min
	PrimaryTimeout time.Duration // from the request's last byte to the answer's head; 0: none. Then: 504
	DialTimeout    time.Duration // default 10 s
	PrimaryIdle    time.Duration // a connection unused for that long is closed; default 50 s

	// Now is the clock of legs, in Unix nanoseconds. Default pair.Steady.
	Now func() int64
}

func (o *Options) ensureDefaults() error {
	if len(o.Addresses) == 0 || o.Maker == nil || o.Ledger == nil || o.Chooser == nil {
		return errors.New("proxy: addresses of the primary, a ledger and a chooser are needed")
	}
	for _, d := range []struct {
		at *time.Duration
		to time.Duration
	}{{&o.HeadTimeout, time.Minute}, {&o.IdleTimeout, 3 * time.Minute}, {&o.DialTimeout, 10 * time.Second}, {&o.PrimaryIdle, 50 * time.Second}} {
		if *d.at <= 0 {
			*d.at = d.to
		}
	}
	if o.HeadLimit <= 0 {
		o.HeadLimit = 64 << 10
	}
	if o.KeepLimit <= 0 {
		o.KeepLimit = 256 << 10
	}
	if o.Dial == nil {
		var d net.Dialer
		o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			return d.DialContext(ctx, "tcp", address)
		}
	}
	if o.Now == nil {
		o.Now = pair.Steady
	}
	return nil
}

// Proxy serves clients' connections. It is safe for concurrent use.
type Proxy struct {
	o       Options
	primary *primary
	tick    atomic.Int64 // the sweeper's clock: milliseconds since began
	passed  []byte       // the line that says that a request was here
	began   time.Time
	ctx     context.Context // done when what is under way is broken off
	cancel  context.CancelFunc

	draining atomic.Bool
	mu       sync.Mutex
	conns    map[*conn]struct{}
	listener map[net.Listener]struct{}
	drained  chan struct{} // closed when draining and no connection is left
	wg       sync.WaitGroup
}

// New returns a proxy, which has a goroutine until Shutdown.
func New(o Options) (*Proxy, error) {
	if err := o.ensureDefaults(); err != nil {
		return nil, err
	}
	p := &Proxy{o: o, began: time.Now(), conns: make(map[*conn]struct{}),
		listener: make(map[net.Listener]struct{}), drained: make(chan struct{})}
	if o.Session != "" {
		p.passed = http1.AppendField(nil, "Tailscope-Passed", o.Session)
	}
	p.primary = newPrimary(p)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.tick.Store(1)
	p.wg.Go(p.sweeps)
	return p, nil
}

// Serve accepts connections until l fails or Shutdown is called; it then returns nil.
func (p *Proxy) Serve(l net.Listener) error {
	p.mu.Lock()
	if p.draining.Load() {
		p.mu.Unlock()
		return l.Close()
	}
	p.listener[l] = struct{}{}
	p.mu.Unlock()
	for {
		nc, err := l.Accept()
		if err != nil {
			if p.draining.Load() {
				return nil
			}
			return err
		}
		p.mu.Lock()
		if p.draining.Load() {
			nc.Close()
		} else {
			p.wg.Go(func() { p.ServeConn(nc, nil) })
		}
		p.mu.Unlock()
	}
}

// ServeConn serves a connection of which peeked was read before, until it ends,
// and closes it.
func (p *Proxy) ServeConn(nc net.Conn, peeked []byte) {
	defer nc.Close() // it may be more than what c serves
	c := newConn(p, nc, peeked)
	p.mu.Lock()
	if p.draining.Load() {
		p.mu.Unlock()
		return
	}
	p.conns[c] = struct{}{}
	p.wg.Add(1)
	p.mu.Unlock()
	defer p.wg.Done()
	c.serve()
	p.mu.Lock()
	delete(p.conns, c)
	if p.draining.Load() && len(p.conns) == 0 {
		close(p.drained)
	}
	p.mu.Unlock()
	c.free()
}

// Shutdown accepts no more connections, closes idle ones, lets requests finish
// until ctx is done, and breaks them off then. When it returns no goroutine is
// left. It returns ctx's error if anything was broken off.
func (p *Proxy) Shutdown(ctx context.Context) error {
	p.mu.Lock()
	if !p.draining.Swap(true) {
		for l := range p.listener {
			l.Close()
		}
		for c := range p.conns {
			c.watch.hurry()
		}
		if len(p.conns) == 0 {
			close(p.drained)
		}
	}
	p.mu.Unlock()
	var err error
	select {
	case <-p.drained:
	case <-ctx.Done():
		err = ctx.Err()
	}
	p.cancel()
	p.breakOff()
	p.primary.close()
	p.wg.Wait()
	return err
}

// breakOff ends all connections, whatever they wait for, and returns when they have
// ended.
func (p *Proxy) breakOff() {
	t := time.NewTicker(5 * time.Millisecond)
	defer t.Stop()
	for {
		p.mu.Lock()
		for c := range p.conns {
			c.nc.Close()
			if ph, _, v := c.watch.get(); ph == waiting || ph == relaying || ph == joining {
				c.watch.interrupt(v, lost)
			}
		}
		p.mu.Unlock()
		select {
		case <-p.drained:
			return
		case <-t.C:
		}
	}
}

// addr returns the address without its port, in IPv4 if it is mapped.
func addr(a net.Addr) netip.Addr {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort().Addr().Unmap()
	}
	if p, err := netip.ParseAddrPort(a.String()); err == nil {
		return p.Addr().Unmap()
	}
	return netip.Addr{}
}
