// Package forward has the spans of a trace, and the frames of an agent, meet on one server,
// whichever of several that share a store they arrive at. Frames of agents are passed on by
// Agents, spans by Router:
//
// The server that puts a trace together is the one that rendezvous hashing of the trace id
// puts first among the live servers (Thaler & Ravishankar, 1998): when a server comes or goes,
// only the traces that it gets or had have another. Everything else about a span, its duration
// above all, stays on the server that received and acknowledged it. What is sent here is a
// copy for the assembler, so that losing it costs part of a breakdown. Spans are sent in frames
// (traces.FrameEncoder), a few times a second, at least once: the assembler knows a span that
// comes again.
//
// Nothing here blocks a caller of Send. Each peer has a queue with a bound; what does not fit
// is dropped and counted. While a peer does not answer its frames wait. Once it is no longer
// among the live servers they are routed anew, so that traces which began after it died are
// whole.
package forward

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"

	"tailscope/internal/cluster"
	"tailscope/internal/observe/traces"
	"tailscope/internal/store"
)

// Path is the path at which a server takes frames, on the address of OTLP over HTTP;
// ContentType is their media type, and ToHeader names the server that they are for.
const (
	Path        = "/v1/spans"
	ContentType = "application/x-tailscope-spans"
	ToHeader    = "Tailscope-Server"
)

const (
	// sendEvery is how long spans wait for others before they are sent, and membersEvery how
	// often the live servers are looked up.
	sendEvery    = 200 * time.Millisecond
	membersEvery = time.Second
	// fullFrame is the number of spans that are sent without waiting for others.
	fullFrame = 4096
	// mostAge is how long a frame waits for its server: a dead one is noticed before
	// (cluster.Dead, and a round of the cluster).
	mostAge = 2 * cluster.Dead
	// longestPause bounds the pause between attempts, so that a server which comes back gets
	// what waits before that is too old.
	longestPause = 5 * time.Second
)

// Options configures a Router. Assembler, Writer and Members are required.
type Options struct {
	Assembler *traces.Assembler // puts together what is this server's
	Writer    string            // this server's name in the store
	Members   func() []cluster.Member
	// Accepts returns the range [from, to] of ends, in Unix nanoseconds, of spans that are taken
	// from other servers, and Longest their longest duration, as of spans that senders send;
	// default all, and 24 h.
	Accepts func() (from, to int64)
	Longest time.Duration
	// QueueBytes bounds what waits for all servers together, in bytes; default 16 MiB.
	QueueBytes int64
	Timeout    time.Duration // of one request; default 5 s
	HTTP       *http.Client  // default one of its own
	Now        func() time.Time
	Random     func() float64 // in [0, 1)
	Logger     *slog.Logger   // default discards
}

