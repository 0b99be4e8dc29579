package agg

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"pgregory.net/rapid"

	"tailscope/hist"
	"tailscope/internal/series"
)

// What is derived is stored as if it had been journalled, beside the spans, whatever its
// weights, slots and flushes.
func TestDerivedEqualsJournalled(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := newClock()
		var stores [2]*memStore
		var aggs [2]*Aggregator
		for i := range stores {
			stores[i] = newMemStore()
			aggs[i] = open(t, stores[i], c, t.TempDir())
			defer aggs[i].Close(context.Background())
		}
		begin := [2]func() *Batch{aggs[0].NewBatch, aggs[1].NewDerivedBatch}
		durations := rapid.OneOf(rapid.Int64Range(0, 5), rapid.Int64Range(1e5, 1e8), rapid.Int64Range(0, 1<<61))
		weights := rapid.OneOf(rapid.Just(uint32(1)), rapid.Uint32Range(1, 9), rapid.Uint32Range(1<<31, 1<<32-1))
		for range rapid.IntRange(1, 6).Draw(rt, "batches") {
			var batches [2]*Batch
			for i := range batches {
				batches[i] = begin[i]()
			}
			for range rapid.IntRange(0, 20).Draw(rt, "entries") {
				id := &SpanIdentity{Service: "s", Operation: fmt.Sprint("op", rapid.IntRange(0, 2).Draw(rt, "op")), Tenant: fmt.Sprint("t", rapid.IntRange(0, 2).Draw(rt, "tenant"))}
				part := series.Series{Family: series.BreakdownSelf, Labels: labels.FromStrings("part", id.Operation)}
				at := c.now().UnixNano() - rapid.Int64Range(0, 3).Draw(rt, "slot")*slotNanos
				if rapid.Bool().Draw(rt, "observe") {
					ns, w := durations.Draw(rt, "ns"), weights.Draw(rt, "weight")
					for i, a := range aggs {
						batches[i].Observe(selfTarget(a, id), at, ns, w)
					}
					continue
				}
				h := hist.New(hist.DefaultSchema)
				for range rapid.IntRange(0, 5).Draw(rt, "observations") {
					if err := h.RecordNanos(durations.Draw(rt, "ns"), uint64(weights.Draw(rt, "weight"))); err != nil {
						rt.Fatal(err)
					}
				}
				views := rapid.Bool().Draw(rt, "views")
				for i, a := range aggs {
					target := a.SeriesTarget(part)
					if views {
						target = selfTarget(a, id)
					}
					batches[i].Distribution(target, at, h)
				}
			}
			for _, b := range batches {
				if r := commit(t, b); r.Total() != 0 {
					rt.Fatal(r)
				}
			}
			if rapid.Bool().Draw(rt, "flush") {
				flush(t, aggs[0])
				flush(t, aggs[1])
			}
		}
		flush(t, aggs[0])
		flush(t, aggs[1])
		if n := aggs[1].Stats().JournalBytes; n != 0 {
			rt.Fatalf("%d bytes were journalled", n)
		}
		sameSlots(t, rt, stores[1], stores[0], series.SpanSelf, series.BreakdownSelf)
	})
}

// sameSlots fails rt unless both stores hold the same distributions of families, in every view.
func sameSlots(t *testing.T, rt *rapid.T, of, as *memStore, families ...string) {
	for _, family := range families {
		for _, view := range []series.View{series.Full, series.Marginal, series.Total} {
			got, want := of.slots(t, family, view), as.slots(t, family, view)
			if len(got) != len(want) {
				rt.Fatalf("%s view %d: %d series, want %d", family, view, len(got), len(want))
			}
			for k, slots := range want {
				if len(got[k]) != len(slots) {
					rt.Fatalf("%s: %d slots, want %d", k, len(got[k]), len(slots))
				}
				for at, h := range slots {
					equal(rt, fmt.Sprint(k, at), got[k][at], h)
				}
			}
		}
	}
}

