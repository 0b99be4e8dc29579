package expr

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the table of functions in docs/checks.md")

const (
	docsFile   = "../../../../docs/checks.md"
	tableBegin = "<!-- functions: go test ./internal/guard/check/expr -run TestDocs -update -->\n"
	tableEnd   = "<!-- end of functions -->\n"
)

// table is that of the functions as the documentation has it.
func table() string {
	var b strings.Builder
	b.WriteString("| Function | What it is | Example | strict | skip | zero |\n|---|---|---|---|---|---|\n")
	for _, f := range Functions() {
		name := "`" + f.Name + "(" + f.Args + ")`"
		for _, a := range f.Aliases {
			name += ", `" + a + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | `%s` | %s |\n", name, strings.ReplaceAll(f.Does, "|", `\|`), f.Example, strings.Join(f.Want[:], " | "))
	}
	return b.String()
}

// TestDocs holds the section on expressions to what they are: its table is ours,
// its examples can be read.
func TestDocs(t *testing.T) {
	file, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	text := string(file)
	before, rest, ok := strings.Cut(text, tableBegin)
	old, after, ended := strings.Cut(rest, tableEnd)
	if !ok || !ended {
		t.Fatalf("%s has no %q … %q", docsFile, tableBegin, tableEnd)
	}
	if want := table(); old != want {
		if !*update {
			t.Errorf("the table of functions in %s is out of date: run go test ./internal/guard/check/expr -run TestDocs -update", docsFile)
		} else if err := os.WriteFile(docsFile, []byte(before+tableBegin+want+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, section, ok := strings.Cut(text, "\n## Expressions\n")
	if !ok {
		t.Fatal("there is no section Expressions")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	examples := 0
	for i, block := range strings.Split(section, "```") {
		if i%2 == 0 {
			continue
		}
		for _, src := range strings.Split(strings.TrimSpace(block), "\n") {
			examples++
			if _, err := Parse(src, Options{Variables: []string{"value"}}); err != nil {
				t.Errorf("%s: %v", src, err)
			}
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `(x\\[[^`]*\\])`(?:, `(x\\[[^`]*\\])`)*").FindAllString(section, -1) {
		for _, src := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(m, -1) {
			examples++
			if _, err := Parse("max("+src[1]+")", Options{}); err != nil {
				t.Errorf("%s: %v", src[1], err)
			}
		}
	}
	if examples < 15 {
		t.Errorf("found %d examples", examples)
	}
}
