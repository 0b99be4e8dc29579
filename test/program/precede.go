package program

import (
	"os"
	"syscall"

	"github.com/prometheus/procfs"
)

// Precede lets this program, and those that it starts, run before others whose
// niceness is greater. A niceness is a thread's own on Linux, and new threads have
// that of the one that made them, so it is called first. Only root may lower it;
// elsewhere nothing changes.
func Precede(nice int) {
	threads, _ := procfs.AllThreads(os.Getpid())
	for _, t := range threads {
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, t.PID, nice)
	}
}
