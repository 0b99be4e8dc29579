package agg

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/store"
)

// A journal outlives the Put of its generation: then it is renamed from .journal to
// .stored, and it is deleted once the store reports that the generation lies in tables.
// A start therefore finds
//
//	.journal above Flushed   the last run died before the Put: replayed
//	.stored above Flushed    the store's log lost what was put: replayed, and logged
//	at most Flushed          kept until it is durable, then deleted; if tables
//	                         were lost, what they held of it is put back first
//
// and, by the positions in journals, in the store's record and in the file of
// acknowledgements, what is missing between them.

// found is a journal in the directory.
type found struct {
	generation uint64
	stored     bool // named .stored
}

func (f found) path(dir string) string {
	if f.stored {
		return storedPath(dir, f.generation)
	}
	return journalPath(dir, f.generation)
}

// strange is a file with the name of a journal that is not one.
type strange struct {
	path, why  string
	generation uint64 // 0 if it has none
}

func (s strange) damage(now time.Time) store.Damage {
	return store.Damage{Part: "journal", File: s.path, Reason: s.why, Observations: -1, Found: now}
}

// journalFiles lists the journals in dir in order of generation, and separately the
// files with the name of a journal that are not one.
func journalFiles(fsys vfs.FS, dir string) (list []found, others []strange, err error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, nil, err
	}
	slices.Sort(names) // .journal before .stored
	for _, name := range names {
		s, ok := strings.CutPrefix(name, "generation-")
		if !ok {
			continue
		}
		s, journal := strings.CutSuffix(s, ".journal")
		s, stored := strings.CutSuffix(s, ".stored")
		n, err := strconv.ParseUint(s, 10, 64)
		f := found{n, stored}
		if err != nil || journal == stored || fsys.PathBase(f.path(dir)) != name ||
			len(list) > 0 && list[len(list)-1].generation == n {
			others = append(others, strange{path: fsys.PathJoin(dir, name), why: "not a journal's name, or there are two of its generation"})
			continue
		}
		// Opening what is not a regular file may block.
		if info, err := fsys.Stat(f.path(dir)); err != nil || !info.Mode().IsRegular() {
			why := "a journal's name, and not a file"
			if err != nil {
				why = err.Error()
			}
			others = append(others, strange{f.path(dir), why, n})
			continue
		}
		list = append(list, f)
	}
	return list, others, nil
}

// An accounting follows the positions of what was acknowledged, from the store's through
// the journals to the file of acknowledgements, and reports what is missing between
// them. Its acts decide what is done: Open replays, doctor only reads.
type accounting struct {
	fs   vfs.FS
	dir  string
	now  time.Time
	acts acts

	flushed, durable uint64 // of the store
	ack              mark
	acked            bool // the file of acknowledgements was there and held ack
	blind            bool // the store could not be read
	tablesLost       bool // the store may have lost part of any generation

	at     uint64 // everything before it was stored, replayed, or reported missing
	placed bool   // at is known
	moved  bool   // something was missing
	seen   uint64 // the last generation that the store or a journal has
	newest uint64 // of the journals
	last   uint64 // the highest generation named by any file

	before *pending // the previous journal, whose end is not judged yet
}

// acts are the actions on what an accounting finds.
type acts interface {
	read(found) (*account, error)
	put(f found, j *journal, acc *account, position uint64) error // stores what was read last
	keep(found, *journal)                                         // keeps a journal whose generation is only in the store's log
	remove(*journal) error
	restore(found, *journal) (acc *account, keep bool, err error) // puts back what lost tables held of a generation
	setAside(path, name string, move bool) string                 // returns the file's new path
	damaged(store.Damage)
	torn(j *journal, bytes int64)
}

// pending is a journal whose end is judged by what comes after it.
type pending struct {
	generation uint64
	journal    *journal // by then named .stored, if the store accepted it
	account    *account
}

// Records is the part of a store that an accounting reads.
type Records interface {
	Flushed(ctx context.Context, writer string) (uint64, error)
	Durable(ctx context.Context, writer string) (uint64, error)
	State(ctx context.Context, writer string, prefix []byte, yield func(key, value []byte) error) error
}

