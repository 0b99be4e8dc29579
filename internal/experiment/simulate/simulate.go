// Package simulate predicts a scatter-gather system: a query asks a leaf of every
// shard, waits for the slowest answer, and merges.
//
// A Model holds the times of leaves as they were measured: distributions by class of
// query and by moment. A Layout describes the hardware: nodes, threads, cores,
// aggregators, and the rate. Run draws queries of the model and plays them through
// the layout's queues.
//
// How leaves of one query depend on each other decides the tail, so all of it is
// kept: they share the query's class, the moment (slots are replayed in order, and
// hit all nodes alike), the remaining correlation within a query (Class.Together, a
// Gaussian copula), and the queues.
//
// Two engines give the same answer. If nodes only serve leaves in order of arrival by
// threads, each node is one recursion over the common arrivals (Kiefer & Wolfowitz
// 1955, Trans. AMS 78): some ten nanoseconds a leaf. Everything else (processor
// sharing, hedged requests, closed loops, aggregators on the nodes' own cores) is
// simulated event by event.
//
// Figures are of counted queries: a warm-up is discarded. Intervals are by batch
// means (Asmussen & Glynn 2007, Stochastic Simulation, IV.5): they cover the
// uncertainty of the simulation's length, not that of measuring leaves. All choices
// follow the seed, whatever the number of workers.
package simulate

import (
	"errors"
	"fmt"
	"math"
)

// ErrInvalid is wrapped by Run's errors about models and layouts.
var ErrInvalid = errors.New("invalid simulation")

// Model holds the times of leaves.
type Model struct {
	Classes []Class
	// Every is the length of a slot in seconds; 0 if classes have one slot only.
	// Slots are replayed in order. If the run is shorter than all of them they are
	// shortened so that each has its turn.
	Every float64
	// Rates is the arrival rate by slot relative to the layout's, for instance 0.5;
	// default 1 for all. It is scaled so that the mean is the layout's rate.
	Rates []float64
}

// Class is one kind of query.
type Class struct {
	Name string
	// Weight is the share of queries against other classes' weights; Weights, if not
	// nil, is that by slot.
	Weight  float64
	Weights []float64
	// Sizes are the distributions of a leaf's time, by the number of shards the data
	// was in when they were measured; ascending, at least one.
	Sizes []Size
	// Fixed is the part of a leaf's time, in seconds, that does not shrink with its
	// shard. It is used if one size was measured; several sizes show it themselves.
	Fixed float64
	// Together is the correlation of the normal scores of leaves of one query beyond
	// class and moment, in [0, 1].
	Together float64
	// Waits is the share of a leaf's time in which it does not need a core (a disc,
	// another service), in [0, 1]. It comes after the part with a core.
	Waits float64
	// Before and After, if not nil, replace the aggregator's.
	Before, After *Cost
}

// Size is the time of a leaf if the data is in that number of shards. Shards 0 is
// unknown: the time is used for any number.
type Size struct {
	Shards float64
	Slots  []*Distribution // in order of time; one if it does not change; nil has none of its own and takes the one before
}

// Cost is seconds of a core: for each query, and for each of its leaves.
type Cost struct {
	Query float64 `key:"query" is:"seconds of" doc:"Of a core, for each query."`
	Leaf  float64 `key:"leaf" is:"seconds of" doc:"Of a core, for each leaf of a query."`
}

func (c Cost) of(leaves int) float64 { return c.Query + c.Leaf*float64(leaves) }

// Options configures a run. The zero value of each field means its default.
type Options struct {
	Queries uint64 // counted; 100,000 if 0, at least 1,000
	Seed    uint64
	Workers int // cores used; 2 if 0
	Units   int // of work kept to be watched, at most MaxUnits; 0 keeps none
}

// MostEvents bounds the leaves that are simulated event by event: it cuts
// Options.Queries, but not below 1,000, if nodes cannot be played one by one.
const MostEvents = 20_000_000

// MaxUnits bounds Options.Units.
const MaxUnits = 400

