package traces

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tailscope/hist"
	"tailscope/internal/agg"
	"tailscope/internal/series"
	"tailscope/internal/store/pebblestore"
)

// aggregated is an aggregator as a Sink, as the server wires them.
type aggregated struct{ *agg.Aggregator }

func (s aggregated) NewBatch() Batch { return aggregatedBatch{s.Aggregator.NewDerivedBatch()} }

func (s aggregated) SelfGroup(r *Identity, component string, failed bool) Group {
	id := spanIdentity(r)
	id.Component = component
	if failed {
		id.Status = "error"
	}
	return Group(s.Aggregator.SelfGroup(&id))
}

func (s aggregated) SeriesTarget(x series.Series) Target {
	return Target(s.Aggregator.SeriesTarget(x))
}

type aggregatedBatch struct{ *agg.Batch }

func (b aggregatedBatch) Observe(t Target, end, nanos int64, weight uint32) {
	b.Batch.Observe(agg.Target(t), end, nanos, weight)
}

func (b aggregatedBatch) Group(g Group) int { return b.Batch.Group(agg.Group(g)) }

func (b aggregatedBatch) Distribution(t Target, at int64, h *hist.Histogram) {
	b.Batch.Distribution(agg.Target(t), at, h)
}

func (b aggregatedBatch) Commit(ctx context.Context) error {
	_, err := b.Batch.Commit(ctx)
	return err
}

func spanIdentity(r *Identity) agg.SpanIdentity {
	return agg.SpanIdentity{Service: r.Service, Operation: r.Operation, Component: r.Component, Kind: r.Kind, Status: "ok", Tenant: r.Tenant, Instance: r.Instance}
}

// pages makes traces of five spans, a page and its four calls one after the other, of
// three services with twelve routes each and of tenants by Zipf.
type pages struct {
	a       *Assembler
	g       *agg.Aggregator
	rng     *rand.Rand
	tenants *rand.Zipf // nil for one tenant
	known   map[[2]int]*page
	spans   []Span
	n       uint64
	epoch   uint32
}

type page struct {
	names   [5]Name
	targets [5]agg.Target
}

func (p *pages) page(tenant, route int) *page {
	k := [2]int{tenant, route}
	if x := p.known[k]; x != nil {
		return x
	}
	x := &page{}
	service := fmt.Sprint("service", route%3)
	for i, of := range [...]struct{ kind, component, operation string }{
		{"server", "app", "GET /"}, {"client", "db", "SELECT "}, {"client", "db", "UPDATE "}, {"client", "cache", "GET "}, {"client", "external", "POST "},
	} {
		id := Identity{Service: service, Kind: of.kind, Component: of.component, Operation: fmt.Sprint(of.operation, route/3), Tenant: fmt.Sprint("tenant", tenant), Instance: "one"}
		sid := spanIdentity(&id)
		x.names[i], x.targets[i] = p.a.Name(&id), p.g.SpanTarget(&sid)
	}
	p.known[k] = x
	return x
}

// send makes and accepts one request of forty traces that ended at about a moment.
func (p *pages) send(b *testing.B, now int64) {
	p.spans = p.spans[:0]
	batch := p.g.NewBatch()
	if e := batch.Epoch(); e != p.epoch {
		clear(p.known)
		p.epoch = e
	}
	for range 40 {
		tenant := 0
		if p.tenants != nil {
			tenant = int(p.tenants.Uint64())
		}
		x := p.page(tenant, p.rng.IntN(36))
		p.n++
		id := traceID(p.n * 0x9e3779b97f4a7c15)
		at := now
		for i := 1; i < 5; i++ {
			d := int64(3e6 * math.Exp(0.7*p.rng.NormFloat64()))
			p.spans = append(p.spans, Span{TraceID: id, ID: bytesOf(p.n<<3 | uint64(i)), Parent: bytesOf(p.n << 3), Start: at, End: at + d, Name: x.names[i], Weight: 1})
			batch.Observe(x.targets[i], at+d, d, 1)
			at += d + 20_000
		}
		at += 100_000
		p.spans = append(p.spans, Span{TraceID: id, ID: bytesOf(p.n << 3), Start: now - 200_000, End: at, Name: x.names[0], Weight: 1})
		batch.Observe(x.targets[0], at, at-now+200_000, 1)
	}
	if _, err := batch.Commit(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkIngest accepts spans, breaks their traces down if traces is on, and stores
// both; an operation is 20,000 spans, a second of the clock.
func BenchmarkIngest(b *testing.B) {
	for _, tenants := range []uint64{1, 10_000} {
		for _, on := range []bool{false, true} {
			b.Run(fmt.Sprintf("tenants=%d/traces=%v", tenants, on), func(b *testing.B) { benchmarkIngest(b, tenants, on) })
		}
	}
}

func benchmarkIngest(b *testing.B, tenants uint64, on bool) {
	ctx, dir := context.Background(), b.TempDir()
	c := &clock{t: time.Now().Truncate(10 * time.Second)}
	st, err := pebblestore.Open(ctx, pebblestore.Options{Dir: filepath.Join(dir, "store")})
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	g, err := agg.Open(ctx, st, agg.Options{Writer: st.Writer(), Dir: filepath.Join(dir, "journal"), FlushInterval: 24 * time.Hour, Now: c.now})
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close(ctx)
	a, err := New(Options{Sink: aggregated{g}, Now: c.now})
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close(ctx)
	p := &pages{a: a, g: g, rng: rand.New(rand.NewPCG(1, 2)), known: map[[2]int]*page{}}
	if tenants > 1 {
		p.tenants = rand.NewZipf(p.rng, 1.33, 8, tenants-1)
	}
	second := func() {
		for range 100 {
			p.send(b, c.now().UnixNano()-1e9)
			if on {
				a.Add(p.spans)
			}
			c.advance(10 * time.Millisecond)
		}
		if on {
			if err := a.sweep(ctx, c.now(), false); err != nil {
				b.Fatal(err)
			}
		}
		if c.now().Unix()%10 == 0 {
			if err := g.Flush(ctx); err != nil {
				b.Fatal(err)
			}
		}
	}
	for range 20 {
		second()
	}
	before, journal := processTime(b), g.Stats().JournalBytes
	for b.Loop() {
		second()
	}
	spans := float64(b.N) * 20_000
	b.ReportMetric(float64(processTime(b)-before)/1e3/spans, "cpu-µs/span")
	b.ReportMetric(float64(g.Stats().JournalBytes-journal)/spans, "journal-B/span")
	if s := a.Stats(); s.ClosedEarly+s.Late+s.LostRequests > 0 {
		b.Fatalf("%+v", s)
	}
}

// processTime is the processor time of this process so far.
func processTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
