package scenario

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"tailscope/hist"
)

// drive feeds slots of n answers whose median is what level says, until they are
// steady; it returns how many slots that took.
func drive(rng *rand.Rand, margin float64, n int, noise float64, most int, level func(slot int) float64) (int, *steadiness) {
	s := &steadiness{margin: margin}
	wander := 0.0
	for i := range most {
		wander = 0.5*wander + noise*rng.NormFloat64() // slots resemble their neighbours
		h := hist.New(hist.DefaultSchema)
		for range n {
			if err := h.Record(level(i) * math.Exp(wander+0.3*rng.NormFloat64())); err != nil {
				panic(err)
			}
		}
		if s.add(h) {
			return i + 1, s
		}
	}
	return most + 1, s
}

// A steady figure is soon found to be steady, a drifting one is not, and one that
// becomes steady is once it has.
func TestSteadiness(t *testing.T) {
	const runs = 40
	flat := func(int) float64 { return 0.01 }
	rising := func(i int) float64 { return 0.01 * math.Pow(1.03, float64(i)) } // 3 % a slot
	settling := func(i int) float64 { return 0.01 * (1 + 4*math.Exp(-float64(i)/8)) }
	var took, wrong, early int
	for seed := range uint64(runs) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n, _ := drive(rng, 0.05, 100, 0.01, 100, flat)
		took += n
		if n, _ = drive(rng, 0.05, 100, 0.01, 60, rising); n <= 60 {
			wrong++
		}
		if n, _ = drive(rng, 0.05, 100, 0.01, 100, settling); settling(n) > 0.011*1.05 {
			early++
		}
	}
	t.Logf("steady after %.1f slots, %d of %d rising ones taken for steady, %d of settling ones too early", float64(took)/runs, wrong, runs, early)
	if float64(took)/runs > 25 {
		t.Errorf("what is steady takes %.1f slots", float64(took)/runs)
	}
	if wrong > 0 {
		t.Errorf("%d of %d that rise by 3 %% a slot were taken for steady", wrong, runs)
	}
	if early > runs/20 {
		t.Errorf("%d of %d were taken for steady while 15 %% above where they settle", early, runs)
	}
}

// What is noisy is found to be steady too, and later; a step in it is not overlooked.
func TestNoise(t *testing.T) {
	var took, early int
	const runs = 20
	for seed := range uint64(runs) {
		rng := rand.New(rand.NewPCG(seed, 2))
		n, _ := drive(rng, 0.03, 40, 0.2, 200, func(int) float64 { return 0.01 })
		took += n
		n, _ = drive(rng, 0.03, 40, 0.2, 200, func(i int) float64 {
			if i < 30 {
				return 0.02
			}
			return 0.01
		})
		if n > 30 && n < 36 {
			early++
		}
	}
	t.Logf("steady after %.1f slots, %d just after a step", float64(took)/runs, early)
	if float64(took)/runs > 80 || early > runs/5 {
		t.Errorf("steady after %.1f slots, %d just after a step", float64(took)/runs, early)
	}
}

// Mann and Kendall's test has its level, 5 %, and with Hamed and Rao's variance a
// little more for slots that resemble their neighbours.
func TestTrendLevel(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for _, tc := range []struct {
		persists  float64
		low, high float64
	}{{0, 0.03, 0.06}, {0.4, 0.03, 0.09}, {0.7, 0.03, 0.1}} {
		const runs = 2000
		found, covered := 0, 0
		for range runs {
			x, v := make([]float64, 40), 0.0
			for i := range x {
				v = tc.persists*v + rng.NormFloat64()
				x[i] = v + 0.05*float64(i)
			}
			with := trendOf(x)
			if 0.05*39 >= with.low && 0.05*39 <= with.high {
				covered++
			}
			for i := range x {
				x[i] -= 0.05 * float64(i)
			}
			if trendOf(x).p < 0.05 {
				found++
			}
		}
		t.Logf("persistence %g: a trend is found in %.3f of series without, the interval of 90 %% holds the drift in %.3f", tc.persists, float64(found)/runs, float64(covered)/runs)
		if share := float64(found) / runs; share < tc.low || share > tc.high {
			t.Errorf("with persistence %g a trend is found in %.3f of series without", tc.persists, share)
		}
		if share := float64(covered) / runs; share < 0.83 || share > 0.95 {
			t.Errorf("with persistence %g the interval of 90 %% holds the drift in %.3f", tc.persists, share)
		}
	}
}

// Figures by hand: a line of slope 1 with one exchange.
func TestTrendByHand(t *testing.T) {
	got := trendOf([]float64{0, 2, 1, 3, 4, 5, 6, 7, 8, 9})
	// S = 45 − 2, variance 10·9·25/18 = 125, so z = 42/√125.
	if want := math.Erfc(42 / math.Sqrt(125) / math.Sqrt2); math.Abs(got.p-want) > 1e-12 || got.change != 9 {
		t.Errorf("%+v, want p=%g", got, want)
	}
	same := trendOf([]float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1})
	if same.p != 1 || same.change != 0 || same.low != 0 || same.high != 0 || !same.steady(0.01) {
		t.Errorf("%+v", same)
	}
	if s := trendOf([]float64{1, math.NaN(), 1, 1}); s.steady(1) {
		t.Errorf("%+v", s)
	}
}

func TestSteadinessSays(t *testing.T) {
	_, s := drive(rand.New(rand.NewPCG(1, 1)), 0.05, 100, 0.01, 100, func(int) float64 { return 0.01 })
	if got := s.String(); !strings.Contains(got, "slots p50 drifts by ") || !strings.Contains(got, "mean drifts by ") || strings.Contains(got, "unknown") {
		t.Error(got)
	}
}
