package simulate

import (
	"fmt"
	"math"
	"sort"
)

// Streams of random numbers. Each quantity has its own, so that layouts are compared
// on the same queries, whatever else is simulated.
const (
	ofQueries = iota
	ofLeaves
	ofPauses
	ofPicks
	ofHedges
	ofUsers
)

// kind is a class at a moment.
type kind struct {
	leaf *Distribution // as measured, for this number of shards
	*table
	class            int
	together         float64 // weight of what a query's leaves share, √ of the correlation
	apart            float64 // of what they do not
	work, wait       float64 // seconds with a core and without for each second of leaf
	overhead, cached float64 // seconds with a core
	before, after    float64 // seconds of an aggregator's core
}

// plan is a model on a layout, ready to be played.
type plan struct {
	Layout
	kinds []kind // class·slots + slot
	slots int
	dwell float64   // seconds a slot is played
	rates []float64 // of slots, mean 1
	mix   [][]float64
	seed  uint64

	total, warm int       // queries; the first warm are not counted
	every       int       // of how many queries the leaves of one are noted; a power of 2
	arrive      []float64 // seconds, ascending; of open arrivals
	of          []int32   // kind, -1 if it is answered from the cache
	shared      []float32 // normal score that leaves of a query share; nil if no class needs it

	warnings []string
}

func newPlan(m Model, l Layout, o Options) (*plan, error) {
	p := &plan{Layout: l.withDefaults(), slots: m.slots(), seed: o.Seed}
	l = p.Layout
	if l.Shards > MaxShards {
		return nil, fmt.Errorf("%w: %d shards after the split, at most %d", ErrInvalid, l.Shards, MaxShards)
	}
	for i, c := range m.Classes {
		before, after := l.Aggregator.Before, l.Aggregator.After
		if c.Before != nil {
			before = *c.Before
		}
		if c.After != nil {
			after = *c.After
		}
		k := kind{
			class: i, together: math.Sqrt(c.Together), apart: math.Sqrt(1 - c.Together),
			work: (1 - c.Waits) / l.Speed, wait: c.Waits,
			overhead: l.Overhead / l.Speed, cached: l.Cache.Takes / l.Speed,
			before: before.of(l.Shards), after: after.of(l.Shards),
		}
		speed := l.Speed
		if l.Aggregator.Nodes > 0 {
			// A part of a core is a slow core.
			speed = l.Aggregator.Speed * l.Aggregator.Cores / math.Ceil(l.Aggregator.Cores)
		}
		k.before, k.after = k.before/speed, k.after/speed
		for slot := range p.slots {
			if slot == 0 || c.changes(slot) {
				d, err := c.For(float64(l.Shards), slot)
				if err != nil {
					return nil, fmt.Errorf("leaves of %s: %w", c.Name, err)
				}
				k.leaf, k.table = d, d.table(c.Together > 0)
				if l.Hedge.Alike > 0 {
					d.table(true)
				}
			}
			p.kinds = append(p.kinds, k)
		}
	}
	p.mixes(m)
	if l.Arrivals == Closed {
		p.Rate = p.closedRate()
	}
	p.lengths(m, o)
	return p, p.tooLong()
}

// Bounds of a run, beyond which times would be rounded away, or pauses fill the
// memory.
const (
	maxLasts  = 1e10 // seconds
	maxPauses = 1e7  // of all nodes
)

// tooLong refuses a run longer than the bound.
func (p *plan) tooLong() error {
	lasts := float64(p.total) / p.Rate
	if lasts > maxLasts && !p.alone() {
		return fmt.Errorf("%w: rate: %d queries at %.3g a second take %.0f years: simulate fewer queries, or a higher rate", ErrInvalid, p.total, p.Rate, lasts/(365.25*24*3600))
	}
	if p.Pause.Lasts == nil {
		return nil
	}
	if n := lasts / p.Pause.Every * float64(p.Nodes); n > maxPauses {
		return fmt.Errorf("%w: pause: %.2g pauses in the %.3g s that %d queries take, at most %.0e: pause less often, or simulate fewer queries or a higher rate", ErrInvalid, n, lasts, p.total, maxPauses)
	}
	return nil
}

