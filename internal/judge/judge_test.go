package judge

import (
	"math"
	"slices"
	"testing"

	"tailscope/api"
)

// One finding reads the same wherever it stands: only what it is compared with differs.
func TestOneGrammar(t *testing.T) {
	p99 := Figure{Name: "p99", Kind: Time, Ratio: true}
	errors := Figure{Name: ErrorShare, Kind: Errors}
	at := func(f Figure, effect, low, high float64, e Evidence) Finding {
		return Finding{Figure: f, Of: "GET /search", Effect: effect, Low: low, High: high, Level: 0.95, Margin: 0.05, Noise: math.NaN(), Evidence: e}
	}
	inMirror := func(f Finding) Finding { f.Against, f.Noise = "control", 0.03; return f }
	inExperiment := func(f Finding) Finding { f.With, f.Against = "workers=24", "workers=8"; return f }
	sure, nan := Evidence{Sure: true}, math.NaN()
	faster := at(p99, 0.62, 0.58, 0.67, sure)
	rose := at(errors, 0.012, 0.004, 0.02, sure)
	none := at(p99, 1.01, 0.9, 1.14, Evidence{})
	none.Needs = "a change of 5 % needs about 3 h a side"
	same := at(p99, 1.01, 0.98, 1.03, Evidence{Same: true})
	equal, calm := at(errors, 0.0001, -0.0005, 0.0004, Evidence{Same: true}), at(errors, 0, 0, 0, Evidence{Same: true})
	equal.Margin, calm.Margin = 0.001, 0.001
	short := at(p99, nan, nan, nan, Evidence{Short: "3 slots"})
	thrice := at(p99, 3, 2.5, 3.6, sure)
	joint := inExperiment(at(p99, 1.1, 1.05, 1.16, sure))
	joint.Joint = true
	adjusted := at(p99, 1.02, 1.01, 1.03, Evidence{})
	hidden := inMirror(at(p99, 1.02, 1.01, 1.03, Evidence{Hidden: true}))
	drifting := at(p99, 1.12, 1.05, 1.19, Evidence{Drifts: true})
	byLoad := at(p99, 1.12, 1.05, 1.19, Evidence{Drifts: true, ByLoad: true})
	drifting.Needs = "measure for longer, or compare rounds"
	inGap := at(Figure{Name: "p50", Kind: Time, Ratio: true, Unit: "seconds"}, 1.4, 0.9, 40, Evidence{})
	inGap.Between = &api.CompareBumps{Lower: 0.005, Upper: 0.3, A: 0.46, B: 0.54, Low: -0.01, High: 0.17}
	wentOn, besides := inGap, inGap
	wentOn.Evidence, besides.Sides = sure, "tenant acme and everybody else"
	unknown := hidden
	unknown.Noise = math.Inf(1)
	for _, c := range []struct {
		finding Finding
		verdict Verdict
		want    string
	}{
		{faster, Faster, "p99 of GET /search is 38 % faster (95 % interval 33 … 42 %)"},
		{inMirror(faster), Faster, "p99 of GET /search is 38 % faster than control (95 % interval 33 … 42 %; noise floor ±3 %)"},
		{inExperiment(faster), Faster, "p99 of GET /search with workers=24 is 38 % faster than with workers=8 (95 % interval 33 … 42 %)"},
		{rose, MoreErrors, "the share of errors of GET /search is 1.2 points higher (95 % interval 0.4 … 2 points)"},
		{inExperiment(rose), MoreErrors, "the share of errors of GET /search with workers=24 is 1.2 points higher than with workers=8 (95 % interval 0.4 … 2 points)"},
		{none, NoEvidence, "no evidence that p99 of GET /search changed (95 % interval −10 % … +14 %); a change of 5 % needs about 3 h a side"},
		{inExperiment(none), NoEvidence, "no evidence that p99 of GET /search with workers=24 differs from workers=8 (95 % interval −10 % … +14 %); a change of 5 % needs about 3 h a side"},
		{same, Same, "p99 of GET /search is the same within 5 % (95 % interval −2 % … +3 %)"},
		{inMirror(same), Same, "p99 of GET /search is the same as control within 5 % (95 % interval −2 % … +3 %; noise floor ±3 %)"},
		{equal, Same, "the share of errors of GET /search is the same within 0.1 points (95 % interval −0.05 … +0.04 points)"},
		{calm, Same, "the share of errors of GET /search is the same within 0.1 points (95 % interval 0 points)"},
		{short, TooLittle, "too little data to judge p99 of GET /search: 3 slots"},
		{thrice, Slower, "p99 of GET /search is 3 times as slow (95 % interval 2.5 … 3.6)"},
		{inExperiment(thrice), Slower, "p99 of GET /search with workers=24 is 3 times as slow as with workers=8 (95 % interval 2.5 … 3.6)"},
		{joint, Slower, "p99 of GET /search with workers=24 is +10 % from what each by itself adds up to (95 % interval +5 % … +16 %)"},
		{inMirror(adjusted), NoEvidence, "p99 of GET /search differs from control by +2 %, which is no evidence among so many figures (95 % interval +1 % … +3 %; noise floor ±3 %)"},
		{hidden, WithinFloor, "p99 of GET /search differs from control by +2 %, not surely more than control from the primary (95 % interval +1 % … +3 %; noise floor ±3 %)"},
		{drifting, Drifts, "p99 of GET /search changed by +12 %, which may be drift: it wanders for longer than the sides last (95 % interval +5 % … +19 %); measure for longer, or compare rounds"},
		{byLoad, Drifts, "p99 of GET /search changed by +12 %, which the number of requests explains (95 % interval +5 % … +19 %)"},
		{inGap, NoEvidence, "p50 of GET /search jumps between about 5.00 ms and about 300 ms, with little between: no evidence that the share near 300 ms changed, 46 % and 54 % (95 % interval −1 … +17 points)"},
		{wentOn, Slower, "p50 of GET /search jumps between about 5.00 ms and about 300 ms, with little between: the share near 300 ms went from 46 % to 54 % (95 % interval −1 … +17 points)"},
		{besides, NoEvidence, "p50 of GET /search jumps between about 5.00 ms and about 300 ms, with little between: no evidence that the share near 300 ms differs between tenant acme and everybody else, 46 % and 54 % (95 % interval −1 … +17 points)"},
		{unknown, TooLittle, "too little data to judge p99 of GET /search: the noise floor is not known"},
	} {
		c.finding.Conclude()
		if got := c.finding.Sentence(); c.finding.Verdict != c.verdict || got != c.want {
			t.Errorf("%s: got  %s\nwant %s: %s", c.finding.Verdict, got, c.verdict, c.want)
		}
	}
}

