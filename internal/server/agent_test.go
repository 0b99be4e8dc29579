package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/outbox"
	"tailscope/internal/store/storetest"
)

// link carries what an agent sends to a server that may be started anew at another port. It
// can be cut, and lose answers of what was delivered.
type link struct {
	mu      sync.Mutex
	to      *Server
	cut     bool
	lose    int // answers that are lost
	tried   int // requests while it was cut
	carried int
	lost    int
}

func (l *link) RoundTrip(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	cut, lose, to := l.cut, l.lose > 0, l.to
	if cut {
		l.tried++
	}
	l.mu.Unlock()
	if cut {
		return nil, errors.New("the link is cut")
	}
	r = r.Clone(r.Context())
	r.URL.Host = to.OTLPHTTP()
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.carried++
	if lose {
		l.lose--
		l.lost++
		return nil, errors.Join(errors.New("the answer is lost"), res.Body.Close())
	}
	return res, nil
}

// gate is the link of one run of an agent. A killed one reaches nobody.
type gate struct {
	*link
	mu     sync.Mutex
	killed bool
}

func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	g.mu.Lock()
	killed := g.killed
	g.mu.Unlock()
	if killed {
		return nil, errors.New("killed")
	}
	return g.link.RoundTrip(r)
}

// clock is a clock that tests set.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.t }

func (c *clock) advance(d time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.t = c.t.Add(d) }

// edge is a server with an agent before it, and a server that the same requests reach
// directly.
type edge struct {
	t              *testing.T
	clock          *clock
	link           *link
	dir            string
	server, direct *Server
	agent          *Server
	gate           *gate // of agent
	agentDir       string
	spool          int64
	rng            *rand.Rand
	ledger         map[string]*hist.Histogram // what was acknowledged, by tenant
	total          uint64
}

func newEdge(t *testing.T, spool int64) *edge {
	e := &edge{t: t, clock: &clock{t: time.Unix(1_900_000_000, 0)}, link: &link{}, dir: t.TempDir(), spool: spool, rng: rand.New(rand.NewPCG(7, 7)), ledger: map[string]*hist.Histogram{}}
	e.direct = e.start(filepath.Join(e.dir, "direct"), "", nil)
	e.server = e.start(filepath.Join(e.dir, "server"), "", nil)
	e.link.to = e.server
	e.agentDir = filepath.Join(e.dir, "agent")
	e.startAgent()
	return e
}

func (e *edge) startAgent() {
	e.t.Helper()
	e.gate = &gate{link: e.link}
	e.agent = e.start(e.agentDir, "http://server:4318", e.gate)
}

func (e *edge) start(dir, to string, carrier http.RoundTripper) *Server {
	e.t.Helper()
	c := testConfig(dir)
	c.Agent.To, c.Agent.Name, c.Agent.Spool = to, "edge", e.spool
	c.LogLevel = "error"
	s, err := Start(e.t.Context(), Settings{Config: c, Version: "test", Now: e.clock.now, Transport: carrier})
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { stop(e.t, s) })
	return s
}

// send sends a request of n spans to the agent, and what that acknowledges to the other
// server.
func (e *edge) send(n int) {
	e.t.Helper()
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "shop")
	spans := rs.ScopeSpans().AppendEmpty().Spans()
	observed := map[string][]int64{}
	for range n {
		s := spans.AppendEmpty()
		var id [16]byte
		for i := range id {
			id[i] = byte(e.rng.Uint32())
		}
		s.SetTraceID(id)
		s.SetSpanID([8]byte(id[:8]))
		s.SetKind(ptrace.SpanKindServer)
		s.SetName(fmt.Sprintf("GET /%d", e.rng.IntN(3)))
		s.Attributes().PutStr("http.route", "/"+s.Name()[5:])
		s.Attributes().PutStr("http.request.method", "GET")
		tenant := fmt.Sprintf("tenant-%d", e.rng.IntN(5))
		s.Attributes().PutStr("tenant.id", tenant)
		nanos := 1e5 + int64(e.rng.ExpFloat64()*2e7)
		end := e.clock.now().Add(-time.Duration(e.rng.Int64N(9e9)))
		s.SetEndTimestamp(pcommon.NewTimestampFromTime(end))
		s.SetStartTimestamp(pcommon.NewTimestampFromTime(end.Add(-time.Duration(nanos))))
		observed[tenant] = append(observed[tenant], nanos)
	}
	body, err := ptraceotlp.NewExportRequestFromTraces(td).MarshalProto()
	if err != nil {
		e.t.Fatal(err)
	}
	post := func(s *Server) int {
		res, err := http.Post("http://"+s.OTLPHTTP()+"/v1/traces", "application/x-protobuf", bytes.NewReader(body))
		if err != nil {
			e.t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		return res.StatusCode
	}
	if code := post(e.agent); code != http.StatusOK {
		e.t.Fatalf("the agent answers %d", code)
	}
	if code := post(e.direct); code != http.StatusOK {
		e.t.Fatalf("the server answers %d", code)
	}
	for tenant, list := range observed {
		h := e.ledger[tenant]
		if h == nil {
			h = hist.New(hist.DefaultSchema)
			e.ledger[tenant] = h
		}
		for _, ns := range list {
			if err := h.RecordNanos(ns, 1); err != nil {
				e.t.Fatal(err)
			}
		}
	}
	e.total += uint64(n)
}

