package forward

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tailscope/hist"
	"tailscope/internal/backoff"
	"tailscope/internal/cluster"
	"tailscope/internal/observe/traces"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sink adds up what an assembler makes, by series and slot.
type sink struct {
	mu     sync.Mutex
	names  []string
	number map[string]int
	hists  map[string]*hist.Histogram
}

func newSink() *sink { return &sink{number: map[string]int{}, hists: map[string]*hist.Histogram{}} }

func (s *sink) target(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.number[name]; !ok {
		s.number[name] = len(s.names)
		s.names = append(s.names, name)
	}
	return s.number[name]
}

func (s *sink) NewBatch() traces.Batch { return &batch{s: s} }

func (s *sink) SelfGroup(r *traces.Identity, component string, failed bool) traces.Group {
	return traces.Group(s.target(fmt.Sprint("self ", r.Service, r.Operation, r.Version, component, failed)))
}

func (s *sink) SeriesTarget(x series.Series) traces.Target {
	return traces.Target(s.target(x.Family + x.Labels.String()))
}

func (s *sink) Cohort(string, string) string    { return series.Large }
func (s *sink) BeforeCut(func(context.Context)) {}
func (b *batch) Epoch() uint32                  { return 0 }
func (b *batch) Group(g traces.Group) int       { return int(g) }
func (b *batch) Discard()                       {}
func (b *batch) at(n int, tenant string, t int64) string {
	return fmt.Sprint(b.s.names[n], tenant, " @", t/1e10)
}

// batch is applied when it is committed.
type batch struct {
	s  *sink
	do []func() error
}

func (b *batch) hist(key string) *hist.Histogram {
	h := b.s.hists[key]
	if h == nil {
		h = hist.New(hist.DefaultSchema)
		b.s.hists[key] = h
	}
	return h
}

func (b *batch) observe(n int, tenant string, end, nanos int64, weight uint32) {
	b.do = append(b.do, func() error { return b.hist(b.at(n, tenant, end)).RecordNanos(nanos, uint64(weight)) })
}

func (b *batch) Observe(t traces.Target, end, nanos int64, weight uint32) {
	b.observe(int(t), "", end, nanos, weight)
}

func (b *batch) ObserveMember(group int, tenant string, end, nanos int64, weight uint32) {
	b.observe(group, tenant, end, nanos, weight)
}

func (b *batch) Distribution(t traces.Target, at int64, h *hist.Histogram) {
	h = h.Clone()
	b.do = append(b.do, func() error { return b.hist(b.at(int(t), "", at)).Merge(h) })
}

func (b *batch) Commit(context.Context) error {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	for _, do := range b.do {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// figures is a distribution: its buckets, and its sum apart, which the assembler rounds when
// it adds up requests of one bucket.
type figures struct {
	buckets string
	sum     float64
}

// told is everything that the sinks hold together, bucket by bucket.
func told(t *testing.T, sinks ...*sink) map[string]figures {
	t.Helper()
	sum := map[string]*hist.Histogram{}
	for _, s := range sinks {
		s.mu.Lock()
		for k, h := range s.hists {
			if sum[k] == nil {
				sum[k] = hist.New(hist.DefaultSchema)
			}
			if err := sum[k].Merge(h); err != nil {
				t.Fatal(err)
			}
		}
		s.mu.Unlock()
	}
	out := map[string]figures{}
	for k, h := range sum {
		var b strings.Builder
		fmt.Fprintf(&b, "%d from %v to %v:", h.Count, h.Min, h.Max)
		for x := range h.All() {
			fmt.Fprintf(&b, " %v", x)
		}
		out[k] = figures{b.String(), h.Sum}
	}
	return out
}

// same compares two results.
func same(t *testing.T, what string, got, want map[string]figures) {
	t.Helper()
	if len(want) == 0 {
		t.Fatalf("%s: nothing to compare with", what)
	}
	wrong := 0
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if got[k].buckets != want[k].buckets || math.Abs(got[k].sum-want[k].sum) > 1e-4*want[k].sum {
			if wrong++; wrong <= 3 {
				t.Errorf("%s: %s\ngot  %v in %.300s\nwant %v in %.300s", what, k, got[k].sum, got[k].buckets, want[k].sum, want[k].buckets)
			}
		}
	}
	if len(got) != len(want) || wrong > 0 {
		t.Errorf("%s: %d of %d distributions differ, got %d", what, wrong, len(want), len(got))
	}
}

// clock is set by hand.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// group is servers that share a store, without the store.
type group struct {
	t       *testing.T
	clock   *clock
	mu      sync.Mutex
	members []cluster.Member
	nodes   []*node

	received chan struct{} // after a frame, unless one is in it
}

// node is one of them.
type node struct {
	*Router
	a    *traces.Assembler
	sink *sink
	http *httptest.Server
}

func newGroup(t *testing.T, n int) *group {
	g := &group{t: t, clock: &clock{t: time.Unix(1_700_000_000, 0)}, received: make(chan struct{}, 1)}
	for range n {
		g.join()
	}
	return g
}

func (g *group) live() []cluster.Member {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.members)
}

