package main

import (
	"context"
	"fmt"
	"math"

	"tailscope/api"
	"tailscope/benchmarks/report"
	"tailscope/internal/experiment/simulate"
	"tailscope/internal/experiment/simulate/queueing"
)

// theory is a layout for which there are closed forms.
type theory struct {
	name   string
	leaf   *simulate.Distribution
	layout simulate.Layout
	mean   float64
	at     func(p float64) float64 // quantile; nil if there is no closed form
	// Bounds hold the mean if there is no closed form of that either.
	low, high float64
}

// leafMean is the mean of all leaves of theories, in seconds.
const leafMean = 0.01

func theories() ([]theory, error) {
	exponential := simulate.Exponential(leafMean)
	const square = 2 * leafMean * leafMean
	two, err := simulate.FromQuantiles([]float64{0, 0.9, 0.9, 1}, []float64{0.005, 0.005, 0.055, 0.055})
	if err != nil {
		return nil, err
	}
	var all []theory
	for _, c := range []struct {
		servers int
		busy    float64
	}{{1, 0.5}, {1, 0.8}, {2, 0.7}, {4, 0.8}, {16, 0.9}} {
		q := queueing.MMC{Rate: c.busy * float64(c.servers) / leafMean, Service: leafMean, Servers: c.servers}
		all = append(all, theory{name: fmt.Sprintf("M/M/%d, %.0f %% busy", c.servers, 100*c.busy), leaf: exponential, mean: q.Response(), at: q.Quantile,
			layout: simulate.Layout{Nodes: 1, Shards: 1, Threads: c.servers, Rate: q.Rate}})
	}
	one := simulate.Layout{Nodes: 1, Shards: 1, Threads: 1, Rate: 70}
	all = append(all,
		theory{name: "M/D/1, 70 % busy", leaf: simulate.Constant(leafMean), layout: one, mean: queueing.MG1{Rate: 70, Service: leafMean, Second: leafMean * leafMean}.Response(),
			at: func(p float64) float64 {
				return leafMean + queueing.Invert(func(t float64) float64 { return 1 - queueing.MD1WaitAtMost(70, leafMean, t) }, p)
			}},
		theory{name: "M/G/1, two durations, 70 % busy", leaf: two, layout: one, mean: queueing.MG1{Rate: 70, Service: leafMean, Second: 0.9*0.005*0.005 + 0.1*0.055*0.055}.Response()},
	)
	pausing := one
	pausing.Rate, pausing.Pause = 50, simulate.Pause{Every: 1, Lasts: simulate.Exponential(0.1)}
	all = append(all, theory{name: "M/M/1 with pauses of 100 ms", leaf: exponential, layout: pausing, mean: queueing.MG1{Rate: 50, Service: leafMean, Second: square}.PausedResponse(1, 0.1, 0.02)})
	for _, leaf := range []*simulate.Distribution{exponential, two} {
		name := map[*simulate.Distribution]string{exponential: "exponential", two: "two durations"}[leaf]
		all = append(all, theory{name: "one core shared, " + name + ", 70 % busy", leaf: leaf, layout: simulate.Layout{Nodes: 1, Shards: 1, Cores: 1, Rate: 70},
			mean: queueing.MG1{Rate: 70, Service: leafMean}.SharedResponse()})
	}
	all = append(all,
		theory{name: "four cores shared, 80 % busy", leaf: exponential, layout: simulate.Layout{Nodes: 1, Shards: 1, Cores: 4, Rate: 320}, mean: queueing.MMC{Rate: 320, Service: leafMean, Servers: 4}.Response()},
		theory{name: "50 users of four threads", leaf: exponential, layout: simulate.Layout{Nodes: 1, Shards: 1, Threads: 4, Arrivals: simulate.Closed, Users: 50, Think: 0.1},
			mean: 50/queueing.ClosedRate(50, 4, 0.1, leafMean) - 0.1},
		theory{name: "hedged after 20 ms, no queue", leaf: exponential, layout: simulate.Layout{Nodes: 2, Shards: 1, Replicas: 2, Rate: 10, Hedge: simulate.Hedge{After: 0.02}},
			mean: leafMean * (1 - math.Exp(-2)/2), at: func(p float64) float64 {
				return queueing.Invert(func(x float64) float64 {
					return queueing.HedgedAbove(func(t float64) float64 { return math.Exp(-t / leafMean) }, 0.02, x)
				}, p)
			}},
	)
	for _, n := range []int{16, 128} {
		all = append(all, theory{name: fmt.Sprintf("slowest of %d, no queue (F^N)", n), leaf: exponential, layout: simulate.Layout{Nodes: n, Shards: n, Rate: 1}, mean: leafMean * queueing.Harmonic(n),
			at: func(p float64) float64 { return -leafMean * math.Log1p(-math.Pow(p, 1/float64(n))) }})
	}
	for _, n := range []int{2, 8, 32} {
		f := queueing.ForkJoin{Rate: 70, Service: leafMean, Leaves: n}
		c := theory{name: fmt.Sprintf("fork-join of %d, 70 %% busy", n), leaf: exponential, layout: simulate.Layout{Nodes: n, Shards: n, Threads: 1, Rate: 70}}
		if c.low, c.high = f.Bounds(); n == 2 {
			c.mean = f.Response()
		}
		all = append(all, c)
	}
	return all, nil
}

// simulateTheory holds simulations against what queueing theory has in closed form.
func simulateTheory(ctx context.Context, o *options, r *report.Report) error {
	queries := uint64(10_000_000)
	if o.quick {
		queries = 1_000_000
	}
	all, err := theories()
	if err != nil {
		return err
	}
	s := r.Section("Closed forms", fmt.Sprintf("Layouts for which queueing theory has an answer (internal/experiment/simulate/queueing names the sources), simulated with %d queries, leaves of 10 ms on average. Intervals are of 95 %%.", queries))
	s.Table = [][]string{{"layout", "figure", "theory", "simulated", "difference"}}
	worst := 0.0
	for _, c := range all {
		m := simulate.Model{Classes: []simulate.Class{{Name: "leaf", Weight: 1, Sizes: []simulate.Size{{Slots: []*simulate.Distribution{c.leaf}}}}}}
		n := queries / uint64(max(1, c.layout.Shards/4))
		res, err := simulate.Run(ctx, m, c.layout, simulate.Options{Queries: n, Seed: 1})
		if err != nil {
			return err
		}
		if !res.Stable {
			return fmt.Errorf("%s: %s", c.name, res.Why)
		}
		row := func(figure string, want float64, got api.ScalingValue) {
			off := float64(got.Value)/want - 1
			worst = max(worst, math.Abs(off))
			s.Table = append(s.Table, []string{c.name, figure, amount("", api.Float(want)), span(got), effect("", api.Float(1+off))})
			o.logf("%s: %s %s, simulated %s, %+.2f %%", c.name, figure, amount("", api.Float(want)), span(got), 100*off)
		}
		if c.mean > 0 {
			row("mean", c.mean, res.Mean)
		}
		if c.at != nil {
			for _, q := range comparedAt {
				row(q.name, c.at(q.p), res.Quantiles[fmt.Sprint(q.p)])
			}
		}
		if c.high > 0 {
			within := "within"
			if v := float64(res.Mean.Value); v < c.low || v > c.high {
				within, worst = "outside", max(worst, 1)
			}
			s.Table = append(s.Table, []string{c.name, "mean", amount("", api.Float(c.low)) + " to " + amount("", api.Float(c.high)), span(res.Mean), within})
		}
	}
	s.Add("a figure is off by at most", "tailscope", "%", 2, 100*worst)
	return nil
}
