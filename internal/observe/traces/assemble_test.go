package traces

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

const checkout = `
	a - shop server app GET_/checkout 0-100 at=s1 tenant=acme
	b a shop client db SELECT_orders 10-40
	c a shop client external POST_/pay 50-90
	d c payments server app POST_/pay 55-85 at=p1
	e d payments client db INSERT_payments 60-80
`

func TestBreakdownOfATrace(t *testing.T) {
	a, s, c := start(t, Options{})
	a.Add(script(t, a, 1, checkout))
	c.advance(9 * time.Second)
	a.tick(t, c)
	if got := a.Stats(); got.Closed != 0 || got.OpenTraces != 1 || got.OpenSpans != 5 {
		t.Fatalf("before its time: %+v", got)
	}
	c.advance(time.Second)
	a.tick(t, c)
	c.advance(5 * time.Second)
	a.tick(t, c)
	diff(t, s.dump("self "), `
		self payments POST /pay  app ok: 1 in 10ms
		self payments POST /pay  db ok: 1 in 20ms
		self shop GET /checkout acme app ok: 1 in 40ms
		self shop GET /checkout acme db ok: 1 in 50ms
		self shop GET /checkout acme external ok: 1 in 10ms
	`)
	// Counts are microseconds, calls, requests; sums are durations times counts.
	diffSet(t, counts(s, series.BreakdownSelf, "GET /checkout\", p"), `
		shop app GET /checkout 30000
		payments app POST /pay 10000
		payments db INSERT payments 20000
		shop db SELECT orders 30000
		shop external POST /pay 10000
	`)
	diffSet(t, counts(s, series.BreakdownCritical, "GET /checkout\", p"), `
		shop app GET /checkout 30000
		payments app POST /pay 10000
		payments db INSERT payments 20000
		shop db SELECT orders 30000
		shop external POST /pay 10000
	`)
	if got := s.count(series.BreakdownRequests); got != 2 {
		t.Errorf("%d requests, want 2", got)
	}
	if got := s.count(series.BreakdownCalls); got != 7 {
		t.Errorf("%d calls, want 7", got)
	}
	st := a.Stats()
	if st.Closed != 1 || st.Incomplete != 0 || st.Requests != 2 || st.OpenTraces != 0 || st.OpenSpans != 0 {
		t.Errorf("%+v", st)
	}
}

// counts lists the parts of a family with the count of each.
func counts(s *sink, family, with string) string {
	var out []string
	for line := range strings.Lines(s.dump(family)) {
		line = strings.ReplaceAll(line, `"`, "'")
		if !strings.Contains(line, strings.ReplaceAll(with, `"`, "'")) {
			continue
		}
		get := func(label string) string {
			_, v, _ := strings.Cut(line, label+"='")
			v, _, _ = strings.Cut(v, "'")
			return v
		}
		_, n, _ := strings.Cut(line, "}: ")
		n, _, _ = strings.Cut(n, " ")
		x := fmt.Sprint(get("part_service"), " ", get("component"), " ", get("part_operation"), " ", n)
		if i := get("part_instance"); i != "" {
			x += " on " + i
		}
		out = append(out, x)
	}
	return strings.Join(out, "\n")
}

