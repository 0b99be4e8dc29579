package compare

import (
	"math"
	"testing"

	"tailscope/api"
	"tailscope/internal/judge"
)

// The sentence of all is that of a measure that shares the verdict of all.
func TestHeadline(t *testing.T) {
	nan := math.NaN()
	of := func(name string, verdict judge.Verdict, change judge.Way, effect, low, high float64) api.CompareMeasure {
		m := api.CompareMeasure{Name: name, Verdict: verdict, Change: change, Sentence: name + " is " + string(verdict), Adjusted: 0.5, Scale: "ratio",
			Raw: api.CompareFigure{Effect: api.Float(effect), Low: api.Float(low), High: api.Float(high)}}
		if change != "" {
			m.Adjusted = 0.001
		}
		if name == judge.ErrorShare || name == judge.Apdex {
			m.Scale = "difference"
		}
		return m
	}
	late := of("p99", judge.Slower, judge.Worse, 1.08, 1.01, 1.15)
	late.Adjusted = 0.2 // one of many
	likely := of("p50", judge.Slower, judge.Worse, 1.01, 1.005, 1.015)
	likely.Like = &api.CompareFigure{Effect: 1.4, Low: 1.3, High: 1.5}
	for _, c := range []struct {
		name     string
		measures []api.CompareMeasure
		verdict  judge.Verdict
		sentence string
	}{
		{"too little but for errors", []api.CompareMeasure{
			of("p50", judge.TooLittle, "", 1.2, nan, nan), of("p99", judge.TooLittle, "", 1.2, nan, nan), of(judge.ErrorShare, judge.NoEvidence, "", 0.001, -0.01, 0.01),
		}, judge.TooLittle, "p99 is too little data"},
		{"errors rise and nothing else is known", []api.CompareMeasure{
			of("p99", judge.TooLittle, "", 1.2, nan, nan), of(judge.ErrorShare, judge.MoreErrors, judge.Worse, 0.1, 0.05, 0.15),
		}, judge.Regression, "errors is more errors"},
		{"all alike", []api.CompareMeasure{
			of("p50", judge.Faster, judge.Better, 0.7, 0.69, 0.71), of("p95", judge.Faster, judge.Better, 0.7, 0.68, 0.72), of("p99", judge.Faster, judge.Better, 0.7, 0.65, 0.75),
		}, judge.Improvement, "p99 is faster"},
		{"the median moved more than a quantile seems to", []api.CompareMeasure{
			of("p50", judge.Slower, judge.Worse, 1.14, 1.12, 1.16), of("p75", judge.Slower, judge.Worse, 1.053, 1.03, 1.07), of("p99", judge.NoEvidence, "", 1.02, 0.95, 1.1),
		}, judge.Regression, "p50 is slower"},
		{"the tail hardly, the median much", []api.CompareMeasure{
			of("p50", judge.Faster, judge.Better, 0.7, 0.68, 0.72), of("p95", judge.Faster, judge.Better, 0.95, 0.91, 0.99), of("p99", judge.Faster, judge.Better, 0.96, 0.93, 0.99),
		}, judge.Improvement, "p50 is faster"},
		{"of two directions the worse", []api.CompareMeasure{
			of("p50", judge.Slower, judge.Worse, 1.1, 1.05, 1.15), of("p99", judge.Faster, judge.Better, 0.5, 0.4, 0.6),
		}, judge.Mixed, "p50 is slower; but p99 is faster"},
		{"many errors, a little slower", []api.CompareMeasure{
			of("p99", judge.Slower, judge.Worse, 1.1, 1.05, 1.15), of(judge.ErrorShare, judge.MoreErrors, judge.Worse, 0.1, 0.08, 0.12),
		}, judge.Regression, "errors is more errors, and p99 is slower"},
		{"few more errors before a median that moved much", []api.CompareMeasure{
			of("p50", judge.Slower, judge.Worse, 3, 2.9, 3.1), of(judge.ErrorShare, judge.MoreErrors, judge.Worse, 0.002, 0.001, 0.003),
		}, judge.Regression, "errors is more errors, and p50 is slower"},
		{"chance among many", []api.CompareMeasure{
			of("p95", judge.NoEvidence, "", 1.02, 0.95, 1.1), late, of("p75", judge.Same, "", 1, 0.99, 1.01),
		}, judge.NoEvidence, "p99 changed by +8 %, which is no evidence among so many figures (95 % interval +1 % … +15 %)"},
		{"like for like counts", []api.CompareMeasure{
			likely, of("p99", judge.Slower, judge.Worse, 1.1, 1.05, 1.15),
		}, judge.Regression, "p50 is slower"},
		{"same", []api.CompareMeasure{
			of("p50", judge.Same, "", 1, 0.99, 1.01), of("p99", judge.TooLittle, "", 1, nan, nan),
		}, judge.Same, "p50 is same"},
		{"Apdex moved more margins than p99", []api.CompareMeasure{
			of("p50", judge.NoEvidence, "", 1.1, 0.8, 1.4), of("p99", judge.Slower, judge.Worse, 1.53, 1.51, 1.56), of(judge.Apdex, judge.Lower, judge.Worse, -0.13, -0.13, -0.12),
		}, judge.Regression, "p99 is slower"},
		{"all by chance", []api.CompareMeasure{late}, judge.NoEvidence, "p99 changed by +8 %, which is no evidence among so many figures (95 % interval +1 % … +15 %)"},
	} {
		k := &comparison{Request: Request{Within: 0.05, Level: 0.95}, out: &api.CompareResponse{Measures: c.measures}}
		k.conclude()
		if k.out.Verdict != c.verdict || k.out.Sentence != c.sentence {
			t.Errorf("%s: %s: %q, want %s: %q", c.name, k.out.Verdict, k.out.Sentence, c.verdict, c.sentence)
		}
	}
}

