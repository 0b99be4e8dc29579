package stat

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"tailscope/hist"
	"tailscope/internal/trials"
)

// nights draws a side of nights: each has a level of its own, with a log standard
// deviation of apart, and its slots depend on each other.
func nights(r *rand.Rand, n, slots, perSlot int, apart, times float64) *Series {
	all := make([]*hist.Histogram, 0, n*slots)
	for range n {
		level, state := times*math.Exp(apart*r.NormFloat64()), 0.0
		for range slots {
			state = 0.5*state + 0.05*r.NormFloat64()
			h := hist.New(hist.DefaultSchema)
			for range perSlot {
				if err := h.Record(level * math.Exp(state+0.6*r.NormFloat64())); err != nil {
					panic(err)
				}
			}
			all = append(all, h)
		}
	}
	s, err := NewSeries(all)
	if err != nil {
		panic(err)
	}
	return s
}

func each(n, slots int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = slots
	}
	return out
}

// Nights that differ from each other are what is counted: 5 against 5 raise false alarms
// at the nominal rate, however far nights are apart.
// TAILSCOPE_TRIALS is the number of trials.
func TestNightsAgainstNights(t *testing.T) {
	trials := trials.Of(150)
	const slots, perSlot = 24, 60
	share := func(n int, apart, times float64, o Options) (alarms, holds, changes int) {
		for i := range trials {
			r := rand.New(rand.NewPCG(uint64(i), uint64(1000*apart)+uint64(n)))
			a, b := nights(r, n, slots, perSlot, apart, 1), nights(r, n, slots, perSlot, apart, times)
			found, err := Quantiles(Side{a}, Side{b}, []float64{0.5, 0.95}, nil, o)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range found {
				changes++
				if v := c.Verdict(0); v == Less || v == More {
					alarms++
				}
				if c.CI.Contains(math.Log(times)) {
					holds++
				}
			}
		}
		return alarms, holds, changes
	}
	for _, x := range []struct {
		nights       int
		apart, times float64
		least, most  float64 // of the share of verdicts
	}{
		{5, 0.03, 1, 0, 0.08},
		{5, 0, 1, 0, 0.08},
		{5, 0.2, 1, 0, 0.08},
		{3, 0.03, 1, 0, 0.08},
		{5, 0.03, 1.1, 0.8, 1},
		{5, 0.03, 1.2, 0.99, 1},
	} {
		o := Options{Blocks: &Blocks{each(x.nights, slots), each(x.nights, slots)}}
		alarms, holds, changes := share(x.nights, x.apart, x.times, o)
		got := float64(alarms) / float64(changes)
		t.Logf("%d nights against %d, apart by %g, ×%g: %d of %d figures changed (%.1f %%), %.1f %% of intervals hold; %d trials",
			x.nights, x.nights, x.apart, x.times, alarms, changes, 100*got, 100*float64(holds)/float64(changes), trials)
		if got < x.least || got > x.most {
			t.Errorf("%d nights, ×%g: %.3f of figures changed, want %g to %g", x.nights, x.times, got, x.least, x.most)
		}
		if float64(holds) < 0.91*float64(changes) {
			t.Errorf("%d nights, ×%g: %d of %d intervals hold", x.nights, x.times, holds, changes)
		}
	}
	for _, apart := range []float64{0.03, 0.2} {
		alarms, _, changes := share(5, apart, 1, Options{})
		t.Logf("apart by %g, slots taken for neighbours: %d of %d figures changed (%.1f %%)", apart, alarms, changes, 100*float64(alarms)/float64(changes))
	}
}

// Fewer than three nights say nothing of how much nights differ; shares and means are
// judged by nights too, and a band is wider than its intervals.
func TestFewNights(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	a, b := nights(r, 5, 12, 20, 0.03, 1), nights(r, 2, 30, 20, 0.03, 2)
	o := Options{Blocks: &Blocks{each(5, 12), each(2, 30)}}
	for name, judged := range map[string]func() (Change, error){
		"quantile": func() (Change, error) { return Quantile(Side{a}, Side{b}, 0.5, nil, o) },
		"mean":     func() (Change, error) { return Mean(Side{a}, Side{b}, nil, o) },
		"share":    func() (Change, error) { return Shares([]Tally{above(a, 2)}, []Tally{above(b, 2)}, nil, Difference, o) },
	} {
		c, err := judged()
		if err != nil || c.Short != "side B: 2 windows with observations, at least 3 are needed" || c.Verdict(0.05) != TooLittle {
			t.Errorf("%s: %q, %v", name, c.Short, err)
		}
	}
	b = nights(r, 4, 30, 20, 0.03, 1)
	o.Blocks.B = each(4, 30)
	ps := []float64{0.25, 0.5, 0.75, 0.9}
	single, err := Quantiles(Side{a}, Side{b}, ps, nil, o)
	if err != nil {
		t.Fatal(err)
	}
	band, err := Band(Side{a}, Side{b}, ps, nil, 1, o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range ps {
		if w, n := band[i].CI.High-band[i].CI.Low, single[i].CI.High-single[i].CI.Low; !(w > n) || w > 3*n || single[i].DF > 7 {
			t.Errorf("q %v: a band of %v about an interval of %v, %v degrees of freedom", ps[i], w, n, single[i].DF)
		}
	}
	for _, wrong := range []Options{{Blocks: &Blocks{each(5, 12), each(4, 29)}}, {Blocks: o.Blocks, Live: &Live{}}, {Blocks: &Blocks{nil, each(4, 30)}}} {
		if _, err := Quantile(Side{a}, Side{b}, 0.5, nil, wrong); err == nil || !strings.Contains(err.Error(), "block") {
			t.Errorf("%+v: %v", wrong.Blocks, err)
		}
	}
}
