package marks

import (
	"strings"
	"testing"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/internal/store/storetest"
)

// A change of a service at a mark is told as the mark tells it. One that surely is of another
// moment, of a part of the requests, or came and went unseen by the mark, is told by itself.
func TestChangesAtAMark(t *testing.T) {
	const moment = 4000
	since := func(sec int64) api.Float { return api.Float(epoch + moment + sec) }
	st := storetest.NewTwin()
	send(t, st, 3, 8000, moment, operation{service: "shop", name: "GET /cart", median: 0.02, ratio: 2}, operation{service: "cart", name: "GET /cart", median: 0.02})
	w := newWorld(t, st)
	m, quiet := mark("deploy", moment+3, "shop"), mark("nothing", moment+3, "cart")
	w.put(m)
	w.put(quiet)
	w.round(moment + 20 + 3600 + ripe)
	w.round(moment + 20 + 3600 + ripe)
	v := w.full(m).Services[0]
	if v.Verdict != judge.Regression {
		t.Fatalf("%s: %s", v.Verdict, v.Sentence)
	}
	near := []api.Mark{m.API(), quiet.API()}
	for _, c := range []struct {
		name   string
		change func(*api.Change)
		told   bool
	}{
		{"at the mark", func(*api.Change) {}, true},
		{"a minute later", func(c *api.Change) { c.Low, c.Time, c.High = since(70), since(75), since(90) }, true},
		{"two minutes later", func(c *api.Change) { c.Low, c.Time, c.High = since(110), since(120), since(130) }, false},
		{"two minutes before", func(c *api.Change) { c.Low, c.Time, c.High = since(-130), since(-120), since(-110) }, false},
		{"became the mark", func(c *api.Change) { c.Near, c.Mark = nil, m.ID }, true},
		{"no mark near", func(c *api.Change) { c.Near = nil }, false},
		{"of a service that did not change", func(c *api.Change) { c.Service = "cart" }, false},
		{"in an environment of its own", func(c *api.Change) { c.Environment = "staging" }, false},
		{"of an operation", func(c *api.Change) { c.Operation = "GET /cart" }, false},
		{"of few tenants", func(c *api.Change) { c.OfFew = true }, false},
		{"of what requests call", func(c *api.Change) { c.Part = &api.ChangePart{} }, false},
		{"of the rate alone", func(c *api.Change) { c.Found = []string{judge.Rate} }, false},
		{"to the better", func(c *api.Change) { c.Verdict = judge.Improvement }, false},
		{"came and went", func(c *api.Change) { c.Shape = &api.Shape{Kind: judge.Spike} }, false},
	} {
		of := api.Change{
			Service: "shop", Low: since(-10), Time: since(0), High: since(20), Near: near, Verdict: judge.Mixed,
			Headline: "p50 of shop is 95 % slower", Sentence: "p50 of shop is 95 % slower, since then", Measures: []api.CompareMeasure{{Name: "p50"}},
		}
		c.change(&of)
		all := []api.Change{of}
		if err := w.judge.Tell(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		got := &all[0]
		if c.told && (figure.Sentence(got.Headline) != v.Sentence || got.Sentence != got.Headline+", since then" || got.Before != v.Before || got.After != v.After || len(got.Measures) != len(v.Measures) || got.Verdict != v.Verdict) {
			t.Errorf("%s: %+v\nis not told as the mark: %s", c.name, got, v.Sentence)
		}
		if !c.told && (got.Headline != of.Headline || got.After != of.After || len(got.Measures) != 1 || got.Verdict != of.Verdict) {
			t.Errorf("%s: told as %s", c.name, got.Headline)
		}
	}
	// What it says of the number of requests stays.
	load := []api.Change{{Service: "shop", Low: since(0), High: since(0), Near: near, Verdict: judge.Mixed, Found: []string{judge.Durations, judge.Rate}, Rate: "the rate is higher", Headline: "x; the rate is higher", Sentence: "x; the rate is higher, since then"}}
	if err := w.judge.Tell(t.Context(), load); err != nil || figure.Sentence(strings.TrimSuffix(load[0].Headline, "; the rate is higher")) != v.Sentence || !strings.HasSuffix(load[0].Sentence, "; the rate is higher, since then") {
		t.Errorf("with a rate: %+v, %v", load[0], err)
	}
	// What follows from another change keeps the word that says so.
	all := []api.Change{{Service: "shop", Low: since(0), High: since(0), Near: near, Verdict: judge.Changed, Under: "another", Headline: "x", Sentence: "x"}}
	if err := w.judge.Tell(t.Context(), all); err != nil || all[0].Verdict != judge.Changed || !strings.HasPrefix(all[0].Headline, "p") {
		t.Errorf("under another: %+v, %v", all[0], err)
	}
	// A figure does not stand beside too little data.
	all[0] = api.Change{Service: "shop", Low: since(0), High: since(0), Near: near, Verdict: judge.TooLittle, Under: "another", Headline: "x", Sentence: "x"}
	if err := w.judge.Tell(t.Context(), all); err != nil || all[0].Verdict != v.Verdict {
		t.Errorf("under another, with too little data: %+v, %v", all[0], err)
	}

	// A spike that the mark saw is told by its sentence, of the service and of its operation, and
	// not with figures of what lasts.
	spike := func(operation string, start, end int64) *api.Shape {
		return &api.Shape{Kind: judge.Spike, Operation: operation, Measure: judge.ErrorShare, Start: start, End: end, Sentence: "the share of errors of " + operation + " was 9 % for 20 s"}
	}
	of := &api.MarkVerdict{Services: []api.ServiceVerdict{{
		Service: "shop", Verdict: judge.NoEvidence, Headline: "the share of errors of POST /orders was 9 % for 20 s, then as before", Shapes: []api.Shape{*spike("POST /orders", 100, 120)},
	}}}
	for _, c := range []struct {
		operation  string
		start, end int64
		want       string
	}{
		{"", 90, 110, "the share of errors of POST /orders was 9 % for 20 s, then as before"},
		{"POST /orders", 110, 130, "the share of errors of POST /orders was 9 % for 20 s, then as before"},
		{"GET /cart", 100, 120, "x"},
		{"", 120, 140, "x"},
	} {
		got := api.Change{Service: "shop", Operation: c.operation, Headline: "x", Sentence: "x, from then", Shape: spike(c.operation, c.start, c.end), Verdict: judge.Regression}
		if tellChange(of, &got); got.Headline != c.want || got.Sentence != c.want+", from then" || got.Verdict != judge.Regression || got.Measures != nil {
			t.Errorf("%s at %d: %+v", c.operation, c.start, got)
		}
	}
	for _, measure := range []string{judge.Rate, "p99"} { // another thing that came and went at that time
		got := api.Change{Service: "shop", Headline: "x", Sentence: "x, from then", Shape: spike("", 90, 110)}
		got.Shape.Measure = measure
		if tellChange(of, &got) || got.Headline != "x" {
			t.Errorf("a spike of %s is told as one of errors: %+v", measure, got)
		}
	}
}
