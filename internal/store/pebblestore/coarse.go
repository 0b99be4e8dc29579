package pebblestore

import (
	"fmt"
	"math"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// The breakdown of requests that are sent long after they ended has minutes as its finest
// slots (series.OldBreakdown). Where requests are few, base slots of it hold one request
// each: as many points as there are requests, times their parts, times the families. So
// Put adds it to the tiers that have passed it alone, and marks the scope's partition of
// minutes, so that questions read it there.

// inMinutes reports whether a base slot of the scope is stored in minutes and longer
// slots alone.
func (p *putter) inMinutes(slot int64, sc scope) bool {
	minute := floorTo(slot, tierSlot[1])
	return p.breakdown[sc] && minute < p.old && minute < p.ready[1] && minute >= p.floor[1]
}

// keeps reports whether what is put into a slot of the tier is stored there.
func (p *putter) keeps(tier int, slot int64, sc scope) bool {
	return slot >= p.floor[tier] && !(tier == 0 && p.inMinutes(slot, sc))
}

// markCoarse marks the minutes that hold a base slot of the scope.
func (p *putter) markCoarse(slot int64, sc scope) {
	id := scopeID{partID{1, partOf(1, slot)}, sc}
	p.s.mu.RLock()
	known := p.s.coarse[sc][id.partID]
	p.s.mu.RUnlock()
	if !known {
		p.coarse[id] = true
	}
}

// addCoarse notes a mark. The caller holds mu.
func (s *Store) addCoarse(id scopeID) {
	if s.coarse[id.scope] == nil {
		s.coarse[id.scope] = map[partID]bool{}
	}
	s.coarse[id.scope][id.partID] = true
}

func (s *Store) loadCoarse() error {
	return s.each([]byte{tableCoarse}, func(k, _ []byte) error {
		if len(k) != 10 || int(k[1]) >= tierSamples {
			return fmt.Errorf("key %x: %w", k, store.ErrCorrupt)
		}
		s.addCoarse(scopeID{partID{int(k[1]), readTime(k[2:])}, scope(readUint32(k[6:]))})
		return nil
	})
}

// oldBreakdown returns the moment before which the breakdown is old, as Maintain last had
// it from the clock.
func (s *Store) oldBreakdown() int64 {
	if now := s.wall.Load(); now != 0 {
		return now - series.OldBreakdown
	}
	return math.MinInt64
}
