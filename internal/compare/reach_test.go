package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"tailscope/api"
	"tailscope/internal/judge"
	"tailscope/internal/trials"
)

// A change of all rows, of which only some can be told by themselves, is not said of those
// alone; one of a few rows is.
func TestReach(t *testing.T) {
	ln := math.Log
	for _, c := range []struct {
		name       string
		rows       int
		true       func(i int) float64 // effect, of the logarithm
		deviations func(i int) float64
		want       []Rest
	}{
		{"all took 1.4 times as long, few are sure", 70, func(int) float64 { return ln(1.4) }, func(int) float64 { return 0.13 }, []Rest{RestAll}},
		{"all, of unequal sizes", 70, func(int) float64 { return ln(1.2) }, func(i int) float64 { return 0.02 * math.Sqrt(float64(i+1)) }, []Rest{RestAll}},
		{"all, some more", 70, func(i int) float64 { return ln(1.4 + 0.3*float64(i%2)) }, func(i int) float64 { return 0.06 + 0.1*float64(i%3) }, []Rest{RestMost, RestAll}},
		{"one of twelve", 12, func(i int) float64 { return ln(2) * float64(max(0, 1-i)) }, func(int) float64 { return 0.1 }, []Rest{RestStays}},
		{"eight of seventy", 70, func(i int) float64 { return ln(1.6) * float64(min(1, max(0, 8-i))) }, func(int) float64 { return 0.08 }, []Rest{RestStays}},
		{"half of ten, by a quarter", 10, func(i int) float64 { return ln(1.25) * float64(i%2) }, func(int) float64 { return 0.08 }, []Rest{RestOpen, RestStays, RestMost}},
		{"one that is known and many of which nothing is", 8, func(i int) float64 { return ln(2) }, func(i int) float64 { return 0.05 + 2*float64(min(1, i)) }, []Rest{RestOpen}},
	} {
		n, right := trials.Of(100), 0
		for trial := range n {
			rng := rand.New(rand.NewPCG(uint64(trial), 4))
			var rows []api.CompareRow
			for i := range c.rows {
				d := c.deviations(i)
				at := c.true(i) + d*rng.NormFloat64()
				exp := func(v float64) api.Float { return api.Float(math.Exp(v)) }
				rows = append(rows, api.CompareRow{Tenant: fmt.Sprint("t", i), Measures: []api.CompareMeasure{{
					Name: "p50", Scale: "ratio", Raw: api.CompareFigure{Effect: exp(at), Low: exp(at - 1.96*d), High: exp(at + 1.96*d)},
				}}})
			}
			reach := ReachOf(rows, "p50", func(_ *api.CompareRow, m *api.CompareMeasure) bool { // by 4 standard errors
				return ln(float64(m.Raw.Low))+ln(float64(m.Raw.Low))-ln(float64(m.Raw.Effect)) > 0
			})
			ok := false
			for _, want := range c.want {
				ok = ok || reach.Rest == want
			}
			if ok {
				right++
			} else if trial < 3 {
				t.Logf("%s: %+v: %s", c.name, reach, reach.Text("tenant", ""))
			}
			if trial == 0 {
				t.Logf("%s: %s", c.name, reach.Text("tenant", ""))
			}
		}
		if t.Logf("%s: %d of %d", c.name, right, n); float64(right) < 0.9*float64(n) {
			t.Errorf("%s: %d of %d trials are right", c.name, right, n)
		}
	}
	for _, c := range []struct {
		of   Reach
		few  bool
		want string
	}{
		{Reach{70, 8, RestAll}, false, "all 70 tenants, 8 of them surely"}, {Reach{70, 8, RestMost}, false, "most of 70 tenants, 8 of them surely"},
		{Reach{70, 8, RestStays}, true, "8 of 70 tenants"}, {Reach{8, 1, RestOpen}, true, "1 of 8 tenants, and maybe others"}, {Reach{1, 1, RestAll}, false, "1 of 1 tenant"},
	} {
		if got := c.of.Text("tenant", ""); got != c.want || c.of.Few() != c.few {
			t.Errorf("%+v: %q, few %v; want %q, %v", c.of, got, c.of.Few(), c.want, c.few)
		}
	}
	if got, want := (Reach{70, 8, RestOpen}).Text("tenant", "changed"), "8 of 70 tenants changed, and maybe others"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := ReachOf(nil, judge.Mean, nil); got != (Reach{}) {
		t.Errorf("of nothing: %+v", got)
	}
}
