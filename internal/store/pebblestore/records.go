package pebblestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"tailscope/internal/store"
)

// Records are what a store that is not running keeps of its writers.
type Records struct{ s *Store }

// OpenRecords opens the records of a store that is not running, and changes
// nothing. The error wraps store.ErrCorrupt if they cannot be read.
func OpenRecords(ctx context.Context, o Options) (_ *Records, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := o.ensureDefaults(); err != nil {
		return nil, err
	}
	lock, err := lockExisting(&o)
	if err != nil {
		return nil, err
	}
	s := &Store{opts: o, lock: lock, cache: pebble.NewCache(1 << 20)}
	r := &Records{s}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("read records of the store in %s: %w", o.Dir, err), r.Close())
		}
	}()
	defer func() {
		// Pebble takes some of what it reads on trust.
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", store.ErrCorrupt, p)
		}
	}()
	s.damage.log = o.Logger
	po := pebbleOptions(&s.opts, lock, s.cache, &s.damage)
	po.ReadOnly, po.ErrorIfNotExists = true, true
	po.EventListener = nil // what it finds is not put aside
	po.EnsureDefaults()
	if s.db, err = pebble.Open(o.Dir, po); err != nil {
		return nil, classify(err)
	}
	s.writers = map[string]*writer{}
	if err := s.loadWriters(); err != nil {
		return nil, err
	}
	return r, nil
}

// Flushed, Durable and State are as those of the Store.

func (r *Records) Flushed(ctx context.Context, name string) (uint64, error) {
	return r.s.Flushed(ctx, name)
}

func (r *Records) Durable(ctx context.Context, name string) (uint64, error) {
	return r.s.Durable(ctx, name)
}

func (r *Records) State(ctx context.Context, name string, prefix []byte, yield func(key, value []byte) error) error {
	return r.s.State(ctx, name, prefix, yield)
}

// Close gives the store's directory back.
func (r *Records) Close() error {
	var err error
	if r.s.db != nil {
		err = r.s.db.Close()
	}
	r.s.cache.Unref()
	return errors.Join(err, r.s.lock.Close())
}
