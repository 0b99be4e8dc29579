package program

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// MemoryGroup is a control group whose processes the kernel kills once they
// take more memory than they may together.
type MemoryGroup struct{ dir string }

// LimitMemory makes a group that may take so many bytes, in version 1 or 2 of
// control groups. Both need a system administrator's rights.
func LimitMemory(bytes int64) (*MemoryGroup, error) {
	name := fmt.Sprintf("tailscope-memory-%d-%d", os.Getpid(), bytes)
	var tried error
	for _, g := range []struct{ root, limit string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
		{"/sys/fs/cgroup", "memory.max"},
	} {
		if _, err := os.Stat(filepath.Join(g.root, "cgroup.procs")); err != nil {
			tried = errors.Join(tried, err)
			continue
		}
		m := &MemoryGroup{filepath.Join(g.root, name)}
		err := os.Mkdir(m.dir, 0o755)
		if err == nil {
			err = os.WriteFile(filepath.Join(m.dir, g.limit), []byte(strconv.FormatInt(bytes, 10)), 0o644)
		}
		if err == nil {
			return m, nil
		}
		tried = errors.Join(tried, err, m.Close())
	}
	return nil, fmt.Errorf("limit the memory of a process: no control group can be made here (hint: run as root, with the memory controller): %w", tried)
}

// command returns what runs a program in the group from its first instruction on.
func (m *MemoryGroup) command(path string, args []string) (string, []string) {
	return "/bin/sh", append([]string{"-c", `echo $$ > "$0" && exec "$@"`, filepath.Join(m.dir, "cgroup.procs"), path}, args...)
}

// Kills reports how many processes of the group were killed for want of memory.
func (m *MemoryGroup) Kills() (int, error) {
	for _, file := range []string{"memory.oom_control", "memory.events"} {
		b, err := os.ReadFile(filepath.Join(m.dir, file))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
				return strconv.Atoi(strings.TrimSpace(n))
			}
		}
	}
	return 0, fmt.Errorf("%s does not say how many processes were killed", m.dir)
}

// Close removes the group, once its processes have ended.
func (m *MemoryGroup) Close() error {
	if err := os.Remove(m.dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
