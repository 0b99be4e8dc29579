package experiment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/experiment/bench/session"
)

// mostConfiguration bounds the recorded text of a file.
const mostConfiguration = 64 << 10

// environment returns where the experiment runs, and what its file asks to record.
func environment(ctx context.Context, x *Experiment, version string) api.Environment {
	e := session.FindEnvironment(ctx, version)
	for name, command := range x.Versions {
		e.Versions[name] = firstLine(ctx, x.Dir, command)
	}
	for _, name := range x.Configs {
		content, err := os.ReadFile(within(x.Dir, name))
		if err != nil {
			e.Configuration[name] = "not read: " + err.Error()
			continue
		}
		e.Configuration[name] = "sha256 " + digest(content) + "\n" + string(content[:min(len(content), mostConfiguration)])
	}
	return e
}

// within returns a name relative to a directory.
func within(dir, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// firstLine returns the first line that a command prints, to either output.
func firstLine(ctx context.Context, dir, command string) string {
	c := Command{Name: command, Args: []string{command}, Shell: true, Dir: dir, Timeout: 10 * time.Second}
	out, err := c.run(ctx, nil)
	line, _, _ := strings.Cut(out, "\n")
	if err != nil && line == "" {
		return fmt.Sprintf("not known: %v", err)
	}
	return line
}
