package changes

import (
	"testing"

	"tailscope/api"
	"tailscope/internal/judge"
)

// Of two bad episodes the end of the first lies before the second.
func TestUntilWorse(t *testing.T) {
	worse := func(service, operation string, low int64, verdict judge.Verdict) api.Change {
		c := api.Change{Service: service, Operation: operation, Low: api.Float(low), Verdict: verdict}
		c.Measures = []api.CompareMeasure{{Name: "p99", Change: judge.Worse}}
		return c
	}
	first := worse("shop", "", 1000, judge.Regression)
	for _, tt := range []struct {
		name  string
		later []api.Change
		want  int64
	}{
		{"nothing follows", nil, 9000},
		{"the same again", []api.Change{worse("shop", "", 4000, judge.Regression), worse("shop", "", 7000, judge.Regression)}, 4000},
		{"another service", []api.Change{worse("cart", "", 4000, judge.Regression)}, 9000},
		{"one operation of it", []api.Change{worse("shop", "GET /", 4000, judge.Regression)}, 9000},
		{"it becomes better", []api.Change{worse("shop", "", 4000, judge.Improvement)}, 9000},
	} {
		if got := untilWorse(tt.later, &first, 9000); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}