func newAssembler(t *testing.T, c *clock) (*traces.Assembler, *sink) {
	t.Helper()
	s := newSink()
	a, err := traces.New(traces.Options{Sink: s, Now: c.now, MemoryBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return a, s
}

// join starts a server.
func (g *group) join() *node {
	n := &node{}
	n.a, n.sink = newAssembler(g.t, g.clock)
	n.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != Path || r.Header.Get("Content-Type") != ContentType {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		code, answer := n.Receive(r.Context(), r.Header, b, func(int) bool { return true })
		w.WriteHeader(code)
		_, _ = w.Write(answer)
		select {
		case g.received <- struct{}{}:
		default:
		}
	}))
	g.t.Cleanup(n.http.Close)
	name := fmt.Sprintf("server-%d", len(g.nodes))
	g.mu.Lock()
	g.members = append(g.members, cluster.Member{Writer: name, Alive: true, Spans: n.http.URL})
	g.mu.Unlock()
	n.Router = New(Options{Assembler: n.a, Writer: name, Members: g.live, Now: g.clock.now, Random: func() float64 { return 0.5 }})
	g.t.Cleanup(func() { n.Close(context.WithoutCancel(g.t.Context())) })
	g.nodes = append(g.nodes, n)
	g.round()
	return n
}

// round has every server look at the members, and send.
func (g *group) round() {
	for _, n := range g.nodes {
		n.Router.round(g.t.Context())
	}
}

func (g *group) flush(nodes ...*node) map[string]figures {
	g.t.Helper()
	g.round()
	var sinks []*sink
	for _, n := range nodes {
		if err := n.a.Flush(g.t.Context()); err != nil {
			g.t.Fatal(err)
		}
		sinks = append(sinks, n.sink)
	}
	return told(g.t, sinks...)
}

// plainSpan is a span before an assembler has numbered its names.
type plainSpan struct {
	traces.Span
	id   traces.Identity
	text string
}

// someTraces is requests of three services whose spans come in three messages, in any order,
// and of one whose spans come in one. Each message holds spans of several traces.
func someTraces(rng *rand.Rand, at time.Time, first, n int) (messages [][]plainSpan) {
	byService := map[int][]plainSpan{}
	for k := range n {
		var id store.TraceID
		binary.BigEndian.PutUint64(id[:], rng.Uint64())
		binary.BigEndian.PutUint64(id[8:], uint64(first+k+1))
		start := at.UnixNano() + int64(k)*1e6
		add := func(message int, self, parent byte, service, kind, component, operation string, from, to int64) {
			x := plainSpan{id: traces.Identity{Service: service, Kind: kind, Component: component, Operation: operation, Version: "1"}}
			x.TraceID, x.ID, x.Start, x.End = id, [8]byte{self}, start+from*1000+rng.Int64N(1000), start+to*1000+rng.Int64N(1000)
			if parent != 0 {
				x.Parent = [8]byte{parent}
			} else {
				x.id.Tenant = fmt.Sprint("tenant-", k%5)
				x.Queued = start - 5e6
			}
			if component == "db" {
				x.text, x.Detail = "SELECT "+operation, []byte("slow")
			}
			x.Failed = rng.IntN(10) == 0
			byService[message] = append(byService[message], x)
		}
		length := 1000 + rng.Int64N(100_000)
		if k%4 == 3 {
			add(3, 1, 0, "search", "server", "app", "GET /search", 0, length)
			add(3, 2, 1, "search", "client", "db", "items", length/4, length/2)
			continue
		}
		add(0, 1, 0, "shop", "server", "app", "GET /cart", 0, length)
		add(0, 2, 1, "shop", "client", "external", "POST /pay", length/5, length*4/5)
		add(1, 3, 2, "pay", "server", "app", "POST /pay", length/4, length*3/4)
		add(1, 4, 3, "pay", "client", "db", "payments", length/3, length/2)
		add(2, 5, 3, "mail", "consumer", "app", "send", length/2, length)
	}
	for message := range 4 {
		if m := byService[message]; len(m) > 0 {
			messages = append(messages, m)
		}
	}
	rng.Shuffle(len(messages), func(i, j int) { messages[i], messages[j] = messages[j], messages[i] })
	return messages
}

