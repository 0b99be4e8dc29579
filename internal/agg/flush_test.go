package agg

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

func TestNextCut(t *testing.T) {
	at := func(s string) time.Time {
		x, err := time.Parse("15:04:05.999", s)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	for _, c := range []struct{ now, want string }{
		{"10:00:00", "10:00:00.25"},
		{"10:00:00.249", "10:00:00.25"},
		{"10:00:00.25", "10:00:10.25"},
		{"10:00:09.9", "10:00:10.25"},
		{"10:00:10.3", "10:00:20.25"},
	} {
		if got := nextCut(at(c.now), 10*time.Second); !got.Equal(at(c.want)) {
			t.Errorf("at %s the next cut is %s, want %s", c.now, got.Format("15:04:05.999"), c.want)
		}
	}
}

// In real time: visible soon after the slot's end, synced, retried after
// failures, gone after Close.
func TestFlusher(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		st := newMemStore()
		a, err := Open(context.Background(), st, Options{Writer: "local", Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		send := func() {
			t.Helper()
			b := a.NewBatch()
			b.Observe(a.SpanTarget(&SpanIdentity{Service: "s"}), time.Now().UnixNano(), 1e6, 1)
			commit(t, b)
		}
		stored := func(want uint64) {
			t.Helper()
			synctest.Wait()
			if got := st.count(t, series.SpanDuration, series.Full); got != want {
				t.Errorf("at %s stored %d, want %d", time.Now().Format("05.000"), got, want)
			}
		}
		send() // at a slot's beginning
		time.Sleep(9 * time.Second)
		send()
		stored(1) // the cut a quarter of a second after the start took the first
		time.Sleep(1250 * time.Millisecond)
		stored(2)
		journal := func() (made, dirty bool) {
			a.mu.Lock()
			defer a.mu.Unlock()
			return a.open.journal != nil, a.open.journal != nil && a.open.journal.dirty
		}
		if made, _ := journal(); made {
			t.Error("the open generation has a journal before anything was accepted")
		}

		st.refuse(fmt.Errorf("disk: %w", store.ErrFull))
		send()
		time.Sleep(1100 * time.Millisecond)
		if made, dirty := journal(); !made || dirty {
			t.Error("the journal was not synced")
		}
		time.Sleep(9 * time.Second)
		stored(2)
		failures := a.Stats().FlushErrors
		time.Sleep(5 * time.Second)
		if got := a.Stats().FlushErrors; got <= failures || got > failures+4 {
			t.Errorf("%d more failures in 5 s", got-failures)
		}
		st.refuse(nil)
		time.Sleep(30 * time.Second)
		stored(3)

		send()
		if err := a.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		stored(4)
		b := a.NewBatch()
		b.Observe(a.SpanTarget(&SpanIdentity{Service: "s"}), time.Now().UnixNano(), 1, 1)
		if _, err := b.Commit(context.Background()); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// Everything at once: batches from several senders, resolution, flushes.
func TestConcurrent(t *testing.T) {
	st, c := newMemStore(), newClock()
	a := open(t, st, c, t.TempDir(), func(o *Options) { o.MaxTenants = 20; o.IdleAfter = time.Second })
	const senders, batches, spans = 4, 60, 30
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(s), 1))
			cache, epoch := map[int]Target{}, uint32(0)
			for range batches {
				b := a.NewBatch()
				if b.Epoch() != epoch {
					clear(cache)
					epoch = b.Epoch()
				}
				for range spans {
					k := r.IntN(60)
					target, ok := cache[k]
					if !ok {
						target = a.SpanTarget(&SpanIdentity{Service: "s", Operation: fmt.Sprint(k % 3), Tenant: fmt.Sprint(k)})
						cache[k] = target
					}
					b.Observe(target, b.now-r.Int64N(30e9), r.Int64N(1e9), 1)
				}
				if r, err := b.Commit(context.Background()); err != nil || r.Total() != 0 {
					t.Error(r, err)
				}
			}
		})
	}
	stop := make(chan struct{})
	var flusher sync.WaitGroup
	flusher.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
				if n < 1000 { // nothing becomes too old, however long a sender takes
					c.advance(20 * time.Second)
				}
				if err := a.Flush(context.Background()); err != nil {
					t.Error(err)
				}
				a.Stats()
			}
		}
	})
	wg.Wait()
	close(stop)
	flusher.Wait()
	flush(t, a)
	views(t, st, senders*batches*spans)
}

// An observation allocates nothing, nor does its commit.
func TestCommitDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	a, targets, _, ns := prepare(t, 500, 500, nil)
	end := time.Now().UnixNano() // of one slot: those of the next are made anew
	round := func() {
		b := a.NewBatch()
		for i := range 1000 {
			b.Observe(targets[i%len(targets)], end, ns[i], 1)
		}
		if _, err := b.Commit(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	for range 50 {
		round()
	}
	if n := testing.AllocsPerRun(50, round); n > 3 {
		t.Errorf("%v allocations for a thousand spans", n)
	}
}

// Counts beyond 32 bits spill, survive wider pages and merge into totals.
func TestHugeCounts(t *testing.T) {
	st, c := newMemStore(), newClock()
	a := open(t, st, c, t.TempDir())
	want := hist.New(cellSchema)
	b := a.NewBatch()
	target := a.SpanTarget(&SpanIdentity{Service: "s", Tenant: "t", Operation: "o"})
	for i := range 20 {
		for _, ns := range []int64{1e6, 1e6, 3, 0, 1e6, 1 << 62} {
			w := uint32(1<<32 - 1 - i%2)
			b.Observe(target, c.now().UnixNano(), ns, w)
			if err := want.RecordNanos(ns, uint64(w)); err != nil {
				t.Fatal(err)
			}
		}
	}
	commit(t, b)
	flush(t, a)
	for _, v := range []series.View{series.Full, series.Marginal, series.Total} {
		for k, slots := range st.slots(t, series.SpanDuration, v) {
			for _, h := range slots {
				equal(t, k, h, want)
			}
		}
	}
}

// Series that are seen once leave memory after a few generations when their
// tables take an eighth of it; those that go on being seen stay. What comes
// again is counted as ever.
func TestSeriesSeenOnceGo(t *testing.T) {
	st, c := newMemStore(), newClock()
	a := open(t, st, c, t.TempDir(), func(o *Options) { o.MemoryBytes, o.MaxTenants = 16<<20, 100_000 })
	const generations, each = 12, 3000
	most := uint64(0)
	for g := range generations {
		b := a.NewBatch()
		for i := range each {
			id := SpanIdentity{Service: "s", Tenant: fmt.Sprintf("tenant-%d-%d", g, i)}
			if i < 100 {
				id.Tenant = fmt.Sprintf("tenant-%d", i)
			}
			b.Observe(a.SpanTarget(&id), b.now, 1e6, 1)
		}
		if r, err := b.Commit(context.Background()); err != nil || r.Total() != 0 {
			t.Fatal(r, err)
		}
		c.advance(10 * time.Second)
		flush(t, a)
		s := a.Stats()
		most = max(most, s.ActiveSeries)
		if s.FoldedTenants > 0 {
			t.Fatalf("generation %d: %d tenants were folded", g, s.FoldedTenants)
		}
		if s.SlotBytes+s.SeriesBytes+s.StreamBytes != s.MemoryBytes {
			t.Fatalf("the parts of %+v are not its sum", s)
		}
	}
	if most > 6*each {
		t.Errorf("%d series were held of %d a generation", most, each)
	}
	views(t, st, generations*each)
}
