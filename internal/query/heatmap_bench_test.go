package query

import (
	"math"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
)

// BenchmarkHeatmap answers a heatmap of six hours, 1,080 columns of some 400 rows, as the page
// asks for it of a busy service, and writes its JSON.
func BenchmarkHeatmap(b *testing.B) {
	st, err := pebblestore.Open(b.Context(), pebblestore.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	rng := rand.New(rand.NewPCG(7, 7))
	var pool [][]byte
	for range 50 {
		h := hist.New(hist.DefaultSchema)
		for range 20_000 {
			if err := h.RecordNanos(1+int64(5e6*math.Exp(1.8*rng.NormFloat64())), 1); err != nil {
				b.Fatal(err)
			}
		}
		data, err := h.AppendBinary(nil)
		if err != nil {
			b.Fatal(err)
		}
		pool = append(pool, data)
	}
	const seconds = 6 * 3600
	for slot := int64(0); slot < seconds; slot += 10 {
		batch := &store.Batch{Writer: "bench", Generation: uint64(slot/10 + 1), Resolution: series.Base}
		for i, status := range []string{"ok", "error"} {
			batch.Series = append(batch.Series, series.Series{Family: series.SpanDuration, View: series.Total, Labels: labels.FromStrings("service", "shop", "kind", "server", "status", status)})
			batch.Points = append(batch.Points, store.Point{Series: uint32(i), Slot: epoch + slot, Data: pool[rng.IntN(len(pool))]})
		}
		if err := st.Put(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	if err := st.Maintain(b.Context(), at(epoch+seconds+30)); err != nil {
		b.Fatal(err)
	}
	r := HeatmapRequest{Selection: Selection{Start: at(epoch), End: at(epoch + seconds)}, Grid: Grid{Width: 1280}}
	spent := func() int64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	var body []byte
	b.ReportAllocs()
	before := spent()
	for b.Loop() {
		out, err := Heatmap(b.Context(), st, r)
		if err != nil || len(out.Columns) != 1080 {
			b.Fatal(err)
		}
		body = out.AppendJSON(body[:0])
	}
	b.ReportMetric(float64(spent()-before)/float64(b.N)/1e6, "cpu-ms/op")
	b.ReportMetric(float64(len(body)), "body-B")
}
