package server

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every YAML that docs/checks.md shows is read without a mistake, but for names
// that another part of the document defines.
func TestDocumentedChecks(t *testing.T) {
	text, err := os.ReadFile("../../docs/checks.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for i, part := range strings.Split(string(text), "```yaml\n")[1:] {
		block, _, ok := strings.Cut(part, "```")
		if !ok {
			t.Fatalf("block %d does not end", i)
		}
		name := filepath.Join(t.TempDir(), "block.yaml")
		if err := os.WriteFile(name, []byte(block), 0o600); err != nil {
			t.Fatal(err)
		}
		seen++
		_, problems := ReadChecks([]string{name})
		for _, p := range problems {
			if !strings.HasPrefix(p.Message, "unknown receiver ") && !strings.HasPrefix(p.Message, "unknown check ") &&
				!strings.HasPrefix(p.Message, "unknown calendar ") && !strings.HasPrefix(p.Message, "unknown profile ") && !strings.HasPrefix(p.Message, "unknown template ") {
				t.Errorf("block %d: %v\n%s", i, p, block)
			}
		}
	}
	if seen < 4 {
		t.Errorf("only %d blocks of YAML were found", seen)
	}
}

func TestExamplesAreRead(t *testing.T) {
	files, err := filepath.Glob("../../docs/examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for _, f := range append(files, "../demo/checks.yaml") {
		if _, problems := ReadChecks([]string{f}); len(problems) > 0 {
			t.Error(checkProblems(problems))
		}
	}
}

// What only those know who run schedules and profiles has its place in the file.
func TestProblemsOfSchedulesAndProfiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "c.yaml")
	text := `checks:
  a: {cron: "61 * * * *", value: 1}
profiles:
  p:
    days:
      - {weekdays: [mon-fri], none: true}
      - {none: true}
      - {none: true}
calendars:
  c: {holidays: [easter]}
maintenance:
  - {name: m, cron: "* * * * fun", duration: 1h}
`
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, problems := ReadChecks([]string{name})
	var lines []int
	for _, p := range problems {
		lines = append(lines, p.Line)
	}
	if len(lines) != 3 || lines[0] != 2 || lines[1] != 8 || lines[2] != 12 {
		t.Errorf("got %v", checkProblems(problems))
	}
}

// What would keep a server from starting is found before.
func TestProblemsOfReceivers(t *testing.T) {
	name := filepath.Join(t.TempDir(), "c.yaml")
	text := `receivers:
  well: {webhook: {url: "https://h/", template: '{"text": {{json .Text}}}'}}
  event: {webhook: {url: "https://h/", template: '{{.Nothing}}'}}
  header: {webhook: {url: "https://h/", headers: {"X Y": z, Y: "a\nb", "Z:": {env: E}}}}
  path: {file: {path: ""}}
  nobody: {email: {server: "h:25", from: a@example.org, to: []}}
  icinga: {icinga: {url: "https://h:5665", user: u, password: {env: P}, ca: /nowhere/ca.pem}}
`
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, problems := ReadChecks([]string{name})
	var lines []int
	for _, p := range problems {
		lines = append(lines, p.Line)
	}
	if !slices.Equal(lines, []int{3, 4, 4, 4, 5, 6}) {
		t.Errorf("got %v", checkProblems(problems))
	}
}