// A measure says of itself what the headline is made of: no change that is not sure among all
// of its list, and none by the load that a measure beside it surely has without it.
func TestMeasuresAgreeWithTheHeadline(t *testing.T) {
	slower := func(name string, adjusted api.Float) api.CompareMeasure {
		return api.CompareMeasure{Name: name, Verdict: judge.Slower, Change: judge.Worse, Sentence: name + " is slower", Adjusted: adjusted, Scale: "ratio",
			Raw: api.CompareFigure{Effect: 1.2, Low: 1.1, High: 1.3, Verdict: judge.Slower}}
	}
	loaded := api.CompareMeasure{Name: "p95", Verdict: judge.Drifts, Sentence: "by load", Adjusted: 0.001, Scale: "ratio",
		Raw: api.CompareFigure{Effect: 1.2, Low: 1.1, High: 1.3, Verdict: judge.Drifts, ByLoad: true}}
	row := func(adjusted api.Float) api.CompareRow {
		return api.CompareRow{Tenant: "acme", Adjusted: adjusted, RequestsA: 9000, RequestsB: 9000, Measures: []api.CompareMeasure{slower("p50", adjusted)}}
	}
	conclude := func(rows []api.CompareRow, measures ...api.CompareMeasure) *api.CompareResponse {
		k := &comparison{Request: Request{Within: 0.05, Level: 0.95}, of: "shop", out: &api.CompareResponse{Of: "shop", Measures: measures, Tenants: rows}}
		k.conclude()
		return k.out
	}
	out := conclude([]api.CompareRow{row(0.04), row(0.06)}, slower("p50", 0.2), slower("p99", 0.01), loaded)
	for _, c := range []struct {
		m       *api.CompareMeasure
		verdict judge.Verdict
		change  judge.Way
		want    string
	}{
		{&out.Measures[0], judge.NoEvidence, "", "p50 of shop changed by +20 %, which is no evidence among so many figures (95 % interval +10 % … +30 %)"},
		{&out.Measures[1], judge.Slower, judge.Worse, "p99 is slower"},
		{&out.Measures[2], judge.Drifts, "", "p95 of shop changed by +20 %, which the number of requests may explain, but not that of p99 (95 % interval +10 % … +30 %); compare sides with as many requests"},
		{&out.Tenants[0].Measures[0], judge.Slower, judge.Worse, "p50 is slower"},
		{&out.Tenants[1].Measures[0], judge.NoEvidence, "", "p50 of shop for acme changed by +20 %, which is no evidence among so many figures (95 % interval +10 % … +30 %)"},
	} {
		if c.m.Verdict != c.verdict || c.m.Change != c.change || c.m.Sentence != c.want {
			t.Errorf("%s %q: %q, want %s: %q", c.m.Verdict, c.m.Change, c.m.Sentence, c.verdict, c.want)
		}
	}
	if out := conclude(nil, slower("p99", 0.5), loaded); out.Measures[1].Sentence != "by load" {
		t.Errorf("the load explains nothing beside %q: %q", out.Measures[0].Sentence, out.Measures[1].Sentence)
	}
}

// A tenant that got worse comes before all that got better.
func TestWorseComesFirst(t *testing.T) {
	measure := func(of string, verdict judge.Verdict, change judge.Way, effect api.Float) api.CompareMeasure {
		return api.CompareMeasure{Name: "p99", Verdict: verdict, Change: change, Sentence: "p99 of " + of + " is " + string(verdict), Adjusted: 0.001, Scale: "ratio",
			Raw: api.CompareFigure{Effect: effect, Low: effect * 0.99, High: effect * 1.01}}
	}
	row := func(tenant string, m api.CompareMeasure) api.CompareRow {
		return api.CompareRow{Tenant: tenant, Adjusted: 0.001, RequestsA: 10000, RequestsB: 10000, Measures: []api.CompareMeasure{m}}
	}
	slower, faster := row("acme", measure("acme", judge.Slower, judge.Worse, 1.5)), row("acme", measure("acme", judge.Faster, judge.Better, 0.5))
	same := row("globex", measure("globex", judge.Same, "", 1))
	for _, c := range []struct {
		all, first api.CompareRow
		want       string
	}{
		{row("", measure("shop", judge.Faster, judge.Better, 0.5)), slower, "p99 of acme is slower; but p99 of shop is faster"},
		{row("", measure("shop", judge.Slower, judge.Worse, 1.5)), faster, "p99 of shop is slower; but p99 of acme is faster"},
	} {
		k := &comparison{Request: Request{Within: 0.05}, out: &api.CompareResponse{Of: "shop", Measures: c.all.Measures, Tenants: []api.CompareRow{c.first, same}}}
		if k.conclude(); k.out.Verdict != judge.Mixed || k.out.Sentence != c.want {
			t.Errorf("%s: %q, want %q", k.out.Verdict, k.out.Sentence, c.want)
		}
	}
}

