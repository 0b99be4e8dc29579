package pebblestore

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/store"
)

// The identity file marks a directory as a store, and holds its id and the time of its
// creation:
//
//	tailscope store 1
//	id 6f0c8d21a55be917
//	created 2026-11-23T14:40:00Z
//	crc32c 1d0f7a2c
//
// The checksum is that of the lines before it. The store keeps the id in its meta table
// too. The server that the directory belongs to writes under that id (Store.Writer). The
// file is written after the database is created, so a directory with an identity and
// without a database has lost it.
const (
	identityFile   = "IDENTITY"
	identityFormat = 1
)

var crcTable = crc32.MakeTable(crc32.Castagnoli)

type identity struct {
	format  int
	id      uint64
	created time.Time
}

var metaIdentity = []byte{tableMeta, 'i', 0}

func newIdentity(now time.Time) identity {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return identity{identityFormat, binary.BigEndian.Uint64(b[:]), now.UTC().Truncate(time.Second)}
}

func (i identity) encode() []byte {
	b := fmt.Appendf(nil, "tailscope store %d\nid %016x\ncreated %s\n", i.format, i.id, i.created.Format(time.RFC3339))
	return fmt.Appendf(b, "crc32c %08x\n", crc32.Checksum(b, crcTable))
}

var errIdentity = errors.New("not an identity file, or damaged")

func decodeIdentity(b []byte) (i identity, err error) {
	var created string
	var sum uint32
	n, err := fmt.Sscanf(string(b), "tailscope store %d\nid %x\ncreated %s\ncrc32c %x\n", &i.format, &i.id, &created, &sum)
	if err != nil || n != 4 {
		return i, errIdentity
	}
	if i.created, err = time.Parse(time.RFC3339, created); err != nil || string(i.encode()) != string(b) {
		return i, errIdentity
	}
	return i, nil
}

// start is the state of a store's directory at its start.
type start struct {
	names    []string
	identity *identity // nil if there is none, or it is damaged
	fresh    bool      // there is no database yet
	manifest string    // path of the current manifest
}

// dataFiles counts the files that hold data, or list files that do.
func dataFiles(names []string) (tables, logs, manifests int) {
	for _, n := range names {
		switch {
		case strings.HasSuffix(n, ".sst"):
			tables++
		case strings.HasSuffix(n, ".log"):
			logs++
		case strings.HasPrefix(n, "MANIFEST-"):
			manifests++
		}
	}
	return tables, logs, manifests
}

// errNoManifest is wrapped by the refusal of a directory that holds data and has no list
// of its tables: Pebble would take it for a new one, and delete them.
var errNoManifest = errors.New("the list of its tables is missing")

const doctorHint = "nothing has been changed; tailscope doctor --data DIR explains, and --repair puts it in order"

// inspect reads the identity and the format, and refuses a directory that a
// database must not be created in.
func inspect(fsys vfs.FS, dir string, aside keptAside, d *damage) (st start, err error) {
	if st.names, err = fsys.List(dir); err != nil {
		return st, fmt.Errorf("list data directory %s: %w", dir, err)
	}
	if slices.Contains(st.names, rebuiltMark) {
		return st, fmt.Errorf("data directory %s: %w: %w (a repair of it did not end: tailscope doctor --repair goes on with it)", dir, store.ErrCorrupt, errNoManifest)
	}
	path := fsys.PathJoin(dir, identityFile)
	switch b, err := readWhole(fsys, path); {
	case err == nil:
		i, err := decodeIdentity(b)
		if err != nil {
			to, err := aside.move(path)
			if err != nil {
				return st, err
			}
			d.add(store.Damage{File: to, Reason: "the identity file does not decode", Lost: ""})
			break
		}
		if i.format != identityFormat {
			return st, fmt.Errorf("%s says format %d, this program knows %d: %w (use the tailscope that wrote it, or another directory)",
				path, i.format, identityFormat, store.ErrVersion)
		}
		st.identity = &i
	case !errors.Is(err, fs.ErrNotExist):
		return st, fmt.Errorf("read %s: %w", path, classify(err))
	}
	desc, err := pebble.Peek(dir, fsys)
	if err != nil {
		return st, fmt.Errorf("data directory %s: %w: %v (%s)", dir, store.ErrCorrupt, err, doctorHint)
	}
	if desc.Exists {
		st.manifest = desc.ManifestFilename
		return st, nil
	}
	tables, logs, manifests := dataFiles(st.names)
	// Pebble writes a manifest before it places the marker that names it, and its first
	// log after that: a lone manifest is an unfinished creation.
	if st.identity == nil && tables == 0 && logs == 0 {
		st.fresh = true
		return st, nil
	}
	return st, fmt.Errorf("data directory %s holds %d tables, %d logs and %d manifests, but no marker.manifest file: %w: %w (%s)",
		dir, tables, logs, manifests, store.ErrCorrupt, errNoManifest, doctorHint)
}

