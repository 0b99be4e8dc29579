package pebblestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/store"
)

// startBytes is what a start writes beside the tables of its logs: a manifest, a log,
// lists.
const startBytes = 1 << 20

// roomForLogs refuses a start on a disk without space for the tables that Pebble makes
// of the logs while it opens.
func roomForLogs(fsys vfs.FS, dir string, logs []*walLog) error {
	u, err := fsys.GetDiskUsage(dir)
	if errors.Is(err, vfs.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read free space of %s: %w", dir, err)
	}
	need := uint64(startBytes)
	for _, l := range logs {
		for _, r := range l.records.list {
			need += uint64(len(r.payload)) * 5 / 4 // a table may be a little larger
		}
	}
	if u.AvailBytes < need {
		return fmt.Errorf("%w on the disk of %s: %d KiB free, %d KiB are needed to make tables of the log (nothing has been changed)",
			store.ErrFull, dir, u.AvailBytes>>10, need>>10)
	}
	return nil
}

// openPebble opens the database. pebble.Open never ends if each of its writes fails;
// openPebble returns when ctx is done or the retries are hopeless. pebble.Open then goes
// on by itself, with the lock, until it ends or the process does.
func (s *Store) openPebble(ctx context.Context, po *pebble.Options) (*pebble.DB, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	type result struct {
		db       *pebble.DB
		err      error
		panicked any
	}
	done := make(chan result, 1)
	go func() {
		var r result
		defer func() {
			r.panicked = recover()
			done <- r
		}()
		r.db, r.err = pebble.Open(s.opts.Dir, po)
	}()
	var err error
	select {
	case r := <-done:
		if r.panicked != nil {
			panic(r.panicked)
		}
		return r.db, r.err
	case <-ctx.Done():
		err = ctx.Err()
	case err = <-s.retry.hopeless:
		err = fmt.Errorf("making tables of the log failed %d times in a row: %w", hopelessRow, err)
	}
	s.opening = true
	go func() {
		r := <-done
		if r.panicked != nil {
			panic(r.panicked)
		}
		if r.db != nil {
			r.err = r.db.Close()
		}
		s.cache.Unref()
		if err := errors.Join(r.err, s.lock.Close()); err != nil {
			s.opts.Logger.Warn("an abandoned start of the store failed", "error", err)
		}
	}()
	return nil, err
}
