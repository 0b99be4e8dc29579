package program

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// MountSmallDisk mounts a disk in memory of so many MiB on a directory. The error wraps
// os.ErrPermission if this process may not.
func MountSmallDisk(dir string, mib int) error {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib)); err != nil {
		return fmt.Errorf("mount a small disk: %w", err)
	}
	return nil
}

// FillDisk fills the disk of dir until so many bytes are left. free removes what fills it.
func FillDisk(dir string, leave int64) (free func() error, err error) {
	path := filepath.Join(dir, "filler")
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return nil, err
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := syscall.Fallocate(int(f.Fd()), 0, 0, max(int64(st.Bavail)*st.Bsize-leave, 1)); err != nil && !errors.Is(err, syscall.ENOSPC) {
		return nil, errors.Join(err, os.Remove(path))
	}
	return func() error { return os.Remove(path) }, nil
}
