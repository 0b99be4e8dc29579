package agg

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// category names the journal in the disk statistics of a vfs.
const category vfs.DiskWriteCategory = "tailscope-journal"

// ownerOnly makes a file readable and writable only by its owner, whatever the umask
// was. Files in memory have no mode.
func ownerOnly(f vfs.File) error {
	fd := f.Fd()
	if fd == vfs.InvalidFd {
		return nil
	}
	return restrict(fd)
}

// createFile creates the file of a journal. It replaces only a file without frames,
// which an earlier attempt could neither write nor remove.
func createFile(fsys vfs.FS, path string) (vfs.File, error) {
	switch info, err := fsys.Stat(path); {
	case err == nil && info.Size() <= journalHeader:
	case err == nil:
		return nil, fmt.Errorf("%s: %w", path, fs.ErrExist)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	f, err := fsys.Create(path, category)
	if err != nil {
		return nil, err
	}
	if err := ownerOnly(f); err != nil {
		return nil, errors.Join(err, f.Close(), fsys.Remove(path))
	}
	return f, nil
}

func syncDir(fsys vfs.FS, dir string) error {
	d, err := fsys.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
