package chstore

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// A process has an epoch for each writer that it puts for, and every restart and every agent
// that comes by another server begins one. So the epochs that have ended are folded: what a
// question reads of them is not a number for each any more, but that all of their rows count,
// except for ranges of numbers. That needs rows of an epoch beyond what was committed to be
// looked for, once, when none can come any more.
//
// The epoch of a writer that is gone ends after goneAfter. A process that stood still for as
// long is refused by its first commit, as that expects the writer's record as it was, and puts
// the generation anew under another epoch.
//
// Numbers that failed, and those of generations that were put again, are kept in lists until no
// row has them.

// foldAfter is how long after an epoch was seen to have ended it is folded, and after a number
// was seen to have failed its rows are looked for: longer than any insertion may be on its way.
const foldAfter = time.Hour

// goneAfter is how long after the last commit of a writer its epoch ends. Ending that of a
// writer which commits yet costs it one more epoch.
const goneAfter = 24 * time.Hour

// cutEvery is how often a process looks for the rows of numbers in lists: it reads the numbers
// of all rows.
const cutEvery = 24 * time.Hour

// defaultFoldEpochs is the number of ended epochs from which they are folded, which reads the
// numbers of all rows too, and that of numbers in lists from which these are cut.
const defaultFoldEpochs = 64

// seenEpochs is what a process saw of the epochs.
type seenEpochs struct {
	at   time.Time
	meta *meta
}

// present returns the epoch that commits may come from, or 0.
func (w *writerMeta) present() uint32 {
	if n := len(w.Epochs); n > 0 && !w.Ended {
		return w.Epochs[n-1].Number
	}
	return 0
}

// present returns the epochs that commits may come from.
func (m *meta) present() map[uint32]struct{} {
	out := map[uint32]struct{}{}
	for _, w := range m.writers {
		if e := w.present(); e != 0 {
			out[e] = struct{}{}
		}
	}
	return out
}

// hasPresent reports whether commits may come from one of the epochs.
func (m *meta) hasPresent(epochs putNumbers) bool {
	for e := range m.present() {
		if epochs.has(numberOf(e, 0)) {
			return true
		}
	}
	return false
}

// allOf returns all numbers of the epochs from first to last.
func allOf(first, last uint32) putRange {
	return putRange{numberOf(first, 0), numberOf(last, math.MaxUint32)}
}

// ended returns the epochs that had ended when they were seen, have now, and are not folded:
// those that are listed with a writer, and those that nothing was committed of. A program that
// knows of no end drops it when it commits, and the epoch is present again.
func (seen *seenEpochs) ended(m *meta) (out putNumbers, listed int) {
	last, present := seen.meta.epochs, seen.meta.present()
	maps.Copy(present, m.present())
	for _, w := range m.writers {
		for _, e := range w.Epochs {
			if _, present := present[e.Number]; !present && e.Number <= last {
				listed++
			}
		}
	}
	var ranges []putRange
	for e := uint32(1); e != 0 && e <= last; e++ {
		if _, present := present[e]; !present && !m.tiers.Folded.has(numberOf(e, 0)) {
			ranges = append(ranges, allOf(e, e))
		}
	}
	return putNumbers(nil).union(ranges...), listed
}

// foldEpochs ends the epochs of writers that are gone, folds those that have ended long ago, and
// cuts the lists of numbers, if there are many.
func (s *Store) foldEpochs(ctx context.Context, _ time.Time) error {
	m, err := s.readMeta(ctx)
	if err != nil {
		return err
	}
	seen := &s.maintenance.epochs
	now := s.opts.Now()
	if seen.at.IsZero() {
		*seen = seenEpochs{now, m}
	}
	if now.Sub(seen.at) < foldAfter {
		return nil
	}
	fold, listed := seen.ended(m)
	if listed >= s.foldEpochsFrom {
		if m, err = s.foldEnded(ctx, m, fold, listed); err != nil {
			return err
		}
	}
	if err := s.cutNumbers(ctx, m, now); err != nil {
		return err
	}
	if m, err = s.endGone(ctx, now); err != nil {
		return err
	}
	*seen = seenEpochs{now, m}
	return nil
}

