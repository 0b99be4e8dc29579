package session

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"tailscope/api"
)

// FindEnvironment describes this machine. A field that the system does not report
// stays empty. It takes a second at most.
func FindEnvironment(ctx context.Context, version string) api.Environment {
	e := api.Environment{OS: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version(), Version: version,
		Versions: map[string]string{}, Configuration: map[string]string{}}
	e.Host, _ = os.Hostname()
	machine(&e)
	e.Commit = commit(ctx)
	return e
}

// commit returns the commit of the working directory, with + if tracked files were
// changed, or "" if there is none.
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
