package report

import (
	"math"
	"strings"
	"testing"
	"time"

	"tailscope/api"
)

func TestMarkText(t *testing.T) {
	m := &api.Mark{ID: "1", Time: 1767225600, Name: "deploy 1.4", Service: "shop", Revision: "5f1c0de", User: "ada"}
	written := func(m *api.Mark) string {
		var b strings.Builder
		if err := Mark(m, time.UTC).Write(&b, Text); err != nil {
			t.Error(err)
		}
		return b.String()
	}
	want := "deploy 1.4, shop, 2026-01-01 00:00:00\n5f1c0de\nada\n"
	if got := written(m); got != want {
		t.Errorf("not judged: got\n%s\nwant\n%s", got, want)
	}
	m.Verdict = &api.MarkVerdict{State: "waiting", Judged: api.Float(math.NaN()), Next: 1767225850, Sentence: "Too little time has passed to say what changed"}
	want += "\nwaiting\nToo little time has passed to say what changed\nwill be judged at 2026-01-01 00:04:10\n"
	if got := written(m); got != want {
		t.Errorf("waiting: got\n%s\nwant\n%s", got, want)
	}
	m.Verdict.Judged = 1767225700
	if got, want := written(m), strings.Replace(want, "will be judged at", "will be judged again at", 1); got != want {
		t.Errorf("judged once: got\n%s\nwant\n%s", got, want)
	}
	m.Verdict = &api.MarkVerdict{State: "final", Next: api.Float(math.NaN()), Verdict: "regression", Sentence: "p99 of shop is 9 % slower (95 % interval 3 … 15 %)", Services: []api.ServiceVerdict{{
		Service: "shop", Verdict: "regression", Before: api.Range{Start: 1767222000, End: 1767225600}, After: api.Range{Start: 1767225620, End: 1767229220},
		Measures:   []api.CompareMeasure{{Name: "p99", Change: "worse", Sentence: "p99 of shop is 9 % slower (95 % interval 3 … 15 %)"}},
		Operations: []api.CompareRow{{Operation: "GET /", Measures: []api.CompareMeasure{{Name: "p50", Sentence: "no evidence"}, {Name: "p99", Change: "worse", Sentence: "p99 of GET / is 20 % slower (95 % interval 9 … 30 %)"}}}},
		Warnings:   []api.CompareWarning{{Code: "mix", Text: "6 % of the requests are of other operations"}},
	}}}
	want = `deploy 1.4, shop, 2026-01-01 00:00:00
5f1c0de
ada

regression
p99 of shop is 9 % slower (95 % interval 3 … 15 %)

shop: regression
  2025-12-31 23:00:00–2026-01-01 00:00:00 against 2026-01-01 00:00:20–2026-01-01 01:00:20
  p99 of shop is 9 % slower (95 % interval 3 … 15 %)
  p99 of GET / is 20 % slower (95 % interval 9 … 30 %)
  warning: 6 % of the requests are of other operations
`
	if got := written(m); got != want {
		t.Errorf("final: got\n%s\nwant\n%s", got, want)
	}
	m.Verdict.State, m.Verdict.First, m.Verdict.Step, m.Verdict.Next = "provisional", 1767225635, 1, 1767225650
	m.Verdict.Services[0].After.End = 1767225660
	if got, want := written(m), "3 … 15 %)\nprovisional, from 40 s of one-second slots\nfirst judged at 2026-01-01 00:00:35\nwill be judged again at 2026-01-01 00:00:50\n\nshop: "; !strings.Contains(got, want) {
		t.Errorf("provisional: got\n%s\nwithout\n%s", got, want)
	}
	m.Verdict.Services[0].Environment = "staging"
	if got := written(m); !strings.Contains(got, "\n\nshop in staging: regression\n") {
		t.Errorf("without the environment: got\n%s", got)
	}
	m.Verdict.State = "final"
	for _, c := range []struct {
		v           *api.MarkVerdict
		word, found string
	}{
		{nil, "", ""},
		{&api.MarkVerdict{State: "waiting"}, "waiting", ""},
		{&api.MarkVerdict{State: "early", Verdict: "same", Sentence: "x"}, "same, so far", "x"},
		{&api.MarkVerdict{State: "provisional", Verdict: "regression", Sentence: "x"}, "regression, provisional", "x"},
		{m.Verdict, "regression", "p99 of shop is 9 % slower (95 % interval 3 … 15 %)"},
	} {
		if word, found := verdictOf(c.v); word != c.word || found != c.found {
			t.Errorf("got %q, %q, want %q, %q", word, found, c.word, c.found)
		}
	}
	if got := withoutInterval(m.Verdict.Sentence); got != "p99 of shop is 9 % slower" {
		t.Errorf("without its interval: %q", got)
	}
}
