package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/store"
)

// A badTable is a listed table that cannot be read.
type badTable struct {
	*table
	reason  string
	missing bool
}

// checkTable checks a table's size, its footer and its index, and with blocks the
// checksum of every block.
func checkTable(ctx context.Context, fsys vfs.FS, dir string, t *table, blocks bool) (bad *badTable, err error) {
	path := fsys.PathJoin(dir, t.name())
	info, err := fsys.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &badTable{t, "the table is missing", true}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at table %s: %w", path, err)
	}
	if info.Size() != t.size {
		return &badTable{t, fmt.Sprintf("the table has %d bytes, the manifest says %d", info.Size(), t.size), false}, nil
	}
	if err := readTable(ctx, fsys, path, blocks); err != nil {
		// A start does not drop what a disk fails to return for now: it is refused.
		if !pebble.IsCorruptionError(err) && !(blocks && unreadable(err)) {
			return nil, fmt.Errorf("read table %s: %w (%s)", path, err, doctorHint)
		}
		// Pebble knows the number of the table only if it opened it itself.
		why := strings.ReplaceAll(oneLine("%v", []any{err}), " 000000", " "+t.name())
		return &badTable{t, why, false}, nil
	}
	return nil, nil
}

// unreadable reports whether a file is damaged, or its disk does not return it.
func unreadable(err error) bool { return pebble.IsCorruptionError(err) || errors.Is(err, syscall.EIO) }

// readTable reads a table's footer and index, and with blocks its blocks.
func readTable(ctx context.Context, fsys vfs.FS, path string, blocks bool) (err error) {
	defer func() {
		// Pebble does not check all that it reads.
		if p := recover(); p != nil {
			err = pebble.ErrCorruption
		}
	}()
	r, err := openTable(ctx, fsys, path)
	if err != nil {
		return err
	}
	defer r.Close()
	if _, err = r.Layout(); err == nil && blocks {
		err = r.ValidateBlockChecksums()
	}
	return err
}

var readerOptions = func() sstable.ReaderOptions {
	var o pebble.Options
	o.EnsureDefaults()
	return o.MakeReaderOptions()
}()

func openTable(ctx context.Context, fsys vfs.FS, path string) (*sstable.Reader, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r, err := sstable.NewReader(ctx, readable, readerOptions)
	if err != nil {
		return nil, errors.Join(err, readable.Close())
	}
	return r, nil
}

// errManifest is wrapped by the refusal of a directory whose manifest is damaged, so
// that the valid tables are not known.
var errManifest = errors.New("the list of its tables is damaged")

// checkFiles reads the manifest, checks every table and the logs, and sets damaged ones
// aside so that Pebble opens the rest. It refuses a manifest that does not determine the
// valid tables.
func (s *Store) checkFiles(ctx context.Context, found *start) error {
	fsys, dir := s.opts.FS, s.opts.Dir
	refuse := func(path, why string) error {
		return fmt.Errorf("%s: %s: %w: %w (%s)", path, why, store.ErrCorrupt, errManifest, doctorHint)
	}
	m, err := readManifest(fsys, found.manifest)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refuse(found.manifest, "the marker names it, and it is not there")
	case errors.Is(err, errManifestForm):
		s.opts.Logger.Warn("tables are not checked at this start", "manifest", found.manifest, "error", err)
		return nil
	case err != nil:
		return refuse(found.manifest, err.Error())
	case m.damaged:
		return refuse(found.manifest, "records in its middle do not check")
	case len(m.edits) == 0:
		return refuse(found.manifest, "its first record does not check")
	}
	var bad []*badTable
	missing := 0
	for _, t := range m.sorted() {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := checkTable(ctx, fsys, dir, t, false)
		if err != nil {
			return err
		}
		if b != nil {
			bad = append(bad, b)
			if b.missing {
				missing++
			}
		}
	}
	logs, err := readLogs(fsys, dir, found.names, m.minLog)
	if err != nil {
		return err
	}
	if err := roomForLogs(fsys, dir, logs); err != nil {
		return err
	}
	// A last edit that was being written when the machine stopped has removed no file
	// yet, and the content of its tables is in others or in the logs. An edit that was
	// whole, and is damaged or cut off, shows by missing or surplus files. Missing logs
	// show nothing: at a start Pebble puts the writes of the logs into tables, deletes
	// the logs, and only then begins the next.
	gone, err := findGone(fsys, dir, m, logs)
	if err != nil {
		return err
	}
	stray := strayTables(fsys, dir, found.names, m, logs, missing > 0 || gone.any())
	switch {
	case m.torn >= 0 && missing > 0:
		return refuse(found.manifest, m.tornWithout())
	case len(stray) > 0:
		return refuse(found.manifest, lostEnd(stray, gone))
	}
	if err := s.repairLogs(logs, gone); err != nil {
		return err
	}
	if err := syncLogs(fsys, dir, logs); err != nil {
		return err
	}
	_, written := seqRange(logs)
	if err := s.checkOptions(found.names, len(m.tables) > 0 || written > 0); err != nil {
		return err
	}
	if m.lostLastSeq() {
		return s.replaceCut(found, m, bad)
	}
	return s.dropTables(m, bad)
}

// replaceCut replaces a manifest that lost edits without effect on tables and logs by a
// whole one.
func (s *Store) replaceCut(found *start, m *manifest, bad []*badTable) error {
	kept, err := s.damage.aside.copy(found.manifest)
	if err != nil {
		return err
	}
	s.damage.add(store.Damage{File: kept, Reason: m.withoutLastSeq() + "; it is made whole"})
	if len(bad) > 0 {
		return s.dropTables(m, bad)
	}
	return m.replace(s.opts.FS, s.opts.Dir, nil, nil)
}

