package cli

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/report"
)

// simulated runs the command and says what it printed.
func simulated(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	t.Setenv("TAILSCOPE_SERVER", "")
	var stdout, stderr bytes.Buffer
	code = Run(t.Context(), append([]string{"simulate"}, args...), nil, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

var stairs = []string{"--leaves", "5ms", "--shards", "8", "--threads", "1", "--cores", "1", "--rate", "2", "--queries", "2k"}

// What flags say is a file too, which gives the same answer.
func TestSimulateFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stairs.yaml")
	code, out, errs := simulated(t, append(stairs, "--nodes", "4..9", "--split", "binary,arbitrary", "--save", file)...)
	if code != 0 || !strings.Contains(out, "from 4 to 7 nodes, binary, nothing is gained") || !strings.Contains(out, "9 nodes, arbitrary") {
		t.Fatalf("%d %s %s", code, out, errs)
	}
	code, again, errs := simulated(t, file, "--queries", "2k")
	if code != 0 || strings.Split(again, "\n\nAgain")[0] != strings.Split(out, "\n\nAgain")[0] {
		t.Errorf("%d %s %s", code, again, errs)
	}
	for format, want := range map[string]string{"markdown": "| 4 nodes, binary | 4 | 8 | 2 | 10.0 ms |", "html": "<svg viewBox=", "json": `"variable": "nodes"`} {
		if code, out, errs := simulated(t, file, "--queries", "1k", "--format", format); code != 0 || !strings.Contains(out, want) || strings.Contains(out, "NaN") {
			t.Errorf("%s: %d %.2000s %s", format, code, out, errs)
		}
	}
	if code, out, _ := simulated(t, "validate", file); code != 0 || !strings.Contains(out, "12 layouts of 100,000 queries each, about p99") {
		t.Errorf("%d %s", code, out)
	}
	if code, out, _ := simulated(t, "schema"); code != 0 || !json.Valid([]byte(out)) {
		t.Errorf("%d %.100s", code, out)
	}
}

func TestSimulateMistakes(t *testing.T) {
	dir := t.TempDir()
	few := filepath.Join(dir, "few.txt")
	wrong := filepath.Join(dir, "wrong.yaml")
	for name, text := range map[string]string{few: "5ms\n6ms\n", wrong: "simulate: x\nleaves: [{from: {takes: 5ms}}]\nlayout: {nodes: 4, shard: 8, rate: 5}\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "there is nothing to simulate"},
		{[]string{wrong}, "wrong.yaml:3:20: unknown key shard in layout: did you mean shards?"},
		{[]string{filepath.Join(dir, "gone.yaml")}, "no such file"},
		{[]string{wrong, "--nodes", "4"}, "--nodes is of a simulation without a file"},
		{[]string{"--nodes", "4"}, "write --leaves solr"},
		{append(stairs, "--nodes", "4", "--format", "pdf"), "write text, markdown, html or json"},
		{append(stairs, "--nodes", "4,6", "--replicas", "1,2"), "vary one of them"},
		{append(stairs, "--nodes", "4", "--asks", "p100"), `tailscope: --asks: "p100" is not a quantile`},
		{append(stairs, "--nodes", "4", "--set", "moments=q"), `tailscope: --set moments: "q" is not known: write one of all`},
		{append(stairs, "--nodes", "x", "--set", "leaves.together=7"), "tailscope: --set leaves.together: \"7\" is out of range: write one such as 50% or 0.5\ntailscope: --nodes: \"x\" is out of range"},
		{append(stairs, "--nodes", "x..4"), "tailscope: --nodes: "},
		{append(stairs, "--nodes", "4", "--set", "leaves.shards=foo"), "tailscope: --set leaves.shards: \"foo\" is out of range"},
		{[]string{"--leaves", few, "--nodes", "4", "--shards", "8", "--rate", "5"}, "there are 2 observations"},
	} {
		if code, out, errs := simulated(t, c.args...); code != exitUsage || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%v: %d %s %s", c.args, code, out, errs)
		}
	}
	away := []string{"--leaves", "solr", "--nodes", "4", "--shards", "8", "--rate", "5", "--server", "http://127.0.0.1:1"}
	if code, out, errs := simulated(t, away...); code != exitFailed || out != "" || !strings.Contains(errs, "hint: name the server that has the leaves with --server") {
		t.Errorf("%v: %d %s %s", away, code, out, errs)
	}
	if code, out, errs := simulated(t, append(stairs, "--nodes", "1", "--rate", "900")...); code != 0 || !strings.Contains(out, "cannot keep up") {
		t.Errorf("a layout that cannot keep up is no failure: %d %s %s", code, out, errs)
	}
}

