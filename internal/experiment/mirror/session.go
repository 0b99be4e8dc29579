package mirror

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tailscope/api"
	"tailscope/internal/experiment/mirror/choose"
	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/experiment/mirror/shadow"
	"tailscope/internal/experiment/mirror/tcp"
	"tailscope/internal/listen"
)

// Session is one run of a mirror. It is safe for concurrent use.
type Session struct {
	o       Options
	log     *slog.Logger
	started time.Time
	addr    net.Addr
	clients *listen.Listener

	// In HTTP mode.
	primary      *primary
	ledger       *pair.Ledger
	chooser      *choose.Chooser
	senders      []*shadow.Sender
	httpListener *httpListener
	extras       extras
	// In TCP mode.
	tcp      *tcp.Proxy
	listener net.Listener

	away map[string]string // servers that were not reached at the start, and why

	stopping context.Context // done when the session is to end
	stop     context.CancelFunc
	cut      context.CancelFunc // cuts its end short
	done     chan struct{}      // closed when everything has ended
	reported chan struct{}      // closed after the first attempt to report
	err      error              // of the session's end, read after done

	mu      sync.Mutex
	applied uint64
	paused  bool
	share   float64

	sampled atomic.Bool // there is a Sampler
	lease   lease
}

// drainTimeout bounds the time for clients to finish when a session ends.
const drainTimeout = 10 * time.Second

