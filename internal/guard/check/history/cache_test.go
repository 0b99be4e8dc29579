package history

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"pgregory.net/rapid"

	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
	"tailscope/internal/store/storetest"
)

func TestPackedSamples(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		jitter := rapid.SampledFrom([]int64{0, 1, 100, 30_000, 3_000_000, 1 << 40}).Draw(rt, "jitter")
		step := rapid.SampledFrom([]int64{1, 1000, 10_000}).Draw(rt, "step")
		value := rapid.SampledFrom([]func() float64{
			func() float64 { return 7 },
			func() float64 { return float64(rng.IntN(200)) },
			func() float64 { return float64(rng.IntN(1e6)-5e5) / 1000 },
			func() float64 { return float64(rng.Int64()) },
			func() float64 { return rng.NormFloat64() },
			func() float64 {
				return []float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.MaxFloat64, 5e-324, 0.1, 1e300}[rng.IntN(8)]
			},
		}).Draw(rt, "values")
		var ss []series.Sample
		at := int64(storetest.T0) * 1000
		for range rapid.IntRange(0, 300).Draw(rt, "samples") {
			at += step
			if jitter > 0 {
				at += rng.Int64N(jitter)
			}
			ss = append(ss, series.Sample{TimeMillis: at, Value: value()})
		}
		b := newSampleBlock(&lookup{set: &seriesSet{m: &Cache{}}}, 0, hourSeconds, ss[:len(ss)/2], true)
		if len(ss) > 0 && !b.append(ss[len(ss)/2:]) {
			rt.Fatal("later samples were not taken")
		}
		if b.len() != len(ss) {
			rt.Fatalf("holds %d samples, want %d", b.len(), len(ss))
		}
		for i, want := range ss {
			if got := b.sample(i); got.TimeMillis != want.TimeMillis || math.Float64bits(got.Value) != math.Float64bits(want.Value) {
				rt.Fatalf("sample %d is %v, want %v", i, got, want)
			}
		}
		for range 50 {
			t := int64(storetest.T0)*1000 + rng.Int64N(at-storetest.T0*1000+2000) - 500
			if len(ss) > 0 && rng.IntN(2) == 0 {
				t = ss[rng.IntN(len(ss))].TimeMillis + rng.Int64N(3) - 1
			}
			want, _ := slices.BinarySearchFunc(ss, t+1, func(v series.Sample, t int64) int {
				if v.TimeMillis < t {
					return -1
				}
				return 1
			})
			if got := b.after(t); got != want {
				rt.Fatalf("%d samples until %d, want %d", got, t, want)
			}
		}
	})
}

// The samples in memory stay within their bound, and answers stay right.
func TestLookupBytes(t *testing.T) {
	const many, hours, limit = 20, 6, 100_000
	s := NewCache(openStore(t, pebblestore.Options{}), CacheOptions{Bytes: limit})
	defer s.Close()
	ctx := context.Background()
	b := &store.Batch{Writer: "w", Generation: 1, Resolution: series.Base}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range many {
		b.Series = append(b.Series, series.Series{Family: "queue", Kind: series.Gauge, Labels: labels.FromStrings("q", fmt.Sprint(i))})
		var ss []series.Sample
		for k := range int64(hours * 360) {
			ss = append(ss, series.Sample{TimeMillis: (storetest.T0 + k*10) * 1000, Value: rng.Float64()})
		}
		b.Samples = append(b.Samples, store.Samples{Series: uint32(i), Samples: ss})
	}
	if err := s.Put(ctx, b); err != nil {
		t.Fatal(err)
	}
	all, _ := seriesIn(t, s, "queue").match(nil, 0)
	most := int64(0)
	for range 3 {
		for i, l := range all {
			for h := range hours {
				k := h*360 + i
				v, ok, err := l.nearest(ctx, (storetest.T0+int64(k)*10)*1000+4000, 5000)
				if want := b.Samples[i].Samples[k]; err != nil || !ok || v != want {
					t.Fatalf("series %d, sample %d: got %v, %v, %v, want %v", i, k, v, ok, err, want)
				}
				most = max(most, s.Bytes())
			}
		}
	}
	if most > limit || most < limit/2 {
		t.Errorf("held up to %d bytes of samples, the bound is %d", most, limit)
	}
}