// add gives a message to an assembler.
func add(a *traces.Assembler, message []plainSpan) {
	spans := make([]traces.Span, len(message))
	for i, x := range message {
		spans[i] = x.Span
		spans[i].Name, spans[i].Text = a.Name(&x.id), a.Text(x.text)
	}
	a.Add(spans)
}

// of returns the spans of the traces that keep chooses.
func of(message []plainSpan, keep func(store.TraceID) bool) (out []plainSpan) {
	for _, x := range message {
		if keep(x.TraceID) {
			out = append(out, x)
		}
	}
	return out
}

// Three servers to which messages go in turn come to what one server comes to, bucket by
// bucket, and each span is added once.
func TestThreeServersAsOne(t *testing.T) {
	g := newGroup(t, 3)
	alone, want := newAssembler(t, g.clock)
	rng := rand.New(rand.NewPCG(1, 2))
	spans := 0
	for i := range 60 {
		for k, m := range someTraces(rng, g.clock.now(), 40*i, 40) {
			spans += len(m)
			add(alone, m)
			add(g.nodes[(i+k)%3].a, m)
		}
		g.clock.advance(100 * time.Millisecond)
		if i%2 == 0 {
			g.round()
		}
	}
	got := g.flush(g.nodes...)
	if err := alone.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "three servers", got, told(t, want))
	sum, incomplete := uint64(0), uint64(0)
	for i, n := range g.nodes {
		a, st := n.a.Stats(), n.Stats()
		sum, incomplete = sum+a.Spans, incomplete+a.Incomplete+a.Late
		if st.Sent == 0 || st.Received == 0 || st.Dropped+st.Failures+st.Refused != 0 || st.QueueBytes != 0 || st.Peers != 2 {
			t.Errorf("server %d: %+v", i, st)
		}
		if a.Closed < 600 { // of 2,400
			t.Errorf("server %d has put together %d traces of 2,400, want about 800", i, a.Closed)
		}
	}
	if sum != uint64(spans) || incomplete != 0 {
		t.Errorf("%d spans are added of %d, %d traces incomplete or spans late", sum, spans, incomplete)
	}
}

// A server that dies takes the open traces that it held, and nothing else: those that begin
// before the others notice are whole.
func TestServerDies(t *testing.T) {
	g := newGroup(t, 3)
	alone, want := newAssembler(t, g.clock)
	rng := rand.New(rand.NewPCG(3, 4))
	dead := g.nodes[2]
	all := g.nodes[0].ring.Load()
	held := func(id store.TraceID) bool { return all.owner(id[:]).writer == dead.o.Writer }
	lost := 0
	turn := func(i, servers int, before bool) {
		for k, m := range someTraces(rng, g.clock.now(), 40*i, 40) {
			add(g.nodes[(i+k)%servers].a, m)
			rest := of(m, func(id store.TraceID) bool { return !before || !held(id) })
			lost += len(m) - len(rest)
			add(alone, rest)
		}
		g.clock.advance(100 * time.Millisecond)
		g.round()
	}
	for i := range 20 {
		turn(i, 3, true)
	}
	dead.http.CloseClientConnections()
	dead.http.Close()
	g.nodes = g.nodes[:2]
	for i := range 40 {
		turn(20+i, 2, false)
	}
	if n := g.nodes[0].Stats(); n.QueueBytes == 0 || n.Failures == 0 || n.Dropped != 0 || n.Peers != 2 {
		t.Errorf("nothing waits for the dead server: %+v", n)
	}
	g.clock.advance(cluster.Dead)
	g.mu.Lock()
	g.members[2].Alive = false
	g.mu.Unlock()
	g.round()
	for i := range 10 {
		turn(60+i, 2, false)
	}
	got := g.flush(g.nodes...)
	if err := alone.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "two of three servers", got, told(t, want))
	if lost == 0 {
		t.Error("the dead server held nothing")
	}
	for i, n := range g.nodes {
		if st := n.Stats(); st.Rerouted == 0 || st.Dropped != 0 || st.QueueBytes != 0 || st.Peers != 1 {
			t.Errorf("server %d: %+v", i, st)
		}
	}
}

