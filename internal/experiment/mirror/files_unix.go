//go:build unix

package mirror

import "syscall"

// openFiles returns the number of files that the program may have open, sockets
// included, or 0 if that is not known.
func openFiles() uint64 {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0
	}
	return uint64(l.Cur)
}
