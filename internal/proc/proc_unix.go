//go:build unix

package proc

import (
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Suspend and Resume are the signals that suspend and resume a process.
const (
	Suspend = syscall.SIGSTOP
	Resume  = syscall.SIGCONT
)

// OwnGroup makes cmd the leader of a process group when it starts. A key pressed in the
// terminal does not signal that group, and Signal reaches all of it.
func OwnGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// Signal sends a signal to a process, or to the group -pid if pid is negative. Signal 0
// only reports whether that exists.
func Signal(pid int, s syscall.Signal) error { return syscall.Kill(pid, s) }

// CPU returns the CPU time of this process, user and system, or 0 if it cannot be read.
func CPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Lock locks a file until it is closed. It returns EWOULDBLOCK if another has locked it.
func Lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