// A server that joins gets its share, of all others alike; no other trace moves, and what comes
// from then on is as of one server.
func TestServerJoins(t *testing.T) {
	g := newGroup(t, 3)
	before := g.nodes[0].ring.Load()
	g.join()
	var moved, from [4]int
	const n = 40_000
	rng := rand.New(rand.NewPCG(5, 6))
	after := g.nodes[0].ring.Load()
	for range n {
		var id store.TraceID
		binary.BigEndian.PutUint64(id[8:], rng.Uint64())
		was, is := before.owner(id[:]).writer, after.owner(id[:]).writer
		for _, x := range g.nodes[1:] {
			if o := x.ring.Load().owner(id[:]).writer; o != is {
				t.Fatalf("%x belongs to %s and to %s", id, is, o)
			}
		}
		if was != is {
			moved[is[len(is)-1]-'0']++
			from[was[len(was)-1]-'0']++
		}
	}
	if moved[0]+moved[1]+moved[2] != 0 || moved[3] < n*23/100 || moved[3] > n*27/100 {
		t.Errorf("%v of %d traces move to each server, want a quarter to the last", moved, n)
	}
	for _, f := range from[:3] {
		if f < n*7/100 || f > n*10/100 {
			t.Errorf("%v move from each server, want a twelfth", from)
		}
	}
	alone, want := newAssembler(t, g.clock)
	for i := range 20 {
		for k, m := range someTraces(rng, g.clock.now(), 40*i, 40) {
			add(alone, m)
			add(g.nodes[(i+k)%4].a, m)
		}
		g.round()
	}
	got := g.flush(g.nodes...)
	if err := alone.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "after the fourth joined", got, told(t, want))
}

// A trace that comes whole stays where it came once nothing else of its like is expected, save
// one in 64.
func TestWholeTracesStay(t *testing.T) {
	g := newGroup(t, 3)
	rng := rand.New(rand.NewPCG(7, 8))
	whole := func(rounds int) (spans int) {
		for i := range rounds {
			for _, m := range someTraces(rng, g.clock.now(), i*100, 100) {
				if m[0].id.Service == "search" {
					spans += len(m)
					add(g.nodes[i%3].a, m)
				}
			}
		}
		g.round()
		return spans
	}
	sent := func() (n uint64) {
		for _, x := range g.nodes {
			n += x.Stats().Sent
		}
		return n
	}
	n := whole(60)
	if s := sent(); s < uint64(n)/2 {
		t.Errorf("%d of %d spans are sent at first, want two thirds", s, n)
	}
	g.clock.advance(20 * time.Second)
	before := sent()
	n = whole(60)
	if s := sent() - before; s == 0 || s > uint64(n)/40 {
		t.Errorf("then %d of %d are sent, want two thirds of a 64th", s, n)
	}
}

// When a callee begins to send spans, what its callers' traces that were closed at once lack is
// noticed on each server, and from then on they wait.
func TestCalleeBegins(t *testing.T) {
	g := newGroup(t, 3)
	rng := rand.New(rand.NewPCG(13, 14))
	turn := func(callee bool) {
		for k, m := range someTraces(rng, g.clock.now(), 0, 40) {
			switch m[0].id.Service {
			case "pay", "mail":
				if !callee {
					continue
				}
			case "search":
				continue
			}
			add(g.nodes[(k+rng.IntN(3))%3].a, m)
		}
		g.round()
	}
	atOnce := func() (n uint64) {
		for _, x := range g.nodes {
			n += x.a.Stats().AtOnce
		}
		return n
	}
	for range 60 { // 1,800 requests
		turn(false)
	}
	g.clock.advance(15 * time.Second)
	for range 20 {
		turn(false)
	}
	before := atOnce()
	if before < 500 {
		t.Errorf("%d of 600 requests are closed at once, want nearly all", before)
	}
	for range 40 {
		turn(true)
	}
	wrong := atOnce() - before
	t.Logf("%d requests are closed at once after the callee began", wrong)
	if wrong > 300 { // 30 requests come together
		t.Errorf("%d of 1,200 requests are closed at once though a callee sends spans", wrong)
	}
	g.clock.advance(15 * time.Second)
	before = atOnce()
	for range 20 {
		turn(true)
	}
	if n := atOnce() - before; n != 0 {
		t.Errorf("%d requests are closed at once later", n)
	}
}

