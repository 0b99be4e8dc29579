package simulate

import (
	"fmt"
	"math"
	"testing"

	"tailscope/api"
	"tailscope/internal/experiment/simulate/queueing"
)

func value(r *Result, quantile string) float64 { return float64(r.Quantiles[quantile].Value) }

// within fails unless got is within share of want, or within its interval of it and half
// as much again: figures of a tail need more queries than a test has.
func within(t *testing.T, what string, got api.ScalingValue, want, share float64) {
	t.Helper()
	half := 0.75 * float64(got.High-got.Low)
	if !(math.Abs(float64(got.Value)-want) <= max(share*want, half)) {
		t.Errorf("%s: %.6g (%.6g to %.6g), want %.6g", what, got.Value, got.Low, got.High, want)
	}
}

// twoPoint is 1 of ten with the long duration.
func twoPoint(short, long float64) *Distribution {
	d, err := FromQuantiles([]float64{0, 0.9, 0.9, 1}, []float64{short, short, long, long})
	if err != nil {
		panic(err)
	}
	return d
}

// Every closed form that fits is met within 2 %.
func TestClosedForms(t *testing.T) {
	const service = 0.01
	exponential := one(Exponential(service))
	single := func(rate float64, threads int) Layout {
		return Layout{Nodes: 1, Shards: 1, Threads: threads, Rate: rate}
	}
	for _, c := range []struct {
		rate    float64
		servers int
		queries uint64
	}{{50, 1, 200_000}, {70, 1, 400_000}, {140, 2, 250_000}, {280, 4, 200_000}, {1300, 16, 150_000}} {
		t.Run(fmt.Sprintf("M/M/%d at %g", c.servers, c.rate), func(t *testing.T) {
			t.Parallel()
			q := queueing.MMC{Rate: c.rate, Service: service, Servers: c.servers}
			r := run(t, exponential, single(c.rate, c.servers), Options{Queries: c.queries, Seed: 7})
			within(t, "mean", r.Mean, q.Response(), 0.02)
			near(t, "wait and service", float64(r.Waiting)+service, float64(r.Mean.Value), 0.01)
			for _, p := range []struct {
				name string
				p    float64
			}{{"0.5", 0.5}, {"0.95", 0.95}, {"0.99", 0.99}} {
				within(t, p.name, r.Quantiles[p.name], q.Quantile(p.p), 0.02)
			}
			near(t, "utilisation", float64(r.Utilisation), q.Utilisation(), 0.01)
		})
	}
	t.Run("M/D/1", func(t *testing.T) {
		r := run(t, one(Constant(service)), single(60, 1), Options{Queries: 150_000, Seed: 2})
		within(t, "mean", r.Mean, queueing.MG1{Rate: 60, Service: service, Second: service * service}.Response(), 0.02)
		for _, p := range quantiles[2:5] {
			want := service + queueing.Invert(func(t float64) float64 { return 1 - queueing.MD1WaitAtMost(60, service, t) }, p.p)
			within(t, p.name, r.Quantiles[p.name], want, 0.02)
		}
	})
	t.Run("M/G/1", func(t *testing.T) {
		d := twoPoint(0.005, 0.055)
		second := 0.9*0.005*0.005 + 0.1*0.055*0.055
		r := run(t, one(d), single(60, 1), Options{Queries: 250_000, Seed: 3})
		within(t, "mean", r.Mean, queueing.MG1{Rate: 60, Service: d.Mean(), Second: second}.Response(), 0.02)
	})
	t.Run("M/G/1 with pauses", func(t *testing.T) {
		r := run(t, exponential, func() Layout {
			l := single(50, 1)
			l.Pause = Pause{Every: 1, Lasts: Exponential(0.1)}
			return l
		}(), Options{Queries: 300_000, Seed: 4})
		want := queueing.MG1{Rate: 50, Service: service, Second: 2 * service * service}.PausedResponse(1, 0.1, 0.02)
		within(t, "mean", r.Mean, want, 0.02)
	})
	for name, d := range map[string]*Distribution{"exponential": Exponential(service), "constant": Constant(service), "two": twoPoint(0.005, 0.055)} {
		t.Run("shared core, "+name, func(t *testing.T) {
			t.Parallel()
			r := run(t, one(d), Layout{Nodes: 1, Shards: 1, Cores: 1, Rate: 50}, Options{Queries: 80_000, Seed: 5})
			within(t, "mean", r.Mean, queueing.MG1{Rate: 50, Service: d.Mean()}.SharedResponse(), 0.02)
			near(t, "utilisation", float64(r.Utilisation), 50*d.Mean(), 0.02)
		})
	}
	t.Run("two shared cores", func(t *testing.T) {
		r := run(t, exponential, Layout{Nodes: 1, Shards: 1, Cores: 2, Rate: 120}, Options{Queries: 80_000, Seed: 6})
		within(t, "mean", r.Mean, queueing.MMC{Rate: 120, Service: service, Servers: 2}.Response(), 0.02)
	})
	t.Run("cores that slow each other", func(t *testing.T) {
		r := run(t, exponential, Layout{Nodes: 1, Shards: 1, Cores: 4, Neighbours: 0.4, Rate: 200}, Options{Queries: 80_000, Seed: 6})
		want := queueing.Births(200, func(n int) float64 { return float64(n) * progress(n, 4, 0.4) / service })
		within(t, "mean", r.Mean, want, 0.02)
	})
	t.Run("closed", func(t *testing.T) {
		r := run(t, exponential, Layout{Nodes: 1, Shards: 1, Threads: 4, Arrivals: Closed, Users: 50, Think: 0.1}, Options{Queries: 100_000})
		rate := queueing.ClosedRate(50, 4, 0.1, service)
		near(t, "rate", float64(r.Rate), rate, 0.02)
		within(t, "mean", r.Mean, 50/rate-0.1, 0.02)
	})
	t.Run("hedged", func(t *testing.T) {
		r := run(t, exponential, Layout{Nodes: 2, Shards: 1, Replicas: 2, Rate: 10, Hedge: Hedge{After: 0.02}}, Options{Queries: 150_000})
		for _, p := range quantiles[:5] {
			want := queueing.Invert(func(x float64) float64 {
				return queueing.HedgedAbove(func(t float64) float64 { return math.Exp(-t / service) }, 0.02, x)
			}, p.p)
			near(t, p.name, value(r, p.name), want, 0.02)
			near(t, p.name+", computed", float64(r.NoQueue[p.name]), want, 1e-3)
		}
		near(t, "asked twice", float64(r.Hedged), math.Exp(-2), 0.02)
	})
}

