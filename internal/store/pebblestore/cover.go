package pebblestore

import "tailscope/internal/series"

// span is a range of slots of one tier, [from, to) in Unix seconds.
type span struct {
	tier     int
	from, to int64
}

// horizon determines which slots exist.
type horizon struct {
	floor, ready [numTiers]int64
	direct       map[partID]bool
}

// finest returns the finest tier that holds everything that happened at t: finer slots
// may have expired, or the slot may have been put to a coarser tier directly.
func (h *horizon) finest(t int64) int {
	tier := 0
	for tier < tierSamples-1 && floorTo(t, tierSlot[tier]) < h.floor[tier] {
		tier++
	}
	for k := tierSamples - 1; k > tier; k-- {
		slot := floorTo(t, tierSlot[k])
		if h.direct[partID{k, partOf(k, t)}] && slot+tierSlot[k] <= h.ready[k] {
			return k
		}
	}
	return tier
}

// cover returns what to read for the base slots that start in [start, end), cut into
// steps that begin at start (step 0: one). It chooses the coarsest slots that lie within
// one step, and finer ones at the edges; where the finer ones are gone it chooses what
// is left, which may reach beyond the range. from and to are the range really covered,
// and the spans are ascending and disjoint. Nothing is read outside of [first, until),
// where there is nothing.
func (h *horizon) cover(start, end, step, first, until int64) (spans []span, from, to int64) {
	from, to = start, end
	base := int64(series.Base)
	t, last := max(ceilTo(start, base), first), min(ceilTo(end, base), until)
	add := func(tier int, a, b int64) {
		if n := len(spans); n > 0 && spans[n-1].tier == tier && spans[n-1].to == a {
			spans[n-1].to = b
		} else {
			spans = append(spans, span{tier, a, b})
		}
	}
	for t < last {
		m := h.finest(t)
		c := tierSamples - 1
		for ; c > m; c-- {
			r := tierSlot[c]
			if t%r == 0 && t+r <= last && t+r <= h.ready[c] && t >= h.floor[c] &&
				(step == 0 || (t-start)/step == (t+r-base-start)/step) {
				break
			}
		}
		r := tierSlot[c]
		slot := floorTo(t, r)
		if n := len(spans); n > 0 && slot < spans[n-1].to {
			slot = spans[n-1].to // cannot be read twice; only possible where tiers overlap oddly
		}
		if slot < t {
			from = min(from, slot)
		}
		if slot+r > ceilTo(end, base) {
			to = max(to, slot+r)
		}
		next := slot + r
		add(c, slot, next)
		t = max(next, t+base)
	}
	return spans, from, to
}
