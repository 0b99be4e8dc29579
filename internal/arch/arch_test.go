// Package arch holds no code, only the test that keeps the import rule of
// docs/architecture.md true: imports lead to lower floors, and a promise does not
// know the others.
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

// floors lists the packages of each floor, the lowest first. A package imports
// packages of lower floors alone, never one of its own floor.
var floors = [][]string{
	{ // 1
		"api", "hist", "internal/backoff", "internal/experiment/mirror/content", "internal/experiment/mirror/mirrortest",
		"internal/experiment/mirror/rawsocket", "internal/experiment/mirror/redact", "internal/experiment/simulate/queueing", "internal/figure",
		"internal/guard/check/event", "internal/http1", "internal/listen", "internal/observe/queuetime",
		"internal/observe/sqltext", "internal/proc", "internal/route", "internal/strictyaml", "internal/strictyaml/schematest", "internal/trials", "internal/weekday", "ui",
	},
	{ // 2
		"client", "internal/config", "internal/experiment/bench", "internal/experiment/bench/load",
		"internal/experiment/bench/threshold", "internal/experiment/mirror/record", "internal/experiment/simulate",
		"internal/guard/check/expr", "internal/guard/check/state",
		"internal/judge/refresh", "internal/report/reporttest", "internal/scaling", "internal/series", "internal/store/runcodec", "stat",
	},
	{ // 3
		"internal/experiment/bench/tally", "internal/experiment/capacity/objective",
		"internal/experiment/mirror/pair", "internal/experiment/otlpsink", "internal/experiment/simulate/spec",
		"internal/judge", "internal/observe/semconv", "internal/seconds", "internal/store", "internal/store/tier",
	},
	{ // 4
		"internal/agg", "internal/experiment/bench/session", "internal/experiment/capacity/search",
		"internal/experiment/mirror/choose", "internal/experiment/mirror/differ", "internal/experiment/mirror/live",
		"internal/experiment/mirror/observe", "internal/experiment/mirror/shadow", "internal/experiment/mirror/tcp",
		"internal/judge/rounds", "internal/observe/traces", "internal/query", "internal/query/querytest",
		"internal/store/chstore", "internal/store/packed", "internal/store/pebblestore", "internal/store/storetest",
	},
	{ // 5
		"internal/cluster", "internal/compare", "internal/experiment/capacity/virtual", "internal/experiment/mirror/offer",
		"internal/experiment/simulate/measured", "internal/guard/check/history", "internal/guard/check/spec",
		"internal/judge/legs", "internal/judge/legs/legstest", "internal/observe/accesslog",
		"internal/observe/agents", "internal/observe/explain", "internal/observe/otlp", "internal/observe/sla", "internal/store/outbox",
	},
	{ // 6
		"internal/compare/changes", "internal/experiment/bench/requests", "internal/experiment/logbook",
		"internal/experiment/mirror/proxy", "internal/experiment/simulate/answer", "internal/guard/check/profile",
		"internal/guard/check/schedule", "internal/guard/notify", "internal/guard/probe", "internal/judge/marks",
		"internal/observe/forward",
	},
	{ // 7
		"internal/experiment/mirror", "internal/experiment/scenario", "internal/guard/check",
	},
	{ // 8
		"internal/experiment", "internal/experiment/capacity", "internal/httpapi",
	},
	{ // 9
		"internal/report", "internal/server",
	},
	{ // 10
		"internal/demo", "internal/liveview",
	},
	{ // 11
		"internal/cli",
	},
	{ // 12
		"cmd/tailscope",
	},
}

// promises are the directories of what Tailscope does for its users. A package of
// one imports no package of another, but for what is in crossings.
var promises = []string{"internal/observe", "internal/compare", "internal/experiment", "internal/guard"}

// crossings are the imports between promises: the importing package and the imported.
var crossings = [][2]string{
	{"internal/experiment/bench/requests", "internal/observe/accesslog"}, // sends again what a log has
}

// forOthers are the packages that other programs import, with all of ours that each
// may import.
var forOthers = map[string][]string{"hist": nil, "stat": {"hist"}, "api": nil, "client": {"api"}}

// standardOnly are the packages that import nothing but the standard library and ours.
var standardOnly = []string{"hist", "api", "internal/backoff", "internal/figure", "internal/http1", "internal/listen", "internal/proc", "internal/route", "ui"}

// outside are trees that use the program and are used by no part of it.
var outside = []string{"benchmarks", "docs", "test", "internal/arch", "scripts"}

// floorOf returns the number of pkg's floor, from 1, or 0 if it is on none.
func floorOf(pkg string) int {
	return 1 + slices.IndexFunc(floors, func(floor []string) bool { return slices.Contains(floor, pkg) })
}

func within(dirs []string, pkg string) string {
	for _, dir := range dirs {
		if pkg == dir || strings.HasPrefix(pkg, dir+"/") {
			return dir
		}
	}
	return ""
}

func isOutside(pkg string) bool { return within(outside, pkg) != "" }

