package history

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"pgregory.net/rapid"

	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
	"tailscope/internal/store/storetest"
)

// stores are those whose samples are looked up.
func stores(t *testing.T, fn func(t *testing.T, open func(t *testing.T) store.Store)) {
	for name, open := range map[string]func(t *testing.T) store.Store{
		"twin":        func(*testing.T) store.Store { return storetest.NewTwin() },
		"pebblestore": func(t *testing.T) store.Store { return openStore(t, pebblestore.Options{}) },
	} {
		t.Run(name, func(t *testing.T) { fn(t, open) })
	}
}

func openStore(t testing.TB, o pebblestore.Options) *pebblestore.Store {
	t.Helper()
	if o.FS == nil {
		o.FS = vfs.NewMem()
	}
	o.Dir, o.MemtableBytes = "data", 1<<20
	st, err := pebblestore.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func gauge(pairs ...string) series.Series {
	return series.Series{Family: "queue", Kind: series.Gauge, Labels: labels.FromStrings(pairs...)}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// seriesIn returns the series of a family, nil if there are none.
func seriesIn(t testing.TB, c *Cache, family string) *seriesSet {
	t.Helper()
	set, err := c.seriesOf(context.Background(), family)
	check(t, err)
	return set
}

func putSamples(t testing.TB, c *Cache, gen uint64, s series.Series, ss ...series.Sample) {
	t.Helper()
	check(t, c.Put(context.Background(), &store.Batch{Writer: "w", Generation: gen, Series: []series.Series{s}, Samples: []store.Samples{{Samples: ss}}}))
}

func TestLookups(t *testing.T) {
	stores(t, func(t *testing.T, open func(t *testing.T) store.Store) {
		c := NewCache(open(t), CacheOptions{})
		defer func() { check(t, c.Close()) }()
		testLookups(t, c)
	})
}

func testLookups(t *testing.T, st *Cache) {
	ctx := context.Background()
	const t0 = storetest.T0 * 1000
	const hour = 3600_000
	if set := seriesIn(t, st, "queue"); set != nil {
		t.Fatal("a set of a family that is not there")
	}
	check(t, st.Put(ctx, &store.Batch{Writer: "w", Generation: 1, Resolution: series.Base, Series: []series.Series{storetest.Span(series.Full, "service", "a")},
		Points: []store.Point{{Slot: storetest.T0, Data: storetest.Dist(1)}}}))
	if set := seriesIn(t, st, series.SpanDuration); set != nil {
		t.Fatal("a set of number series of a family of distributions")
	}
	a, b := gauge("q", "a"), gauge("q", "b")
	sample := func(t int64) series.Sample { return series.Sample{TimeMillis: t0 + t, Value: float64(t % 1000)} }
	putSamples(t, st, 2, a, sample(0), sample(1000), sample(3000), sample(5*hour))
	set := seriesIn(t, st, "queue")
	equal(t, "series", set.length.Load(), 1)
	found, n := set.match(equals("q", "a"), 0)
	equal(t, "found", [2]int{len(found), n}, [2]int{1, 1})
	none, n := set.match(equals("q", "b"), 0)
	equal(t, "not there yet", [2]int{len(none), n}, [2]int{0, 1})
	again, _ := set.match(nil, 1)
	equal(t, "beyond the first", len(again), 0)
	l := found[0]
	equal(t, "labels", l.labels.String(), a.Labels.String())
	equal(t, "kind", l.kind, series.Gauge)
	near := func(at, within int64) int64 {
		v, ok, err := l.nearest(ctx, t0+at, within)
		check(t, err)
		if !ok {
			return -1
		}
		equal(t, "value", v.Value, float64((v.TimeMillis-t0)%1000))
		return v.TimeMillis - t0
	}
	for range 2 {
		for _, tt := range []struct{ at, within, want int64 }{
			{0, 0, 0},
			{-1, 0, -1},
			{-1, 1, 0},
			{499, hour, 0},
			{500, hour, 0}, // a tie: the earlier
			{501, hour, 1000},
			{2000, hour, 1000},
			{2000, 999, -1},
			{2001, hour, 3000},
			{hour, hour, 3000},
			{2 * hour, hour, -1},
			{4 * hour, hour, 5 * hour},
			{4*hour - 1, hour, -1},
			{9 * hour, 1 << 60, 5 * hour},
		} {
			equal(t, fmt.Sprintf("nearest to %d within %d", tt.at, tt.within), near(tt.at, tt.within), tt.want)
		}
		check(t, st.Maintain(ctx, time.Unix(storetest.T0+5400, 0)))
	}
	times := func(ss []series.Sample, err error) (out []int64) {
		check(t, err)
		for _, s := range ss {
			out = append(out, s.TimeMillis-t0)
		}
		return out
	}
	between := func(ss []series.Sample, _ []store.Span, err error) ([]series.Sample, error) { return ss, err }
	equal(t, "newest", times(l.latest(ctx, nil, t0+5*hour, 0, 1)), []int64{5 * hour})
	equal(t, "second and third", times(l.latest(ctx, nil, t0+9*hour, 1, 2)), []int64{3000, 1000})
	equal(t, "before the newest", times(l.latest(ctx, nil, t0+5*hour-1, 0, 9)), []int64{3000, 1000, 0})
	equal(t, "beyond the end", times(l.latest(ctx, nil, t0+5*hour, 4, 9)), nil)
	equal(t, "range", times(between(l.between(ctx, nil, t0+1000, t0+5*hour-1))), []int64{1000, 3000})
	equal(t, "empty range", times(between(l.between(ctx, nil, t0+1001, t0+2999))), nil)
	// What is put later is seen, in order or not.
	putSamples(t, st, 3, a, sample(5*hour+1000))
	equal(t, "newest", times(l.latest(ctx, nil, t0+9*hour, 0, 1)), []int64{5*hour + 1000})
	putSamples(t, st, 4, a, sample(500), sample(5*hour-1))
	equal(t, "late ones", times(l.latest(ctx, nil, t0+9*hour, 0, 9)), []int64{5*hour + 1000, 5 * hour, 5*hour - 1, 3000, 1000, 500, 0})
	putSamples(t, st, 5, b, sample(hour), sample(hour+1))
	equal(t, "series", set.length.Load(), 2)
	found, _ = set.match(equals("q", "b"), 1)
	equal(t, "the new one", len(found), 1)
	l = found[0]
	equal(t, "of the new one", near(0, hour), hour)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, _, err := l.nearest(cancelled, t0, hour)
	_, err2 := l.latest(cancelled, nil, t0, 0, 1)
	_, _, err3 := l.between(cancelled, nil, t0, t0+1)
	for _, err := range []error{err, err2, err3} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v, want context.Canceled", err)
		}
	}
}