// mixes sets the cumulative weights of classes by slot, and rates.
func (p *plan) mixes(m Model) {
	p.rates = make([]float64, p.slots)
	sum := 0.0
	for s := range p.slots {
		p.rates[s] = 1
		if m.Rates != nil {
			p.rates[s] = m.Rates[s]
		}
		sum += p.rates[s]
		weights, total := make([]float64, len(m.Classes)), 0.0
		for i, c := range m.Classes {
			w := c.Weight
			if c.Weights != nil {
				w = c.Weights[s]
			}
			total += w
			weights[i] = total
		}
		if total == 0 { // nobody asked in this slot
			for i, c := range m.Classes {
				total += max(c.Weight, 1e-300)
				weights[i] = total
			}
		}
		for i := range weights {
			weights[i] /= total
		}
		p.mix = append(p.mix, weights)
	}
	for s := range p.rates {
		p.rates[s] *= float64(p.slots) / sum
	}
}

// mostChanges bounds the mean number of moments that begin from one query to the
// next.
const mostChanges = 10

// lengths sets the length of slots so that counted queries see each the same number
// of times.
func (p *plan) lengths(m Model, o Options) {
	counted := int(min(o.Queries, MaxQueries))
	if most := max(1000, MostEvents/p.Shards); !p.fcfs() && counted > most {
		p.warnings = append(p.warnings, fmt.Sprintf("%d queries were simulated, not %d: what this layout has costs more to simulate", most, counted))
		counted = most
	}
	p.warm = max(200, counted/10)
	p.total = p.warm + counted
	for p.every = 1; p.every < counted*p.Shards/1_000_000; {
		p.every *= 2
	}
	if p.slots == 1 {
		p.dwell = math.Inf(1)
		return
	}
	lasts := float64(counted) / p.Rate
	cycles := max(1, math.Round(lasts/(m.Every*float64(p.slots))))
	// Between two queries that are far apart it cannot be seen how often moments
	// change.
	cycles = min(cycles, max(1, math.Round(mostChanges*float64(counted)/float64(p.slots))))
	p.dwell = lasts / (cycles * float64(p.slots))
	if p.dwell < m.Every/2 {
		p.warnings = append(p.warnings, fmt.Sprintf(
			"the %d moments of %.3g s are played for %.3g s each, so that all have their turn: what queues up over a longer moment is missed; simulate %.0f queries to play them in full",
			p.slots, m.Every, p.dwell, math.Ceil(p.Rate*m.Every*float64(p.slots))))
	}
}

// slotNumber returns the number of the slot at t, from the first query on. The
// model's first slot begins where counting does, if queries keep to their rate; its
// number is a multiple of the number of slots.
func (p *plan) slotNumber(t float64) int {
	if p.slots == 1 {
		return 0
	}
	return int(math.Floor((t - p.counting()) / p.dwell))
}

// slot returns the model's slot of a number, and its end.
func (p *plan) slot(number int) (slot int, end float64) {
	if p.slots == 1 {
		return 0, math.Inf(1)
	}
	return ((number % p.slots) + p.slots) % p.slots, p.counting() + float64(number+1)*p.dwell
}

// counting returns when queries begin to be counted, if they keep to their rate.
func (p *plan) counting() float64 { return float64(p.warm) / p.Rate }

// drawQuery draws a query's kind and the score that its leaves share.
func (p *plan) drawQuery(s *source, t float64) (of int32, shared float32) {
	slot, _ := p.slot(p.slotNumber(t))
	class := sort.SearchFloat64s(p.mix[slot], s.share())
	for class < len(p.mix[slot])-1 && p.mix[slot][class] == 0 {
		class++
	}
	class = min(class, len(p.mix[slot])-1)
	hit := s.share() < p.Cache.Queries
	z := drawScore(halfNormal(), s.next())
	of = int32(class*p.slots + slot)
	if hit {
		of = -1
	}
	return of, float32(z)
}

