package traces

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
)

// BenchmarkWhole adds traces of five spans that come whole, forty to a message, and closes
// them; an operation is one span.
func BenchmarkWhole(b *testing.B) {
	c := &clock{t: epoch0}
	a, err := New(Options{Sink: nothing{}, Keeper: &traceStore{}, Now: c.now, MemoryBytes: 512 << 20})
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close(context.Background())
	rng := rand.New(rand.NewPCG(1, 2))
	var names [36][5]Name
	for r := range names {
		for i, of := range [...]struct{ kind, component, operation string }{
			{"server", "app", "GET /"}, {"client", "db", "SELECT "}, {"client", "db", "UPDATE "}, {"client", "cache", "GET "}, {"client", "external", "POST "},
		} {
			names[r][i] = a.Name(&Identity{Service: fmt.Sprint("service", r%3), Kind: of.kind, Component: of.component, Operation: fmt.Sprint(of.operation, r/3), Instance: "one"})
		}
	}
	tenants := rand.NewZipf(rng, 1.33, 8, 9999)
	n := uint64(0)
	message := make([]Span, 200)
	fill := func() {
		for t := range 40 {
			n++
			now := c.now().UnixNano()
			of := names[rng.IntN(len(names))]
			tenant := a.OfTenant(of[0], fmt.Sprint("tenant", tenants.Uint64()))
			at := now
			for i := 1; i < 5; i++ {
				d := int64(3e6 * math.Exp(0.7*rng.NormFloat64()))
				message[5*t+i-1] = Span{TraceID: traceID(n * 0x9e3779b97f4a7c15), ID: bytesOf(n<<3 | uint64(i)), Parent: bytesOf(n << 3), Start: at, End: at + d, Name: of[i], Detail: someDetail}
				at += d + 20_000
			}
			message[5*t+4] = Span{TraceID: traceID(n * 0x9e3779b97f4a7c15), ID: bytesOf(n << 3), Start: now - 200_000, End: at, Name: tenant, Detail: someDetail}
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cpu := time.Duration(0)
	second := func() {
		for range 250 { // 50,000 spans
			fill()
			from := threadTime(b)
			a.Add(message)
			cpu += threadTime(b) - from
			c.advance(4 * time.Millisecond)
		}
		from := threadTime(b)
		if err := a.sweep(context.Background(), c.now(), false); err != nil {
			b.Fatal(err)
		}
		if c.now().Unix()%10 == 0 {
			if err := a.handOver(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
		cpu += threadTime(b) - from
	}
	for range 25 {
		second()
	}
	cpu = 0
	before := a.Stats().Spans
	b.ResetTimer()
	for i := 0; i < b.N; i += 50_000 {
		second()
	}
	s := a.Stats()
	b.ReportMetric(float64(cpu.Nanoseconds())/float64(s.Spans-before), "cpu-ns/span")
	if s.Late+s.ClosedEarly+s.LeftOutTraces > 0 {
		b.Fatalf("%+v", s)
	}
}
