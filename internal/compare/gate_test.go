package compare

import (
	"math/rand/v2"
	"strings"
	"testing"

	"tailscope/internal/judge"
	"tailscope/internal/query/querytest"
)

// A change counts beyond what is allowed of it, in the direction that matters; what is
// surely no more is within tolerance.
func TestGates(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(41, 1))
	l := load{operation: "GET /cart", perSlot: 60, median: 0.02}
	send(w, rng, epoch, epoch+3600, l)
	l.median *= 1.2
	send(w, rng, epoch+3600, epoch+7200, l)
	st := stored(t, w)
	for _, c := range []struct {
		allow string
		back  bool // the sides are exchanged
		want  judge.Verdict
	}{
		{"", false, judge.Regression}, {"worse:3%", false, judge.Regression}, {"worse:40%", false, judge.WithinTolerance}, {"decrease:3%", false, judge.WithinTolerance},
		{"", true, judge.Improvement}, {"worse:3%", true, judge.WithinTolerance}, {"3%", true, judge.Improvement}, {"40%", true, judge.WithinTolerance},
	} {
		r := Request{A: window(0, 3600), B: window(3600, 7200), Measures: []string{"p50"}, Limit: 1}
		if c.back {
			r.A, r.B = r.B, r.A
		}
		if c.allow != "" {
			g, err := judge.ParseGate(c.allow)
			if err != nil {
				t.Fatal(err)
			}
			r.Gates = judge.Gates{g}
		}
		out := compared(t, st, r)
		if out.Verdict != c.want || c.want == judge.WithinTolerance && !strings.Contains(out.Sentence, "within tolerance") {
			t.Errorf("%q: %s: %s, want %s", c.allow, out.Verdict, out.Sentence, c.want)
		}
		if allowed := out.Measures[0].Allowed; (allowed != "") != (c.allow != "") || !strings.HasSuffix(allowed, "is allowed") && allowed != "" {
			t.Errorf("%q: %q is said to be allowed", c.allow, allowed)
		}
	}
	if _, err := Compare(t.Context(), st, Request{A: window(0, 3600), B: window(3600, 7200), Gates: judge.Gates{{Measure: "p98"}}}); err == nil {
		t.Error("a gate of a measure that there is not is no error")
	}
}

// Where nothing changes, hardly anything is beyond what is allowed, and most is within it.
func TestGatesWithoutAChange(t *testing.T) {
	const trials = 20
	moved, within := 0, 0
	for seed := range uint64(trials) {
		w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(seed, 43))
		send(w, rng, epoch, epoch+2400, load{operation: "GET /cart", perSlot: 60, median: 0.02})
		r := compared(t, stored(t, w), Request{A: window(0, 1200), B: window(1200, 2400), Measures: []string{"p50", "p95"}, Limit: 1, Gates: judge.Gates{{Direction: judge.ForWorse, Allowed: 0.1}}})
		switch {
		case judge.Moved(r.Verdict):
			moved++
		case r.Verdict == judge.WithinTolerance:
			within++
		}
	}
	t.Logf("of %d comparisons without a change %d are beyond and %d within 10 %%", trials, moved, within)
	if moved > 1 || within < trials*7/10 {
		t.Errorf("of %d comparisons without a change %d are beyond and %d within 10 %%", trials, moved, within)
	}
}