func TestSeveral(t *testing.T) {
	for _, c := range []struct {
		of            []Verdict
		verdict, word Verdict
	}{
		{nil, TooLittle, TooLittle},
		{[]Verdict{TooLittle, Same}, Same, Same},
		{[]Verdict{Same, NoEvidence}, NoEvidence, NoEvidence},
		{[]Verdict{NoEvidence, WithinFloor, Same}, WithinFloor, WithinFloor},
		{[]Verdict{NoEvidence, Drifts, Same}, Drifts, Drifts},
		{[]Verdict{Drifts, Slower}, Regression, Slower},
		{[]Verdict{WithinFloor, Faster}, Improvement, Faster},
		{[]Verdict{MoreErrors, Slower}, Regression, Slower},
		{[]Verdict{Slower, FewerErrors}, Mixed, Mixed},
		{[]Verdict{Mixed, Slower}, Mixed, Mixed},
		{[]Verdict{Higher, Same}, Changed, Higher},
		{[]Verdict{Higher, Lower}, Changed, Mixed},
	} {
		var s Sum
		for _, v := range c.of {
			s.Add(v, "")
		}
		if s.Verdict() != c.verdict || s.Word() != c.word {
			t.Errorf("%q: %s and %s, want %s and %s", c.of, s.Verdict(), s.Word(), c.verdict, c.word)
		}
	}
}

