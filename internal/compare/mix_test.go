package compare

import (
	"fmt"
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

// Of what is rare and taken together, what surely has another share is left out: what began,
// left or grew. What comes in bursts, and all of it with twice the load, stays.
func TestUnmoved(t *testing.T) {
	const members, slots, each = 20, 360, 36.0
	n := trials.Of(40)
	name := func(i int) operation { return operation{service: "shop", tenant: fmt.Sprint("t", i)} }
	for _, c := range []struct {
		name        string
		burst       int        // requests at a time
		load        float64    // of side B, for all
		other       [2]float64 // requests of one more, on either side
		most, least float64    // shares of trials in which others, and this one, are left out
	}{
		{"nothing", 1, 1, [2]float64{36, 36}, 0.05, 0},
		{"twice the load", 1, 2, [2]float64{36, 72}, 0.05, 0},
		{"bursts of ten", 10, 1, [2]float64{40, 40}, 0.05, 0},
		{"one begins", 1, 1, [2]float64{0, 60}, 0.05, 1},
		{"one begins in bursts of ten", 10, 1, [2]float64{0, 400}, 0.1, 0.9},
		{"one leaves", 1, 0.5, [2]float64{100, 0}, 0.05, 1},
		{"one grows to twelve times", 1, 1, [2]float64{36, 432}, 0.05, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			others, this := 0, 0
			for trial := range n {
				rng := rand.New(rand.NewPCG(uint64(trial), 7))
				var sides [2]*side
				for k := range sides {
					s := newSide(span{0, 10 * slots}, 10)
					s.stratum(operation{service: "shop"}, false).good[0] = constant(t, 20000) // heavy ones
					for i := range members + 1 {
						mean := each
						if k == 1 {
							mean *= c.load
						}
						if i == members {
							mean = c.other[k]
						}
						for range trials.Poisson(rng, mean/float64(c.burst)) {
							if err := mergeInto(&s.stratum(name(i), false).good[rng.IntN(slots)], constant(t, c.burst)); err != nil {
								t.Fatal(err)
							}
						}
					}
					for _, x := range s.strata {
						x.countAll()
					}
					sides[k] = s
				}
				var names []operation
				for i := range members + 1 {
					names = append(names, name(i))
				}
				_, moved := unmoved(sides[0], sides[1], names)
				for _, of := range moved {
					if of == name(members) {
						this++
					} else {
						others++
					}
				}
			}
			t.Logf("%d trials: this one is left out in %d, of %d others %d", n, this, n*members, others)
			if float64(others) > c.most*float64(n*members) || float64(this) < c.least*float64(n) || c.least == 0 && float64(this) > 0.1*float64(n) {
				t.Errorf("left out in %d of %d trials, of %d others %d", this, n, n*members, others)
			}
		})
	}
}

func constant(t *testing.T, n int) *hist.Histogram {
	t.Helper()
	h := hist.New(hist.DefaultSchema)
	if err := h.RecordN(0.1, uint64(n)); err != nil {
		t.Fatal(err)
	}
	return h
}
