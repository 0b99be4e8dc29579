package simulate

import (
	"fmt"
	"math"
)

// weights returns the share of queries of each kind, by rate and mix of slots.
func (p *plan) weights() []float64 {
	w := make([]float64, len(p.kinds))
	for s := range p.slots {
		before := 0.0
		for class, upTo := range p.mix[s] {
			w[class*p.slots+s] = (upTo - before) * p.rates[s] / float64(p.slots)
			before = upTo
		}
	}
	return w
}

// demand is the mean time that a query needs, of all its leaves.
type demand struct{ work, wait, before, after float64 }

func (p *plan) demand(weights []float64) demand {
	var d demand
	asking := 1 - p.Cache.Queries
	for i, w := range weights {
		k := &p.kinds[i]
		miss := 1 - p.Cache.Leaves
		d.work += asking * w * float64(p.Shards) * (miss*k.leaf.Mean()*k.work + k.overhead + (1-miss)*k.cached)
		d.wait += asking * w * float64(p.Shards) * miss * k.leaf.Mean() * k.wait
		d.before += asking * w * k.before
		d.after += asking * w * k.after
	}
	return d
}

// load is the part of a resource that the layout needs at its rate; 1 is all of it.
type load struct {
	what  string
	share float64
}

// loads returns the loads of the busiest node and the aggregators, without hedged
// requests.
func (p *plan) loads(weights []float64) []load {
	d := p.demand(weights)
	fullest, number := 0.0, 0
	share := make([]float64, p.Nodes) // of a query's leaves, in time
	for s := range p.Shards {
		for r := range p.Replicas {
			n := p.home(s, r)
			share[n] += p.times(n) / float64(p.Shards*p.Replicas)
			if share[n] > fullest {
				fullest, number = share[n], n
			}
		}
	}
	up := 1.0
	if p.Pause.Lasts != nil {
		up = p.Pause.Every / (p.Pause.Every + p.Pause.Lasts.Mean())
	}
	var out []load
	slowed := 1.0 // by neighbours, when all cores are busy
	if p.Cores > 1 {
		slowed += p.Neighbours
	}
	if p.Threads > 0 {
		work := d.work
		if d.wait == 0 {
			work /= progress(p.Threads, p.Cores, p.Neighbours)
		}
		out = append(out, load{fmt.Sprintf("threads of node %d", number+1), p.Rate * fullest * (work + d.wait) / float64(p.Threads) / up})
	}
	if p.Cores > 0 {
		work := d.work * fullest
		if p.Aggregator.Nodes == 0 {
			work += (d.before + d.after) / float64(p.Nodes)
		}
		out = append(out, load{fmt.Sprintf("cores of node %d", number+1), p.Rate * work * slowed / p.Cores / up})
	}
	if p.Aggregator.Nodes > 0 {
		out = append(out, load{"cores of aggregators", p.Rate * (d.before + d.after) / (float64(p.Aggregator.Nodes) * math.Ceil(p.Aggregator.Cores))})
	}
	return out
}

// grows says why the layout does not keep up, if the simulation shows it: queries
// take longer and longer. The sums did not show it, because they leave out hedged
// requests and most of the slowing by neighbours.
func (p *plan) grows(out *played, counted []float64) string {
	const more = "; give it less to do, or more to do it with"
	if out.piled {
		return fmt.Sprintf("work piled up until %d leaves were under way"+more, mostAlive)
	}
	if p.Arrivals == Closed || p.slots > 1 {
		return ""
	}
	const parts = 10
	var means [parts]float64
	for i := range means {
		means[i] = mean(counted[i*len(counted)/parts : (i+1)*len(counted)/parts])
	}
	pairs := 0 // in ascending order, of 45
	for i := range means {
		for j := range i {
			if means[j] < means[i] {
				pairs++
			}
		}
	}
	if pairs >= 43 && means[parts-1] > 2*means[1] {
		return fmt.Sprintf("work piles up: the last tenth of queries took %.3g s on average, the second tenth %.3g s"+more, means[parts-1], means[1])
	}
	return ""
}

// crowded says in how many moments the layout cannot keep up, though it can on the
// whole: work piles up while they last.
func (p *plan) crowded() string {
	if p.slots == 1 || p.Arrivals == Closed {
		return ""
	}
	moments, most, what := 0, 1.0, ""
	weights := make([]float64, len(p.kinds))
	now := *p
	for s := range p.slots {
		clear(weights)
		before := 0.0
		for class, upTo := range p.mix[s] {
			weights[class*p.slots+s] = upTo - before
			before = upTo
		}
		now.Rate = p.Rate * p.rates[s]
		over := false
		for _, l := range now.loads(weights) {
			over = over || l.share >= 1
			if l.share > most {
				most, what = l.share, l.what
			}
		}
		if over {
			moments++
		}
	}
	if moments == 0 {
		return ""
	}
	return fmt.Sprintf("in %d of %d moments more is asked than the layout can do (the %s would have to be busy %.7g %% of the time): work piles up as long as they last", moments, p.slots, what, math.Round(100*most))
}

// closedRate returns an upper bound of the rate that users can ask for.
func (p *plan) closedRate() float64 {
	weights := p.weights()
	alone := 0.0
	for i, w := range weights {
		k := &p.kinds[i]
		alone += w * (k.leaf.Mean()*(k.work+k.wait) + k.overhead + k.before + k.after)
	}
	rate := float64(p.Users) / max(1e-9, p.Think+alone+p.Network)
	q := *p
	q.Rate = 1
	for _, l := range q.loads(weights) {
		if l.share > 0 {
			rate = min(rate, 1/l.share)
		}
	}
	return rate
}
