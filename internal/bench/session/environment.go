package session

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"tailscope/api"
)

// FindEnvironment says where this runs. What the system does not tell stays
// empty; it takes a second at most.
func FindEnvironment(ctx context.Context, version string) api.Environment {
	e := api.Environment{OS: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version(), Version: version,
		Versions: map[string]string{}, Configuration: map[string]string{}}
	e.Host, _ = os.Hostname()
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		e.Kernel = strings.TrimSpace(string(b))
	}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		e.CPU = field(string(b), "model name")
	}
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		kB, _, _ := strings.Cut(field(string(b), "MemTotal"), " ")
		if n, err := strconv.ParseUint(kB, 10, 64); err == nil {
			e.Memory = n * 1024
		}
	}
	e.Commit = commit(ctx)
	return e
}

// field is the first value of a name in lines of name: value.
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// commit is that of the working directory, with + if files git knows were
// changed; empty if there is none.
func commit(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	id, err := exec.CommandContext(ctx, "git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return ""
	}
	out := strings.TrimSpace(string(id))
	changed, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--untracked-files=no").Output()
	if err == nil && len(bytes.TrimSpace(changed)) > 0 {
		out += "+"
	}
	return out
}
