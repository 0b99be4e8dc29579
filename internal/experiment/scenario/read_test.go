//go:build unix

package scenario

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"tailscope/internal/experiment/bench/tally"
	"tailscope/internal/strictyaml"
	"tailscope/internal/strictyaml/schematest"
)

const ok = "scenario: s\ntarget: http://127.0.0.1:1\nqueries: [{name: home, request: GET /}]\nphases: [{rate: 10, for: 1s}]\n"

func problemsText(problems []strictyaml.Problem) string {
	if err := strictyaml.Error(problems); err != nil {
		return err.Error()
	}
	return ""
}

func readText(text string, vars map[string]string) (*Scenario, []strictyaml.Problem) {
	return Load("s.yaml", LoadOptions{Vars: vars, ReadFile: func(string) ([]byte, error) { return []byte(text), nil }})
}

// Every mistake has its line and column, and says what to write.
func TestProblems(t *testing.T) {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, text, want string }{
		{"none", ok, ""},
		{"experiment", "experiment: workers\nscenario: nginx.yaml\nvariable: workers\n", "s.yaml:1:13: this is the file of an experiment, not of a scenario: tailscope experiment run s.yaml runs it"},
		{"key", ok + "phasse: []\n", "s.yaml:5:1: unknown key phasse in the scenario: did you mean phases?"},
		{"nested key", ok + "servers:\n  - {name: a, rn: x}\n", "s.yaml:6:5: server a is either started or found: write run: to start it, or one of pid, pid_file and port of one that runs\n" +
			"s.yaml:6:15: unknown key rn in servers[0]: did you mean run?"},
		{"nothing", "scenario: s\n", "s.yaml:1:1: the scenario needs target: Base address: http://127.0.0.1:8983\n" +
			"s.yaml:1:1: the scenario has no phases: write phases: [{rate: 200, for: 30s}]\n" +
			"s.yaml:1:1: nothing says what is asked, or several things do: write one of queries: [{name: home, request: \"GET /\"}], targets: FILE, record: {file: …} and access_log: {file: …}"},
		{"all at once", ok + "timeout: 5\nfaults: [{at: 2s, pause: web}]\nthresholds: [p99]\n", "s.yaml:5:10: timeout: \"5\" is not a duration: a duration needs a unit: write 5ms, 5s or 5m\n" +
			"s.yaml:6:10: nothing says for how long web is paused: write for: 1s\n" +
			"s.yaml:6:15: 2s is after the end: the phases take 1s\n" +
			"s.yaml:6:26: unknown server web: write servers: [{name: web, …}]\n" +
			"s.yaml:7:14: thresholds: threshold \"p99\": a comparison is missing after p99: write < or >, such as p(99) < 300ms"},
		{"server of a fault", ok + "servers: [{name: web, run: x}]\nfaults: [{at: 0s, pause: wbe, for: 1s}]\n", "s.yaml:6:26: unknown server wbe: did you mean web?"},
		{"restart of what was found", ok + "servers: [{name: web, port: 80}]\nfaults: [{at: 0s, restart: web}]\n", "s.yaml:6:28: server web is not started here and cannot be started again: pause it, or let run: start it"},
		{"variable", ok + "service: '{{nme}}'\nvars: {name: x}\n", "s.yaml:5:11: unknown variable {{nme}}: did you mean name?"},
		{"word of data", strings.Replace(ok, "GET /", "\"GET /{{wrd}}\"", 1) + "vars: {word: x}\n", "s.yaml:3:33: {{wrd}} is neither a column, a variable nor a built-in value: did you mean {{word}}?"},
		{"without quotes", ok + "service: {{name}}\n", "s.yaml:5:11: could not find flow map content: write what holds {{name}} in quotes: \"{{name}}\""},
		{"phase without a rate", strings.Replace(ok, "rate: 10, ", "", 1), "s.yaml:4:10: a phase needs a rate: write rate: 200 in requests a second, 200..800 for a ramp, or arrivals: closed at the top"},
		{"rate of a closed loop", ok + "arrivals: closed\n", "s.yaml:4:17: a plan of arrivals closed has no rate: leave rate out, or arrivals"},
		{"rate", strings.Replace(ok, "10", "fast", 1), "s.yaml:4:17: rate \"fast\": \"fast\" is not a number of requests a second: write 200, 200..800 for a ramp, or 200,400,800 for steps"},
		{"data that is not there", strings.Replace(ok, "GET /", "GET /, data: /no.csv", 1), "s.yaml:3:46: /no.csv: there is no such file: names of files are relative to @DIR"},
		{"server twice", ok + "servers: [{name: a, run: x}, {name: a, run: y}]\n", "s.yaml:5:30: two servers are called a: give one of them another name"},
		{"no way to a server", ok + "servers: [{name: a}]\n", "s.yaml:5:11: server a is either started or found: write run: to start it, or one of pid, pid_file and port of one that runs"},
		{"ready", ok + "servers: [{name: a, port: 80, ready: {log: x}}]\n", "s.yaml:5:44: the output of a is not seen, as it is not started here: write http or tcp"},
		{"metrics", ok + "servers: [{name: a, port: 80, metrics: [{prometheus: 'http://x/'}]}]\n", "s.yaml:5:41: nothing says which metrics of a are read: write families: [jvm_gc_pause_seconds_sum]"},
		{"warm-up", ok + "warm_up: {at_least: 2m}\n", "s.yaml:5:10: at_least 2m0s is more than at_most 1m0s"},
		{"signal", ok + "servers: [{name: a, run: x, stop: SIGTERM}]\n", "s.yaml:5:35: stop: \"SIGTERM\" is not known: write one of INT, TERM, QUIT, KILL, HUP"},
		{"TLS", ok + "tls: {insecure: true}\n", "s.yaml:5:6: the target speaks no TLS: write target: https://…"},
		{"data that runs out", "scenario: s\ntarget: http://127.0.0.1:1\nqueries: [{name: home, request: 'GET /{{word}}', data: testdata/words.csv, at_end: once}]\nphases: [{rate: 10, for: 1s}]\n", "s.yaml:4:9: query home, data: @DIR/testdata/words.csv holds 3 rows, and the plan asks for 10 of them: make the run shorter, the rate lower, add rows, or let them begin again at the end"},
		{"limits", ok + "limits: {late: 0%, cpu: 120%}\n", "s.yaml:5:16: nothing is ever sent without any error: write one such as 20%\n" +
			"s.yaml:5:25: cpu: \"120%\" is out of range: write one such as 50% or 0.5"},
		{"thinking", ok + "think: 1s\n", "s.yaml:5:8: only users of a closed loop think; a schedule waits for nobody: leave it out, or write arrivals: closed"},
		{"duration of phases", ok + "duration: 5s\n", "s.yaml:5:11: duration is of a recording's or a log's own times: leave it out, as phases say how long they take"},
		{"one metric twice", ok + "servers: [{name: a, port: 80, metrics: [{prometheus: 'http://x/', families: [m]}, {json: 'http://x/', path: b.m}]}]\n",
			"s.yaml:5:83: two metrics of a are called m: give one of them a name: of its own"},
		{"a log that is too short", "scenario: s\ntarget: http://127.0.0.1:1\naccess_log: {file: testdata/access.log}\nduration: 1m\n",
			"s.yaml:4:11: @DIR/testdata/access.log lasts 2s, and 1m0s are asked for: make the run shorter, or let it begin again at its end"},
		{"threshold of nothing", ok + "thresholds: ['p(99){hmoe} < 1s']\n", "s.yaml:5:14: threshold \"p(99){hmoe} < 1s\": there is no query hmoe: did you mean home?"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, problems := readText(tc.text, nil)
			if got := strings.ReplaceAll(problemsText(problems), dir, "@DIR"); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
			if (s == nil) != (len(problems) > 0) {
				t.Errorf("%v and %v", s, problems)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	for words, want := range map[string]struct {
		limits tally.Limits
		text   string
	}{
		"":                              {},
		"limits: {late: 20%, cpu: 98%}": {tally.Limits{Share: 0.2, Busiest: 0.98, Host: 0.98}, "late by up to 20 % of the latency and busy for up to 98 % of the time"},
		"limits: {late: 100%}":          {tally.Limits{Share: math.Inf(1)}, "late by any share of the latency"},
		"limits: {cpu: 1}":              {tally.Limits{Busiest: math.Inf(1), Starved: math.Inf(1), Host: math.Inf(1)}, "busy all the time"},
	} {
		s, problems := readText(ok+words+"\n", nil)
		if len(problems) > 0 || s.Limits != want.limits || s.LimitsText() != want.text {
			t.Errorf("%s: %v %+v %q", words, problems, s.Limits, s.LimitsText())
		}
	}
	s := &Scenario{Limits: tally.Limits{Share: 0.2, Busiest: 0.98, Host: 0.98}}
	if got := s.limits(tally.Limits{Late: time.Second, Share: 0.5}); got != (tally.Limits{Late: time.Second, Share: 0.5, Busiest: 0.98, Host: 0.98}) {
		t.Errorf("what is asked for goes before what the file says: %+v", got)
	}
}

func TestVars(t *testing.T) {
	text := `scenario: s
target: http://127.0.0.1:{{port}}
vars: {port: 80, rate: 10, path: a b}
queries: [{request: "GET /{{path}}"}]
phases: [{rate: "{{rate}}..{{ rate }}0", for: 1s}]
setup: [{run: 'curl :{{port}}'}]
`
	s, problems := readText(text, map[string]string{"rate": "20"})
	if len(problems) > 0 {
		t.Fatal(problemsText(problems))
	}
	if s.Target.Port() != "80" || s.Plan.Phases[0].From != 20 || s.Plan.Phases[0].To != 200 || s.Setup[0].Run.Args[0] != "curl :80" || s.Requests.Queries[0].Request != "GET /{{path}}" {
		t.Errorf("%+v", s)
	}
	if s, problems = s.With(map[string]string{"port": "81"}); len(problems) > 0 || s.Target.Port() != "81" || s.Plan.Phases[0].From != 20 {
		t.Errorf("%+v %v", s, problems)
	}
	_, problems = readText(text, map[string]string{"prt": "1"})
	if got := problemsText(problems); got != "s.yaml: the scenario has no variable prt: did you mean port?" {
		t.Error(got)
	}
	_, problems = readText(text, map[string]string{"rate": "fast"})
	if got := problemsText(problems); !strings.HasPrefix(got, "s.yaml:5:17: rate \"fast..fast0\"") {
		t.Error(got)
	}
}

func TestKeysAreDescribed(t *testing.T) {
	for _, wrong := range strictyaml.Undescribed(reflect.TypeFor[scenarioFile](), leaves) {
		t.Error(wrong)
	}
}

// The examples are right, by the schema and as they are read.
func TestExamples(t *testing.T) {
	s := schematest.Compile(t, Schema())
	files, err := filepath.Glob("../../../docs/examples/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(text, []byte("scenario:")) && !bytes.Contains(text, []byte("\nscenario:")) || bytes.Contains(text, []byte("\nexperiment:")) || bytes.HasPrefix(text, []byte("experiment:")) {
			continue
		}
		n++
		if err := s.Validate(schematest.Document(t, text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, problems := Load(name, LoadOptions{}); len(problems) > 0 {
			t.Error(problemsText(problems))
		}
	}
	if n == 0 {
		t.Error("there are no examples")
	}
}

// What the schema refuses is refused when it is read, too.
func TestSchemaRefuses(t *testing.T) {
	s := schematest.Compile(t, Schema())
	if err := s.Validate(schematest.Document(t, []byte(ok))); err != nil {
		t.Error(err)
	}
	for _, text := range []string{
		"phasse: []", "arrivals: sometimes", "timeout: 5x", "servers: [{run: x}]", "servers: [{name: x, run: {a: b}}]", "warm_up: {steady: much}",
		"faults: [{pause: x}]", "load: [{name: x, file: y, request: /docs}]",
	} {
		if err := s.Validate(schematest.Document(t, []byte(ok+text))); err == nil {
			t.Errorf("the schema takes %s", text)
		}
		if _, problems := readText(ok+text, nil); len(problems) == 0 {
			t.Errorf("Load takes %s", text)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(ok)
	f.Add(small)
	f.Add(ok + "vars: {a: '{{a}}'}\nsetup: ['{{a}}']\nservers: [{name: a, run: [x], metrics: [{json: 'http://x', path: a.b}]}]\nfaults: [{at: 1s, kill: a, for: 1s}]\n")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "data") || strings.Contains(text, "file") || strings.Contains(text, "targets") || strings.Contains(text, "record") || strings.Contains(text, "access_log") {
			return // files of this machine
		}
		s, problems := readText(text, nil)
		if (s == nil) != (len(problems) > 0) {
			t.Fatalf("%v and %v", s, problems)
		}
		for _, p := range problems {
			if p.Message == "" || p.Line > strings.Count(text, "\n")+2 {
				t.Fatalf("%+v", p)
			}
		}
	})
}

// What docs/bench.md shows is right by the schema.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/bench.md")
	if err != nil {
		t.Fatal(err)
	}
	s, n := schematest.Compile(t, Schema()), 0
	for _, part := range strings.Split(string(text), "```yaml\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		if !strings.HasPrefix(block, "scenario:") {
			continue
		}
		n++
		if err := s.Validate(schematest.Document(t, []byte(block))); err != nil {
			t.Errorf("%v\n%s", err, block)
		}
	}
	if n == 0 {
		t.Error("no scenario is shown")
	}
}
