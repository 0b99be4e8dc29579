package accesslog

import (
	"context"
	"fmt"
	"sync"

	"tailscope/internal/store"
)

// State remembers, across restarts, how far files were read and what was
// learned of routes.
type State interface {
	// Load calls yield with every record whose key has the prefix. The slice
	// is valid only during the call.
	Load(ctx context.Context, prefix string, yield func(key string, value []byte) error) error
	// Save keeps all records or none; an empty value deletes.
	Save(ctx context.Context, records map[string][]byte) error
}

// writer is our name in the store.
const writer = "accesslog"

// In returns a State kept in a store.
func In(ctx context.Context, st store.Store) (State, error) {
	g, err := st.Flushed(ctx, writer)
	if err != nil {
		return nil, fmt.Errorf("read what is known of access logs: %w", err)
	}
	return &stored{st: st, generation: g}, nil
}

type stored struct {
	st         store.Store
	mu         sync.Mutex
	generation uint64
}

func (s *stored) Load(ctx context.Context, prefix string, yield func(string, []byte) error) error {
	return s.st.State(ctx, writer, []byte(prefix), func(k, v []byte) error { return yield(string(k), v) })
}

func (s *stored) Save(ctx context.Context, records map[string][]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &store.Batch{Writer: writer, Generation: s.generation + 1, Resolution: 10}
	for k, v := range records {
		b.State = append(b.State, store.Record{Key: []byte(k), Value: v})
	}
	if err := s.st.Put(ctx, b); err != nil {
		return fmt.Errorf("save how far access logs were read: %w", err)
	}
	s.generation++
	return nil
}

type forgetful struct{}

func (forgetful) Load(context.Context, string, func(string, []byte) error) error { return nil }
func (forgetful) Save(context.Context, map[string][]byte) error                  { return nil }
