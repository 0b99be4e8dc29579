// Package server runs a Tailscope server, or an agent, by its configuration.
//
// Start means ready: when it returns, every address listens, the journal is replayed and
// questions are answered. Close stops the ingestion, answers the requests in progress,
// breaks open traces down as they are, flushes what has arrived, and closes the store,
// in that order, so that nothing accepted is lost; the errors of all steps are joined.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tailscope/api"
	"tailscope/internal/agg"
	"tailscope/internal/cluster"
	"tailscope/internal/compare/changes"
	"tailscope/internal/config"
	"tailscope/internal/experiment/logbook"
	"tailscope/internal/guard/check"
	"tailscope/internal/guard/check/history"
	"tailscope/internal/guard/check/spec"
	"tailscope/internal/guard/notify"
	"tailscope/internal/judge/marks"
	"tailscope/internal/listen"
	"tailscope/internal/observe/agents"
	"tailscope/internal/observe/forward"
	"tailscope/internal/observe/otlp"
	"tailscope/internal/observe/traces"
	"tailscope/internal/seconds"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/outbox"
)

// ErrListen is the error of an address that cannot be listened on.
var ErrListen = errors.New("cannot listen")

// Settings holds what the program passes beside the operator's Config.
type Settings struct {
	Config  config.Config
	Log     *slog.Logger
	Version string
	// Now is the clock of what arrives, is judged and is answered; default time.Now. A
	// server that is given one leaves to its owner what Tick does.
	Now func() time.Time
	// Transport carries what an agent sends; default by the network.
	Transport http.RoundTripper
	// Acts returns what the demo shows on its page; nil for any other server.
	Acts func() []api.Act
}

// Server is a running Tailscope. Its methods are safe for concurrent use.
type Server struct {
	cfg     config.Config
	log     *slog.Logger
	version string
	now     func() time.Time
	acts    func() []api.Act
	carrier http.RoundTripper // Settings.Transport
	ticks   bool              // does at intervals what Tick does

	data     *dataStore
	store    store.Store // of data, with samples in memory
	samples  *history.Cache
	cluster  *cluster.Cluster // nil: no other server shares the store
	own      store.Records    // records of this server alone
	outbox   *outbox.Store    // where points and traces go, of an agent; nil for a server
	agents   *agents.Receiver
	passing  *forward.Agents // of agents' requests to the server that stores them
	agg      *agg.Aggregator
	seconds  *seconds.Ring
	traces   *traces.Assembler // nil if traces are disabled
	forward  *forward.Router   // of spans between servers; nil if no other server shares the store
	since    time.Time         // of Start
	ready    atomic.Bool
	health   health
	damageMu sync.Mutex // guards known and acknowledged
	damageFile
	acknowledged []store.Damage
	metrics      *metrics
	otlp         *otlp.Server
	bound        config.Bound  // on the memory of the whole program
	shares       config.Shares // of bound
	questions    *store.Memory
	program      atomic.Int64 // bytes of the heap that belong to none of the parts

	verdicts *marks.Judge
	changes  *changes.Finder
	tenants  *series.TenantList // nil without one
	sessions *logbook.Registry
	mirror   *Mirror // nil if nothing is mirrored

	checks    *check.Engine // nil if no files of checks are configured
	notifier  *notify.Notifier
	reloading sync.Mutex
	receivers map[string]spec.Receiver // as last read; guarded by reloading

	http, otlpGRPC, otlpHTTP, debug net.Listener
	listeners                       []listener
	arriving                        listen.Bodies // bodies of questions; OTLP has its own
	parts                           []part        // in order of start; stopped in reverse
	failed                          chan error
	closing                         sync.Once
	closed                          error
}

// listener is a listener with bounded connections.
type listener struct {
	name  string
	stats func() listen.ConnStats
}

// part is a component that runs until it is stopped.
type part struct {
	name string
	stop func(context.Context) error
}

