package fanout

import (
	"context"
	"fmt"
	"time"

	"tailscope/internal/experiment/simulate"
)

// Layout is a way to lay out data over nodes, both to be run and to be simulated.
type Layout struct {
	Name    string
	Nodes   int
	Threads int
	Leaves  int     // that a query asks
	Shards  int     // that the data is in; Leaves unless a query asks some of them only
	Rate    float64 // queries a second at random moments; 0 is one query after another
}

// Evenly is data of Base shards laid out over nodes with one thread each: the shards
// as they are, or cut again so that all nodes have as much.
func Evenly(nodes int, again bool, rate float64) Layout {
	l := Layout{Name: fmt.Sprintf("%d nodes", nodes), Nodes: nodes, Threads: 1, Leaves: Base, Shards: Base, Rate: rate}
	if nodes == 1 {
		l.Name = "1 node"
	}
	if again {
		l.Shards = (Base + nodes - 1) / nodes * nodes
		l.Leaves = l.Shards
	}
	return l
}

// Idle is queries to so many leaves, so many a second, of nodes that let none wait.
func Idle(leaves int, rate float64) Layout {
	l := Layout{Name: fmt.Sprintf("%d leaves", leaves), Nodes: Base, Leaves: leaves, Shards: Base, Rate: rate}
	if leaves == 1 {
		l.Name = "1 leaf"
	}
	return l
}

// Run runs it for so long and returns what queries took, seconds. Seeds of different
// runs differ.
func (l Layout) Run(ctx context.Context, dir string, w Work, during time.Duration, seed uint64) ([]float64, error) {
	s, err := Start(ctx, dir, l.Nodes, l.Threads, w)
	if err != nil {
		return nil, err
	}
	defer s.Stop()
	// Connections are made before, and queries of other runs are others.
	if _, err := Closed(ctx, 0, 5, seed<<32|1<<31, s.Query(l.Leaves, l.Shards)); err != nil {
		return nil, err
	}
	if l.Rate > 0 {
		return Poisson(ctx, l.Rate, during, seed, seed<<32, s.Query(l.Leaves, l.Shards))
	}
	return Closed(ctx, during, 20, seed<<32, s.Query(l.Leaves, l.Shards))
}

// Leaf measures one leaf of data in so many shards alone: so many a second, nobody
// waiting.
func Leaf(ctx context.Context, dir string, w Work, shards int, rate float64, during time.Duration, seed uint64) ([]float64, error) {
	s, err := Start(ctx, dir, 1, 0, w)
	if err != nil {
		return nil, err
	}
	defer s.Stop()
	return Poisson(ctx, rate, during, seed, seed<<40, s.Leaf(shards))
}

// Model returns what leaves took, by the number of shards.
func Model(leaves map[int][]float64, together float64, sizes ...int) (simulate.Model, error) {
	c := simulate.Class{Name: "leaf", Weight: 1, Together: together}
	for _, n := range sizes {
		d, err := simulate.FromSamples(leaves[n])
		if err != nil {
			return simulate.Model{}, fmt.Errorf("leaves of %d shards: %w", n, err)
		}
		size := simulate.Size{Shards: float64(n), Slots: []*simulate.Distribution{d}}
		if len(sizes) == 1 {
			size.Shards = 0 // whatever the layout's
		}
		c.Sizes = append(c.Sizes, size)
	}
	return simulate.Model{Classes: []simulate.Class{c}}, nil
}

// Simulate says what it should come to.
func (l Layout) Simulate(ctx context.Context, m simulate.Model, queries, seed uint64) (*simulate.Result, error) {
	s := simulate.Layout{Name: l.Name, X: float64(l.Nodes), Nodes: l.Nodes, Threads: l.Threads, Shards: l.Leaves, Rate: l.Rate}
	if l.Rate == 0 {
		s.Arrivals, s.Users = simulate.Closed, 1
	}
	r, err := simulate.Run(ctx, m, s, simulate.Options{Queries: queries, Seed: seed})
	if err == nil && !r.Stable {
		err = fmt.Errorf("%s: %s", l.Name, r.Why)
	}
	return r, err
}
