package pebblestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"tailscope/internal/store"
)

// Writers reads the writers' state of a store that is not running.
type Writers struct{ s *Store }

// OpenWriters opens the writers' state of a store that is not running, and changes
// nothing. The error wraps store.ErrCorrupt if it cannot be read.
func OpenWriters(ctx context.Context, o Options) (_ *Writers, err error) {
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
	r := &Writers{s}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("read the writers of the store in %s: %w", o.Dir, err), r.Close())
		}
	}()
	defer func() {
		// Pebble does not check all that it reads.
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", store.ErrCorrupt, p)
		}
	}()
	s.damage.log = o.Logger
	po := pebbleOptions(&s.opts, lock, s.cache, &s.damage)
	po.ReadOnly, po.ErrorIfNotExists = true, true
	po.EventListener = nil // damage that it finds is not set aside
	po.EnsureDefaults()
	if s.db, err = pebble.Open(o.Dir, po); err != nil {
		return nil, classify(err)
	}
	s.writers = map[string]*writer{}
	if err := s.loadWriters(); err != nil {
		return nil, err
	}
	id, err := s.id()
	if err != nil {
		return nil, err
	}
	if id == 0 { // a start uses that of the file
		if b, err := readWhole(o.FS, o.FS.PathJoin(o.Dir, identityFile)); err == nil {
			if i, err := decodeIdentity(b); err == nil {
				id = i.id
			}
		}
	}
	s.own = ownWriter(id, s.writers)
	return r, nil
}

// Own returns what Store.Writer returns.
func (w *Writers) Own() string { return w.s.own }

// Flushed, Durable and State are those of Store.

func (r *Writers) Flushed(ctx context.Context, name string) (uint64, error) {
	return r.s.Flushed(ctx, name)
}

func (r *Writers) Durable(ctx context.Context, name string) (uint64, error) {
	return r.s.Durable(ctx, name)
}

func (r *Writers) State(ctx context.Context, name string, prefix []byte, yield func(key, value []byte) error) error {
	return r.s.State(ctx, name, prefix, yield)
}

// Close closes the store's directory.
func (r *Writers) Close() error {
	var err error
	if r.s.db != nil {
		err = r.s.db.Close()
	}
	r.s.cache.Unref()
	return errors.Join(err, r.s.lock.Close())
}
