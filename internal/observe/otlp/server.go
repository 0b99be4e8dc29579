package otlp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"tailscope/internal/agg"
	"tailscope/internal/listen"
	"tailscope/internal/store"
)

// Options configures a Server. Only Sink is required; each other field has a default for
// its zero value.
type Options struct {
	Sink      Sink      // receives observations; see Into
	Assembler Assembler // receives spans too; nil: time is not broken down

	GRPC, HTTP                 string       // addresses; empty: not served, except by a listener
	GRPCListener, HTTPListener net.Listener // used instead of the addresses; the Server closes them

	TenantKeys  []string // attributes that name the tenant, preferred first; default semconv.DefaultTenantKeys
	ExtraLabels []string // attributes kept as labels: `attribute` or `attribute=label`

	Frames []Frames // further paths over HTTP

	Routes store.Records // keeps what was learned of routes; nil: a start learns anew
	Shared bool          // other servers keep theirs in Routes too

	LongestSpan time.Duration // spans that took longer are refused; default 24 h

	MaxRequestBytes  int           // of one request, compressed or not; default 16 MiB
	MaxInFlightBytes int64         // of all requests, half for each protocol; default 128 MiB, at least 4 times the largest
	MaxInFlight      int           // requests in progress per protocol; default 256
	MaxArriving      int           // requests per protocol whose bodies have not arrived yet; default 1,024
	TargetBytes      int64         // memory of the cache of targets; default 12 MiB
	RetryAfter       time.Duration // sent to refused senders; default 5 s
	Log              *slog.Logger  // default discards

	now func() time.Time // for tests of arrival

	Names listen.Names // host names by which OTLP over HTTP may be addressed; see listen.Guard
	// Origins are hosts whose pages may send over HTTP, as those of Names.Allowed.
	Origins []string
}

