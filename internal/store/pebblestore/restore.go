package pebblestore

import (
	"context"
	"slices"

	"tailscope/internal/store"
)

// lostMarker marks a store that has lost tables until the writers have put back what
// their journals still hold; see LostTables.
const lostMarker = "lost"

// LostTables reports whether tables or blocks of tables were left out since the last
// ClearLostTables. Generations up to Durable may then be lost with them.
func (s *Store) LostTables() (bool, error) {
	path, err := findMarker(s.opts.FS, s.opts.Dir, lostMarker)
	return path != "", err
}

// ClearLostTables records that the writers have put back what they could.
func (s *Store) ClearLostTables() error { return removeMarker(s.opts.FS, s.opts.Dir, lostMarker) }

// Restore puts back missing points and samples of a generation that was put before. The
// batch holds what the generation did, without State. A point that a longer slot may
// already contain is put into its own slot only: it never counts twice, and is doubtful.
// With check nothing is put, and what is missing is doubtful.
func (s *Store) Restore(ctx context.Context, b *store.Batch, check bool) (store.Restored, error) {
	r := &restoring{check: check}
	err := s.put(ctx, b, r)
	return r.Restored, err
}

// restoring counts what a putter restores of a generation.
type restoring struct {
	store.Restored
	check bool
}

// putBack puts the missing entries of a slot.
func (p *putter) putBack(tier int, slot int64, sc scope, entries []entry) error {
	r := p.restoring
	t, at, origin := p.finest(tier, slot, sc)
	part := partOf(t, at)
	f, err := p.s.readFolded(p.s.db, t, part, sc)
	if err != nil {
		return err
	}
	run, err := p.s.readDirectory(p.s.db, t, part, sc)
	if err != nil {
		return err
	}
	if run != nil && f.has(p.w.number, p.b.Generation) {
		return nil
	}
	old, err := p.readPrevious(t, at, sc, origin)
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(slices.Clone(entries), func(e entry) bool { return contains(old, e.number) })
	if len(missing) == 0 {
		return nil
	}
	// The points may exist under another address where the list of a run's generations
	// is lost, or the run without that list, and where other numbers, whose labels are
	// lost, lie under this generation.
	if r.check || t != tier || (run != nil) != (f != nil) || len(old) > len(entries)-len(missing) {
		r.Doubtful += len(missing)
		return nil
	}
	r.Back += len(missing)
	all, err := unite(old, missing, nil)
	if err != nil {
		return err
	}
	if err := p.deletePrevious(tier, slot, sc, originPut); err != nil {
		return err
	}
	if err := p.writeChunks(tier, slot, sc, originPut, all); err != nil {
		return err
	}
	for t := tier + 1; t < tierSamples; t++ {
		if up := floorTo(slot, tierSlot[t]); up < p.ready[t] && up >= p.floor[t] {
			r.Doubtful += len(missing)
			break
		}
	}
	return nil
}
