package traces

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// trustAll makes every name trusted, as if many traces had come whole.
func (a *Assembler) trustAll(now time.Time) {
	for _, c := range a.names.list {
		c.trust.quiet.Store(maxQuiet)
		c.trust.since.Store(now.Add(-time.Hour).UnixNano())
	}
}

// waits reports whether a trace is one of those that wait to see whether something follows.
func (a *Assembler) waits(x *Span) bool { return sampled(a.mix(&x.TraceID).Lo) }

// What is closed at once is broken down and kept as what has waited is.
func TestAtOnceAsThroughTheTable(t *testing.T) {
	services := []string{"shop", "pay"}
	rapid.Check(t, func(t *rapid.T) {
		type drawn struct {
			trace uint64
			plain
			service, tenant string
			queued          int64
			weight          uint32
			failed          bool
		}
		var all []drawn
		for n := range rapid.IntRange(1, 4).Draw(t, "traces") {
			for _, p := range drawTree(t) {
				d := drawn{trace: uint64(n), plain: p, service: rapid.SampledFrom(services).Draw(t, "service")}
				if rapid.IntRange(0, 3).Draw(t, "rare") == 0 {
					d.tenant, d.weight, d.failed = "acme", 3, true
					d.queued = epoch0.UnixNano() + p.start - 5e6
				}
				all = append(all, d)
			}
		}
		run := func(atOnce bool) (string, string, Stats) {
			s, k, c := newSink(), &traceStore{}, &clock{t: epoch0.Add(time.Second)}
			a, err := New(Options{Sink: s, Keeper: k, Now: c.now, MemoryBytes: 64 << 20})
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close(context.Background())
			var spans []Span
			at := map[uint64]int{}
			for _, d := range all {
				id := Identity{Service: d.service, Operation: fmt.Sprint("o", at[d.trace]), Component: fmt.Sprint("c", at[d.trace]%3), Kind: d.kind, Tenant: d.tenant}
				x := Span{
					TraceID: traceID(d.trace), ID: bytesOf(uint64(at[d.trace] + 1)), Start: epoch0.UnixNano() + d.start, End: epoch0.UnixNano() + d.end,
					Name: a.Name(&id), Text: a.Text("SELECT " + d.service), Detail: []byte("/x"), Weight: d.weight, Failed: d.failed, Queued: d.queued,
				}
				if d.parent >= 0 {
					x.Parent = bytesOf(uint64(d.parent + 1))
				}
				at[d.trace]++
				spans = append(spans, x)
			}
			a.seed = [2]uint64{1, 2}
			if atOnce {
				a.trustAll(c.now())
			}
			a.Add(spans)
			if err := a.Flush(context.Background()); err != nil {
				t.Fatal(err)
			}
			kept := ""
			for n := range uint64(4) {
				x := k.traces[traceID(n)]
				kept += fmt.Sprintf("%v %x\n", x.Entries, x.Data)
			}
			return s.dump("self", "breakdown", "skew"), kept, a.Stats()
		}
		want, wantKept, before := run(false)
		got, gotKept, st := run(true)
		if got != want {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
		if gotKept != wantKept {
			t.Fatalf("kept\n%s\nwant\n%s", gotKept, wantKept)
		}
		if before.AtOnce != 0 || st.Closed != before.Closed || st.Requests != before.Requests || st.Spans != before.Spans {
			t.Fatalf("%+v, want %+v", st, before)
		}
	})
}

// A name is trusted once enough traces have waited for as long as they do with nothing
// following, and not any more once something comes for a trace that was closed at once.
func TestTrust(t *testing.T) {
	a, s, c := start(t, Options{MemoryBytes: 64 << 20})
	n := byte(0)
	turn := func(callee bool, traces int) (atOnce, late uint64) {
		t.Helper()
		before := a.Stats()
		for range traces {
			n++
			x := script(t, a, n, "a - shop server app GET_/ 0-100\nb a shop client external POST_/pay 10-90")
			y := script(t, a, n, "c b pay server app POST_/pay 20-80")
			for i := range x {
				x[i].TraceID[8] = byte(before.Spans >> 8)
				x[i].TraceID[9] = byte(before.Spans >> 16)
			}
			y[0].TraceID = x[0].TraceID
			a.Add(x)
			if callee {
				a.Add(y)
			}
		}
		now := a.Stats()
		return now.AtOnce - before.AtOnce, now.Late - before.Late
	}
	pass := func(d time.Duration) {
		c.advance(d)
		a.tick(t, c)
	}
	for range 2 {
		if once, _ := turn(false, 200); once != 0 {
			t.Errorf("%d of the first traces are closed at once", once)
		}
		pass(5 * time.Second)
	}
	pass(8 * time.Second)
	once, late := turn(false, 200)
	if once < 180 || late != 0 {
		t.Errorf("%d of 200 traces are closed at once, %d spans late, want most and none", once, late)
	}
	// The first may be one of the few that are left open to look.
	if once, late = turn(true, 200); once > 5 || late != once {
		t.Errorf("%d traces are closed at once when the callee has begun to send, and %d spans late", once, late)
	}
	pass(20 * time.Second)
	if once, late = turn(true, 200); once != 0 || late != 0 {
		t.Errorf("%d traces are closed at once though a callee sends spans, and %d spans late", once, late)
	}
	pass(20 * time.Second)
	// The calls, not only the requests, are known to be followed.
	for _, x := range a.names.list[1:] {
		if x.id.Service == "shop" && x.trust.trusted(c.now().UnixNano(), 0, false) {
			t.Errorf("%s %s is trusted", x.id.Kind, x.id.Operation)
		}
	}
	if err := a.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	st := a.Stats()
	if got := s.count(series.BreakdownRequests); got != st.Requests {
		t.Errorf("%d requests handed over, %d broken down", got, st.Requests)
	}
	if st.Closed != 1000+200-200 && st.Closed != 1000 || st.LostRequests != 0 {
		t.Errorf("%+v", st)
	}
	if strings.Count(s.dump(series.BreakdownRequests), "pay") == 0 {
		t.Error("the callee has no breakdown")
	}
}

// Near the bound on memory what has come whole for 6 s is closed at once rather than left out.
func TestPressureTrustsSooner(t *testing.T) {
	a, _, c := start(t, Options{MemoryBytes: 16 << 20})
	names := someNames(a)
	n := uint64(0)
	second := func() {
		for range 10_000 {
			n++
			a.Add(fill(names, n, 5, true))
		}
		c.advance(time.Second)
	}
	for range 6 {
		second()
	}
	before := a.Stats()
	if before.AtOnce != 0 || before.LeftOutTraces == 0 {
		t.Errorf("in the first seconds: %+v", before)
	}
	second()
	second()
	st := a.Stats()
	if st.LeftOutTraces-before.LeftOutTraces > 20_000/sampleOnce*3/2 || st.ClosedEarly != 0 || st.AtOnce < 20_000*9/10 {
		t.Errorf("then: %+v", st)
	}
	// What is followed is left out, as it would be.
	a, _, c = start(t, Options{MemoryBytes: 16 << 20})
	names = someNames(a)
	for range 9 {
		for range 10_000 {
			n++
			x := fill(names, n, 6, true)
			a.Add(x[:5])
			a.Add(x[5:])
		}
		c.advance(time.Second)
	}
	if st = a.Stats(); st.LeftOutTraces == 0 || st.AtOnce != 0 || st.Late != 0 {
		t.Errorf("%+v", st)
	}
}

// A request that its sender repeats does not make its operation wait.
func TestRepeatedRequestIsTrusted(t *testing.T) {
	a, _, c := start(t, Options{MemoryBytes: 64 << 20})
	names := someNames(a)
	a.trustAll(c.now())
	x := fill(names, 1, 5, true)
	for n := uint64(1); a.waits(&x[0]); n++ {
		x = fill(names, n, 5, true)
	}
	a.Add(x)
	a.Add(x)
	if st := a.Stats(); st.AtOnce != 1 || st.Late != 5 || !a.names.list[1].trust.trusted(c.now().UnixNano(), 1, false) {
		t.Errorf("%+v", st)
	}
	a.Add(x[2:3])
	if a.names.list[1].trust.trusted(c.now().UnixNano(), 1, false) {
		t.Error("trusted although a span followed")
	}
}

// What is closed at once by several callers, while sweeps close other traces and generations are
// cut, is counted once.
func TestConcurrentAtOnce(t *testing.T) {
	k := &traceStore{}
	a, s, _ := start(t, Options{MemoryBytes: 32 << 20, Keeper: k})
	names := someNames(a)
	a.trustAll(epoch0)
	const callers, messages, traces = 4, 60, 20
	var wg sync.WaitGroup
	for w := range callers {
		wg.Go(func() {
			for m := range messages {
				var spans []Span
				for i := range traces {
					spans = append(spans, fill(names, uint64((w*messages+m)*traces+i), 5, true)...)
				}
				a.Add(spans)
				switch m % 20 {
				case 5:
					_ = a.handOver(context.Background())
				case 10:
					_ = a.sweep(context.Background(), epoch0, false)
				case 15:
					a.Stats()
					a.Name(&Identity{Service: "x", Operation: fmt.Sprint(w, m)})
				}
			}
		})
	}
	wg.Wait()
	if err := a.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	const all = callers * messages * traces
	st := a.Stats()
	if st.Closed != all || st.AtOnce < all*9/10 || st.AtOnce == all || st.Incomplete+st.Late+st.LostRequests != 0 {
		t.Errorf("%+v", st)
	}
	if got := s.count(series.BreakdownRequests); got != all {
		t.Errorf("%d requests handed over, want %d", got, all)
	}
	if st.Kept != uint64(len(k.traces)) || st.Kept == 0 {
		t.Errorf("%d kept, %d in the store", st.Kept, len(k.traces))
	}
}

// A trace of which spans wait is not closed at once, also where another of the message filled
// the shard in between.
func TestOpenIsNotClosedAtOnce(t *testing.T) {
	a, _, c := start(t, Options{MemoryBytes: 8 << 20, MaxSpans: 1 << 20})
	names := someNames(a)
	a.trustAll(c.now())
	sh := a.shards[0]
	var ids []uint64
	for n := uint64(1); len(ids) < 40; n++ {
		id := traceID(n)
		if x := fill(names, n, 1, true); a.mix(&id).Lo>>a.shift == 0 && !a.waits(&x[0]) {
			ids = append(ids, n)
		}
	}
	victim, big := ids[0], ids[1]
	for _, n := range ids[10:] { // to be closed early
		a.Add(fill(names, n, 70, true))
	}
	callee := fill(names, victim, 3, true)[1:2]
	callee[0].ID = bytesOf(77)
	a.Add(callee)
	k := uint64(100)
	more := func(n int) []Span {
		x := fill(names, big, n, false)
		for i := range x {
			k++
			x[i].ID = bytesOf(k)
		}
		return x
	}
	for before := a.Stats().ClosedEarly; sh.budget() > 20<<10 && a.Stats().ClosedEarly == before; {
		a.Add(more(50))
	}
	id, before := traceID(victim), a.Stats()
	if sh.table.Find(sh.keys, a.mix(&id)) == 0 {
		t.Fatal("the callee's span does not wait")
	}
	a.Add(append(more(900), fill(names, victim, 3, true)...))
	if st := a.Stats(); st.AtOnce != 0 || st.ClosedEarly == before.ClosedEarly {
		t.Errorf("%d traces closed at once, %d closed early meanwhile", st.AtOnce, st.ClosedEarly-before.ClosedEarly)
	}
}

// One trace in 64 of trusted names waits.
func TestSampled(t *testing.T) {
	waits := 0
	for h := range uint64(64_000) {
		if sampled(h) {
			waits++
		}
	}
	if waits < 900 || waits > 1100 {
		t.Errorf("%d of 64,000 traces wait, want 1,000", waits)
	}
}

type slowKeeper struct{ called, end chan struct{} }

func (k *slowKeeper) PutTraces(context.Context, []store.Trace) error {
	k.called <- struct{}{}
	<-k.end
	return nil
}

// While traces are stored, and names to be retired, others are closed at once.
func TestAddDoesNotWaitForKeeper(t *testing.T) {
	k := &slowKeeper{make(chan struct{}, 8), make(chan struct{})}
	a, _, c := start(t, Options{MemoryBytes: 32 << 20, Keeper: k})
	names := someNames(a)
	a.trustAll(c.now())
	for n := range uint64(20) {
		a.Add(fill(names, n, 5, true))
	}
	a.names.bound = a.names.bytes // full
	c.advance(70 * time.Second)
	done := make(chan struct{})
	go func() { defer close(done); _ = a.handOverDue(context.Background(), c.now(), true, false) }()
	<-k.called
	a.Add(fill(names, 1000, 5, true))
	a.Add(fill(names, 1001, 5, true))
	close(k.end)
	<-done
}

// After the clock was set back names are trusted again once they have waited.
func TestTrustAfterClockSetBack(t *testing.T) {
	a, _, c := start(t, Options{MemoryBytes: 64 << 20})
	names := someNames(a)
	a.trustAll(c.now().Add(2 * time.Hour))
	c.advance(-24 * time.Hour)
	for n := range uint64(600) {
		a.Add(fill(names, n, 5, true))
		if n%100 == 99 {
			c.advance(20 * time.Second)
			a.tick(t, c)
		}
	}
	if st := a.Stats(); st.AtOnce == 0 {
		t.Error("no trace is closed at once two minutes later")
	}
}

// What a sink does not accept once waits for the next sweep.
func TestOneRefusalLosesNothing(t *testing.T) {
	a, s, c := start(t, Options{MemoryBytes: 64 << 20})
	names := someNames(a)
	a.trustAll(c.now())
	s.mu.Lock()
	s.fail = 1
	s.mu.Unlock()
	for n := range uint64(4000) {
		a.Add(fill(names, n, 5, true))
	}
	a.tick(t, c)
	if err := a.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	if st, got := a.Stats(), s.count(series.BreakdownRequests); st.LostRequests != 0 || st.CommitErrors == 0 || got != 4000 {
		t.Errorf("%d requests lost, %d of 4000 handed over, %d commits refused", st.LostRequests, got, st.CommitErrors)
	}
}
