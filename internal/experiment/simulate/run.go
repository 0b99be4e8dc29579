package simulate

import (
	"context"
	"fmt"
	"math"
	"slices"

	"tailscope/api"
)

// Result is the simulated behaviour of a layout.
type Result struct {
	api.SimulationLayout
	Classes  []ClassResult
	Warnings []string
	// Latency holds the latencies of counted queries in ascending order, seconds,
	// without NaN; nil for an unstable layout.
	Latency []float64
	Settled bool // the run was long against how queues change
}

// ClassResult holds the latencies of one class of queries.
type ClassResult struct {
	Name      string
	Queries   uint64
	Mean      float64
	Quantiles map[string]float64
}

// Run plays the model on the layout. It returns an error that wraps ErrInvalid for a
// model or layout that is invalid. A layout that cannot keep up is not an error: its
// Result is not Stable and says why. Run uses Options.Workers goroutines, gone when
// it returns, and stops early with the context's error.
func Run(ctx context.Context, m Model, l Layout, o Options) (*Result, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	if err := l.Validate(); err != nil {
		return nil, fmt.Errorf("layout %s: %w", l.Name, err)
	}
	o = o.withDefaults()
	p, err := newPlan(m, l, o)
	if err != nil {
		return nil, err
	}
	r := &Result{SimulationLayout: p.words()}
	weights := p.weights()
	if p.Arrivals != Closed {
		r.unstable(p, weights)
	}
	r.NoQueue = map[string]api.Float{}
	idle := newIdle(p, weights)
	at := 0.0
	for _, q := range quantiles {
		at = idle.quantile(q.p, at)
		r.NoQueue[q.name] = api.Float(at)
	}
	if r.Stable {
		p.drawArrivals()
		out, err := p.play(ctx, o)
		if err != nil {
			return nil, err
		}
		r.fill(p, m, out)
		if !r.Stable {
			return r, nil
		}
		if r.Work, err = p.watched(ctx, o.Units); err != nil {
			return nil, err
		}
	}
	if text := p.crowded(); text != "" && r.Stable {
		r.Warnings = append(r.Warnings, text)
	}
	r.Warnings = append(r.Warnings, p.warnings...)
	return r, nil
}

func (p *plan) play(ctx context.Context, o Options) (*played, error) {
	if p.fcfs() {
		return p.playFCFS(ctx, o.Workers)
	}
	return p.playEvents(ctx, nil)
}

// words returns the layout's description, without figures.
func (p *plan) words() api.SimulationLayout {
	none := api.ScalingValue{Value: nan, Low: nan, High: nan}
	l := api.SimulationLayout{
		Name: p.Name, X: api.Float(p.X), Nodes: p.Nodes, Shards: p.Shards, Threads: p.Threads,
		Cores: api.Float(p.Cores), Rounds: p.rounds(), PerNode: api.Float(p.perNode()), Rate: api.Float(p.Rate),
		Cost: nan, CostEach: nan, Stable: true, Mean: none,
		Quantiles: map[string]api.ScalingValue{}, NoQueue: map[string]api.Float{}, Leaf: map[string]api.Float{},
		Waiting: nan, Straggler: nan, Merge: nan, Utilisation: nan, Busiest: nan, Aggregator: nan,
		Hedged: 0, Cached: api.Float(p.Cache.Queries),
	}
	for _, q := range quantiles {
		l.Quantiles[q.name], l.Leaf[q.name] = none, nan
	}
	if cost := p.cost(); cost > 0 {
		l.Cost = api.Float(cost)
		if p.Arrivals != Closed {
			l.CostEach = api.Float(cost / 3600 / p.Rate)
		}
	}
	return l
}

// cost returns the cost of all nodes by the hour.
func (p *plan) cost() float64 {
	return p.Price*float64(p.Nodes) + p.Layout.Aggregator.Price*float64(p.Layout.Aggregator.Nodes)
}

