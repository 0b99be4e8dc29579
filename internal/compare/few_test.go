package compare

import (
	"math/rand/v2"
	"strings"
	"testing"

	"tailscope/internal/judge"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
)

// A tenant with one request every half minute, against everybody: of its p99
// nothing can be said, and no interval is without width.
func TestFewRequestsOfATenant(t *testing.T) {
	for seed := range uint64(4) {
		w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(seed, 56))
		send(w, rng, epoch, epoch+1800, load{operation: "GET /cart", tenant: "acme", perSlot: 20, median: 0.1})
		for range 56 {
			slot := epoch + 10*rng.Int64N(180)
			send(w, rng, slot, slot+10, load{operation: "GET /cart", tenant: "globex", perSlot: 1, median: 0.1})
		}
		sel := selection("service", "shop")
		sel.Start, sel.End = at(epoch), at(epoch+1800)
		r := compared(t, stored(t, w), Request{Selection: sel, Label: series.LabelTenant, ValueA: Others, ValueB: "globex"})
		if !r.Paired || r.B.Requests != 56 || r.Verdict == judge.Regression || r.Verdict == judge.Improvement {
			t.Errorf("seed %d: paired %v, %d requests, %s: %s", seed, r.Paired, r.B.Requests, r.Verdict, r.Sentence)
		}
		for _, m := range r.Measures {
			if m.Verdict == judge.NoEvidence && !strings.Contains(m.Sentence, " differs between tenant globex and everybody else (") {
				t.Errorf("seed %d: %s: %s; want both sides named", seed, m.Name, m.Sentence)
			}
			switch f := m.Raw; {
			case f.Short == "" && !(f.Low < f.Effect && f.Effect < f.High):
				t.Errorf("seed %d: %s is %v, interval [%v, %v]", seed, m.Name, f.Effect, f.Low, f.High)
			case m.Name == "p99" && m.Verdict != judge.TooLittle, m.Name == "p50" && m.Verdict == judge.TooLittle:
				t.Errorf("seed %d: %s: %s", seed, m.Name, m.Sentence)
			}
		}
	}
}
