package simulate

import (
	"context"
	"math"
	"slices"
	"sync"

	"tailscope/hist"
)

// played is the outcome of the queries of a plan.
type played struct {
	latency []float64 // seconds, of all queries in order of arrival; NaN of what was not answered
	nodes   []nodeLoad
	leaf    *hist.Histogram // a leaf's time, waiting included; of some of them
	slowest float64         // sum over counted queries of the slowest leaf's time
	each    float64         // sum over counted leaves of their time
	leaves  uint64          // counted
	merge   float64         // sum over counted queries of the aggregator's time, waiting included
	asked   uint64          // counted queries that asked leaves
	hedged  uint64          // counted leaves asked twice
	aggBusy float64         // seconds of a core of own aggregators, from -start to end
	start   float64         // when the first query came and the last one left
	end     float64
	piled   bool // given up as work piled up
}

// nodeLoad is the work that a node did, warm-up included.
type nodeLoad struct {
	threads float64 // seconds of a thread
	cores   float64 // seconds of a core
	waited  float64 // seconds that counted leaves waited for a thread
}

// fcfs reports whether nodes can be played one by one.
func (p *plan) fcfs() bool {
	// Its work is a delay: cores are unlimited, or no other query is there.
	free := p.Aggregator.Nodes == 0 || p.alone()
	for _, k := range p.kinds {
		if k.before > 0 && !free {
			return false
		}
		if k.before+k.after > 0 && p.Aggregator.Nodes == 0 && p.Cores > 0 {
			return false
		}
		if k.wait > 0 && p.Pause.Lasts != nil {
			return false
		}
	}
	return (p.Cores == 0 || p.coresForAll()) && !p.Hedge.on() && (p.Arrivals != Closed || p.alone()) && (p.Replicas == 1 || p.Pick != Least)
}

// coresForAll reports whether cores are limited but always enough: each thread has
// one, and none slows another.
func (p *plan) coresForAll() bool {
	return p.Threads > 0 && float64(p.Threads) <= p.Cores && p.Neighbours == 0
}

// alone reports whether there is one query at a time and all nodes are idle when it
// arrives. Then its time does not matter: each arrives at time 0 at new nodes.
func (p *plan) alone() bool {
	return p.Arrivals == Closed && p.Users == 1 && p.slots == 1 && p.Pause.Lasts == nil
}

// copyOf is a shard's copy on a node.
type copyOf struct{ shard, replica int }

// playFCFS plays each node over all queries: threads take leaves in order of arrival.
func (p *plan) playFCFS(ctx context.Context, workers int) (*played, error) {
	copies := make([][]copyOf, p.Nodes)
	for s := range p.Shards {
		for r := range p.Replicas {
			n := p.home(s, r)
			copies[n] = append(copies[n], copyOf{s, r})
		}
	}
	// Leaves are asked when the aggregator's work before them is done.
	asked, order := p.arrive, []int32(nil)
	for i := range p.kinds {
		if p.kinds[i].before > 0 {
			asked, order = p.afterBefore()
			break
		}
	}
	workers = max(1, min(workers, p.Nodes))
	out := &played{nodes: make([]nodeLoad, p.Nodes), leaf: hist.New(hist.DefaultSchema), start: p.arrive[0]}
	lines := make([]*line, workers)
	var wait sync.WaitGroup
	for w := range workers {
		g := &line{plan: p, asked: asked, order: order, last: make([]float64, p.total), leaf: hist.New(hist.DefaultSchema), half: halfNormal(), load: out.nodes}
		copy(g.last, asked)
		lines[w] = g
		wait.Go(func() {
			for n := w; n < p.Nodes; n += workers {
				if len(copies[n]) > 0 {
					g.nodes = append(g.nodes, newNode(p, n, copies[n]))
				}
			}
			g.play(ctx)
		})
	}
	wait.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	last := lines[0].last
	for _, g := range lines[1:] {
		for q, t := range g.last {
			last[q] = max(last[q], t)
		}
	}
	for _, g := range lines {
		if err := out.leaf.Merge(g.leaf); err != nil {
			return nil, err
		}
	}
	each := make([]float64, p.Nodes)
	for _, g := range lines {
		for _, n := range g.nodes {
			each[n.number] = n.each
			out.leaves += n.leaves
		}
	}
	for _, e := range each {
		out.each += e
	}
	p.finish(out, asked, last)
	return out, nil
}

