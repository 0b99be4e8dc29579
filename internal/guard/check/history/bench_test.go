package history

import (
	"context"
	"fmt"
	"testing"
	"time"

	"tailscope/internal/guard/check/expr"
	"tailscope/internal/series"
	"tailscope/internal/store/pebblestore"
)

// BenchmarkNineLookups looks nine samples of each of many series up, at moments
// that advance by a minute each time round.
func BenchmarkNineLookups(b *testing.B) {
	for _, many := range []int{10, 300} {
		b.Run(fmt.Sprint("series=", many), func(b *testing.B) {
			w := newWorld(b, pebblestore.Options{})
			defer w.close()
			const points = 15000
			var programs []*expr.Program
			for i := range many {
				check := fmt.Sprint(i)
				ss := make([]series.Sample, points)
				for k := range ss {
					ss[k] = series.Sample{TimeMillis: (t0+int64(k))*1000 + int64(k*i%7), Value: float64(k*i%100_000) / 1000}
				}
				w.put(value("check", check), ss...)
				x := fmt.Sprintf("{check=%q}", check)
				p, err := expr.Parse(fmt.Sprintf("avg(%s[-10M], %[1]s[-20M], %[1]s[-30M], %[1]s[-40M], %[1]s[-60M], %[1]s[-90M], %[1]s[-120M], %[1]s[-150M], %[1]s[-180M])", x), expr.Options{})
				if err != nil {
					b.Fatal(err)
				}
				programs = append(programs, p)
			}
			w.maintain(time.Unix(t0+points+3600, 0))
			h := w.h.For(ForOptions{})
			ctx := context.Background()
			round := func(n int) {
				at := time.Unix(t0+10900+int64(n%60*60), 0)
				for _, p := range programs {
					if r, err := p.Eval(ctx, h, at, expr.EvalOptions{}); err != nil || r.Null {
						b.Fatal(r, err)
					}
				}
			}
			for n := range 60 {
				round(n)
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				round(n)
				n++
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*many), "ns/threshold")
		})
	}
}
