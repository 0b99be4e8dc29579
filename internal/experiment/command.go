package experiment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"tailscope/internal/proc"
)

// defaultTimeout bounds a command by default.
const defaultTimeout = 5 * time.Minute

// with returns a command with a setting's values in place of {{names}}.
func (c Command) with(values map[string]string) Command {
	c.Args = slices.Clone(c.Args)
	for i, arg := range c.Args {
		c.Args[i] = variable.ReplaceAllStringFunc(arg, func(m string) string {
			name := variable.FindStringSubmatch(m)[1]
			if v, ok := values[name]; ok {
				return v
			}
			return m
		})
	}
	return c
}

func rendered(commands []Command, values map[string]string) []Command {
	var out []Command
	for _, c := range commands {
		out = append(out, c.with(values))
	}
	return out
}

// run runs the command to its end, with values in its environment too. It has a
// process group of its own, so that a key pressed in the terminal does not end it
// half-way; the whole group is ended when ctx is done or its time is over. The error
// holds the end of its output.
func (c Command) run(ctx context.Context, values map[string]string) (output string, err error) {
	limit := c.Timeout
	if limit <= 0 {
		limit = defaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	args := c.Args
	if c.Shell {
		args = []string{"/bin/sh", "-c", c.Args[0]}
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = c.Dir
	cmd.Env = os.Environ()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		cmd.Env = append(cmd.Env, name+"="+values[name])
	}
	out := &tail{most: 4 << 10}
	cmd.Stdout, cmd.Stderr = out, out
	proc.OwnGroup(cmd)
	cmd.Cancel = func() error { return proc.Signal(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	err = cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it left something running that holds its output, as those that start a server do
	}
	output = strings.TrimSpace(out.String())
	if err == nil {
		return output, nil
	}
	switch cause := ctx.Err(); {
	case errors.Is(cause, context.DeadlineExceeded):
		err = fmt.Errorf("not done within %s", limit)
	case cause != nil:
		err = cause
	}
	if output != "" {
		return output, fmt.Errorf("%s: %w: %s", c.Name, err, lastLine(output))
	}
	return output, fmt.Errorf("%s: %w", c.Name, err)
}

func lastLine(s string) string {
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// tail keeps the last bytes that were written.
type tail struct {
	bytes.Buffer
	most int
}

func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	_, _ = t.Buffer.Write(p)
	if over := t.Len() - t.most; over > 0 {
		t.Next(over)
	}
	return n, nil
}