// EnsureDefaults sets zero fields to their defaults.
func (o *Options) EnsureDefaults() {
	if o.LongestSpan == 0 {
		o.LongestSpan = 24 * time.Hour
	}
	if o.MaxRequestBytes == 0 {
		o.MaxRequestBytes = 16 << 20
	}
	if o.MaxInFlightBytes == 0 {
		o.MaxInFlightBytes = 128 << 20
	}
	o.MaxInFlightBytes = max(o.MaxInFlightBytes, 4*int64(o.MaxRequestBytes))
	if o.MaxInFlight == 0 {
		o.MaxInFlight = 256
	}
	if o.TargetBytes == 0 {
		o.TargetBytes = 12 << 20
	}
	if o.RetryAfter == 0 {
		o.RetryAfter = 5 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// Server serves OTLP by gRPC and HTTP. Its methods are safe for concurrent use.
type Server struct {
	o        Options
	r        *receiver
	limits   [protocols]limiter       // of requests in progress
	arriving [protocols]listen.Bodies // of requests that have not arrived yet
	counters [protocols]counters
	refused  strangers

	grpcListener, httpListener net.Listener
	grpc                       *grpc.Server
	http                       *http.Server
	serving                    sync.WaitGroup
	failed                     chan error
	done                       chan struct{} // closed by Shutdown
	stop                       sync.Once
	stopped                    error
}

// longestBody bounds the time in which a request over HTTP arrives, however steadily it
// comes.
const longestBody = 2 * time.Minute

// Start returns a server that listens. On an error nothing is left running, and
// listeners that were passed are closed.
func Start(ctx context.Context, o Options) (_ *Server, err error) {
	o.EnsureDefaults()
	s := &Server{o: o, failed: make(chan error, 2), done: make(chan struct{})}
	// Each protocol has bounds of its own, so that neither can exclude the other. What
	// arrives over HTTP is reserved with the requests in progress; gRPC holds what
	// arrives over gRPC, which is bounded separately.
	total := o.MaxInFlightBytes
	s.limits[overHTTP] = limiter{maxRequests: int64(o.MaxInFlight), maxBytes: total / 2}
	s.limits[overGRPC] = limiter{maxRequests: int64(o.MaxInFlight), maxBytes: total / 4}
	s.arriving[overHTTP].MaxBytes = total * 3 / 8
	s.arriving[overGRPC].MaxBytes = total/4 + firstBytes // the largest message, with the headers of its frames
	for p := range s.arriving {
		s.arriving[p].Max, s.arriving[p].Now = o.MaxArriving, o.now
	}
	// gRPC clients announce a request before they compress it, its bytes wait for those
	// of other requests of its connection, and cutting off a request closes the whole
	// connection.
	s.arriving[overGRPC].Grace, s.arriving[overGRPC].Patience = 20*time.Second, 5*time.Second
	s.grpcListener, s.httpListener = o.GRPCListener, o.HTTPListener
	defer func() {
		if err != nil {
			for _, l := range []net.Listener{s.grpcListener, s.httpListener} {
				if l != nil {
					err = errors.Join(err, l.Close())
				}
			}
		}
	}()
	if o.Sink == nil {
		return nil, errors.New("otlp: no sink")
	}
	if s.r, err = newReceiver(o.Sink, o.Assembler, o.TenantKeys, o.ExtraLabels, o.LongestSpan, entriesOf(o.TargetBytes)); err != nil {
		return nil, fmt.Errorf("otlp: %w", err)
	}
	if o.Routes != nil {
		if err = s.r.routes.load(ctx, o.Routes); err != nil {
			return nil, fmt.Errorf("otlp: %w", err)
		}
		if o.Shared {
			if err := s.r.routes.shareOwn(ctx, o.Routes); err != nil {
				o.Log.Warn("routes that servers learned for themselves before this version are not shared yet; the next start tries again", "error", err)
			}
		}
	}
	var lc net.ListenConfig
	if s.grpcListener == nil && o.GRPC != "" {
		if s.grpcListener, err = lc.Listen(ctx, "tcp", o.GRPC); err != nil {
			return nil, fmt.Errorf("otlp over gRPC: %w", err)
		}
	}
	if s.httpListener == nil && o.HTTP != "" {
		if s.httpListener, err = lc.Listen(ctx, "tcp", o.HTTP); err != nil {
			return nil, fmt.Errorf("otlp over HTTP: %w", err)
		}
	}
	if l := s.grpcListener; l != nil {
		s.grpc = s.newGRPC()
		s.serving.Go(func() {
			if err := s.grpc.Serve(&framesListener{l, &s.arriving[overGRPC]}); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
				s.failed <- fmt.Errorf("otlp over gRPC: %w", err)
			}
		})
	}
	if l := s.httpListener; l != nil {
		s.http = &http.Server{
			Handler:           s.handler(),
			ReadHeaderTimeout: 10 * time.Second,
			ReadTimeout:       longestBody,
			WriteTimeout:      longestBody + time.Minute,
			IdleTimeout:       5 * time.Minute,
			MaxHeaderBytes:    32 << 10,
			ConnContext:       listen.ConnContext,
			ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
		}
		s.serving.Go(func() {
			if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				s.failed <- fmt.Errorf("otlp over HTTP: %w", err)
			}
		})
	}
	s.sweep()
	if o.Routes != nil {
		s.serving.Go(func() { s.r.routes.saveUntil(s.done, o.Routes, o.Shared, o.Log, o.RetryAfter) })
	}
	return s, nil
}

// sweep cuts off bodies that come too slowly, until Shutdown.
func (s *Server) sweep() {
	for p := range s.arriving {
		s.serving.Go(func() { s.arriving[p].Run(s.done) })
	}
}

// GRPCAddr and HTTPAddr return where the server listens, or nil if it does not.
func (s *Server) GRPCAddr() net.Addr { return address(s.grpcListener) }
func (s *Server) HTTPAddr() net.Addr { return address(s.httpListener) }

func address(l net.Listener) net.Addr {
	if l == nil {
		return nil
	}
	return l.Addr()
}

// Failed delivers the error of a listener that ended by itself.
func (s *Server) Failed() <-chan error { return s.failed }

// Shutdown stops the server once the requests in progress have finished. Once ctx is
// done it cuts them off, and returns ctx's error. When it returns nothing is running.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop.Do(func() {
		var both sync.WaitGroup
		errs := make([]error, 2)
		if s.grpc != nil {
			both.Go(func() {
				done := make(chan struct{})
				go func() { defer close(done); s.grpc.GracefulStop() }()
				select {
				case <-done:
				case <-ctx.Done():
					errs[0] = ctx.Err()
					s.grpc.Stop()
					<-done
				}
			})
		}
		if s.http != nil {
			both.Go(func() {
				if errs[1] = s.http.Shutdown(ctx); errs[1] != nil {
					errs[1] = errors.Join(errs[1], s.http.Close())
				}
			})
		}
		both.Wait()
		close(s.done)
		s.serving.Wait()
		if s.o.Routes != nil {
			errs = append(errs, s.r.routes.save(ctx, s.o.Routes))
		}
		s.stopped = errors.Join(errs...)
	})
	return s.stopped
}