// Leaves come from a server, what came of them goes to its log book, and a report of
// that says the same.
func TestSimulateFromServer(t *testing.T) {
	var kept api.SessionReport
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := any(api.SessionReply{})
		switch {
		case r.URL.Path == "/api/v1/leaves" && r.URL.Query().Get("match") != `{service="solr",operation="GET /select"}`:
			w.WriteHeader(http.StatusNotFound)
			answer = map[string]any{"error": map[string]string{"code": "not_found", "message": `there are no successful requests of service "sol"; did you mean "solr"?`, "field": "service"}}
		case r.URL.Path == "/api/v1/leaves":
			nan := api.Float(math.NaN())
			class := api.LeafClass{Class: "GET /select", Count: 40_000, Together: api.ScalingValue{Value: 0.2, Low: 0.1, High: 0.3}, Traces: 90, FanOut: 4}
			for i := range int64(4) {
				class.Slots = append(class.Slots, api.LeafSlot{Time: 1000 + 10*i, Min: 0.001, Max: 0.02, At: []int{0, 1}, Counts: []uint64{7000, 3000}})
			}
			answer = api.Leaves{Format: 1, Service: "solr", Range: api.Range{Start: 1000, End: 1040}, Step: 10, Source: "requests of solr", Bounds: []api.Float{0.001, 0.01, 0.02},
				Classes: []api.LeafClass{class, {Class: "none", Together: api.ScalingValue{Value: nan, Low: nan, High: nan}, FanOut: nan}}}
		case strings.HasPrefix(r.URL.Path, "/api/v1/sessions/") && r.Method == http.MethodPut:
			if err := json.NewDecoder(r.Body).Decode(&kept); err != nil {
				t.Error(err)
			}
		default:
			t.Errorf("asked for %s %s", r.Method, r.URL)
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	defer srv.Close()
	flags := []string{"--nodes", "2,4", "--shards", "4", "--threads", "2", "--cores", "2", "--rate", "3", "--queries", "2k", "--server", srv.URL}
	code, out, errs := simulated(t, append(flags, "--leaves", "solr/GET /select", "--keep")...)
	if code != 0 || !strings.Contains(out, "together out of 90 traces, 0.20 (0.10–0.30)") || !strings.Contains(out, "40,000") || !strings.Contains(errs, "kept as ") {
		t.Fatalf("%d %s %s", code, out, errs)
	}
	if s := kept.Simulation; kept.Kind != "simulation" || !kept.Ended || kept.Service != "solr" || s == nil || len(s.Layouts) != 2 || s.Leaves[0].Slots != 4 || !strings.Contains(s.Command, "--server "+srv.URL) {
		t.Fatalf("%+v", kept)
	}
	x := &api.Session{ID: "s", Kind: "simulation", Name: kept.Name, Headline: kept.Simulation.Headline, Simulation: kept.Simulation}
	for format, want := range map[string]string{"text": kept.Simulation.Headline, "html": "<svg viewBox=", "md": "| 4 nodes | 4 |", "json": `"kind": "simulation"`} {
		var b bytes.Buffer
		if err := report.Session(x, nil, time.Unix(2000, 0)).Write(&b, report.FormatOf(format)); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("%s: %.1000s %v", format, b.String(), err)
		}
	}
	if code, _, errs := simulated(t, append(flags, "--leaves", "sol")...); code != exitUsage || !strings.Contains(errs, `did you mean "solr"?`) {
		t.Errorf("%d %s", code, errs)
	}
	file := filepath.Join(t.TempDir(), "l.json")
	if code, _, errs := simulated(t, "leaves", "solr/GET /select", "--server", srv.URL, "--output", file); code != 0 {
		t.Fatal(errs)
	}
	if code, out, errs := simulated(t, "--leaves", file, "--nodes", "4", "--shards", "4", "--threads", "1", "--cores", "1", "--rate", "3", "--queries", "2k"); code != 0 || !strings.Contains(out, "GET /select") {
		t.Errorf("%d %s %s", code, out, errs)
	}
}

// The examples that need nothing can be played, and all can be read.
func TestExamplesOfSimulations(t *testing.T) {
	files, err := filepath.Glob("../../docs/examples/simulate/*.yaml")
	if err != nil || len(files) != 3 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if code, out, errs := simulated(t, "validate", f); code != 0 {
			t.Errorf("%d %s %s", code, out, errs)
		}
	}
	if code, out, errs := simulated(t, "../../docs/examples/simulate/stairs.yaml", "--queries", "1k"); code != 0 || !strings.Contains(out, "16 nodes, arbitrary") {
		t.Errorf("%d %s %s", code, out, errs)
	}
}
