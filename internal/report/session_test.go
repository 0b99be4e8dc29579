package report

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"tailscope/api"
)

func triedExperiment(t *testing.T) *api.Session {
	t.Helper()
	b, err := os.ReadFile("testdata/experiment_report.json")
	if err != nil {
		t.Fatal(err)
	}
	var p api.SessionReport
	if err := json.Unmarshal(b, &p); err != nil {
		t.Fatal(err)
	}
	return &api.Session{ID: "t-1", Kind: p.Kind, Name: p.Name, Service: p.Service, Start: p.Start, End: p.Experiment.End, State: "ended", Headline: p.Experiment.Headline, Experiment: p.Experiment}
}

func written(t *testing.T, x *api.Session, format string) string {
	t.Helper()
	var b bytes.Buffer
	if err := Session(x, nil, time.Unix(1770000000, 0).UTC()).Write(&b, FormatOf(format)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var outside = regexp.MustCompile(`(src|href)=|url\(|@import`)

// The page needs nothing else, draws every round, and says what went wrong first.
func TestReportSessionHTML(t *testing.T) {
	x := triedExperiment(t)
	x.Name = `<script>alert("x")</script>`
	x.Experiment.RestoreError = "./reload.sh 8: exit status 1"
	s := written(t, x, "html")
	if outside.MatchString(s) || strings.Contains(s, "<script") || strings.Contains(s, "NaN") || strings.Contains(s, "Inf") {
		t.Errorf("the page needs more than itself, or has what is not a number: %q", outside.FindString(s))
	}
	queries, rounds := 3, len(x.Experiment.Rounds)
	if n := strings.Count(s, `<circle class="dot"`) + strings.Count(s, `<circle class="dot hollow"`); n < queries*rounds {
		t.Errorf("%d dots of %d rounds of %d queries", n, rounds, queries)
	}
	if n := strings.Count(s, `class="dot hollow"`); n != queries {
		t.Errorf("%d rounds do not count, of 1 in %d charts", n, queries)
	}
	if n := strings.Count(s, `<rect class="best"`); n != 2*queries {
		t.Errorf("%d settings are shaded, want 2 in %d charts", n, queries)
	}
	for _, want := range []string{"The control was not restored: ./reload.sh 8", "more workers than cores only queue", "experiment: nginx workers", "worker_processes 8;", "&lt;script&gt;", "does not count: the generator was late"} {
		if !strings.Contains(s, want) {
			t.Errorf("no %q", want)
		}
	}
	if at := strings.Index(s, "The control was not restored"); at > strings.Index(s, "<svg") {
		t.Error("what went wrong does not come first")
	}
}

func TestReportSessionText(t *testing.T) {
	x := triedExperiment(t)
	x.Cut = []string{"events before the last 200"}
	for format, wants := range map[string][]string{
		"text": {"nginx workers: p99 is lowest at 4 workers", "Hypothesis: more workers", "the control holds again", "workers=24", "no: the generator was late", "apply workers=1: exit status 1, tried again (FAILED)", "again: tailscope experiment again", "too long: events before"},
		"md":   {"## nginx workers", "| round | turn |", "\nagain: `"},
		"json": {`"hypothesis": "more workers than cores only queue"`},
	} {
		s := written(t, x, format)
		for _, want := range wants {
			if !strings.Contains(s, want) {
				t.Errorf("%s: no %q in\n%s", format, want, s)
			}
		}
	}
}

// A report of an experiment of which nothing is known yet is one all the same.
func TestReportOfABeginning(t *testing.T) {
	nan := api.Float(math.NaN())
	x := &api.Session{ID: "x", Kind: "experiment", Name: "x", Service: "s", Start: 1770000000, End: nan, State: "running",
		Experiment: &api.Experiment{Design: "sweep", Settings: []api.ExperimentSetting{{Name: "a", Control: true, X: nan}}, Rounds: []api.ExperimentRun{{Round: 1, Setting: "a", Figures: map[string]map[string]api.Float{"": {"p99": nan}}}}}}
	for _, format := range []string{"text", "md", "html", "json"} {
		if s := written(t, x, format); s == "" || strings.Contains(s, "NaN") {
			t.Errorf("%s: %s", format, s)
		}
	}
}

// Rounds are shown by a figure that they have, in its unit, on an axis with lines:
// also where p99 takes more requests, rounds hardly differ, and settings are words.
func TestReportSessionFigures(t *testing.T) {
	for name, want := range map[string]string{"p95": "12.0 ms", "resident_bytes": "80 MB", "cpu_per_request": "12.0 µs", "threads": "12", "errors": "1.20 %", "rate": "12.0/s"} {
		v := map[string]api.Float{"p95": 0.012, "resident_bytes": 80e6, "cpu_per_request": 12e-6, "threads": 12, "errors": 0.012, "rate": 12}[name]
		if got := experimentFigure(name, v); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	x := triedExperiment(t)
	nan := api.Float(math.NaN())
	x.Experiment.Curves, x.Experiment.Variable = nil, "workers"
	for i := range x.Experiment.Settings {
		x.Experiment.Settings[i].X = nan
	}
	for i := range x.Experiment.Rounds {
		f := x.Experiment.Rounds[i].Figures
		delete(f[""], "p99")
		f["small"] = map[string]api.Float{"p95": 0.0100000001 + api.Float(i%2)*1e-17}
	}
	if got := roundMeasure(x.Experiment); got != "p95" {
		t.Errorf("rounds are shown by %s", got)
	}
	chart := string(settingsChart(x.Experiment, "small", "p95"))
	if n := strings.Count(chart, `class="grid"`); n < 2 || n > 8 {
		t.Errorf("%d lines across", n)
	}
	if strings.Contains(chart, "<path") || !strings.Contains(chart, ">24<") {
		t.Error("words are joined by a line, or not named by their values")
	}
}

// What ended without a word says so in every format that people read.
func TestReportOfALostOne(t *testing.T) {
	x := triedExperiment(t)
	x.State, x.Experiment.Restored, x.Experiment.RestoreError = "lost", false, ""
	run := &api.Session{ID: "b-1", Kind: "bench", Name: "b", State: "lost", Updated: 1770000000, Bench: &api.BenchResult{Name: "b"}}
	for _, format := range []string{"text", "md", "html"} {
		if s := written(t, x, format); strings.Count(s, "Whether the control was restored is not known") != 1 {
			t.Errorf("%s: does not say, once, that the control may not hold", format)
		}
		if s := written(t, run, format); !strings.Contains(s, "has not reported since 2026-02-02 02:40:00") {
			t.Errorf("%s: does not say that the run is lost", format)
		}
	}
	if run.Bench.Aborted != "" {
		t.Error("the report changed the session")
	}
}