// TestConcurrentLookups puts samples while others look for the newest: once Put
// has returned, each lookup finds them, and never one twice.
func TestConcurrentLookups(t *testing.T) {
	stores(t, func(t *testing.T, open func(t *testing.T) store.Store) {
		c := NewCache(open(t), CacheOptions{})
		defer func() { check(t, c.Close()) }()
		testConcurrentLookups(t, c)
	})
}

func testConcurrentLookups(t *testing.T, st *Cache) {
	ctx := context.Background()
	const many, gens = 5, 60
	all := make([]series.Series, many)
	for i := range all {
		all[i] = gauge("q", fmt.Sprint(i))
	}
	var done [many]chan int64
	for i := range done {
		done[i] = make(chan int64, gens)
	}
	at := func(gen int) int64 { return storetest.T0*1000 + int64(gen)*300_000 }
	batch := func(gen int) {
		b := &store.Batch{Writer: "w", Generation: uint64(gen + 1), Resolution: series.Base, Series: all}
		for i := range all {
			b.Samples = append(b.Samples, store.Samples{Series: uint32(i), Samples: []series.Sample{{TimeMillis: at(gen), Value: float64(gen)}}})
		}
		check(t, st.Put(ctx, b))
	}
	batch(0)
	set := seriesIn(t, st, "queue")
	var wg sync.WaitGroup
	for i := range many {
		found, _ := set.match(equals("q", fmt.Sprint(i)), 0)
		wg.Go(func() {
			for until := range done[i] {
				got, err := found[0].latest(ctx, nil, 1<<60, 0, 1<<30)
				if err != nil || len(got) == 0 || got[0].TimeMillis < until {
					t.Errorf("series %d: newest of %d samples, %v: want one at %d or later", i, len(got), err, until)
				}
				for k := 1; k < len(got); k++ {
					if got[k].TimeMillis != got[k-1].TimeMillis-300_000 {
						t.Errorf("series %d: %d follows %d", i, got[k].TimeMillis, got[k-1].TimeMillis)
					}
				}
				if v, ok, err := found[0].nearest(ctx, until+1, 10); err != nil || !ok || v.TimeMillis != until {
					t.Errorf("series %d: nearest to %d is %v, %v, %v", i, until+1, v, ok, err)
				}
			}
		})
	}
	for gen := 1; gen < gens; gen++ {
		batch(gen)
		for i := range done {
			done[i] <- at(gen)
		}
		if gen%20 == 0 {
			check(t, st.Maintain(ctx, time.UnixMilli(at(gen))))
		}
	}
	for i := range done {
		close(done[i])
	}
	wg.Wait()
}