// Start validates the options, listens, connects to the primary once, and serves
// clients from then on. If the options are wrong, the address is taken, the primary
// is not reached, or requests would go round in circles, it returns an error and
// leaves nothing behind. The session ends by Close, when ctx is done, after
// Options.For, or when the server's reply says so.
func Start(ctx context.Context, o Options) (*Session, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.ID == "" {
		o.ID = NewID(time.Now())
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	s := &Session{o: o, log: o.Log.With("session", o.ID), done: make(chan struct{}), reported: make(chan struct{}), share: o.Share, paused: o.Paused}
	if s.o.Name == "" {
		s.o.Name = s.defaultName()
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen: %w: stop what listens there, or give another address", err)
	}
	s.addr = l.Addr()
	s.boundClients()
	s.clients = listen.Bound(l, s.o.Clients)
	assemble := s.assemble
	if o.TCP {
		assemble = s.assembleTCP
	}
	if err := assemble(ctx, s.clients); err != nil {
		l.Close()
		return nil, err
	}
	s.run(ctx)
	<-s.reported // whoever reads the server's list from here on finds the session
	return s, nil
}

func (s *Session) defaultName() string {
	name := ""
	for i, p := range s.o.named() {
		if i > 0 {
			name += ", "
		}
		name += p.Servers[0]
		if n := len(p.Servers); n > 1 {
			name += fmt.Sprintf(" and %d more", n-1)
		}
	}
	if name == "" && len(s.o.Control) > 0 {
		name = s.o.Control[0]
	}
	name += " beside " + s.o.Primary
	return name[:min(len(name), maxNameBytes)]
}

// run starts what runs as long as the session, and ends it.
func (s *Session) run(ctx context.Context) {
	s.started = time.Now()
	s.stopping, s.stop = context.WithCancel(ctx)
	if s.o.For > 0 {
		s.stopping, s.stop = context.WithTimeout(ctx, s.o.For)
	}
	var cutting context.Context
	cutting, s.cut = context.WithCancel(context.WithoutCancel(ctx))
	serve := s.serve
	if s.tcp != nil {
		serve = s.serveTCP
	}
	end := serve()
	go func() {
		defer close(s.done)
		defer s.stop()
		defer s.cut()
		s.report(s.stopping) // returns when the session is to end
		s.err = end(cutting)
		s.lastReport(cutting)
	}()
}

// serve begins to serve clients, and returns a function that ends it in order.
func (s *Session) serve() (end func(context.Context) error) {
	flushing, stopFlushing := context.WithCancel(context.Background())
	var flushed error
	var ledger sync.WaitGroup
	ledger.Go(func() { flushed = s.ledger.Run(flushing) })
	s.httpListener.start()
	return func(ctx context.Context) error {
		clients, cancel := context.WithTimeout(ctx, drainTimeout)
		served := s.brokenOff(ctx, s.httpListener.close(clients))
		cancel()
		s.closeSenders(ctx)
		stopFlushing()
		ledger.Wait()
		return errors.Join(served, flushed, s.extras.close())
	}
}

// brokenOff returns the error of a session whose serving ended with err. That some
// clients had not finished within drainTimeout, such as those with WebSockets or
// waiting for events, is how sessions end: it is logged. It is an error if ctx itself
// is done, because they did not get that time.
func (s *Session) brokenOff(ctx context.Context, err error) error {
	switch {
	case !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("requests were broken off, as the session was to end at once: %w", err)
	}
	s.log.Warn("mirror: clients that had not finished were broken off", "after", drainTimeout)
	return nil
}

// serveTCP is serve in tcp mode.
func (s *Session) serveTCP() (end func(context.Context) error) {
	var served error
	var wg sync.WaitGroup
	wg.Go(func() { served = s.tcp.Serve(s.listener) })
	return func(ctx context.Context) error {
		clients, cancel := context.WithTimeout(ctx, drainTimeout)
		defer cancel()
		err := s.tcp.Shutdown(clients)
		wg.Wait()
		return errors.Join(served, err)
	}
}

// closeSenders lets copies finish within their time limit.
func (s *Session) closeSenders(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	errs := make([]error, len(s.senders))
	var wg sync.WaitGroup
	for i, l := range s.senders {
		wg.Go(func() { errs[i] = l.Close(ctx) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			s.log.Warn("mirror: not all copies were answered when the session ended", "error", err)
		}
	}
}

// ID returns the session's name.
func (s *Session) ID() string { return s.o.ID }

// Addr returns the address that the session listens on.
func (s *Session) Addr() net.Addr { return s.addr }

// Clients counts the connections of clients.
func (s *Session) Clients() listen.ConnStats { return s.clients.Stats() }

// State returns the session's state. The caller owns it.
func (s *Session) State() api.MirrorState {
	var m api.MirrorState
	if s.tcp != nil {
		m = s.tcpState()
	} else {
		m = s.httpState()
	}
	for i := range m.Shadows {
		t := &m.Shadows[i]
		for j := range t.Servers {
			if v := &t.Servers[j]; v.Down == "" && v.Connections == 0 && t.Account != nil && t.Account.Mirrored == 0 {
				v.Down = s.away[v.URL]
			}
		}
	}
	c := s.Clients()
	m.Clients = &api.MirrorClients{Open: c.Open, Bound: c.Max, Evicted: c.Evicted, Refused: c.Refused}
	s.mu.Lock()
	defer s.mu.Unlock()
	m.Applied = s.applied
	m.Settings = api.MirrorSettings{Share: api.Float(s.share), Paused: s.paused, Spread: api.Float(s.o.Spread.Seconds()), Allow: strings.Join(s.o.Allow, ",")}
	return m
}

// httpState returns State in http mode without the settings.
func (s *Session) httpState() api.MirrorState {
	stats := s.ledger.Stats()
	m := api.MirrorState{
		Mode:     "http",
		Listen:   s.addr.String(),
		Primary:  s.primaryState(),
		Shadows:  make([]api.MirrorTarget, len(s.senders)),
		Requests: stats.Requests,
		Skipped:  stats.Skipped,
		Failed:   stats.Failed,
	}
	for i, l := range s.senders {
		t := l.State()
		a := s.ledger.Account(i)
		a.Buffered, a.BufferBound = l.Buffered()
		t.Account = &a
		m.Shadows[i] = t
	}
	s.extras.state(&m)
	m.Seen = s.lease.seen(&m)
	return m
}

// Apply makes a change, after checking all of it. A change whose number is not above
// the last one was already made: nothing happens. A change with number 0 is always
// made.
func (s *Session) Apply(c api.MirrorChange) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Number != 0 {
		if c.Number <= s.applied {
			return nil
		}
		// A change that cannot be made is not asked for again.
		s.applied = c.Number
	}
	if err := s.checkChange(c); err != nil {
		return err
	}
	if c.Share != nil {
		s.share = float64(*c.Share)
	}
	if c.Paused != nil {
		s.paused = *c.Paused
	}
	if s.tcp != nil {
		s.tcp.SetShare(s.share)
		s.tcp.SetPaused(s.paused)
	} else {
		_ = s.chooser.SetShare(s.share) // checked
		s.chooser.SetPaused(s.paused)
	}
	targets := s.targets()
	if c.Look != nil {
		if err := s.lend(*c.Look, c.Apart, targets); err != nil {
			return err
		}
	}
	for i, t := range targets {
		change := c.Shadows[t.Name]
		if err := s.changeShadow(i, change); err != nil {
			return err
		}
	}
	if c.Stop {
		s.stop()
	}
	return nil
}

// targets returns the shadows' states.
func (s *Session) targets() []api.MirrorTarget {
	if s.tcp != nil {
		return s.tcp.Shadows()
	}
	all := make([]api.MirrorTarget, len(s.senders))
	for i, l := range s.senders {
		all[i] = l.State()
	}
	return all
}

func (s *Session) changeShadow(i int, c api.ShadowChange) error {
	if c.Using != nil {
		if s.tcp != nil {
			s.tcp.SetUsing(i, *c.Using)
		} else if err := s.senders[i].SetUsing(*c.Using); err != nil {
			return err
		}
	}
	if c.Amplify != nil {
		return s.senders[i].SetAmplify(float64(*c.Amplify))
	}
	return nil
}

// checkChange reports every problem of a change.
func (s *Session) checkChange(c api.MirrorChange) error {
	var errs []error
	if c.Share != nil && !(*c.Share >= 0 && *c.Share <= 1) {
		errs = append(errs, fmt.Errorf("share: %v is not from 0 to 1", *c.Share))
	}
	if c.Look != nil && s.tcp != nil {
		errs = append(errs, fmt.Errorf("look: %w", ErrNoRequests))
	}
	targets := s.targets()
	for name, change := range c.Shadows {
		i := slices.IndexFunc(targets, func(t api.MirrorTarget) bool { return t.Name == name })
		if i < 0 {
			errs = append(errs, fmt.Errorf("shadows: there is none of the name %q", name))
			continue
		}
		if n := len(targets[i].Servers); change.Using != nil && (*change.Using < 0 || *change.Using > n) {
			errs = append(errs, fmt.Errorf("using: %d is not from 0 to %d, the servers of %s", *change.Using, n, name))
		}
		if change.Amplify != nil && s.tcp != nil {
			errs = append(errs, fmt.Errorf("amplify: a connection cannot be copied more than once in tcp mode: leave it out"))
		} else if a := change.Amplify; a != nil && (math.IsNaN(float64(*a)) || *a < 0 || *a > maxAmplify) {
			errs = append(errs, fmt.Errorf("amplify: %v is not from 0 to %d", *a, maxAmplify))
		}
	}
	return errors.Join(errs...)
}

// Wait returns when the session has ended: with nil if all went well, else with
// what was lost or could not be closed.
func (s *Session) Wait() error {
	<-s.done
	return s.err
}

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.done }

// Close ends the session in order: no new connections; clients finish within a bound,
// copies within their time limit; then measurements are flushed, the record file
// closed, the last report sent. All of it is cut short once ctx is done. It returns
// the error of Wait; closing again is the same.
func (s *Session) Close(ctx context.Context) error {
	s.stop()
	select {
	case <-s.done:
	case <-ctx.Done():
		s.cut()
	}
	return s.Wait()
}
