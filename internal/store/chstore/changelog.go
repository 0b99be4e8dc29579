package chstore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"tailscope/internal/store"
)

// The table log is what decides between servers. ClickHouse has no compare-and-set, but a
// plain MergeTree has an order that all who read it agree on: a part gets its number and
// becomes visible in one step under one lock, so that numbers of parts are the order in
// which they became visible; the rows of equal key in a merged part stay in the order of
// the parts they came from. So a write is a row that is appended, and whoever reads the
// rows in that order and applies them one after the other comes to the same result:
// a write counts if each key is at the revision that it expects, when its turn comes.
//
// A row belongs to a kind, and to an era of it. Once an era is long, somebody appends a
// checkpoint: what all rows before it came to, with their number. It begins the next era
// if that number is right when its turn comes, else it is void. Rows of an earlier era
// that come later are void, and are written again by whoever finds that. So rows of earlier
// eras can be deleted, by a mutation, at any time later.
//
// A row that is sent twice, since nobody knows whether it arrived, has the same txn, and
// counts once. A checkpoint says what became of the rows of its era, for those who have
// sent one and read the log only after the row was deleted.

// txn identifies a row of the log.
type txn [16]byte

func newTxn() (t txn) {
	rand.Read(t[:]) // never fails
	return t
}

// Operations of a row of the log.
const (
	opWrite      = 0
	opCheckpoint = 1
)

// pastKey is the key of a checkpoint under which it has the outcomes of its era. Keys of
// records are not empty.
const pastKey = ""

// checkOnly stands for a value of metaKind: the key must be at the revision, and stays.
const checkOnly = "\x00"

// logged is a row of the log.
type logged struct {
	era      uint64
	txn      txn
	op       uint8
	keys     []string
	values   []string // an empty one deletes; see checkOnly
	ifs      []uint64 // of a write: expected revisions; of a checkpoint: revisions
	base     uint64   // of a checkpoint: the number of writes of the era before
	revision uint64   // of a checkpoint: the last one given

	first, last uint64 // numbers of the parts that its part was merged of, which order rows
}

// logs holds the kinds that were read.
type logs struct {
	mu    sync.Mutex
	kinds map[string]*kindLog
}

// kindLog is what the rows of a kind come to, as far as they were read.
type kindLog struct {
	kind string

	mu       sync.Mutex
	readAt   time.Time // when the last reading that succeeded began
	seen     uint64    // number of the last part of this era that was read
	era      uint64
	writes   uint64         // of the era, void ones included
	outcomes map[txn]uint64 // of the era: the revision of a write, or 0 if it is void
	past     map[txn]uint64 // of the era before, and of own rows of earlier ones
	awaited  txn            // the row that was sent last
	revision uint64
	records  map[string]store.Record
}

func (s *Store) log(kind string) *kindLog {
	s.logs.mu.Lock()
	defer s.logs.mu.Unlock()
	if s.logs.kinds == nil {
		s.logs.kinds = map[string]*kindLog{}
	}
	l := s.logs.kinds[kind]
	if l == nil {
		l = &kindLog{kind: kind, outcomes: map[txn]uint64{}, records: map[string]store.Record{}}
		s.logs.kinds[kind] = l
	}
	return l
}

// readLog reads what was appended since the last time. The caller holds l.mu.
func (s *Store) readLog(ctx context.Context, l *kindLog) error {
	began := time.Now()
	// One thread: the rows of a part come in their order.
	r, err := s.client.read(ctx, s.first(), `SELECT _part, era, txn, op, keys, vals, ifs, base, revision FROM `+s.qualified("log")+`
WHERE kind = `+quote(l.kind)+fmt.Sprintf(` AND era >= %d AND toUInt64(splitByChar('_', _part)[3]) > %d SETTINGS max_threads = 1`, l.era, l.seen))
	if err != nil {
		return err
	}
	var all []logged
	for r.next() {
		part := r.string()
		e := logged{era: r.uint64()}
		copy(e.txn[:], r.take(16))
		e.op, e.keys, e.values, e.ifs, e.base, e.revision = r.uint8(), r.strings(), r.strings(), r.uint64s(), r.uint64(), r.uint64()
		if r.err != nil {
			break
		}
		if e.first, e.last, err = blocksOf(part); err != nil {
			return err
		}
		if len(e.values) != len(e.keys) || len(e.ifs) != len(e.keys) {
			return fmt.Errorf("log of %s: %d keys, %d values: %w", l.kind, len(e.keys), len(e.values), store.ErrCorrupt)
		}
		all = append(all, e)
	}
	if r.err != nil {
		return fmt.Errorf("log of %s: %w", l.kind, r.err)
	}
	l.advance(all)
	l.readAt = began
	return nil
}