func TestRandomLookups(t *testing.T) {
	stores(t, func(t *testing.T, open func(t *testing.T) store.Store) {
		runLookups(t, CacheOptions{}, func(t *testing.T) store.Store { return open(t) }, nil)
	})
}

// Room for hardly more than a block: nearly every look-up reads, and pushes out
// what the one before has read.
func TestLookupsWithoutRoom(t *testing.T) {
	runLookups(t, CacheOptions{Bytes: 2000}, func(t *testing.T) store.Store { return openStore(t, pebblestore.Options{}) }, nil)
}

// Every look-up reads again.
func TestLookupsThatRead(t *testing.T) {
	runLookups(t, CacheOptions{Refresh: -1}, func(t *testing.T) store.Store { return openStore(t, pebblestore.Options{}) }, nil)
}

func TestLookupsAfterReopening(t *testing.T) {
	fs := map[store.Store]vfs.FS{}
	open := func(t *testing.T, in vfs.FS) store.Store {
		st := openStore(t, pebblestore.Options{FS: in})
		fs[st] = in
		return st
	}
	runLookups(t, CacheOptions{}, func(t *testing.T) store.Store { return open(t, vfs.NewMem()) }, func(t *testing.T, st store.Store) store.Store {
		check(t, st.Close())
		return open(t, fs[st])
	})
}

// runLookups plays random puts, some late or repeated, and maintenance, and holds
// every look-up against the twin's. reopen, if there is one, now and then
// replaces the store by one with the same content.
func runLookups(t *testing.T, o CacheOptions, open func(t *testing.T) store.Store, reopen func(t *testing.T, st store.Store) store.Store) {
	rapid.Check(t, func(rt *rapid.T) {
		randomLookups(rt, NewCache(open(t), o), func(c *Cache) *Cache {
			if reopen == nil {
				return c
			}
			return NewCache(reopen(t, c.Store), o)
		})
	})
}

