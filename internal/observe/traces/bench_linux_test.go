package traces

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// stream makes typical traces: a request of the shop with database calls, one
// call to a second service with database calls of its own, spans inner ones
// first as their senders have them, and hands out batches of 512 spans in which
// traces are mixed.
type stream struct {
	names  [][]Name // by operation: server, db..., client, server, db...
	spans  int
	trace  uint64
	traces []Span // of one round
}

func newStream(a *Assembler, spans int) *stream {
	s := &stream{spans: spans}
	for op := range 20 {
		id := func(service, kind, component, operation string) Name {
			return a.Name(&Identity{Service: service, Kind: kind, Component: component, Operation: fmt.Sprint(operation, op), Tenant: fmt.Sprint("t", op%7)})
		}
		s.names = append(s.names, []Name{
			id("shop", "server", "app", "GET /"), id("shop", "client", "external", "POST /pay"), id("payments", "server", "app", "POST /pay"),
			id("shop", "client", "db", "SELECT a"), id("shop", "client", "db", "SELECT b"), id("shop", "internal", "app", "render"),
			id("payments", "client", "db", "INSERT c"), id("payments", "client", "cache", "GET d"),
		})
	}
	return s
}

var someDetail = []byte("/cart/1234/items?page=2")

const round = 64 // traces that are under way at the same time

// next returns a round of traces, one span of each in turn.
func (s *stream) next(now int64) []Span {
	if s.traces == nil {
		s.traces = make([]Span, round*s.spans)
	}
	for k := range round {
		names := s.names[(s.trace+uint64(k))%uint64(len(s.names))]
		id := traceID((s.trace + uint64(k)) * 0x9e3779b97f4a7c15)
		half := s.spans * 6 / 10
		length := int64(1e6) * int64(1+(s.trace+uint64(k))%97)
		for j := range s.spans {
			// Spans end in this order: calls of the second service, it, its
			// client, calls of the first, the root.
			x := &s.traces[(s.spans-1-j)*round+k]
			*x = Span{TraceID: id, ID: bytesOf(id0(id) ^ uint64(j+1)), Weight: 1, Detail: someDetail, Start: now + int64(j)*1000, End: now + length - int64(j)*1000}
			up := 1
			switch {
			case j == 0:
				x.Name, up = names[0], 0
			case j < half-1:
				x.Name = names[3+j%3]
				x.Start = now + int64(j)*length/int64(s.spans+2)
				x.End = x.Start + length/int64(s.spans+3)
			case j == half-1:
				x.Name = names[1]
				x.Start = now + int64(j)*length/int64(s.spans+2)
			case j == half:
				x.Name, up = names[2], half
				x.Start = now + int64(j)*length/int64(s.spans+2)
			default:
				x.Name, up = names[6+j%2], half+1
				x.Start = now + int64(j)*length/int64(s.spans+2)
				x.End = x.Start + length/int64(s.spans+3)
			}
			if up > 0 {
				x.Parent = bytesOf(id0(id) ^ uint64(up))
			}
		}
	}
	s.trace += round
	return s.traces
}

func id0(id [16]byte) uint64 {
	return uint64(id[15]) | uint64(id[14])<<8 | uint64(id[13])<<16 | uint64(id[12])<<24 | 1<<40
}

// threadTime is the processor time of this thread so far.
func threadTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// benchmarkAssembler adds and closes in a steady state of two million open
// spans; an operation is one span, and only what is asked for is timed.
func benchmarkAssembler(b *testing.B, spans int, o Options, add, sweep bool) {
	c := &clock{t: epoch0}
	o.Sink, o.Now, o.Logger = nothing{}, c.now, slog.New(slog.DiscardHandler)
	a, err := New(o)
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close(context.Background())
	s := newStream(a, spans)
	// Neighbours on the machine cost wall time, not so much processor time.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cpu := time.Duration(0)
	timed := func(is bool, f func()) {
		if !is {
			f()
			return
		}
		b.StartTimer()
		begin := threadTime(b)
		f()
		cpu += threadTime(b) - begin
		b.StopTimer()
	}
	perSecond := 200_000 / (round * spans) // rounds a second of the clock
	var second [][]Span
	for range perSecond {
		second = append(second, make([]Span, round*spans))
	}
	work := func() {
		for i := range second {
			s.traces = second[i]
			s.next(c.now().UnixNano())
		}
		timed(add, func() {
			for _, x := range second {
				for len(x) > 0 {
					k := min(512, len(x))
					a.Add(x[:k])
					x = x[k:]
				}
			}
		})
		c.advance(time.Second)
		timed(sweep, func() {
			if err := a.sweep(context.Background(), c.now(), false); err != nil {
				b.Fatal(err)
			}
			if c.now().Unix()%10 == 0 { // as a generation is cut
				if err := a.handOver(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.StopTimer()
	for range 14 { // until as many are closed as are opened
		work()
	}
	before := a.Stats()
	b.ReportAllocs()
	b.ResetTimer()
	cpu = 0
	for n := 0; n < b.N; n += perSecond * round * spans {
		work()
	}
	st := a.Stats()
	if st.ClosedEarly+st.Orphans+st.Duplicates+st.Late > 0 {
		b.Fatalf("%+v", st)
	}
	// The last second is whole, b.N may end within it.
	done := float64(st.Spans - before.Spans)
	b.ReportMetric(float64(cpu.Nanoseconds())/done, "cpu-ns/span")
	b.ReportMetric(float64(st.MemoryBytes)/float64(max(st.OpenSpans, 1)), "B/open-span")
}

func benchmarkSizes(b *testing.B, add, sweep bool) {
	for _, spans := range []int{10, 100} {
		b.Run(fmt.Sprintf("spans=%d", spans), func(b *testing.B) {
			benchmarkAssembler(b, spans, Options{MemoryBytes: 512 << 20}, add, sweep)
		})
	}
}

func BenchmarkAdd(b *testing.B)         { benchmarkSizes(b, true, false) }
func BenchmarkClose(b *testing.B)       { benchmarkSizes(b, false, true) }
func BenchmarkAddAndClose(b *testing.B) { benchmarkSizes(b, true, true) }

// BenchmarkKeep is BenchmarkAddAndClose where traces are kept too.
func BenchmarkKeep(b *testing.B) {
	benchmarkAssembler(b, 10, Options{MemoryBytes: 512 << 20, Keeper: &traceStore{}}, true, true)
}
