package pebblestore

import (
	"fmt"
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ownerOnly is the machine's file system with new files readable only by their owner.
// Pebble makes its files readable by everybody.
type ownerOnly struct{ vfs.FS }

// withOwnerOnly wraps the machine's file system; others have no modes.
func withOwnerOnly(fsys vfs.FS) vfs.FS {
	if fsys == vfs.Default {
		return ownerOnly{fsys}
	}
	return fsys
}

func (o ownerOnly) Unwrap() vfs.FS { return o.FS }

func (o ownerOnly) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := o.FS.Create(name, c)
	return o.restrict(name, f, err)
}

func (o ownerOnly) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := o.FS.OpenReadWrite(name, c, opts...)
	return o.restrict(name, f, err)
}

func (o ownerOnly) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := o.FS.ReuseForWrite(from, to, c)
	return o.restrict(to, f, err)
}

func (o ownerOnly) restrict(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return f, err
	}
	if err := os.Chmod(name, 0o600); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (o ownerOnly) Lock(name string) (io.Closer, error) {
	c, err := o.FS.Lock(name)
	if err != nil {
		return c, err
	}
	if err := os.Chmod(name, 0o600); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (o ownerOnly) MkdirAll(dir string, perm os.FileMode) error {
	return o.FS.MkdirAll(dir, perm&0o700)
}

// tighten makes the store's directory and the files in it readable by their owner only:
// older versions left them readable by everybody.
func tighten(fsys vfs.FS, dir string) error {
	if _, ok := fsys.(ownerOnly); !ok {
		return nil
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("make %s readable by its owner only: %w", dir, err)
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list data directory %s: %w", dir, err)
	}
	for _, e := range list {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o077 == 0 {
			continue
		}
		if err := os.Chmod(fsys.PathJoin(dir, e.Name()), 0o600); err != nil {
			return fmt.Errorf("make %s readable by its owner only: %w", e.Name(), err)
		}
	}
	return nil
}
