package pebblestore

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"

	"tailscope/internal/store"
)

// A manifest is the list of a database's tables: edits, each of which adds and removes
// tables. This file reads what Pebble writes for this store, which has neither virtual
// tables nor blob files nor range keys. Anything else is errManifestForm; then nothing
// is checked or repaired by the manifest.

// table is a table that the manifest lists.
type table struct {
	level uint64
	num   uint64
	size  int64
	keys  keyRange
	// smallest and largest sequence number
	minSeq, maxSeq uint64

	small, large []byte // of a table that replace adds: keys with kind and number
}

func (t *table) name() string { return fmt.Sprintf("%06d.sst", t.num) }

// manifest is the content of a manifest.
type manifest struct {
	path    string
	edits   [][]byte
	tables  map[uint64]*table // by number
	removed map[uint64]bool   // tables that were listed once
	minLog  uint64            // logs from this one on are not in tables
	next    uint64            // the next number of a file
	first   uint64            // likewise, when the manifest was begun
	lastSeq uint64            // the last one given out, in tables or not
	maxSeq  uint64            // the highest in any table ever listed
	// torn is the offset from which the file's end is invalid, or -1. damaged reports
	// that invalid bytes are in its middle.
	torn    int64
	damaged bool
}

var errManifestForm = errors.New("the manifest says what this program does not know")

// Tags of the fields of an edit, and of the fields of a new table.
const (
	editComparer    = 1
	editLogNumber   = 2
	editNextFile    = 3
	editLastSeq     = 4
	editDeleted     = 6
	editPrevLog     = 9
	editNewTable2   = 100
	editNewTable4   = 103
	customEnd       = 1
	customCompact   = 2
	customCreated   = 6
	customIgnorable = 1 << 6 // fields without this bit may be skipped
)

func readManifest(fsys vfs.FS, path string) (*manifest, error) {
	b, err := readWhole(fsys, path)
	if err != nil {
		return nil, err
	}
	return parseManifest(path, b)
}

func parseManifest(path string, b []byte) (*manifest, error) {
	m := &manifest{path: path, tables: map[uint64]*table{}, removed: map[uint64]bool{}, torn: -1}
	rs := readRecords(b, 0)
	m.torn, m.damaged = rs.tail, len(rs.damage) > 0
	for _, r := range rs.list {
		if r.after {
			break
		}
		if err := m.apply(r.payload); err != nil {
			return m, err
		}
	}
	return m, nil
}

// apply applies one edit.
func (m *manifest) apply(edit []byte) error {
	r := reader{b: edit}
	for len(r.b) > 0 && r.err == nil {
		switch tag := r.uvarint(); tag {
		case editComparer:
			if c := r.string(); r.err == nil && c != "leveldb.BytewiseComparator" {
				return fmt.Errorf("%w: comparer %q", errManifestForm, c)
			}
		case editLogNumber:
			m.minLog = r.uvarint()
		case editNextFile:
			m.next = r.uvarint()
			if len(m.edits) == 0 {
				m.first = m.next
			}
		case editLastSeq:
			m.lastSeq = r.uvarint()
		case editPrevLog:
			r.uvarint()
		case editDeleted:
			r.uvarint()
			num := r.uvarint()
			delete(m.tables, num)
			m.removed[num] = true
		case editNewTable2, editNewTable4:
			t := &table{level: r.uvarint(), num: r.uvarint(), size: int64(r.uvarint())}
			small, large := r.string(), r.string()
			t.minSeq, t.maxSeq = r.uvarint(), r.uvarint()
			if r.err != nil || len(small) < 8 || len(large) < 8 {
				return fmt.Errorf("edit of manifest: %w", store.ErrCorrupt)
			}
			t.keys = keyRange{[]byte(small[:len(small)-8]), []byte(large[:len(large)-8])}
			for tag == editNewTable4 && r.err == nil {
				field := r.uvarint()
				if field == customEnd {
					break
				}
				if field != customCompact && field != customCreated && field&customIgnorable != 0 {
					return fmt.Errorf("%w: field %d of a table", errManifestForm, field)
				}
				r.string()
			}
			m.tables[t.num] = t
			m.maxSeq = max(m.maxSeq, t.maxSeq)
			delete(m.removed, t.num)
		default:
			return fmt.Errorf("%w: tag %d", errManifestForm, tag)
		}
	}
	if r.err != nil {
		return fmt.Errorf("edit of manifest: %w", store.ErrCorrupt)
	}
	m.edits = append(m.edits, edit)
	return nil
}

