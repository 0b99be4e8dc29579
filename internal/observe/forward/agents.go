package forward

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"tailscope/internal/backoff"
	"tailscope/internal/cluster"
	"tailscope/internal/observe/agents"
	"tailscope/internal/store/packed"
)

const (
	// dialTimeout bounds how long a server that cannot be reached is waited for.
	dialTimeout = 2 * time.Second
	// mostPassing is the number of requests that wait for other servers at once. One that
	// hangs leaves the rest of otlp.Options.MaxInFlight to other senders.
	mostPassing = 64
)

// AgentsOptions configures Agents. Receiver and Writer are required.
type AgentsOptions struct {
	Receiver *agents.Receiver        // stores what is this server's to store
	Writer   string                  // this server's name in the store
	Members  func() []cluster.Member // nil: no other server shares the store
	// Timeout bounds a request to another server; default 15 s, half of an agent's, so that
	// there is time to store the frame here.
	Timeout time.Duration
	HTTP    *http.Client // default one of its own
	Now     func() time.Time
	Random  func() float64 // in [0, 1)
	Logger  *slog.Logger   // default discards
}

func (o *AgentsOptions) ensureDefaults() {
	o.Timeout = cmp.Or(o.Timeout, 15*time.Second)
	if o.HTTP == nil {
		o.HTTP = newClient(&http.Transport{DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, MaxIdleConnsPerHost: mostPassing})
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

// Agents has what one agent sends stored by one server, its owner: the one that rendezvous
// hashing of the agent's writer puts first among the live servers. A store of several servers
// remembers each change of the server that writes under a name, so that two which take turns
// would make it remember every frame.
//
// A request for another owner is passed on, with its name in ToHeader, and the owner's answer
// is the answer. Every answer has the name of the server that gives it in ToHeader: one
// without the owner's, as of a proxy before it, is none. While the owner gives none, this server
// stores the frame. That is once all the same, as generations are numbered. A request with a
// ToHeader is not passed on again. Methods are safe for concurrent use.
type Agents struct {
	o AgentsOptions

	mu      sync.Mutex                  // guards the fields below
	passing int                         // requests that wait for other servers
	pauses  map[string]*backoff.Breaker // by writer, of servers that failed last
	stats   AgentStats
}

// AgentStats are totals since the start, in requests.
type AgentStats struct {
	Passed   uint64 // to their owners
	Answered uint64 // of these, by the owners
	Away     uint64 // answered here, as the owner gave no answer or had given none just before
	Received uint64 // passed on to this server
	Refused  uint64 // passed on by mistake: they name another server
}

// NewAgents returns an Agents.
func NewAgents(o AgentsOptions) *Agents {
	o.ensureDefaults()
	return &Agents{o: o, pauses: map[string]*backoff.Breaker{}}
}

// Close frees the connections to other servers. It is called after the last Receive.
func (a *Agents) Close() { a.o.HTTP.CloseIdleConnections() }

// Stats returns the totals.
func (a *Agents) Stats() AgentStats {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stats
}

func (a *Agents) count(f func(*AgentStats)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f(&a.stats)
}

// Receive takes a request of an agent, or one that another server passes on; see
// agents.Receiver.Receive.
func (a *Agents) Receive(ctx context.Context, h http.Header, frame []byte, reserve func(bytes int) bool) (code int, answer []byte) {
	about := h.Get(packed.AgentHeader)
	here := func() (int, []byte) { return a.o.Receiver.Receive(ctx, about, frame, reserve) }
	if to := h.Get(ToHeader); to != "" {
		if to != a.o.Writer { // of another store, perhaps
			a.count(func(s *AgentStats) { s.Refused++ })
			return refuse(http.StatusConflict, misdirected(a.o.Writer, to))
		}
		a.count(func(s *AgentStats) { s.Received++ })
		return here()
	}
	to := a.owner(about)
	if to == nil {
		return here()
	}
	if !a.begin() {
		return refuse(http.StatusTooManyRequests, fmt.Errorf("%d requests wait for other servers: it is sent again", mostPassing))
	}
	code, answer, err := a.pass(ctx, to, about, frame)
	a.end()
	switch {
	case err == nil:
		return code, answer
	case ctx.Err() != nil: // the agent is gone, and sends it again
		return refuse(http.StatusServiceUnavailable, err)
	}
	a.count(func(s *AgentStats) { s.Away++ })
	return here()
}

// refuse returns an answer that holds an error.
func refuse(code int, err error) (int, []byte) {
	b, err := json.Marshal(packed.Answer{Error: err.Error()})
	if err != nil { // a struct of a number and texts has none
		return http.StatusInternalServerError, nil
	}
	return code, b
}

// owner returns the other server that stores what an agent sends, or nil if this one does. It
// does so too if it is not alive, since it could not read the store, and if the request is one
// that agents.Receiver refuses.
func (a *Agents) owner(about string) *server {
	if a.o.Members == nil {
		return nil
	}
	writer, ok := a.o.Receiver.Writer(about)
	if !ok {
		return nil
	}
	r, self := newRing(a.o.Members(), a.o.Writer, func(m *cluster.Member) string { return m.Agents })
	if s := r.owner([]byte(writer)); self && s != nil && s.writer != a.o.Writer {
		return s
	}
	return nil
}

// begin reports whether one more request may wait for another server; end ends it.
func (a *Agents) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.passing >= mostPassing {
		return false
	}
	a.passing++
	return true
}

func (a *Agents) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.passing--
}

