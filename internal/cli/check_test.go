package cli

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tailscope/api"
	"tailscope/internal/guard/check/spec"
	"tailscope/internal/report"
	"tailscope/internal/report/reporttest"
)

var noNumber = api.Float(math.NaN())

func bandsFixture(t, lc, lw, hw, hc float64) api.CheckBands {
	return api.CheckBands{Threshold: api.Float(t), LowCritical: api.Float(lc), LowWarning: api.Float(lw), HighWarning: api.Float(hw), HighCritical: api.Float(hc)}
}

// The line is Bischeck's: bounds from the threshold outwards; and data as Nagios'
// plugins write them.
func TestPluginLine(t *testing.T) {
	nan := math.NaN()
	for _, tc := range []struct {
		check api.Check
		want  string
	}{
		{api.Check{ID: "orders", Level: "OK", Value: 12000, Bands: bandsFixture(11000, 7700, 9900, nan, nan)},
			"OK orders = 12000 (11000 > W > 9900 > C > 7700) | orders=12000;9900:;7700: threshold=11000"},
		{api.Check{ID: "p99", Level: "WARNING", Value: 0.345, Unit: "s", Text: "0.345 s is above 0.33 s", Bands: bandsFixture(0.3, nan, nan, 0.33, 0.45)},
			"WARNING p99 = 345 ms (300 ms < W < 330 ms < C < 450 ms): 0.345 s is above 0.33 s | p99=0.345s;~:0.33;~:0.45 threshold=0.3s"},
		{api.Check{ID: `a{x="a b"}`, Level: "CRITICAL", Value: 5, Bands: bandsFixture(100, 70, 90, 110, 130)},
			`CRITICAL a{x="a b"} = 5 (70 < C < 90 < W < 100 < W < 110 < C < 130) | 'a{x_"a b"}'=5;90:110;70:130 threshold=100`},
		{api.Check{ID: "w", Level: "OK", Value: 1, Unit: "/s", Bands: bandsFixture(2, nan, nan, 3, nan)}, "OK w = 1/s (2 < W < 3) | w=1;~:3 threshold=2"},
		// What reads performance data knows no exponents, and no bar but the one.
		{api.Check{ID: "a|b", Level: "OK", Value: 0.0000005, Unit: "s", Bands: bandsFixture(123456789.5, nan, nan, 1e20, nan)},
			"OK a/b = 500 ns (1,429 d < W < 1.16e+15 d) | a/b=0.0000005s;~:100000000000000000000 threshold=123456789.5s"},
		{api.Check{ID: "n", Level: "UNKNOWN", Value: noNumber, Text: "a | b", Bands: bandsFixture(nan, nan, nan, nan, nan)}, "UNKNOWN n = null (NA): a / b"},
	} {
		if got := report.PluginLine(&tc.check); got != tc.want {
			t.Errorf("got  %s\nwant %s", got, tc.want)
		}
	}
}

