package explain

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
)

// BenchmarkExplain explains rectangles of six hours of 1,000 series, 20
// operations of 50 tenants, in slots of a minute and what they were rolled up to.
func BenchmarkExplain(b *testing.B) {
	st, rng := opened(b), rand.New(rand.NewPCG(7, 7))
	few, whole := drawn(b, rng, 20), drawn(b, rng, 250)
	var all []series.Series
	var of [][][]byte
	add := func(view series.View, data [][]byte, pairs ...string) {
		l := labels.FromStrings(append(pairs, "service", "shop", "component", "app", "kind", "server")...)
		all, of = append(all, series.Series{Family: series.SpanDuration, View: view, Labels: l}), append(of, data)
	}
	for op := range 20 {
		operation := fmt.Sprintf("GET /things/%d", op)
		for i := range 50 {
			add(series.Full, few, "operation", operation, "tenant", fmt.Sprint("tenant-", i), "status", "ok")
		}
		for i := range 4 {
			add(series.Marginal, whole, "operation", operation, "instance", fmt.Sprint("pod-", i), "status", "ok")
		}
	}
	add(series.Total, whole, "status", "ok")
	for slot := epoch; slot < epoch+6*3600; slot += 60 {
		batch := &store.Batch{Writer: "bench", Generation: uint64(slot), Resolution: series.Minute, Series: all}
		for i := range all {
			batch.Points = append(batch.Points, store.Point{Series: uint32(i), Slot: slot, Data: of[i][rng.IntN(100)]})
		}
		if err := st.Put(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	if err := st.Maintain(b.Context(), time.Unix(epoch+6*3600+600, 0)); err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		from, to int64
		against  string
	}{{"hour", 2 * 3600, 3 * 3600, Rest}, {"whole", 0, 6 * 3600, Rest}, {"before", 3 * 3600, 6 * 3600, Before}} {
		b.Run("time="+c.name, func(b *testing.B) {
			r := ask(float64(c.from), float64(c.to), 0.02, inf)
			r.End = time.Unix(epoch+6*3600, 0)
			r.Against = c.against
			b.ReportAllocs()
			for b.Loop() {
				out, err := Explain(b.Context(), st, r)
				if err != nil || out.Inside == 0 || out.LabelsTried != 20+50+4 {
					b.Fatalf("%v, %+v", err, out)
				}
			}
		})
	}
}

func opened(b *testing.B) store.Store {
	st, err := pebblestore.Open(b.Context(), pebblestore.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = st.Close() })
	return st
}

// drawn are a hundred distributions of so many requests, encoded.
func drawn(b *testing.B, rng *rand.Rand, requests int) [][]byte {
	out := make([][]byte, 100)
	for i := range out {
		h := hist.New(hist.DefaultSchema)
		for range requests {
			if err := h.Record(0.01 * math.Exp(0.7*rng.NormFloat64())); err != nil {
				b.Fatal(err)
			}
		}
		var err error
		if out[i], err = h.AppendBinary(nil); err != nil {
			b.Fatal(err)
		}
	}
	return out
}
