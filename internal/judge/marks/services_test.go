package marks

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// faster is a measure of which a probability was adjusted for its family.
func faster(name, of string, p float64) api.CompareMeasure {
	return api.CompareMeasure{Name: name, Verdict: judge.Faster, Change: judge.Better, Adjusted: api.Float(p), Sentence: name + " of " + of + " is faster"}
}

func rowOf(operation string, requests uint64, before, after, p float64) api.CompareRow {
	return api.CompareRow{Operation: operation, RequestsA: requests, RequestsB: requests, MeanA: api.Float(before), MeanB: api.Float(after), Adjusted: api.Float(p),
		Measures: []api.CompareMeasure{faster("p99", operation, p)}}
}

func response(measures []api.CompareMeasure, rows ...api.CompareRow) *api.CompareResponse {
	return &api.CompareResponse{Slot: 10, Verdict: judge.NoEvidence, Measures: measures, Operations: rows}
}

// On a machine that a query kept busy everything waited for it: what is quick
// by itself became the most times as quick, but it is the query that matters.
func TestTheOperationThatMattersIsNamed(t *testing.T) {
	v := serviceVerdict("shop", sides{}, response([]api.CompareMeasure{faster("p99", "shop", 1e-6)},
		rowOf("GET /cart", 4000, 0.2, 0.00004, 1e-6), rowOf("GET /unknown", 5000, math.NaN(), math.NaN(), 1e-6),
		rowOf("GET /orders", 4000, 0.6, 0.015, 1e-6), rowOf("GET /rare", 10, 3, 0.01, 1e-6), rowOf("GET /chance", 9000, 2, 1, 0.04)))
	if want := "p99 of shop is faster; of its operations most of all p99 of GET /orders is faster"; v.Sentence != want {
		t.Errorf("got %q, want %q", v.Sentence, want)
	}
	var names []string
	for _, row := range v.Operations {
		names = append(names, row.Operation)
	}
	if got, want := strings.Join(names, " "), "GET /orders GET /cart GET /rare GET /unknown"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// More errors come first, then whose they are: neither what takes the most time more nor a
// tenant's median goes before them.
func TestWhoseErrorsIsNamed(t *testing.T) {
	errors := func(of string) api.CompareMeasure {
		return api.CompareMeasure{Name: judge.ErrorShare, Verdict: judge.MoreErrors, Change: judge.Worse, Adjusted: 1e-6, Scale: "difference",
			Raw: api.CompareFigure{A: 0.04, B: 0.045, Effect: 0.005, Low: 0.004, High: 0.006}, Sentence: "errors of " + of + " are higher"}
	}
	failing, slow := rowOf("POST /entries", 1000, 0.01, 0.01, 1e-6), rowOf("GET /statement", 9000, 1, 2, 1e-6)
	failing.Measures = append(failing.Measures, errors("POST /entries"))
	r := response([]api.CompareMeasure{errors("ledger")}, slow, failing)
	if got, want := serviceVerdict("ledger", sides{}, r).Sentence, "errors of ledger are higher; of its operations most of all errors of POST /entries are higher"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	tenant := rowOf("", 9000, 1, 2, 1e-6)
	tenant.Tenant, tenant.Measures = "acme", []api.CompareMeasure{faster("p50", "acme", 1e-6)}
	tenant.Measures[0].Scale, tenant.Measures[0].Raw = "ratio", api.CompareFigure{Effect: 0.8, Low: 0.75, High: 0.85}
	r.Tenants = []api.CompareRow{tenant, {Tenant: "globex", Adjusted: 0.9, Measures: []api.CompareMeasure{{Name: "p50", Verdict: judge.NoEvidence, Scale: "ratio", Raw: api.CompareFigure{Effect: 1, Low: 0.98, High: 1.02}}}}}
	if got, want := serviceVerdict("ledger", sides{}, r).Sentence, "errors of ledger are higher; 1 of 2 tenants changed, most of all p50 of acme is faster"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Of 20 services one is selected, so within it figures are tested at a 20th of
// the level; where all are selected, at the whole.
func TestFiguresOfSelectedServices(t *testing.T) {
	changes := func() *api.CompareResponse {
		return response([]api.CompareMeasure{faster("p50", "shop", 1e-5), faster("p99", "shop", 0.011)},
			rowOf("GET /sure", 1000, 0.2, 0.1, 1e-4), rowOf("GET /perhaps", 1000, 0.9, 0.1, 0.006))
	}
	nothing := func() *api.CompareResponse {
		return response([]api.CompareMeasure{{Name: "p50", Verdict: judge.NoEvidence, Adjusted: 0.6}, {Name: "p99", Verdict: judge.NoEvidence, Adjusted: 0.9}})
	}
	for _, c := range []struct {
		name           string
		changed, quiet int
		operations     int
		p99            float64
		sentence       string
	}{
		{"one", 1, 0, 2, 0.011, "p99 of shop is faster; of its operations most of all p99 of GET /perhaps is faster"},
		{"all of three", 3, 0, 2, 0.011, "p99 of shop is faster; of its operations most of all p99 of GET /perhaps is faster"},
		{"one of twenty", 1, 19, 1, 0.22, "p50 of shop is faster; of its operations most of all p99 of GET /sure is faster"},
		{"two of four", 2, 2, 2, 0.022, "p50 of shop is faster; of its operations most of all p99 of GET /perhaps is faster"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := &api.MarkVerdict{}
			for range c.quiet {
				v.Services = append(v.Services, serviceVerdict("quiet", sides{}, nothing()))
			}
			for range c.changed {
				v.Services = append(v.Services, serviceVerdict("shop", sides{}, changes()))
			}
			v.Services = append(v.Services, tooLittle("new", sides{}, "it is not a test"))
			conclude(v, api.Float(math.NaN()))
			for i, s := range v.Services[:c.changed] {
				if s.Verdict != judge.Improvement || s.Sentence != c.sentence || len(s.Operations) != c.operations {
					t.Errorf("service %d: %s, %q, %d operations", i, s.Verdict, s.Sentence, len(s.Operations))
				}
				if p := float64(s.Measures[1].Adjusted); math.Abs(p-c.p99) > 1e-9 {
					t.Errorf("p99: probability %v, want %v", p, c.p99)
				}
			}
			for _, s := range v.Services[c.changed:] {
				if judge.Moved(s.Verdict) || len(s.Operations) > 0 {
					t.Errorf("%s: %s", s.Service, s.Verdict)
				}
			}
		})
	}
}

// A mark names the tenant, where one of them changed, and not an operation.
func TestTheTenantIsNamed(t *testing.T) {
	const trials = 6
	for trial := range trials {
		st := storetest.NewTwin()
		w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(uint64(trial), 19))
		for slot := int64(0); slot < 3600; slot += 10 {
			for tenant := range 8 {
				name, median := fmt.Sprint("tenant-", tenant), 0.1
				if tenant == 5 && slot >= 1800 {
					median *= 1.4
				}
				for range 6 {
					w.Span(epoch+slot, labels.FromStrings(series.LabelService, "shop", series.LabelOperation, []string{"GET /a", "GET /b"}[rng.IntN(2)], series.LabelKind, "server",
						series.LabelStatus, "ok", series.LabelComponent, "app", series.LabelTenant, name), median*math.Exp(0.4*rng.NormFloat64()))
				}
			}
		}
		if err := w.Put(t.Context(), st, 1); err != nil {
			t.Fatal(err)
		}
		r, err := compare.Compare(t.Context(), st, compare.Request{
			Selection: query.Selection{Matchers: []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, series.LabelService, "shop")}},
			A:         compare.Window{Start: at(0), End: at(1800)}, B: compare.Window{Start: at(1800), End: at(3600)}, Measures: measures, Limit: allRows,
		})
		if err != nil {
			t.Fatal(err)
		}
		v := &api.MarkVerdict{Services: []api.ServiceVerdict{serviceVerdict("shop", sides{}, r)}}
		conclude(v, api.Float(math.NaN()))
		of := v.Services[0]
		if v.Verdict != judge.Regression || !strings.HasPrefix(v.Sentence, "1 of 8 tenants changed, most of all p") || !strings.Contains(v.Sentence, " of shop for tenant-5 is ") || len(of.Tenants) != 1 {
			t.Errorf("trial %d: %s: %s", trial, v.Verdict, v.Sentence)
		}
	}
}