// unstable checks by sums whether the layout can keep up at all.
func (r *Result) unstable(p *plan, weights []float64) {
	most := load{share: 1}
	for _, l := range p.loads(weights) {
		if l.share >= most.share*(1-1e-9) { // cores, if their threads wait for them alone
			most = l
		}
	}
	if most.what != "" {
		r.Stable = false
		r.Why = fmt.Sprintf("at %.4g queries a second the %s would have to be busy %.7g %% of the time: work piles up without end",
			p.Rate, most.what, math.Round(100*most.share))
	}
}

// fill computes the figures of what was played.
func (r *Result) fill(p *plan, m Model, out *played) {
	counted := out.latency[p.warm:]
	if r.Why = p.grows(out, counted); r.Why != "" {
		r.Stable = false
		return
	}
	by := p.byClass(m, counted)
	b := newBatches(p.cut(counted))
	r.Queries = uint64(len(counted))
	r.Latency, r.Settled = b.all, b.settled()
	r.classes(m, by)
	r.Mean = b.meanValue()
	for _, q := range quantiles {
		r.Quantiles[q.name] = b.quantile(q.p)
		if out.leaf.Count > 0 {
			r.Leaf[q.name] = api.Float(out.leaf.Quantile(q.p))
		}
	}
	lasts := out.end - out.start
	if p.Arrivals == Closed {
		r.Rate = api.Float(float64(p.total) / lasts)
		r.CostEach = r.Cost / 3600 / r.Rate
	}
	busy, busiest, all, waited := 0.0, 0.0, float64(p.Nodes), 0.0
	for _, n := range out.nodes {
		share := math.NaN()
		switch {
		case p.Cores > 0:
			share = n.cores / lasts / p.Cores
		case p.Threads > 0:
			share = n.threads / lasts / float64(p.Threads)
		}
		busy, busiest, waited = busy+share, max(busiest, share), waited+n.waited
	}
	r.Utilisation, r.Busiest = api.Float(busy/all), api.Float(busiest)
	if out.leaves > 0 {
		// A difference of sums: rounding errors are not a wait.
		if wait := waited / float64(out.leaves); wait > 1e-9*out.each/float64(out.leaves) {
			r.Waiting = api.Float(wait)
		} else {
			r.Waiting = 0
		}
		r.Hedged = api.Float(float64(out.hedged) / float64(out.leaves))
		r.Straggler = api.Float(out.slowest / float64(out.asked) / (out.each / float64(out.leaves)))
		r.Merge = api.Float(out.merge / float64(out.asked))
	}
	if a := p.Aggregator; a.Nodes > 0 {
		r.Aggregator = api.Float(out.aggBusy / lasts / (float64(a.Nodes) * math.Ceil(a.Cores)))
	}
	if !r.Settled {
		r.Warnings = append(r.Warnings, fmt.Sprintf(
			"queues change so slowly that %d queries say as little as %.0f that have nothing to do with each other would: simulate more", r.Queries, max(1, b.time.free)))
	}
}

// byClass splits latencies of counted queries by class.
func (p *plan) byClass(m Model, latency []float64) [][]float64 {
	by := make([][]float64, len(m.Classes))
	for q, l := range latency {
		if of := p.of[p.warm+q]; of >= 0 {
			class := p.kinds[of].class
			by[class] = append(by[class], l)
		}
	}
	return by
}

// classes computes the figures of each class.
func (r *Result) classes(m Model, by [][]float64) {
	for i, c := range m.Classes {
		of := ClassResult{Name: c.Name, Queries: uint64(len(by[i])), Mean: math.NaN(), Quantiles: map[string]float64{}}
		if n := len(by[i]); n > 0 {
			of.Mean = mean(by[i])
			if n < len(r.Latency) {
				slices.Sort(by[i])
			} else {
				by[i] = r.Latency
			}
			for _, q := range quantiles {
				if float64(n)*(1-q.p) >= 5 {
					of.Quantiles[q.name] = sorted(by[i], q.p)
				}
			}
		}
		r.Classes = append(r.Classes, of)
	}
}
