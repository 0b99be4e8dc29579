package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tailscope/internal/experiment"
	"tailscope/internal/experiment/scenario"
	simulation "tailscope/internal/experiment/simulate/spec"
	"tailscope/internal/guard/check/spec"
	"tailscope/internal/strictyaml"
	"tailscope/internal/strictyaml/schematest"
)

// fileKinds are the files that people write, by the key that tells them apart.
var fileKinds = []struct {
	key    string
	schema func() []byte
	read   func(name string, text []byte) []strictyaml.Problem
	right  string   // a file in which nothing is wrong
	wrong  []string // what makes one wrong, as lines after it
}{
	{"experiment", experiment.Schema, func(name string, _ []byte) []strictyaml.Problem {
		_, problems := experiment.Load(name)
		return problems
	}, "experiment: e\nlive: {session: s}\nvariable: a\ncontrol: {a: 1}\nvariants: [{a: 2}]\napply: ./set {{a}}\n", []string{
		"variant: []", "rounds: many", "rounds: 1001", "rounds: {early: maybe}", "settle: 5", "within: 120%", "design: both", "seed: 0",
		"gate: {allowed: much}", "measures: {p99: yes}", "between: [{dir: /}]", "unit: [a]", "record: [nginx]",
	}},
	{"simulate", simulation.Schema, func(name string, text []byte) []strictyaml.Problem {
		_, problems := simulation.Read(name, text)
		return problems
	}, "simulate: s\nleaves: [{from: {takes: 5ms}}]\nlayout: {nodes: 2, shards: 4, rate: 5}\n", []string{
		"layot: {}", "layouts: [{nodes: 0}]", "layouts: [{rate: fast}]", "layouts: [{pick: best}]", "layouts: [{overhead: 5}]", "layouts: [{hedge: {afte: 5ms}}]", "asks: most", "queries: many", "moments: some", "seed: -1", "vary: [1, 2]",
	}},
	{"scenario", scenario.Schema, func(name string, _ []byte) []strictyaml.Problem {
		_, problems := scenario.Load(name, scenario.LoadOptions{})
		return problems
	}, "scenario: s\ntarget: http://127.0.0.1:1\nqueries: [{name: home, request: GET /}]\nphases: [{rate: 10, for: 1s}]\n", []string{
		"warm_up: {steady: much}", "connections: 0", "seed: -1", "keep_alive: perhaps", "order: any", "setup: [{name: x}]", "env: [a]",
	}},
	{"checks", spec.Schema, func(name string, _ []byte) []strictyaml.Problem {
		_, problems := spec.Read([]string{name}, spec.Options{})
		return problems
	}, "checks: {a: {every: 10s, value: 1}}\n", []string{
		"zone: {}", "maintenance: [{nme: x}]", "calendars: {c: {week: eu}}", "receivers: {r: {file: {path: x}, timeout: 5}}", "page: localhost",
		"profiles: {p: {days: [{weeks: [54], none: true}]}}", "profiles: {p: {learn: {low: 110%}}}", "receivers: {r: {file: {path: x}, spool: {bytes: 0B}}}",
	}},
}

// Examples are right, and what the schema refuses is refused when it is read.
func TestSchemasOfFiles(t *testing.T) {
	files, err := filepath.Glob("../../docs/examples/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, "../../docs/examples/checks.yaml")
	for _, kind := range fileKinds {
		schema := schematest.Compile(t, kind.schema())
		examples := 0
		files = slices.DeleteFunc(files, func(name string) bool {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix("\n"+string(text), "\n"+kind.key+":") && !strings.Contains(string(text), "\n"+kind.key+":") {
				return false
			}
			examples++
			if err := schema.Validate(schematest.Document(t, text)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if problems := kind.read(name, text); len(problems) > 0 {
				t.Error(strictyaml.Error(problems))
			}
			return true
		})
		if examples == 0 {
			t.Errorf("there is no example that has %s", kind.key)
		}
		name := filepath.Join(t.TempDir(), "f.yaml")
		for _, more := range append([]string{""}, kind.wrong...) {
			text := []byte(kind.right + more)
			if err := os.WriteFile(name, text, 0o600); err != nil {
				t.Fatal(err)
			}
			bySchema, read := schema.Validate(schematest.Document(t, text)), kind.read(name, text)
			if right := more == ""; (bySchema == nil) != right || len(read) == 0 != right {
				t.Errorf("%s %q: by the schema %v, by the reader %v", kind.key, more, bySchema, strictyaml.Error(read))
			}
		}
	}
}
