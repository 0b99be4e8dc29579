package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"tailscope/api"
	"tailscope/benchmarks/fanout"
	"tailscope/benchmarks/report"
	"tailscope/benchmarks/solr"
	"tailscope/internal/experiment/simulate"
	"tailscope/test/program"
)

// simulateBench holds simulations against systems that were built to be simulated,
// and times a large one.
func simulateBench(ctx context.Context, o *options, r *report.Report) error {
	if o.wants("speed") {
		if err := simulateSpeed(ctx, o, r); err != nil {
			return err
		}
	}
	if o.wants("theory") {
		if err := simulateTheory(ctx, o, r); err != nil {
			return err
		}
	}
	program.Precede(-10) // answers must not be late because the machine does something else
	during := 8 * time.Second
	if o.quick {
		during = 2 * time.Second
	}
	of := func(w fanout.Work) *fanoutBench {
		return &fanoutBench{o: o, work: w, during: during, leaves: map[int][]float64{}, took: map[string][]float64{}}
	}
	uneven, even := of(fanout.Work{Seed: 1, Fixed: 3 * time.Millisecond}), of(fanout.Work{Seed: 1, Fixed: 3 * time.Millisecond, Even: true})
	alike := of(fanout.Work{Seed: 1, Together: 0.5})
	for _, c := range []struct {
		name string
		run  func(context.Context, *report.Report) error
	}{{"leaves", uneven.fanOuts}, {"staircase", even.staircase}, {"queues", even.queues}, {"alike", alike.alike}, {"uneven staircase", uneven.staircase}} {
		if o.wants(c.name) {
			if err := c.run(ctx, r); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	return nil
}

// simulateSpeed times 200 nodes, 1,024 shards and a million queries.
func simulateSpeed(ctx context.Context, o *options, r *report.Report) error {
	queries := uint64(1_000_000)
	if o.quick {
		queries /= 10
	}
	d, err := simulate.FromInverse(func(p float64) float64 { return fanout.Quantile(p) })
	if err != nil {
		return err
	}
	m := simulate.Model{Classes: []simulate.Class{{Name: "leaf", Weight: 1, Sizes: []simulate.Size{{Slots: []*simulate.Distribution{d}}}}}}
	s := r.Section("Speed", "A simulation of 200 nodes, 1,024 shards and 1,000,000 queries that come at random and wait for the threads of nodes, which are 60 % busy; on two cores.")
	for range min(3, o.reps) {
		for _, threads := range []int{1, 2, 8} {
			l := simulate.Layout{Nodes: 200, Threads: threads, Shards: 1024}
			l.Rate = 0.6 * float64(threads) / (6 * d.Mean()) // of the fullest node
			began := time.Now()
			res, err := simulate.Run(ctx, m, l, simulate.Options{Queries: queries, Seed: 1, Workers: 2})
			if err != nil {
				return err
			}
			took := time.Since(began)
			leaves := float64(queries) * 1024
			o.logf("speed: %d threads, %.0f million leaves in %.2f s, nodes busy %.0f %%", threads, leaves/1e6, took.Seconds(), 100*float64(res.Busiest))
			with := fmt.Sprintf(", nodes of %d threads", threads)
			s.Add("it takes"+with, "tailscope", "s", 10*float64(queries)/1e6, took.Seconds())
			s.Add("a leaf takes of a core"+with, "tailscope", "ns", 0, 2*float64(took.Nanoseconds())/leaves)
		}
	}
	return nil
}

type fanoutBench struct {
	o      *options
	work   fanout.Work
	during time.Duration // of one measurement; there are as many as repetitions

	mu     sync.Mutex
	leaves map[int][]float64    // measured of one alone, by shards
	took   map[string][]float64 // queries, by what was measured
}

// quantiles that are compared.
var comparedAt = []struct {
	name string
	p    float64
}{{"p50", 0.5}, {"p95", 0.95}, {"p99", 0.99}}

// leaf measures one leaf alone, where that was not done.
func (b *fanoutBench) leaf(ctx context.Context, shards int) error {
	during := b.during
	if b.work.Together > 0 {
		during *= 3 // leaves of one query carry less information than as many of several
	}
	if len(b.leaves[shards]) > 0 {
		return nil
	}
	for rep := range b.o.reps {
		took, err := fanout.Leaf(ctx, b.o.tmp, b.work, shards, 400, during, uint64(1000*shards+rep))
		if err != nil {
			return err
		}
		whole := len(took) / shards * shards // all leaves of each query
		b.leaves[shards] = append(b.leaves[shards], took[:whole]...)
	}
	return nil
}

// run runs layouts, those of one call at once, as often as there are repetitions.
func (b *fanoutBench) run(ctx context.Context, what string, layouts []fanout.Layout, atOnce bool, during time.Duration) error {
	for rep := range b.o.reps {
		failed := make(chan error, len(layouts))
		for i, l := range layouts {
			one := func() {
				took, err := l.Run(ctx, b.o.tmp, b.work, during, uint64(1+rep*len(layouts)+i))
				b.mu.Lock()
				b.took[what+l.Name] = append(b.took[what+l.Name], took...)
				b.mu.Unlock()
				failed <- err
			}
			if atOnce {
				go one()
			} else {
				one()
			}
		}
		var first error
		for range layouts {
			if err := <-failed; err != nil && first == nil {
				first = err
			}
		}
		if first != nil {
			return first
		}
		b.o.logf("%s%d/%d", what, rep+1, b.o.reps)
	}
	return nil
}

// compare simulates layouts and puts what they took beside it; target is how far from
// it simulated figures may be, in percent, 0 for those that are not held to it.
func (b *fanoutBench) compare(ctx context.Context, s *report.Section, what string, layouts []fanout.Layout, m simulate.Model, target float64) error {
	if s.Table == nil {
		s.Table = [][]string{{"layout", "queries", "quantile", "measured", "simulated", "difference", "on idle nodes"}}
	}
	worst := map[string]float64{}
	for _, l := range layouts {
		took := b.took[what+l.Name]
		res, err := l.Simulate(ctx, m, 400_000, 1)
		if err != nil {
			return err
		}
		for _, q := range comparedAt {
			at := strconv.FormatFloat(q.p, 'g', -1, 64)
			seen, sim := sectioned(took, q.p), res.Quantiles[at]
			off := float64(sim.Value)/float64(seen.Value) - 1
			worst[q.name] = max(worst[q.name], 100*math.Abs(off))
			s.Table = append(s.Table, []string{what + l.Name, strconv.Itoa(len(took)), q.name, span(seen), span(sim), effect("", api.Float(1+off)), amount("", res.NoQueue[at])})
			b.o.logf("%s%s: %s measured %s, simulated %s, %+.1f %%", what, l.Name, q.name, span(seen), span(sim), 100*off)
		}
	}
	for _, q := range comparedAt {
		s.Add(what+q.name+" is off by at most", "tailscope", "%", target, worst[q.name])
	}
	return nil
}

// span writes a duration with its interval.
func span(v api.ScalingValue) string {
	return fmt.Sprintf("%s (%s – %s)", amount("", v.Value), amount("", v.Low), amount("", v.High))
}

// sectioned returns a quantile of values in order of time with its 95 % interval, by ten
// sections (Asmussen & Glynn 2007, Stochastic Simulation, III.5).
func sectioned(values []float64, p float64) api.ScalingValue {
	at := func(v []float64) float64 {
		v = slices.Sorted(slices.Values(v))
		return v[min(len(v)-1, int(p*float64(len(v))))]
	}
	const sections = 10
	whole, squares := at(values), 0.0
	for i := range sections {
		d := at(values[i*len(values)/sections:(i+1)*len(values)/sections]) - whole
		squares += d * d
	}
	const t = 2.262 // Student's, 9 degrees of freedom, 97.5 %
	half := t * math.Sqrt(squares/(sections-1)/sections)
	return api.ScalingValue{Value: api.Float(whole), Low: api.Float(max(0, whole-half)), High: api.Float(whole + half)}
}

// fanOuts compares queries to 1 to 16 leaves, none of which waits for another.
func (b *fanoutBench) fanOuts(ctx context.Context, r *report.Report) error {
	if err := b.leaf(ctx, fanout.Base); err != nil {
		return err
	}
	m, err := fanout.Model(b.leaves, 0, fanout.Base)
	if err != nil {
		return err
	}
	var layouts []fanout.Layout
	for _, n := range []int{1, 2, 4, 8, 16} {
		layouts = append(layouts, fanout.Idle(n, min(400, 1600/float64(n))))
	}
	if err := b.run(ctx, "", layouts, false, b.during); err != nil {
		return err
	}
	s := r.Section("Fan-out", fmt.Sprintf("An aggregator asks leaf servers over HTTP, each of which waits for a time of a measured distribution, independently. One leaf was measured alone (%d requests) and told to the simulation, which says what queries to more take. Differences are simulated against measured. Intervals are of 95 %%.", len(b.leaves[fanout.Base])))
	return b.compare(ctx, s, "", layouts, m, 5)
}

// staircase compares queries to 16 shards of data on 1 to 16 nodes with one thread
// each, and to as many as nodes have equal parts of.
func (b *fanoutBench) staircase(ctx context.Context, r *report.Report) error {
	m, err := b.sizes(ctx)
	if err != nil {
		return err
	}
	title, leaves := "The staircase", "18 to 28 ms each"
	target := 5.0
	if !b.work.Even {
		target = 0 // few queries of wide distributions
		title, leaves = "The staircase of uneven leaves", "5 to 100 ms each, as in the fan-out: the last leaf hides the stairs"
	}
	s := r.Section(title, "Data in 16 shards on nodes of one thread each, leaves of "+leaves+", one query after another: a query takes as many rounds as the fullest node has shards. Beside it the same data, cut again so that each node has as much: leaves then take less, since a leaf's time is 3 ms and a part in proportion to its shard; it was measured at 16 and at 32 shards.")
	for _, again := range []bool{false, true} {
		var layouts []fanout.Layout
		for _, nodes := range []int{1, 2, 3, 4, 6, 8, 10, 12, 14, 15, 16} {
			layouts = append(layouts, fanout.Evenly(nodes, again, 0))
		}
		what := "16 shards on "
		if again {
			what = "cut again for "
		}
		if err := b.run(ctx, what, layouts, true, b.during); err != nil {
			return err
		}
		if err := b.compare(ctx, s, what, layouts, m, target); err != nil {
			return err
		}
	}
	return nil
}

// queues returns the staircase where queries wait for each other.
func (b *fanoutBench) queues(ctx context.Context, r *report.Report) error {
	m, err := b.sizes(ctx)
	if err != nil {
		return err
	}
	var layouts []fanout.Layout
	for _, nodes := range []int{8, 10, 12, 14, 15, 16} {
		layouts = append(layouts, fanout.Evenly(nodes, false, queuesRate))
	}
	if err := b.run(ctx, "16 shards on ", layouts, true, 5*b.during); err != nil {
		return err
	}
	s := r.Section("The staircase, with queues", fmt.Sprintf("The same nodes, %d queries a second at random moments: they wait for each other's leaves.", queuesRate))
	return b.compare(ctx, s, "16 shards on ", layouts, m, 0)
}

// queuesRate keeps eight nodes some 60 % busy.
const queuesRate = 10

// sizes returns the model of leaves measured at two sizes.
func (b *fanoutBench) sizes(ctx context.Context) (simulate.Model, error) {
	for _, shards := range []int{fanout.Base, 2 * fanout.Base} {
		if err := b.leaf(ctx, shards); err != nil {
			return simulate.Model{}, err
		}
	}
	return fanout.Model(b.leaves, 0, fanout.Base, 2*fanout.Base)
}

// alike compares queries whose leaves are alike: what is slow on one node is slow on
// others.
func (b *fanoutBench) alike(ctx context.Context, r *report.Report) error {
	if err := b.leaf(ctx, fanout.Base); err != nil {
		return err
	}
	took := b.leaves[fanout.Base] // one leaf of a query after another
	var queries [][]float64
	for ; len(took) >= fanout.Base; took = took[fanout.Base:] {
		queries = append(queries, took[:fanout.Base])
	}
	together := solr.Together(queries)
	m, err := fanout.Model(b.leaves, together, fanout.Base)
	if err != nil {
		return err
	}
	var layouts []fanout.Layout
	for _, n := range []int{4, 16} {
		layouts = append(layouts, fanout.Idle(n, min(400, 1600/float64(n))))
	}
	if err := b.run(ctx, "alike, ", layouts, false, b.during); err != nil {
		return err
	}
	s := r.Section("Leaves that are alike", fmt.Sprintf("The same fan-out, with leaves of a query that are alike: their normal scores correlate by %g. Told by the times of all leaves of %d queries, each asked alone, it is %.3f.", b.work.Together, len(queries), together))
	return b.compare(ctx, s, "alike, ", layouts, m, 5)
}
