package pebblestore

import (
	"bytes"
)

// diffRepeated determines what a repeated generation changes. It returns the entries to write
// in place of what it put before, and which of them count as new.
func (p *putter) diffRepeated(tier int, slot int64, sc scope, entries []entry) ([]entry, func(uint32) bool, error) {
	none := func(uint32) bool { return false }
	t, at, origin := p.finest(tier, slot, sc)
	part := partOf(t, at)
	folded, err := p.s.readFolded(p.s.db, t, part, sc)
	if err != nil {
		return nil, nil, err
	}
	if folded.has(p.w.number, p.b.Generation) {
		return nil, none, nil
	}
	old, err := p.readPrevious(t, at, sc, origin)
	if err != nil {
		return nil, nil, err
	}
	isNew := func(n uint32) bool { return !contains(old, n) }
	if t != tier {
		return nil, isNew, nil
	}
	final := tier+1 < tierSamples && slot < p.ready[tier+1]
	write, err := unite(old, entries, func(a, b entry) (entry, error) {
		switch {
		case tier == tierSamples:
			data, err := mergeSampleData([][]byte{a.data, b.data})
			return entry{a.number, data}, err
		case final:
			return a, nil
		}
		return b, nil
	})
	if err != nil {
		return nil, nil, err
	}
	return write, isNew, p.deletePrevious(tier, slot, sc, originPut)
}

// finest returns the finest tier that still keeps a slot, which holds what was put there
// before, the slot of that tier, and the origin of what was put.
func (p *putter) finest(tier int, slot int64, sc scope) (t int, at int64, origin byte) {
	t, at, origin = tier, slot, originPut
	for tier != tierSamples && !p.keeps(t, at, sc) && t+1 < tierSamples {
		t++
		at, origin = floorTo(slot, tierSlot[t]), originLate
	}
	return t, at, origin
}

// readPrevious reads the entries that this generation has put at an address.
func (p *putter) readPrevious(tier int, slot int64, sc scope, origin byte) ([]entry, error) {
	part := partOf(tier, slot)
	prefix := generationPrefix(nil, tier, part, sc, int((slot-part)/tierSlot[tier]), origin, p.w.number, p.b.Generation)
	var old []entry
	err := p.s.each(prefix, func(k, v []byte) error {
		ck, err := parseChunkKey(k)
		if err != nil {
			return err
		}
		c, err := openChunk(v, ck.first)
		if err != nil {
			return err
		}
		for n, data, ok := c.next(); ok; n, data, ok = c.next() {
			old = append(old, entry{n, bytes.Clone(data)})
		}
		return nil
	})
	return old, err
}

// deletePrevious deletes what this generation has put at an address.
func (p *putter) deletePrevious(tier int, slot int64, sc scope, origin byte) error {
	part := partOf(tier, slot)
	prefix := generationPrefix(nil, tier, part, sc, int((slot-part)/tierSlot[tier]), origin, p.w.number, p.b.Generation)
	id := scopeID{partID{tier, part}, sc}
	if _, ok := p.fresh[id]; !ok {
		p.fresh[id] = freshState{} // the scope changes, even if nothing is added
	}
	return p.wb.DeleteRange(prefix, prefixEnd(prefix), nil)
}
