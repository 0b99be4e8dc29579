package stat

import (
	"math/rand/v2"
	"testing"
)

// The interval of the moment at which few requests begin to fail holds it.
func TestMomentOfRareErrors(t *testing.T) {
	const trials, slots, at = 200, 300, 220
	for _, requests := range []int{40, 80, 160} {
		found, held, wide := 0, 0, 0
		for i := range trials {
			rng := rand.New(rand.NewPCG(71, uint64(1000*requests+i)))
			tally := Tally{Num: make([]float64, slots), Den: make([]float64, slots)}
			for s := range slots {
				p := 0.002
				if s >= at {
					p = 0.03
				}
				tally.Den[s] = float64(requests)
				for range requests {
					if rng.Float64() < p {
						tally.Num[s]++
					}
				}
			}
			points, err := ChangePointsOfTally(tally, ShareTally, ChangeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range points {
				if x.Low <= at+40 && x.High >= at-40 {
					found++
					wide += x.High - x.Low + 1
					if x.Low <= at && at <= x.High {
						held++
					}
					break
				}
			}
		}
		t.Logf("%d requests a slot: found in %d of %d, held by %d intervals of %.1f slots", requests, found, trials, held, float64(wide)/float64(max(1, found)))
		if float64(held) < 0.9*float64(found) {
			t.Errorf("%d requests a slot: %d of %d intervals hold the moment", requests, held, found)
		}
	}
}
