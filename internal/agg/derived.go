package agg

import (
	"context"
	"fmt"
	"math"

	"tailscope/hist"
)

// NewDerivedBatch is NewBatch for what is derived from observations that were accepted,
// as the times of requests are from the spans of their traces. Such a batch is not
// journalled: a crash loses what was not stored yet, and a replay counts nothing of it.
// It holds durations, and distributions at hist.DefaultSchema of durations in whole
// nanoseconds; it refuses the rest as invalid.
func (a *Aggregator) NewDerivedBatch() *Batch {
	b := a.NewBatch()
	b.derived = true
	return b
}

// BeforeCut has f called just before each generation is cut. What f commits is part of
// that generation. f must neither flush nor wait for a flush.
func (a *Aggregator) BeforeCut(f func(context.Context)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.beforeCut = append(a.beforeCut, f)
}

// distribution is a derived distribution, not encoded.
type distribution struct {
	target       Target
	slot         uint32
	offset       int32
	at, end      int // range of its counts in Batch.counts
	count        uint64
	sumLo, sumHi uint64
	min, max     int64
	squares      float64
	weighted     bool
}

// addDerived adds a distribution to a derived batch. It reports whether it could.
func (b *Batch) addDerived(t Target, timeNanos int64, h *hist.Histogram) bool {
	low, okLow := hist.Nanos(h.Min)
	high, okHigh := hist.Nanos(h.Max)
	first, counts := trim(int(h.Positive.Offset), h.Positive.Counts)
	if len(counts) == 0 {
		first = 0 // an empty range may lie anywhere
	}
	if !okLow || !okHigh || low < 0 || low > high || !(h.Sum >= 0) || h.Schema != cellSchema ||
		h.ZeroThreshold != hist.DefaultZeroThreshold || len(h.Negative.Counts) > 0 || h.Error != 0 ||
		len(counts) > 0 && (first < b.tab.low || first+len(counts)-1 > b.tab.high()) || h.Validate() != nil {
		return false
	}
	d := distribution{target: t, slot: uint32(timeNanos / slotNanos), offset: int32(first), at: len(b.counts),
		count: h.Count, min: low, max: high, squares: h.Squares, weighted: h.Weighted}
	if !h.Weighted {
		d.squares = float64(h.Count)
	}
	d.sumLo, d.sumHi = sumOf(h)
	b.counts = append(b.counts, counts...)
	d.end = len(b.counts)
	b.derivations = append(b.derivations, d)
	return true
}

// sumOf returns the sum of h in nanoseconds, as low and high word.
func sumOf(h *hist.Histogram) (lo, hi uint64) {
	if ns, ok := hist.Nanos(h.Sum); ok {
		return uint64(ns), 0
	}
	x := math.RoundToEven(h.Sum * 1e9)
	hi = uint64(x / (1 << 64))
	return uint64(x - float64(hi)*(1<<64)), hi
}

// use marks the targets of a derived batch as used by the open generation, whose journal
// does not define them for that. It changes nothing if one of them is not valid.
func (a *Aggregator) use(b *Batch) error {
	targets, gen := &a.reg.targets, uint32(a.open.number)
	each := func(f func(Target) error) error {
		for i := range b.seen {
			if err := f(b.seen[i].target); err != nil {
				return err
			}
		}
		for i := range b.derivations {
			if err := f(b.derivations[i].target); err != nil {
				return err
			}
		}
		return nil
	}
	if err := each(a.valid); err != nil {
		return err
	}
	if err := a.resolveGroups(b); err != nil {
		return err
	}
	return each(func(t Target) error {
		targets.at(t.index()).used = gen
		return nil
	})
}

// valid returns an error if a target does not exist, or was resolved in an epoch that has
// ended.
func (a *Aggregator) valid(t Target) error {
	n := t.index()
	if n == 0 || int(n) >= a.reg.targets.n {
		return fmt.Errorf("target %d does not exist", n)
	}
	if r := a.reg.targets.at(n); r.incarnation != t.incarnation() || r.state == targetFree {
		return fmt.Errorf("target %d is of an earlier epoch: resolve targets anew when Batch.Epoch changes", n)
	}
	return nil
}

// derive adds a distribution to both views.
func (a *Aggregator) derive(g *generation, t *target, d *distribution, counts []uint64) {
	for _, s := range [...]uint32{t.full, t.marginal} {
		if s == 0 {
			continue
		}
		c, fresh := g.cells.cell(s, d.slot<<2|modeDurations)
		if fresh {
			a.holds(g, s)
		}
		g.cells.derive(c, d, counts)
	}
}

// derive adds a distribution to a cell of mode modeDurations.
func (g *cells) derive(c *cell, d *distribution, counts []uint64) {
	if c.n == 0 {
		g.firstPage(c, int(d.offset), int(d.offset)+max(len(counts), 1)-1)
	} else if c.n != paged {
		g.toPage(c)
	}
	if d.weighted || c.flags&flagWeighted != 0 {
		g.addSquares(c, d.squares)
	}
	g.moments(c, d.count, d.sumLo, d.sumHi, uint64(d.min), uint64(d.max))
	addCounts(g, c, int(d.offset), counts)
}