func randomLookups(rt *rapid.T, st *Cache, reopen func(*Cache) *Cache) {
	ctx := context.Background()
	twin := storetest.NewTwin()
	defer func() {
		if err := st.Close(); err != nil {
			rt.Fatal(err)
		}
	}()
	must := func(err error) {
		if err != nil {
			rt.Helper()
			rt.Fatal(err)
		}
	}
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
	decimals := rapid.SampledFrom([]float64{1, 100, 1e6, math2}).Draw(rt, "decimals")
	now := int64(storetest.T0) * 1000
	var sent []*store.Batch
	used := map[[2]int64]bool{}
	for range rapid.IntRange(1, 15).Draw(rt, "operations") {
		switch op := rapid.IntRange(0, 9).Draw(rt, "operation"); {
		case op < 4:
			b := &store.Batch{Writer: "w", Generation: uint64(len(sent) + 1), Resolution: series.Base}
			back := rapid.SampledFrom([]int64{0, 0, 0, 60_000, 5_000_000, 40_000_000}).Draw(rt, "back")
			step := rapid.SampledFrom([]int64{1000, 10_000, 600_000}).Draw(rt, "step")
			from := now
			for i := range 5 {
				if rng.IntN(3) == 0 {
					continue
				}
				t := from - back
				var ss []series.Sample
				for range rng.IntN(200) {
					t += step + rng.Int64N(3)*rng.Int64N(7)
					if !used[[2]int64{int64(i), t}] {
						used[[2]int64{int64(i), t}] = true
						ss = append(ss, series.Sample{TimeMillis: t, Value: float64(rng.IntN(1e6)) / decimals})
					}
				}
				if len(ss) == 0 {
					continue
				}
				now = max(now, t)
				b.Series = append(b.Series, gauge("q", fmt.Sprint(i)))
				b.Samples = append(b.Samples, store.Samples{Series: uint32(len(b.Series) - 1), Samples: ss})
			}
			must(errors.Join(st.Put(ctx, b), twin.Put(ctx, b)))
			sent = append(sent, b)
		case op == 4 && len(sent) > 0:
			b := sent[rng.IntN(len(sent))]
			must(errors.Join(st.Put(ctx, b), twin.Put(ctx, b)))
		case op == 5:
			must(st.Maintain(ctx, time.UnixMilli(now)))
			if rng.IntN(2) == 0 {
				st = reopen(st)
			}
		default:
			ms := equals("q", fmt.Sprint(rng.IntN(5)))
			got, err := st.seriesOf(ctx, "queue")
			must(err)
			all, err := twin.Series(ctx, "queue", series.Full, nil, 0, 1<<40)
			must(err)
			if got == nil {
				if len(all) > 0 {
					rt.Fatalf("no series, want %d", len(all))
				}
				continue
			}
			gots, n := got.match(ms, 0)
			wants, err := twin.Series(ctx, "queue", series.Full, ms, 0, 1<<40)
			must(err)
			if len(gots) != len(wants) || n != len(all) || n != int(got.length.Load()) {
				rt.Fatalf("got %d of %d series, want %d of %d", len(gots), n, len(wants), len(all))
			}
			for i := range gots {
				want := twinLookup{twin, wants[i]}
				for range 10 {
					t := storetest.T0*1000 - 1000 + rng.Int64N(now-storetest.T0*1000+2000)
					within := []int64{0, 500, 30_000, 4_000_000, 1 << 50}[rng.IntN(5)]
					v, ok, err := gots[i].nearest(ctx, t, within)
					must(err)
					w, wok, _ := want.nearest(ctx, t, within)
					if ok != wok || ok && v != w {
						rt.Fatalf("nearest to %d within %d: got %v %v, want %v %v", t, within, v, ok, w, wok)
					}
				}
				until, skip, k := storetest.T0*1000+rng.Int64N(now-storetest.T0*1000+2000), rng.IntN(50), rng.IntN(500)
				a, err := gots[i].latest(ctx, nil, until, 0, 1<<30)
				must(err)
				b, _ := want.latest(ctx, nil, until, 0, 1<<30)
				if d := sampleDiff(a, b); d != "" {
					rt.Fatalf("all until %d: %s", until, d)
				}
				a, err = gots[i].latest(ctx, nil, until, skip, k)
				must(err)
				b, _ = want.latest(ctx, nil, until, skip, k)
				if d := sampleDiff(a, b); d != "" {
					rt.Fatalf("latest until %d without %d, %d of them: %s", until, skip, k, d)
				}
				start := until - rng.Int64N(8_000_000)
				a, gaps, err := gots[i].between(ctx, nil, start, until)
				must(err)
				b, _ = want.between(ctx, nil, start, until)
				// Where nobody has a sample they may have been dropped; no store here drops any.
				for _, v := range b {
					if slices.ContainsFunc(gaps, func(g store.Span) bool { return v.TimeMillis >= g.Start*1000 && v.TimeMillis < g.End*1000 }) {
						rt.Fatalf("range %d to %d: the sample at %d is said to be dropped", start, until, v.TimeMillis)
					}
				}
				if d := sampleDiff(a, b); d != "" {
					rt.Fatalf("range %d to %d: %s", start, until, d)
				}
			}
		}
	}
}

