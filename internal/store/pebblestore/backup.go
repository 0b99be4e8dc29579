package pebblestore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/store"
)

// BackupFile is a file of a backup.
type BackupFile struct {
	Name string `json:"name"` // path in the data directory, with slashes
	// At is the file's path in the backup, if it differs from Name.
	At     string `json:"at,omitempty"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	// Keys counts the writes in a table, by what they are about.
	Keys map[string]int64 `json:"keys,omitempty"`
}

// Path returns the file's path in the backup, with slashes.
func (f BackupFile) Path() string { return cmp.Or(f.At, f.Name) }

// BackupTo is the destination of Backup.
type BackupTo struct {
	Dir  string // directory of the backup
	Part string // the store's name in the data directory, and the directory of its tables in the backup
	Run  string // directory in the backup for what only this run writes; still empty
	// Have lists the files of the previous backup, none of which is changed or removed.
	Have []BackupFile
	// Anew copies every table: the store numbers its tables from the first again, so that
	// one of the previous backup may have the name, the size and the end of another.
	Anew bool
}

// backupTries bounds how often Backup starts over because the store has changed.
const backupTries = 20

// Backup copies the store in dir, whether a server has it open or not. Tables never
// change, so those in the previous backup are not copied again. It reads and checks
// every block of a table that it copies. The caller removes the files that no list
// names.
//
// It needs no help from the server: the manifest is a list that only grows, a table that
// it lists is whole, and the logs that it does not cover hold what came after. If
// anything was removed meanwhile, Backup starts over.
func Backup(ctx context.Context, fsys vfs.FS, dir string, to BackupTo) ([]BackupFile, error) {
	c := storeCopy{fs: OwnerOnly(fsys), dir: dir, to: to, have: map[string]BackupFile{}, taken: map[string]bool{}}
	for _, f := range to.Have {
		c.taken[f.Path()] = true
		if !to.Anew {
			c.have[f.Name] = f
		}
	}
	for _, d := range []string{to.Part, path.Join(to.Run, to.Part)} {
		if err := c.fs.MkdirAll(c.path(d), 0o700); err != nil {
			return nil, fmt.Errorf("create %s: %w", c.path(d), err)
		}
	}
	var last error
	for range backupTries {
		out, err := c.copy(ctx)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return out, err
		}
		if last != nil && last.Error() == err.Error() {
			break // the file does not exist
		}
		last = err
	}
	return nil, fmt.Errorf("back up %s: %w (tailscope doctor explains what is missing)", dir, last)
}

// storeCopy is one run of Backup.
type storeCopy struct {
	fs    vfs.FS
	dir   string
	to    BackupTo
	have  map[string]BackupFile // by name: of the previous backup, and of tables copied so far
	taken map[string]bool       // paths of the previous backup
}

// path returns the path of a file of the backup.
func (c *storeCopy) path(at string) string {
	return c.fs.PathJoin(append([]string{c.to.Dir}, strings.Split(at, "/")...)...)
}

func (c *storeCopy) copy(ctx context.Context) ([]BackupFile, error) {
	fsys, dir := c.fs, c.dir
	var out []BackupFile
	desc, err := pebble.Peek(dir, fsys)
	if err != nil {
		return nil, err
	}
	if !desc.Exists {
		return nil, fmt.Errorf("%s holds no store, or one without a marker.manifest file: %w", dir, fs.ErrNotExist)
	}
	b, err := readWhole(fsys, desc.ManifestFilename)
	if err != nil {
		return nil, err
	}
	m, err := parseManifest(desc.ManifestFilename, b)
	if err != nil {
		return nil, err
	}
	if m.damaged || len(m.edits) == 0 {
		return nil, fmt.Errorf("%s is damaged: %w (tailscope doctor explains)", m.path, store.ErrCorrupt)
	}
	if m.torn >= 0 {
		b = b[:m.torn] // the last edit was being written
	}
	for _, t := range m.sorted() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f, err := c.table(t)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	put := func(name string, b []byte) error {
		f := sumOf(path.Join(c.to.Part, name), b)
		f.At = path.Join(c.to.Run, f.Name)
		out = append(out, f)
		return writeWhole(fsys, c.path(f.At), b)
	}
	if err := put(fsys.PathBase(m.path), b); err != nil {
		return nil, err
	}
	for _, n := range names {
		num, isLog := logNumber(n)
		switch {
		case isLog && num >= m.minLog:
			b, err := readWhole(fsys, fsys.PathJoin(dir, n))
			if err != nil {
				return nil, err
			}
			if rs := readRecords(b, uint32(num)); rs.tail >= 0 && rs.damage == nil {
				b = b[:rs.tail]
			}
			if err := put(n, b); err != nil {
				return nil, err
			}
		case n == identityFile || n == formatFile || strings.HasPrefix(n, "marker."):
			b, err := readWhole(fsys, fsys.PathJoin(dir, n))
			if err != nil {
				return nil, err
			}
			if err := put(n, b); err != nil {
				return nil, err
			}
		}
	}
	// A flush may have removed a log that the manifest, as read above, still needs.
	again, err := pebble.Peek(dir, fsys)
	if err != nil {
		return nil, err
	}
	now, err := readManifest(fsys, again.ManifestFilename)
	if err != nil {
		return nil, err
	}
	if again.ManifestFilename != desc.ManifestFilename || now.minLog != m.minLog {
		return nil, fmt.Errorf("the logs from %d on: %w", m.minLog, fs.ErrNotExist)
	}
	return out, syncDir(fsys, c.path(c.to.Part))
}

// table copies a table unless the backup has it.
func (c *storeCopy) table(t *table) (BackupFile, error) {
	from, name := c.fs.PathJoin(c.dir, t.name()), path.Join(c.to.Part, t.name())
	if f, ok := c.have[name]; ok && f.Bytes == t.size && sameEnd(c.fs, from, c.path(f.Path())) {
		return f, nil
	}
	at := ""
	if c.taken[name] { // by another table of that name
		at = path.Join(c.to.Run, name)
	}
	to := c.path(cmp.Or(at, name))
	if err := copyFile(c.fs, from, to); err != nil {
		return BackupFile{}, err
	}
	f, err := Sum(c.fs, to)
	if err != nil {
		return f, fmt.Errorf("%w (tailscope doctor explains)", err)
	}
	if f.Bytes != t.size {
		return f, fmt.Errorf("table %s has %d bytes, the manifest says %d: %w (tailscope doctor explains)", from, f.Bytes, t.size, store.ErrCorrupt)
	}
	f.Name, f.At = name, at
	c.have[name] = f // for the next attempt
	return f, nil
}

// Identify returns the id of the store in a directory, or "" if the store has none. The
// error is fs.ErrNotExist for a directory without a store, and store.ErrCorrupt for one
// that has lost its manifest. It changes nothing.
func Identify(fsys vfs.FS, dir string) (id string, err error) {
	names, err := fsys.List(dir)
	if err != nil {
		return "", err
	}
	if tables, logs, manifests := dataFiles(names); tables+logs+manifests == 0 && !slices.Contains(names, identityFile) {
		return "", fmt.Errorf("%s holds no store: %w", dir, fs.ErrNotExist)
	}
	desc, err := pebble.Peek(dir, fsys)
	if err != nil {
		return "", fmt.Errorf("%s: %w", dir, classify(err))
	}
	if !desc.Exists {
		return "", fmt.Errorf("%s has no marker.manifest file: %w: %w", dir, store.ErrCorrupt, errNoManifest)
	}
	b, err := readWhole(fsys, fsys.PathJoin(dir, identityFile))
	if err != nil {
		return "", nil
	}
	i, err := decodeIdentity(b)
	if err != nil {
		return "", nil
	}
	return fmt.Sprintf("%016x", i.id), nil
}

// ErrOpened reports that a server has run on a copy of a store.
var ErrOpened = errors.New("a server has run on it")

// NeverOpened returns nil if no server has ever opened the store in a directory, else
// store.ErrLocked or ErrOpened.
func NeverOpened(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	if slices.Contains(names, "LOCK") {
		lock, err := pebble.LockDirectory(dir, fsys)
		if err != nil {
			return fmt.Errorf("%s: %w: %v", dir, store.ErrLocked, err)
		}
		if err := lock.Close(); err != nil {
			return err
		}
	}
	// Every start writes one, and a backup contains none.
	if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "OPTIONS-") }) {
		return fmt.Errorf("%s: %w", dir, ErrOpened)
	}
	return nil
}

// OwnerOnly returns a file system whose new files are readable only by their owner.
func OwnerOnly(fsys vfs.FS) vfs.FS { return withOwnerOnly(fsys) }

// CopyFile copies a file, which appears whole or not at all. It does not sync the
// directory.
func CopyFile(fsys vfs.FS, from, to string) error { return copyFile(fsys, from, to) }

// WriteFile writes a file, which appears whole or not at all, and syncs its directory.
func WriteFile(fsys vfs.FS, path string, content []byte) error {
	return writeWhole(fsys, path, content)
}

// ReadFile reads a file. The error of one that is not there is fs.ErrNotExist.
func ReadFile(fsys vfs.FS, path string) ([]byte, error) { return readWhole(fsys, path) }

// SyncDir syncs the names in a directory to disk.
func SyncDir(fsys vfs.FS, dir string) error { return syncDir(fsys, dir) }

// sameEnd reports whether two tables have the same end, which holds their properties and
// their index, with the checksums of both. A store that was restored from a backup
// numbers its new tables from there, and so has others by the same names.
func sameEnd(fsys vfs.FS, a, b string) bool {
	end := func(path string) (int64, []byte) {
		f, err := fsys.Open(path)
		if err != nil {
			return -1, nil
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return -1, nil
		}
		buf := make([]byte, min(info.Size(), 8<<10))
		if _, err := f.ReadAt(buf, info.Size()-int64(len(buf))); err != nil && err != io.EOF {
			return -1, nil
		}
		return info.Size(), buf
	}
	na, ea := end(a)
	nb, eb := end(b)
	return na >= 0 && na == nb && string(ea) == string(eb)
}

func sumOf(name string, b []byte) BackupFile {
	sum := sha256.Sum256(b)
	return BackupFile{Name: name, Bytes: int64(len(b)), SHA256: hex.EncodeToString(sum[:])}
}

// Sum reads a file of a backup and returns its size, its checksum and, for a table, its
// number of writes by what they are about. The error is store.ErrCorrupt for a table
// that does not decode.
func Sum(fsys vfs.FS, path string) (BackupFile, error) {
	out := BackupFile{Name: fsys.PathBase(path)}
	f, err := fsys.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return out, err
	}
	defer f.Close()
	h := sha256.New()
	if out.Bytes, err = io.Copy(h, f); err != nil {
		return out, fmt.Errorf("read %s: %w", path, err)
	}
	out.SHA256 = hex.EncodeToString(h.Sum(nil))
	if !strings.HasSuffix(path, ".sst") {
		return out, nil
	}
	out.Keys = map[string]int64{}
	err = eachOfTable(fsys, path, func(e entryOf) error {
		out.Keys[nameOf(e.key)]++
		return nil
	})
	if err != nil {
		return out, fmt.Errorf("read table %s: %w", path, classify(err))
	}
	return out, nil
}

// nameOf returns what a key is about.
func nameOf(key []byte) string {
	for i := range keyAreas {
		if a := &keyAreas[i]; strings.HasPrefix(string(key), string(a.prefix)) {
			return a.name
		}
	}
	return "other"
}
