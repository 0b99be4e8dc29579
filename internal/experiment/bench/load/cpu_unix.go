//go:build unix

package load

import (
	"time"

	"golang.org/x/sys/unix"
)

// processCPU returns the CPU time that this process has had, user and system.
func processCPU() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
