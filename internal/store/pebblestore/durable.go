package pebblestore

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Durable returns the highest generation of the writer that lies in tables. A generation
// that is only in the log does not count: a damaged or lost log takes it along.
func (s *Store) Durable(ctx context.Context, name string) (uint64, error) {
	done, err := s.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	key := append([]byte{tableWriter}, name...)
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: key, UpperBound: append(key[:len(key):len(key)], 0), OnlyReadGuaranteedDurable: true})
	if err != nil {
		return 0, classify(err)
	}
	defer it.Close()
	if !it.First() {
		return 0, classify(it.Error())
	}
	v, err := it.ValueAndErr()
	if err != nil {
		return 0, classify(err)
	}
	w, err := decodeWriter(v)
	if err != nil {
		return 0, fmt.Errorf("writer %s: %w", name, err)
	}
	return w.flushed, nil
}

// WriteTables writes to tables what is only in the log. It returns when that is done or
// ctx is.
func (s *Store) WriteTables(ctx context.Context) error {
	done, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	written, err := s.db.AsyncFlush()
	if err != nil {
		return fmt.Errorf("write tables: %w", classify(err))
	}
	select {
	case <-written:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