// What does not fit a queue, waits too long or is refused is dropped and counted; what is not
// taken for a moment is sent again.
func TestQueue(t *testing.T) {
	c := &clock{t: time.Unix(1_700_000_000, 0)}
	a, _ := newAssembler(t, c)
	code := http.StatusServiceUnavailable
	asked := 0
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.Header().Set("Retry-After", "2")
		w.WriteHeader(code)
	}))
	defer other.Close()
	members := []cluster.Member{{Writer: "a", Alive: true}, {Writer: "b", Alive: true, Spans: other.URL + "/"}}
	r := New(Options{Assembler: a, Writer: "a", Members: func() []cluster.Member { return members }, QueueBytes: 64 << 10, Now: c.now, Random: func() float64 { return 0 }})
	rng := rand.New(rand.NewPCG(9, 10))
	put := func(traces int) (spans uint64) {
		for _, m := range someTraces(rng, c.now(), 0, traces) {
			spans += uint64(len(m))
			add(a, m)
		}
		return spans
	}
	n := put(20)
	r.round(t.Context())
	if st := r.Stats(); asked != 1 || st.Failures != 1 || st.Sent+st.Dropped != 0 || st.QueueBytes == 0 || !strings.Contains(st.LastError, "503") {
		t.Errorf("refused for now: %d requests, %+v", asked, st)
	}
	c.advance(time.Second)
	r.round(t.Context())
	if asked != 1 {
		t.Error("sent again before Retry-After")
	}
	c.advance(time.Second)
	code = http.StatusOK
	r.round(t.Context())
	if st := r.Stats(); st.Sent != n || st.QueueBytes != 0 || st.Frames != 1 || st.Bytes == 0 {
		t.Errorf("taken then: %+v, want %d spans sent", st, n)
	}

	code = http.StatusBadRequest
	n = put(20)
	r.round(t.Context())
	if st := r.Stats(); st.Dropped != n || st.QueueBytes != 0 || st.LastDrop.IsZero() {
		t.Errorf("refused for good: %+v, want %d spans dropped", st, n)
	}

	c.advance(time.Minute)
	code = http.StatusConflict
	before := r.Stats().Dropped
	n = put(20)
	r.round(t.Context())
	c.advance(mostAge + time.Second)
	r.round(t.Context())
	if st := r.Stats(); st.Dropped-before != n || st.QueueBytes != 0 {
		t.Errorf("waited too long: %+v, want %d more than %d dropped", st, n, before)
	}

	before = r.Stats().Dropped
	for range 20 {
		put(100)
	}
	if st := r.Stats(); st.QueueBytes > 128<<10 || st.Dropped == before {
		t.Errorf("a full queue: %+v", st)
	}
	if st := a.Stats(); st.Spans != 0 || st.OpenTraces != 0 {
		t.Errorf("put together here: %+v", st)
	}
	// A server that cannot read the store keeps the members that it knew.
	members = []cluster.Member{{Writer: "a"}, {Writer: "b", Spans: other.URL}}
	r.round(t.Context())
	if st := r.Stats(); st.Peers != 1 {
		t.Errorf("%+v", st)
	}
	left := r.Stats().QueueBytes
	before = r.Stats().Dropped
	r.Close(t.Context())
	if st := r.Stats(); left == 0 || st.Dropped == before {
		t.Errorf("closed with %d bytes in the queue: %+v", left, st)
	}
}

// A server that comes back gets what waits within seconds, however long it was away and whatever
// it asked for.
func TestPausesAreShort(t *testing.T) {
	c := &clock{t: time.Unix(1_700_000_000, 0)}
	a, _ := newAssembler(t, c)
	asked := 0
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer other.Close()
	r := New(Options{Assembler: a, Writer: "a", Members: func() []cluster.Member {
		return []cluster.Member{{Writer: "a", Alive: true}, {Writer: "b", Alive: true, Spans: other.URL}}
	}, Now: c.now})
	defer r.Close(t.Context())
	for i := range 10 {
		r.all()[0].Send([]traces.Span{{TraceID: store.TraceID{1}, ID: [8]byte{1}, Start: 1, End: 2}})
		r.round(t.Context())
		if asked != i+1 {
			t.Fatalf("%d requests in %v, want %d", asked, time.Duration(i)*longestPause, i+1)
		}
		c.advance(longestPause)
	}
}

