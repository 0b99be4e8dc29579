package changes

import (
	"testing"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/judge"
)

// The mix explains what it moved, also where a little of it is left like for like.
func TestIsExplained(t *testing.T) {
	for _, c := range []struct {
		name                  string
		raw                   api.Float
		low, high             api.Float
		rawVerdict, likeFinds judge.Verdict
		moved, want           bool
	}{
		{"nothing is left", 1.4, 0.97, 1.03, judge.Slower, judge.NoEvidence, true, true},
		{"a little is left", 1.4, 1.01, 1.12, judge.Slower, judge.Slower, true, true},
		{"it drifts", 1.14, 0.95, 1.05, judge.Drifts, judge.NoEvidence, true, true},
		{"all is left", 1.5, 1.4, 1.6, judge.Slower, judge.Slower, true, false},
		{"another mix is not seen", 1.4, 1.01, 1.12, judge.Slower, judge.Slower, false, false},
	} {
		m := api.CompareMeasure{Name: "p99", Scale: "ratio", Raw: api.CompareFigure{Effect: c.raw, Verdict: c.rawVerdict}, Like: &api.CompareFigure{Low: c.low, High: c.high, Verdict: c.likeFinds}}
		found := &compare.Found{Measures: []api.CompareMeasure{m}}
		if c.moved {
			found.Mix = &compare.Mix{}
		}
		if got := isExplained(found); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}