func (o *Options) ensureDefaults() {
	if o.Accepts == nil {
		o.Accepts = func() (from, to int64) { return 0, math.MaxInt64 }
	}
	o.Longest = cmp.Or(o.Longest, 24*time.Hour)
	o.QueueBytes = cmp.Or(o.QueueBytes, 16<<20)
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	if o.HTTP == nil {
		o.HTTP = newClient(&http.Transport{MaxConnsPerHost: 1})
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Router sends spans of traces that other servers put together to them, and takes those that
// others send here. Its methods are safe for concurrent use.
type Router struct {
	o        Options
	ring     atomic.Pointer[ring]
	decoders sync.Pool // *traces.FrameDecoder

	mu      sync.Mutex       // guards the fields below
	peers   map[string]*peer // by writer
	stats   Stats
	running context.Context // of the peers' senders; nil unless Run runs
	senders sync.WaitGroup
}

// Stats are totals since the start, and present values.
type Stats struct {
	Sent     uint64 // spans that another server acknowledged
	Bytes    uint64 // of their frames
	Frames   uint64
	Rerouted uint64 // spans routed anew because their server went
	Failures uint64 // requests that failed, and are repeated
	Dropped  uint64 // spans: the queue was full, or they waited too long, or were refused
	Received uint64 // spans that other servers sent here, and that were taken
	Untimely uint64 // spans that other servers sent here, too old, too new or too long to be taken
	Refused  uint64 // requests of other servers that were not taken

	Peers      int   // other servers that take spans
	QueueBytes int64 // that wait for them

	LastDrop  time.Time // zero without any
	LastError string    // of the last request that failed
}

// newClient returns a client of other servers, by t.
func newClient(t *http.Transport) *http.Client {
	t.IdleConnTimeout, t.DisableCompression = time.Minute, true
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     t,
	}
}

// ring is the live servers among which work is divided, by name.
type ring struct{ servers []server }

// server is a server of a ring.
type server struct {
	writer, address string
	seed            uint64
	peer            *peer // of a Router; nil: this server
}

// newRing returns the members that are alive and have an address, and whether own is alive.
func newRing(members []cluster.Member, own string, address func(*cluster.Member) string) (r *ring, self bool) {
	r = &ring{}
	for i := range members {
		m := &members[i]
		self = self || m.Alive && m.Writer == own
		if at := address(m); m.Alive && at != "" {
			r.servers = append(r.servers, server{writer: m.Writer, address: at, seed: xxh3.HashString(m.Writer)})
		}
	}
	slices.SortFunc(r.servers, func(a, b server) int { return cmp.Compare(a.writer, b.writer) })
	return r, self
}

// owner returns the server that a key belongs to, or nil if there are no servers.
func (r *ring) owner(key []byte) *server {
	i := cluster.First(len(r.servers), func(i int) uint64 { return xxh3.HashSeed(key, r.servers[i].seed) })
	if i < 0 {
		return nil
	}
	return &r.servers[i]
}

// New returns a Router that knows the members of now, and routes the spans of the assembler.
// Nothing is sent before Run.
func New(o Options) *Router {
	o.ensureDefaults()
	r := &Router{o: o, peers: map[string]*peer{}}
	r.ring.Store(&ring{})
	r.refresh()
	o.Assembler.RouteBy(r)
	return r
}

// Route implements traces.Router.
func (r *Router) Route(id *store.TraceID) traces.Peer {
	if s := r.ring.Load().owner(id[:]); s != nil && s.peer != nil {
		return s.peer
	}
	return nil
}

// Run looks up members and sends until ctx is done.
func (r *Router) Run(ctx context.Context) {
	r.mu.Lock()
	r.running = ctx
	for _, p := range r.peers {
		r.start(p)
	}
	r.mu.Unlock()
	t := time.NewTicker(membersEvery)
	defer t.Stop()
	for ctx.Err() == nil {
		r.refresh()
		select {
		case <-ctx.Done():
		case <-t.C:
		}
	}
	r.mu.Lock()
	r.running = nil
	r.mu.Unlock()
	r.senders.Wait()
}

// round looks up members and sends what waits, once. Run does both, each in its time.
func (r *Router) round(ctx context.Context) {
	r.refresh()
	for _, p := range r.all() {
		p.round(ctx)
	}
}

// Close sends what waits until ctx is done, and drops the rest. It is called once Run has
// returned. Spans that come later stay here.
func (r *Router) Close(ctx context.Context) {
	peers := r.all()
	r.ring.Store(&ring{})
	var closing sync.WaitGroup
	for _, p := range peers {
		closing.Go(func() { // beside each other: one that hangs takes no time of others
			if !p.breaker.Open() {
				p.breaker.Succeed() // there is no later attempt
			}
			p.round(ctx)
			frames, open := p.close()
			n := len(open.spans)
			for _, f := range frames {
				n += f.spans
			}
			r.drop(n)
		})
	}
	closing.Wait()
	r.o.HTTP.CloseIdleConnections()
}

func (r *Router) all() []*peer {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*peer
	for _, s := range r.ring.Load().servers {
		if s.peer != nil {
			out = append(out, s.peer)
		}
	}
	return out
}

// refresh makes the ring of those who are alive and take spans. A server that does not see
// itself alive could not read the store, and keeps the members that it knew.
func (r *Router) refresh() {
	next, self := newRing(r.o.Members(), r.o.Writer, func(m *cluster.Member) string { return m.Spans })
	servers := next.servers
	same := func(a, b server) bool { return a.writer == b.writer && a.address == b.address }
	if !self || slices.EqualFunc(servers, r.ring.Load().servers, same) {
		return
	}
	gone := map[string]*peer{}
	r.mu.Lock()
	for w, p := range r.peers {
		gone[w] = p
	}
	for i := range servers {
		s := &servers[i]
		if s.writer == r.o.Writer {
			continue
		}
		if s.peer = r.peers[s.writer]; s.peer == nil {
			s.peer = r.newPeer(s.writer)
			r.peers[s.writer] = s.peer
		}
		s.peer.address.Store(&s.address)
		delete(gone, s.writer)
	}
	for w := range gone {
		delete(r.peers, w)
	}
	r.ring.Store(next)
	r.mu.Unlock()
	r.o.Logger.Info("the servers that put traces together have changed", "servers", len(servers))
	for _, p := range gone {
		r.reroute(p)
	}
}

// reroute routes what waits for a server that went.
func (r *Router) reroute(p *peer) {
	frames, last := p.close()
	n := 0
	add := func(spans []traces.Span) {
		n += len(spans)
		r.o.Assembler.Add(spans)
	}
	d, err := r.decoder()
	for _, f := range frames {
		if err == nil {
			err = d.Decode(f.bytes, add)
		}
	}
	if err != nil { // what is read was written by this process
		r.o.Logger.Error("spans cannot be routed anew", "error", err)
	}
	if d != nil {
		r.decoders.Put(d)
	}
	last.each(add)
	r.count(func(s *Stats) { s.Rerouted += uint64(n) })
}

func (r *Router) decoder() (*traces.FrameDecoder, error) {
	if d, ok := r.decoders.Get().(*traces.FrameDecoder); ok {
		return d, nil
	}
	return traces.NewFrameDecoder(r.o.Assembler)
}

func (r *Router) count(f func(*Stats)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.stats)
}