// A finding that is not sure enough among many services is taken back.
func TestOneOfManyIsTakenBack(t *testing.T) {
	v := &api.MarkVerdict{Services: []api.ServiceVerdict{serviceVerdict("shop", sides{}, response([]api.CompareMeasure{faster("p50", "shop", 0.01)}))}}
	for range 9 {
		v.Services = append(v.Services, serviceVerdict("quiet", sides{}, response([]api.CompareMeasure{{Name: "p50", Verdict: judge.NoEvidence, Adjusted: 0.6}})))
	}
	conclude(v, api.Float(math.NaN()))
	if v.Verdict != judge.NoEvidence || v.Services[0].Verdict != judge.NoEvidence {
		t.Errorf("%s: %q", v.Verdict, v.Sentence)
	}
	if m := v.Services[slices.IndexFunc(v.Services, func(s api.ServiceVerdict) bool { return s.Service == "shop" })].Measures[0]; m.Verdict != judge.NoEvidence || m.Change != "" || !strings.Contains(m.Sentence, "which is no evidence among so many figures") {
		t.Errorf("beside it stands %s: %q", m.Verdict, m.Sentence)
	}
}

// A mark has no sides A and B, but a time before it and a time after.
func TestWordsOfAMark(t *testing.T) {
	r := &api.CompareResponse{
		Slot: 10, Verdict: judge.TooLittle, Sentence: "too little data to tell whether p99 of shop changed: side A: 12 slots, 20 are needed",
		Warnings: []api.CompareWarning{{Code: "mix", Text: "9 % of the requests are of other operations than on side A: go by the like-for-like figures"}},
	}
	v := serviceVerdict("shop", sides{}, r)
	if want := "too little data to tell whether p99 of shop changed: before: 12 slots, 20 are needed"; v.Sentence != want {
		t.Errorf("%q, want %q", v.Sentence, want)
	}
	if want := "9 % of the requests are of other operations than before: go by the like-for-like figures"; len(v.Warnings) == 0 || v.Warnings[len(v.Warnings)-1].Text != want {
		t.Errorf("%+v, want %q last", v.Warnings, want)
	}
}