// tick lets ten seconds pass for all.
func (e *edge) tick() {
	e.t.Helper()
	e.clock.advance(10 * time.Second)
	for _, s := range []*Server{e.agent, e.server, e.direct} {
		if err := s.Tick(e.t.Context()); err != nil && !errors.Is(err, store.ErrFull) {
			e.t.Fatal(err)
		}
	}
}

// settle lets time pass until nothing waits at the agent.
func (e *edge) settle() {
	e.t.Helper()
	for range 60 {
		e.tick()
		if st := e.agent.outbox.Stats(); st.Files == 0 && e.agent.agg.Stats().Pending == 0 {
			return
		}
	}
	e.t.Fatalf("the agent still has %+v", e.agent.outbox.Stats())
}

// kill goes on with a copy of the agent's files as they are now, as after kill -9. What
// runs on in the old one reaches nobody.
func (e *edge) kill() {
	e.t.Helper()
	dir := e.agentDir + "x"
	if err := os.CopyFS(dir, os.DirFS(e.agentDir)); err != nil {
		e.t.Fatal(err)
	}
	e.agentDir = dir
	e.gate.mu.Lock()
	e.gate.killed = true
	e.gate.mu.Unlock()
	e.startAgent()
}

// content returns all points of the families by series and slot, as bytes.
func (e *edge) content(s *Server, families ...string) map[string]string {
	e.t.Helper()
	out := map[string]string{}
	for _, family := range families {
		for view := series.Full; view <= series.Total; view++ {
			res, err := s.store.Query(e.t.Context(), store.Query{Family: family, View: view, Start: 1_900_000_000 - 3600, End: e.clock.now().Unix() + 3600, Step: 3600, Each: true, Schema: hist.DefaultSchema})
			if err != nil {
				e.t.Fatal(err)
			}
			for _, g := range res.Groups {
				for _, p := range g.Points {
					b, err := p.Hist.AppendBinary(nil)
					if err != nil {
						e.t.Fatal(err)
					}
					out[fmt.Sprint(family, view, g.Labels, p.Start)] = string(b)
				}
			}
		}
	}
	return out
}

// check compares what the server has with the ledger, and with the other server.
func (e *edge) check(families ...string) {
	e.t.Helper()
	res, err := e.server.store.Query(e.t.Context(), store.Query{Family: series.SpanDuration, Start: 1_900_000_000 - 3600, End: e.clock.now().Unix() + 3600, By: []string{"tenant"}, Schema: hist.DefaultSchema})
	if err != nil {
		e.t.Fatal(err)
	}
	var got uint64
	for _, g := range res.Groups {
		h := g.Points[0].Hist
		got += h.Count
		a, err := h.AppendBinary(nil)
		b, err2 := e.ledger[g.Labels.Get("tenant")].AppendBinary(nil)
		if err != nil || err2 != nil || !bytes.Equal(a, b) {
			e.t.Errorf("%s: %d observations, the ledger has %d, or others (%v, %v)", g.Labels, h.Count, e.ledger[g.Labels.Get("tenant")].Count, err, err2)
		}
	}
	if got != e.total {
		e.t.Errorf("the server counts %d requests, %d were acknowledged", got, e.total)
	}
	at, direct := e.content(e.server, families...), e.content(e.direct, families...)
	for key, want := range direct {
		if at[key] != want {
			e.t.Errorf("%s differs from what the server has that was sent to directly", key)
		}
	}
	if len(at) != len(direct) || len(at) == 0 {
		e.t.Errorf("%d points, directly %d", len(at), len(direct))
	}
}