func (o Options) withDefaults() Options {
	if o.Queries == 0 {
		o.Queries = 100_000
	}
	if o.Workers <= 0 {
		o.Workers = 2
	}
	o.Queries = max(1000, o.Queries)
	o.Units = max(0, min(o.Units, MaxUnits))
	return o
}

// Validate reports every problem of the model at once; errors wrap ErrInvalid.
func (m Model) Validate() error {
	var problems []error
	bad := func(format string, a ...any) {
		problems = append(problems, fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, a...)...))
	}
	if len(m.Classes) == 0 {
		bad("no class of queries")
	}
	slots, total := m.slots(), 0.0
	for i, c := range m.Classes {
		name := c.Name
		if name == "" {
			name = fmt.Sprintf("class %d", i+1)
		}
		weight := c.Weight
		if c.Weights != nil {
			weight = 0
			for _, w := range c.Weights {
				weight += w
				if !(w >= 0) || math.IsInf(w, 1) {
					bad("%s: weight %g of a slot", name, w)
				}
			}
			if len(c.Weights) != slots {
				bad("%s: %d weights for %d slots", name, len(c.Weights), slots)
			}
		}
		if !(weight >= 0) || math.IsInf(weight, 1) {
			bad("%s: weight %g", name, weight)
		}
		total += weight
		if !(c.Together >= 0 && c.Together <= 1) {
			bad("%s: together is %g, not within 0 and 1", name, c.Together)
		}
		if !(c.Waits >= 0 && c.Waits <= 1) {
			bad("%s: waits is %g, not within 0 and 1", name, c.Waits)
		}
		if !(c.Fixed >= 0) || math.IsInf(c.Fixed, 1) {
			bad("%s: fixed part of %g s", name, c.Fixed)
		}
		for _, cost := range []*Cost{c.Before, c.After} {
			if cost != nil && !cost.valid() {
				bad("%s: aggregator's cost %v", name, *cost)
			}
		}
		if len(c.Sizes) == 0 {
			bad("%s: no distribution of leaves", name)
		}
		for j, s := range c.Sizes {
			if !(s.Shards >= 0) || math.IsInf(s.Shards, 1) || (s.Shards == 0 && len(c.Sizes) > 1) {
				bad("%s: measured at %g shards", name, s.Shards)
			}
			if j > 0 && !(s.Shards > c.Sizes[j-1].Shards) {
				bad("%s: measured at %g shards after %g: sizes ascend", name, s.Shards, c.Sizes[j-1].Shards)
			}
			if len(s.Slots) != 1 && len(s.Slots) != slots {
				bad("%s: %d slots, others have %d", name, len(s.Slots), slots)
			}
			if s.at(0) == nil {
				bad("%s: no distribution of leaves at %g shards", name, s.Shards)
			}
		}
	}
	if len(m.Classes) > 0 && !(total > 0) {
		bad("the weights of classes add up to nothing")
	}
	if slots > 1 && !(m.Every > 0) {
		bad("%d slots and no duration of one", slots)
	}
	if m.Rates != nil {
		sum := 0.0
		for _, r := range m.Rates {
			if !(r >= 0) || math.IsInf(r, 1) {
				bad("rate %g of a slot", r)
			}
			sum += r
		}
		if len(m.Rates) != slots || !(sum > 0) {
			bad("%d rates, adding up to %g, for %d slots", len(m.Rates), sum, slots)
		}
	}
	return errors.Join(problems...)
}

// slots returns the number of moments of the model.
func (m Model) slots() int {
	n := max(1, len(m.Rates))
	for _, c := range m.Classes {
		n = max(n, len(c.Weights))
		for _, s := range c.Sizes {
			n = max(n, len(s.Slots))
		}
	}
	return n
}

// at returns the distribution of a slot. A slot without one has that of the last slot
// before it that has, or of the last of all. It returns nil if there is none at all.
func (s Size) at(slot int) *Distribution {
	n := len(s.Slots)
	if n == 0 {
		return nil
	}
	for i := range n {
		if d := s.Slots[((slot-i)%n+n)%n]; d != nil {
			return d
		}
	}
	return nil
}

func (c Cost) valid() bool {
	return c.Query >= 0 && c.Leaf >= 0 && !math.IsInf(c.Query+c.Leaf, 1)
}
