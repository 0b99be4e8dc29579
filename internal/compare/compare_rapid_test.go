package compare

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"tailscope/internal/judge"
	"tailscope/internal/query/querytest"
)

// Whatever changed: the sides turned round give the inverse ratio, the same
// word turned round and the same probability; intervals hold their effect.
func TestTurnedRound(t *testing.T) {
	opposite := map[judge.Verdict]judge.Verdict{judge.Faster: judge.Slower, judge.Slower: judge.Faster, judge.Lower: judge.Higher, judge.FewerErrors: judge.MoreErrors, judge.MoreErrors: judge.FewerErrors, judge.Higher: judge.Lower, judge.NoEvidence: judge.NoEvidence, judge.Drifts: judge.Drifts, judge.Same: judge.Same, judge.TooLittle: judge.TooLittle}
	rapid.Check(t, func(rt *rapid.T) {
		w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		ratio := rapid.Float64Range(0.3, 3).Draw(rt, "ratio")
		slots := rapid.Int64Range(15, 60).Draw(rt, "slots")
		cart := load{operation: "GET /cart", perSlot: rapid.IntRange(1, 10).Draw(rt, "requests"), median: 0.1, failed: 0.1}
		search := load{operation: "GET /search", perSlot: 3, median: 0.2}
		send(w, rng, epoch, epoch+10*slots, cart, search)
		cart.median *= ratio
		send(w, rng, epoch+10*slots, epoch+20*slots, cart, search)
		st := stored(t, w)
		there := compared(t, st, Request{A: window(0, 10*slots), B: window(10*slots, 20*slots)})
		back := compared(t, st, Request{B: window(0, 10*slots), A: window(10*slots, 20*slots)})
		near := func(a, b float64) bool {
			return a == b || math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= 1e-6*max(1, math.Abs(a), math.Abs(b))
		}
		for i, m := range there.Measures {
			n := back.Measures[i]
			f, g := m.Raw, n.Raw
			turned := -float64(g.Effect)
			if m.Scale == "ratio" {
				turned = 1 / float64(g.Effect)
			}
			if n.Verdict != opposite[m.Verdict] || !near(float64(f.Effect), turned) || !near(float64(f.P), float64(g.P)) {
				rt.Fatalf("%s: %s %v (p %v) one way, %s %v (p %v) the other", m.Name, m.Verdict, f.Effect, f.P, n.Verdict, g.Effect, g.P)
			}
			if m.Verdict != judge.TooLittle && (f.Effect < f.Low || f.Effect > f.High) {
				rt.Fatalf("%s: %v outside [%v, %v]", m.Name, f.Effect, f.Low, f.High)
			}
		}
	})
}
