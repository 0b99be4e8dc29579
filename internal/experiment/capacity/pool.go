package capacity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tailscope/internal/proc"
)

// Pool is a set of servers that can be made smaller.
type Pool interface {
	// Set uses that many servers from when it returns.
	Set(ctx context.Context, servers int) error
	// Restore uses as many servers as before the search.
	Restore(ctx context.Context) error
	// Addresses returns the servers, host:port, if load is sent to each and not to
	// one address for all; the first are used. nil otherwise.
	Addresses() []string
}

// ListPool holds servers that load is sent to directly.
type ListPool []string

// Addresses implements Pool.
func (p ListPool) Addresses() []string { return p }

// Set does nothing: load is sent only to the first servers.
func (p ListPool) Set(context.Context, int) error { return nil }

// Restore does nothing.
func (p ListPool) Restore(context.Context) error { return nil }

// CommandPool changes its size by a command.
type CommandPool struct {
	// Apply is a line for /bin/sh in which {{servers}} stands for the number to use.
	// It ends when they are in use.
	Apply string
	// Before is the number of servers after the search.
	Before  int
	Dir     string        // in which it runs; this one if empty
	Env     []string      // that of this process if nil
	Timeout time.Duration // of a command; poolWithin if 0
	Note    func(string)  // is called with each command; nil is allowed

	guard *poolGuard // from the first command until Restore
}

const servers = "{{servers}}"

// poolWithin bounds a command by default.
const poolWithin = 2 * time.Minute

// Addresses implements Pool.
func (p *CommandPool) Addresses() []string { return nil }

// Restore runs the command with Before.
func (p *CommandPool) Restore(ctx context.Context) error {
	err := p.Set(ctx, p.Before)
	p.guard.release()
	p.guard = nil
	return err
}

// Check returns an error if the command is wrong.
func (p *CommandPool) Check() error {
	if !strings.Contains(p.Apply, servers) {
		return fmt.Errorf("%q does not say how many servers (hint: write %s where the number is to stand)", p.Apply, servers)
	}
	return nil
}

// Set runs the command.
func (p *CommandPool) Set(ctx context.Context, n int) error {
	timeout := p.Timeout
	if timeout == 0 {
		timeout = poolWithin
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it takes longer than %s", timeout))
	defer cancel()
	line := strings.ReplaceAll(p.Apply, servers, strconv.Itoa(n))
	if p.Note != nil {
		p.Note("pool: " + line)
	}
	env := slices.Clone(p.Env)
	if env == nil {
		env = os.Environ()
	}
	if p.guard == nil {
		// Without a guard all works as well, until this program is killed.
		p.guard, _ = newPoolGuard(strings.ReplaceAll(p.Apply, servers, strconv.Itoa(p.Before)), p.Dir, append(slices.Clone(env), "SERVERS="+strconv.Itoa(p.Before)))
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", line)
	cmd.Dir, cmd.Env = p.Dir, append(env, "SERVERS="+strconv.Itoa(n))
	// A key pressed in the terminal does not end the command half-way, and its
	// children end with it: a command that is ended late must not change the pool
	// after the next.
	proc.OwnGroup(cmd)
	cmd.Cancel = func() error { return proc.Signal(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second // for what it leaves running with its output open
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Start()
	if err == nil {
		p.guard.runs(cmd.Process.Pid)
		err = cmd.Wait()
		p.guard.runs(0)
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it has ended; a server that it started writes on
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	text := strings.TrimSpace(out.String())
	if at := len(text) - 300; at > 0 {
		text = "…" + text[at:]
	}
	if text != "" {
		text = ": " + text
	}
	return fmt.Errorf("%s: %w%s", line, err, text)
}
