package probe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tailscope/internal/guard/check/spec"
)

// The example of docs/checks.md has every source, and no mistake.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../../docs/checks.md")
	if err != nil {
		t.Fatal(err)
	}
	_, values, _ := strings.Cut(string(text), "\n## Values\n")
	_, example, _ := strings.Cut(values, "```yaml\n")
	example, _, ok := strings.Cut(example, "```")
	if !ok {
		t.Fatal("docs/checks.md has no example of values")
	}
	file := filepath.Join(t.TempDir(), "checks.yaml")
	if err := os.WriteFile(file, []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	f, problems := spec.Read([]string{file}, spec.Options{})
	for _, p := range problems {
		t.Error(p)
	}
	if f == nil {
		t.FailNow()
	}
	left := map[string]bool{"query": true, "expression": true, "promql": true, "http": true, "tcp": true, "tls": true, "command": true, "sql": true}
	for _, c := range f.Checks {
		delete(left, c.Value.Kind())
	}
	if len(left) > 0 {
		t.Errorf("no example of %v", left)
	}
}