// errPause reports a server that failed just now.
var errPause = errors.New("it gave no answer just now")

// pass passes a request on, unless the server is given a pause. An error is not an answer.
func (a *Agents) pass(ctx context.Context, to *server, about string, frame []byte) (code int, answer []byte, err error) {
	a.mu.Lock()
	pause := a.pauses[to.writer]
	if pause != nil && pause.Wait(a.o.Now()) > 0 {
		a.mu.Unlock()
		return 0, nil, errPause
	}
	a.stats.Passed++
	a.mu.Unlock()
	if code, answer, err = a.post(ctx, to, about, frame); err != nil {
		if ctx.Err() == nil {
			a.failed(to, err)
		}
		return 0, nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stats.Answered++
	delete(a.pauses, to.writer)
	return code, answer, nil
}

// failed notes a server that gave no answer.
func (a *Agents) failed(to *server, err error) {
	now := a.o.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.pauses, func(_ string, b *backoff.Breaker) bool { return now.Sub(b.Until) > mostAge })
	b := a.pauses[to.writer]
	if b == nil {
		b = &backoff.Breaker{}
		a.pauses[to.writer] = b
	}
	fail(b, now, 0, a.o.Random())
	if b.Failures == 1 || b.Failures == backoff.OpenAfter {
		a.o.Logger.Warn("what agents of another server send is stored here: see to it and to its cluster.address", "server", to.writer, "error", err, "attempts", b.Failures, "next", b.Until)
	}
}

// post sends a request to its owner.
func (a *Agents) post(ctx context.Context, to *server, about string, frame []byte) (code int, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.o.Timeout)
	defer cancel()
	body := &lent{rest: frame}
	defer body.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(to.address, "/")+packed.Path, body)
	if err != nil {
		return 0, nil, fmt.Errorf("pass a frame of an agent on to server %s: %w", to.writer, err)
	}
	if req.ContentLength = int64(len(frame)); len(frame) == 0 {
		req.Body = http.NoBody
	}
	req.Header.Set("Content-Type", packed.ContentType)
	req.Header.Set(packed.AgentHeader, about)
	req.Header.Set(ToHeader, to.writer)
	res, err := a.o.HTTP.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("pass a frame of an agent on to server %s: %w", to.writer, err)
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil {
		return 0, nil, fmt.Errorf("answer of server %s: %w", to.writer, err)
	}
	if by := res.Header.Get(ToHeader); by != to.writer {
		return 0, nil, fmt.Errorf("at %s, the cluster.address of server %s, another answers %s: %.200s", to.address, to.writer, res.Status, answer)
	}
	return res.StatusCode, answer, nil
}

// lent is a frame as the body of a request. The frame belongs to who received it: after Close
// nothing reads it, as a transport may still do when a request has failed.
type lent struct {
	mu    sync.Mutex
	rest  []byte
	ended bool
}

func (l *lent) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended:
		return 0, http.ErrBodyReadAfterClose
	case len(l.rest) == 0:
		return 0, io.EOF
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

func (l *lent) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest, l.ended = nil, true
	return nil
}
