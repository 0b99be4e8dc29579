package capacity

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"tailscope/api"
	"tailscope/test/program"
)

// Ask runs `tailscope capacity` with args, a process of its own, and returns its
// report. A search that found less than was asked for is not an error.
func Ask(ctx context.Context, args ...string) (*api.Capacity, error) {
	path, err := program.Build(ctx, "tailscope")
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, append([]string{"capacity", "--quiet", "--report", "json"}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	var c api.Capacity
	if wrong := json.Unmarshal(out.Bytes(), &c); wrong != nil {
		return nil, fmt.Errorf("tailscope capacity: %w: %s%s", errors.Join(err, wrong), out.Bytes(), errs.Bytes())
	}
	return &c, nil
}