// lostEnd describes the evidence that a manifest has lost edits, or a log is missing.
func lostEnd(stray []string, gone logsGone) string {
	why := "it has lost its end: it does not list " + strings.Join(stray, ", ")
	if gone.any() {
		why += ", and " + gone.words()
	}
	return why
}

// checkOptions moves aside a file of options that Pebble would not open with, and places
// a lost marker of the format. Neither affects the data: this store is always written in
// the newest format, with the same options.
func (s *Store) checkOptions(names []string, used bool) error {
	fsys, dir := s.opts.FS, s.opts.Dir
	newest, format := "", false
	for _, n := range names {
		if strings.HasPrefix(n, "OPTIONS-") {
			newest = max(newest, n)
		}
		format = format || strings.HasPrefix(n, "marker.format-version.")
	}
	if !format && used { // without data it is an unfinished creation
		s.damage.add(store.Damage{File: fsys.PathJoin(dir, "marker.format-version"), Reason: "the marker of the format is missing; it is placed again"})
		if err := placeMarker(fsys, dir, "format-version", pebble.FormatNewest.String()); err != nil {
			return err
		}
	}
	if newest == "" {
		return nil
	}
	path := fsys.PathJoin(dir, newest)
	b, err := readWhole(fsys, path)
	if err != nil {
		return err
	}
	var o pebble.Options
	o.EnsureDefaults()
	why := o.CheckCompatibility(dir, string(b))
	if why == nil {
		return nil
	}
	to, err := s.damage.aside.move(path)
	if err != nil {
		return err
	}
	s.damage.add(store.Damage{File: to, Reason: "the file of options does not read: " + oneLine("%v", []any{why})})
	return nil
}

// highestSeq returns the highest sequence number in a table.
func highestSeq(fsys vfs.FS, path string) (highest uint64, err error) {
	err = eachOfTable(fsys, path, func(e entryOf) error {
		highest = max(highest, e.seq)
		return nil
	})
	return highest, err
}

// entryOf is one write in a table. A range deletion covers the keys from key up
// to end, exclusive.
type entryOf struct {
	key, value, end []byte
	seq             uint64
	kind            pebble.InternalKeyKind
}

// eachOfTable calls yield for every write in a table, range deletions first,
// then in order of key, the newest of a key first. The slices are valid during
// the call.
func eachOfTable(fsys vfs.FS, path string, yield func(entryOf) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = pebble.ErrCorruption
		}
	}()
	ctx := context.Background()
	r, err := openTable(ctx, fsys, path)
	if err != nil {
		return err
	}
	defer r.Close()
	dels, err := r.NewRawRangeDelIter(ctx, sstable.NoFragmentTransforms, sstable.NoReadEnv)
	if err != nil {
		return err
	}
	if dels != nil {
		defer dels.Close()
		span, err := dels.First()
		for ; span != nil && err == nil; span, err = dels.Next() {
			for _, k := range span.Keys {
				if err := yield(entryOf{key: span.Start, end: span.End, seq: uint64(k.SeqNum()), kind: k.Kind()}); err != nil {
					return err
				}
			}
		}
		if err != nil {
			return err
		}
	}
	it, err := r.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		return err
	}
	defer it.Close()
	for kv := it.First(); kv != nil; kv = it.Next() {
		v, _, err := kv.Value(nil)
		if err != nil {
			return err
		}
		if err := yield(entryOf{key: kv.K.UserKey, value: v, seq: uint64(kv.K.SeqNum()), kind: kv.K.Kind()}); err != nil {
			return err
		}
	}
	return it.Error()
}

// dropTables moves tables aside and removes them from the manifest. It moves a table first:
// Pebble deletes one that no manifest lists.
func (s *Store) dropTables(m *manifest, bad []*badTable) error {
	if len(bad) == 0 {
		return nil
	}
	fsys, dir := s.opts.FS, s.opts.Dir
	if err := oweMend(fsys, dir); err != nil {
		return err
	}
	var lost []*table
	names := familyNames(fsys, dir, m, nil)
	for _, b := range bad {
		lost = append(lost, b.table)
		path := fsys.PathJoin(dir, b.name())
		d := store.Damage{File: path, Reason: b.reason, Lost: b.keys.words(names) + b.keys.back(), Observations: -1}
		d.From, d.To = b.keys.times()
		if !b.missing {
			to, err := s.damage.aside.move(path)
			if err != nil {
				return err
			}
			d.File = to
		}
		s.damage.add(d)
	}
	return m.replace(fsys, dir, lost, nil)
}

// dropUnreadable removes from the list the tables that were found damaged while reading
// what every start reads, and reports whether there were any. It keeps what can be read
// of them.
func (s *Store) dropUnreadable() (bool, error) {
	m, err := readCurrent(s.opts.FS, s.opts.Dir)
	if err != nil {
		return false, err
	}
	found := false
	for _, d := range s.damage.takeInPlace() {
		name := s.opts.FS.PathBase(d.File)
		num, ok := fileNumber(name)
		if t := m.tables[num]; ok && t != nil && t.name() == name {
			found = true
			if err := s.salvageTable(m, t, d.Reason); err != nil {
				return true, err
			}
			if m, err = readCurrent(s.opts.FS, s.opts.Dir); err != nil {
				return true, err
			}
		}
	}
	return found, nil
}
