package fanout

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tailscope/benchmarks/clock"
	"tailscope/test/program"
)

// System is running nodes and the aggregator before them.
type System struct {
	Nodes      []string // addresses
	Aggregator string
	processes  []*program.Process
}

// Start runs a system of processes of its own; their logs are in dir.
func Start(ctx context.Context, dir string, nodes, threads int, w Work) (s *System, err error) {
	if dir, err = os.MkdirTemp(dir, "fanout-"); err != nil {
		return nil, err
	}
	s = &System{}
	defer func() {
		if err != nil {
			s.Stop()
		}
	}()
	p, addresses, err := program.StartFanout(ctx, filepath.Join(dir, "nodes.log"), "-nodes", fmt.Sprint(nodes), "-threads", fmt.Sprint(threads), "-work", w.String())
	if err != nil {
		return s, err
	}
	s.processes, s.Nodes = append(s.processes, p), strings.Split(addresses, ",")
	if p, s.Aggregator, err = program.StartFanout(ctx, filepath.Join(dir, "aggregator.log"), "-aggregate", addresses); err != nil {
		return s, err
	}
	s.processes = append(s.processes, p)
	return s, nil
}

// Stop ends it.
func (s *System) Stop() {
	for _, p := range s.processes {
		p.Kill()
	}
}

// Query returns the address of a query that asks so many leaves, each of data in so many
// shards.
func (s *System) Query(leaves, shards int) func(query uint64) string {
	return func(query uint64) string {
		return fmt.Sprintf("http://%s/?query=%d&leaves=%d&shards=%d", s.Aggregator, query, leaves, shards)
	}
}

// Leaf returns the address of one leaf: of the first node, and of as many shards in turn.
func (s *System) Leaf(shards int) func(query uint64) string {
	return func(query uint64) string {
		return fmt.Sprintf("http://%s/?query=%d&shard=%d&shards=%d", s.Nodes[0], query/uint64(shards), query%uint64(shards), shards)
	}
}

// Poisson asks at random moments, so many a second on average and for so long, and
// returns what each query took from when it was due, seconds, in that order. The first
// is numbered first.
func Poisson(ctx context.Context, rate float64, during time.Duration, seed, first uint64, address func(query uint64) string) ([]float64, error) {
	client := newClient()
	defer client.CloseIdleConnections()
	return clock.Poisson(ctx, rand.New(rand.NewPCG(seed, first)), rate, during, func(ctx context.Context, i int) error {
		return getURL(ctx, client, address(first+uint64(i)))
	})
}

// Closed asks one query after another until the time is over, and at least as often
// as given; it returns what each took, seconds.
func Closed(ctx context.Context, during time.Duration, least int, first uint64, address func(query uint64) string) (took []float64, err error) {
	client := newClient()
	defer client.CloseIdleConnections()
	for began := time.Now(); time.Since(began) < during || len(took) < least; first++ {
		at := time.Now()
		if err := getURL(ctx, client, address(first)); err != nil {
			return took, err
		}
		took = append(took, time.Since(at).Seconds())
	}
	return took, nil
}
