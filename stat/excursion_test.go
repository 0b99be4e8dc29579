package stat

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// ratesOf returns counts of events: Poisson about a rate that wanders, by an autoregressive
// factor, times what a change makes of it.
func ratesOf(rng *rand.Rand, slots int, rate, keeps, deviation float64, times func(i int) float64) []float64 {
	out := make([]float64, slots)
	wander := 0.0
	for i := range out {
		wander = keeps*wander + math.Sqrt(1-keeps*keeps)*deviation*rng.NormFloat64()
		if mean := rate * math.Exp(wander) * times(i); mean > 0 {
			out[i] = distuv.Poisson{Lambda: mean, Src: rng}.Rand()
		}
	}
	return out
}

func sumOf(v []float64) (sum float64) {
	for _, x := range v {
		sum += x
	}
	return sum
}

func TestFindExcursions(t *testing.T) {
	in := func(from, to int, factor float64) func(int) float64 {
		return func(i int) float64 {
			if i >= from && i < to {
				return factor
			}
			return 1
		}
	}
	for _, c := range []struct {
		name     string
		rate     float64
		times    func(int) float64
		from, to int // -1: none
		lasts    bool
	}{
		{"nothing", 60, in(0, 0, 1), -1, 0, false},
		{"an outage", 60, in(400, 442, 0), 400, 442, false},
		{"a rest of two hundredths", 60, in(400, 442, 0.02), 400, 442, false},
		{"an outage that lasts", 60, in(700, 1000, 0), 700, 1000, true},
		{"an outage of an hour", 60, in(300, 660, 0), 300, 660, false},
		{"no requests for 40 s", 60, in(400, 404, 0), 400, 404, false},
		{"five times as many for 30 s", 60, in(400, 403, 5), 400, 403, false},
		{"a burst of ten minutes", 60, in(400, 460, 3), 400, 460, false},
		{"few requests stop", 1, in(400, 500, 0), 400, 500, false},
		{"a step", 60, in(500, 1000, 4), -1, 0, false},
		{"a step down", 60, in(500, 1000, 0.3), -1, 0, false},
		{"bursts, again and again", 60, func(i int) float64 {
			if i%60 < 3 {
				return 5
			}
			return 1
		}, -1, 0, false},
		{"traffic that comes in bursts", 60, func(i int) float64 {
			if i%60 < 30 {
				return 1
			}
			return 0
		}, -1, 0, false},
		{"a rate that falls to a hundredth", 60, func(i int) float64 { return math.Exp(-4.6 * float64(i) / 1000) }, -1, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			wrong := 0
			for seed := range 20 {
				rng := rand.New(rand.NewPCG(uint64(seed), 5))
				counts := ratesOf(rng, 1000, c.rate, 0.7, 0.1, c.times)
				found := FindExcursions(counts, sumOf(counts), 90)
				wide := 1
				if c.rate < 10 {
					wide = 12
				}
				switch {
				case c.from < 0 && len(found) == 0:
				case c.from >= 0 && len(found) == 1 && abs(found[0].From-c.from) <= wide && abs(found[0].To-c.to) <= wide && found[0].Lasts == c.lasts:
				default:
					wrong++
					t.Logf("seed %d: %+v", seed, found)
				}
			}
			if wrong > 1 {
				t.Errorf("%d of 20 are wrong", wrong)
			}
		})
	}
}

// Many outages of a service that flaps are told each, those of what comes in batches are not.
func TestManyOutages(t *testing.T) {
	for _, rate := range []float64{5, 60} {
		wrong := 0
		for seed := range 20 {
			rng := rand.New(rand.NewPCG(uint64(seed), 6))
			counts := ratesOf(rng, 1000, rate, 0.7, 0.1, func(i int) float64 {
				if i > 100 && i%120 < 12 {
					return 0
				}
				return 1
			})
			if found := FindExcursions(counts, sumOf(counts), 90); len(found) != 8 {
				wrong++
				t.Logf("%v a slot, seed %d: %d", rate, seed, len(found))
			}
		}
		if wrong > 3 {
			t.Errorf("%v a slot: %d of 20 are wrong", rate, wrong)
		}
	}
}

// The longer an outage is the surer, also of few requests: what lasts for a good part of the
// slots is not held against a scale that it makes itself.
func TestLongOutagesOfFewRequests(t *testing.T) {
	for _, rate := range []float64{2, 5, 10} { // a slot
		for _, length := range []int{120, 240, 480} {
			sure := 0
			for seed := range 20 {
				counts := ratesOf(rand.New(rand.NewPCG(uint64(seed), 8)), 1440, rate, 0, 0, func(i int) float64 {
					if i >= 500 && i < 500+length {
						return 0
					}
					return 1
				})
				if found := FindExcursions(counts, sumOf(counts), 90); len(found) == 1 && found[0].P < 0.003 && found[0].Rate <= outageShare*found[0].Before {
					sure++
				}
			}
			if sure < 19 {
				t.Errorf("%v a slot, an outage of %d slots: sure in %d of 20", rate, length, sure)
			}
		}
	}
}

