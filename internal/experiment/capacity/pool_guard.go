package capacity

import (
	"fmt"
	"os"
	"os/exec"

	"tailscope/internal/proc"
)

// A poolGuard restores a pool if this program ends without doing so, for example by
// SIGKILL. It is a shell that reads from a pipe whose other end only this program
// has, and that the kernel closes with it. It is notified of the command that runs,
// which must not change the pool afterwards. A nil guard guards nothing.
type poolGuard struct {
	shell *exec.Cmd
	pipe  *os.File
}

const poolGuardScript = `group=0
while read -r told; do
  [ "$told" = end ] && exit
  group=$told
done
[ "$group" = 0 ] || kill -9 "-$group"
exec /bin/sh -c "$1"`

func newPoolGuard(line, dir string, env []string) (*poolGuard, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	shell := exec.Command("/bin/sh", "-c", poolGuardScript, "sh", line)
	shell.Stdin, shell.Dir, shell.Env = read, dir, env
	proc.OwnGroup(shell) // an interrupt of the terminal is not for it
	if err := shell.Start(); err != nil {
		write.Close()
		return nil, err
	}
	return &poolGuard{shell: shell, pipe: write}, nil
}

// runs sends the process group that changes the pool now, 0 for none.
func (g *poolGuard) runs(group int) {
	if g != nil {
		_, _ = fmt.Fprintln(g.pipe, group)
	}
}

// release ends the guard.
func (g *poolGuard) release() {
	if g == nil {
		return
	}
	_, _ = fmt.Fprintln(g.pipe, "end")
	_ = g.pipe.Close()
	_ = g.shell.Wait()
}