func TestWhatClosesATrace(t *testing.T) {
	spans := func(a *Assembler) []Span { return script(t, a, 1, checkout) }
	for _, tc := range []struct {
		name string
		o    Options
		do   func(a *Assembler, c *clock)
		want Stats
	}{
		{"children after the root", Options{}, func(a *Assembler, c *clock) {
			a.Add(spans(a)[:1])
			c.advance(9 * time.Second)
			a.tick(t, c)
			a.Add(spans(a)[1:])
			c.advance(time.Second)
			a.tick(t, c)
		}, Stats{Spans: 5, Closed: 1, Requests: 2}},
		{"late spans do not reopen", Options{}, func(a *Assembler, c *clock) {
			a.Add(spans(a)[:3])
			c.advance(10 * time.Second)
			a.tick(t, c)
			a.Add(spans(a)[3:])
			c.advance(70 * time.Second)
			a.tick(t, c)
		}, Stats{Spans: 5, Late: 2, Closed: 1, Requests: 1}},
		{"no root", Options{}, func(a *Assembler, c *clock) {
			a.Add(spans(a)[2:])
			c.advance(59 * time.Second)
			a.tick(t, c)
			if a.Stats().Closed != 0 {
				t.Error("closed too early")
			}
			c.advance(time.Second)
			a.tick(t, c)
		}, Stats{Spans: 3, Closed: 1, Incomplete: 1, Rootless: 1, Requests: 1, Orphans: 1}},
		{"no root, spans now and then", Options{}, func(a *Assembler, c *clock) {
			for i := range 4 {
				a.Add(spans(a)[1+i:][:1])
				c.advance(40 * time.Second)
				a.tick(t, c)
			}
			if a.Stats().Closed != 0 {
				t.Error("closed though spans came")
			}
			a.Add(spans(a)[:1])
			c.advance(10 * time.Second)
			a.tick(t, c)
		}, Stats{Spans: 5, Closed: 1, Requests: 2}},
		{"too many spans", Options{MaxSpans: 3}, func(a *Assembler, c *clock) {
			a.Add(spans(a))
			c.advance(10 * time.Second)
			a.tick(t, c)
		}, Stats{Spans: 5, TooMany: 2, Closed: 1, Incomplete: 1, Requests: 1}},
		{"too many spans before the root", Options{MaxSpans: 3}, func(a *Assembler, c *clock) {
			a.Add(spans(a)[1:])
			a.Add(spans(a)[:1])
			c.advance(10 * time.Second)
			a.tick(t, c)
		}, Stats{Spans: 5, TooMany: 1, Closed: 1, Incomplete: 1, Requests: 2}},
		{"whole", Options{}, func(a *Assembler, c *clock) {
			a.AddWhole(spans(a))
			a.tick(t, c)
		}, Stats{Spans: 5, Closed: 1, Requests: 2}},
		{"flushed", Options{}, func(a *Assembler, c *clock) {
			a.Add(spans(a))
			if err := a.Flush(context.Background()); err != nil {
				t.Error(err)
			}
		}, Stats{Spans: 5, Closed: 1, Requests: 2}},
		{"sent twice", Options{}, func(a *Assembler, c *clock) {
			a.Add(spans(a))
			a.Add(spans(a)[1:4])
			a.tick(t, c)
			c.advance(10 * time.Second)
			a.tick(t, c)
		}, Stats{Spans: 8, Duplicates: 3, Closed: 1, Requests: 2}},
		{"invalid", Options{}, func(a *Assembler, c *clock) {
			x := spans(a)
			x[0].TraceID = [16]byte{}
			x[1].Start = x[1].End + 1
			x[2].End = 1 << 62
			a.Add(x[:3])
			a.AddWhole(x[1:2])
		}, Stats{Spans: 4, Invalid: 4}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, _, c := start(t, tc.o)
			tc.do(a, c)
			got := a.Stats()
			got.MemoryBytes, got.OneIn = 0, 0
			if got != tc.want {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

// fill makes spans of one trace: a root, unless not wanted, and clients below it.
func fill(names []Name, trace uint64, n int, root bool) []Span {
	out := make([]Span, n)
	for i := range out {
		s := &out[i]
		s.TraceID, s.Name = traceID(trace), names[i%len(names)]
		s.Detail = []byte("/cart/1234/items?page=2")
		s.ID = bytesOf(uint64(i) + 1)
		s.Start, s.End = ms(float64(i)), ms(float64(2*n-i))
		if i > 0 || !root {
			s.Parent = bytesOf(1)
			if i == 0 {
				s.Parent = bytesOf(99999)
			}
		}
	}
	return out
}

func someNames(a *Assembler) []Name {
	names := []Name{a.Name(&Identity{Service: "shop", Operation: "GET /", Kind: "server", Component: "app"})}
	for i := range 5 {
		names = append(names, a.Name(&Identity{Service: "shop", Operation: fmt.Sprint("q", i), Kind: "client", Component: "db"}))
	}
	return names
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// With a hundred thousand traces open, and with more than fit, memory stays under its bound,
// what it says it takes is true, and no trace is closed early.
func TestMemoryBound(t *testing.T) {
	if raceEnabled {
		t.Skip("takes a minute under the race detector, and memory of its own")
	}
	for _, tc := range []struct {
		name   string
		bound  int64
		traces uint64
		spans  int
		root   bool
		many   bool // more than fit
	}{
		{"100,000 open", 128 << 20, 100_000, 9, false, false},
		{"roots that never end", 48 << 20, 300_000, 3, false, true},
		{"large ones", 48 << 20, 300, 3000, true, true},
	} {
		before := heap()
		a, _, _ := start(t, Options{MemoryBytes: tc.bound, Keeper: &traceStore{}})
		names := someNames(a)
		most := 0
		for i := range tc.traces {
			a.Add(fill(names, i, tc.spans, tc.root))
			if i%1024 == 0 {
				most = max(most, a.Stats().OpenTraces)
			}
		}
		used, s := heap()-before, a.Stats()
		t.Logf("%s: %d open, %d MiB, says %d MiB, %d left out", tc.name, s.OpenTraces, used>>20, s.MemoryBytes>>20, s.LeftOutTraces)
		if used > tc.bound {
			t.Errorf("%s: %d bytes of heap, bound %d", tc.name, used, tc.bound)
		}
		if s.MemoryBytes > tc.bound || s.MemoryBytes < used*3/4 {
			t.Errorf("%s: says %d bytes, heap %d, bound %d", tc.name, s.MemoryBytes, used, tc.bound)
		}
		if got := s.LeftOutTraces > 0; got != tc.many || s.ClosedEarly > 0 {
			t.Errorf("%s: %d left out, %d closed early", tc.name, s.LeftOutTraces, s.ClosedEarly)
		}
		if s.OpenTraces+int(s.LeftOutTraces) != int(tc.traces) {
			t.Errorf("%s: %d open", tc.name, s.OpenTraces)
		}
		if s.Spans != tc.traces*uint64(tc.spans) || s.Late+s.NoSpace != 0 {
			t.Errorf("%s: %+v", tc.name, s)
		}
		if err := a.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if s := a.Stats(); s.Closed+s.LeftOutTraces != tc.traces || s.OpenTraces != 0 || s.OpenSpans != 0 {
			t.Errorf("%s: %+v", tc.name, s)
		}
		for _, sh := range a.shards {
			if n := sh.bytes(); n > idleBytes {
				t.Errorf("%s: a shard without open traces keeps %d bytes, at most %d are expected", tc.name, n, idleBytes)
			}
		}
	}
}

// Under pressure the traces that have their root go first, the oldest before others.
func TestPressureClosesEndedFirst(t *testing.T) {
	a, s, c := start(t, Options{MemoryBytes: 1 << 20})
	names := someNames(a)
	for i := range uint64(600) { // rootless ones are older
		a.Add(fill(names, i, 1, false))
	}
	c.advance(time.Second)
	const n = 1000
	for i := range uint64(n - 600) {
		a.Add(fill(names, 600+i, 1, true))
	}
	for at := 1; a.Stats().ClosedEarly == 0; at += 5 { // they grow
		for i := range uint64(n) {
			a.Add(fill(names, i, at+5, i >= 600)[at:])
		}
	}
	st := a.Stats()
	if st.Rootless != 0 || st.Requests == 0 || st.Incomplete != st.ClosedEarly {
		t.Errorf("%+v", st)
	}
	// They are broken down nevertheless.
	if err := a.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := s.count(series.BreakdownRequests); got != n {
		t.Errorf("%d requests, want %d", got, n)
	}
}

// One trace that does not fit is closed early; what it lacks is counted.
func TestOneGiantTrace(t *testing.T) {
	a, _, _ := start(t, Options{MemoryBytes: 1 << 20, MaxSpans: 1 << 20})
	names := someNames(a)
	const n = 50_000
	a.Add(fill(names, 1, n, true))
	st := a.Stats()
	if st.ClosedEarly != 1 || st.Late == 0 || st.MemoryBytes > 8<<20 {
		t.Errorf("%+v", st)
	}
	a.AddWhole(fill(names, 2, n, true))
	// The sweep, which goes by the machine's clock, may have closed it: it waits for nothing.
	if st := a.Stats(); st.NoSpace == 0 || st.ClosedEarly != 1 || uint64(st.OpenTraces)+st.Closed != 2 {
		t.Errorf("whole: %+v", st)
	}
}

// However spans are split among senders, each counts once.
// stuck is a Keeper that takes nothing until the caller gives up.
type stuck chan struct{}

func (k stuck) PutTraces(ctx context.Context, _ []store.Trace) error {
	select {
	case k <- struct{}{}:
	default:
	}
	<-ctx.Done()
	return ctx.Err()
}

// Close ends with its context, whatever is open, also while a sweep is stuck.
func TestCloseLeavesOff(t *testing.T) {
	for _, sweeping := range []bool{false, true} {
		keeper := make(stuck, 1)
		o := Options{Sink: newSink(), Keeper: keeper}
		if sweeping { // the first sweep closes everything
			o.Grace, o.Idle, o.Slots = time.Nanosecond, time.Nanosecond, 1
		}
		a, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		names := someNames(a)
		for i := range uint64(1000) {
			a.Add(fill(names, i, 5, true))
		}
		if sweeping {
			<-keeper
		}
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		began := time.Now()
		if err := a.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("sweeping %v: closed with %v, want the deadline", sweeping, err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("sweeping %v: Close took %v", sweeping, took)
		}
		cancel()
	}
}

func TestConcurrentAdd(t *testing.T) {
	a, s, _ := start(t, Options{MemoryBytes: 4 << 20})
	names := someNames(a)
	var all []Span
	const traces, spans = 3000, 7
	for i := range uint64(traces) {
		all = append(all, fill(names, i, spans, true)...)
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := w; i+50 <= len(all); i += 4 * 50 {
				a.Add(all[i:min(i+50, len(all))])
				a.Name(&Identity{Service: "x", Operation: fmt.Sprint(i)})
				if i%1000 == 0 {
					a.Stats()
				}
				if i%3000 == 0 {
					_ = a.sweep(context.Background(), epoch0, false)
				}
			}
		})
	}
	wg.Wait()
	if err := a.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	st := a.Stats()
	if st.OpenSpans != 0 || st.LostRequests != 0 {
		t.Errorf("%+v", st)
	}
	if got := s.count(series.BreakdownRequests); got != st.Requests || got == 0 {
		t.Errorf("%d requests handed over, %d broken down", got, st.Requests)
	}
}