// verdict says what is wrong with pkg importing imported, or nothing.
func verdict(pkg, imported string) string {
	from := floorOf(pkg)
	if from == 0 {
		return fmt.Sprintf("%s is on no floor: add it to the table in internal/arch and to docs/architecture.md", pkg)
	}
	rel, ours := strings.CutPrefix(imported, module+"/")
	if !ours {
		first, _, _ := strings.Cut(imported, "/")
		if slices.Contains(standardOnly, pkg) && strings.Contains(first, ".") {
			return fmt.Sprintf("%s imports %s: it may use the standard library only", pkg, imported)
		}
		return ""
	}
	to := floorOf(rel)
	if to == 0 {
		return fmt.Sprintf("%s imports %s, which is on no floor", pkg, rel)
	}
	if may, ok := forOthers[pkg]; ok && !slices.Contains(may, rel) {
		return fmt.Sprintf("%s imports %s: of ours it may import only %v", pkg, rel, may)
	}
	if to >= from {
		return fmt.Sprintf("%s (floor %d) imports %s (floor %d): imports go down", pkg, from, rel, to)
	}
	one, other := within(promises, pkg), within(promises, rel)
	if one != "" && other != "" && one != other && !slices.Contains(crossings, [2]string{pkg, rel}) {
		return fmt.Sprintf("%s imports %s: a promise does not know another", pkg, rel)
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
		{"internal/store", "tailscope/internal/query", "internal/store (floor 3) imports internal/query (floor 4): imports go down"},
		{"internal/query", "tailscope/internal/agg", "internal/query (floor 4) imports internal/agg (floor 4): imports go down"},
		{"internal/observe/otlp", "tailscope/internal/observe/semconv", ""},
		{"internal/guard/notify", "tailscope/internal/observe/otlp", "internal/guard/notify imports internal/observe/otlp: a promise does not know another"},
		{"internal/experiment/bench/requests", "tailscope/internal/observe/accesslog", ""},
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

// The floors of docs/architecture.md are those of the table.
func TestFloorsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "## The floors\n")
	block := strings.Split(rest, "```")[1]
	number, seen := 0, map[string]int{}
	for _, line := range strings.Split(block, "\n") {
		if line == "" {
			continue
		}
		if n, err := strconv.Atoi(strings.TrimSpace(line[:min(3, len(line))])); err == nil {
			number = n
		}
		pkg, _, _ := strings.Cut(strings.TrimSpace(line[min(3, len(line)):]), " ")
		seen[pkg] = number
	}
	for i, floor := range floors {
		for _, pkg := range floor {
			if seen[pkg] != i+1 {
				t.Errorf("%s is on floor %d here, and on %d in docs/architecture.md (0: not there)", pkg, i+1, seen[pkg])
			}
			delete(seen, pkg)
		}
	}
	for pkg := range seen {
		t.Errorf("docs/architecture.md has %s, which is on no floor", pkg)
	}
}

var walkName = regexp.MustCompile("`([a-z]+(?:\\.[A-Za-z]+)+)`")

// The functions that the walks of docs/architecture.md name are in the tree.
func TestWalksNameFunctions(t *testing.T) {
	known := map[string]bool{}
	sources(t, func(pkg, _ string, f *ast.File, _ *token.FileSet) {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name := d.Name.Name
				if d.Recv != nil {
					typ := d.Recv.List[0].Type
					if p, ok := typ.(*ast.StarExpr); ok {
						typ = p.X
					}
					if x, ok := typ.(*ast.Ident); ok {
						name = x.Name + "." + name
					}
				}
				known[path.Base(pkg)+"."+name] = true
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if s, ok := s.(*ast.TypeSpec); ok {
						known[path.Base(pkg)+"."+s.Name.Name] = true
					}
				}
			}
		}
	})
	text, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, walks, _ := strings.Cut(string(text), "## Five walks\n")
	walks, _, _ = strings.Cut(walks, "\n## ")
	named := walkName.FindAllStringSubmatch(walks, -1)
	if len(named) < 40 {
		t.Errorf("the walks name %d functions: the pattern is wrong", len(named))
	}
	for _, m := range named {
		if !known[m[1]] {
			t.Errorf("docs/architecture.md names %s, which is not in the tree", m[1])
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

// Where a method is called by a name that only comes up at run time, the linker keeps each exported
// method of every type in the program: 9 MB.
func TestNoMethodsByName(t *testing.T) {
	sources(t, func(pkg, name string, f *ast.File, fset *token.FileSet) {
		for _, i := range f.Imports {
			if p, _ := strconv.Unquote(i.Path.Value); p == "text/template" || p == "html/template" {
				t.Errorf("%s imports %s, which calls methods by name: use github.com/DataDog/datadog-agent/pkg/template", name, p)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if ok && slices.Contains([]string{"MethodByName", "SetUsageTemplate", "SetHelpTemplate", "SetVersionTemplate"}, sel.Sel.Name) {
				t.Errorf("%s:%d: %s calls methods by name", name, fset.Position(n.Pos()).Line, sel.Sel.Name)
			}
			return true
		})
	})
	// Traces of gRPC are shown by html/template.
	build := regexp.MustCompile(`\bgo build\b.*\./cmd/tailscope|"go", "build".*pkg\)`)
	for _, file := range []string{"Makefile", "scripts/release", "test/program/build.go"} {
		text, err := os.ReadFile(filepath.Join("../..", file))
		if err != nil {
			t.Fatal(err)
		}
		lines := build.FindAllString(string(text), -1)
		if len(lines) == 0 {
			t.Errorf("%s does not build the program: the test looks in the wrong place", file)
		}
		for _, line := range lines {
			if !strings.Contains(line, "grpcnotrace") {
				t.Errorf("%s: add -tags grpcnotrace to %s", file, line)
			}
		}
	}
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