// drop counts spans that are dropped.
func (r *Router) drop(spans int) {
	if spans > 0 {
		r.count(func(s *Stats) { s.Dropped, s.LastDrop = s.Dropped+uint64(spans), r.o.Now() })
	}
}

// Stats returns the totals.
func (r *Router) Stats() Stats {
	peers := r.all()
	r.mu.Lock()
	s := r.stats
	r.mu.Unlock()
	s.Peers = len(peers)
	for _, p := range peers {
		p.mu.Lock()
		s.QueueBytes += p.bytes
		p.mu.Unlock()
	}
	return s
}

// perPeer is the bound of one peer's queue.
func (r *Router) perPeer() int64 {
	return r.o.QueueBytes / int64(max(len(r.ring.Load().servers)-1, 1))
}

// Receive takes a frame that another server sends because this one puts its traces together.
// h has its ToHeader. reserve is asked before memory is allocated. The answer is JSON, for the
// status code; codes of 409, 429 and 503 ask for a retry.
func (r *Router) Receive(_ context.Context, h http.Header, frame []byte, reserve func(bytes int) bool) (code int, answer []byte) {
	code, spans, err := r.receive(h.Get(ToHeader), frame, reserve)
	said := struct {
		Spans int    `json:"spans"`
		Error string `json:"error,omitempty"`
	}{Spans: spans}
	if err != nil {
		said.Error = err.Error()
		r.count(func(s *Stats) { s.Refused++ })
	} else {
		r.count(func(s *Stats) { s.Received += uint64(spans) })
	}
	answer, err = json.Marshal(said)
	if err != nil { // a struct of a number and a text has none
		return http.StatusInternalServerError, nil
	}
	return code, answer
}

// misdirected returns the error of a request for the server to that has come to own.
func misdirected(own, to string) error {
	return fmt.Errorf("this is server %s of its store, and %q is asked for: cluster.address of that one leads here", own, to)
}

func (r *Router) receive(to string, frame []byte, reserve func(bytes int) bool) (code, spans int, err error) {
	if to != r.o.Writer {
		return http.StatusConflict, 0, misdirected(r.o.Writer, to)
	}
	h, err := traces.PeekFrame(frame)
	if errors.Is(err, traces.ErrVersion) {
		return http.StatusUnsupportedMediaType, 0, fmt.Errorf("%w: run servers of one version", err)
	}
	if err != nil {
		return http.StatusBadRequest, 0, err
	}
	if !reserve(h.Memory()) {
		return http.StatusTooManyRequests, 0, errors.New("the memory for what arrives is in use: it is sent again")
	}
	d, err := r.decoder()
	if err != nil {
		return http.StatusServiceUnavailable, 0, err
	}
	defer r.decoders.Put(d)
	first, last := r.o.Accepts()
	err = d.Decode(frame, func(list []traces.Span) {
		list = slices.DeleteFunc(list, func(s traces.Span) bool {
			return s.End < first || s.End > last || s.End-s.Start > int64(r.o.Longest)
		})
		spans += len(list)
		r.o.Assembler.AddRouted(list)
	})
	if err != nil {
		return http.StatusBadRequest, 0, err
	}
	r.count(func(s *Stats) { s.Untimely += uint64(h.Spans - spans) })
	return http.StatusOK, spans, nil
}
