package pebblestore

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/store"
)

func checkBatch(b *store.Batch) (tier int, err error) {
	if err := b.Check(); err != nil {
		return 0, err
	}
	if len(b.Points) > 0 || b.Resolution != 0 {
		return tierOf(b.Resolution)
	}
	return 0, nil
}

// sizeHint estimates the size of a batch's write, so that large ones are not copied from
// one buffer to the next.
func sizeHint(b *store.Batch) int {
	n := 1<<10 + 16*len(b.Series)
	for i := range b.Points {
		n += len(b.Points[i].Data) + 2
	}
	return n
}

// Room returns an error that wraps store.ErrFull, and gives the cause, while Put would
// refuse for lack of space.
func (s *Store) Room() error { return s.room() }

// room refuses to write while the disk is nearly full, because Pebble cannot
// go on once a write to its log has failed.
func (s *Store) room() error {
	if err := s.diskRoom(); err != nil {
		return err
	}
	if s.opts.MaxBytes > 0 {
		// Expired data leaves with a later compaction of Pebble, so the hard bound is
		// above MaxBytes. Files about to be deleted do not count.
		limit := s.opts.MaxBytes + s.opts.MaxBytes/4 + 4*s.opts.MemtableBytes
		m := s.db.Metrics()
		if used := int64(m.DiskSpaceUsage() - m.WAL.ObsoletePhysicalSize - m.Table.Local.ObsoleteSize); used > limit {
			return fmt.Errorf("%w: %s holds %d MiB, its bound is %d MiB", store.ErrFull, s.opts.Dir, used>>20, s.opts.MaxBytes>>20)
		}
	}
	return nil
}

// diskRoom is room without the bound on the store itself.
func (s *Store) diskRoom() error {
	if s.opts.MinFreeBytes > 0 {
		u, err := s.opts.FS.GetDiskUsage(s.opts.Dir)
		switch {
		case errors.Is(err, vfs.ErrUnsupported):
		case err != nil:
			return fmt.Errorf("read free space of %s: %w", s.opts.Dir, err)
		case u.AvailBytes < uint64(s.opts.MinFreeBytes):
			return fmt.Errorf("%w on the disk of %s: %d MiB free, %d MiB must stay free", store.ErrFull, s.opts.Dir, u.AvailBytes>>20, s.opts.MinFreeBytes>>20)
		}
	}
	return nil
}
