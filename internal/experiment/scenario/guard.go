package scenario

import (
	"os"
	"os/exec"
	"strconv"
	"sync"

	"tailscope/internal/proc"
)

// A guard kills a process group if this program ends without doing so, for example by
// SIGKILL. It is a shell that reads from a pipe whose other end only this program
// has, and that the kernel closes with it. Linux could send a signal at the end of a
// parent (PR_SET_PDEATHSIG of prctl(2)), but only to the first process of the group,
// and at the end of the thread that started it.
type guard struct {
	mu    sync.Mutex
	shell *exec.Cmd
	pipe  *os.File
	ended bool
}

// guardGroup begins to guard a group. The group runs without a guard too, so an error is not
// one of the server.
func (g *guard) guardGroup(group int) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	shell := exec.Command("/bin/sh", "-c", `read -r _; kill -9 "-$1"`, "sh", strconv.Itoa(group))
	shell.Stdin, shell.Dir = read, "/"
	proc.OwnGroup(shell) // an interrupt of the terminal is not for it
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended { // the group ended meanwhile
		return write.Close()
	}
	if err := shell.Start(); err != nil {
		write.Close()
		return err
	}
	g.shell, g.pipe = shell, write
	return nil
}

// release ends the guard; it may be called again.
func (g *guard) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	if g.shell == nil {
		return
	}
	_ = g.shell.Process.Kill() // before the pipe is closed, which is its signal
	_ = g.shell.Wait()         // it was killed
	_ = g.pipe.Close()
	g.shell = nil
}
