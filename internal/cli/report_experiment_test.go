package cli

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

func triedExperiment(t *testing.T) *api.Experiment {
	t.Helper()
	b, err := os.ReadFile("testdata/trial_report.json")
	if err != nil {
		t.Fatal(err)
	}
	var p api.ExperimentReport
	if err := json.Unmarshal(b, &p); err != nil {
		t.Fatal(err)
	}
	return &api.Experiment{ID: "t-1", Kind: p.Kind, Name: p.Name, Service: p.Service, Start: p.Start, End: p.Trial.End, State: "ended", Headline: p.Trial.Headline, Trial: p.Trial}
}

func written(t *testing.T, x *api.Experiment, format string) string {
	t.Helper()
	var b bytes.Buffer
	if err := writeExperiment(&b, x, nil, format, time.Unix(1770000000, 0).UTC()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var outside = regexp.MustCompile(`(src|href)=|url\(|@import`)

// The page needs nothing else, draws every round, and says what went wrong first.
func TestReportExperimentHTML(t *testing.T) {
	x := triedExperiment(t)
	x.Name = `<script>alert("x")</script>`
	x.Trial.RestoreError = "./reload.sh 8: exit status 1"
	s := written(t, x, "html")
	if outside.MatchString(s) || strings.Contains(s, "<script") || strings.Contains(s, "NaN") || strings.Contains(s, "Inf") {
		t.Errorf("the page needs more than itself, or has what is no number: %q", outside.FindString(s))
	}
	queries, rounds := 3, len(x.Trial.Rounds)
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

func TestReportExperimentText(t *testing.T) {
	x := triedExperiment(t)
	x.Cut = []string{"events before the last 200"}
	for format, wants := range map[string][]string{
		"text": {"nginx workers: p99 is lowest at 4 workers", "Hypothesis: more workers", "the control holds again", "workers=24", "no: the generator was late", "apply workers=1: exit status 1, tried again (FAILED)", "again: tailscope experiment again", "too long: events before"},
		"md":   {"## nginx workers", "| round | turn |", "- again: "},
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
	x := &api.Experiment{ID: "x", Kind: "experiment", Name: "x", Service: "s", Start: 1770000000, End: nan, State: "running",
		Trial: &api.Trial{Design: "sweep", Settings: []api.TrialSetting{{Name: "a", Control: true, X: nan}}, Rounds: []api.TrialRun{{Round: 1, Setting: "a", Figures: map[string]map[string]api.Float{"": {"p99": nan}}}}}}
	for _, format := range []string{"text", "md", "html", "json"} {
		if s := written(t, x, format); s == "" || strings.Contains(s, "NaN") {
			t.Errorf("%s: %s", format, s)
		}
	}
}
