package pebblestore

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/store"
)

// A Finding is one fault of a store that is not running.
type Finding struct {
	store.Damage
	Repair string // the effect of Repair on it
}

// Report is the result of Examine.
type Report struct {
	ID       string    // of the store; empty without an identity file
	Created  time.Time // likewise
	Tables   int
	Bytes    int64 // of the tables
	Logs     int
	Findings []Finding
	// Starts reports whether a server starts on the store as it is.
	Starts bool

	manifest *manifest
	marker   string // the manifest that the marker should name
	rebuild  bool
	foreign  bool // the identity file is of another store
	known    bool // the identity file or the tables show that this is a store
	format   bool // the format file must be rewritten before anything starts
}

// Examine reads every file of a store that is not running, including every block of
// every table. It changes nothing.
func Examine(ctx context.Context, o Options) (*Report, error) {
	if err := o.ensureDefaults(); err != nil {
		return nil, err
	}
	lock, err := lockExisting(&o)
	switch {
	case err == nil:
		defer lock.Close()
	case !errors.Is(err, syscall.EROFS): // on a read-only file system nobody writes
		return nil, err
	}
	return examine(ctx, &o)
}

func lockExisting(o *Options) (*pebble.Lock, error) {
	if _, err := o.FS.Stat(o.Dir); err != nil {
		return nil, fmt.Errorf("store %s: %w", o.Dir, err)
	}
	return lockDirectory(o)
}

// lockDirectory keeps other processes out. The error is store.ErrLocked only if another
// process has it open.
func lockDirectory(o *Options) (*pebble.Lock, error) {
	lock, err := pebble.LockDirectory(o.Dir, o.FS)
	if err == nil {
		return lock, nil
	}
	for _, is := range []error{fs.ErrPermission, syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO} {
		if errors.Is(err, is) {
			return nil, fmt.Errorf("lock data directory %s: %w", o.Dir, classify(err))
		}
	}
	return nil, inUse(o, err)
}

func (r *Report) add(file, reason, lost, repair string) {
	r.Findings = append(r.Findings, Finding{store.Damage{Part: "store", File: file, Reason: reason, Lost: lost, Observations: -1, Found: time.Now()}, repair})
}

const rebuildRepair = "read every table and log that can be read into a new database; the old files go to damaged/"