// In rates that only wander there is an excursion in at most one of twenty.
func TestFalseExcursions(t *testing.T) {
	for _, c := range []struct{ rate, keeps, deviation float64 }{{60, 0, 0}, {60, 0.9, 0.15}, {60, 0.5, 0.3}, {2, 0, 0}, {600, 0.9, 0.3}, {0.2, 0, 0}} {
		const trials = 200
		alarms := 0
		for seed := range trials {
			rng := rand.New(rand.NewPCG(uint64(seed), 6))
			counts := ratesOf(rng, 2000, c.rate, c.keeps, c.deviation, func(int) float64 { return 1 })
			for _, x := range FindExcursions(counts, sumOf(counts), 90) {
				if x.P <= 0.01 {
					alarms++
					t.Logf("%+v seed %d: %+v", c, seed, x)
					break
				}
			}
		}
		if t.Logf("%+v: %d of %d", c, alarms, trials); alarms > trials/20 {
			t.Errorf("%+v: %d of %d", c, alarms, trials)
		}
	}
}

// Sampled requests stand for others, and say as much as there are of them.
func TestExcursionsOfWeights(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 7))
	counts := ratesOf(rng, 1000, 60, 0, 0, func(i int) float64 { return 1 })
	squares := 0.0
	for i := range counts {
		counts[i] *= 32
		squares += 32 * counts[i]
	}
	for i := 500; i < 530; i++ {
		squares -= 32 * counts[i]
		counts[i] = 0
	}
	found := FindExcursions(counts, squares, 90)
	if len(found) != 1 || found[0].From != 500 || found[0].To != 530 || math.Abs(found[0].Before-60*32) > 100 || found[0].Rate != 0 {
		t.Errorf("found %+v", found)
	}
}

// batchesOf returns counts of events that come in batches, each over some slots.
func batchesOf(rng *rand.Rand, slots int, perSlot, size float64, spread int) []float64 {
	out := make([]float64, slots)
	for i := range out {
		for range int(distuv.Poisson{Lambda: perSlot / size, Src: rng}.Rand()) {
			for range 1 + int(distuv.Poisson{Lambda: size - 1, Src: rng}.Rand()) {
				if at := i + rng.IntN(spread); at < slots {
					out[at]++
				}
			}
		}
	}
	return out
}

// Rates without an excursion have one in at most a twentieth of ranges: what comes in
// batches, what stays low, and what comes at regular distances.
func TestNoExcursions(t *testing.T) {
	const slots, trials = 720, 100
	steady := func(rate float64, times func(i int) float64) func(*rand.Rand) []float64 {
		return func(rng *rand.Rand) []float64 { return ratesOf(rng, slots, rate, 0, 0, times) }
	}
	wandering := func(keeps, deviation float64) func(*rand.Rand) []float64 {
		return func(rng *rand.Rand) []float64 {
			return ratesOf(rng, slots, 50, keeps, deviation, func(int) float64 { return 1 })
		}
	}
	batches := func(perSlot, size float64, spread int) func(*rand.Rand) []float64 {
		return func(rng *rand.Rand) []float64 { return batchesOf(rng, slots, perSlot, size, spread) }
	}
	step := func(to float64) func(int) float64 {
		return func(i int) float64 {
			if i > slots/2 {
				return to
			}
			return 1
		}
	}
	every := func(distance, length int) func(int) float64 {
		return func(i int) float64 {
			if i%distance < length {
				return 3
			}
			return 1
		}
	}
	for name, counts := range map[string]func(*rand.Rand) []float64{
		"an event in 200 s": steady(0.05, step(1)), "an event in 30 s": steady(0.3, step(1)),
		"batches of 10": batches(50, 10, 6), "batches of 20 every 40 s": batches(5, 20, 3), "batches of 30 every 17 min": batches(0.3, 30, 6),
		"wandering": wandering(0.95, 0.8), "a step to a quarter": steady(50, step(0.25)), "a step to a seventh": steady(50, step(0.15)),
		"a job every 5 min": steady(50, every(30, 1)), "a job every 30 min": steady(50, every(180, 3)),
	} {
		some := 0
		for seed := range trials {
			c := counts(rand.New(rand.NewPCG(uint64(seed), 77)))
			if found := FindExcursions(c, sumOf(c), 9); len(found) > 0 {
				some++
			}
		}
		if t.Logf("%s: in %d of %d", name, some, trials); some > trials/20 {
			t.Errorf("%s: in %d of %d", name, some, trials)
		}
	}
}

// Outages that are there are each found, and so is a burst beside a job that comes every half
// hour.
func TestManyExcursions(t *testing.T) {
	const slots, trials = 1440, 20
	for _, rate := range []float64{60, 5} {
		for _, n := range []int{1, 3, 4, 6} {
			right := 0
			for seed := range trials {
				c := ratesOf(rand.New(rand.NewPCG(uint64(seed), 78)), slots, rate, 0, 0, func(i int) float64 {
					if at := i % (slots / n); at >= 100 && at < 118 {
						return 0
					}
					return 1
				})
				if len(FindExcursions(c, sumOf(c), 9)) == n {
					right++
				}
			}
			if right < trials-1 {
				t.Errorf("%d outages at %v a slot: each found in %d of %d", n, rate, right, trials)
			}
		}
	}
	right := 0
	for seed := range trials {
		c := ratesOf(rand.New(rand.NewPCG(uint64(seed), 79)), slots, 60, 0, 0, func(i int) float64 {
			if i%180 < 3 || i >= 1000 && i < 1004 {
				return 3
			}
			return 1
		})
		if found := FindExcursions(c, sumOf(c), 9); len(found) == 1 && abs(found[0].From-1000) <= 1 {
			right++
		}
	}
	if right < trials-1 {
		t.Errorf("a burst beside a job is found in %d of %d", right, trials)
	}
}
