// Package arch holds no code, only the test that keeps the import rule of
// docs/architecture.md true: five floors, imports go down, neighbours stay
// strangers.
package arch

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "tailscope"

// floor is where a package lives. A name that ends in /* covers every package
// below it. Imports from lower floors are free; neighbours names the packages
// of the same floor that may be imported nevertheless.
type floor struct {
	number     int
	pkg        string
	neighbours []string
	// only, if not nil, replaces the rule: these of ours and no others.
	only []string
	// stdlib says that outside our own packages it imports the standard
	// library alone.
	stdlib bool
}

var floors = []floor{
	{5, "cmd/tailscope", []string{"internal/cli"}, nil, false},
	{5, "internal/cli", []string{"internal/config", "internal/server", "internal/demo", "internal/report", "internal/report/reporttest", "internal/liveview"}, nil, false},
	{5, "internal/liveview", []string{"internal/report", "internal/report/reporttest"}, nil, false},
	{5, "internal/report", []string{"internal/report/reporttest"}, []string{"api", "internal/figure", "internal/experiment", "internal/judge", "internal/judge/rounds", "internal/capacity/search", "internal/report/reporttest"}, false},
	{5, "internal/report/reporttest", nil, []string{"api"}, false},
	{5, "internal/demo", []string{"internal/config", "internal/server"}, nil, false},
	{5, "internal/server", []string{"internal/config"}, nil, false},
	{5, "internal/config", nil, []string{"internal/strictyaml", "internal/strictyaml/schematest"}, false},

	{4, "internal/ingest/*", []string{"internal/ingest/*"}, nil, false},
	{4, "internal/store/pebblestore", []string{"internal/store/runcodec"}, []string{"hist", "internal/series", "internal/store", "internal/store/runcodec"}, false},
	{4, "internal/httpapi", nil, nil, false},
	{4, "internal/mirror", []string{"internal/mirror/*"}, nil, false},
	{4, "internal/mirror/*", []string{"internal/mirror/*"}, nil, false},
	{4, "internal/probe", nil, []string{"internal/check/event", "internal/check/spec", "internal/check/expr"}, false},
	{4, "internal/notify", nil, []string{"internal/check/event", "internal/check/spec", "internal/check/expr", "api"}, false},
	{4, "internal/notify/*", []string{"internal/notify"}, []string{"internal/check/event", "internal/check/spec", "internal/check/expr", "internal/notify"}, false},
	{4, "internal/bench", nil, []string{"hist", "internal/series", "internal/store", "api"}, false},
	{4, "internal/bench/*", []string{"internal/bench", "internal/bench/*", "internal/mirror/record", "internal/ingest/accesslog", "internal/otlpsink"}, nil, false},
	{4, "internal/otlpsink", nil, []string{"hist", "internal/series", "api"}, false},
	{4, "internal/scenario", []string{"internal/bench", "internal/bench/*"}, nil, false},
	{4, "internal/experiment", []string{"internal/bench", "internal/bench/*", "internal/scenario", "client"}, nil, false},
	{4, "internal/capacity", []string{"internal/bench", "internal/bench/*", "internal/scenario", "internal/mirror", "internal/mirror/*", "internal/otlpsink", "internal/capacity/*", "client"}, nil, false},
	{4, "internal/capacity/*", []string{"internal/capacity/*"}, []string{"hist", "stat", "api", "internal/scaling", "internal/bench/threshold", "internal/strictyaml", "internal/capacity/*"}, false},
	{4, "client", nil, []string{"api"}, false},
	{4, "ui", nil, []string{}, true},

	{3, "internal/query", nil, nil, false},
	{3, "internal/query/querytest", []string{"internal/query"}, nil, false},
	{3, "internal/agg", nil, nil, false},
	{3, "internal/traces", nil, nil, false},
	{3, "internal/sla", []string{"internal/query"}, nil, false},
	{3, "internal/compare", []string{"internal/query"}, nil, false},
	{3, "internal/explain", []string{"internal/query"}, nil, false},
	{3, "internal/changes", []string{"internal/query", "internal/compare"}, nil, false},
	{3, "internal/logbook", []string{"internal/query", "internal/judge/legs"}, nil, false},
	{3, "internal/judge/legs", []string{"internal/query"}, nil, false},
	{3, "internal/judge/legs/legstest", []string{"internal/query/querytest"}, nil, false},
	{3, "internal/check", []string{"internal/query", "internal/agg", "internal/check/*"}, nil, false},
	{3, "internal/check/*", []string{"internal/query", "internal/check/*"}, nil, false},
	{3, "internal/simulate", []string{"internal/simulate/*"}, nil, false},
	{3, "internal/simulate/*", []string{"internal/query", "internal/simulate", "internal/simulate/*"}, nil, false},
	{3, "internal/verdicts", []string{"internal/query", "internal/compare"}, nil, false},

	{2, "internal/store", []string{"internal/series"}, nil, false},
	{2, "internal/store/storetest", []string{"internal/series", "internal/store"}, nil, false},
	{2, "internal/store/runcodec", []string{"internal/series", "internal/store"}, nil, false},
	{2, "internal/series", nil, nil, false},
	{2, "internal/guard", nil, []string{}, true},
	{2, "internal/http1", nil, []string{}, true},
	{2, "internal/route", nil, []string{}, true},
	{2, "internal/strictyaml", nil, []string{}, false},
	{2, "internal/strictyaml/schematest", nil, []string{}, false},
	{2, "internal/judge", []string{"api"}, []string{"api", "stat", "internal/figure"}, false},
	{2, "internal/judge/rounds", nil, []string{"hist", "stat", "internal/figure", "internal/judge"}, false},
	{2, "internal/scaling", []string{"api"}, []string{"hist", "stat", "api", "internal/figure"}, false},
	{2, "api", nil, []string{}, true},

	{1, "hist", nil, []string{}, true},
	{1, "stat", []string{"hist"}, []string{"hist"}, false},
	{1, "internal/figure", nil, []string{}, true},
}

