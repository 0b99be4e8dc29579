package pebblestore

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

func checkBatch(b *store.Batch) (tier int, err error) {
	if b.Writer == "" {
		return 0, errors.New("the batch names no writer")
	}
	if b.Generation == 0 {
		return 0, errors.New("generations start from 1")
	}
	if len(b.Points) > 0 || b.Resolution != 0 {
		if tier, err = tierOf(b.Resolution); err != nil {
			return 0, err
		}
	}
	for i := range b.Points {
		p := &b.Points[i]
		if int(p.Series) >= len(b.Series) {
			return 0, fmt.Errorf("point %d is of series %d, the batch has %d", i, p.Series, len(b.Series))
		}
		if p.Slot%int64(b.Resolution) != 0 || !inRange(p.Slot) {
			return 0, fmt.Errorf("point %d: slot %d is not a multiple of %d s", i, p.Slot, b.Resolution)
		}
		if b.Series[p.Series].Kind == series.Distribution {
			_, err = hist.Moments(p.Data)
		} else {
			_, err = store.DecodeNumber(p.Data)
		}
		if err != nil {
			return 0, fmt.Errorf("point %d: %w", i, err)
		}
	}
	for i := range b.Samples {
		ss := &b.Samples[i]
		if int(ss.Series) >= len(b.Series) {
			return 0, fmt.Errorf("samples %d are of series %d, the batch has %d", i, ss.Series, len(b.Series))
		}
		for _, v := range ss.Samples {
			if !inRange(v.TimeMillis / 1000) {
				return 0, fmt.Errorf("sample at %d ms is out of range", v.TimeMillis)
			}
		}
	}
	if b.IDs != nil && len(b.IDs) != len(b.Series) {
		return 0, fmt.Errorf("%d identities of %d series", len(b.IDs), len(b.Series))
	}
	if err := checkTenants(b); err != nil {
		return 0, err
	}
	for i := range b.Series {
		if b.Series[i].Family == "" || b.Series[i].Kind > series.Counter || b.Series[i].View > series.Total {
			return 0, fmt.Errorf("series %d has no family, or an unknown kind or view", i)
		}
	}
	return tier, nil
}

func checkTenants(b *store.Batch) error {
	if b.TenantOf == nil {
		return nil
	}
	if len(b.TenantOf) != len(b.Series) || b.IDs == nil {
		return fmt.Errorf("%d numbers of tenants and %d identities of %d series", len(b.TenantOf), len(b.IDs), len(b.Series))
	}
	for i, n := range b.TenantOf {
		if int(n) >= len(b.Tenants) {
			return fmt.Errorf("series %d is of tenant %d, the batch has %d", i, n, len(b.Tenants))
		}
	}
	known := make(map[string]struct{}, len(b.Tenants))
	for _, t := range b.Tenants {
		if _, twice := known[t]; twice && t != "" {
			return fmt.Errorf("tenant %q twice", t)
		}
		known[t] = struct{}{}
	}
	return nil
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
