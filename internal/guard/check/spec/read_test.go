package spec

import (
	"os"
	"strings"
	"testing"
)

// exampleFile is the one that docs/checks.md points to.
const exampleFile = "../../../../docs/examples/checks.yaml"

// read reads texts as files a.yaml, b.yaml …
func read(t testing.TB, texts ...string) (*File, []Problem) {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	var paths []string
	for i, text := range texts {
		name := string(rune('a'+i)) + ".yaml"
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, name)
	}
	return Read(paths, Options{})
}

func told(problems []Problem) string {
	var lines []string
	for _, p := range problems {
		lines = append(lines, p.Error())
	}
	return strings.Join(lines, "\n")
}

func TestExampleFile(t *testing.T) {
	f, problems := Read([]string{exampleFile}, Options{})
	if len(problems) > 0 {
		t.Fatal(told(problems))
	}
	for i := range f.Checks {
		t.Logf("%+v", f.Checks[i])
		t.Log(f.Checks[i].YAML())
	}
}
