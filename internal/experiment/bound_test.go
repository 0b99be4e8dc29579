package experiment

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// Far too many settings are one mistake, found without comparing each with each.
func TestFarTooManySettings(t *testing.T) {
	const many = 50_000
	list := func(format string) string {
		var b strings.Builder
		for i := range many {
			fmt.Fprintf(&b, format, i)
		}
		return strings.TrimSuffix(b.String(), ", ")
	}
	for name, c := range map[string]struct{ file, want string }{
		"variants": {"variable: a\ncontrol: {a: 1}\nvariants:\n" + list("- {a: x%d}\n"), "more than 64 settings"},
		"a sweep":  {"variable: a\ncontrol: {a: 1}\nsweep:\n" + list("- x%d\n"), "more than 64 settings"},
		"factors":  {"design: factorial\ncontrol: {a: 1, b: 1}\nfactors:\n  b: [2]\n  a:\n" + list("  - x%d\n"), "too many combinations"},
	} {
		l := newLab(t, "experiment: e\nscenario: load.yaml\napply: ./set {{a}}\n"+c.file)
		x, problems := Load(filepath.Join(l.dir, "x.yaml"))
		if x != nil || len(problems) != 1 || !strings.Contains(problems[0].Message, c.want) {
			t.Errorf("%s: %d problems, the first of them %.200v", name, len(problems), problems)
		}
	}
}