func examine(ctx context.Context, o *Options) (*Report, error) {
	fsys, dir := o.FS, o.Dir
	r := &Report{Starts: true}
	names, err := fsys.List(dir)
	if err != nil {
		return nil, fmt.Errorf("list store %s: %w", dir, err)
	}
	at := func(name string) string { return fsys.PathJoin(dir, name) }
	switch b, err := readWhole(fsys, at(identityFile)); {
	case err == nil:
		if i, err := decodeIdentity(b); err != nil {
			r.add(at(identityFile), err.Error(), "", "it is written again at the next start")
		} else {
			r.ID, r.Created = fmt.Sprintf("%016x", i.id), i.created
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	format, err := readWhole(fsys, at(formatFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	tables, logs, manifests := dataFiles(names)
	r.Tables, r.Logs = tables, logs
	for _, n := range names {
		if strings.HasSuffix(n, ".sst") {
			if info, err := fsys.Stat(at(n)); err == nil {
				r.Bytes += info.Size()
			}
		}
	}
	if err := r.findManifest(o, names, manifests); err != nil {
		return nil, err
	}
	if err := r.examineTables(ctx, o, names); err != nil {
		return nil, err
	}
	switch other := otherFormat.Match(format); {
	case string(format) == formatContent:
	case !r.known:
		return nil, fmt.Errorf("%s: this is not a store of this version: %w (use the tailscope that wrote it)", at(formatFile), store.ErrVersion)
	case other || r.ID == "": // a start refuses it
		r.Starts, r.format = false, true
		why := "the format file is damaged or gone"
		if other {
			why = fmt.Sprintf("it says %q, and the tables are those of %q", strings.TrimSpace(string(format)), strings.TrimSpace(formatContent))
		}
		r.add(at(formatFile), why, "", "it goes to damaged/ and is written again: make sure that no other version of tailscope has written this store")
	default:
		r.add(at(formatFile), "the format file is damaged or gone", "", "it is written again, at the next start too")
	}
	switch owed, err := findMarker(fsys, dir, mendMarker); {
	case err != nil:
		return nil, err
	case owed != "":
		r.add(owed, "tables were left out, and the start that did it ended early", "", "series without labels get some that say so, at the next start too")
	}
	if _, err := fsys.Stat(at(rebuiltMark)); err == nil {
		r.Starts, r.rebuild = false, true
		r.add(at(rebuiltMark), "an earlier repair did not end", "", "it is ended")
	}
	return r, nil
}

// findManifest finds the manifest that lists the valid tables.
func (r *Report) findManifest(o *Options, names []string, manifests int) error {
	fsys, dir := o.FS, o.Dir
	desc, err := pebble.Peek(dir, fsys)
	if err == nil && desc.Exists {
		m, err := readManifest(fsys, desc.ManifestFilename)
		switch {
		case err == nil && !m.damaged && len(m.edits) > 0:
			r.manifest = m
			return nil
		case errors.Is(err, errManifestForm):
			return fmt.Errorf("%s: %w: use the tailscope that wrote it", desc.ManifestFilename, err)
		case errors.Is(err, fs.ErrNotExist):
			r.add(desc.ManifestFilename, "the manifest that lists the tables is missing", "", rebuildRepair)
		default:
			r.add(desc.ManifestFilename, "the manifest that lists the tables is damaged", "", rebuildRepair)
		}
		r.manifest, r.Starts, r.rebuild = m, false, true
		return nil
	}
	if r.ID == "" && r.Tables == 0 && r.Logs == 0 {
		return nil // a new store
	}
	r.Starts = false
	// The newest whole manifest is the one that the marker named.
	slices.Sort(names)
	for _, n := range slices.Backward(names) {
		if !strings.HasPrefix(n, "MANIFEST-") {
			continue
		}
		m, err := readManifest(fsys, fsys.PathJoin(dir, n))
		if err == nil && !m.damaged && m.torn < 0 && len(m.edits) > 0 {
			r.manifest, r.marker = m, n
		}
		break
	}
	if r.marker != "" {
		r.add(fsys.PathJoin(dir, "marker.manifest"), "the marker that names the manifest is missing", "", "name "+r.marker+", which is whole")
		return nil
	}
	r.rebuild = true
	r.add(fsys.PathJoin(dir, "marker.manifest"), fmt.Sprintf("the marker that names the manifest is missing, and of %d manifests the newest is not whole", manifests), "", rebuildRepair)
	return nil
}

func (r *Report) examineTables(ctx context.Context, o *Options, names []string) error {
	fsys, dir := o.FS, o.Dir
	m := r.manifest
	if m == nil {
		m = &manifest{tables: map[uint64]*table{}}
	}
	logs, err := readLogs(fsys, dir, names, m.minLog)
	if err != nil {
		return err
	}
	gone := logsGone{}
	if r.manifest != nil && !r.rebuild {
		if gone, err = findGone(fsys, dir, m, logs); err != nil {
			return err
		}
	}
	stored := storedID(fsys, dir, m, logs)
	r.known = r.ID != "" || stored != 0
	if r.ID != "" && r.manifest != nil {
		if id := fmt.Sprintf("%016x", stored); id != r.ID && stored != 0 {
			r.Starts, r.foreign = false, true
			r.add(fsys.PathJoin(dir, identityFile), "it is of another store: it says "+r.ID+", the tables say "+id, "",
				"it goes to damaged/ and is written again with the id of the tables: make sure that these are the tables you want, and the journals of the same server")
		}
	}
	for _, d := range damagedLogs(logs, gone) {
		why := d.reason
		if d.covered != "" {
			why += "; they held " + d.covered + ": nothing is lost"
		}
		r.add(fsys.PathJoin(dir, d.log.name), why, d.lost(),
			"what can be read is kept, at the next start too; generations of points are put again from their journals")
	}
	if r.rebuild {
		return nil
	}
	missing := false
	var families map[uint32]string
	for _, t := range m.sorted() {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := checkTable(ctx, fsys, dir, t, true)
		if err != nil {
			return err
		}
		if b == nil {
			continue
		}
		if _, err := checkTable(ctx, fsys, dir, t, false); err != nil {
			r.Starts = false // the disk does not return what every start reads
		}
		missing = missing || b.missing
		repair := "read what can be read of it into a new database; the old files go to damaged/"
		if b.missing {
			repair = "leave it out of the list, as the next start does"
		} else {
			r.rebuild = true
		}
		if families == nil {
			families = familyNames(fsys, dir, m, logs)
		}
		lost := "up to: " + t.keys.words(families) + t.keys.back()
		from, to := t.keys.times()
		if w := damagedBlocks(ctx, fsys, fsys.PathJoin(dir, t.name())); w != nil {
			lost, from, to = w.lost(families)
		}
		r.add(fsys.PathJoin(dir, t.name()), b.reason, lost, repair)
		f := &r.Findings[len(r.Findings)-1]
		f.From, f.To = from, to
	}
	if stray := strayTables(fsys, dir, names, m, logs, missing || gone.any()); len(stray) > 0 {
		r.Starts, r.rebuild = false, true
		r.add(m.path, lostEnd(stray, gone), "", rebuildRepair)
	} else if gone.any() {
		r.add(gone.path(fsys, dir), "a log of the store is missing: "+gone.words(), "marks, kept traces and records that were written to it alone",
			"what stands alone behind it is kept, at the next start too; generations of points are put again from their journals")
	} else if m.torn >= 0 && missing {
		r.Starts, r.rebuild = false, true
		r.add(m.path, m.tornWithout(), "", rebuildRepair)
	}
	if m.lostLastSeq() && !r.rebuild {
		r.add(m.path, m.withoutLastSeq(), "", "it is made whole, at the next start too")
	}
	return nil
}

// Repair repairs a store that is not running as Examine describes, and returns what
// Examine finds afterwards. It deletes nothing: what it replaces goes to o.DamagedDir.
func Repair(ctx context.Context, o Options) (*Report, error) {
	if err := o.ensureDefaults(); err != nil {
		return nil, err
	}
	if err := repairLocked(ctx, &o); err != nil {
		return nil, err
	}
	// Mend now what a start would mend.
	s, err := Open(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	return Examine(ctx, o)
}

func repairLocked(ctx context.Context, o *Options) error {
	lock, err := lockExisting(o)
	if err != nil {
		return err
	}
	defer lock.Close()
	r, err := examine(ctx, o)
	if err == nil && r.foreign {
		_, err = keptAside{fs: o.FS, dir: o.DamagedDir}.move(o.FS.PathJoin(o.Dir, identityFile))
	}
	if err == nil && r.format {
		err = rewriteFormat(o)
	}
	switch {
	case err != nil:
		return err
	case r.rebuild:
		if err := rebuild(ctx, o, r.manifest); err != nil {
			return fmt.Errorf("rebuild %s: %w", o.Dir, err)
		}
	case r.marker != "":
		return placeManifest(o.FS, o.Dir, r.marker, nil)
	}
	return nil
}

// rewriteFormat sets the format file aside and writes it again.
func rewriteFormat(o *Options) error {
	path := o.FS.PathJoin(o.Dir, formatFile)
	_, err := o.FS.Stat(path)
	if err == nil {
		_, err = keptAside{fs: o.FS, dir: o.DamagedDir}.move(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return writeWhole(o.FS, path, []byte(formatContent))
}

// A rebuilt database is written beside the old files, then these are moved away, then it
// takes their place. The mark exists from its completion to the end, so that an
// interrupted rebuild continues.
const (
	rebuildDir  = "rebuild.tmp"
	rebuiltMark = "REBUILT"
)

func isPebbles(name string) bool {
	for _, p := range []string{"MANIFEST-", "OPTIONS-", "marker.", logsFile} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".log")
}

// rebuild reads every table and log into a new database. The newest write of each key
// counts, by sequence number. m is what can be read of the manifest: a table that it
// removed does not count. Where it cannot be read, a table that was about to be deleted
// may bring back keys whose deletion is already dropped.
func rebuild(ctx context.Context, o *Options, m *manifest) error {
	fsys, dir := o.FS, o.Dir
	fresh := fsys.PathJoin(dir, rebuildDir)
	mark := fsys.PathJoin(dir, rebuiltMark)
	if _, err := fsys.Stat(mark); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := fsys.RemoveAll(fresh); err != nil {
			return err
		}
		if err := rebuildInto(ctx, o, m, fresh); err != nil {
			return err
		}
		// List the old files: those of the new database may have the same names.
		names, err := fsys.List(dir)
		if err != nil {
			return err
		}
		names = slices.DeleteFunc(names, func(n string) bool { return !isPebbles(n) })
		if err := writeWhole(fsys, mark, []byte(strings.Join(names, "\n"))); err != nil {
			return err
		}
	}
	b, err := readWhole(fsys, mark)
	if err != nil {
		return err
	}
	aside := keptAside{fs: fsys, dir: o.DamagedDir}
	moved, err := fsys.List(fresh)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// The marker is moved first and placed last: without it nothing starts.
	slices.SortFunc(moved, func(a, b string) int {
		return cmp.Or(cmp.Compare(markerLast(a), markerLast(b)), cmp.Compare(a, b))
	})
	for _, n := range strings.Fields(string(b)) {
		path := fsys.PathJoin(dir, n)
		_, err := fsys.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // already moved
		}
		if _, err := aside.move(path); err != nil {
			return err
		}
	}
	// From here on the files in the directory are new.
	if err := writeWhole(fsys, mark, nil); err != nil {
		return err
	}
	for _, n := range moved {
		if !isPebbles(n) {
			continue
		}
		if err := fsys.Rename(fsys.PathJoin(fresh, n), fsys.PathJoin(dir, n)); err != nil {
			return err
		}
	}
	if err := errors.Join(syncDir(fsys, dir), fsys.RemoveAll(fresh)); err != nil {
		return err
	}
	return errors.Join(fsys.Remove(mark), syncDir(fsys, dir))
}

func markerLast(name string) int {
	if strings.HasPrefix(name, "marker.manifest") {
		return 1
	}
	return 0
}

func rebuildInto(ctx context.Context, o *Options, m *manifest, fresh string) error {
	fsys, dir := o.FS, o.Dir
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	var all merged
	defer all.close()
	for _, n := range names {
		num, ok := fileNumber(n)
		if !ok || !strings.HasSuffix(n, ".sst") || m != nil && m.removed[num] {
			continue
		}
		if err := all.addTable(ctx, fsys, fsys.PathJoin(dir, n), num); err != nil && !unreadable(err) {
			return err
		}
	}
	// The content of earlier logs is in tables, or was deleted since. What can be read
	// of the manifest is valid.
	least := uint64(0)
	if m != nil {
		least = m.minLog
	}
	logs, err := readLogs(fsys, dir, names, least)
	if err != nil {
		return err
	}
	all.addLogs(logs)
	d := &damage{log: o.Logger, aside: keptAside{fs: fsys, dir: o.DamagedDir}}
	cache := pebble.NewCache(o.CacheBytes)
	defer cache.Unref()
	into := *o
	into.Dir = fresh
	if err := fsys.MkdirAll(fresh, 0o700); err != nil {
		return err
	}
	po := pebbleOptions(&into, nil, cache, d)
	po.ErrorIfExists = true
	db, err := pebble.Open(fresh, po)
	if err != nil {
		return err
	}
	err = all.each(ctx, db)
	if err == nil {
		err = db.Flush()
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	return oweMend(fsys, fresh)
}

// source is one table or one log, in order of key.
type source struct {
	entryOf
	num   uint64 // of the table; that of a log is the highest
	next  func() bool
	err   func() error // that ended it early, other than damage; may be nil
	close func() error
}

// merged merges sources in order of key, the newest write of a key first.
type merged struct {
	open []*source
	heap []*source
	dels []entryOf
}

func (m *merged) Len() int { return len(m.heap) }
func (m *merged) Less(i, j int) bool {
	a, b := m.heap[i], m.heap[j]
	// Pebble drops the numbers of writes at the bottom: of two such, the newer table's
	// is the newer.
	return cmp.Or(bytes.Compare(a.key, b.key), cmp.Compare(b.seq, a.seq), cmp.Compare(b.num, a.num)) < 0
}
func (m *merged) Swap(i, j int) { m.heap[i], m.heap[j] = m.heap[j], m.heap[i] }
func (m *merged) Push(x any)    { m.heap = append(m.heap, x.(*source)) }
func (m *merged) Pop() any {
	s := m.heap[len(m.heap)-1]
	m.heap = m.heap[:len(m.heap)-1]
	return s
}

func (m *merged) add(s *source) {
	m.open = append(m.open, s)
	if s.next() {
		heap.Push(m, s)
	}
}

func (m *merged) close() {
	for _, s := range m.open {
		if s.close != nil {
			s.close()
		}
	}
}

// addTable adds what can be read of a table.
func (m *merged) addTable(ctx context.Context, fsys vfs.FS, path string, num uint64) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = pebble.ErrCorruption
		}
	}()
	r, err := openTable(ctx, fsys, path)
	if err != nil {
		return err
	}
	dels, err := r.NewRawRangeDelIter(ctx, sstable.NoFragmentTransforms, sstable.NoReadEnv)
	if err == nil && dels != nil {
		span, derr := dels.First()
		for ; span != nil && derr == nil; span, derr = dels.Next() {
			for _, k := range span.Keys {
				m.dels = append(m.dels, entryOf{key: bytes.Clone(span.Start), end: bytes.Clone(span.End), seq: uint64(k.SeqNum())})
			}
		}
		dels.Close()
	}
	w, err := walkTable(ctx, r)
	if err != nil {
		return errors.Join(err, r.Close())
	}
	s := &source{num: num, err: func() error { return w.err }, close: func() error { return errors.Join(w.it.Close(), r.Close()) }}
	s.next = func() bool {
		e, _, ok := w.next()
		s.entryOf = e
		return ok
	}
	m.add(s)
	return nil
}

// addLogs adds the writes of the logs that repairLogs would keep.
func (m *merged) addLogs(logs []*walLog) {
	sv, damaged := newSalvage(logs), damagedLogs(logs, logsGone{})
	after := false
	var all []entryOf
	for _, l := range logs {
		for _, r := range l.records.list {
			after = after || r.after
			if !sv.keep(r.payload, after) {
				continue
			}
			h, _ := batchrepr.ReadHeader(r.payload)
			seq := uint64(h.SeqNum)
			br := batchrepr.Read(r.payload)
			for {
				kind, key, value, ok, err := br.Next()
				if !ok || err != nil {
					break
				}
				if kind == pebble.InternalKeyKindLogData {
					continue
				}
				e := entryOf{key: key, value: value, seq: seq, kind: kind}
				seq++
				if kind == pebble.InternalKeyKindRangeDelete {
					e.end = value
					m.dels = append(m.dels, e)
					continue
				}
				all = append(all, e)
			}
		}
		after = after || slices.ContainsFunc(damaged, func(d logDamage) bool { return d.log == l })
	}
	slices.SortFunc(all, func(a, b entryOf) int {
		return cmp.Or(bytes.Compare(a.key, b.key), cmp.Compare(b.seq, a.seq))
	})
	s := &source{num: math.MaxUint64}
	s.next = func() bool {
		if len(all) == 0 {
			return false
		}
		s.entryOf, all = all[0], all[1:]
		return true
	}
	m.add(s)
}

// each writes every live key to a database.
func (m *merged) each(ctx context.Context, db *pebble.DB) error {
	wb := db.NewBatch()
	defer func() { wb.Close() }()
	var last []byte
	first := true
	for len(m.heap) > 0 {
		s := m.heap[0]
		if first || !bytes.Equal(s.key, last) {
			first, last = false, append(last[:0], s.key...)
			switch s.kind {
			case pebble.InternalKeyKindSet, pebble.InternalKeyKindSetWithDelete:
				if !m.deleted(s.key, s.seq) {
					if err := wb.Set(s.key, s.value, nil); err != nil {
						return err
					}
				}
			}
			if wb.Len() > 1<<20 {
				if err := errors.Join(ctx.Err(), wb.Commit(pebble.NoSync)); err != nil {
					return err
				}
				wb.Close()
				wb = db.NewBatch()
			}
		}
		if s.next() {
			heap.Fix(m, 0)
		} else {
			heap.Pop(m)
		}
	}
	for _, s := range m.open {
		if s.err == nil {
			continue
		}
		if err := s.err(); err != nil {
			return fmt.Errorf("read table %06d.sst: %w", s.num, err)
		}
	}
	return wb.Commit(pebble.NoSync)
}

func (m *merged) deleted(key []byte, seq uint64) bool {
	for i := range m.dels {
		if d := &m.dels[i]; d.seq > seq && bytes.Compare(d.key, key) <= 0 && bytes.Compare(key, d.end) < 0 {
			return true
		}
	}
	return false
}