// Every acknowledged observation is counted once at the server, whatever happens on the
// way, and the distributions are those of a server that is sent to directly, bucket by
// bucket.
func TestAgentExactlyOnce(t *testing.T) {
	t.Run("nothing happens", func(t *testing.T) {
		e := newEdge(t, 64<<20)
		for range 5 {
			e.send(40)
			e.tick()
		}
		e.settle()
		e.check(series.SpanDuration, series.SpanSelf, series.BreakdownRequests, series.BreakdownSelf)
		list := e.server.agents.Agents()
		if len(list) != 1 || list[0].Name != "edge" || list[0].Stored != list[0].Generation || list[0].Frames == 0 || list[0].SpoolFiles > 1 {
			t.Errorf("agents: %+v", list)
		}
		if _, body := get(t, "http://"+e.server.Addr()+"/api/v1/status"); !strings.Contains(body, `"agents":[{"name":"edge","writer":"agent-`) {
			t.Errorf("the status says %s", body)
		}
		hits, err := e.server.store.Traces(t.Context(), store.TraceQuery{Service: "shop", StartNanos: 0, EndNanos: 2e18})
		if err != nil || len(hits) == 0 {
			t.Errorf("no kept traces came: %v", err)
		}
	})
	t.Run("link cut for an hour", func(t *testing.T) {
		e := newEdge(t, 64<<20)
		e.send(20)
		e.settle()
		e.link.cut = true
		for i := range 360 {
			if i%9 == 0 {
				e.send(10)
				e.tick()
			} else {
				e.clock.advance(10 * time.Second)
			}
		}
		if st := e.agent.outbox.Stats(); st.Files < 30 || !st.Down {
			t.Errorf("during the cut: %+v", st)
		}
		if _, body := get(t, "http://"+e.agent.Addr()+"/readyz"); !strings.Contains(body, "sending: The server at http://server:4318 takes nothing") {
			t.Errorf("readyz says %s", body)
		}
		if e.link.tried > 75 {
			t.Errorf("%d attempts in an hour", e.link.tried)
		}
		e.link.cut = false
		e.settle()
		e.check(series.SpanDuration, series.SpanSelf)
	})
	t.Run("acknowledgements lost", func(t *testing.T) {
		e := newEdge(t, 64<<20)
		for range 3 {
			e.send(30)
			e.link.mu.Lock()
			e.link.lose = 2
			e.link.mu.Unlock()
			e.settle()
		}
		if e.link.lost != 6 || e.agent.outbox.Stats().Duplicates == 0 {
			t.Errorf("lost %d, %+v", e.link.lost, e.agent.outbox.Stats())
		}
		e.check(series.SpanDuration, series.SpanSelf)
	})
	t.Run("server restarted", func(t *testing.T) {
		e := newEdge(t, 64<<20)
		e.send(30)
		e.tick()
		e.link.lose = 1
		e.send(30)
		e.tick()
		stop(t, e.server)
		e.server = e.start(filepath.Join(e.dir, "server"), "", nil)
		e.link.to = e.server
		e.send(30)
		e.settle()
		e.check(series.SpanDuration, series.SpanSelf)
	})
	t.Run("agent killed", func(t *testing.T) {
		e := newEdge(t, 64<<20)
		e.send(30)
		e.tick()
		e.send(30) // in the journal alone
		e.kill()
		e.send(30)
		e.settle()
		e.link.lose = 1 // delivered, and killed before it knows
		e.send(30)
		e.tick()
		e.kill()
		e.link.cut = true
		e.send(30)
		e.tick()
		e.kill() // with a spool
		e.kill() // and again, before the server has heard of the last
		e.link.cut = false
		e.settle()
		e.check(series.SpanDuration)
	})
	t.Run("spool full", func(t *testing.T) {
		e := newEdge(t, 1500)
		e.send(30)
		e.settle()
		e.link.cut = true
		for range 6 {
			e.send(10)
			e.tick()
		}
		if st := e.agent.outbox.Stats(); st.Full == 0 || st.SpoolBytes > 1500 || e.agent.agg.Stats().Pending == 0 {
			t.Errorf("with a full spool: %+v", st)
		}
		e.link.cut = false
		e.settle()
		e.check(series.SpanDuration, series.SpanSelf)
	})
}

// A copy of an agent's data directory that runs beside it is refused.
func TestAgentCopied(t *testing.T) {
	e := newEdge(t, 64<<20)
	e.send(10)
	e.settle()
	first := e.agent
	if err := os.CopyFS(e.agentDir+"copy", os.DirFS(e.agentDir)); err != nil {
		t.Fatal(err)
	}
	// The first starts anew, so that the copy does not know the incarnation that runs.
	stop(t, first)
	e.startAgent()
	e.send(10)
	e.settle()
	twin := e.start(e.agentDir+"copy", "http://server:4318", e.link)
	if err := twin.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := twin.outbox.Stats(); !strings.Contains(st.LastError, "another agent (edge) has the identity") || !strings.Contains(st.LastError, "--data") {
		t.Errorf("the copy hears %q", st.LastError)
	}
	e.send(10)
	e.settle()
	e.check(series.SpanDuration)
}

// A spool that is full behind a server that takes what it is sent, only too slowly, is not
// told as a server that takes nothing.
func TestSpoolFull(t *testing.T) {
	out, err := outbox.Open(t.Context(), storetest.NewTwin(), outbox.Options{Dir: t.TempDir(), Writer: "0123456789abcdef", To: "http://server:4318", MaxBytes: 10})
	if err != nil {
		t.Fatal(err)
	}
	err = out.Put(t.Context(), &store.Batch{Writer: "0123456789abcdef", Generation: 1, Resolution: series.Base,
		Series: []series.Series{storetest.Span(series.Full, "service", "shop")}, Points: []store.Point{{Slot: 1_900_000_000, Data: storetest.Dist(0.1)}}})
	if err != nil {
		t.Fatal(err)
	}
	p := sendingProblems(out, "http://server:4318", time.Now)()
	if len(p) != 1 || !strings.Contains(p[0].Summary, "The spool is full") || strings.Contains(p[0].Text, "takes nothing") || !strings.Contains(p[0].Text, "Waiting in the spool: 1 file, the oldest") {
		t.Errorf("%+v", p)
	}
}
