package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
	"tailscope/internal/proc"
)

const (
	maxOutput = 64 << 10
	maxErrors = 4 << 10 // of stderr
	// lingers bounds the wait for output after the process group is dead, should
	// something that left the group hold it open.
	lingers = 500 * time.Millisecond

	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// command runs a program in a process group of its own, which is killed as a
// whole when the program has ended or the deadline has come.
func (p *Prober) command(ctx context.Context, s *spec.Command, hide *secrets) event.Reading {
	if runtime.GOOS == "windows" {
		return failed(proc.ErrNotUnix)
	}
	env := map[string]string{"PATH": defaultPath, "LC_ALL": "C.UTF-8"}
	for name, text := range s.Env {
		value, err := hide.text("env "+name, text)
		if err != nil {
			return failed(err)
		}
		env[name] = value
	}
	args := s.Args
	if s.Shell != "" {
		args = []string{"/bin/sh", "-c", s.Shell}
	}
	if len(args) == 0 {
		return failed(errors.New("the command is empty; write the program and its arguments"))
	}
	program, err := lookPath(args[0], s.Dir, env["PATH"])
	if err != nil {
		return failed(err)
	}
	limit := s.MaxBytes
	if limit <= 0 {
		limit = maxOutput
	}
	out, errOut := &capped{limit: limit}, &capped{limit: maxErrors}
	cmd := exec.CommandContext(ctx, program)
	cmd.Args = args
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.Dir, out, errOut
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	proc.OwnGroup(cmd)
	cmd.Cancel = func() error { return killGroup(cmd.Process.Pid) }
	cmd.WaitDelay = lingers

	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return failed(fmt.Errorf("start %s: %w; make it executable for the server's user", args[0], err))
	}
	// Its end is in its state. What left the group and holds the output open
	// changes nothing about what the program itself wrote.
	cmd.Wait() //nolint:errcheck // see above
	// What it left behind in its group, if anything.
	killGroup(cmd.Process.Pid) //nolint:errcheck // mostly there is nothing
	r := read(s, out, errOut, cmd.ProcessState, args[0])
	r.Took = time.Since(begin)
	if ctx.Err() != nil {
		r = failed(fmt.Errorf("%s did not end within %s and was killed; raise the check's timeout, or give the command a shorter one of its own", filepath.Base(args[0]), short(r.Took)))
	}
	return r
}

// read makes a Reading of what a command wrote and how it ended.
func read(s *spec.Command, out, errOut *capped, state *os.ProcessState, program string) event.Reading {
	name := filepath.Base(program)
	code := state.ExitCode()
	complaint := firstLine(errOut.String())
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return failed(fmt.Errorf("%s was killed by the signal %s; run it by hand to see why", name, status.Signal()))
	}
	if out.more {
		return failed(fmt.Errorf("%s wrote more than %d bytes; raise max_bytes, or let it write less", name, out.limit))
	}
	if s.Output == "number" {
		if code != 0 {
			return failed(fmt.Errorf("%s ended with status %d: %s; run it by hand to see why", name, code, or(complaint, firstLine(out.String()))))
		}
		v, err := number(out.String())
		if err != nil {
			return failed(fmt.Errorf("%s wrote no number: %w", name, err))
		}
		return event.Reading{Value: v, Text: strings.TrimSpace(out.String())}
	}
	if code > int(event.Unknown) {
		why := "run it by hand to see why"
		if code == 126 || code == 127 {
			why = "look at whether what it runs exists and may be run"
		}
		return failed(fmt.Errorf("%s ended with status %d, which no plugin has: %s; %s", name, code, or(complaint, firstLine(out.String())), why))
	}
	r := event.Reading{Level: level(event.Level(code))} //nolint:gosec // 0 to 3
	text, perf := parseOutput(out.String())
	r.Text = text
	if text == "" {
		r.Text = or(complaint, "no output")
	}
	r.Perf = perf
	at, err := choose(perf, s.Label)
	switch {
	case err != nil && code == 0:
		r.Null, r.Err = true, err
	case at < 0: // a plugin that fails often has none, and its text says why
		r.Null = true
	default:
		r.Value = perf[at].Value
		r.Null = math.IsNaN(r.Value)
	}
	return r
}

// choose finds the value among performance data: the label that was asked for, or
// the first; -1 if there is none and none was asked for.
func choose(perf []event.Perf, label string) (int, error) {
	if label == "" {
		return min(len(perf), 1) - 1, nil
	}
	var labels []string
	for i, p := range perf {
		if p.Label == label {
			return i, nil
		}
		labels = append(labels, p.Label)
	}
	if len(labels) == 0 {
		return -1, fmt.Errorf("there is no performance data, and so no label %q; leave label out", label)
	}
	return -1, fmt.Errorf("no label %q among the performance data; it has %s", label, strings.Join(labels, ", "))
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	if b != "" {
		return b
	}
	return "it wrote nothing"
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return s
}

func killGroup(leader int) error { return proc.Signal(-leader, syscall.SIGKILL) }

// lookPath finds a program in the PATH that it will have, not in the server's.
func lookPath(program, dir, path string) (string, error) {
	if strings.ContainsRune(program, filepath.Separator) {
		// Relative to dir, as exec has it.
		return program, nil
	}
	for _, in := range filepath.SplitList(path) {
		if !filepath.IsAbs(in) {
			continue
		}
		file := filepath.Join(in, program)
		if info, err := os.Stat(file); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return file, nil
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.ENOTDIR) {
			return "", fmt.Errorf("look for %s: %w; write its whole path", program, err)
		}
	}
	return "", fmt.Errorf("there is no program %s in %s; install it, or write its whole path", program, path)
}

// capped keeps the first bytes that are written to it.
type capped struct {
	limit int64
	buf   bytes.Buffer
	more  bool // there were more
}

func (c *capped) Write(b []byte) (int, error) {
	n := len(b)
	if space := c.limit - int64(c.buf.Len()); int64(n) > space {
		b, c.more = b[:max(0, space)], true
	}
	c.buf.Write(b)
	return n, nil
}

func (c *capped) String() string { return strings.ToValidUTF8(c.buf.String(), "?") }
