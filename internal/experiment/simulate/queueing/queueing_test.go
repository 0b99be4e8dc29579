package queueing

import (
	"math"
	"testing"
)

func near(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if !(math.Abs(got-want) <= share*math.Abs(want)+1e-12) {
		t.Errorf("%s: %.10g, want %.10g", what, got, want)
	}
}

func TestErlangC(t *testing.T) {
	// Tables of Erlang's C, for instance Cooper (1981), appendix.
	for _, c := range []struct {
		servers       int
		load, delayed float64
	}{{1, 0.5, 0.5}, {2, 1, 1.0 / 3}, {3, 2, 4.0 / 9}, {10, 8, 0.40918}, {5, 4, 0.55411}} {
		q := MMC{c.load, 1, c.servers}
		near(t, "delayed", q.Delayed(), c.delayed, 2e-5)
	}
	one := MMC{0.5, 1, 1}
	near(t, "M/M/1 response", one.Response(), 2, 1e-12)
	near(t, "M/M/1 quantile", one.Quantile(0.99), 2*math.Log(100), 1e-9)
	near(t, "M/M/1 above", one.ResponseAbove(3), math.Exp(-1.5), 1e-12)
	near(t, "no wait", MMC{0.5, 1, 1}.WaitAbove(0), 0.5, 1e-12)
	if !math.IsInf(MMC{2, 1, 2}.Response(), 1) {
		t.Error("a queue that cannot keep up has a mean response")
	}
}

// The share of responses above t integrates to their mean.
func TestResponsesAddUpToTheirMean(t *testing.T) {
	for _, q := range []MMC{{0.5, 1, 1}, {1.6, 1, 2}, {7, 1, 8}, {1, 1, 2}, {0.999999, 1, 2}} {
		sum, step := 0.0, 0.001
		for x := step / 2; x < 200; x += step {
			sum += q.ResponseAbove(x) * step
		}
		near(t, "mean", sum, q.Response(), 1e-5)
	}
}

func TestOneServer(t *testing.T) {
	near(t, "M/M/1 by Pollaczek and Khinchine", MG1{0.8, 1, 2}.Response(), 5, 1e-12)
	near(t, "M/D/1", MG1{0.8, 1, 1}.Wait(), 2, 1e-12)
	near(t, "shared", MG1{0.8, 1, 7}.SharedResponse(), 5, 1e-12)
	// Exponential stops and service: White & Christie (1958), Operations Research 6.
	near(t, "no stops", MG1{0.5, 1, 2}.PausedResponse(1e12, 1, 2), 2, 1e-9)
	// As a priority queue: stops are busy periods of an M/M/1 with rate 0.2 and service 1.
	high := 0.2
	mean, second := 1/(1-high), 2/math.Pow(1-high, 3)
	want := 1/(1-high) + (0.2*2+0.3*2)/2/((1-high)*(1-high-0.3))
	near(t, "priority", MG1{0.3, 1, 2}.PausedResponse(1/high, mean, second), want, 1e-12)
	// P(W ≤ t) of M/D/1: 1−ρ at 0, and its mean is Pollaczek and Khinchine's.
	near(t, "no wait", MD1WaitAtMost(0.5, 1, 0), 0.5, 1e-12)
	sum, step := 0.0, 0.001
	for x := step / 2; x < 18; x += step {
		sum += (1 - MD1WaitAtMost(0.5, 1, x)) * step
	}
	near(t, "M/D/1 mean wait", sum, MG1{0.5, 1, 1}.Wait(), 1e-4)
	near(t, "births", Births(1.6, func(n int) float64 { return float64(min(n, 2)) }), MMC{1.6, 1, 2}.Response(), 1e-9)
	near(t, "one user", ClosedRate(1, 1, 3, 1), 0.25, 1e-12)
	near(t, "servers for all", ClosedRate(8, 8, 3, 1), 2, 1e-12)
	near(t, "saturated", ClosedRate(1000, 4, 1, 1), 4, 1e-9)
}

func TestForkJoin(t *testing.T) {
	two := ForkJoin{0.5, 1, 2}
	near(t, "Flatto and Hahn", two.Response(), (12-0.5)/8*2, 1e-12)
	for n := 1; n <= 32; n++ {
		for _, rho := range []float64{0.1, 0.5, 0.9} {
			f := ForkJoin{rho, 1, n}
			low, high := f.Bounds()
			if r := f.Response(); r < low*(1-1e-12) || r > high*(1+1e-12) {
				t.Errorf("%d leaves at %g: %g, not within %g and %g", n, rho, r, low, high)
			}
			if f.SplitMerge() < f.Response()*(1-1e-12) {
				t.Errorf("%d leaves at %g: split-merge %g below %g", n, rho, f.SplitMerge(), f.Response())
			}
		}
	}
	near(t, "idle leaves", ForkJoin{1e-9, 1, 10}.Response(), Harmonic(10), 1e-6)
	near(t, "slowest", SlowestAtMost(0.99, 100), math.Exp(100*math.Log(0.99)), 1e-12)
	above := func(t float64) float64 { return math.Exp(-max(0, t)) }
	near(t, "hedged", HedgedAbove(above, 2, 3), math.Exp(-4), 1e-12)
}