// advance applies rows: all of this era and later ones in parts that hold what was not
// read, those of a part in order.
func (l *kindLog) advance(all []logged) {
	slices.SortStableFunc(all, func(a, b logged) int { return cmp.Compare(a.first, b.first) })
	for i := range all {
		l.apply(&all[i], all[i+1:])
	}
	for i := range all {
		// The parts of earlier eras go, and their numbers may be given again after a restart.
		if all[i].era == l.era {
			l.seen = max(l.seen, all[i].last)
		}
	}
}

// blocksOf returns the numbers of the first and the last part that were merged into one, of
// its name: partition_first_last_level, with a mutation's number behind.
func blocksOf(part string) (first, last uint64, err error) {
	var level uint64
	i := bytes.IndexByte([]byte(part), '_')
	if i < 0 {
		return 0, 0, fmt.Errorf("part %q of the log: %w", part, store.ErrCorrupt)
	}
	if _, err := fmt.Sscanf(part[i:], "_%d_%d_%d", &first, &last, &level); err != nil {
		return 0, 0, fmt.Errorf("part %q of the log: %w: %w", part, err, store.ErrCorrupt)
	}
	return first, last, nil
}

// apply applies the next row; later are those after it.
func (l *kindLog) apply(e *logged, later []logged) {
	if e.op == opCheckpoint {
		l.checkpoint(e, later)
		return
	}
	if e.era != l.era {
		return
	}
	if _, again := l.outcomes[e.txn]; again {
		return
	}
	l.writes++
	for i, k := range e.keys {
		if e.ifs[i] != store.AnyRevision && e.ifs[i] != l.records[k].Revision {
			l.outcomes[e.txn] = 0
			return
		}
	}
	l.revision++
	l.outcomes[e.txn] = l.revision
	for i, k := range e.keys {
		switch v := e.values[i]; {
		case v == checkOnly && l.kind == metaKind:
		case v == "":
			delete(l.records, k)
		default:
			l.records[k] = store.Record{Key: k, Value: []byte(e.values[i]), Revision: l.revision}
		}
	}
}

// checkpoint begins the next era if e is right: if it counts all writes before it. If there
// are fewer, some have been deleted since, which is done only once a checkpoint is right. Of
// several it is the one that counts the most, as nobody counts writes that come after it.
func (l *kindLog) checkpoint(e *logged, later []logged) {
	if e.era <= l.era || l.writes > e.base && e.era == l.era+1 {
		return
	}
	for i := range later {
		if o := &later[i]; o.op == opCheckpoint && o.era == e.era && o.base > e.base {
			return
		}
	}
	l.era, l.writes, l.revision, l.seen = e.era, 0, e.revision, e.first
	awaited, known := l.outcome(l.awaited)
	clear(l.outcomes)
	clear(l.records)
	for i, k := range e.keys {
		if k == pastKey {
			l.past = decodeOutcomes(e.values[i])
			continue
		}
		l.records[k] = store.Record{Key: k, Value: []byte(e.values[i]), Revision: e.ifs[i]}
	}
	if known {
		l.past[l.awaited] = awaited
	}
}

// outcome returns what became of a row, as far as that is still known.
func (l *kindLog) outcome(t txn) (revision uint64, known bool) {
	if revision, known = l.outcomes[t]; !known {
		revision, known = l.past[t]
	}
	return revision, known
}

func encodeOutcomes(all map[txn]uint64) string {
	b := make([]byte, 0, 24*len(all))
	for t, revision := range all {
		b = appendUint64(append(b, t[:]...), revision)
	}
	return string(b)
}

func decodeOutcomes(s string) map[txn]uint64 {
	r := rows{b: []byte(s)}
	all := make(map[txn]uint64, len(s)/24+1)
	for r.next() {
		t := txn(r.take(16))
		all[t] = r.uint64()
	}
	return all
}

