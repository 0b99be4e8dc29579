package main

import (
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/benchmarks/report"
)

func TestTrialSections(t *testing.T) {
	trial := &api.Experiment{
		Name: "workers", Hypothesis: "More is slower.", Headline: "workers=2 is best.", Variable: "workers", Service: "nginx",
		Settings: []api.ExperimentSetting{{Name: "workers=8", Control: true}, {Name: "workers=2"}},
		Stopping: api.ExperimentStopping{Done: 6, Level: 0.95},
		Rounds:   []api.ExperimentRun{{Valid: true}, {Why: "late"}},
		Curves: []api.ExperimentCurve{{Query: "page", Measure: "p99", Best: "workers=2", Candidates: []string{"workers=8", "workers=2"}, Points: []api.ExperimentCurvePoint{
			{Setting: "workers=8", Value: 0.004, Low: 0.003, High: 0.005}, {Setting: "workers=2", Value: 0.002, Low: 0.0015, High: 0.0025}}}},
		Rows: []api.ExperimentRow{
			{Setting: "workers=2", Query: "page", Measures: []api.ExperimentMeasure{{Name: "p99", Control: 0.004, Variant: 0.002, Effect: 0.5, Low: 0.4, High: 0.625, Verdict: "faster"}}},
			{Setting: "workers=2", Tenant: "t0", Measures: []api.ExperimentMeasure{{Name: "p99"}}},
		},
		Loads: []api.BenchLoad{{Name: "docs", Rate: 1000}},
	}
	r := report.New("Workers", time.Now())
	trialSections(r, trial, "docs/examples/nginx-workers/workers.yaml")
	text := r.Markdown()
	for _, line := range []string{
		"| query | measure | best | or | workers=8 | workers=2 |",
		"| page | p99 | **workers=2** | workers=8 | 4 ms (3 ms – 5 ms) | 2 ms (1.5 ms – 2.5 ms) |",
		"| workers=2 | page | p99 | 4 ms | 2 ms | -50.0 % | -60.0 % – -37.5 % | faster |",
		"| loaded docs | nginx | 1000 |",
		"| runs that count | of 2 | 1 |",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
	if strings.Contains(text, "t0") {
		t.Error("tenants have rows")
	}
}
