package chstore

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"
)

// A process has an epoch for each writer that it puts for, and every restart and every agent
// that comes by another server begins one. So the epochs that have ended are folded: what a
// question reads of them is not a number for each any more, but that all of their rows count,
// except for ranges of numbers. That needs rows of an epoch beyond what was committed to be
// looked for, once, when none can come any more.

// foldAfter is how long after an epoch was seen to have ended it is folded: longer than any
// insertion may be on its way.
const foldAfter = time.Hour

// defaultFoldEpochs is the number of ended epochs from which they are folded. It reads the
// numbers of all rows.
const defaultFoldEpochs = 64

// seenEpochs is what a process saw of the epochs.
type seenEpochs struct {
	at      time.Time
	last    uint32              // the last one given
	present map[uint32]struct{} // those of each writer that commits may come from
}

func (m *meta) seenEpochs(at time.Time) seenEpochs {
	seen := seenEpochs{at: at, last: m.epochs, present: map[uint32]struct{}{}}
	for _, w := range m.writers {
		if n := len(w.Epochs); n > 0 {
			seen.present[w.Epochs[n-1].Number] = struct{}{}
		}
	}
	return seen
}

// allOf returns all numbers of the epochs from first to last.
func allOf(first, last uint32) putRange {
	return putRange{numberOf(first, 0), numberOf(last, math.MaxUint32)}
}

// ended returns the epochs that had ended when they were seen and are not folded: those that
// are listed with a writer, and those that nothing was committed of.
func (seen *seenEpochs) ended(m *meta) (out putNumbers, listed int) {
	for _, w := range m.writers {
		for _, e := range w.Epochs {
			if _, present := seen.present[e.Number]; !present && e.Number <= seen.last {
				listed++
			}
		}
	}
	var ranges []putRange
	for e := uint32(1); e != 0 && e <= seen.last; e++ {
		if _, present := seen.present[e]; !present && !m.tiers.Folded.has(numberOf(e, 0)) {
			ranges = append(ranges, allOf(e, e))
		}
	}
	return putNumbers(nil).union(ranges...), listed
}

// foldEpochs folds the epochs that have ended long ago, if there are many.
func (s *Store) foldEpochs(ctx context.Context, _ time.Time) error {
	m, err := s.readMeta(ctx)
	if err != nil {
		return err
	}
	seen := &s.maintenance.epochs
	now := s.opts.Now()
	if seen.at.IsZero() {
		*seen = m.seenEpochs(now)
	}
	if now.Sub(seen.at) < foldAfter {
		return nil
	}
	fold, listed := seen.ended(m)
	if listed < s.foldEpochsFrom {
		*seen = m.seenEpochs(now)
		return nil
	}
	over, err := s.beyondCommits(ctx, m, fold)
	if err != nil {
		return err
	}
	_, err = s.changeTiers(ctx, func(m *meta) (*tiersMeta, []logWrite) {
		t := m.tiers
		t.Folded = t.Folded.union(fold...)
		t.Beyond = t.Beyond.union(over...)
		var writes []logWrite
		for _, name := range slices.Sorted(maps.Keys(m.writers)) {
			w := *m.writers[name]
			w.Epochs = slices.DeleteFunc(slices.Clone(w.Epochs), func(e epochMeta) bool { return fold.has(numberOf(e.Number, 0)) })
			if len(w.Epochs) < len(m.writers[name].Epochs) {
				writes = append(writes, logWrite{prefixWriter + name, encodeMeta(&w), m.of[prefixWriter+name]})
			}
		}
		return &t, writes
	})
	if err == nil {
		s.opts.Logger.Info("folded the epochs that have ended", "epochs", listed, "rows left out of", len(over))
		*seen = m.seenEpochs(now)
	}
	return err
}

// beyondCommits returns the numbers of epochs that rows have and that were not committed.
func (s *Store) beyondCommits(ctx context.Context, m *meta, epochs putNumbers) ([]putRange, error) {
	of := visibility{Last: map[uint32]uint32{}}
	for e, last := range m.visible.Last {
		if epochs.has(numberOf(e, 0)) {
			of.Last[e] = last
		}
	}
	in := ""
	for i, r := range epochs {
		if i > 0 {
			in += " OR "
		}
		in += fmt.Sprintf("put >= %d AND put <= %d", r[0], r[1])
	}
	where := " WHERE (" + in + ") AND NOT " + of.rows(false) + " GROUP BY bitShiftRight(put, 32)"
	var mu sync.Mutex
	var out []putRange
	find := func(ctx context.Context, n *node, table string) error {
		r, err := s.client.read(ctx, n, "SELECT min(put), max(put) FROM "+table+where)
		if err != nil {
			return fmt.Errorf("rows of %s that were not committed: %w", table, err)
		}
		mu.Lock()
		defer mu.Unlock()
		for r.next() {
			out = append(out, putRange{r.uint64(), r.uint64()})
		}
		return r.err
	}
	for _, table := range []string{"puts", "state"} {
		if err := find(ctx, s.first(), s.qualified(table)); err != nil {
			return nil, err
		}
	}
	err := s.eachShard(ctx, func(ctx context.Context, _ int, n *node) error {
		for _, table := range []string{"points", "series", "samples"} {
			if err := find(ctx, n, s.local(table)); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}
