package traces

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"tailscope/hist"
	"tailscope/internal/series"
)

// idle is a sink that takes everything and costs nothing.
type idle struct{}

func (idle) NewBatch() Batch                             { return idle{} }
func (idle) SelfTarget(*Identity, string, bool) Target   { return 1 }
func (idle) SeriesTarget(series.Series) Target           { return 1 }
func (idle) Cohort(string, string) string                { return series.Large }
func (idle) Epoch() uint32                               { return 1 }
func (idle) Observe(Target, int64, int64, uint32)        {}
func (idle) Distribution(Target, int64, *hist.Histogram) {}
func (idle) Commit(context.Context) error                { return nil }
func (idle) Discard()                                    {}

// stream makes typical traces: a request of the shop with database calls, one
// call to a second service with database calls of its own, spans inner ones
// first as their senders have them, and hands out batches of 512 spans in which
// traces are mixed.
type stream struct {
	names  [][]Name // by operation: server, db..., client, server, db...
	spans  int
	trace  uint64
	traces []Span // of one round
	batch  int
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
			*x = Span{TraceID: id, ID: bytesOf(id0(id) ^ uint64(j+1)), Weight: 1, Start: now + int64(j)*1000, End: now + length - int64(j)*1000}
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

func benchmarkAssembler(b *testing.B, spans int, o Options) {
	c := &clock{t: epoch0}
	o.Sink, o.Now, o.Logger = idle{}, c.now, slog.New(slog.DiscardHandler)
	a, err := New(o)
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close(context.Background())
	s := newStream(a, spans)
	var adding, closing time.Duration
	n := 0
	perSecond := 200_000 / (round * spans) // rounds a second of the clock
	work := func(rounds int) {
		for i := range rounds {
			b.StopTimer()
			x := s.next(c.now().UnixNano())
			b.StartTimer()
			begin := time.Now()
			for len(x) > 0 {
				k := min(512, len(x))
				a.Add(x[:k])
				x = x[k:]
			}
			adding += time.Since(begin)
			n += round * spans
			if i%perSecond == perSecond-1 {
				c.advance(time.Second)
				begin := time.Now()
				if err := a.sweep(context.Background(), c.now(), false); err != nil {
					b.Fatal(err)
				}
				closing += time.Since(begin)
			}
		}
	}
	work(14 * perSecond) // until as many are closed as are opened
	adding, closing, n = 0, 0, 0
	before := a.Stats()
	b.ReportAllocs()
	b.ResetTimer()
	work(max(b.N/(round*spans), 1))
	b.StopTimer()
	st := a.Stats()
	if st.ClosedEarly > 0 || st.Orphans > 0 || st.Duplicates > 0 {
		b.Fatalf("%+v", st)
	}
	closed := float64(st.Closed-before.Closed) * float64(spans)
	b.ReportMetric(float64(adding.Nanoseconds())/float64(n), "add-ns/span")
	b.ReportMetric(float64(closing.Nanoseconds())/max(closed, 1), "close-ns/span")
	b.ReportMetric(float64(st.MemoryBytes)/float64(max(st.OpenSpans, 1)), "B/open-span")
}

// BenchmarkAssembler adds and closes traces in a steady state of two million
// open spans; an operation is one span.
func BenchmarkAssembler(b *testing.B) {
	for _, spans := range []int{10, 100} {
		for _, keeper := range []Keeper{nil, &shelf{}} {
			b.Run(fmt.Sprintf("spans=%d/kept=%v", spans, keeper != nil), func(b *testing.B) {
				benchmarkAssembler(b, spans, Options{MemoryBytes: 512 << 20, Keeper: keeper})
			})
		}
	}
}