// receive decodes a payload, or refuses it if the aggregator is at its bound.
func (s *Server) receive(ctx context.Context, sig signal, payload []byte) (Partial, error) {
	if s.o.Sink.Overloaded() {
		return Partial{}, agg.ErrOverloaded
	}
	return s.r.ingest(ctx, sig, payload)
}

type protocol uint8

const (
	overGRPC protocol = iota
	overHTTP
	protocols
)

// counters counts the requests of one protocol.
type counters struct {
	requests, bytes, malformed, tooLarge, overloaded, unavailable, broken atomic.Uint64
}

// Stats holds running totals since Start, and present values.
type Stats struct {
	Spans, Points, LogRecords uint64 // accepted
	NoValue                   uint64 // points that were marked as having no value
	// QueueImplausible counts spans whose header of the queue was more than
	// queuetime.Most off, and was ignored.
	QueueImplausible uint64
	Rejected         []Rejected
	GRPC             ProtocolStats
	HTTP             ProtocolStats

	InFlightRequests, InFlightBytes int64 // at present, with the bytes of bodies that are arriving
	TargetBytes                     int64 // of what CachedTargets counts
	CachedTargets                   int   // spans and streams that need no call of the aggregator
}

// Rejected counts the refused part of accepted requests.
type Rejected struct {
	Signal string // "spans", "points" or "log_records"
	Reason string
	Count  uint64
}

// ProtocolStats counts requests. A request that was refused whole is in one of the other
// fields.
type ProtocolStats struct {
	Requests    uint64
	Bytes       uint64 // of bodies: as received over HTTP, unpacked over gRPC
	Malformed   uint64 // not OTLP
	TooLarge    uint64
	Overloaded  uint64 // refused, to be retried
	Unavailable uint64 // could not be stored, to be retried
	Broken      uint64 // cut off, or of an unknown type or encoding
	Slow        uint64 // cut off because the body came too slowly
	Arriving    int    // at present: requests whose bodies have not arrived yet
}

// Stats returns the totals. It includes reasons with a count of 0.
func (s *Server) Stats() Stats {
	st := Stats{
		Spans: s.r.items[traceSignal].Load(), Points: s.r.items[metricSignal].Load(), LogRecords: s.r.items[logSignal].Load(), NoValue: s.r.noValue.Load(),
		QueueImplausible: s.r.queueImplausible.Load(),
		GRPC:             s.protocol(overGRPC), HTTP: s.protocol(overHTTP),
		CachedTargets: s.r.cache.entries(), TargetBytes: s.r.cache.bytes(),
	}
	for p := range s.limits {
		st.InFlightRequests += s.limits[p].requests.Load()
		st.InFlightBytes += s.limits[p].bytes.Load()
	}
	// gRPC holds its partly sent messages, which only this counts.
	st.InFlightBytes += s.arriving[overGRPC].Stats().Bytes
	for reason := OK + 1; reason < noValue; reason++ {
		if reason != OutOfOrder && reason < NoTime {
			st.Rejected = append(st.Rejected, Rejected{"spans", reason.String(), s.r.rejected[traceSignal][reason].Load()})
		}
		if reason >= TooOld {
			st.Rejected = append(st.Rejected, Rejected{"points", reason.String(), s.r.rejected[metricSignal][reason].Load()})
		}
		if reason == TooOld || reason == TooNew || reason == NoTime || reason == TooManyFamilies {
			st.Rejected = append(st.Rejected, Rejected{"log_records", reason.String(), s.r.rejected[logSignal][reason].Load()})
		}
	}
	return st
}

func (s *Server) protocol(p protocol) ProtocolStats {
	c, a := &s.counters[p], s.arriving[p].Stats()
	st := ProtocolStats{
		Requests: c.requests.Load(), Bytes: c.bytes.Load(), Malformed: c.malformed.Load(), TooLarge: c.tooLarge.Load(),
		Overloaded: c.overloaded.Load(), Unavailable: c.unavailable.Load(), Broken: c.broken.Load(),
		Slow: a.Slow, Arriving: a.Arriving,
	}
	if p == overGRPC { // over HTTP these were answered so and counted
		st.Overloaded += a.Crowded
	}
	return st
}