// Start returns a server that is ready. On an error it leaves nothing running.
func Start(ctx context.Context, set Settings) (_ *Server, err error) {
	if set.Log == nil {
		set.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: set.Config, log: set.Log, version: set.Version, now: set.Now, acts: set.Acts, carrier: set.Transport, ticks: set.Now == nil, failed: make(chan error, 8), metrics: newMetrics(set.Version)}
	if s.ticks {
		s.now = time.Now
	}
	s.since = s.now()
	s.bound = s.cfg.MemoryBound(os.DirFS("/"))
	s.shares = s.cfg.MemoryShares(s.bound.Bytes)
	s.questions = store.NewMemory(s.shares.Questions)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close(context.WithoutCancel(ctx)))
		}
	}()

	// Addresses first: a wrong one is reported at once, and clients that connect
	// meanwhile wait instead of being refused.
	if s.http, err = s.listen(ctx, "page and API", s.cfg.Listen); err != nil {
		return nil, err
	}
	if s.otlpGRPC, err = s.listen(ctx, "OTLP over gRPC", s.cfg.OTLPGRPC); err != nil {
		return nil, err
	}
	if s.otlpHTTP, err = s.listen(ctx, "OTLP over HTTP", s.cfg.OTLPHTTP); err != nil {
		return nil, err
	}
	if s.cfg.DebugListen != "" {
		if s.debug, err = s.listen(ctx, "pprof", s.cfg.DebugListen); err != nil {
			return nil, err
		}
		s.serveHTTP("pprof", s.debug, s.guarded(debugHandler()))
	}
	if err := s.openStore(ctx); err != nil {
		return nil, err
	}
	if err := s.startCluster(ctx); err != nil {
		return nil, err
	}
	if err := s.openAggregator(ctx); err != nil {
		return nil, err
	}
	if err := s.openAssembler(); err != nil {
		return nil, err
	}
	s.startForwarding()
	s.startMaintenance()
	if s.outbox == nil {
		if err := s.startJudging(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.startListeners(ctx); err != nil {
		return nil, err
	}
	if err := s.startMirror(ctx); err != nil {
		return nil, err
	}
	s.weighProgram()
	s.metrics.registry.MustRegister(memoryCollector{s}, listenerCollector{s.listeners})
	s.ready.Store(true)
	s.announceReady(ctx)
	s.log.Info("ready", "listen", s.Addr(), "otlp_grpc", s.OTLPGRPC(), "otlp_http", s.OTLPHTTP(), "data", s.cfg.Data, "version", s.version)
	return s, nil
}

// startJudging starts what answers from, and acts on, what is stored here: an agent has none
// of it.
func (s *Server) startJudging(ctx context.Context) (err error) {
	if s.tenants, err = s.tenantList(); err != nil {
		return err
	}
	s.openVerdicts()
	s.startSessions()
	if err := s.startChecks(ctx); err != nil {
		return err
	}
	s.startVerdicts()
	return nil
}

// Addr returns the address of the page and the API, with the actual port if the
// configured one is 0.
func (s *Server) Addr() string { return address(s.http) }

// OTLPGRPC and OTLPHTTP return the addresses of OTLP, or "" if they are disabled.
func (s *Server) OTLPGRPC() string { return address(s.otlpGRPC) }
func (s *Server) OTLPHTTP() string { return address(s.otlpHTTP) }

// DebugAddr returns the address of pprof, or "" if it is disabled.
func (s *Server) DebugAddr() string { return address(s.debug) }

// Failed delivers the error of a part that ended by itself. The server should then be
// closed.
func (s *Server) Failed() <-chan error { return s.failed }

// Flush makes everything accepted so far visible to questions. It breaks open traces
// down as they are.
func (s *Server) Flush(ctx context.Context) error {
	var err error
	if s.traces != nil {
		err = s.traces.Flush(ctx)
	}
	return errors.Join(err, s.agg.Flush(ctx))
}

// Tick does at once what else the server does every few seconds: it flushes, maintains
// the store, judges the marks and runs the checks that are due. An agent sends what waits,
// unless it is between attempts.
func (s *Server) Tick(ctx context.Context) error {
	s.seconds.Fold()
	err := errors.Join(s.Flush(ctx), s.store.Maintain(ctx, s.now()))
	if s.outbox != nil {
		s.outbox.Send(ctx)
		return err
	}
	err = errors.Join(err, s.verdicts.Round(ctx))
	if s.checks != nil {
		err = errors.Join(err, s.checks.Tick(ctx))
	}
	return err
}

// Close stops the server. Once ctx is done it no longer waits for clients, but still
// stores what was accepted. Calling it again returns the same error.
func (s *Server) Close(ctx context.Context) error {
	s.closing.Do(func() {
		s.ready.Store(false)
		var errs []error
		for _, p := range slices.Backward(s.parts) {
			begin := time.Now()
			if err := p.stop(ctx); err != nil {
				errs = append(errs, fmt.Errorf("stop %s: %w", p.name, err))
			}
			s.log.Debug("stopped", "part", p.name, "took", time.Since(begin))
		}
		s.closed = errors.Join(errs...)
	})
	return s.closed
}

func (s *Server) started(name string, stop func(context.Context) error) {
	s.parts = append(s.parts, part{name, stop})
}

func (s *Server) fail(name string, err error) {
	select {
	case s.failed <- fmt.Errorf("%s: %w", name, err):
	default: // the first errors are enough
	}
}

// listen opens an address, or returns nil for an empty one.
func (s *Server) listen(ctx context.Context, what, addr string) (net.Listener, error) {
	if addr == "" {
		return nil, nil
	}
	var lc net.ListenConfig
	raw, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", what, ErrListen, err)
	}
	l := listen.Bound(raw, s.connections("limits.connections", s.cfg.MaxConnections))
	s.listeners = append(s.listeners, listener{what, l.Stats})
	// The server of the listener closes it; this is for a start that fails.
	s.started("listener of "+what, func(context.Context) error {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	})
	return l, nil
}

// bytesPerConnection is the share of limits.memory for each connection of each listener:
// the defaults of both agree.
const bytesPerConnection = 384 << 10

// connections returns how many of the requested connections fit the bound on memory; key
// names the setting.
func (s *Server) connections(key string, asked int) int {
	n := int(max(64, s.bound.Bytes/bytesPerConnection))
	if asked <= n {
		return asked
	}
	s.log.Info("fewer connections than "+key+" says are taken by a listener: raise limits.memory for more", "asked", asked, "taken", n)
	return n
}

// serveHTTP answers requests on l until the server is closed.
func (s *Server) serveHTTP(name string, l net.Listener, h http.Handler) {
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		WriteTimeout:      5 * time.Minute, // a profile takes minutes
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ConnContext:       listen.ConnContext,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.fail(name, err)
		}
	}()
	s.started(name, func(ctx context.Context) error {
		err := srv.Shutdown(ctx)
		if err != nil { // clients that do not finish are cut off
			err = errors.Join(err, srv.Close())
		}
		<-done
		return err
	})
}

func address(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}
