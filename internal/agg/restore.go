package agg

import (
	"context"
	"errors"
	"fmt"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// tableLoser is a store that goes on without damaged tables, so that it may lack part of
// a generation that it counts as put.
type tableLoser interface {
	// LostTables reports whether tables were lost since ClearLostTables was called.
	LostTables() (bool, error)
	ClearLostTables() error
	// Restore puts what is missing of a generation; with check it only counts that.
	Restore(ctx context.Context, b *store.Batch, check bool) (store.Restored, error)
}

// restored sums up what a start puts back.
type restored struct {
	generations int
	points      int
	postponed   bool // the disk was full: the next start tries again
}

// restore puts back what lost tables held of a generation, as far as its journal shows.
// In doubt it sets the journal aside and reports its observations: at most so many are
// lost. It keeps the journal only if the disk is full.
func (s *start) restore(f found, j *journal) (acc *account, keep bool, err error) {
	a := s.a
	st, ok := a.st.(tableLoser)
	if !ok {
		return nil, false, nil
	}
	g := &generation{number: f.generation, began: s.now, cells: newCells(&a.slabs, 0)}
	past := &generation{number: f.generation, began: s.now, cells: newCells(&a.slabs, 0)}
	defer g.cells.release()
	defer past.cells.release()
	a.reg.generation = uint32(f.generation)
	if acc, err = readJournal(a.o.FS, j.path, f.generation, &replayer{a: a, g: g, past: past}); err != nil {
		return nil, false, err
	}
	back, err := s.restoreCells(st, g, false)
	if err == nil {
		var more store.Restored
		more, err = s.restoreCells(st, past, true)
		back.Doubtful += more.Doubtful
	}
	if err == nil && back.Back > 0 {
		s.back.generations++
		s.back.points += back.Back
		// From here on the journal may be deleted.
		if w, ok := a.st.(tableWriter); ok {
			err = w.WriteTables(s.ctx)
		}
	}
	switch {
	case s.ctx.Err() != nil:
		return nil, false, s.ctx.Err()
	case errors.Is(err, store.ErrFull):
		s.back.postponed = true
		return acc, true, nil
	case err == nil && back.Doubtful == 0 && acc.damage == "" && acc.tailDamage == "":
		return acc, false, nil
	}
	why := "a table of the store that may have held part of its generation is lost"
	switch {
	case err != nil:
		why += ": " + err.Error()
	case back.Back > 0:
		why += fmt.Sprintf(": %d points are put back, those in longer slots cannot be", back.Back)
	}
	s.damaged(store.Damage{File: a.setAside(j.path, a.o.FS.PathBase(journalPath("", f.generation)), false), Reason: why,
		Lost:         fmt.Sprintf("up to %d observations of generation %d", acc.applied, f.generation),
		Observations: -1, From: millis(acc.from), To: millis(acc.to), Found: s.now})
	return acc, false, nil
}

func (s *start) restoreCells(st tableLoser, g *generation, check bool) (store.Restored, error) {
	a := s.a
	g.complete(&a.reg.tables)
	b := a.build.batch(g, &a.reg.tables)
	b.Writer, b.Generation, b.Resolution = a.o.Writer, g.number, series.Base
	r, err := st.Restore(s.ctx, b, check)
	a.build.reset()
	return r, err
}

// endRestore logs what was put back, and records that it has been.
func (s *start) endRestore() error {
	if s.back.generations > 0 {
		s.damaged(store.Damage{File: s.a.o.Dir, Found: s.now,
			Reason: fmt.Sprintf("tables of the store that are lost held points of %d generations whose journals were still there: %d points are put back", s.back.generations, s.back.points)})
	}
	st, ok := s.a.st.(tableLoser)
	if !ok || s.back.postponed {
		return nil
	}
	return st.ClearLostTables()
}
