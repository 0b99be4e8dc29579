package pair

import (
	"context"
	"errors"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"tailscope/hist"
	"tailscope/internal/series"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errFull = errors.New("full")

// memory is a Sink that adds points up, and refuses while refusing is set.
type memory struct {
	mu     sync.Mutex
	refuse bool
	wait   chan struct{} // not nil: Put waits for it
	puts   int
	dists  map[memoryKey]*hist.Histogram
	counts map[memoryKey]float64
}

type memoryKey struct {
	series string // family and labels
	at     int64  // seconds
}

func newMemory() *memory {
	return &memory{dists: map[memoryKey]*hist.Histogram{}, counts: map[memoryKey]float64{}}
}

func (m *memory) Put(ctx context.Context, points []Point) error {
	if m.wait != nil {
		select {
		case <-m.wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.puts++
	if m.refuse {
		return errFull
	}
	for _, p := range points {
		key := memoryKey{p.Family + p.Labels.String(), p.TimeNanos / 1e9}
		if p.Kind == series.Counter {
			m.counts[key] += p.Value
			continue
		}
		if m.dists[key] == nil {
			m.dists[key] = hist.New(hist.DefaultSchema)
		}
		if err := m.dists[key].Merge(p.Hist); err != nil {
			return err
		}
	}
	return nil
}

func (m *memory) setRefuse(refuse bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refuse = refuse
}

// total adds up the slots of a series.
func (m *memory) total(name string) *hist.Histogram {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := hist.New(hist.DefaultSchema)
	for key, d := range m.dists {
		if key.series == name {
			_ = h.Merge(d)
		}
	}
	return h
}

func (m *memory) count(name string) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := 0.0
	for key, v := range m.counts {
		if key.series == name {
			sum += v
		}
	}
	return sum
}
