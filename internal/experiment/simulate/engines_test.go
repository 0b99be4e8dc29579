package simulate

import (
	"context"
	"math"
	"testing"
)

// Both engines draw the same numbers, so where either can play a layout they agree to
// the last query.
func TestEnginesAgree(t *testing.T) {
	two := Model{Every: 1, Rates: []float64{1, 2}, Classes: []Class{
		{Name: "light", Weight: 3, Sizes: []Size{{Shards: 8, Slots: []*Distribution{Exponential(0.004), Exponential(0.006)}}}},
		{Name: "heavy", Weight: 1, Together: 0.5, Fixed: 0.001, Waits: 0.5, Sizes: []Size{{Shards: 8, Slots: []*Distribution{Exponential(0.02)}}}},
	}}
	pausing := one(Exponential(0.01))
	for name, c := range map[string]struct {
		Model
		Layout
	}{
		"plain":               {one(Exponential(0.01)), Layout{Nodes: 3, Shards: 8, Threads: 2, Rate: 40}},
		"many threads":        {one(Exponential(0.01)), Layout{Nodes: 1, Shards: 40, Threads: 20, Rate: 30}},
		"cores for all":       {two, Layout{Nodes: 4, Shards: 16, Threads: 3, Cores: 3, Rate: 40, Aggregator: Aggregator{Nodes: 1, After: Cost{0.001, 0}}}},
		"no limit":            {one(Exponential(0.01)), Layout{Nodes: 3, Shards: 8, Rate: 40}},
		"even":                {one(Exponential(0.01)), Layout{Nodes: 3, Shards: 8, Threads: 3, Rate: 40, Arrivals: Even}},
		"classes and moments": {two, Layout{Nodes: 4, Shards: 16, Threads: 3, Rate: 40, Network: 0.001, Overhead: 0.0005, Speed: 1.2}},
		"slow node":           {one(Exponential(0.01)), Layout{Nodes: 3, Shards: 8, Threads: 2, Rate: 20, Slow: Slow{1, 2}}},
		"pauses":              {pausing, Layout{Nodes: 3, Shards: 8, Threads: 2, Rate: 40, Pause: Pause{Every: 0.5, Lasts: Exponential(0.03)}}},
		"replicas":            {one(Exponential(0.01)), Layout{Nodes: 4, Shards: 8, Threads: 2, Rate: 40, Replicas: 2}},
		"replicas in turn":    {one(Exponential(0.01)), Layout{Nodes: 4, Shards: 8, Threads: 2, Rate: 40, Replicas: 2, Pick: Rotate}},
		"caches":              {one(Exponential(0.01)), Layout{Nodes: 3, Shards: 8, Threads: 2, Rate: 60, Cache: Cache{0.2, 0.3, 0.0001}}},
		"aggregators":         {one(Exponential(0.01)), Layout{Nodes: 3, Shards: 8, Threads: 2, Rate: 40, Aggregator: Aggregator{After: Cost{0.002, 0.0005}, Nodes: 2, Cores: 0.5}}},
		"one at a time": {one(Exponential(0.01)), Layout{Nodes: 3, Shards: 8, Threads: 2, Arrivals: Closed, Users: 1, Network: 0.001, Cache: Cache{0.1, 0, 0.001},
			Aggregator: Aggregator{Before: Cost{0.001, 0}, After: Cost{0.002, 0.0005}, Nodes: 2}}},
		"aggregator for itself": {two, Layout{Nodes: 4, Shards: 16, Threads: 3, Rate: 30, Aggregator: Aggregator{Before: Cost{0.002, 0.0005}, After: Cost{0.002, 0}}}},
	} {
		t.Run(name, func(t *testing.T) {
			play := func(f func(p *plan) (*played, error)) (*plan, *played) {
				p, err := newPlan(c.Model, c.Layout, Options{Queries: 5000, Seed: 1})
				if err != nil {
					t.Fatal(err)
				}
				p.drawArrivals()
				if !p.fcfs() {
					t.Fatal("nodes cannot be played one by one")
				}
				out, err := f(p)
				if err != nil {
					t.Fatal(err)
				}
				return p, out
			}
			p, a := play(func(p *plan) (*played, error) { return p.playFCFS(context.Background(), 2) })
			_, b := play(func(p *plan) (*played, error) { return p.playEvents(context.Background(), nil) })
			for q := range p.total {
				if math.Abs(a.latency[q]-b.latency[q]) > 1e-9 {
					t.Fatalf("query %d: %g and %g s", q, a.latency[q], b.latency[q])
				}
			}
			near(t, "slowest", b.slowest, a.slowest, 1e-9)
			near(t, "each", b.each, a.each, 1e-9)
			near(t, "merge", b.merge, a.merge, 1e-9)
			near(t, "aggregators", b.aggBusy, a.aggBusy, 1e-9)
			if a.leaves != b.leaves || a.asked != b.asked {
				t.Errorf("%d leaves of %d queries, %d of %d", a.leaves, a.asked, b.leaves, b.asked)
			}
			for i := range a.nodes {
				if c.Pause.Lasts == nil {
					near(t, "threads", b.nodes[i].threads, a.nodes[i].threads, 1e-9)
					near(t, "cores", b.nodes[i].cores, a.nodes[i].cores, 1e-9)
					near(t, "waited", b.nodes[i].waited, a.nodes[i].waited, 1e-9)
				}
			}
		})
	}
}
