package compare

import (
	"math"
	"testing"

	"tailscope/api"
	"tailscope/internal/judge"
)

// A test of whole distributions that misses what most requests show has too little data, and
// says no number beside that. One that misses the slowest is of a small part.
func TestWholeBesideItsQuantiles(t *testing.T) {
	for _, c := range []struct {
		moved, sentence string
		verdict         judge.Verdict
	}{
		{"p50", "too little data to judge the whole distribution: too few slots that do not depend on each other", judge.TooLittle},
		{"p90", "too little data to judge the whole distribution: too few slots that do not depend on each other", judge.TooLittle},
		{"p99", "the whole distribution does not show it (p = 0.2): a small part of it changed, or errors did", judge.NoEvidence},
		{judge.ErrorShare, "the whole distribution does not show it (p = 0.2): a small part of it changed, or errors did", judge.NoEvidence},
	} {
		w := &api.CompareWhole{Verdict: judge.NoEvidence, P: 0.2}
		m := api.CompareMeasure{Name: c.moved, Verdict: judge.Faster, Change: judge.Better, Adjusted: 0.001}
		(&comparison{kind: ofSpans, out: &api.CompareResponse{Verdict: judge.Improvement, Measures: []api.CompareMeasure{m}, Whole: w}}).reconcile()
		if w.Verdict != c.verdict || w.Sentence != c.sentence || math.IsNaN(float64(w.P)) != (c.verdict == judge.TooLittle) {
			t.Errorf("%s: %s, %s (%v); want %s, %s", c.moved, w.Verdict, w.Sentence, w.P, c.verdict, c.sentence)
		}
	}
}