// tornWithout describes a manifest with a torn end that misses tables.
func (m *manifest) tornWithout() string {
	return fmt.Sprintf("its end, from byte %d on, does not check, and tables are gone that it names before", m.torn)
}

// sorted returns the tables in order of number.
func (m *manifest) sorted() []*table {
	out := make([]*table, 0, len(m.tables))
	for _, t := range m.tables {
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b *table) int { return cmp.Compare(a.num, b.num) })
	return out
}

// nextNumber returns a number that no file in dir has.
func (m *manifest) nextNumber(fsys vfs.FS, dir string) (uint64, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return 0, fmt.Errorf("list data directory %s: %w", dir, err)
	}
	next := m.next
	for _, n := range names {
		if num, ok := fileNumber(n); ok {
			next = max(next, num+1)
		}
	}
	return next, nil
}

// lostLastSeq reports whether listed tables hold writes with higher numbers than the
// manifest gave out. Pebble writes both at once, so edits behind those of the tables are
// lost; and Pebble would neither show these writes nor keep new ones from taking their
// numbers.
func (m *manifest) lostLastSeq() bool { return m.lastSeq < m.maxSeq }

// withoutLastSeq describes the loss of edits behind those of the tables.
func (m *manifest) withoutLastSeq() string {
	return fmt.Sprintf("the list of the store's tables has lost its end: it names writes up to number %d, and its tables hold writes up to %d", m.lastSeq, m.maxSeq)
}

// replace writes a manifest of the same tables without lost and with added, and makes it
// the current one. The old one stays until Pebble no longer needs it.
func (m *manifest) replace(fsys vfs.FS, dir string, lost, added []*table) error {
	next, err := m.nextNumber(fsys, dir)
	if err != nil {
		return err
	}
	edit := binary.AppendUvarint(nil, editNextFile)
	edit = binary.AppendUvarint(edit, next+1)
	if m.lostLastSeq() {
		edit = binary.AppendUvarint(edit, editLastSeq)
		edit = binary.AppendUvarint(edit, m.maxSeq)
	}
	for _, t := range lost {
		edit = binary.AppendUvarint(edit, editDeleted)
		edit = binary.AppendUvarint(edit, t.level)
		edit = binary.AppendUvarint(edit, t.num)
	}
	for _, t := range added {
		edit = append(edit, editNewTable2)
		for _, n := range []uint64{t.level, t.num, uint64(t.size)} {
			edit = binary.AppendUvarint(edit, n)
		}
		for _, k := range [][]byte{t.small, t.large} {
			edit = append(binary.AppendUvarint(edit, uint64(len(k))), k...)
		}
		edit = binary.AppendUvarint(edit, t.minSeq)
		edit = binary.AppendUvarint(edit, t.maxSeq)
	}
	var b bytes.Buffer
	w := record.NewWriter(&b)
	for _, e := range append(slices.Clone(m.edits), edit) {
		if _, err := w.WriteRecord(e); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return placeManifest(fsys, dir, fmt.Sprintf("MANIFEST-%06d", next), b.Bytes())
}

// placeManifest writes a manifest and makes it the current one.
func placeManifest(fsys vfs.FS, dir, name string, content []byte) error {
	if content != nil {
		if err := writeWhole(fsys, fsys.PathJoin(dir, name), content); err != nil {
			return err
		}
	}
	return placeMarker(fsys, dir, "manifest", name)
}

func placeMarker(fsys vfs.FS, dir, marker, value string) error {
	m, _, err := atomicfs.LocateMarker(fsys, dir, marker)
	if err == nil {
		err = errors.Join(m.Move(value), m.Close())
	}
	if err != nil {
		return fmt.Errorf("place marker %s in %s: %w", marker, dir, classify(err))
	}
	return nil
}

// fileNumber returns the number in the name of one of Pebble's files.
func fileNumber(name string) (uint64, bool) {
	for _, p := range []string{"MANIFEST-", "OPTIONS-"} {
		name = strings.TrimPrefix(name, p)
	}
	name, _, _ = strings.Cut(name, ".")
	n, err := strconv.ParseUint(name, 10, 64)
	return n, err == nil
}

// logNumber returns the number in the name of one of Pebble's logs.
func logNumber(name string) (uint64, bool) {
	if !strings.HasSuffix(name, ".log") {
		return 0, false
	}
	return fileNumber(name)
}
