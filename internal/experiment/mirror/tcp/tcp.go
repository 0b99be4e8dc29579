// Package tcp duplicates connections without understanding them. What a client
// sends goes to the primary and, copied, to a connection of its own to each
// shadow; the client gets the primary's bytes alone.
//
// For each connection there is one exchange (package pair), so connections are
// accounted as requests are: dropped if the shadow's was never made, failed if it
// broke, answered if it ended as the primary's did.
//
// Within a connection the client and its server take turns: bytes of the client
// after bytes of the server begin a turn, and the server's next byte is its
// answer. A shadow gets the bytes of a turn no sooner than it has answered the
// one before, as a client would send them, so each turn is timed at every server
// alike, and paired.
package tcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"tailscope/api"
	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/listen"
)

// Operations of the series.
const (
	Connection = "connection" // first byte since connecting began, bytes; what is accounted
	Turn       = "turn"       // duration: from the client's bytes to the first of the answer; ratio
)

// FamilyConnect is the distribution of the time to connect, labelled as the families
// of package pair, with the operation Connection.
const FamilyConnect = "mirror_connect_seconds"

// Shadow is a pool of servers of one role; a connection goes to one of them.
type Shadow struct {
	Name    string
	Role    pair.Role
	Servers []string // host:port
	Using   int      // how many of them are used; 0 is all
}

// Options configures a Proxy. Primary is required; the zero value of every other
// field means its default.
type Options struct {
	Primary     string // host:port
	PrimaryName string // default primary
	Shadows     []Shadow
	Service     string
	Experiment  string
	Sink        pair.Sink // nil: nothing is measured, connections are counted
	Share       float64   // of connections that are copied, 0 to 1, taken as it is

	// Buffer bounds the bytes held for one shadow, default 64 MiB. ConnBuffer bounds
	// those of one of its connections, default 1 MiB: a connection beyond it is
	// dropped, because bytes in between cannot be left out.
	Buffer     int64
	ConnBuffer int64
	// Connections bounds the connections to each server of a shadow, those being made
	// and closed included; default 4,096.
	Connections int
	// DialTimeout bounds connecting; default 5 s. Timeout bounds the time for a
	// shadow to accept bytes, to answer a turn that the primary has answered, and to
	// close after its client has; default 30 s.
	DialTimeout, Timeout time.Duration
	// AnswerLimit bounds the bytes that a shadow may send beyond four times the
	// primary's; default 64 MiB.
	AnswerLimit int64
	Now         func() int64 // Unix nanoseconds
	Log         *slog.Logger

	hold time.Duration // longestHold, but for tests
}

func (o *Options) ensureDefaults() error {
	if o.Primary == "" {
		return errors.New("tcp: no primary: give its host:port")
	}
	for _, s := range o.Shadows {
		if len(s.Servers) == 0 {
			return fmt.Errorf("tcp: shadow %s has no server: give its host:port", s.Name)
		}
	}
	if o.PrimaryName == "" {
		o.PrimaryName = "primary"
	}
	for v, standard := range map[*int64]int64{&o.Buffer: 64 << 20, &o.ConnBuffer: 1 << 20, &o.AnswerLimit: 64 << 20} {
		if *v <= 0 {
			*v = standard
		}
	}
	for v, standard := range map[*time.Duration]time.Duration{&o.DialTimeout: 5 * time.Second, &o.Timeout: 30 * time.Second} {
		if *v <= 0 {
			*v = standard
		}
	}
	if o.hold <= 0 {
		o.hold = longestHold
	}
	if o.Connections <= 0 {
		o.Connections = 4096
	}
	if o.Now == nil {
		o.Now = func() int64 { return time.Now().UnixNano() }
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return nil
}

// Proxy duplicates the connections of its listeners.
type Proxy struct {
	o        Options
	conns    *pair.Ledger // one exchange a connection
	turns    *pair.Ledger
	connects *pair.Ledger
	senders  []*sender
	share    atomic.Uint64 // bits of a float64
	paused   atomic.Bool
	warned   atomic.Int64 // when the log last said that the primary is not reached

	ctx     context.Context // done when connections are to be cut
	cut     context.CancelFunc
	flush   context.CancelFunc
	flushed chan error
	swept   chan struct{}

	mu        sync.Mutex
	closing   bool
	listeners map[net.Listener]struct{}
	open      map[*conn]struct{}
	links     map[*link]struct{}
	wg        sync.WaitGroup // connections and links
}

// New starts a proxy without a listener; Shutdown ends it.
func New(o Options) (*Proxy, error) {
	if err := o.ensureDefaults(); err != nil {
		return nil, err
	}
	ledgers := pair.Options{Service: o.Service, Experiment: o.Experiment, Primary: o.PrimaryName, Now: o.Now}
	p := &Proxy{
		o: o, listeners: map[net.Listener]struct{}{}, open: map[*conn]struct{}{}, links: map[*link]struct{}{},
		flushed: make(chan error, 1), swept: make(chan struct{}),
	}
	for i, s := range o.Shadows {
		ledgers.Shadows = append(ledgers.Shadows, pair.Shadow{Name: s.Name, Role: s.Role})
		p.senders = append(p.senders, newSender(p, i, s))
	}
	if err := ledgers.Validate(); err != nil {
		return nil, err
	}
	p.conns, p.turns, p.connects = pair.NewLedger(sinkOf(ledgers, o.Sink, connectionFamilies)), pair.NewLedger(sinkOf(ledgers, o.Sink, turnFamilies)), pair.NewLedger(sinkOf(ledgers, o.Sink, connectFamilies))
	p.SetShare(o.Share)
	p.ctx, p.cut = context.WithCancel(context.Background())
	var flushing context.Context
	flushing, p.flush = context.WithCancel(context.Background())
	go p.runLedgers(flushing)
	go p.sweep()
	return p, nil
}

func (p *Proxy) runLedgers(ctx context.Context) {
	var wg sync.WaitGroup
	errs := make([]error, 3)
	for i, b := range []*pair.Ledger{p.conns, p.turns, p.connects} {
		wg.Go(func() { errs[i] = b.Run(ctx) })
	}
	wg.Wait()
	p.flushed <- errors.Join(errs...)
}

// Serve accepts connections until the listener fails or the proxy shuts down, and
// closes the listener. After a shutdown it returns nil.
func (p *Proxy) Serve(ln net.Listener) error {
	defer ln.Close()
	p.mu.Lock()
	if p.closing {
		p.mu.Unlock()
		return nil
	}
	p.listeners[ln] = struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.listeners, ln)
		p.mu.Unlock()
	}()
	for {
		client, err := ln.Accept()
		if err != nil {
			p.mu.Lock()
			closing := p.closing
			p.mu.Unlock()
			switch {
			case closing:
				return nil
			case !passing(err):
				return fmt.Errorf("accept: %w", err)
			}
			select {
			case <-time.After(10 * time.Millisecond): // out of descriptors: some will be closed
			case <-p.ctx.Done():
			}
			continue
		}
		c := &conn{p: p, client: client, place: listen.Under(client)}
		if c.place != nil {
			c.client = c.place.NetConn()
		}
		p.mu.Lock()
		if p.closing {
			p.mu.Unlock()
			client.Close()
			continue
		}
		p.open[c] = struct{}{}
		p.wg.Add(1)
		p.mu.Unlock()
		go func() {
			defer p.wg.Done()
			defer client.Close()
			c.serve()
			p.mu.Lock()
			delete(p.open, c)
			p.mu.Unlock()
		}()
	}
}