// Durations of members are stored as those of targets are, whatever is folded, weighted, shared
// by instances or flushed, and whenever values are bounded anew.
func TestMembersEqualTargets(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := newClock()
		var stores [2]*memStore
		var aggs [2]*Aggregator
		for i := range stores {
			stores[i] = newMemStore()
			aggs[i] = open(t, stores[i], c, t.TempDir(), func(o *Options) { o.MaxTenants, o.MaxOperations = 3, 3 })
			defer aggs[i].Close(context.Background())
		}
		durations := rapid.OneOf(rapid.Int64Range(0, 5), rapid.Int64Range(1e5, 1e8), rapid.Int64Range(0, 1<<61))
		weights := rapid.OneOf(rapid.Just(uint32(1)), rapid.Uint32Range(1, 9), rapid.Uint32Range(1<<31, 1<<32-1))
		tenants := rapid.SampledFrom([]string{"", series.Other, "a", "b", "c", "d"})
		for range rapid.IntRange(1, 6).Draw(rt, "batches") {
			targets, members := aggs[0].NewBatch(), aggs[1].NewDerivedBatch()
			groups := map[string]int{}
			for range rapid.IntRange(0, 60).Draw(rt, "entries") {
				id := SpanIdentity{Service: fmt.Sprint("s", rapid.IntRange(0, 1).Draw(rt, "service")), Operation: fmt.Sprint("op", rapid.IntRange(0, 4).Draw(rt, "op")), Kind: "server", Instance: fmt.Sprint("i", rapid.IntRange(0, 1).Draw(rt, "instance"))}
				own := id
				g, ok := groups[fmt.Sprint(id)]
				if !ok {
					g = members.Group(aggs[1].SelfGroup(&own))
					groups[fmt.Sprint(id)] = g
				}
				tenant := tenants.Draw(rt, "tenant")
				id.Tenant = tenant
				at, ns, w := c.now().UnixNano()-rapid.Int64Range(0, 3).Draw(rt, "slot")*slotNanos, durations.Draw(rt, "ns"), weights.Draw(rt, "weight")
				targets.Observe(selfTarget(aggs[0], &id), at, ns, w)
				members.ObserveMember(g, tenant, at, ns, w)
			}
			if rapid.IntRange(0, 9).Draw(rt, "anew") == 0 {
				aggs[1].reg.clearGroups()
			}
			for _, b := range []*Batch{targets, members} {
				if r := commit(t, b); r.Total() != 0 {
					rt.Fatal(r)
				}
			}
			if rapid.Bool().Draw(rt, "flush") {
				flush(t, aggs[0])
				flush(t, aggs[1])
			}
		}
		flush(t, aggs[0])
		flush(t, aggs[1])
		sameSlots(t, rt, stores[1], stores[0], series.SpanSelf)
	})
}

// A batch whose groups are of an earlier turn is refused whole.
func TestMembersOfAnEarlierTurn(t *testing.T) {
	a := open(t, newMemStore(), newClock(), t.TempDir())
	b := a.NewDerivedBatch()
	b.ObserveMember(b.Group(a.SelfGroup(&SpanIdentity{Service: "s"})), "a", a.o.Now().UnixNano(), 1, 1)
	a.reg.clearGroups()
	a.reg.clearGroups()
	if _, err := b.Commit(context.Background()); err == nil {
		t.Error("no error")
	}
	if n := a.Stats().Observations; n != 0 {
		t.Errorf("%d observations", n)
	}
}

