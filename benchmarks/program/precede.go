package program

import (
	"os"
	"strconv"
	"syscall"
)

// Precede lets this program, and those that it starts, run before others whose
// niceness is greater. A niceness is a thread's own on Linux, and new threads have
// that of the one that made them, so it is called first. Only root may lower it;
// elsewhere nothing changes.
func Precede(nice int) {
	tasks, _ := os.ReadDir("/proc/self/task")
	for _, task := range tasks {
		if id, err := strconv.Atoi(task.Name()); err == nil {
			_ = syscall.Setpriority(syscall.PRIO_PROCESS, id, nice)
		}
	}
}
