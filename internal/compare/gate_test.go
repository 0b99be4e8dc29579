package compare

import (
	"math/rand/v2"
	"strings"
	"testing"

	"tailscope/api"
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

// Measures that were not asked for decide neither the verdict nor the headline, and lists
// judge those that were.
func TestOnlyMeasuresAskedForDecide(t *testing.T) {
	st, r := sides(t, 1, func(side int, all []load) []load {
		for i := range all {
			all[i].median *= []float64{1, 2.7}[side]
		}
		return all
	})
	r.Measures = []string{judge.ErrorShare}
	if out := compared(t, st, r); judge.Moved(out.Verdict) || out.Tenants[0].Measures[0].Name != judge.ErrorShare {
		t.Errorf("errors alone: %s: %s", out.Verdict, out.Sentence)
	}
	r.Measures, r.Gates = []string{"p99"}, judge.Gates{{Measure: "p99", Direction: judge.ForWorse, Allowed: 3}}
	out := compared(t, st, r)
	if out.Verdict != judge.WithinTolerance || strings.Contains(out.Sentence, "tenant") || strings.Contains(out.Sentence, "p50") {
		t.Errorf("%s: %s", out.Verdict, out.Sentence)
	}
	for _, rows := range [][]api.CompareRow{out.Operations, out.Tenants} {
		if len(rows) == 0 {
			t.Error("a list is empty")
		}
		for _, row := range rows {
			if len(row.Measures) != 1 || row.Measures[0].Name != "p99" {
				t.Errorf("%s%s: %+v", row.Operation, row.Tenant, row.Measures)
			}
		}
	}
}

// A tenant does not stand in the headline where all tenants changed alike, also if few of
// them surely did.
func TestTenantsThatChangedAlike(t *testing.T) {
	row := func(tenant string, effect, p float64) api.CompareRow {
		wide := 2.2 // so that each by itself is open, and all others together are not
		if p < 0.05 {
			wide = 1.5
		}
		m := api.CompareMeasure{Name: "p50", Scale: "ratio", Verdict: judge.Slower, Change: judge.Worse, Adjusted: api.Float(p), Sentence: "p50 for " + tenant + " is slower", Raw: api.CompareFigure{Effect: api.Float(effect), Low: api.Float(effect / wide), High: api.Float(effect * wide)}}
		if p > 0.05 {
			m.Verdict, m.Change = judge.NoEvidence, ""
		}
		return api.CompareRow{Tenant: tenant, RequestsA: 1000, RequestsB: 1000, Adjusted: api.Float(p), Measures: []api.CompareMeasure{m}}
	}
	for _, c := range []struct {
		others float64
		want   string
	}{{2.4, "p50 of shop is slower for most of 4 tenants, 1 of them surely"}, {1.1, "p50 for acme is slower; too little data to judge shop as a whole"}} {
		k := &comparison{Request: Request{Within: 0.05}, out: &api.CompareResponse{Of: "shop", Tenants: []api.CompareRow{
			row("acme", 2.7, 0.0001), row("globex", c.others, 0.3), row("initech", c.others, 0.3), row("umbrella", c.others, 0.3),
		}}}
		if k.conclude(); k.out.Verdict != judge.Regression || k.out.Sentence != c.want {
			t.Errorf("others ×%g: %s: %s, want %s", c.others, k.out.Verdict, k.out.Sentence, c.want)
		}
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
