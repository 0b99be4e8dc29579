package report

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
)

// Machine says what a report was measured on, without naming it.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory string `json:"memory"`
	System string `json:"system"`
	Go     string `json:"go"`
}

func (m Machine) String() string {
	return fmt.Sprintf("%s, %d cores, %s of memory, %s, %s.", m.CPU, m.Cores, m.Memory, m.System, m.Go)
}

func describe() Machine {
	m := Machine{CPU: runtime.GOARCH, Cores: runtime.NumCPU(), Memory: "?", System: runtime.GOOS, Go: runtime.Version()}
	if v := field("/proc/cpuinfo", "model name"); v != "" {
		m.CPU = v
	}
	if kib, err := strconv.ParseInt(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB"), 10, 64); err == nil {
		m.Memory = fmt.Sprintf("%d GiB", (kib+(1<<19))>>20)
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		release, _, _ := strings.Cut(strings.TrimSpace(string(b)), "-")
		m.System = "Linux " + release
	}
	return m
}

// field finds the first "name : value" of a file under /proc.
func field(path, name string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// revision is the commit that was measured, marked if the tree differed from it.
func revision() string {
	out, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	rev := strings.TrimSpace(string(out))
	if exec.Command("git", "diff", "--quiet", "HEAD", "--", "*.go", "go.mod").Run() != nil {
		rev += " with changes"
	}
	return rev
}
