//go:build !linux

package scenario

import (
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"tailscope/internal/proc"
)

// usage holds the usage of a process, from ps.
type usage struct {
	pid, parent, group int
	state              byte
	started            uint64
	cpu                float64
	threads            int
	resident           float64
}

func read(pid int) (usage, error) {
	all, err := table()
	if err != nil {
		return usage{}, err
	}
	u, ok := all[pid]
	if !ok {
		return usage{}, fmt.Errorf("there is no process %d", pid)
	}
	return u, nil
}

// table runs ps, whose columns POSIX names.
func table() (map[int]usage, error) {
	b, err := exec.Command("ps", "-A", "-o", "pid=,ppid=,pgid=,rss=,time=,stat=").Output()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, proc.ErrNotUnix
	}
	if err != nil {
		return nil, fmt.Errorf("ps: %w", err)
	}
	out := map[int]usage{}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 6 {
			continue
		}
		n := func(i int) int { v, _ := strconv.Atoi(f[i]); return v }
		u := usage{pid: n(0), parent: n(1), group: n(2), resident: float64(n(3)) * 1024, state: f[5][0], threads: -1}
		for part := range strings.SplitSeq(strings.ReplaceAll(f[4], "-", ":"), ":") {
			v, _ := strconv.ParseFloat(part, 64)
			u.cpu = u.cpu*60 + v
		}
		out[u.pid] = u
	}
	return out, nil
}

func groupLives(group int) bool { return proc.Signal(-group, 0) == nil }

func openFiles(int) int { return -1 }

func listener(port int) (int, error) {
	b, err := exec.Command("lsof", "-nP", "-t", "-iTCP:"+strconv.Itoa(port), "-sTCP:LISTEN").Output()
	if errors.Is(err, exec.ErrNotFound) {
		return 0, proc.ErrNotUnix
	}
	if err != nil {
		return 0, fmt.Errorf("nothing is found that listens on port %d: %w", port, err)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	return strconv.Atoi(first)
}
