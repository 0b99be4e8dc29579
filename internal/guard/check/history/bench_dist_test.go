package history

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/guard/check/expr"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
	"tailscope/internal/store/storetest"
)

// BenchmarkDistributions asks what checks of distributions do: all of the last
// five minutes by one grouped question, and of one series after the other an
// hour, and a slot of earlier days.
func BenchmarkDistributions(b *testing.B) {
	const many, hours = 2000, 26
	w := newWorld(b, pebblestore.Options{})
	defer w.close()
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(1, 2))
	var data [64][]byte
	for i := range data {
		values := make([]float64, 20)
		for k := range values {
			values[k] = 0.02 * (1 + rng.ExpFloat64())
		}
		data[i] = storetest.Dist(values...)
	}
	batch := &store.Batch{Writer: "w", Resolution: series.Minute}
	for i := range many {
		batch.Series = append(batch.Series, series.Series{Family: "served", Kind: series.Distribution,
			Labels: labels.FromStrings("service", fmt.Sprint("s", i%100), "operation", fmt.Sprint("o", i))})
	}
	put := func(from, to, step int64) {
		batch.Resolution = series.Resolution(step)
		for slot := from; slot < to; slot += step {
			batch.Points = batch.Points[:0]
			for i := range many {
				batch.Points = append(batch.Points, store.Point{Series: uint32(i), Slot: slot, Data: data[rng.IntN(len(data))]})
			}
			batch.Generation++
			if err := w.c.Put(ctx, batch); err != nil {
				b.Fatal(err)
			}
		}
		w.maintain(time.Unix(to, 0))
	}
	end := int64(t0 + hours*3600)
	put(t0+3600, t0+3600+300, 10) // around this time yesterday
	put(end-2*3600, end, 10)
	b.Run("grouped=5m", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := w.st.Query(ctx, store.Query{Family: "served", Start: end - 300, End: end, By: []string{"operation"}, Schema: hist.DefaultSchema}); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*many), "ns/series")
	})
	for _, bb := range []struct {
		name string
		s    expr.Selector
	}{
		{"range=1h", expr.Selector{By: expr.ByTimeRange, Older: time.Hour}},
		{"slot=-30M", expr.Selector{By: expr.ByTime, Ago: 30 * time.Minute}},
		{"slot=1day", expr.Selector{By: expr.BySameTime, N: 1}},
		{"around=1day", expr.Selector{By: expr.BySameTime, N: 1, Before: time.Minute, After: time.Minute}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			h := w.h.For(ForOptions{})
			var all []*expr.Selector
			for i := range many {
				s := bb.s
				s.Family, s.Matchers = "served", equals("operation", fmt.Sprint("o", i))
				all = append(all, &s)
			}
			var dst []expr.Sample
			round := func(at time.Time) {
				w.now = at
				for _, s := range all {
					var err error
					if dst, err = h.Look(ctx, s, at, dst[:0]); err != nil || dst[0].Null {
						b.Fatal(dst, err)
					}
				}
			}
			n := 0
			yesterday := func() time.Time { return time.Unix(t0+25*3600+60+int64(n%18)*10, 0) }
			for range 2 { // all are known
				if bb.s.By == expr.BySameTime {
					round(yesterday())
				} else {
					round(time.Unix(end, 0))
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				at := yesterday()
				if bb.s.By != expr.BySameTime {
					b.StopTimer()
					put(end, end+10, 10)
					end += 10
					at = time.Unix(end, 0)
					b.StartTimer()
				}
				n++
				round(at)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n*many), "ns/series")
		})
	}
}
