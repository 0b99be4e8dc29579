package changes

import (
	"strings"
	"testing"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/judge"
)

// The stretches beside errors of few tenants end at the rollout near them, where enough is left:
// before and after of the errors does not show what the rollout did.
func TestStretchesOfFewEndAtARollout(t *testing.T) {
	shop := compare.Part{Service: "shop"}
	slots := make([]int, 400)
	for i := range slots {
		slots[i] = i
	}
	at := func(slot int) point { return point{at: slot, low: slot - 1, high: slot + 1} }
	for _, c := range []struct {
		rollout, errors int
		before, after   compare.Stretch
	}{
		{200, 250, compare.Stretch{From: 201, To: 249}, compare.Stretch{From: 251, To: 400}},
		{250, 200, compare.Stretch{From: 0, To: 199}, compare.Stretch{From: 201, To: 249}},
		{200, 215, compare.Stretch{From: 0, To: 214}, compare.Stretch{From: 216, To: 400}}, // too little would be left
		{200, 200, compare.Stretch{From: 0, To: 199}, compare.Stretch{From: 201, To: 400}},
	} {
		all := []searched{{part: shop, of: Durations, points: []point{at(c.rollout)}, slots: slots}, {part: shop, of: Errors, points: []point{at(c.errors)}, slots: slots}}
		taken, err := takeFew(all, 10, func(candidate) ([]string, error) { return []string{"acme"}, nil })
		if err != nil || len(taken[shop]) != 1 {
			t.Fatalf("%+v, %v", taken, err)
		}
		if got := taken[shop][0]; got.before != c.before || got.after != c.after {
			t.Errorf("a rollout at %d, errors at %d: %v and %v, want %v and %v", c.rollout, c.errors, got.before, got.after, c.before, c.after)
		}
	}
}

// What came in steps is headed by the figure that heads any other change.
func TestStepsAreHeadedByWhatLeads(t *testing.T) {
	measure := func(name string, b float64, v judge.Verdict) api.CompareMeasure {
		m := api.CompareMeasure{Name: name, Scale: "ratio", Verdict: v, Raw: api.CompareFigure{A: 0.1, B: api.Float(b), Effect: api.Float(10 * b), Low: api.Float(9 * b), High: api.Float(11 * b)}}
		if judge.Moved(v) {
			m.Change = judge.Worse
		}
		return m
	}
	for _, c := range []struct {
		p99  judge.Verdict
		b    float64
		want string
	}{{judge.Slower, 0.2, "p99 of shop went from 100 ms to 200 ms in steps"}, {judge.NoEvidence, 0.2, "p95 of shop went from 100 ms to 190 ms in steps"}, {judge.Faster, 0.05, "p95 of shop"}} {
		of := api.Change{Service: "shop", Found: []string{Durations}, Measures: []api.CompareMeasure{measure("p50", 0.18, judge.Slower), measure("p95", 0.19, judge.Slower), measure("p99", c.b, c.p99)}}
		if ok := nameSteps(&of, "shop", []way{{"p50", true}, {"p95", true}}, 100); !ok || !strings.HasPrefix(of.Headline, c.want) {
			t.Errorf("%s: %v, %s, want %s", c.p99, ok, of.Headline, c.want)
		}
	}
	of := api.Change{Found: []string{Durations}, Measures: []api.CompareMeasure{measure("p50", 0.18, judge.NoEvidence)}}
	if nameSteps(&of, "shop", []way{{"p50", true}}, 100) {
		t.Errorf("nothing surely moved: %s", of.Headline)
	}
}