// readStore reads what the store has.
func (l *accounting) readStore(ctx context.Context, st Records, writer string) (err error) {
	if l.flushed, err = st.Flushed(ctx, writer); err != nil {
		return fmt.Errorf("last stored generation: %w", err)
	}
	if l.durable, err = st.Durable(ctx, writer); err != nil {
		return fmt.Errorf("last generation in tables: %w", err)
	}
	l.seen, l.last = l.flushed, l.flushed
	err = st.State(ctx, writer, []byte{keyPosition}, func(key, value []byte) error {
		if len(key) != 1 {
			return nil
		}
		if l.placed = len(value) == 8; l.placed {
			l.at = binary.LittleEndian.Uint64(value)
			return nil
		}
		l.acts.damaged(store.Damage{File: l.dir, Reason: fmt.Sprintf("the store's record of the journals' position has %d bytes, want 8", len(value)), Found: l.now,
			Lost: "nothing, unless journals are missing: they would not be missed", Observations: -1})
		return nil
	})
	if err != nil {
		return fmt.Errorf("position of the last stored generation: %w", err)
	}
	return nil
}

// run accounts for all journals and returns their number.
func (l *accounting) run() (journals int, err error) {
	list, others, err := journalFiles(l.fs, l.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("journals: %w", err)
	}
	if l.blind {
		for _, f := range list {
			if f.stored {
				l.flushed = f.generation
			}
		}
	}
	l.last = max(l.last, l.ack.generation)
	if !l.acked && l.placed && l.at > 0 {
		l.moved = true
		l.acts.damaged(store.Damage{File: l.fs.PathJoin(l.dir, ackFile), Found: l.now, Observations: -1,
			Reason: "the file is gone, or holds nothing that can be read: it says up to where requests were acknowledged",
			Lost:   fmt.Sprintf("what was acknowledged after generation %d was stored, as far as no journal holds it", l.flushed)})
	}
	for _, o := range others {
		l.last = max(l.last, o.generation) // it may still be in the way
		d := o.damage(l.now)
		d.File = l.acts.setAside(o.path, l.fs.PathBase(o.path), true)
		l.acts.damaged(d)
	}
	for _, f := range list {
		l.last, l.newest = max(l.last, f.generation), f.generation
		j := &journal{fs: l.fs, path: f.path(l.dir)}
		keep := f.generation > l.durable
		if f.generation <= l.flushed && l.tablesLost {
			acc, again, err := l.acts.restore(f, j)
			if err != nil {
				return len(list), fmt.Errorf("put back what journal %s holds: %w", j.path, err)
			}
			if keep = keep || again; acc != nil && acc.placed && acc.header.before <= l.at {
				l.at = max(l.at, acc.end) // the record of the position may be lost too
			}
		}
		switch {
		case f.generation > l.flushed:
			if err := l.replay(f, j); err != nil {
				return len(list), err
			}
		case keep:
			l.acts.keep(f, j)
		default:
			if err := l.acts.remove(j); err != nil {
				return len(list), fmt.Errorf("journal already stored: %w", err)
			}
		}
	}
	return len(list), l.judgeLast()
}

// replay stores the content of a journal that the store lacks.
func (l *accounting) replay(f found, j *journal) error {
	acc, err := l.acts.read(f)
	if err != nil {
		return err
	}
	if acc.placed {
		err = l.reportUpTo(acc.header.before, acc.header.previous)
	} else {
		err = l.judgeEnd(nil)
		acc.end = l.at + acc.applied // older formats have no positions
	}
	l.at, l.placed, l.seen = max(l.at, acc.end), true, f.generation
	l.before = &pending{f.generation, j, acc}
	if err != nil {
		return err
	}
	if f.stored && acc.applied > 0 {
		l.acts.damaged(store.Damage{File: j.path, Reason: fmt.Sprintf("the store's log had lost generation %d, which it had put: its %d observations are replayed; breakdowns, traces kept and marks set since, which no journal holds, may be missing", f.generation, acc.applied),
			Found: l.now, From: millis(acc.from), To: millis(acc.to)})
	}
	return l.acts.put(f, j, acc, l.at)
}