// Environments of a service are not counted as services; those that did not change are
// named beside those that did.
func TestWholeOfEnvironments(t *testing.T) {
	of := func(service, environment string, verdict judge.Verdict) api.ServiceVerdict {
		return api.ServiceVerdict{Service: service, Environment: environment, Verdict: verdict, Sentence: "p99 of " + service + " is slower"}
	}
	for _, c := range []struct {
		services []api.ServiceVerdict
		want     string
	}{
		{[]api.ServiceVerdict{of("shop", "production", judge.Regression), of("shop", "staging", judge.NoEvidence)}, "shop in production; not in staging: p99 of shop is slower"},
		{[]api.ServiceVerdict{of("shop", "production", judge.Regression), of("shop", "", judge.Regression)}, "shop in production and no environment: p99 of shop is slower"},
		{[]api.ServiceVerdict{of("shop", "production", judge.NoEvidence), of("shop", "staging", judge.NoEvidence)}, "no evidence that shop changed in any of 2 environments"},
		{[]api.ServiceVerdict{of("shop", "production", judge.TooLittle), of("shop", "staging", judge.TooLittle)}, "too little data of all 2 environments of shop"},
		{[]api.ServiceVerdict{of("shop", "production", judge.Regression), of("cart", "staging", judge.Regression), of("shop", "staging", judge.Same), of("bank", "", judge.Same)},
			"2 of 3 services changed, shop in production; not in staging, cart: p99 of shop is slower"},
	} {
		if _, got := whole(&api.MarkVerdict{State: Final, Services: c.services}, api.Float(math.NaN())); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// A mark of one environment is judged there alone, and marks of others do not cut its
// sides.
func TestAMarkOfAnEnvironment(t *testing.T) {
	st, w, rng := storetest.NewTwin(), querytest.NewWriter(), rand.New(rand.NewPCG(18, 6))
	for sec := int64(0); sec < 7200; sec += 10 {
		for i, after := range []float64{1, 2} {
			environment := [2]string{"production", "staging"}[i]
			median := 0.05
			if sec >= 3600 {
				median *= after
			}
			for range 20 {
				w.Span(epoch+sec, labels.FromStrings(series.LabelService, "shop", series.LabelOperation, "GET /cart", series.LabelKind, "server",
					series.LabelStatus, "ok", series.LabelComponent, "app", series.LabelEnvironment, environment), median*math.Exp(0.4*rng.NormFloat64()))
			}
		}
	}
	if err := w.Put(t.Context(), st, 1); err != nil {
		t.Fatal(err)
	}
	world := newWorld(t, st)
	quiet, changed := mark("quiet", 3595, "shop"), mark("changed", 3594, "shop")
	quiet.Environment, changed.Environment = "production", "staging"
	world.put(quiet)
	world.put(changed)
	world.round(7300)
	for _, c := range []struct {
		mark  store.Mark
		moved bool
	}{{quiet, false}, {changed, true}} {
		v := world.full(c.mark)
		if len(v.Services) != 1 || v.Services[0].Environment != c.mark.Environment || judge.Moved(v.Verdict) != c.moved || len(v.Services[0].Warnings) > 0 {
			t.Errorf("%s: %s, %s: %+v", c.mark.Environment, v.Verdict, v.Sentence, v.Services)
		}
	}
	if v := world.full(changed); v.Verdict != judge.Regression || !regexp.MustCompile(` of shop in staging is 2(\.\d)? times as slow`).MatchString(v.Sentence) {
		t.Errorf("%s: %s", v.Verdict, v.Sentence)
	}
}

// An early look that finds nothing has not looked for all that the final one looks for.
func TestTooEarlyToSay(t *testing.T) {
	next := api.Float(time.Date(2026, 11, 28, 5, 46, 6, 0, time.UTC).Unix())
	quiet := func(name string) api.ServiceVerdict {
		return api.ServiceVerdict{Service: name, Verdict: judge.NoEvidence, Sentence: "no evidence that " + name + " changed"}
	}
	for _, c := range []struct {
		state    api.MarkState
		services []api.ServiceVerdict
		want     string
	}{
		{Early, []api.ServiceVerdict{quiet("ledger")}, "Too early to say whether ledger changed; the next look is at 05:46:06 UTC"},
		{Early, []api.ServiceVerdict{quiet("ledger"), quiet("shop")}, "Too early to say whether any of 2 services changed; the next look is at 05:46:06 UTC"},
		{Final, []api.ServiceVerdict{quiet("ledger")}, "No evidence that ledger changed"},
		{Final, []api.ServiceVerdict{quiet("ledger"), quiet("shop")}, "No evidence that any of 2 services changed"},
	} {
		v := api.MarkVerdict{State: c.state, Next: next, Services: c.services}
		if conclude(&v, v.Next); v.Sentence != c.want || v.Verdict != judge.NoEvidence {
			t.Errorf("%s: %s, %q, want %q", c.state, v.Verdict, v.Sentence, c.want)
		}
	}
}
