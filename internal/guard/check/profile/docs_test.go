package profile

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"tailscope/internal/guard/check/expr"
	"tailscope/internal/guard/check/schedule"
	"tailscope/internal/guard/check/spec"
)

// The examples of the documentation's section are read as one set of files.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/checks.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## Profiles\n")
	section, _, end := strings.Cut(section, "\n## ")
	if !ok || !end {
		t.Fatal("there is no section Profiles")
	}
	var names []string
	for i, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(section, -1) {
		name := filepath.Join(t.TempDir(), fmt.Sprintf("%d.yaml", i))
		text := m[1]
		if i > 0 { // the check of the third example has the name of one of the first
			text = strings.Replace(text, "  orders:\n", "  orders-of-the-office:\n", 1)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	file, problems := spec.Read(names, spec.Options{
		Schedule: func(s spec.Schedule) (time.Duration, error) {
			x, err := schedule.Parse(s, "")
			return x.Interval(), err
		},
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if len(file.Checks) != 4 || len(file.Profiles) != 2 || len(file.Calendars) != 2 {
		t.Errorf("got %d checks, %d profiles, %d calendars", len(file.Checks), len(file.Profiles), len(file.Calendars))
	}
	for name, p := range file.Profiles {
		cal := calendar(t, file.Calendars[p.Calendar])
		if _, err := Compile(name, p, cal, func(src string, _ int) (*expr.Program, error) { return expr.Parse(src, expr.Options{}) }); err != nil {
			t.Error(err)
		}
	}
}
