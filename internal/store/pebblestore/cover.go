package pebblestore

import "tailscope/internal/store/tier"

// horizon determines which slots exist.
type horizon struct {
	floor, ready [numTiers]int64
	direct       map[partID]bool
}

// cover returns the slots to read for the base slots that start in [start, end); see
// tier.Horizon.
func (h *horizon) cover(start, end, step, first, until int64) (spans []tier.Span, from, to int64) {
	t := tier.Horizon{
		Floor: [tier.Count]int64(h.floor[:tier.Count]), Ready: [tier.Count]int64(h.ready[:tier.Count]),
		Direct: func(k int, at int64) bool { return h.direct[partID{k, partOf(k, at)}] },
	}
	return t.Cover(start, end, step, first, until, tier.Count-1)
}
