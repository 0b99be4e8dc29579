//go:build unix

package pebblestore

import (
	"os"

	"golang.org/x/sys/unix"
)

// lockHolder returns the process that has locked a file, or 0 if that is not known.
func lockHolder(path string) int {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0
	}
	defer f.Close()
	spec := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &spec); err != nil || spec.Type == unix.F_UNLCK {
		return 0
	}
	return int(spec.Pid)
}
