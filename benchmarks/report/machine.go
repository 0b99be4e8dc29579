package report

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strings"

	"tailscope/internal/experiment/bench/session"
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
	e := session.FindEnvironment(context.Background(), "")
	m := Machine{CPU: cmp.Or(e.CPU, runtime.GOARCH), Cores: e.Cores, Memory: "?", System: runtime.GOOS, Go: e.Go}
	if e.Memory > 0 {
		m.Memory = fmt.Sprintf("%d GiB", (e.Memory+(1<<29))>>30)
	}
	if release, _, _ := strings.Cut(e.Kernel, "-"); release != "" {
		m.System = "Linux " + release
	}
	return m
}

// revision returns the commit that was measured, marked if the tree differed from it.
func revision() string {
	out, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	rev := strings.TrimSpace(string(out))
	if exec.Command("git", "diff", "--quiet", "HEAD", "--", ":/*.go", ":/*go.mod").Run() != nil {
		rev += " with changes"
	}
	return rev
}