// A derived batch takes what its cells can hold, and counts the rest as refused.
func TestDerivedRefuses(t *testing.T) {
	st, c := newMemStore(), newClock()
	a := open(t, st, c, t.TempDir())
	now := c.now().UnixNano()
	s := series.Series{Family: series.BreakdownSelf, Labels: labels.FromStrings("service", "s")}
	record := func(schema int8, v float64) *hist.Histogram {
		h := hist.New(schema)
		h.Record(v)
		return h
	}
	broken := record(hist.DefaultSchema, 1)
	broken.Count = 0
	broken.Count--
	for name, test := range map[string]struct {
		add  func(b *Batch)
		want Rejects
	}{
		"schema":        {func(b *Batch) { b.Distribution(a.SeriesTarget(s), now, record(2, 1)) }, Rejects{Invalid: 1}},
		"negative":      {func(b *Batch) { b.Distribution(a.SeriesTarget(s), now, record(hist.DefaultSchema, -1)) }, Rejects{Invalid: 1}},
		"no nanosecond": {func(b *Batch) { b.Distribution(a.SeriesTarget(s), now, record(hist.DefaultSchema, 1e-12)) }, Rejects{Invalid: 1}},
		"too long":      {func(b *Batch) { b.Distribution(a.SeriesTarget(s), now, record(hist.DefaultSchema, 1e12)) }, Rejects{Invalid: 1}},
		"contradiction": {func(b *Batch) { b.Distribution(a.SeriesTarget(s), now, broken) }, Rejects{Invalid: 1}},
		"number": {func(b *Batch) {
			b.Number(a.SeriesTarget(series.Series{Family: "n", Kind: series.Gauge}), now, 1)
		}, Rejects{Invalid: 1}},
		"cumulative": {func(b *Batch) {
			b.Cumulative(a.SeriesTarget(s), StreamID{1}, 1, 0, now, record(hist.DefaultSchema, 1))
		}, Rejects{Invalid: 1}},
		"old": {func(b *Batch) {
			b.Distribution(a.SeriesTarget(s), now-int64(a.o.Retention)-slotNanos, record(hist.DefaultSchema, 1))
		}, Rejects{TooOld: 1}},
		"new":   {func(b *Batch) { b.Observe(a.SeriesTarget(s), now+int64(a.o.MaxAhead)+1, 1, 1) }, Rejects{TooNew: 1}},
		"empty": {func(b *Batch) { b.Distribution(a.SeriesTarget(s), now, hist.New(hist.DefaultSchema)) }, Rejects{}},
	} {
		b := a.NewDerivedBatch()
		test.add(b)
		if got := commit(t, b); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
	flush(t, a)
	if st.puts != 0 {
		t.Errorf("%d puts of nothing", st.puts)
	}
}

// A batch that comes after its epoch, or while memory is at its bound, changes nothing.
func TestDerivedIsAllOrNothing(t *testing.T) {
	st, c := newMemStore(), newClock()
	a := open(t, st, c, t.TempDir())
	good := selfTarget(a, &SpanIdentity{Service: "s"})
	add := func(targets ...Target) *Batch {
		b := a.NewDerivedBatch()
		for _, x := range targets {
			b.Observe(x, c.now().UnixNano(), 1e6, 1)
		}
		return b
	}
	if _, err := add(good, good+1<<32).Commit(context.Background()); err == nil {
		t.Error("a target of another epoch was accepted")
	}
	was := a.o.MemoryBytes
	bound := func(bytes int64) {
		a.mu.Lock() // the flusher reads it
		defer a.mu.Unlock()
		a.o.MemoryBytes = bytes
	}
	bound(1)
	if _, err := add(good).Commit(context.Background()); err == nil {
		t.Error("a batch was accepted beyond the bound")
	}
	bound(was)
	flush(t, a)
	if st.puts != 0 {
		t.Errorf("%d puts of nothing", st.puts)
	}
	commit(t, add(good))
	flush(t, a)
	if n := st.count(t, series.SpanSelf, series.Total); n != 1 {
		t.Errorf("%d observations, want 1", n)
	}
}

// A crash loses what is derived and not stored, and nothing else: journals do not hold
// it, their positions do not count it, and nothing is missed.
func TestCrashLosesDerived(t *testing.T) {
	st, c, dir := newMemStore(), newClock(), t.TempDir()
	derive := func(a *Aggregator, n int) {
		b := a.NewDerivedBatch()
		for range n {
			b.Observe(selfTarget(a, &SpanIdentity{Service: "s", Operation: "op0", Tenant: "t0"}), c.now().UnixNano(), 1e6, 1)
		}
		commit(t, b)
	}
	holds := func(when string, spans, derived uint64) {
		t.Helper()
		views(t, st, spans)
		for _, v := range []series.View{series.Full, series.Marginal, series.Total} {
			if got := st.count(t, series.SpanSelf, v); got != derived {
				t.Errorf("%s: view %d holds %d derived, want %d", when, v, got, derived)
			}
		}
	}
	a := open(t, st, c, dir)
	derive(a, 3) // before the journal of its generation is begun
	someSpans(t, a, c, 10)
	derive(a, 4)
	flush(t, a)
	holds("flushed", weightOf10, 7)
	derive(a, 5) // a generation without a journal
	flush(t, a)
	holds("flushed alone", weightOf10, 12)
	someSpans(t, a, c, 10)
	derive(a, 6)
	if n, observations, err := CountJournals(context.Background(), vfs.Default, dir); n != 1 || observations != 10 || err != nil {
		t.Errorf("%d journals with %d observations, %v, want 1 with 10", n, observations, err)
	}
	crash(a)
	a = open(t, st, c, dir)
	holds("replayed", 2*weightOf10, 12)
	if s := a.Stats(); s.Replayed != 10 || s.Lost != 0 || len(a.Damage()) != 0 {
		t.Errorf("replayed %d and lost %d with damage %v, want 10 and nothing", s.Replayed, s.Lost, a.Damage())
	}

	derive(a, 7) // alone when the program dies
	crash(a)
	a = open(t, st, c, dir)
	holds("died", 2*weightOf10, 12)
	derive(a, 8)
	someSpans(t, a, c, 10)
	flush(t, a)
	holds("again", 3*weightOf10, 20)
	if s := a.Stats(); s.Lost != 0 || len(a.Damage()) != 0 {
		t.Errorf("lost %d with damage %v", s.Lost, a.Damage())
	}
}

// A target that only derived batches use stays in memory, and is defined in the journal of
// the same generation once a journalled batch uses it.
func TestDerivedTargetIsDefinedForTheJournal(t *testing.T) {
	st, c, dir := newMemStore(), newClock(), t.TempDir()
	a := open(t, st, c, dir)
	target := selfTarget(a, &SpanIdentity{Service: "s"})
	for range 20 {
		b := a.NewDerivedBatch()
		b.Observe(target, c.now().UnixNano(), 1e6, 1)
		commit(t, b)
		flush(t, a)
		c.advance(a.o.IdleAfter / 4)
	}
	if got := selfTarget(a, &SpanIdentity{Service: "s"}); got != target {
		t.Errorf("the target is %x, was %x", got, target)
	}
	for _, begin := range []func() *Batch{a.NewDerivedBatch, a.NewBatch} {
		b := begin()
		b.Observe(target, c.now().UnixNano(), 1e6, 1)
		commit(t, b)
	}
	crash(a)
	open(t, st, c, dir)
	if n := st.count(t, series.SpanSelf, series.Total); n != 21 {
		t.Errorf("%d observations, want 21", n)
	}
}

// What is committed before a cut is stored with the generation that is cut.
func TestBeforeCut(t *testing.T) {
	st, c := newMemStore(), newClock()
	a := open(t, st, c, t.TempDir())
	calls := 0
	a.BeforeCut(func(context.Context) {
		calls++
		b := a.NewDerivedBatch()
		b.Observe(selfTarget(a, &SpanIdentity{Service: "s"}), c.now().UnixNano(), 1e6, 1)
		commit(t, b)
	})
	someSpans(t, a, c, 10)
	flush(t, a)
	if n := st.count(t, series.SpanSelf, series.Total); calls != 1 || n != 1 || st.puts != 1 {
		t.Errorf("%d observations by %d calls in %d puts, want 1 each", n, calls, st.puts)
	}
}

// Sums beyond 64 bits keep the digits that a float has.
func TestSumOf(t *testing.T) {
	for _, want := range []float64{0, 1, 1e15, 1 << 62, 1 << 63, 1 << 64, 3e21, 1e30} {
		lo, hi := sumOf(&hist.Histogram{Sum: want / 1e9})
		if got := float64(hi)*(1<<64) + float64(lo); math.Abs(got-want) > want*1e-15 {
			t.Errorf("sum of %g: %g", want, got)
		}
	}
}
