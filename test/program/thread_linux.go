package program

import (
	"os/exec"
	"runtime"
	"sync"
)

// starts hands commands to one thread that lives as long as this process:
// the kernel sends a child its parent-death signal when the thread that
// started it ends, and Go ends threads as it likes.
var starts = sync.OnceValue(func() chan<- func() {
	c := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range c {
			f()
		}
	}()
	return c
})

func startOnLivingThread(cmd *exec.Cmd) error {
	err := make(chan error, 1)
	starts() <- func() { err <- cmd.Start() }
	return <-err
}