// Hours of which every series has enough newer samples go, and lookups know.
func TestLookupsForgetDroppedHours(t *testing.T) {
	s := NewCache(openStore(t, pebblestore.Options{SampleCount: 500}), CacheOptions{Samples: 500})
	defer s.Close()
	ctx := context.Background()
	b := &store.Batch{Writer: "w", Generation: 1, Resolution: series.Base,
		Series: []series.Series{{Family: "queue", Kind: series.Gauge, Labels: labels.FromStrings("q", "a")}}}
	var ss []series.Sample
	for k := range int64(6 * 360) {
		ss = append(ss, series.Sample{TimeMillis: (storetest.T0 + k*10) * 1000, Value: float64(k)})
	}
	b.Samples = []store.Samples{{Samples: ss}}
	if err := s.Put(ctx, b); err != nil {
		t.Fatal(err)
	}
	all, _ := seriesIn(t, s, "queue").match(nil, 0)
	kept := func(from, to int64) bool {
		kept, err := all[0].kept(ctx, from, to)
		if err != nil {
			t.Fatal(err)
		}
		return kept
	}
	count := func() int {
		got, err := all[0].latest(ctx, nil, (storetest.T0+6*3600)*1000-1, 0, math.MaxInt)
		if err != nil {
			t.Fatal(err)
		}
		return len(got)
	}
	const hour = 3600_000
	const t0 = storetest.T0 * 1000
	if n := count(); n != 6*360 || !kept(t0, t0+6*hour) {
		t.Fatalf("%d samples, all hours kept: %v", n, kept(t0, t0+6*hour))
	}
	if err := s.Maintain(ctx, time.Unix(storetest.T0+7*3600, 0)); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != 2*360 {
		t.Errorf("%d samples after maintenance, want those of two hours", n)
	}
	for _, tt := range []struct {
		from, to int64
		want     bool
	}{{0, hour, false}, {3 * hour, 5 * hour, false}, {4 * hour, 6 * hour, true}, {5 * hour, 5 * hour, true}, {9 * hour, 10 * hour, true}, {4*hour - 1, 5 * hour, false}} {
		if got := kept(t0+tt.from, t0+tt.to); got != tt.want {
			t.Errorf("kept from %d to %d: %v", tt.from/hour, tt.to/hour, got)
		}
	}
	// 35 days later all is gone.
	if err := s.Maintain(ctx, time.Unix(storetest.T0+40*86400, 0)); err != nil {
		t.Fatal(err)
	}
	if n := s.Bytes(); n != 0 {
		t.Errorf("%d bytes of samples after their age", n)
	}
	if n := count(); n != 0 {
		t.Errorf("%d samples after their age", n)
	}
}

// What look-ups say of dropped samples holds as it does of the store's own answers.
func TestSampleBounds(t *testing.T) {
	read := func(st store.Store, q string, start, end int64) ([]series.Sample, []store.Span, error) {
		set, err := st.(*Cache).seriesOf(context.Background(), "queue")
		if err != nil {
			return nil, nil, err
		}
		found, _ := set.match(equals("q", q), 0)
		if len(found) != 1 {
			return nil, nil, fmt.Errorf("%d series %s", len(found), q)
		}
		got, gaps, err := found[0].between(context.Background(), nil, start, end)
		for i := range gaps {
			gaps[i] = store.Span{Start: gaps[i].Start * 1000, End: gaps[i].End * 1000}
		}
		return got, gaps, err
	}
	storetest.RunSampleBounds(t, 100, read, func(t *testing.T) store.Store {
		return NewCache(openStore(t, pebblestore.Options{SampleCount: 100}), CacheOptions{Samples: 100})
	}, nil)
}
