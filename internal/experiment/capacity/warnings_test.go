package capacity

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tailscope/api"
	"tailscope/internal/experiment/capacity/search"
)

// What several steps have to say is said once, and what an answer hides is said.
func TestStepWarnings(t *testing.T) {
	t.Parallel()
	late := func(x float64, by string) api.CapacityStep {
		return api.CapacityStep{X: api.Float(x), Kept: search.Unclear, Errors: none,
			Why: fmt.Sprintf("the generator sent late: at p99 %s after requests were due (allowed: 10.0 ms) (hint: run it elsewhere; it helps); all cores were busy for %s (hint: move it)", by, by)}
	}
	good := func(x float64) api.CapacityStep {
		return api.CapacityStep{X: api.Float(x), Kept: search.Unclear, Valid: true, Latency: api.BenchLatency{Count: 100}, Objectives: []api.CapacityObjective{{Value: 1, Limit: 2}}}
	}
	stopped := func(x float64) api.CapacityStep {
		s := good(x)
		s.Kept, s.Stopped = search.Broken, "all of it"
		return s
	}
	failing := good(50)
	failing.Errors = 0.254
	for _, tc := range []struct {
		name, unit, objective string
		steps                 []api.CapacityStep
		want                  []string
	}{
		{"well", Requests, "p99 < 1s", []api.CapacityStep{good(10), good(20), stopped(40), good(25), stopped(30)}, nil},
		{"one late", Requests, "p99 < 1s", []api.CapacityStep{good(10), late(20, "3.1 ms")}, []string{
			"the step at 20 requests/s does not count: the generator sent late: at p99 3.1 ms after requests were due (allowed: 10.0 ms) (hint: run it elsewhere; it helps)",
			"the step at 20 requests/s does not count: all cores were busy for 3.1 ms (hint: move it)"}},
		{"several late", Requests, "p99 < 1s", []api.CapacityStep{good(10), late(20, "18 ms"), late(20, "207 ms"), late(15.5, "1.2 s")}, []string{
			"3 of 4 steps do not count (20, 15.5 requests/s), the first as the generator sent late: at p99 18 ms after requests were due (allowed: 10.0 ms) (hint: run it elsewhere; it helps)",
			"3 of 4 steps do not count (20, 15.5 requests/s), the first as all cores were busy for 18 ms (hint: move it)"}},
		{"too little traffic", Requests, "p99 < 1s", []api.CapacityStep{{Why: "only 3 requests/s were sent"}, {X: 5, Why: "only 4.5 requests/s were sent"}}, []string{
			"2 of 2 steps do not count (0, 5 requests/s), the first as only 3 requests/s were sent"}},
		{"errors", Requests, "p99 < 1s", []api.CapacityStep{failing}, []string{"up to 25.4 % of a step's requests failed"}},
		{"errors that are asked for", Requests, "p99 < 1s and errors < 50%", []api.CapacityStep{failing}, nil},
		{"gone", Requests, "p99 < 1s", []api.CapacityStep{good(10), good(40), stopped(80), stopped(20)}, []string{"40 requests/s looked kept and, later, 20 broke"}},
		{"more servers", Servers, "p99 < 1s", []api.CapacityStep{good(8), good(4), stopped(3)}, nil},
		{"fewer servers", Servers, "p99 < 1s", []api.CapacityStep{good(8), good(4), stopped(6)}, []string{"4 servers looked kept and, later, 6 broke"}},
	} {
		c := &api.Capacity{Unit: tc.unit, Objective: tc.objective, Steps: tc.steps}
		got := stepWarnings(c)
		if len(got) != len(tc.want) || slices.ContainsFunc(got, func(w api.CompareWarning) bool {
			return !slices.ContainsFunc(tc.want, func(want string) bool { return strings.HasPrefix(w.Text, want) && !strings.HasSuffix(w.Text, "))") })
		}) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