// Shutdown accepts no more connections and waits for the others; they are cut when
// ctx is done. Then it flushes the ledgers, and returns their error.
func (p *Proxy) Shutdown(ctx context.Context) error {
	p.mu.Lock()
	again := p.closing
	p.closing = true
	for ln := range p.listeners {
		ln.Close()
	}
	p.mu.Unlock()
	if again {
		<-p.swept
		return nil
	}
	done := make(chan struct{})
	go func() {
		p.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	p.cut()
	// The links first: those of a connection that was cut would end in order.
	p.mu.Lock()
	links := p.snapshot()
	p.mu.Unlock()
	for _, l := range links {
		l.end(pair.Stopped)
	}
	p.mu.Lock()
	for c := range p.open {
		c.abort(pair.Stopped)
	}
	p.mu.Unlock()
	<-done
	<-p.swept
	p.flush()
	return <-p.flushed
}

// snapshot returns the links; needs mu.
func (p *Proxy) snapshot() []*link {
	links := make([]*link, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	return links
}

// SetShare sets the share of the connections to come that are copied, SetPaused
// whether any are.
func (p *Proxy) SetShare(share float64) { p.share.Store(math.Float64bits(share)) }

func (p *Proxy) SetPaused(paused bool) { p.paused.Store(paused) }

// SetUsing sets the number of a shadow's servers that the connections to come go to.
func (p *Proxy) SetUsing(shadow, servers int) { p.senders[shadow].setUsing(servers) }

// choose decides whether a connection is copied.
func (p *Proxy) choose() pair.Reason {
	switch share := math.Float64frombits(p.share.Load()); {
	case p.paused.Load():
		return pair.Paused
	case share < 1 && rand.Float64() >= share:
		return pair.Share
	}
	return pair.Chosen
}

// Stats returns the totals of connections.
func (p *Proxy) Stats() pair.Stats { return p.conns.Stats() }

// Turns returns the totals of turns, and their account for each shadow. A turn that
// is unanswered when its connection ends has failed.
func (p *Proxy) Turns() (pair.Stats, []api.MirrorAccount) {
	accounts := make([]api.MirrorAccount, len(p.senders))
	for i := range accounts {
		accounts[i] = p.turns.Account(i)
	}
	return p.turns.Stats(), accounts
}

// Primary returns the primary's state, and Shadows those of the shadows with their
// accounts.
func (p *Proxy) Primary() api.MirrorTarget {
	p.mu.Lock()
	n := len(p.open)
	p.mu.Unlock()
	return api.MirrorTarget{
		Name: p.o.PrimaryName, Role: "primary", Using: 1, Amplify: 1, Diverged: api.Float(math.NaN()),
		Servers: []api.MirrorServer{{URL: "tcp://" + p.o.Primary, Connections: n}},
	}
}

func (p *Proxy) Shadows() []api.MirrorTarget {
	out := make([]api.MirrorTarget, len(p.senders))
	for i, l := range p.senders {
		out[i] = l.state()
	}
	return out
}
