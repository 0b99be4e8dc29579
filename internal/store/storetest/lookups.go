package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"pgregory.net/rapid"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

func equals(name, value string) []*labels.Matcher {
	return []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, name, value)}
}

func testLookups(t *testing.T, st store.Store) {
	ctx := context.Background()
	const t0 = T0 * 1000
	const hour = 3600_000
	if set := must(st.NumberSeries(ctx, "queue"))(t); set != nil {
		t.Fatal("a set of a family that is not there")
	}
	put(t, st, "w", 1, Span(series.Full, "service", "a"), T0, []float64{1})
	if set := must(st.NumberSeries(ctx, series.SpanDuration))(t); set != nil {
		t.Fatal("a set of number series of a family of distributions")
	}
	a, b := gauge("q", "a"), gauge("q", "b")
	sample := func(t int64) series.Sample { return series.Sample{TimeMillis: t0 + t, Value: float64(t % 1000)} }
	putSamples(t, st, 1, a, sample(0), sample(1000), sample(3000), sample(5*hour))
	set := must(st.NumberSeries(ctx, "queue"))(t)
	equal(t, "series", set.Len(), 1)
	found, n := set.Match(equals("q", "a"), 0)
	equal(t, "found", [2]int{len(found), n}, [2]int{1, 1})
	none, n := set.Match(equals("q", "b"), 0)
	equal(t, "not there yet", [2]int{len(none), n}, [2]int{0, 1})
	again, _ := set.Match(nil, 1)
	equal(t, "beyond the first", len(again), 0)
	l := found[0]
	equal(t, "labels", l.Labels().String(), a.Labels.String())
	equal(t, "kind", l.Kind(), series.Gauge)
	near := func(at, within int64) int64 {
		v, ok, err := l.Nearest(ctx, t0+at, within)
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
		check(t, st.Maintain(ctx, time.Unix(T0+5400, 0)))
	}
	times := func(ss []series.Sample, err error) (out []int64) {
		check(t, err)
		for _, s := range ss {
			out = append(out, s.TimeMillis-t0)
		}
		return out
	}
	equal(t, "newest", times(l.Latest(ctx, nil, t0+5*hour, 0, 1)), []int64{5 * hour})
	equal(t, "second and third", times(l.Latest(ctx, nil, t0+9*hour, 1, 2)), []int64{3000, 1000})
	equal(t, "before the newest", times(l.Latest(ctx, nil, t0+5*hour-1, 0, 9)), []int64{3000, 1000, 0})
	equal(t, "beyond the end", times(l.Latest(ctx, nil, t0+5*hour, 4, 9)), nil)
	equal(t, "range", times(l.Range(ctx, nil, t0+1000, t0+5*hour-1)), []int64{1000, 3000})
	equal(t, "empty range", times(l.Range(ctx, nil, t0+1001, t0+2999)), nil)
	// What is put later is seen, in order or not.
	putSamples(t, st, 2, a, sample(5*hour+1000))
	equal(t, "newest", times(l.Latest(ctx, nil, t0+9*hour, 0, 1)), []int64{5*hour + 1000})
	putSamples(t, st, 3, a, sample(500), sample(5*hour-1))
	equal(t, "late ones", times(l.Latest(ctx, nil, t0+9*hour, 0, 9)), []int64{5*hour + 1000, 5 * hour, 5*hour - 1, 3000, 1000, 500, 0})
	putSamples(t, st, 4, b, sample(hour), sample(hour+1))
	equal(t, "series", set.Len(), 2)
	found, _ = set.Match(equals("q", "b"), 1)
	equal(t, "the new one", len(found), 1)
	l = found[0]
	equal(t, "of the new one", near(0, hour), hour)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, _, err := l.Nearest(cancelled, t0, hour)
	_, err2 := l.Latest(cancelled, nil, t0, 0, 1)
	_, err3 := l.Range(cancelled, nil, t0, t0+1)
	for _, err := range []error{err, err2, err3} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v, want context.Canceled", err)
		}
	}
}