// identify compares the identity file with the store's id, and creates both in a
// directory that has none yet.
func (s *Store) identify(found *identity) error {
	id, err := s.id()
	if err != nil {
		return err
	}
	if found != nil && id == found.id {
		s.own = ownWriter(id, s.writers)
		return nil
	}
	if found != nil && id != 0 {
		return fmt.Errorf("the files are those of two stores: %s says %016x, the tables say %016x: %w (put back all files of one of them)",
			identityFile, found.id, id, store.ErrCorrupt)
	}
	if found == nil {
		i := newIdentity(time.Now())
		switch {
		case id == 0 && s.opts.ID != 0:
			i.id = s.opts.ID
		case id != 0:
			i.id = id
			s.opts.Logger.Warn("the identity file of the store was missing; it is written again", "id", fmt.Sprintf("%016x", id))
		}
		found = &i
	}
	if id == 0 {
		if err := s.db.Set(metaIdentity, binary.BigEndian.AppendUint64(nil, found.id), pebble.Sync); err != nil {
			return classify(err)
		}
	}
	s.own = ownWriter(found.id, s.writers)
	return writeWhole(s.opts.FS, s.opts.FS.PathJoin(s.opts.Dir, identityFile), found.encode())
}

// id returns the id in the tables, or 0 if there is none.
func (s *Store) id() (uint64, error) {
	v, closer, err := s.db.Get(metaIdentity)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, classify(err)
	}
	id := uint64(0)
	if len(v) == 8 {
		id = binary.BigEndian.Uint64(v)
	}
	return id, closer.Close()
}

// oldWriter is the writer's name that older versions used in every directory.
const oldWriter = "local"

// Writer returns the name under which the server of the directory puts its generations:
// the id of the directory, which is random and never changes, not even in a copy. A
// directory in which an older version has written keeps the name "local": under another
// one, journals that are stored would count again. It never changes while the store is
// open.
func (s *Store) Writer() string { return s.own }

// ownWriter returns the writer's name of a directory with the id. If the id was lost and
// made anew, the name in use stays.
func ownWriter(id uint64, writers map[string]*writer) string {
	if writers[oldWriter] != nil {
		return oldWriter
	}
	own := fmt.Sprintf("%016x", id)
	if writers[own] != nil {
		return own
	}
	var others []string
	for name, w := range writers {
		if isWriterID(name) && w.points {
			others = append(others, name)
		}
	}
	if len(others) == 1 {
		return others[0]
	}
	return own
}

// isWriterID reports whether a name is one that Writer returns.
func isWriterID(name string) bool {
	if len(name) != 16 {
		return false
	}
	_, err := strconv.ParseUint(name, 16, 64)
	return err == nil
}

// storedID returns the id in the tables and logs of a store that is not running, or 0 if
// none of the readable ones holds it. It is written only once.
func storedID(fsys vfs.FS, dir string, m *manifest, logs []*walLog) uint64 {
	id := uint64(0)
	eachStored(fsys, dir, m, logs, metaIdentity, func(key, value []byte) {
		if bytes.Equal(key, metaIdentity) && len(value) == 8 {
			id = binary.BigEndian.Uint64(value)
		}
	})
	return id
}

// eachStored calls yield for the writes of a store that is not running whose keys have a
// prefix: those of tables first, then those of logs, deleted ones too. It skips what
// cannot be read, which an examination of the files reports.
func eachStored(fsys vfs.FS, dir string, m *manifest, logs []*walLog, prefix []byte, yield func(key, value []byte)) {
	end := prefixEnd(prefix)
	for _, t := range m.sorted() {
		if bytes.Compare(t.keys.from, end) >= 0 || bytes.Compare(t.keys.to, prefix) < 0 {
			continue
		}
		_ = eachOfTable(fsys, fsys.PathJoin(dir, t.name()), func(e entryOf) error {
			if bytes.Compare(e.key, end) >= 0 && e.end == nil {
				return errEnough
			}
			if bytes.HasPrefix(e.key, prefix) && e.end == nil {
				yield(e.key, e.value)
			}
			return nil
		})
	}
	for _, l := range logs {
		for _, r := range l.records.list {
			br := batchrepr.Read(r.payload)
			for {
				_, key, value, ok, err := br.Next()
				if !ok || err != nil {
					break
				}
				if bytes.HasPrefix(key, prefix) {
					yield(key, value)
				}
			}
		}
	}
}

// errEnough ends the reading of a table.
var errEnough = errors.New("enough")
