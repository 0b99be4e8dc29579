package pebblestore

import (
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"
)

// writeChunks writes entries of one slot and scope.
func (p *putter) writeChunks(tier int, slot int64, sc scope, origin byte, entries []entry) error {
	part := partOf(tier, slot)
	added, err := writeChunks(p.wb, tier, slot, sc, origin, p.w.number, p.b.Generation, entries, &p.keyBuf, &p.valBuf)
	if err != nil {
		return err
	}
	id := scopeID{partID{tier, part}, sc}
	f := p.fresh[id]
	f.chunks += added.chunks
	f.bytes += added.bytes
	p.fresh[id] = f
	return nil
}

func writeChunks(wb *pebble.Batch, tier int, slot int64, sc scope, origin byte, w uint32, gen uint64, entries []entry, key, val *[]byte) (freshState, error) {
	part := partOf(tier, slot)
	*key = generationPrefix((*key)[:0], tier, part, sc, int((slot-part)/tierSlot[tier]), origin, w, gen)
	n := len(*key)
	var added freshState
	for len(entries) > 0 {
		k := chunkLen(entries)
		*key = binary.BigEndian.AppendUint32((*key)[:n], entries[0].number)
		*val = appendChunk((*val)[:0], entries[:k])
		if err := wb.Set(*key, *val, nil); err != nil {
			return added, err
		}
		added.chunks++
		added.bytes += int64(len(*val))
		entries = entries[k:]
	}
	return added, nil
}