// foldEnded folds epochs that have ended, listed of them with a writer.
func (s *Store) foldEnded(ctx context.Context, m *meta, fold putNumbers, listed int) (*meta, error) {
	over, err := s.beyondCommits(ctx, m, fold)
	if err != nil {
		return nil, err
	}
	folded := false
	m, err = s.changeTiers(ctx, func(m *meta) (*tiersMeta, []logWrite) {
		if folded = !m.hasPresent(fold); !folded { // the next round folds the others
			return nil, nil
		}
		t := m.tiers
		t.Folded = t.Folded.union(fold...)
		t.Beyond = t.Beyond.union(over...)
		return &t, m.changeWriters(func(_ string, w *writerMeta) bool {
			n := len(w.Epochs)
			w.Epochs = slices.DeleteFunc(slices.Clone(w.Epochs), func(e epochMeta) bool { return fold.has(numberOf(e.Number, 0)) })
			return len(w.Epochs) < n
		})
	})
	if err == nil && folded {
		s.opts.Logger.Info("folded the epochs that have ended", "epochs", listed, "rows left out of", len(over))
	}
	return m, err
}

// gone reports whether a writer has committed nothing since its epochs were seen, nor for
// goneAfter by the clock. Of one whose last record is of a program that wrote no moment that is
// not known.
func (seen *seenEpochs) gone(m *meta, name string, now time.Time) bool {
	w, key := m.writers[name], prefixWriter+name
	return w.present() != 0 && w.At != 0 && m.of[key] == seen.meta.of[key] && now.Sub(time.Unix(w.At, 0)) >= goneAfter
}

// endGone ends the epochs of writers that are gone.
func (s *Store) endGone(ctx context.Context, now time.Time) (*meta, error) {
	seen := s.maintenance.epochs
	gone := 0
	m, err := s.changeTiers(ctx, func(m *meta) (*tiersMeta, []logWrite) {
		writes := m.changeWriters(func(name string, w *writerMeta) bool {
			gone := seen.gone(m, name, now)
			w.Ended = w.Ended || gone
			return gone
		})
		if gone = len(writes); gone == 0 {
			return nil, nil
		}
		t := m.tiers
		return &t, writes
	})
	if err == nil && gone > 0 {
		s.opts.Logger.Info("ended the epochs of writers that have put nothing for long", "writers", gone)
	}
	return m, err
}

// changeWriters returns the writes of the writers that change changes; it gets copies.
func (m *meta) changeWriters(change func(name string, w *writerMeta) bool) (writes []logWrite) {
	for _, name := range slices.Sorted(maps.Keys(m.writers)) {
		if w := *m.writers[name]; change(name, &w) {
			writes = append(writes, logWrite{prefixWriter + name, encodeMeta(&w), m.of[prefixWriter+name]})
		}
	}
	return writes
}

// listedNumbers are numbers that are in lists for their rows not to count.
type listedNumbers struct {
	failed   putNumbers  // rows of all tables
	replaced []putNumber // rows of points
}

// listedSince returns what was in the lists at an earlier moment too, as it was then.
func (m *meta) listedSince(old *meta) (out listedNumbers) {
	both := func(a, b putNumbers) {
		for _, r := range a {
			if slices.Contains(b, r) {
				out.failed = append(out.failed, r)
			}
		}
	}
	both(m.tiers.AbortedSteps, old.tiers.AbortedSteps)
	both(m.tiers.Beyond, old.tiers.Beyond)
	for name, w := range m.writers {
		if was := old.writers[name]; was != nil {
			both(w.Aborted, was.Aborted)
			for _, n := range w.Replaced {
				if slices.Contains(was.Replaced, n) {
					out.replaced = append(out.replaced, n)
				}
			}
		}
	}
	return out
}

