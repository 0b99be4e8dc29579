package simulate

import (
	"context"
	"syscall"
	"testing"
)

// What a leaf costs, node by node and event by event: time of a core, as others may be
// busy with it too.
func BenchmarkLeaf(b *testing.B) {
	exponential := one(Exponential(0.01))
	alike := one(Exponential(0.01))
	alike.Classes[0].Together = 0.3
	for _, c := range []struct {
		name    string
		model   Model
		layout  Layout
		queries uint64
	}{
		{"layout=threads", exponential, Layout{Nodes: 200, Shards: 1024, Threads: 4, Rate: 20}, 20_000},
		{"layout=one-thread", exponential, Layout{Nodes: 200, Shards: 1024, Threads: 1, Rate: 10}, 20_000},
		{"layout=two-threads", exponential, Layout{Nodes: 200, Shards: 1024, Threads: 2, Rate: 20}, 20_000},
		{"layout=eight-threads", exponential, Layout{Nodes: 200, Shards: 1024, Threads: 8, Rate: 80}, 20_000},
		{"layout=many-threads", exponential, Layout{Nodes: 200, Shards: 1024, Threads: 24, Rate: 240}, 20_000},
		{"layout=together", alike, Layout{Nodes: 200, Shards: 1024, Threads: 4, Rate: 20}, 20_000},
		{"layout=shared-cores", exponential, Layout{Nodes: 8, Shards: 32, Cores: 4, Rate: 50}, 20_000},
		{"layout=hedged", exponential, Layout{Nodes: 32, Shards: 32, Threads: 4, Replicas: 2, Rate: 100, Hedge: Hedge{Quantile: 0.95, Cancel: true}}, 20_000},
	} {
		b.Run(c.name, func(b *testing.B) {
			var before, after syscall.Rusage
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
			for b.Loop() {
				if _, err := Run(context.Background(), c.model, c.layout, Options{Queries: c.queries, Workers: 1}); err != nil {
					b.Fatal(err)
				}
			}
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
			leaves := float64(b.N) * float64(c.queries) * float64(c.layout.Shards)
			b.ReportMetric(float64(after.Utime.Nano()-before.Utime.Nano())/leaves, "cpu-ns/leaf")
			b.ReportMetric(0, "ns/op")
		})
	}
}
