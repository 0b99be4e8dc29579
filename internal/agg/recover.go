package agg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/store"
)

// kept is the journal of a generation that the store has put.
type kept struct {
	generation uint64
	path       string
	size       int64
}

// recover loads the writer's records, replays journals and opens the next generation.
func (a *Aggregator) recover(ctx context.Context, now time.Time) error {
	start := &start{a: a, ctx: ctx, now: now}
	acc := &accounting{fs: a.o.FS, dir: a.o.Dir, now: now, acts: start}
	if err := acc.readStore(ctx, a.st, a.o.Writer); err != nil {
		return err
	}
	err := a.st.State(ctx, a.o.Writer, nil, func(key, value []byte) error {
		switch {
		case len(key) == 1 && key[0] == keyPosition:
			return nil
		case len(key) > 0 && key[0] == keyTenants:
			svc, _ := a.reg.service(string(key[1:]))
			return svc.tenants.decode(value)
		}
		return a.streams.restore(key, value, now.UnixMilli())
	})
	if err != nil {
		return fmt.Errorf("streams of the last run: %w", err)
	}
	if err := a.openAcknowledged(acc); err != nil {
		return fmt.Errorf("file of acknowledgements in %s: %w", a.o.Dir, err)
	}
	if st, ok := a.st.(tableLoser); ok {
		if acc.tablesLost, err = st.LostTables(); err != nil {
			return err
		}
	}
	begin := time.Now()
	if _, err := acc.run(); err != nil {
		return err
	}
	if start.journals > 0 {
		a.o.Logger.Info("replayed journals that the last run had not stored", "journals", start.journals, "observations", a.stats.Replayed, "took", time.Since(begin).Round(time.Millisecond))
	}
	if acc.tablesLost {
		if err := start.endRestore(); err != nil {
			return err
		}
		a.keepAll = start.back.postponed
	}
	a.position = max(acc.at, acc.ack.position)
	a.lastJournal = max(acc.newest, acc.ack.generation, acc.flushed)
	a.prune(ctx)
	if !acc.acked { // from now on it holds a mark
		if err := a.ack.begin(mark{acc.last, a.position}); err != nil {
			return fmt.Errorf("file of acknowledgements in %s: %w", a.o.Dir, wrapNoSpace(err))
		}
		a.newFiles = true
	}
	a.openGeneration(acc.last+1, now)
	if acc.moved {
		// What was reported missing is reported once.
		a.open.records = append(a.open.records, positionRecord(a.position))
	}
	return nil
}

// openAcknowledged opens the file of acknowledgements. It sets aside one that cannot be
// read.
func (a *Aggregator) openAcknowledged(acc *accounting) (err error) {
	a.ack, acc.ack, acc.acked, err = openAcknowledged(a.o.FS, a.o.Dir)
	var unreadable *unreadableError
	if !errors.As(err, &unreadable) {
		return err
	}
	path := a.o.FS.PathJoin(a.o.Dir, ackFile)
	aside := a.setAside(path, ackFile, true)
	if aside == path {
		return err
	}
	a.addDamage(store.Damage{File: aside, Reason: err.Error(), Found: acc.now})
	a.ack, acc.ack, acc.acked, err = openAcknowledged(a.o.FS, a.o.Dir)
	return err
}

// start implements acts for Open: it replays journals, and sets aside damaged ones.
type start struct {
	a   *Aggregator
	ctx context.Context
	now time.Time
	g   *generation // generation of the journal read last

	journals int // journals of which something was replayed
	back     restored
}

func (s *start) read(f found) (*account, error) {
	a := s.a
	s.g = &generation{number: f.generation, began: s.now, added: math.MaxUint64, cells: newCells(&a.slabs, 0)}
	a.reg.generation = uint32(f.generation)
	return readJournal(a.o.FS, f.path(a.o.Dir), f.generation, &replayer{a: a, g: s.g})
}

// put stores what was read as its generation.
func (s *start) put(f found, j *journal, acc *account, position uint64) error {
	a, g := s.a, s.g
	a.stats.Replayed += g.entries
	if f.stored {
		a.stats.Recovered += g.entries
	}
	if g.entries == 0 {
		g.cells.release() // the journal is deleted once its end is judged
		return nil
	}
	s.journals++
	j.size = acc.tailAt
	g.journal = j
	g.records = append(a.streams.cut(), positionRecord(position))
	a.frozen = append(a.frozen, g)
	if err := a.putFrozen(s.ctx); err != nil && !errors.Is(err, store.ErrFull) {
		return fmt.Errorf("store what journal %s holds: %w", j.path, err)
	}
	return nil
}

func (s *start) keep(f found, j *journal) {
	if info, err := s.a.o.FS.Stat(j.path); err == nil {
		j.size = info.Size()
	}
	s.a.keep(f.generation, j)
}

func (s *start) remove(j *journal) error { return j.remove() }

func (s *start) setAside(path, name string, move bool) string { return s.a.setAside(path, name, move) }

