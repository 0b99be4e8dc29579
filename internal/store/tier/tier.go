// Package tier chooses the slots that answer a question about a range of time: the
// coarsest that fit, and finer ones at its edges. Every store keeps the same tiers, one
// for each resolution, finest first, and so reads the same slots.
package tier

import "tailscope/internal/series"

// Count is the number of tiers.
const Count = len(series.Resolutions)

// Slot returns the length of a tier's slots in seconds.
func Slot(tier int) int64 { return int64(series.Resolutions[tier]) }

// FloorDiv returns a/b rounded down; b is positive.
func FloorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// Floor rounds t down to a multiple of n.
func Floor(t, n int64) int64 { return FloorDiv(t, n) * n }

// Ceil rounds t up to a multiple of n.
func Ceil(t, n int64) int64 { return -FloorDiv(-t, n) * n }

// Span is a range of slots of one tier, [From, To) in Unix seconds.
type Span struct {
	Tier     int
	From, To int64
}

// Horizon determines which slots exist.
type Horizon struct {
	Floor [Count]int64 // slots that start before it have expired
	Ready [Count]int64 // slots that start before it hold what the finer tier held; 0 is not used
	// Direct reports whether the tier may hold, at t, what no finer tier holds; nil: none
	// does.
	Direct func(tier int, t int64) bool
}

// finest returns the finest tier that holds everything that happened at t: finer slots
// may have expired, or the slot may have been put to a coarser tier directly.
func (h *Horizon) finest(t int64) int {
	tier := 0
	for tier < Count-1 && Floor(t, Slot(tier)) < h.Floor[tier] {
		tier++
	}
	if h.Direct == nil {
		return tier
	}
	for k := Count - 1; k > tier; k-- {
		if Floor(t, Slot(k))+Slot(k) <= h.Ready[k] && h.Direct(k, t) {
			return k
		}
	}
	return tier
}

// Cover returns what to read for the base slots that start in [start, end), cut into
// steps that begin at start (step 0: one). It chooses the coarsest slots that lie within
// one step, none coarser than the tier coarsest, and finer ones at the edges; where the
// finer ones are gone it chooses what is left, which may reach beyond the range. from and
// to are the range really covered, and the spans are ascending and disjoint. Nothing is
// read outside of [first, until), where there is nothing.
func (h *Horizon) Cover(start, end, step, first, until int64, coarsest int) (spans []Span, from, to int64) {
	from, to = start, end
	base := int64(series.Base)
	t, last := max(Ceil(start, base), first), min(Ceil(end, base), until)
	add := func(tier int, a, b int64) {
		if n := len(spans); n > 0 && spans[n-1].Tier == tier && spans[n-1].To == a {
			spans[n-1].To = b
		} else {
			spans = append(spans, Span{tier, a, b})
		}
	}
	for t < last {
		m := h.finest(t)
		c := coarsest
		for ; c > m; c-- {
			r := Slot(c)
			if t%r == 0 && t+r <= last && t+r <= h.Ready[c] && t >= h.Floor[c] &&
				(step == 0 || (t-start)/step == (t+r-base-start)/step) {
				break
			}
		}
		c = max(c, m)
		r := Slot(c)
		slot := Floor(t, r)
		if n := len(spans); n > 0 && slot < spans[n-1].To {
			slot = spans[n-1].To // cannot be read twice; only possible where tiers overlap oddly
		}
		if slot < t {
			from = min(from, slot)
		}
		if slot+r > Ceil(end, base) {
			to = max(to, slot+r)
		}
		next := slot + r
		add(c, slot, next)
		t = max(next, t+base)
	}
	return spans, from, to
}