// testConcurrentLookups puts samples while others look for the newest: once Put
// has returned, each lookup finds them, and never one twice.
func testConcurrentLookups(t *testing.T, st store.Store) {
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
	at := func(gen int) int64 { return T0*1000 + int64(gen)*300_000 }
	batch := func(gen int) {
		b := &store.Batch{Writer: "w", Generation: uint64(gen + 1), Resolution: series.Base, Series: all}
		for i := range all {
			b.Samples = append(b.Samples, store.Samples{Series: uint32(i), Samples: []series.Sample{{TimeMillis: at(gen), Value: float64(gen)}}})
		}
		check(t, st.Put(ctx, b))
	}
	batch(0)
	set := must(st.NumberSeries(ctx, "queue"))(t)
	var wg sync.WaitGroup
	for i := range many {
		found, _ := set.Match(equals("q", fmt.Sprint(i)), 0)
		wg.Go(func() {
			for until := range done[i] {
				got, err := found[0].Latest(ctx, nil, 1<<60, 0, 1<<30)
				if err != nil || len(got) == 0 || got[0].TimeMillis < until {
					t.Errorf("series %d: newest of %d samples, %v: want one at %d or later", i, len(got), err, until)
				}
				for k := 1; k < len(got); k++ {
					if got[k].TimeMillis != got[k-1].TimeMillis-300_000 {
						t.Errorf("series %d: %d follows %d", i, got[k].TimeMillis, got[k-1].TimeMillis)
					}
				}
				if v, ok, err := found[0].Nearest(ctx, until+1, 10); err != nil || !ok || v.TimeMillis != until {
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

// RunLookups plays random puts, some late or repeated, and maintenance, and holds
// every look-up against the twin's. reopen, if there is one, now and then
// replaces the store by one with the same content.
func RunLookups(t *testing.T, open func(t *testing.T) store.Store, reopen func(t *testing.T, st store.Store) store.Store) {
	rapid.Check(t, func(rt *rapid.T) {
		randomLookups(rt, open(t), func(st store.Store) store.Store {
			if reopen == nil {
				return st
			}
			return reopen(t, st)
		})
	})
}

func randomLookups(rt *rapid.T, st store.Store, reopen func(store.Store) store.Store) {
	ctx := context.Background()
	twin := NewTwin()
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
	now := int64(T0) * 1000
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
			got, err := st.NumberSeries(ctx, "queue")
			must(err)
			want, err := twin.NumberSeries(ctx, "queue")
			must(err)
			if got == nil || want == nil {
				if got != nil || want != nil {
					rt.Fatalf("sets: got %v, want %v", got, want)
				}
				continue
			}
			gots, n := got.Match(ms, 0)
			wants, m := want.Match(ms, 0)
			if len(gots) != len(wants) || n != m || n != got.Len() {
				rt.Fatalf("got %d of %d series, want %d of %d", len(gots), n, len(wants), m)
			}
			for i := range gots {
				for range 10 {
					t := T0*1000 - 1000 + rng.Int64N(now-T0*1000+2000)
					within := []int64{0, 500, 30_000, 4_000_000, 1 << 50}[rng.IntN(5)]
					v, ok, err := gots[i].Nearest(ctx, t, within)
					must(err)
					w, wok, _ := wants[i].Nearest(ctx, t, within)
					if ok != wok || ok && v != w {
						rt.Fatalf("nearest to %d within %d: got %v %v, want %v %v", t, within, v, ok, w, wok)
					}
				}
				until, skip, k := T0*1000+rng.Int64N(now-T0*1000+2000), rng.IntN(50), rng.IntN(500)
				a, err := gots[i].Latest(ctx, nil, until, 0, 1<<30)
				must(err)
				b, _ := wants[i].Latest(ctx, nil, until, 0, 1<<30)
				if d := sampleDiff(a, b); d != "" {
					rt.Fatalf("all until %d: %s", until, d)
				}
				a, err = gots[i].Latest(ctx, nil, until, skip, k)
				must(err)
				b, _ = wants[i].Latest(ctx, nil, until, skip, k)
				if d := sampleDiff(a, b); d != "" {
					rt.Fatalf("latest until %d without %d, %d of them: %s", until, skip, k, d)
				}
				start := until - rng.Int64N(8_000_000)
				a, err = gots[i].Range(ctx, nil, start, until)
				must(err)
				b, _ = wants[i].Range(ctx, nil, start, until)
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