// reportUpTo reports what is missing up to a position. previous is the last generation before
// the position with a journal, or 0 if that is not known.
func (l *accounting) reportUpTo(to, previous uint64) error {
	if !l.placed {
		l.placed = true
		if l.at = to; l.flushed == 0 && to > 0 && !l.blind {
			l.moved = true
			l.acts.damaged(store.Damage{File: l.dir, Found: l.now, Observations: -1,
				Reason: "the store has no generation of this writer, the journal begins behind others",
				Lost:   fmt.Sprintf("up to %d entries that were stored before: spans, values of metrics, and what was derived from them", to)})
			return nil
		}
	}
	var until *uint64
	if l.before != nil && (previous == 0 || previous == l.before.generation) {
		until = &to
	}
	if err := l.judgeEnd(until); err != nil || to <= l.at {
		return err
	}
	n := to - l.at
	l.at = to
	d := store.Damage{File: l.dir}
	switch {
	case previous == 0:
		d.Reason = "journals are missing, or the beginning of one"
	case previous <= l.seen:
		d.Reason = fmt.Sprintf("journals behind generation %d are missing", l.seen)
	default: // names each loss differently
		d.File = journalPath(l.dir, previous)
		if d.Reason = "the journal is missing"; previous > l.seen+1 {
			d.Reason = fmt.Sprintf("journals are missing, from generation %d at the earliest to %d", l.seen+1, previous)
		}
	}
	l.reportLost(n, d)
	return nil
}

// judgeLast judges the last journal by the file of acknowledgements.
func (l *accounting) judgeLast() error {
	if l.ack.position > 0 {
		if err := l.reportUpTo(l.ack.position, l.ack.generation); err != nil {
			return err
		}
	}
	return l.judgeEnd(nil)
}

// judgeEnd judges the end of the previous journal: the next one begins at until, or nil if
// that is not known. It deletes the journal if nothing in it was whole.
func (l *accounting) judgeEnd(until *uint64) error {
	if l.before == nil {
		return nil
	}
	b := l.before
	l.before = nil
	l.judge(b, until)
	if b.account.applied > 0 {
		return nil
	}
	if err := l.acts.remove(b.journal); err != nil {
		return fmt.Errorf("empty journal: %w", err)
	}
	return nil
}

func (l *accounting) judge(b *pending, until *uint64) {
	acc := b.account
	lost, unknown := acc.lost, acc.unknown
	why, at := acc.damage, acc.damageAt
	if why == "" && lost > 0 {
		why = "definitions are missing"
	}
	tail := func(reason string) {
		if why == "" {
			why, at = reason, acc.tailAt
		}
	}
	switch {
	case until != nil && *until > acc.end:
		lost += *until - acc.end
		l.at = max(l.at, *until)
		tail("it ends before what was acknowledged does")
	case until == nil && acc.tailDamage != "":
		tail(acc.tailDamage)
		if acc.tailEntries < 0 {
			unknown = true
		} else {
			lost += uint64(acc.tailEntries)
			l.at += uint64(acc.tailEntries)
		}
	case acc.tail > 0:
		l.acts.torn(b.journal, acc.tail)
	}
	if why == "" {
		return
	}
	d := store.Damage{File: l.acts.setAside(b.journal.path, l.fs.PathBase(journalPath("", b.generation)), false), Reason: fmt.Sprintf("damaged at byte %d: %s", at, why), From: millis(acc.from), To: millis(acc.to)}
	if unknown {
		d.Lost, d.Observations, d.Found = fmt.Sprintf("observations of generation %d, how many is not known", b.generation), -1, l.now
		l.moved = true
		l.acts.damaged(d)
		return
	}
	l.reportLost(lost, d)
}

// reportLost reports that n acknowledged observations are lost.
func (l *accounting) reportLost(n uint64, d store.Damage) {
	d.Found, d.Observations = l.now, int64(n)
	l.moved = l.moved || n > 0
	l.acts.damaged(d)
}

// keyPosition is the key of the record of the position after the last generation that
// was put.
const keyPosition = 'j'

func positionRecord(p uint64) store.State {
	return store.State{Key: []byte{keyPosition}, Value: binary.LittleEndian.AppendUint64(nil, p)}
}
