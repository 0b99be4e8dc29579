package proc

import (
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Windows cannot suspend and resume by a signal; these are the numbers of Linux.
const (
	Suspend = syscall.Signal(19)
	Resume  = syscall.Signal(18)
)

// OwnGroup makes cmd fail with ErrNotUnix when it is started.
func OwnGroup(cmd *exec.Cmd) { cmd.Err = ErrNotUnix }

// Signal returns ErrNotUnix.
func Signal(int, syscall.Signal) error { return ErrNotUnix }

// CPU returns the CPU time of this process, user and kernel, or 0 if it cannot be read.
func CPU() time.Duration {
	self, err := syscall.GetCurrentProcess()
	if err != nil {
		return 0
	}
	var created, exited, kernel, user syscall.Filetime
	if syscall.GetProcessTimes(self, &created, &exited, &kernel, &user) != nil {
		return 0
	}
	return 100 * time.Duration(ticks(kernel)+ticks(user))
}

// ticks returns a duration in units of 100 ns. Filetime.Nanoseconds is of a date.
func ticks(t syscall.Filetime) int64 { return int64(t.HighDateTime)<<32 | int64(t.LowDateTime) }

// Lock returns ErrNotUnix.
func Lock(*os.File) error { return ErrNotUnix }
