package chstore

import (
	"fmt"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// benchBatch returns a generation as ten seconds at 2,000 spans a second make it: a request
// of each of 20,000 tenants.
func benchBatch(b testing.TB) *store.Batch {
	const tenants = benchTenants
	batch := &store.Batch{Writer: "w", Generation: 1, Resolution: series.Base}
	var key []byte
	for i := range tenants {
		s := series.Series{Family: series.SpanDuration, View: series.Full, Labels: labels.FromStrings(
			"environment", "production", "kind", "server", "operation", fmt.Sprintf("GET /things/%d", i%30), "service", fmt.Sprintf("service-%d", i%8), "status", "ok")}
		batch.Series = append(batch.Series, s)
		batch.Tenants = append(batch.Tenants, fmt.Sprintf("tenant-%05d", i))
		batch.TenantOf = append(batch.TenantOf, uint32(i))
		var id series.ID
		whole := batch.Whole(i)
		id, key = whole.ID(key)
		batch.IDs = append(batch.IDs, id)
		h := hist.New(hist.MaxSchema)
		if err := h.RecordNanos(int64(1_000_000+i*1000), 1); err != nil {
			b.Fatal(err)
		}
		data, err := h.AppendBinary(nil)
		if err != nil {
			b.Fatal(err)
		}
		batch.Points = append(batch.Points, store.Point{Series: uint32(i), Slot: 1_000_000_000, Data: data})
	}
	return batch
}

const benchTenants = 20_000

// BenchmarkBuildRows makes and compresses the rows of a generation whose series are new, or
// known.
func BenchmarkBuildRows(b *testing.B) {
	batch := benchBatch(b)
	for _, known := range []bool{false, true} {
		b.Run(fmt.Sprintf("known=%v", known), func(b *testing.B) {
			s := &Store{shards: make([]*shard, 3)}
			b.ReportAllocs()
			for b.Loop() {
				if !known {
					s.known = knownSeries{}
				}
				x := newBatchRows(s, &meta{}, batch, numberOf(1, 1))
				if err := x.build(b.Context()); err != nil {
					b.Fatal(err)
				}
				for i := range x.shards {
					x.shards[i].points.body()
					x.shards[i].series.body()
				}
				s.known.add(x.newSeries)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchTenants, "ns/point")
		})
	}
}
