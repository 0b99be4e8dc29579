package compare

import (
	"math"
	"math/rand/v2"
	"testing"

	"tailscope/hist"
	"tailscope/internal/trials"
)

// Operations that come in bursts move their mix by themselves; one that comes six times as often
// moves it surely.
func TestMixOfBursts(t *testing.T) {
	const operations, each, slots, keeps, deviation = 4, 5.0, 60, 0.9, 0.7
	trials100 := trials.Of(100)
	for _, times := range []float64{1, 6} {
		byRequests, surely := 0, 0
		for i := range trials100 {
			rng := rand.New(rand.NewPCG(5, uint64(i)))
			var sides [2]*side
			wander := make([]float64, operations)
			for j := range wander {
				wander[j] = deviation * rng.NormFloat64()
			}
			for k := range sides {
				s := newSide(span{0, 10 * slots}, 10)
				for slot := range slots {
					for j := range wander {
						wander[j] = keeps*wander[j] + deviation*math.Sqrt(1-keeps*keeps)*rng.NormFloat64()
						rate := each * math.Exp(wander[j])
						if j == 0 && k == 1 {
							rate *= times
						}
						h := hist.New(hist.DefaultSchema)
						for range trials.Poisson(rng, rate) {
							if err := h.Record(0.1); err != nil {
								t.Fatal(err)
							}
						}
						if h.Count > 0 {
							s.stratum(operation{service: "shop", operation: string(rune('a' + j))}, false).good[slot] = h
						}
					}
				}
				for _, x := range s.strata {
					x.countAll()
				}
				sides[k] = s
			}
			if mixed(shift(sides[0], sides[1])) {
				byRequests++
				if surelyMixed(sides[0], sides[1]) {
					surely++
				}
			}
		}
		t.Logf("%d trials, one operation %v times as often: the mix moved by requests in %d, by slots too in %d", trials100, times, byRequests, surely)
		if times == 1 && float64(surely) > 0.13*float64(trials100) || times > 1 && float64(surely) < 0.6*float64(trials100) {
			t.Errorf("%d trials, one operation %v times as often: the mix moved in %d", trials100, times, surely)
		}
	}
}