// outside are trees that use the program and are used by no part of it.
var outside = []string{"benchmarks", "docs", "test", "internal/arch", "scripts"}

func covers(pattern, pkg string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "/*"); ok {
		return strings.HasPrefix(pkg, prefix+"/")
	}
	return pattern == pkg
}

func floorOf(pkg string) (floor, bool) {
	for _, f := range floors {
		if covers(f.pkg, pkg) {
			return f, true
		}
	}
	return floor{}, false
}

func isOutside(pkg string) bool {
	return slices.ContainsFunc(outside, func(o string) bool { return pkg == o || strings.HasPrefix(pkg, o+"/") })
}

// verdict says what is wrong with pkg importing imported, or nothing.
func verdict(pkg, imported string) string {
	from, ok := floorOf(pkg)
	if !ok {
		return fmt.Sprintf("%s is on no floor: add it to the table in internal/arch and to docs/architecture.md", pkg)
	}
	rel, ours := strings.CutPrefix(imported, module+"/")
	if !ours {
		first, _, _ := strings.Cut(imported, "/")
		if from.stdlib && strings.Contains(first, ".") {
			return fmt.Sprintf("%s imports %s: it may use the standard library only", pkg, imported)
		}
		return ""
	}
	to, ok := floorOf(rel)
	if !ok {
		return fmt.Sprintf("%s imports %s, which is on no floor", pkg, rel)
	}
	allowed := func(list []string) bool {
		return slices.ContainsFunc(list, func(p string) bool { return covers(p, rel) })
	}
	switch {
	case from.only != nil:
		if !allowed(from.only) {
			return fmt.Sprintf("%s imports %s: of ours it may import only [%s]", pkg, rel, strings.Join(from.only, " "))
		}
	case to.number > from.number:
		return fmt.Sprintf("%s (floor %d) imports %s (floor %d): imports go down", pkg, from.number, rel, to.number)
	case to.number == from.number && !allowed(from.neighbours):
		return fmt.Sprintf("%s imports its neighbour %s: neighbours stay strangers", pkg, rel)
	}
	return ""
}

// sources calls yield with every Go file that is part of the program.
func sources(t *testing.T, yield func(pkg, name string, f *ast.File, fset *token.FileSet)) {
	t.Helper()
	root := "../.."
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); name != root && (strings.HasPrefix(base, ".") || base == "node_modules" || base == "testdata" || base == "data" || base == "bin") {
				return filepath.SkipDir
			}
			// A directory with a go.mod of its own is another module.
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil && name != root {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		yield(path.Dir(filepath.ToSlash(rel)), filepath.ToSlash(rel), f, fset)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestImportsGoDown(t *testing.T) {
	files := 0
	sources(t, func(pkg, name string, f *ast.File, _ *token.FileSet) {
		if isOutside(pkg) {
			return
		}
		files++
		for _, spec := range f.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if wrong := verdict(pkg, imported); wrong != "" {
				t.Errorf("%s: %s", name, wrong)
			}
		}
	})
	if files == 0 {
		t.Fatal("no source file was looked at")
	}
}

