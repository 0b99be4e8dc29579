package marks

import (
	"math"
	"slices"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/series"
)

// Of what requests take more, each called service has its own share, by the time that is spent
// in it alone, however many environments there are; and one that is called more often says so.
func TestCalledServices(t *testing.T) {
	part := func(environment, service, component, operation string, calls, before, after float64) query.PartSlots {
		return query.PartSlots{
			Service: "shop", Environment: environment, Part: query.PartName{Service: service, Component: component, Operation: operation},
			Requests: []float64{100, 100, 50}, Calls: []float64{100, 100, 50 * calls}, Seconds: []float64{100 * before, 100 * before, 50 * after},
		}
	}
	type share struct {
		service     string
		of, oftener float64
	}
	const app = series.ComponentApp
	for _, c := range []struct {
		name  string
		parts []query.PartSlots
		want  []share
	}{
		{"its own code", []query.PartSlots{part("", "shop", app, "GET /", 1, 0.01, 0.02), part("", "stock", app, "GET /stock", 1, 0.01, 0.01)}, []share{{"stock", 0, 1}}},
		{"a called one's database", []query.PartSlots{
			part("", "shop", app, "GET /", 1, 0.01, 0.01), part("", "stock", app, "GET /stock", 1, 0.01, 0.01), part("", "stock", "postgresql", "SELECT stock", 5, 0.01, 0.05),
		}, []share{{"stock", 1, 1}}},
		{"called twice as often", []query.PartSlots{part("", "shop", app, "GET /", 1, 0.01, 0.01), part("", "stock", app, "GET /stock", 2, 0.01, 0.02)}, []share{{"stock", 1, 2}}},
		{"two of them, in two environments", []query.PartSlots{
			part("a", "shop", app, "GET /", 1, 0.01, 0.01), part("a", "stock", app, "GET /stock", 1, 0.01, 0.04), part("a", "users", app, "GET /user", 1, 0.01, 0.02),
			part("b", "shop", app, "GET /", 1, 0.01, 0.01), part("b", "stock", app, "GET /stock", 1, 0.01, 0.04), part("b", "users", app, "GET /user", 1, 0.01, 0.02),
		}, []share{{"stock", 0.75, 1}, {"users", 0.25, 1}}},
	} {
		all := map[string][]float64{}
		for i := range c.parts {
			p := &c.parts[i]
			if all[p.Environment] == nil {
				all[p.Environment] = make([]float64, len(p.Seconds))
			}
			for k, s := range p.Seconds {
				all[p.Environment][k] += s
			}
			p.OfAll = all[p.Environment]
		}
		got, whole := calledOf(c.parts, "shop", [2]int{0, 2}, [2]int{2, 3})
		same := len(got) == len(c.want)
		for i := 0; same && i < len(got); i++ {
			same = got[i].service == c.want[i].service && math.Abs(got[i].share(whole)-c.want[i].of) < 1e-9 && math.Abs(got[i].calls[1]/got[i].calls[0]-c.want[i].oftener) < 1e-9
		}
		if !same {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if got, _ := calledOf(nil, "shop", [2]int{0, 2}, [2]int{2, 3}); got != nil {
		t.Errorf("of no parts: %v", got)
	}
}

// The time after a late change is asked about by what was found to change then, and compared with
// the time between where that had changed in the same way before.
func TestLateChangeIsToldByWhatChanged(t *testing.T) {
	both := []string{judge.Durations, judge.ErrorShare}
	slower := []api.CompareMeasure{{Name: "p99", Change: judge.Worse}}
	of := func(verdict judge.Verdict, found ...string) *api.Change {
		return &api.Change{Found: found, Verdict: verdict}
	}
	gates, err := judge.ParseGates("worse:3%")
	if err != nil {
		t.Fatal(err)
	}
	durations := measures[:4]
	for _, c := range []struct {
		name    string
		causes  []*api.Change
		changed []api.CompareMeasure
		of      compare.Request
		want    []string // measures; nil: those that were asked for
		again   bool
	}{
		{"errors", []*api.Change{of(judge.Regression, judge.ErrorShare)}, nil, compare.Request{}, []string{judge.ErrorShare}, false},
		{"slower, then errors", []*api.Change{of(judge.Regression, judge.ErrorShare)}, slower, compare.Request{}, []string{judge.ErrorShare}, false},
		{"slower, then errors and another rate", []*api.Change{of(judge.Regression, judge.ErrorShare, judge.Rate)}, slower, compare.Request{}, []string{judge.ErrorShare}, false},
		{"slower, then slower", []*api.Change{of(judge.Regression, judge.Durations)}, slower, compare.Request{}, append(slices.Clone(durations), judge.Rate), true},
		{"slower, then as before", []*api.Change{of(judge.Improvement, judge.Durations)}, slower, compare.Request{}, append(slices.Clone(durations), judge.Rate), false},
		{"errors, then slower", []*api.Change{of(judge.Regression, judge.Durations)}, []api.CompareMeasure{{Name: judge.ErrorShare, Change: judge.Worse}}, compare.Request{}, append(slices.Clone(durations), judge.Rate), false},
		{"slower, then both", []*api.Change{of(judge.Regression, both...)}, slower, compare.Request{}, nil, true},
		{"slower, then errors, then slower", []*api.Change{of(judge.Regression, judge.ErrorShare), of(judge.Regression, judge.Durations)}, slower, compare.Request{}, nil, true},
		{"nothing, then both", []*api.Change{of(judge.Mixed, both...)}, nil, compare.Request{}, nil, false},
		{"asked for p99, then errors", []*api.Change{of(judge.Regression, judge.ErrorShare)}, slower, compare.Request{Measures: []string{"p99"}}, []string{}, false},
		{"a worse Apdex by errors, then slower", []*api.Change{of(judge.Regression, judge.Durations)}, []api.CompareMeasure{{Name: judge.Apdex, Change: judge.Worse}}, compare.Request{}, append(slices.Clone(durations), judge.Rate), false},
		{"asked for both, then errors", []*api.Change{of(judge.Regression, judge.ErrorShare)}, slower, compare.Request{Measures: []string{"p99", judge.ErrorShare}}, []string{judge.ErrorShare}, false},
		{"gates", []*api.Change{of(judge.Regression, both...)}, slower, compare.Request{Gates: gates}, nil, false},
		{"a metric", []*api.Change{of(judge.Regression, both...)}, slower, compare.Request{Selection: query.Selection{Family: "cpu_seconds"}}, nil, false},
	} {
		c.causes[0].Time = 5000
		s := &sides{after: span{4000, 4900}, causes: c.causes}
		r, want := c.of, c.of.Measures
		if c.want != nil {
			want = c.want
		}
		again := s.withoutChanged(&r, c.changed)
		if between := r.A.Start.Equal(time.Unix(4000, 0)) && r.A.End.Equal(time.Unix(4900, 0)); again != c.again || between != c.again || !slices.Equal(r.Measures, want) {
			t.Errorf("%s: %v, side A %v, measures %v; want %v, %v", c.name, again, r.A, r.Measures, c.again, want)
		}
	}
}
