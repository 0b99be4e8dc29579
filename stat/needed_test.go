package stat

import (
	"math"
	"math/rand/v2"
	"testing"
)

// failures are slots of so many requests, of which a share fails.
func failures(rng *rand.Rand, slots, requests int, share float64) []Tally {
	t := Tally{Num: make([]float64, slots), Den: make([]float64, slots)}
	for i := range slots {
		t.Den[i] = float64(requests)
		for range requests {
			if rng.Float64() < share {
				t.Num[i]++
			}
		}
	}
	return []Tally{t}
}

// Sides as long as they are said to be needed find the change that they are for in about
// nine cases of ten, also where one side is much shorter now, and where few requests fail.
func TestNeededFindsTheChange(t *testing.T) {
	const effect, power, requests = 0.002, 0.9, 40
	for _, c := range []struct {
		name           string
		slotsA, slotsB int
		share          float64
	}{
		{"equal sides", 60, 60, 0.01},
		{"side B is a tenth", 360, 36, 0.01},
		{"side A is a tenth", 36, 360, 0.01},
		{"few fail", 60, 60, 0.001},
		{"hardly any fail", 60, 60, 0.0002},
	} {
		const trials = 60
		found, told, narrow, both := 0, 0.0, 0.0, 0.0
		for i := range trials {
			rng := rand.New(rand.NewPCG(72, uint64(i)))
			x, err := Shares(failures(rng, c.slotsA, requests, c.share), failures(rng, c.slotsB, requests, c.share), nil, Difference, Options{})
			if err != nil {
				t.Fatal(err)
			}
			n := x.Needed(effect, power)
			slots := int(math.Ceil(n.Slots))
			told, both = told+n.Slots/trials, both+n.Both*float64(max(c.slotsA, c.slotsB))/trials
			slots = max(minSlots, slots)
			if x, err = Shares(failures(rng, slots, requests, c.share), failures(rng, slots, requests, c.share+effect), nil, Difference, Options{}); err != nil {
				t.Fatal(err)
			}
			narrow += (x.CI.High - x.CI.Low) / 2 / trials
			if x.CI.Low > 0 {
				found++
			}
		}
		t.Logf("%s: %.0f slots a side (both longer: %.0f), found in %d of %d, half an interval %.5f", c.name, told, both, found, trials, narrow)
		if f := float64(found) / trials; f < 0.75 || f > 0.99 {
			t.Errorf("%s: found in %d of %d, want about 54", c.name, found, trials)
		}
	}
}
