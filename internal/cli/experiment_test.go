package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"tailscope/api"
)

// An experiment whose variant asks for what fails, and the gates that it does and
// does not pass: exit codes, and what is said before any load.
func TestExperimentRunsAndGates(t *testing.T) {
	var asked atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1); r.URL.Path == "/bad" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer target.Close()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("load.yaml", "scenario: load\ntarget: "+target.URL+"\nvars: {path: good}\nconnections: 1\nqueries: [{name: a, request: \"GET /{{path}}\"}]\n"+
		"phases: [{rate: 200, for: 200ms}]\nlimits: {late: 100%, cpu: 100%}\n")
	file := write("x.yaml", "experiment: paths\nscenario: load.yaml\nvariable: path\ncontrol: {path: good}\nvariants: [{path: bad}]\nrounds: 3\nmeasures: [errors]\ngate: {baseline: base.json, allowed: 5%, measures: [errors]}\n")
	other := write("other.yaml", "experiment: paths\nscenario: load.yaml\nvariable: path\ncontrol: {path: bad}\nvariants: [{path: good}]\nrounds: 3\nmeasures: [errors]\ngate: {baseline: base.json}\n")
	base := filepath.Join(dir, "base.json")

	if _, stderr, code := run(t, "experiment", "run", file); code != exitFailed || asked.Load() > 0 || !strings.Contains(stderr, "--save-baseline base.json writes one") {
		t.Errorf("without its baseline: %d after %d requests: %s", code, asked.Load(), stderr)
	}
	stdout, stderr, code := run(t, "experiment", "run", file, "--save-baseline", base, "--format", "json", "--seed", "5")
	var trial api.Experiment
	if err := json.Unmarshal([]byte(stdout), &trial); err != nil || code != exitOK {
		t.Fatalf("%d: %v\n%s", code, err, stderr)
	}
	// Errors are all that is measured: what fails may be answered sooner or later by chance.
	if trial.Verdict != "more errors" || trial.Rows[0].Verdict != "more errors" || trial.Seed != 5 || trial.Stopping.Done != 3 || trial.Rows[0].Lead != "errors" || trial.Gate != nil {
		t.Errorf("%+v", trial)
	}
	stdout, stderr, code = run(t, "experiment", "run", file, "--format", "markdown")
	if code != exitOK || !strings.Contains(stdout, "Gate passed, against the baseline base.json") || !strings.Contains(stdout, "+100.00pt") || strings.Contains(stdout, "p99") {
		t.Errorf("with its baseline: %d\n%s\n%s", code, stdout, stderr)
	}
	asked.Store(0)
	if _, stderr, code = run(t, "experiment", "run", other); code != exitUsage || asked.Load() > 0 || !strings.Contains(stderr, "its control is path=good, not path=bad") {
		t.Errorf("with a baseline of another experiment: %d after %d requests: %s", code, asked.Load(), stderr)
	}
	worse, kept := write("worse.yaml", "experiment: paths\nscenario: load.yaml\nvariable: path\ncontrol: {path: good}\nvariants: [{path: bad}]\nrounds: 3\nmeasures: [errors]\ngate: {measures: [errors]}\n"), filepath.Join(dir, "kept.json")
	if _, stderr, code = run(t, "experiment", "run", worse, "--save-baseline", kept); code != exitFailed || !strings.Contains(stderr, "kept.json stays as it was") {
		t.Errorf("a gate that fails: %d: %s", code, stderr)
	}
	if _, err := os.Stat(kept); err == nil {
		t.Error("what failed its gate became the baseline")
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{base}, exitFailed, "the share of errors with path=bad is 100 points higher than with path=good"},
		{[]string{base, "--measures", "p50", "--allowed", "100000%"}, exitUsage, "--allowed"},
		{[]string{base, base}, exitOK, "Gate passed"},
		{[]string{base, filepath.Join(dir, "none.json")}, exitFailed, "no such file"},
		{[]string{base, file}, exitFailed, "is not a result of an experiment"},
	} {
		stdout, stderr, code := run(t, append([]string{"experiment", "gate"}, c.args...)...)
		if code != c.code || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("gate %q ends with %d: %s%s", c.args, code, stdout, stderr)
		}
	}
}
