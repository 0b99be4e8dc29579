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
)

// Pool is servers of which some can be taken away.
type Pool interface {
	// Set has so many servers used from when it returns.
	Set(ctx context.Context, servers int) error
	// Restore has as many used as before the search.
	Restore(ctx context.Context) error
	// Addresses are the servers', host:port, if load is sent to each of them and not
	// to one address that stands for all; the first are used. nil otherwise.
	Addresses() []string
}

// ListPool is servers that load is sent to directly.
type ListPool []string

// Addresses is Pool.Addresses.
func (p ListPool) Addresses() []string { return p }

// Set does nothing: load is only sent to the first.
func (p ListPool) Set(context.Context, int) error { return nil }

// Restore does nothing.
func (p ListPool) Restore(context.Context) error { return nil }

// CommandPool is changed by a command.
type CommandPool struct {
	// Apply is a line for /bin/sh in which {{servers}} is how many are to be used. It
	// ends when they are.
	Apply string
	// Before is how many there are to be after the search.
	Before  int
	Dir     string        // in which it runs; this one if empty
	Env     []string      // that of this process if nil
	Timeout time.Duration // of a command; poolWithin if 0
	Note    func(string)  // is called with each command; nil is allowed

	guard *poolGuard // from the first command until Restore
}

const servers = "{{servers}}"

// poolWithin is how long a command may take unless it is said.
const poolWithin = 2 * time.Minute

// Addresses is Pool.Addresses.
func (p *CommandPool) Addresses() []string { return nil }

// Restore runs the command with the number of before.
func (p *CommandPool) Restore(ctx context.Context) error {
	err := p.Set(ctx, p.Before)
	p.guard.release()
	p.guard = nil
	return err
}

// Check says what is wrong with the command.
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
		// Without one all works as well, until this program is killed.
		p.guard, _ = newPoolGuard(strings.ReplaceAll(p.Apply, servers, strconv.Itoa(p.Before)), p.Dir, append(slices.Clone(env), "SERVERS="+strconv.Itoa(p.Before)))
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", line)
	cmd.Dir, cmd.Env = p.Dir, append(env, "SERVERS="+strconv.Itoa(n))
	// A key pressed in the terminal does not end it half-way, and what it started ends
	// with it: a command that is ended late must not change the pool after the next.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
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