func writeChecks(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "checks.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// A run ends as a Nagios plugin does.
func TestCheckRunHere(t *testing.T) {
	file := writeChecks(t, `templates:
  number: {every: 1m, value: {command: {output: number}}}
checks:
  ok: {template: number, value: {command: {args: [echo, "12000"]}}, threshold: {must: ">", of: 11000, warning: 10%, critical: 30%}}
  warning: {template: number, value: {command: {args: [echo, "9000"]}}, threshold: {must: ">", of: 11000, warning: 10%, critical: 30%}}
  critical: {template: number, value: {command: {args: [echo, "7"]}}, threshold: {must: ">", of: 11000, warning: 10%, critical: 30%}}
  unknown: {template: number, value: {command: {args: [echo, "many"]}}, threshold: {must: ">", of: 11000, warning: 10%, critical: 30%}}
  plugin: {every: 1m, value: {command: {shell: "echo 'DISK OK|/=2MB;5;10'; exit 1"}}}
  profile: {template: number, value: {command: {args: [echo, "5"]}}, threshold: {must: "<", of: profile p, critical: 0}}
  history: {every: 1m, value: 'avg({check="ok"}[0:9])'}
  each: {every: 1m, each: {series: x, by: a}, value: 1}
  constant: {every: 1m, value: 6 * 7, threshold: {must: "<", of: value + 1, critical: 0}}
profiles:
  p: {days: [{intervals: [{from: "00:00", to: "24:00", value: 3}]}]}
`)
	for name, want := range map[string]struct {
		code      int
		out, errs string
	}{
		"ok":       {0, "OK ok = 12000 (11000 > W > 9900 > C > 7700) | ok=12000;9900:;7700: threshold=11000\n", ""},
		"warning":  {1, "WARNING warning = 9000 (11000 > W > 9900 > C > 7700): 9,000 is below 9,900 |", ""},
		"critical": {2, "CRITICAL critical = 7 (11000 > W > 9900 > C > 7700): 7 is below 7,700 |", ""},
		"unknown":  {3, "UNKNOWN unknown = null", ""},
		"plugin":   {1, "WARNING plugin = 2", ""},
		"profile":  {2, "CRITICAL profile = 5 (3 < C < 3)", ""},
		"history":  {3, "UNKNOWN history = null", "history reads history, and there is none here"},
		"constant": {0, "OK constant = 42 ", ""},
		"each":     {3, "UNKNOWN each: each is applied to each", "each is applied to each of several series"},
		"nothing":  {3, "UNKNOWN nothing: no check is called \"nothing\"\n", "no check is called \"nothing\""},
	} {
		out, errs, code := run(t, "check", "run", name, "--file", file)
		if code != want.code || !strings.HasPrefix(out, want.out) || !strings.Contains(errs, want.errs) || want.errs == "" && errs != "" {
			t.Errorf("%s: exit code %d\n%s%s", name, code, out, errs)
		}
	}
	if _, errs, code := run(t, "check", "run", "ok"); code != 3 || !strings.Contains(errs, "no file and no server is named") {
		t.Errorf("exit code %d, %s", code, errs)
	}
	// Nagios takes 2 for CRITICAL: no wrong use ends with it.
	for _, args := range [][]string{{"check", "run"}, {"check", "run", "a", "b"}, {"check", "run", "a", "--bogus"}} {
		if _, errs, code := run(t, args...); code != 3 || !strings.Contains(errs, "hint: ") {
			t.Errorf("%q: exit code %d, %s", args, code, errs)
		}
	}
}

func TestCheckRunThere(t *testing.T) {
	srv, asked := answering(t, &api.Check{ID: "orders", Level: "CRITICAL", Value: 7, Bands: bandsFixture(10, 8, 9, math.NaN(), math.NaN())})
	out, errs, code := run(t, "check", "run", "orders", "--server", srv.URL)
	if code != 2 || errs != "" || !strings.HasPrefix(out, "CRITICAL orders = 7 (10 > W > 9 > C > 8)") {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
	if got := unescape((*asked)[0]); !strings.HasPrefix(got, "POST /api/v1/check/run id=orders") {
		t.Errorf("asked %s", got)
	}
}

func TestCheckValidate(t *testing.T) {
	good := writeChecks(t, "checks:\n  a: {every: 10s, value: 1}\n")
	if out, errs, code := run(t, "check", "validate", good); code != 0 || errs != "" || out != "1 check, no profile, no receiver in 1 file: no mistakes\n" {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
	if out, _, code := run(t, "check", "validate", "--print", good); code != 0 || out != "checks:\n  a:\n    value: 1\n    every: 10s\n" {
		t.Errorf("exit code %d, %s", code, out)
	}
	bad := writeChecks(t, "checks:\n  a: {evry: 10s, value: avg(}\n")
	_, errs, code := run(t, "check", "validate", bad)
	for _, want := range []string{bad + ":2:7: unknown key evry in check a: did you mean every?\n", bad + ":2:3: check a has no schedule", bad + ":2:2", "hint: 3 mistakes; docs/checks.md has every key\n"} {
		if !strings.Contains(errs, want) {
			t.Errorf("want %q in\n%s", want, errs)
		}
	}
	if code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	out, _, code := run(t, "check", "validate", "--json", bad)
	var r struct{ Problems []spec.Problem }
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != exitFailed || len(r.Problems) != 3 || r.Problems[0].Line != 2 {
		t.Errorf("exit code %d, %v: %s", code, err, out)
	}
	if _, _, code := run(t, "check", "validate"); code != exitUsage {
		t.Errorf("without a file: exit code %d", code)
	}
	out, _, _ = run(t, "check", "schema")
	if !json.Valid([]byte(out)) || !strings.Contains(out, "draft/2020-12") {
		t.Error("the schema is none")
	}
}

func TestCheckAnswers(t *testing.T) {
	c := api.Check{ID: `errors{operation="GET /a"}`, Name: "errors", State: "CRITICAL", Level: "CRITICAL", Since: noNumber, Last: noNumber, Next: noNumber,
		Value: 0.2, Text: "0.2 is above 0.1", Bands: bandsFixture(0, math.NaN(), math.NaN(), 0.02, 0.1), Quiet: "acknowledged by ada",
		Labels: map[string]string{"team": "shop"}, Schedule: "every 10s", Receivers: []string{"log"}, Description: "failing requests"}
	soft := api.Check{ID: "p99", State: "OK", Level: "WARNING", Soft: true, Since: noNumber, Last: noNumber, Value: 0.345, Unit: "s", Text: "slow\x1b[1m", Bands: bandsFixture(0.3, math.NaN(), math.NaN(), 0.33, math.NaN()), Flapping: true}
	incident := api.Incident{ID: "i1", Kind: "check", Check: c.ID, Start: begin, End: noNumber, Worst: "CRITICAL", Text: "errors is CRITICAL", Acked: &api.Ack{User: "ada"}}
	steps := []api.CheckStep{{Text: "avg(x[0:1])", Depth: 0, Value: "3"}, {Text: "x[0:1]", Depth: 1, Value: "2 values 2, 4"}}
	for _, tc := range []struct {
		file, asked string
		answer      any
		args        []string
	}{
		{"check_list.txt", "GET /api/v1/checks limit=100&state=bad", &api.ChecksResponse{Checks: []api.Check{c, soft}, Total: 5, Counts: map[string]int{"CRITICAL": 1, "OK": 4},
			Problem: "checks: a.yaml:1:1: wrong\na.yaml:2:1: wrong too", Files: []string{"a.yaml"}, Receivers: []api.CheckReceiver{{Name: "hook", State: "waiting", Spooled: 3, Error: "refused"}}},
			[]string{"list", "--state", "bad"}},
		{"check_show.txt", "GET /api/v1/check id=errors", &api.CheckResponse{Check: c, Definition: "checks:\n  errors:\n    every: 10s\n", File: "a.yaml:3", ThresholdSteps: steps, Incidents: []api.Incident{incident}},
			[]string{"show", "errors"}},
		{"check_history.txt", "GET /api/v1/check end=now&id=errors&start=now-1h&step=2m", &api.CheckResponse{Check: c,
			Points: []api.CheckPoint{{Time: begin, Value: 0.2, Min: 0.1, Max: 0.3, Bands: c.Bands}, {Time: begin + 10, Value: noNumber, Min: noNumber, Max: noNumber, Bands: bandsFixture(math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN())}},
			States: []api.CheckState{{Start: begin, End: begin + 60, State: "OK", Soft: true, Why: "fine"}, {Start: begin + 60, End: noNumber, State: "CRITICAL"}}},
			[]string{"history", "errors", "--since", "1h"}},
		{"check_evaluate.txt", "POST /api/v1/checks/evaluate ", &api.CheckEvaluateResponse{Value: 3, Steps: steps}, []string{"evaluate", "avg(x[0:1])"}},
		{"check_backtest.txt", "POST /api/v1/checks/backtest ", &api.CheckBacktestResponse{Runs: 2016, Nulls: 1, NoThreshold: 12, Every: 1200, Unit: "orders", PerWeek: 0.5, Seconds: 5400, Found: 1, Missed: 1, False: 1,
			Alarms:    []api.Alarm{{Start: begin, End: begin + 3600, Worst: "CRITICAL", Value: 7, Incident: "m1"}, {Start: begin + 7200, End: noNumber, Worst: "WARNING", Value: 9}},
			Incidents: []api.BacktestIncident{{Incident: api.Incident{ID: "m1", Name: "the queue stood"}, Found: true, After: 60}, {Incident: api.Incident{ID: "m2", Name: "the bank"}, After: noNumber}},
			Before:    &api.BacktestSummary{Alarms: 9, Found: 1, Missed: 1, False: 8, PerWeek: 2.25}},
			[]string{"backtest", "orders", "--must", ">", "--of", "10", "--warning", "1"}},
		{"check_maintenance.txt", "GET /api/v1/maintenance", &api.MaintenanceResponse{Windows: []api.Maintenance{
			{ID: "m1", Name: "disks", Checks: []string{"disk"}, Match: `{team="shop"}`, Start: begin, End: begin + 3600, User: "ada", Active: true},
			{Name: "backup", Fixed: true, When: "0 2 * * * for 1h", Start: noNumber, End: noNumber}}}, []string{"maintenance", "list"}},
		{"check_incidents.txt", "GET /api/v1/incidents end=now&open=true&start=now-7d", &api.IncidentsResponse{Incidents: []api.Incident{incident, {ID: "m1", Kind: "marked", Name: "the queue stood", Start: begin, End: begin + 60}}},
			[]string{"incident", "list", "--open"}},
	} {
		srv, asked := answering(t, tc.answer)
		out, errs, code := run(t, append(append([]string{"check"}, tc.args...), "--server", srv.URL)...)
		if code != exitOK || errs != "" {
			t.Fatalf("%s: exit code %d, %s", tc.file, code, errs)
		}
		reporttest.Golden(t, tc.file, out)
		if got := unescape((*asked)[0]); !strings.HasPrefix(got, tc.asked) {
			t.Errorf("asked %q, want %q", got, tc.asked)
		}
		if out, _, code = run(t, append(append([]string{"check"}, tc.args...), "--json", "--server", srv.URL)...); code != exitOK || !json.Valid([]byte(out)) {
			t.Errorf("%s --json: exit code %d, %s", tc.file, code, out)
		}
	}
}

// What changes something says what, and to what.
func TestCheckChanges(t *testing.T) {
	for _, tc := range []struct {
		args  []string
		asked string
		holds []string
	}{
		{[]string{"ack", "orders", "--user", "ada", "--comment", "on it"}, "POST /api/v1/check/acknowledge id=orders", []string{`"user":"ada"`, `"comment":"on it"`, `"until":null`}},
		{[]string{"ack", "orders", "--user", "ada", "--undo"}, "DELETE /api/v1/check/acknowledge id=orders&user=ada", nil},
		{[]string{"maintenance", "add", "disks", "--check", "disk", "--check", "db", "--start", "2026-03-01 12:00", "--for", "2h", "--user", "ada"}, "POST /api/v1/maintenance ",
			[]string{`"name":"disks"`, `"checks":["disk","db"]`, `"start":1772366400`, `"end":1772373600`}},
		{[]string{"maintenance", "end", "m1"}, "DELETE /api/v1/maintenance/m1", nil},
		{[]string{"incident", "add", "stood", "--check", "orders", "--start", "2026-03-01 12:00", "--end", "2026-03-01 12:30"}, "POST /api/v1/incidents ",
			[]string{`"name":"stood"`, `"check":"orders"`, `"start":1772366400`, `"end":1772368200`}},
		{[]string{"incident", "remove", "x1"}, "DELETE /api/v1/incidents/x1", nil},
	} {
		srv, asked := answering(t, &api.Check{ID: "x", State: "OK", Value: 1})
		_, errs, code := run(t, append(append([]string{"check"}, tc.args...), "--server", srv.URL)...)
		if code != exitOK || len(*asked) != 1 || !strings.HasPrefix(unescape((*asked)[0]), tc.asked) {
			t.Fatalf("%q: exit code %d, %s; asked %q", tc.args, code, errs, *asked)
		}
		for _, want := range tc.holds {
			if !strings.Contains((*asked)[0], want) {
				t.Errorf("%q: asked %s, want %s", tc.args, (*asked)[0], want)
			}
		}
	}
	for _, tc := range []struct{ line, want string }{
		{"maintenance add x", "when does it end?"},
		{"maintenance add x --for 1h --end now", "when does it end?"},
		{"incident add x --for 1h", "when did it begin?"},
		{"ack x --until yesterday --user a", "--until"},
		{"lst", "unknown command"},
		{"maintenance lst", "unknown command"},
		{"backtest x --every often", "--every"},
	} {
		if _, errs, code := run(t, append([]string{"check"}, strings.Fields(tc.line)...)...); code != exitUsage || !strings.Contains(errs, tc.want) {
			t.Errorf("%s: exit code %d, %s", tc.line, code, errs)
		}
	}
}
