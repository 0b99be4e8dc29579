package pebblestore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/store"
)

// keptAside is the directory that damaged files are moved to. Nothing is ever deleted
// there. A NAME.json beside each file gives the reason; damage that left no file there
// has a NAME.json too. They are reported at every start until they are acknowledged.
type keptAside struct {
	fs  vfs.FS
	dir string
}

// name returns an unused path in the directory.
func (k keptAside) name(file string) (string, error) {
	if err := k.fs.MkdirAll(k.dir, 0o700); err != nil {
		return "", fmt.Errorf("create directory %s: %w", k.dir, classify(err))
	}
	for i := 1; ; i++ {
		path := k.fs.PathJoin(k.dir, file)
		if i > 1 {
			path = fmt.Sprintf("%s.%d", path, i)
		}
		_, err := k.fs.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return path, nil
		}
		if err != nil {
			return "", fmt.Errorf("look for %s: %w", path, err)
		}
	}
}

// move moves a file into the directory and returns its path there.
func (k keptAside) move(path string) (string, error) {
	to, err := k.name(k.fs.PathBase(path))
	if err != nil {
		return "", err
	}
	err = k.fs.Rename(path, to)
	if errors.Is(err, syscall.EXDEV) { // one of them is a link to another disk
		if err = copyFile(k.fs, path, to); err == nil {
			err = syncDir(k.fs, k.dir)
		}
		if err == nil {
			err = k.fs.Remove(path)
		}
	}
	if err != nil {
		return "", fmt.Errorf("move %s to %s: %w", path, to, classify(err))
	}
	return to, errors.Join(syncDir(k.fs, k.dir), syncDir(k.fs, k.fs.PathDir(path)))
}

// copy copies a file into the directory and returns the copy's path.
func (k keptAside) copy(path string) (string, error) {
	to, err := k.name(k.fs.PathBase(path))
	if err != nil {
		return "", err
	}
	if err := copyFile(k.fs, path, to); err != nil {
		return "", err
	}
	return to, syncDir(k.fs, k.dir)
}

// remembered is the content of a NAME.json. File is a bare name if the file is beside
// it: a data directory may be moved.
type remembered struct {
	store.Damage
	Acknowledged time.Time // zero until it is acknowledged

	path   string
	unread bool // it does not parse, or is something else
}

const whySuffix = ".json"

// remember writes why a file was set aside beside it, or into the directory if the file
// was not moved there. It writes each reason once.
func (k keptAside) remember(d store.Damage) error {
	path := d.File + whySuffix
	if k.fs.PathDir(d.File) != k.dir {
		all, err := k.remembered()
		if err != nil {
			return err
		}
		for _, r := range all {
			if r.File == d.File && r.Part == d.Part && r.Acknowledged.IsZero() {
				return nil
			}
		}
		if path, err = k.name(k.fs.PathBase(d.File) + whySuffix); err != nil {
			return err
		}
	}
	return k.write(remembered{Damage: d, path: path})
}

func (k keptAside) write(r remembered) error {
	if r.unread { // nothing is deleted here
		to, err := k.name(strings.Replace(k.fs.PathBase(r.path), whySuffix, ".unread", 1))
		if err == nil {
			err = k.fs.Rename(r.path, to)
		}
		if err != nil {
			return fmt.Errorf("keep %s: %w", r.path, classify(err))
		}
	}
	if k.fs.PathDir(r.File) == k.dir {
		r.File = k.fs.PathBase(r.File)
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return writeWhole(k.fs, r.path, append(b, '\n'))
}

// remembered reads every NAME.json. One that cannot be read is damage itself.
func (k keptAside) remembered() ([]remembered, error) {
	names, err := k.fs.List(k.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", k.dir, err)
	}
	slices.Sort(names)
	var out []remembered
	for _, n := range names {
		if !strings.Contains(n, whySuffix) || strings.HasSuffix(n, tmpSuffix) {
			continue
		}
		path := k.fs.PathJoin(k.dir, n)
		if info, err := k.fs.Stat(path); err == nil && info.IsDir() {
			continue
		}
		b, err := readWhole(k.fs, path)
		r := remembered{}
		if err != nil || json.Unmarshal(b, &r) != nil || r.File == "" {
			r = remembered{Damage: store.Damage{Part: "store", File: strings.TrimSuffix(n, whySuffix), Reason: "why it was kept aside cannot be read", Observations: -1}, unread: true}
		}
		if r.Part == "" { // as older versions wrote it
			r.Part = "store"
		}
		if k.fs.PathBase(r.File) == r.File {
			r.File = k.fs.PathJoin(k.dir, r.File)
		}
		r.path = path
		out = append(out, r)
	}
	return out, nil
}

// Remember records damage in o.DamagedDir. KnownDamage returns it until it is
// acknowledged.
func Remember(o Options, d store.Damage) error {
	if err := o.ensureDefaults(); err != nil {
		return err
	}
	return keptAside{fs: o.FS, dir: o.DamagedDir}.remember(d)
}

// KnownDamage returns all unacknowledged damage that was ever found. It needs no lock.
func KnownDamage(o Options) ([]store.Damage, error) {
	if err := o.ensureDefaults(); err != nil {
		return nil, err
	}
	all, err := keptAside{fs: o.FS, dir: o.DamagedDir}.remembered()
	var out []store.Damage
	for _, r := range all {
		if r.Acknowledged.IsZero() {
			out = append(out, r.Damage)
		}
	}
	return out, err
}

// AcknowledgeDamage acknowledges what KnownDamage returns now, except the damage for
// which except returns true. except may be nil.
func AcknowledgeDamage(o Options, except func(store.Damage) bool) error {
	if err := o.ensureDefaults(); err != nil {
		return err
	}
	k := keptAside{fs: o.FS, dir: o.DamagedDir}
	all, err := k.remembered()
	for _, r := range all {
		if r.Acknowledged.IsZero() && (except == nil || !except(r.Damage)) {
			r.Acknowledged = time.Now().UTC()
			err = errors.Join(err, k.write(r))
		}
	}
	return err
}

func copyFile(fsys vfs.FS, from, to string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("copy %s to %s: %w", from, to, classify(err))
		}
	}()
	r, err := fsys.Open(from, vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	defer r.Close()
	tmp := to + tmpSuffix
	w, err := fsys.Create(tmp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	if err == nil {
		err = w.Sync()
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	return fsys.Rename(tmp, to)
}

// tmpSuffix ends the names of incomplete files. Pebble does not know it, and leaves such
// files alone.
const tmpSuffix = ".tmp"

// writeWhole writes a file that appears whole or not at all: a crash in between must not
// leave one that reads as something else.
func writeWhole(fsys vfs.FS, path string, content []byte) error {
	tmp := path + tmpSuffix
	w, err := fsys.Create(tmp, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = w.Write(content)
		if err == nil {
			err = w.Sync()
		}
		err = errors.Join(err, w.Close())
	}
	if err == nil {
		err = fsys.Rename(tmp, path)
	}
	if err == nil {
		err = syncDir(fsys, fsys.PathDir(path))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, classify(err))
	}
	return nil
}

func syncDir(fsys vfs.FS, dir string) error {
	d, err := fsys.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// readWhole reads a file. The error of one that is not there is fs.ErrNotExist.
func readWhole(fsys vfs.FS, path string) ([]byte, error) {
	f, err := fsys.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return b, nil
}