// afterBefore returns when leaves are asked, and the queries in that order.
func (p *plan) afterBefore() (asked []float64, order []int32) {
	asked, order = slices.Clone(p.arrive), make([]int32, p.total)
	for q := range asked {
		order[q] = int32(q)
		if of := p.of[q]; of >= 0 {
			asked[q] += p.kinds[of].before
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		switch {
		case asked[a] < asked[b]:
			return -1
		case asked[a] > asked[b]:
			return 1
		}
		return 0
	})
	return asked, order
}

// finish merges: last is when each query's last leaf was done on its node.
func (p *plan) finish(out *played, asked, last []float64) {
	out.latency = last
	order := make([]int32, 0, p.total)
	for q := range last {
		if p.of[q] < 0 {
			last[q] = p.arrive[q] + p.Cache.Takes
			continue
		}
		last[q] += p.Network
		if q >= p.warm {
			out.asked++
			out.slowest += last[q] - asked[q]
		}
		order = append(order, int32(q))
	}
	merges := slices.ContainsFunc(p.kinds, func(k kind) bool { return k.before+k.after > 0 })
	switch {
	case merges && (p.Aggregator.Nodes == 0 || p.alone()):
		for _, q := range order {
			k := &p.kinds[p.of[q]]
			last[q] += k.after
			if int(q) >= p.warm {
				out.merge += k.before + k.after
			}
			if p.Aggregator.Nodes > 0 {
				out.aggBusy += k.before + k.after
			}
		}
	case merges:
		slices.SortStableFunc(order, func(a, b int32) int {
			switch {
			case last[a] < last[b]:
				return -1
			case last[a] > last[b]:
				return 1
			}
			return 0
		})
		aggregators := make([]threads, p.Aggregator.Nodes)
		for i := range aggregators {
			aggregators[i] = newThreads(int(math.Ceil(p.Aggregator.Cores)), out.start)
		}
		for _, q := range order {
			after := p.kinds[p.of[q]].after
			done := aggregators[int(q)%len(aggregators)].take(last[q], after)
			out.aggBusy += after
			if int(q) >= p.warm {
				out.merge += done - last[q]
			}
			last[q] = done
		}
	}
	for q := range last {
		if p.alone() {
			out.end += last[q] + p.Think
		}
		out.end = max(out.end, last[q])
		last[q] -= p.arrive[q]
	}
}

// line plays some of the nodes, queries in pieces that stay in the cache.
type line struct {
	*plan
	asked []float64
	order []int32 // nil: as they came
	nodes []*node
	last  []float64 // of these nodes
	leaf  *hist.Histogram
	half  *table
	load  []nodeLoad // of all nodes; only these are written
}

type node struct {
	number  int
	copies  []copyOf
	s       source
	threads threads
	clock   clock
	times   float64
	each    float64
	leaves  uint64
}

func newNode(p *plan, number int, copies []copyOf) *node {
	return &node{
		number: number, copies: copies, s: *newSource(p.seed, ofLeaves, uint64(number)),
		threads: newThreads(p.Threads, p.arrive[0]), clock: clock{pauses: newPauses(p, number, p.arrive[0])}, times: p.times(number),
	}
}

// atOnce is the number of queries that are played on one node before the next.
const atOnce = 4096

func (g *line) play(ctx context.Context) {
	for from := 0; from < g.total; from += atOnce {
		if ctx.Err() != nil {
			return
		}
		for _, n := range g.nodes {
			if g.plain() {
				g.playPlain(n, from, min(from+atOnce, g.total))
			} else {
				g.playNode(n, from, min(from+atOnce, g.total))
			}
		}
	}
}

func (g *line) playNode(n *node, from, to int) {
	load := &g.load[n.number]
	for i := from; i < to; i++ {
		q := i
		if g.order != nil {
			q = int(g.order[i])
		}
		of := g.of[q]
		if of < 0 {
			continue
		}
		k := &g.kinds[of]
		shared := 0.0
		if g.shared != nil {
			shared = float64(g.shared[q])
		}
		asked := g.asked[q]
		if g.alone() {
			n.threads.reset()
		}
		own := n.clock.ownAt(asked)
		last := g.last[q]
		for _, c := range n.copies {
			if g.Replicas > 1 && g.picked(q, c.shard) != c.replica {
				continue
			}
			work, wait := g.drawLeaf(&n.s, k, shared)
			d := (work + wait) * n.times
			done := n.threads.take(own, d)
			load.threads += d
			load.cores += work * n.times
			left := n.clock.timeOf(done)
			last = max(last, left)
			if q >= g.warm {
				load.waited += done - d - own
				n.each += left - asked + g.Network
				n.leaves++
				if g.noted(q) {
					_ = g.leaf.Record(left - asked + g.Network)
				}
			}
		}
		g.last[q] = last
	}
}
