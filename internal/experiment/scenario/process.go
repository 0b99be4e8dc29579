package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"tailscope/internal/proc"
)

// process is a program in a process group of its own. Its output goes straight into a
// file, so that reading it costs the load nothing.
type process struct {
	name  string
	pid   int
	log   string        // file of its output
	begin int64         // where in the file its output begins
	done  chan struct{} // closed when it has ended
	err   error         // how, once done
	// stopping is set once stop handles the rest of the group.
	stopping atomic.Bool
	guard    guard
}

// start starts a command. Its output is appended to the file log.
func start(c *Command, env []string, log string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", c.Name, err)
	}
	defer out.Close() // the process has its own
	p := &process{name: c.Name, log: log, done: make(chan struct{})}
	if p.begin, err = out.Seek(0, io.SeekEnd); err != nil {
		return nil, fmt.Errorf("log of %s: %w", c.Name, err)
	}
	cmd := c.Run.command()
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = c.Dir, env, out, out
	proc.OwnGroup(cmd)
	if program := cmd.Args[0]; strings.ContainsRune(program, '/') && !strings.HasPrefix(program, "/") {
		cmd.Path = c.Dir + "/" + program // as a shell in that directory would
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s does not start: %w", c.Name, err)
	}
	p.pid = cmd.Process.Pid
	go func() {
		defer close(p.done)
		p.err = cmd.Wait()
		if !p.stopping.Load() {
			_ = p.signal(syscall.SIGKILL) // what it left behind
			p.guard.release()
		}
	}()
	return p, nil
}

// ended reports whether the process has ended.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// signal sends a signal to the whole group.
func (p *process) signal(s syscall.Signal) error {
	if err := proc.Signal(-p.pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal %s to %s: %w", s, p.name, err)
	}
	return nil
}

// buried bounds the time for a killed group to end: processes that write to a slow
// disk end late.
const buried = 10 * time.Second

// stop ends the group: by a signal, and by SIGKILL after grace or when ctx ends. It
// returns when nothing of it is left. A process that ended by itself has left
// nothing.
func (p *process) stop(ctx context.Context, s syscall.Signal, grace time.Duration) error {
	if p.ended() {
		return nil
	}
	p.stopping.Store(true)
	defer p.guard.release()
	if err := p.signal(s); err != nil {
		return err
	}
	_ = p.signal(proc.Resume) // one that stands still could not end
	if p.waitEnded(ctx, grace) {
		return nil
	}
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	if !p.waitEnded(context.WithoutCancel(ctx), buried) {
		return fmt.Errorf("processes of %s are still there %s after SIGKILL", p.name, buried)
	}
	if s == syscall.SIGKILL {
		return nil
	}
	return fmt.Errorf("%s did not end within %s of SIG%s and was killed", p.name, grace, signalName(s))
}

// waitEnded waits until no process of the group is left, and reports whether that is
// so.
func (p *process) waitEnded(ctx context.Context, within time.Duration) bool {
	end := time.NewTimer(within)
	defer end.Stop()
	select {
	case <-p.done:
	case <-end.C:
		return false
	case <-ctx.Done():
		return false
	}
	for groupLives(p.pid) {
		select {
		case <-end.C:
			return !groupLives(p.pid)
		case <-ctx.Done():
			return false
		case <-time.After(2 * time.Millisecond):
		}
	}
	return true
}

var signals = map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "QUIT": syscall.SIGQUIT, "KILL": syscall.SIGKILL, "HUP": syscall.SIGHUP}

func signalName(s syscall.Signal) string {
	for name, known := range signals {
		if known == s {
			return name
		}
	}
	return s.String()
}

// how describes how a process has ended.
func (p *process) how() string {
	var exit *exec.ExitError
	switch {
	case p.err == nil:
		return "ended with code 0"
	case errors.As(p.err, &exit) && exit.ExitCode() >= 0:
		return fmt.Sprintf("ended with code %d", exit.ExitCode())
	}
	return "ended: " + p.err.Error()
}

// lastLines returns the end of the output, for people.
func (p *process) lastLines(n int) string {
	const most = 16 << 10
	f, err := os.Open(p.log)
	if err != nil {
		return ""
	}
	defer f.Close()
	from := p.begin
	if info, err := f.Stat(); err == nil {
		from = max(from, info.Size()-most)
	}
	b, err := io.ReadAll(io.NewSectionReader(f, from, most))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimRight(strings.ToValidUTF8(string(b), "?"), "\n "), "\n")
	lines = lines[max(0, len(lines)-n):]
	return strings.Join(lines, "\n")
}

// output returns at most the first limit bytes of the output so far.
func (p *process) output(limit int64) []byte {
	f, err := os.Open(p.log)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, p.begin, limit))
	if err != nil {
		return nil
	}
	return b
}

// failed returns an error with the end of the output.
func (p *process) failed(what string) error {
	text := p.name + " " + what
	if lines := p.lastLines(10); lines != "" {
		text += "; it printed last:\n" + indent(lines)
	}
	return fmt.Errorf("%s\n(the whole of it is in %s)", text, p.log)
}

func indent(s string) string { return "  | " + strings.ReplaceAll(s, "\n", "\n  | ") }

// run runs a command to its end, or to that of ctx, and returns its output.
func run(ctx context.Context, c *Command, env []string, log string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	p, err := start(c, env, log)
	if err != nil {
		return nil, err
	}
	limit := time.NewTimer(c.Timeout)
	defer limit.Stop()
	select {
	case <-p.done:
		if p.err != nil {
			return nil, p.failed(p.how())
		}
		return p.output(64 << 10), nil
	case <-limit.C:
		return nil, errors.Join(p.failed(fmt.Sprintf("was killed after its timeout of %s", c.Timeout)), p.stop(context.WithoutCancel(ctx), syscall.SIGKILL, 0))
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("%s: %w", c.Name, context.Cause(ctx)), p.stop(context.WithoutCancel(ctx), syscall.SIGTERM, 2*time.Second))
	}
}

// firstLine returns the first line that is not blank.
func firstLine(b []byte) string {
	for line := range bytes.Lines(b) {
		if s := strings.TrimSpace(string(line)); s != "" {
			return s
		}
	}
	return ""
}
