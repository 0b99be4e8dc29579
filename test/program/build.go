package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

const telemetrygen = "github.com/open-telemetry/opentelemetry-collector-contrib/cmd/telemetrygen"

// generators are the programs of benchmarks/generators.
var generators = map[string]string{
	"vegeta": "github.com/tsenart/vegeta/v12",
	"hey":    "github.com/rakyll/hey",
	"k6":     "go.k6.io/k6",
}

var (
	building sync.Mutex
	built    = map[string]string{}
)

// Build compiles one of tailscope, collector, promotlp, duplicator, faulty, frozen, fanout,
// telemetrygen, vegeta, hey, k6 and clickhouse, once per process, into the user's cache directory (or $TAILSCOPE_TEST_CACHE) and
// returns its path.
func Build(ctx context.Context, name string) (string, error) {
	building.Lock()
	defer building.Unlock()
	if path, ok := built[name]; ok {
		return path, nil
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	dir, pkg := root, "./cmd/tailscope"
	switch name {
	case "tailscope":
	case "faulty", "frozen", "fanout":
		dir, pkg = filepath.Join(root, "benchmarks"), "./cmd/"+name
	case "collector", "promotlp", "duplicator":
		dir, pkg = filepath.Join(root, "benchmarks", "peers"), "./"+name
	case "vegeta", "hey", "k6":
		dir, pkg = filepath.Join(root, "benchmarks", "generators"), generators[name]
	case "clickhouse":
		dir, pkg = filepath.Join(root, "test", "clickhouse"), "."
	case "telemetrygen":
		dir, pkg = filepath.Join(root, "benchmarks", "peers"), telemetrygen
	default:
		return "", fmt.Errorf("build %s: no such program", name)
	}
	path := filepath.Join(cache, name)
	// Several test binaries may build at once; each replaces the file whole. What is
	// up to date is not linked again.
	tmp := fmt.Sprintf("%s.%d", path, os.Getpid())
	defer os.Remove(tmp)
	if b, err := os.ReadFile(path); err == nil {
		if err := os.WriteFile(tmp, b, 0o755); err != nil {
			return "", err
		}
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-tags", "grpcnotrace", "-o", tmp, pkg)
	cmd.Dir = dir
	if name == "clickhouse" { // it loads a library without a C compiler
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, out.Bytes())
	}
	if err := os.Rename(tmp, path); err != nil {
		return "", err
	}
	built[name] = path
	return path, nil
}

// CacheDir returns where built programs and installed clients are kept between runs.
func CacheDir() (string, error) {
	dir := os.Getenv("TAILSCOPE_TEST_CACHE")
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(user, "tailscope-test")
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// Root returns the directory of Tailscope's module, found upwards from here.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if b, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && bytes.HasPrefix(b, []byte("module tailscope\n")) {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("not inside the tailscope module: run it from the repository")
		}
		dir = up
	}
}
