package report

import (
	"slices"
	"testing"

	"tailscope/api"
)

// All measures of a table are shown where they are few, else the usual ones.
func TestShownMeasures(t *testing.T) {
	rows := func(names ...string) *api.Trial {
		row := api.TrialRow{}
		for _, n := range names {
			row.Measures = append(row.Measures, api.TrialMeasure{Name: n})
		}
		return &api.Trial{Rows: []api.TrialRow{row, {Effect: "main", Measures: []api.TrialMeasure{{Name: "rate"}}}}, Stopping: api.TrialStopping{Measure: "p90"}}
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
