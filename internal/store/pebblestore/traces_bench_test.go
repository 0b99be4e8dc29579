package pebblestore

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/store"
)

// BenchmarkTraces asks a store of a week that keeps 500,000 traces of two
// requests each, by 20 services of 15 operations.
func BenchmarkTraces(b *testing.B) {
	ctx := context.Background()
	s, err := Open(ctx, Options{Dir: b.TempDir(), FS: vfs.Default, TraceBytes: 4 << 30})
	check(b, err)
	defer s.Close()
	rng := rand.New(rand.NewPCG(7, 7))
	const traces, week = 500_000, 7 * 24 * 3600
	body := make([]byte, 900) // of ten spans, half of it compressible
	var batch []store.Trace
	start := cpu()
	for n := range traces {
		for i := 0; i < len(body)/2; i += 8 {
			binary.LittleEndian.PutUint64(body[i:], rng.Uint64())
		}
		t := store.Trace{Data: append([]byte(nil), body...)}
		binary.BigEndian.PutUint64(t.ID[:], rng.Uint64())
		at := t0*1e9 + int64(float64(n)/traces*week*1e9)
		for i := range 2 {
			e := store.TraceEntry{Service: fmt.Sprintf("service-%02d", rng.IntN(20)), Operation: fmt.Sprintf("GET /things/%d/{id}", rng.IntN(15)),
				Tenant: fmt.Sprintf("tenant-%04d", rng.IntN(1000)), Failed: rng.IntN(10) == 0, Why: store.WhyExemplar,
				StartNanos: at + int64(i)*1e6, DurationNanos: int64(2e7 * math.Exp(rng.NormFloat64()))}
			e.Span[0] = byte(i)
			t.Entries = append(t.Entries, e)
		}
		if batch = append(batch, t); len(batch) == 100 {
			check(b, s.PutTraces(ctx, batch))
			batch = batch[:0]
		}
	}
	b.Logf("kept %d traces in %.1f CPU-µs each", traces, (cpu()-start).Seconds()/traces*1e6)
	check(b, s.db.Flush())
	disk, err := s.db.EstimateDiskUsage([]byte{tableTrace}, []byte{tableTraceEnd})
	check(b, err)
	b.Logf("a trace takes %d B, %d B on disk", s.Stats().TraceBytes/traces, disk/traces)
	const end = t0 + week
	one := store.TraceQuery{Service: "service-03", Operation: "GET /things/3/{id}"}
	for _, tt := range []struct {
		name  string
		q     store.TraceQuery
		hours int64
	}{
		{"slowest-of-service-6h", store.TraceQuery{Service: "service-03"}, 6},
		{"slowest-of-service-7d", store.TraceQuery{Service: "service-03"}, 168},
		{"slowest-of-operation-6h", one, 6},
		{"slowest-of-operation-7d", one, 168},
		{"slowest-of-all-7d", store.TraceQuery{}, 168},
		{"newest-of-service-7d", store.TraceQuery{Service: "service-03", Order: store.Newest}, 168},
		{"of-one-tenant-7d", store.TraceQuery{Tenant: "tenant-0003"}, 168},
		{"band-of-service-1h", store.TraceQuery{Service: "service-03", MinNanos: 2e7, MaxNanos: 2.1e7}, 1},
	} {
		tt.q.StartNanos, tt.q.EndNanos = (end-tt.hours*3600)*1e9, end*1e9
		b.Run("work="+tt.name, func(b *testing.B) {
			n := 0
			for b.Loop() {
				hits, err := s.Traces(ctx, tt.q)
				check(b, err)
				n = len(hits)
			}
			b.ReportMetric(float64(n), "hits")
		})
	}
	id := store.TraceID{}
	if hits, err := s.Traces(ctx, store.TraceQuery{EndNanos: math.MaxInt64, Limit: 1}); err != nil || len(hits) == 0 {
		b.Fatal("no traces", err)
	} else {
		id = hits[0].ID
	}
	b.Run("work=one-by-id", func(b *testing.B) {
		for b.Loop() {
			_, err := s.Trace(ctx, id)
			check(b, err)
		}
	})
	start = cpu()
	check(b, s.Maintain(ctx, time.Unix(end+5*24*3600, 0)))
	b.Logf("dropped %d traces in %.1f CPU-ms", s.Stats().TracesExpired, (cpu()-start).Seconds()*1e3)
}
