package changes

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// BenchmarkDay searches a day of 50 operations in slots of a minute, of which
// two changed at noon.
func BenchmarkDay(b *testing.B) {
	const day, operations = 86400, 50
	st := pebble(b, b.TempDir())
	defer st.Close()
	rng := rand.New(rand.NewPCG(1, 1))
	pool := func(median float64) (out [][]byte) {
		for range 100 {
			h := hist.New(hist.DefaultSchema)
			wander := 0.05 * rng.NormFloat64()
			for range 200 {
				if err := h.Record(median * math.Exp(wander+0.6*rng.NormFloat64())); err != nil {
					b.Fatal(err)
				}
			}
			data, err := h.AppendBinary(nil)
			if err != nil {
				b.Fatal(err)
			}
			out = append(out, data)
		}
		return out
	}
	quick, slow := pool(0.05), pool(0.07)
	var all []series.Series
	for o := range operations {
		all = append(all, series.Series{Family: series.SpanDuration, View: series.Marginal, Labels: labels.FromStrings("service", "shop",
			"operation", fmt.Sprintf("GET /%02d", o), "component", "app", "kind", "server", "status", "ok", "instance", "i")})
	}
	generation := uint64(0)
	for slot := int64(0); slot < day; slot += 60 {
		generation++
		batch := &store.Batch{Writer: "bench", Generation: generation, Resolution: series.Minute, Series: all}
		for i := range all {
			from := quick
			if i < 2 && slot >= day/2 {
				from = slow
			}
			batch.Points = append(batch.Points, store.Point{Series: uint32(i), Slot: epoch + slot, Data: from[rng.IntN(len(from))]})
		}
		if err := st.Put(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	r := asked(0, day, "service", "shop")
	b.ResetTimer()
	b.ReportAllocs()
	for b.Loop() {
		out := found(b, NewFinder(st), r)
		if out.Searched != operations+1 || out.Slot != 60 || of(out, "GET /00") == nil || of(out, "GET /01") == nil {
			b.Fatalf("searched %d in slots of %d s, found %d", out.Searched, out.Slot, len(out.Changes))
		}
		b.ReportMetric(float64(len(out.Changes)), "changes")
	}
}