// While a slow server is served, what comes is packed and sent, and what is too old is dropped.
func TestSlowServer(t *testing.T) {
	c := &clock{t: time.Unix(1_700_000_000, 0)}
	a, _ := newAssembler(t, c)
	during := func() {}
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		do := during
		during = func() {}
		do()
	}))
	defer other.Close()
	r := New(Options{Assembler: a, Writer: "a", Members: func() []cluster.Member {
		return []cluster.Member{{Writer: "a", Alive: true}, {Writer: "b", Alive: true, Spans: other.URL}}
	}, Now: c.now})
	defer r.Close(t.Context())
	p := r.all()[0]
	send := func(messages int) {
		for range messages {
			spans := make([]traces.Span, fullFrame)
			for i := range spans {
				spans[i] = traces.Span{TraceID: store.TraceID{1}, ID: [8]byte{1}, Start: 1, End: 2}
			}
			p.Send(spans)
		}
	}
	during = func() {
		c.advance(sendEvery)
		send(1)
	}
	send(2)
	r.round(t.Context())
	if st := r.Stats(); st.Sent != 3*fullFrame || st.QueueBytes != 0 {
		t.Errorf("%d frames sent, want 3: %+v", st.Sent/fullFrame, st)
	}
	during = func() { c.advance(mostAge + time.Second) }
	send(3)
	r.round(t.Context())
	if st := r.Stats(); st.Sent != 4*fullFrame || st.Dropped != 2*fullFrame {
		t.Errorf("%d more frames sent and %d dropped, want 1 and 2: %+v", st.Sent/fullFrame-3, st.Dropped/fullFrame, st)
	}
}

// Close sends to all servers at once, and to none that has not answered for a while.
func TestCloseBesideEachOther(t *testing.T) {
	c := &clock{t: time.Unix(1_700_000_000, 0)}
	a, _ := newAssembler(t, c)
	sent := make(chan struct{})
	first := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-sent:
		case <-r.Context().Done():
		}
	}))
	defer first.Close()
	second := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(sent) }))
	defer second.Close()
	dead := 0
	third := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		dead++
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer third.Close()
	members := []cluster.Member{{Writer: "a", Alive: true}, {Writer: "d", Alive: true, Spans: third.URL}}
	r := New(Options{Assembler: a, Writer: "a", Members: func() []cluster.Member { return members }, Now: c.now, Timeout: time.Second})
	spans := []traces.Span{{TraceID: store.TraceID{1}, ID: [8]byte{1}, Start: 1, End: 2}}
	r.all()[0].Send(spans)
	for range backoff.OpenAfter {
		r.round(t.Context())
		c.advance(longestPause)
	}
	members = append(members, cluster.Member{Writer: "b", Alive: true, Spans: first.URL}, cluster.Member{Writer: "c", Alive: true, Spans: second.URL})
	r.refresh()
	c.advance(-longestPause) // the third is within its pause
	for _, p := range r.all()[:2] {
		p.Send(spans)
	}
	r.Close(t.Context())
	if st := r.Stats(); st.Sent != 2 || st.Dropped != 1 || dead != backoff.OpenAfter {
		t.Errorf("%d requests to a server that does not answer, %+v; want 3, two spans sent and one dropped", dead, st)
	}
}

// A frame has more spans than a full one only if one message does.
func TestFramesAreBounded(t *testing.T) {
	c := &clock{t: time.Unix(1_700_000_000, 0)}
	a, _ := newAssembler(t, c)
	r := New(Options{Assembler: a, Writer: "a", Members: func() []cluster.Member {
		return []cluster.Member{{Writer: "a", Alive: true}, {Writer: "b", Alive: true, Spans: "http://127.0.0.1:1"}}
	}, Now: c.now})
	defer r.Close(t.Context())
	p := r.all()[0]
	for _, n := range []int{1000, fullFrame - 1000, fullFrame - 1, 2, fullFrame + 1, 1} {
		spans := make([]traces.Span, n)
		for i := range spans {
			spans[i] = traces.Span{TraceID: store.TraceID{1}, ID: [8]byte{1}, Start: 1, End: 2}
		}
		p.Send(spans)
	}
	if err := p.seal(); err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, f := range p.frames {
		got = append(got, f.spans)
	}
	if want := []int{fullFrame, fullFrame - 1, 2, fullFrame + 1, 1}; !slices.Equal(got, want) {
		t.Errorf("frames of %v spans, want %v", got, want)
	}
}