func (s *start) damaged(d store.Damage) {
	s.a.stats.Lost += uint64(max(0, d.Observations))
	s.a.addDamage(d)
}

func (s *start) torn(j *journal, bytes int64) {
	s.a.stats.TornTails++
	s.a.o.Logger.Warn("journal ends in a request that was not acknowledged", "journal", j.path, "bytes", bytes)
}

// addDamage records and logs damage.
func (a *Aggregator) addDamage(d store.Damage) {
	d.Part = "journal"
	a.damageMu.Lock()
	a.damage = append(a.damage, d)
	a.damageMu.Unlock()
	if a.o.Remember != nil {
		if err := a.o.Remember(d); err != nil {
			a.o.Logger.Warn("damage not saved: later starts will not report it", "file", d.File, "err", err)
		}
	}
	a.o.Logger.Error("damage found in the journal; what is whole was replayed", "file", d.File, "reason", d.Reason, "lost", d.Lost, "observations", d.Observations)
}

// setAside copies or moves a file to the directory of damaged ones, under name, and
// returns its new path. It logs a failure: the program must start. A file that cannot go
// there is renamed beside the journals, because its own name is deleted when its
// generation is stored.
func (a *Aggregator) setAside(path, name string, move bool) string {
	to, err := a.setAsideIn(a.o.DamagedDir, path, name, move)
	if err == nil {
		return to
	}
	here, herr := a.setAsideIn(a.o.Dir, path, "damaged-"+name, move)
	if herr != nil {
		a.o.Logger.Error("damaged file not set aside", "file", path, "to", to, "err", errors.Join(err, herr))
		return path
	}
	a.o.Logger.Warn("damaged file left beside the journals", "file", here, "instead of", to, "err", err)
	return here
}

func (a *Aggregator) setAsideIn(dir, path, name string, move bool) (string, error) {
	to := a.o.FS.PathJoin(dir, name)
	for i := 2; i < 1000; i++ {
		if _, err := a.o.FS.Stat(to); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err == nil && !move && sameSize(a.o.FS, path, to) {
			return to, nil // an earlier start made it and failed later
		}
		to = a.o.FS.PathJoin(dir, fmt.Sprintf("%s-%d", name, i))
	}
	err := a.o.FS.MkdirAll(dir, 0o700)
	if err == nil && move {
		err = a.o.FS.Rename(path, to)
	} else if err == nil {
		err = vfs.LinkOrCopy(a.o.FS, path, to)
	}
	if err == nil {
		err = syncDir(a.o.FS, dir)
	}
	return to, err
}

func sameSize(fsys vfs.FS, a, b string) bool {
	x, err := fsys.Stat(a)
	if err != nil {
		return false
	}
	y, err := fsys.Stat(b)
	return err == nil && x.Size() == y.Size()
}

func millis(t int64) time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.UnixMilli(t)
}

// keep keeps the journal of a generation that was put until tables hold it. The caller
// holds putMu.
func (a *Aggregator) keep(generation uint64, j *journal) {
	if err := j.rename(storedPath(a.o.Dir, generation)); err != nil {
		a.o.Logger.Warn("stored journal not renamed; the next start renames it", "err", err)
	}
	if a.kept == nil {
		a.kept = map[uint64]kept{}
	}
	a.kept[generation] = kept{generation, j.path, j.size}
	a.countKept(j.size)
}

func (a *Aggregator) countKept(grown int64) {
	a.keptBytes += grown
	a.mu.Lock()
	a.stats.JournalKeptBytes = a.keptBytes
	a.mu.Unlock()
}

// tableWriter is a store that can write its tables on request.
type tableWriter interface {
	WriteTables(ctx context.Context) error
}

// prune deletes the journals that tables make redundant, and asks the store for tables
// when many journals are kept. It logs a failure; the next generation tries again. The
// caller holds putMu.
func (a *Aggregator) prune(ctx context.Context) {
	if len(a.kept) == 0 || a.keepAll {
		return
	}
	if err := a.deleteKept(ctx); err != nil && ctx.Err() == nil {
		a.o.Logger.Warn("journals of stored generations are kept for now", "journals", len(a.kept), "bytes", a.keptBytes, "err", err)
	}
}

func (a *Aggregator) deleteKept(ctx context.Context) error {
	if a.keptBytes > a.o.KeptBytes {
		if w, ok := a.st.(tableWriter); ok {
			if err := w.WriteTables(ctx); err != nil {
				return err
			}
		}
	}
	durable, err := a.st.Durable(ctx, a.o.Writer)
	if err != nil {
		return fmt.Errorf("last generation in tables: %w", err)
	}
	for _, n := range slices.Sorted(maps.Keys(a.kept)) {
		if n > durable {
			break
		}
		k := a.kept[n]
		if err := a.o.FS.Remove(k.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("stored journal: %w", err)
		}
		delete(a.kept, n)
		a.countKept(-k.size)
	}
	return nil
}