// More errors of all come before what a single tenant's times did.
func TestErrorsComeBeforeATenantsTimes(t *testing.T) {
	errors := api.CompareMeasure{Name: judge.ErrorShare, Verdict: judge.MoreErrors, Change: judge.Worse, Sentence: "errors are higher", Adjusted: 0.001, Scale: "difference",
		Raw: api.CompareFigure{Effect: 0.005, Low: 0.004, High: 0.006}}
	row := func(tenant string, verdict judge.Verdict, change judge.Way, effect api.Float) api.CompareRow {
		return api.CompareRow{Tenant: tenant, Adjusted: 0.001, RequestsA: 10000, RequestsB: 10000, Measures: []api.CompareMeasure{{
			Name: "p50", Verdict: verdict, Change: change, Sentence: "p50 of " + tenant + " is " + string(verdict), Adjusted: 0.001, Scale: "ratio",
			Raw: api.CompareFigure{Effect: effect, Low: effect - 0.01, High: effect + 0.01},
		}}}
	}
	k := &comparison{Request: Request{Within: 0.05}, out: &api.CompareResponse{
		Measures: []api.CompareMeasure{errors},
		Tenants:  []api.CompareRow{row("acme", judge.Slower, judge.Worse, 1.1), row("globex", judge.Same, "", 1)},
	}}
	k.conclude()
	if want := "errors are higher; p50 of acme is slower"; k.out.Sentence != want {
		t.Errorf("%q, want %q", k.out.Sentence, want)
	}
}

// What the choice of a side's end makes likely counts only if it is sure among all ends; in a row
// as well, and not the other way.
func TestChosenEnd(t *testing.T) {
	for _, c := range []struct {
		name     string
		chosen   *Chosen
		verdict  judge.Verdict
		change   judge.Way
		adjusted api.Float
		want     judge.Verdict // of all
	}{
		{"an end that was given", nil, judge.FewerErrors, judge.Better, 0.01, judge.Improvement},
		{"chosen among few ends", &Chosen{Of: []judge.Verdict{judge.FewerErrors}, Among: 4}, judge.FewerErrors, judge.Better, 0.01, judge.Improvement},
		{"chosen among many", &Chosen{Of: []judge.Verdict{judge.FewerErrors}, Among: 71}, judge.FewerErrors, judge.Better, 0.01, judge.NoEvidence},
		{"sure among many", &Chosen{Of: []judge.Verdict{judge.FewerErrors}, Among: 71}, judge.FewerErrors, judge.Better, 1e-6, judge.Improvement},
		{"the other way", &Chosen{Of: []judge.Verdict{judge.FewerErrors}, Among: 71}, judge.MoreErrors, judge.Worse, 0.01, judge.Regression},
	} {
		measure := api.CompareMeasure{Name: judge.ErrorShare, Verdict: c.verdict, Change: c.change, Sentence: string(c.verdict), Adjusted: c.adjusted, Scale: "difference", Raw: api.CompareFigure{A: 0.1, B: 0.1, Effect: -0.002, Low: -0.003, High: -0.001}}
		of := comparison{Request: Request{Within: DefaultWithin, Chosen: c.chosen}, out: &api.CompareResponse{Measures: []api.CompareMeasure{measure}}}
		of.conclude()
		if of.out.Verdict != c.want || (of.out.Measures[0].Change == "") != (c.want == judge.NoEvidence) {
			t.Errorf("%s: %s, %+v; want %s", c.name, of.out.Verdict, of.out.Measures[0], c.want)
		}
		measure.Adjusted /= 10 // of a row more is asked
		row := api.CompareRow{Tenant: "globex", RequestsA: 10000, RequestsB: 10000, Measures: []api.CompareMeasure{measure}}
		of = comparison{Request: Request{Within: DefaultWithin, Chosen: c.chosen}, kind: ofSpans, out: &api.CompareResponse{Tenants: []api.CompareRow{row}}}
		of.conclude()
		if moved := judge.Moved(of.out.Verdict); moved != (c.want != judge.NoEvidence && c.name != "chosen among few ends") {
			t.Errorf("%s, of a row: %s", c.name, of.out.Verdict)
		}
	}
}