func TestVerdict(t *testing.T) {
	for _, tc := range []struct{ pkg, imported, want string }{
		{"internal/query", "tailscope/internal/store", ""},
		{"internal/query", "tailscope/internal/httpapi", "internal/query (floor 3) imports internal/httpapi (floor 4): imports go down"},
		{"internal/httpapi", "tailscope/internal/ingest/otlp", "internal/httpapi imports its neighbour internal/ingest/otlp: neighbours stay strangers"},
		{"internal/ingest/otlp", "tailscope/internal/ingest/semconv", ""},
		{"hist", "golang.org/x/sys/unix", "hist imports golang.org/x/sys/unix: it may use the standard library only"},
		{"hist", "math/bits", ""},
		{"client", "tailscope/hist", "client imports hist: of ours it may import only [api]"},
		{"internal/new", "fmt", "internal/new is on no floor: add it to the table in internal/arch and to docs/architecture.md"},
	} {
		if got := verdict(tc.pkg, tc.imported); got != tc.want {
			t.Errorf("%s imports %s:\ngot  %s\nwant %s", tc.pkg, tc.imported, got, tc.want)
		}
	}
}

// Only main may end the process: anything else would keep deferred work, such
// as the flush of what was accepted, from being done.
func TestOnlyMainExits(t *testing.T) {
	forbidden := map[string][]string{
		"os":  {"Exit"},
		"log": {"Fatal", "Fatalf", "Fatalln"},
	}
	sources(t, func(pkg, name string, f *ast.File, fset *token.FileSet) {
		if f.Name.Name == "main" {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && slices.Contains(forbidden[x.Name], sel.Sel.Name) {
				t.Errorf("%s:%d: %s.%s ends the process: return an error", name, fset.Position(n.Pos()).Line, x.Name, sel.Sel.Name)
			}
			return true
		})
	})
}

var (
	makeTarget  = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
	makeMention = regexp.MustCompile("(?:^|[`$ ])make ([a-z][a-z-]*)")
)

// What the documents tell the reader to type exists.
func TestDocumentedTargetsExist(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]bool{}
	for _, m := range makeTarget.FindAllSubmatch(makefile, -1) {
		targets[string(m[1])] = true
	}
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	mentions := 0
	for _, name := range append(documents, "../../README.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range codeIn(string(text)) {
			for _, m := range makeMention.FindAllStringSubmatch(code, -1) {
				mentions++
				if !targets[m[1]] {
					t.Errorf("%s says make %s, which the Makefile does not have", filepath.Base(name), m[1])
				}
			}
		}
	}
	if mentions == 0 {
		t.Error("no document names a make target: the test looks in the wrong place")
	}
}

var testName, testDefinition = regexp.MustCompile("`(Test[A-Za-z0-9]+)`"), regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(`)

// Each test that docs/reliability.md names as proof exists.
func TestFaultsHaveTheirTests(t *testing.T) {
	defined := map[string]bool{}
	err := filepath.WalkDir("../..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && d.Name() == "node_modules" {
			return cmp.Or(err, fs.SkipDir)
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(name)
		for _, m := range testDefinition.FindAllSubmatch(text, -1) {
			defined[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	named := testName.FindAllStringSubmatch(string(text), -1)
	for _, m := range named {
		if !defined[m[1]] {
			t.Errorf("reliability.md names %s, which is not in the tree", m[1])
		}
	}
	if len(named) == 0 {
		t.Error("reliability.md names no test: the pattern is wrong")
	}
}

var relativeLink = regexp.MustCompile(`\]\(([^):#]+)\)`)

// Links between files of the tree lead somewhere.
func TestLinksLeadSomewhere(t *testing.T) {
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(documents, "../../README.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range relativeLink.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", filepath.Base(name), m[1], err)
			}
		}
	}
}

// codeIn returns what stands in backquotes and in fenced blocks.
func codeIn(markdown string) []string {
	var code []string
	for i, block := range strings.Split(markdown, "```") {
		if i%2 == 1 {
			code = append(code, strings.Split(block, "\n")...)
			continue
		}
		for j, span := range strings.Split(block, "`") {
			if j%2 == 1 {
				code = append(code, span)
			}
		}
	}
	return code
}