// Only a frame for this server, whole and of a version that it knows, is taken.
func TestReceiveRefuses(t *testing.T) {
	g := newGroup(t, 1)
	n := g.nodes[0]
	e, err := traces.NewFrameEncoder(n.a)
	if err != nil {
		t.Fatal(err)
	}
	e.Add([]traces.Span{{TraceID: store.TraceID{1}, ID: [8]byte{1}, Start: 1, End: 2, Name: n.a.Name(&traces.Identity{Service: "shop", Kind: "server"})}})
	good := e.Frame()
	newer := slices.Clone(good)
	newer[4] = 9
	for _, c := range []struct {
		to    string
		frame []byte
		space bool
		code  int
		want  string
	}{
		{"server-0", good, true, 200, `{"spans":1}`},
		{"server-1", good, true, 409, "this is server server-0"},
		{"", good, true, 409, "cluster.address"},
		{"server-0", good, false, 429, "sent again"},
		{"server-0", nil, true, 400, "corrupt"},
		{"server-0", newer, true, 415, "version 9"},
	} {
		code, answer := n.Receive(t.Context(), http.Header{ToHeader: {c.to}}, c.frame, func(int) bool { return c.space })
		if code != c.code || !strings.Contains(string(answer), c.want) {
			t.Errorf("to %q: %d %s, want %d %s", c.to, code, answer, c.code, c.want)
		}
	}
	if st := n.Stats(); st.Received != 1 || st.Refused != 5 {
		t.Errorf("%+v", st)
	}
}

// Spans from another server are taken where those of a sender are: none too old, too new or too
// long.
func TestReceiveTimes(t *testing.T) {
	g := newGroup(t, 1)
	n := g.nodes[0]
	now := g.clock.now().UnixNano()
	from, to := now-int64(48*time.Hour), now+int64(10*time.Minute)
	n.o.Accepts, n.o.Longest = func() (int64, int64) { return from, to }, time.Hour
	e, err := traces.NewFrameEncoder(n.a)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range []traces.Span{
		{Start: from - 2, End: from - 1}, {Start: from - 1, End: from}, {Start: now, End: to}, {Start: now, End: to + 1},
		{Start: now - int64(time.Hour), End: now}, {Start: now - int64(time.Hour) - 1, End: now}, {Start: 1, End: 1 << 60},
	} {
		x.TraceID, x.ID, x.Name = store.TraceID{1}, [8]byte{byte(i + 1)}, n.a.Name(&traces.Identity{Service: "shop", Kind: "server"})
		e.Add([]traces.Span{x})
	}
	code, answer := n.Receive(t.Context(), http.Header{ToHeader: {"server-0"}}, e.Frame(), func(int) bool { return true })
	if st := n.Stats(); code != 200 || string(answer) != `{"spans":3}` || st.Received != 3 || st.Untimely != 4 || n.a.Stats().Spans != 3 {
		t.Errorf("%d %s, %+v, %d spans added; want 3 of 7 taken", code, answer, st, n.a.Stats().Spans)
	}
}

// Run sends by itself, and ends with its context.
func TestRun(t *testing.T) {
	g := newGroup(t, 2)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, n := range g.nodes {
		n.o.Now = time.Now // as requests time out by it: one that does is repeated
		running.Go(func() { n.Run(ctx) })
	}
	rng := rand.New(rand.NewPCG(11, 12))
	all := 0
	for i := range 40 {
		for k, m := range someTraces(rng, g.clock.now(), 200*i, 200) {
			all += len(m)
			add(g.nodes[(i+k)%2].a, m)
		}
	}
	added := func() (n uint64) {
		for _, x := range g.nodes {
			n += x.a.Stats().Spans
		}
		return n
	}
	for late := time.After(time.Minute); added() < uint64(all); {
		select {
		case <-g.received:
			continue
		case <-late:
		}
		break
	}
	cancel()
	running.Wait()
	if n := added(); n != uint64(all) {
		t.Errorf("%d of %d spans arrived", n, all)
	}
}