// Without queueing the slowest of N leaves is F^N: simulated within what chance leaves,
// computed exactly.
func TestFanOutWithoutQueueing(t *testing.T) {
	for _, n := range []int{1, 2, 16, 256} {
		r := run(t, one(Exponential(0.01)), Layout{Nodes: 4, Shards: n, Rate: 1}, Options{Queries: uint64(min(40_000, 2_000_000/n))})
		for _, p := range quantiles {
			exact := -0.01 * math.Log1p(-math.Pow(p.p, 1/float64(n)))
			near(t, fmt.Sprintf("%s of %d leaves, computed", p.name, n), float64(r.NoQueue[p.name]), exact, 1e-4)
			within(t, fmt.Sprintf("%s of %d leaves, simulated", p.name, n), r.Quantiles[p.name], exact, 0.02)
		}
	}
	together := one(Exponential(0.01))
	together.Classes[0].Together = 1
	r := run(t, together, Layout{Nodes: 4, Shards: 50, Rate: 1}, Options{Queries: 40_000})
	near(t, "leaves all alike", value(r, "0.99"), 0.01*math.Log(100), 0.03)
	near(t, "leaves all alike, computed", float64(r.NoQueue["0.99"]), 0.01*math.Log(100), 0.02)
	for _, rho := range []float64{0.1, 0.5, 0.9} {
		together.Classes[0].Together = rho
		r := run(t, together, Layout{Nodes: 4, Shards: 16, Rate: 1, Slow: Slow{1, 1.5}, Cache: Cache{0.1, 0.2, 0.001}, Network: 0.002, Overhead: 0.001}, Options{Queries: 60_000})
		for _, p := range quantiles[:5] {
			within(t, fmt.Sprintf("%s together %g", p.name, rho), r.Quantiles[p.name], float64(r.NoQueue[p.name]), 0.02)
		}
	}
}

// The distribution computed for idle nodes agrees with the simulation without queues,
// with replicas, slow nodes, caches and hedged requests.
func TestIdleNodes(t *testing.T) {
	m := one(Exponential(0.01))
	m.Classes[0].Waits = 0.3
	for name, l := range map[string]Layout{
		"slow":   {Nodes: 5, Shards: 12, Slow: Slow{2, 3}},
		"copies": {Nodes: 5, Shards: 12, Replicas: 3, Slow: Slow{2, 3}, Cache: Cache{Leaves: 0.2, Takes: 0.003}},
		"hedged": {Nodes: 5, Shards: 12, Replicas: 2, Network: 0.001, Overhead: 0.0005, Speed: 2, Hedge: Hedge{Quantile: 0.8}, Slow: Slow{1, 2}},
		"half":   {Nodes: 5, Shards: 5, Cores: 0.5, Rate: 0.001},
	} {
		if l.Rate == 0 {
			l.Rate = 1
		}
		for _, together := range []float64{0, 0.4} {
			m.Classes[0].Together = together
			r := run(t, m, l, Options{Queries: 12_000})
			for _, p := range quantiles[:5] {
				share := 0.02
				if name == "hedged" { // the second is asked of the least busy other, which is any here
					share = 0.04
				}
				within(t, fmt.Sprintf("%s of %s, together %g", p.name, name, together), r.Quantiles[p.name], float64(r.NoQueue[p.name]), share)
			}
		}
	}
}

// Queues of leaves that are asked together: the mean is within 5 % of Nelson and
// Tantawi's, which is exact for two, and mean and quantiles are within the bounds.
func TestForkJoin(t *testing.T) {
	for _, c := range []struct {
		leaves  int
		rate    float64
		queries uint64
	}{{2, 50, 200_000}, {2, 70, 200_000}, {8, 50, 120_000}, {16, 70, 100_000}, {32, 50, 50_000}} {
		t.Run(fmt.Sprintf("%d leaves at %g", c.leaves, c.rate), func(t *testing.T) {
			t.Parallel()
			f := queueing.ForkJoin{Rate: c.rate, Service: 0.01, Leaves: c.leaves}
			r := run(t, one(Exponential(0.01)), Layout{Nodes: c.leaves, Shards: c.leaves, Threads: 1, Rate: c.rate}, Options{Queries: c.queries})
			share := 0.05
			if c.leaves == 2 {
				share = 0.02
			}
			within(t, "mean", r.Mean, f.Response(), share)
			if low, high := f.Bounds(); !(float64(r.Mean.Value) > low && float64(r.Mean.Value) < high) {
				t.Errorf("mean %g is not within %g and %g", r.Mean.Value, low, high)
			}
			for _, p := range quantiles[:5] {
				if low, high := f.QuantileBounds(p.p); !(value(r, p.name) > low*0.98 && value(r, p.name) < high*1.02) {
					t.Errorf("%s: %g is not within %g and %g", p.name, value(r, p.name), low, high)
				}
			}
		})
	}
}
