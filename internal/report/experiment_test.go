package report

import (
	"slices"
	"testing"

	"tailscope/api"
)

// All measures of a table are shown where they are few, else the usual ones.
func TestShownMeasures(t *testing.T) {
	rows := func(names ...string) *api.Experiment {
		row := api.ExperimentRow{}
		for _, n := range names {
			row.Measures = append(row.Measures, api.ExperimentMeasure{Name: n})
		}
		return &api.Experiment{Rows: []api.ExperimentRow{row, {Effect: "main", Measures: []api.ExperimentMeasure{{Name: "rate"}}}}, Stopping: api.ExperimentStopping{Measure: "p90"}}
	}
	for _, c := range []struct{ names, want []string }{
		{[]string{"p50", "p90", "generator_cpu_per_request"}, []string{"p50", "p90", "generator_cpu_per_request"}},
		{[]string{"p50", "p75", "p90", "p95", "p99", "mean", "errors", "rate", "cpu_per_request"}, []string{"p50", "p90", "p95", "p99", "mean", "errors", "cpu_per_request"}},
		{nil, nil},
	} {
		if got := shownMeasures(rows(c.names...), ""); !slices.Equal(got, c.want) {
			t.Errorf("of %q %q are shown, not %q", c.names, got, c.want)
		}
	}
}