// A figure says which way is better.
func TestWays(t *testing.T) {
	for _, c := range []struct {
		figure Figure
		v      Verdict
		want   Way
	}{
		{Figure{Kind: Time}, Faster, Better},
		{Figure{Kind: Errors}, MoreErrors, Worse},
		{Figure{Sense: MoreIsBetter}, Higher, Better},
		{Figure{Sense: NeitherIsBetter}, Higher, ""},
		{Figure{Kind: Time}, Same, ""},
	} {
		if got := c.figure.Way(c.v); got != c.want {
			t.Errorf("%s of %+v is %q, want %q", c.v, c.figure, got, c.want)
		}
	}
}

func TestLead(t *testing.T) {
	names := []string{"p50", "p99", "", "p95"}
	name := func(of *string) string { return *of }
	if got := Lead(names, Reading, name, nil); got == nil || *got != "p99" {
		t.Errorf("%v leads, not p99", got)
	}
	larger := func(of *string) (seems, certain float64) {
		return 1, map[string]float64{"p50": 2, "p99": 0.5, "p95": 0.9}[*of]
	}
	if got := Lead(names, Reading, name, larger); got == nil || *got != "p50" {
		t.Errorf("%v leads, not p50, which has certainly changed more than p99 seems to", got)
	}
	names = []string{"p75", "p99", "mean"}
	if got := Lead(names, Reading, name, func(of *string) (seems, certain float64) { return 1, map[string]float64{"p75": 3, "mean": 2}[*of] }); got == nil || *got != "p99" {
		t.Errorf("%v leads, not p99: a mark does not judge p75", *got)
	}
	if got := Lead([]string{"p75", "p90"}, Reading, name, larger); got == nil || *got != "p90" {
		t.Errorf("%v leads where there is no other, not p90", *got)
	}
	if got := Lead([]string{""}, Reading, name, nil); got != nil {
		t.Errorf("%v leads of nothing", *got)
	}
}

// Rows that changed come first, the most changed at the head; equal ones stay.
func TestRanked(t *testing.T) {
	rows := []Rank{{P: 0.5}, {Changed: true, Size: 1}, {P: 0.2, Size: 9}, {Changed: true, Size: 3}, {P: 0.5, Size: 7}}
	want := []Rank{{Changed: true, Size: 3}, {Changed: true, Size: 1}, {P: 0.2, Size: 9}, {P: 0.5}, {P: 0.5, Size: 7}}
	if got := Ranked(rows, func(r *Rank) Rank { return *r }); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAdjust(t *testing.T) {
	p := []float64{0.01, math.NaN(), 0.04}
	got := map[float64]float64{}
	Adjust(p, func(v float64) float64 { return v }, func(v, adjusted float64) { got[v] = adjusted })
	if got[0.01] != 0.02 || got[0.04] != 0.04 {
		t.Errorf("%v, want twice 0.01, and 0.04", got)
	}
}

func TestPast(t *testing.T) {
	for sentence, want := range map[string]string{
		"p99 of inventory is 2.8 times as slow (95 % interval 2.5 … 3.1)": "p99 of inventory was 2.8 times as slow (95 % interval 2.5 … 3.1)",
		"p50 of GET is it is\u00a03 % slower":                             "p50 of GET is it was\u00a03 % slower",
		"errors of shop went from 1 % to 6 %":                             "errors of shop went from 1 % to 6 %",
	} {
		if got := Past(sentence); got != want {
			t.Errorf("%s: %s, want %s", sentence, got, want)
		}
	}
}