// cutNumbers takes numbers out of the lists that no row has any more, if they are many. Rows
// that failed on a replica which is away might come yet, so all replicas are asked.
func (s *Store) cutNumbers(ctx context.Context, m *meta, now time.Time) error {
	from := m.listedSince(s.maintenance.epochs.meta)
	if len(from.failed)+len(from.replaced) < s.foldEpochsFrom || now.Sub(s.maintenance.cutAt) < cutEvery || len(s.absent.list()) > 0 {
		return nil
	}
	s.maintenance.cutAt = now
	failed, replaced, err := s.rowsOf(ctx, from)
	if err != nil {
		s.opts.Logger.Warn("numbers of rows that do not count are kept although they may have none; tried again tomorrow", "err", err)
		return nil
	}
	failedGone := func(r putRange) bool {
		return slices.Contains(from.failed, r) && !slices.ContainsFunc(failed, func(n putNumber) bool { return r[0] <= n && n <= r[1] })
	}
	replacedGone := func(n putNumber) bool { return slices.Contains(from.replaced, n) && !slices.Contains(replaced, n) }
	cut := 0
	_, err = s.changeTiers(ctx, func(m *meta) (*tiersMeta, []logWrite) {
		t := m.tiers
		cut = 0
		t.AbortedSteps, t.Beyond = without(t.AbortedSteps, failedGone, &cut), without(t.Beyond, failedGone, &cut)
		writes := m.changeWriters(func(_ string, w *writerMeta) bool {
			before := cut
			w.Aborted, w.Replaced = without(w.Aborted, failedGone, &cut), without(w.Replaced, replacedGone, &cut)
			return cut > before
		})
		if cut == 0 {
			return nil, nil
		}
		return &t, writes
	})
	if err == nil {
		s.opts.Logger.Info("cut the lists of numbers that do not count", "gone", cut, "kept", len(from.failed)+len(from.replaced)-cut)
	}
	return err
}

// without returns a list without those that are gone, and adds their number to cut.
func without[L ~[]E, E any](list L, gone func(E) bool, cut *int) L {
	out := slices.DeleteFunc(slices.Clone(list), gone)
	*cut += len(list) - len(out)
	return out
}

// rowsOf returns which of the numbers rows have: of those that failed on any node, and of those
// replaced in points.
func (s *Store) rowsOf(ctx context.Context, of listedNumbers) (failed, replaced []putNumber, err error) {
	var mu sync.Mutex
	find := func(ctx context.Context, n *node, table string, numbers putNumbers, to *[]putNumber) error {
		if len(numbers) == 0 {
			return nil
		}
		r, err := s.client.read(ctx, n, "SELECT DISTINCT put FROM "+table+" WHERE "+numbers.rows())
		if err != nil {
			return fmt.Errorf("rows of %s that do not count: %w", table, err)
		}
		mu.Lock()
		defer mu.Unlock()
		for r.next() {
			*to = append(*to, r.uint64())
		}
		return r.err
	}
	again := putNumbers(nil).with(of.replaced...)
	g, ctx := errgroup.WithContext(ctx)
	for _, n := range s.nodes() {
		g.Go(func() error {
			for _, table := range []string{"points", "series", "samples"} {
				if err := find(ctx, n, s.local(table), of.failed, &failed); err != nil {
					return err
				}
			}
			return find(ctx, n, s.local("points"), again, &replaced)
		})
	}
	for _, table := range []string{"puts", "state"} {
		g.Go(func() error { return find(ctx, s.first(), s.qualified(table), of.failed, &failed) })
	}
	err = g.Wait()
	return failed, replaced, err
}

// rows returns the condition on the column put of rows that have one of the numbers.
func (p putNumbers) rows() string {
	var or []string
	for _, r := range p {
		or = append(or, fmt.Sprintf("put >= %d AND put <= %d", r[0], r[1]))
	}
	return "(" + strings.Join(or, " OR ") + ")"
}

// beyondCommits returns the numbers of epochs that rows have and that were not committed.
func (s *Store) beyondCommits(ctx context.Context, m *meta, epochs putNumbers) ([]putRange, error) {
	of := visibility{Last: map[uint32]uint32{}}
	for e, last := range m.visible.Last {
		if epochs.has(numberOf(e, 0)) {
			of.Last[e] = last
		}
	}
	where := " WHERE " + epochs.rows() + " AND NOT " + of.rows(false) + " GROUP BY bitShiftRight(put, 32)"
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
