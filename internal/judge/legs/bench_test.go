package legs

import (
	"fmt"
	"math"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/judge/legs/legstest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
)

// BenchmarkVerdict judges a session of 30 minutes, of 50 operations and 200
// tenants: in each slot every tenant asks for ten operations, a few requests
// each, some 600 requests a second.
func BenchmarkVerdict(b *testing.B) {
	const slots, operations, tenants, each = 180, 50, 200, 10
	st, err := pebblestore.Open(b.Context(), pebblestore.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	rng := rand.New(rand.NewPCG(7, 7))
	pool := func(median float64) (out [][]byte) {
		for range 200 {
			h := hist.New(hist.DefaultSchema)
			for range 3 {
				if err := h.Record(median * math.Exp(0.7*rng.NormFloat64())); err != nil {
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
	times, ones := pool(0.02), pool(1)
	type kindOf struct {
		family, variant, against, status string
	}
	var kinds []kindOf
	for _, v := range []string{"primary", "control", "candidate"} {
		for _, f := range []string{"mirror_duration_seconds", "mirror_first_byte_seconds", "mirror_answer_bytes"} {
			kinds = append(kinds, kindOf{f, v, "", "ok"})
		}
	}
	kinds = append(kinds, kindOf{"mirror_ratio", "candidate", "control", "ok"}, kindOf{"mirror_ratio", "candidate", "primary", "ok"}, kindOf{"mirror_ratio", "control", "primary", "ok"})
	var all []series.Series
	for _, k := range kinds {
		for op := range operations {
			for tenant := range tenants {
				l := []string{"service", "shop", "experiment", "x", "operation", fmt.Sprintf("GET /things/%02d", op), "tenant", fmt.Sprintf("tenant-%03d", tenant), "variant", k.variant, "status", k.status}
				if k.against != "" {
					l = append(l, "against", k.against)
				}
				all = append(all, series.Series{Family: k.family, Labels: labels.FromStrings(l...)})
			}
		}
	}
	points := 0
	for slot := range slots {
		batch := store.Batch{Writer: "bench", Generation: uint64(slot + 1), Resolution: series.Base, Series: all}
		for tenant := range tenants {
			first := rng.IntN(operations)
			for i := range each {
				op := (first + i*i) % operations
				for k := range kinds {
					data := times[rng.IntN(len(times))]
					if kinds[k].against != "" {
						data = ones[rng.IntN(len(ones))]
					}
					batch.Points = append(batch.Points, store.Point{Series: uint32((k*operations+op)*tenants + tenant), Slot: epoch + int64(slot)*10, Data: data})
				}
			}
		}
		points += len(batch.Points)
		if err := st.Put(b.Context(), &batch); err != nil {
			b.Fatal(err)
		}
	}
	x := &api.Session{ID: "x", Service: "shop", State: api.Ended, Start: api.Float(epoch), End: api.Float(epoch + slots*10), Mirror: legstest.State()}
	cpu := func() float64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6
	}
	b.ReportAllocs()
	b.ResetTimer()
	before := cpu()
	for b.Loop() {
		v, err := Judge(b.Context(), st, x, Request{Start: epoch, End: epoch + slots*10, Limit: 20})
		if err != nil {
			b.Fatal(err)
		}
		if c := v.Candidates[0]; c.OperationsJudged != operations || c.TenantsJudged != tenants || len(c.Measures) != len(measures) {
			b.Fatalf("judged %d operations, %d tenants", c.OperationsJudged, c.TenantsJudged)
		}
	}
	b.ReportMetric((cpu()-before)/float64(b.N), "cpu-ms/op")
	b.ReportMetric(float64(points), "points")
}