// drawArrivals draws the queries' arrivals and kinds.
func (p *plan) drawArrivals() {
	s := newSource(p.seed, ofQueries)
	p.arrive = make([]float64, p.total)
	p.of = make([]int32, p.total)
	if p.Arrivals == Closed && !p.alone() {
		return // as users come to ask
	}
	for i := range p.kinds {
		if p.kinds[i].together > 0 {
			p.shared = make([]float32, p.total)
		}
	}
	t, n := 0.0, p.slotNumber(0)
	slot, end := p.slot(n)
	for q := range p.total {
		if p.alone() {
			p.draw(s, q, 0)
			continue
		}
		gap := 1.0
		if p.Arrivals != Even {
			gap = s.exponential()
		}
		// The gap is in units of the integral of the rate.
		for {
			rate := p.Rate * p.rates[slot]
			if due := (end - t) * rate; gap < due || math.IsInf(end, 1) {
				t += gap / rate
				break
			} else if rate > 0 {
				gap -= due
			}
			// Slots are counted, because a slot's end may round to itself.
			t, n = end, n+1
			slot, end = p.slot(n)
		}
		p.arrive[q] = t
		p.draw(s, q, t)
	}
}

func (p *plan) draw(s *source, q int, t float64) {
	of, shared := p.drawQuery(s, t)
	p.of[q] = of
	if p.shared != nil {
		p.shared[q] = shared
	}
}

// drawLeaf draws the time of a leaf, cached or not, on a normal node: time with a
// core, and time without after it.
func (p *plan) drawLeaf(s *source, k *kind, shared float64) (work, wait float64) {
	if p.Cache.Leaves > 0 && s.share() < p.Cache.Leaves {
		return k.cached + k.overhead, 0
	}
	var d float64
	if k.together > 0 {
		d = k.at(k.together*shared + k.apart*drawScore(halfNormal(), s.next()))
	} else {
		d = k.draw(s.next())
	}
	return d*k.work + k.overhead, d * k.wait
}

// drawLeafNoise is drawLeaf, and returns the normal score that the leaf does not
// share, for a second answer.
func (p *plan) drawLeafNoise(s *source, k *kind, shared float64) (work, wait, noise float64) {
	if p.Hedge.Alike == 0 {
		work, wait = p.drawLeaf(s, k, shared)
		return work, wait, 0
	}
	if p.Cache.Leaves > 0 && s.share() < p.Cache.Leaves {
		return k.cached + k.overhead, 0, 0
	}
	noise = drawScore(halfNormal(), s.next())
	d := k.at(k.together*shared + k.apart*noise)
	return d*k.work + k.overhead, d * k.wait, noise
}

// drawAlike draws the time of a leaf on another replica.
func (p *plan) drawAlike(s *source, k *kind, shared, noise float64) (work, wait float64) {
	alike := p.Hedge.Alike
	if alike == 0 {
		return p.drawLeaf(s, k, shared)
	}
	noise = alike*noise + math.Sqrt(1-alike*alike)*drawScore(halfNormal(), s.next())
	noise = min(max(noise, -6.5), 6.5)
	d := k.at(k.together*shared + k.apart*noise)
	return d*k.work + k.overhead, d * k.wait
}

// noted reports whether the leaves of a query are kept for the distribution of a
// leaf: about a million are.
func (p *plan) noted(query int) bool { return query&(p.every-1) == 0 }

// picked returns the replica that a query asks of a shard; without streams, so that
// nodes can be played one by one.
func (p *plan) picked(query, shard int) int {
	if p.Replicas == 1 {
		return 0
	}
	if p.Pick == Rotate {
		return query % p.Replicas
	}
	s := source{p.seed ^ uint64(query)*0x9e3779b97f4a7c15 ^ uint64(shard)*0xc2b2ae3d27d4eb4f ^ ofPicks}
	s.next()
	return s.below(p.Replicas)
}