// logWrite is one key of a row.
type logWrite struct {
	key        string
	value      string // empty deletes; see checkOnly
	ifRevision uint64
}

// isConflict reports whether a write was void, as another came first.
func isConflict(err error) bool { return errors.Is(err, store.ErrConflict) }

// errUnsettled reports that a row came too late for its era, and is void.
var errUnsettled = errors.New("the log went on to another era")

// appendLog appends a write and returns its revision; the error wraps store.ErrConflict if it
// is void. l is read up to it. The caller holds l.mu.
func (s *Store) appendLog(ctx context.Context, l *kindLog, writes []logWrite) (uint64, error) {
	e := logged{op: opWrite}
	for _, w := range writes {
		e.keys, e.values, e.ifs = append(e.keys, w.key), append(e.values, w.value), append(e.ifs, w.ifRevision)
	}
	for {
		e.era, e.txn = l.era, newTxn()
		revision, err := s.settle(ctx, l, &e)
		if errors.Is(err, errUnsettled) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if l.writes >= s.eraWrites {
			// The write is done, whatever becomes of this.
			if err := s.checkpointLog(ctx, l); err != nil && ctx.Err() == nil {
				s.opts.Logger.Warn("the log is not shortened; a later write tries again", "kind", l.kind, "err", err)
			}
		}
		if revision == 0 {
			return 0, store.ErrConflict
		}
		return revision, nil
	}
}

// settle appends a row, reads the log up to it, and returns its outcome: a revision, or 0
// if it is void, and for a checkpoint.
func (s *Store) settle(ctx context.Context, l *kindLog, e *logged) (revision uint64, err error) {
	row := l.encode(e)
	late := false
	l.awaited = e.txn
	err = s.client.repeated(ctx, func() error {
		err := s.client.insert(ctx, s.first(), s.qualified("log"), columnsOf("log"), row)
		if err != nil && !passing(ctx, err) {
			return err
		}
		// An insertion that failed may have been done.
		if rerr := s.readLog(ctx, l); rerr != nil {
			return errors.Join(err, rerr)
		}
		var known bool
		if revision, known = l.outcome(e.txn); known {
			return nil
		}
		late = err == nil && e.op == opWrite
		return err
	})
	switch {
	case err != nil || !late:
		return revision, err
	case l.era == e.era+1:
		return 0, errUnsettled
	case l.era > e.era:
		return 0, fmt.Errorf("log of %s: the answer came after so many writes of others that it is not known whether this one counts", l.kind)
	}
	return 0, fmt.Errorf("log of %s: a row is not there after it was written: %w", l.kind, store.ErrCorrupt)
}

func (l *kindLog) encode(e *logged) []byte {
	b := appendString(nil, l.kind)
	b = appendUint64(b, e.era)
	b = append(append(b, e.txn[:]...), e.op)
	b = appendStrings(b, e.keys)
	b = appendStrings(b, e.values)
	b = appendUint64s(b, e.ifs)
	return appendUint64(appendUint64(b, e.base), e.revision)
}

// defaultEraWrites is the number of writes after which a checkpoint is made.
const defaultEraWrites = 300

// checkpointLog appends a checkpoint and, if it is right, deletes what it replaces.
func (s *Store) checkpointLog(ctx context.Context, l *kindLog) error {
	e := logged{op: opCheckpoint, era: l.era + 1, txn: newTxn(), base: l.writes, revision: l.revision,
		keys: []string{pastKey}, values: []string{encodeOutcomes(l.outcomes)}, ifs: []uint64{0}}
	for _, k := range slices.Sorted(maps.Keys(l.records)) {
		r := l.records[k]
		e.keys, e.values, e.ifs = append(e.keys, k), append(e.values, string(r.Value)), append(e.ifs, r.Revision)
	}
	if _, err := s.settle(ctx, l, &e); err != nil {
		return err
	}
	if l.era < e.era {
		return nil // somebody wrote in between
	}
	return s.client.exec(ctx, s.first(), "ALTER TABLE "+s.qualified("log")+" DELETE WHERE kind = "+quote(l.kind)+fmt.Sprintf(" AND era < %d", l.era))
}