// sampleDiff says where got and want part.
func sampleDiff(got, want []series.Sample) string {
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			return fmt.Sprintf("got %d, want %d, other from %d on: %v and %v", len(got), len(want), i, got[min(i, len(got)):min(i+3, len(got))], want[min(i, len(want)):min(i+3, len(want))])
		}
	}
	return ""
}

// math2 makes values that no count of decimals holds.
const math2 = 1.4142135623730951

// twinLookup answers by walking over all samples each time.
type twinLookup struct {
	w *storetest.Twin
	s series.Series
}

// samples returns those in [start, end], ascending.
func (l *twinLookup) samples(ctx context.Context, start, end int64) (out []series.Sample, err error) {
	id, _ := l.s.ID(nil)
	got, err := l.w.Samples(ctx, store.SampleQuery{Family: l.s.Family, IDs: []series.ID{id}, StartMillis: start, EndMillis: end})
	if err != nil || len(got) == 0 {
		return nil, err
	}
	return got[0].Samples, nil
}

func (l *twinLookup) nearest(ctx context.Context, t, within int64) (best series.Sample, ok bool, err error) {
	all, err := l.samples(ctx, t-within, t+within)
	for _, v := range all {
		if !ok || max(v.TimeMillis-t, t-v.TimeMillis) < max(best.TimeMillis-t, t-best.TimeMillis) {
			best, ok = v, true
		}
	}
	return best, ok, err
}

func (l *twinLookup) latest(ctx context.Context, dst []series.Sample, until int64, skip, n int) ([]series.Sample, error) {
	all, err := l.samples(ctx, -1<<62, until)
	slices.Reverse(all)
	all = all[min(skip, len(all)):]
	return append(dst, all[:min(n, len(all))]...), err
}

func (l *twinLookup) between(ctx context.Context, dst []series.Sample, start, end int64) ([]series.Sample, error) {
	all, err := l.samples(ctx, start, end)
	return append(dst, all...), err
}

// More blocks without samples than hours can be doubled lie before the only sample.
func TestManyEmptyBlocks(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	st := NewCache(openStore(t, pebblestore.Options{}), CacheOptions{})
	defer func() { check(t, st.Close()) }()
	const last = storetest.T0 * 1000
	b := &store.Batch{Writer: "w", Generation: 1, Resolution: series.Base, Series: []series.Series{gauge("q", "0")},
		Samples: []store.Samples{{Samples: []series.Sample{{TimeMillis: last, Value: 7}}}}}
	check(t, st.Put(ctx, b))
	set, err := st.seriesOf(ctx, "queue")
	check(t, err)
	found, _ := set.match(equals("q", "0"), 0)
	for i := range int64(100) { // blocks of an hour without samples, with gaps between them
		if _, ok, err := found[0].nearest(ctx, last-(i+1)*3*hourMillis, 0); ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	got, err := found[0].latest(ctx, nil, last, 0, 2)
	if err != nil || len(got) != 1 || got[0].Value != 7 {
		t.Errorf("%v, %v", got, err)
	}
}
