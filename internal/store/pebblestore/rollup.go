package pebblestore

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// rollUp makes the tier's slots that are over from the finer tier.
func (s *Store) rollUp(ctx context.Context, tier int, now time.Time) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.write.Lock()
		more, err := s.rollNext(ctx, tier, now)
		s.write.Unlock()
		if err != nil || !more {
			return err
		}
	}
}

// rollNext rolls up the next slot that holds something, and reports whether there may be
// another. The caller holds write.
func (s *Store) rollNext(ctx context.Context, tier int, now time.Time) (more bool, err error) {
	s.mu.RLock()
	ready := s.ready
	s.mu.RUnlock()
	target := now.Add(-s.opts.Rollup).Unix()
	if tier > 1 {
		target = ready[tier-1]
	}
	target = floorTo(target, tierSlot[tier])
	if target <= ready[tier] {
		return false, nil
	}
	c, err := s.newScanner(ctx, s.db)
	if err != nil {
		return false, err
	}
	defer c.close()
	slot, scopes, err := c.nextSlot(tier, ready[tier], target)
	if err != nil {
		return false, err
	}
	wb := s.db.NewBatch()
	defer wb.Close()
	fresh := map[scopeID]freshState{}
	points := 0
	until := target
	if len(scopes) > 0 {
		until = slot + tierSlot[tier]
		r := roller{s: s, scanner: c, wb: wb, merger: s.newMerger()}
		for _, sc := range scopes {
			added, n, err := r.roll(tier, slot, sc)
			if err != nil {
				return false, err
			}
			points += n
			fresh[scopeID{partID{tier, partOf(tier, slot)}, sc}] = added
		}
	}
	if err := wb.Set(metaKey(metaReady, tier), metaTime(until), nil); err != nil {
		return false, err
	}
	// No sync: a rollup that a crash loses is made again, and a later synced Put, which
	// relies on it, cannot survive without it.
	if err := s.commit(wb, pebble.NoSync); err != nil {
		return false, err
	}
	s.mu.Lock()
	s.ready[tier] = until
	s.mu.Unlock()
	for id, a := range fresh {
		s.addFresh(id, a)
	}
	s.stats.rolledUp.Add(uint64(points))
	return until < target, nil
}

func (s *Store) addFresh(id scopeID, a freshState) {
	f := s.fresh[id]
	if f == nil {
		f = &freshState{}
		s.fresh[id] = f
	}
	at := s.opts.Elapsed()
	if f.chunks == 0 || at-f.last >= s.opts.Quiet {
		f.since = at
	}
	f.last = at
	f.chunks += a.chunks
	f.bytes += a.bytes
	f.changes++
}

// nextSlot finds the first slot of the tier in [from, to) for which the finer tier holds
// something, and the scopes that do.
func (c *scanner) nextSlot(tier int, from, to int64) (slot int64, scopes []scope, err error) {
	fine := tier - 1
	prefix := tierPrefix(nil, fine)
	c.it.SetBounds(prefix, prefixEnd(prefix))
	slot = math.MaxInt64
	from = max(from, farPast)
	for ok := c.it.SeekGE(partPrefix(nil, fine, partOf(fine, from))); ok; {
		key := c.it.Key()
		part, sc := readTime(key[2:]), scope(readUint32(key[6:]))
		if part >= to || part > slot {
			break
		}
		lo := 0
		if from > part {
			lo = int((from - part) / tierSlot[fine])
		}
		first := slotPrefix(nil, fine, part, sc, lo)
		if c.it.SeekGE(first) {
			key = c.it.Key()
			if len(key) == chunkKeyLen && string(key[:scopePrefixLen+1]) == string(first[:scopePrefixLen+1]) {
				ck, err := parseChunkKey(key)
				if err != nil {
					return 0, nil, err
				}
				at := floorTo(part+int64(ck.slot)*tierSlot[fine], tierSlot[tier])
				switch {
				case at >= to:
				case at < slot:
					slot, scopes = at, append(scopes[:0], sc)
				case at == slot && (len(scopes) == 0 || scopes[len(scopes)-1] != sc):
					scopes = append(scopes, sc)
				}
			}
		} else if err := c.it.Error(); err != nil {
			return 0, nil, classify(err) // the next move would clear it, and the slot would seem empty
		}
		ok = c.it.SeekGE(scopePrefix(nil, fine, part, sc+1))
	}
	return slot, scopes, classify(c.it.Error())
}

// roller adds up the points of finer slots.
type roller struct {
	s       *Store
	scanner *scanner
	wb      *pebble.Batch
	merger  *merger

	arena    []byte
	points   []located
	sorted   []located
	entries  []entry
	parts    [][]byte
	out      []byte
	key, val []byte
}

// located is a point, by the range of its bytes in an arena.
type located struct {
	number    uint32
	off, size uint32
	slot      uint16
}

// bytesIn returns the point's bytes.
func (l *located) bytesIn(arena []byte) []byte { return arena[l.off : l.off+l.size : l.off+l.size] }

// sortByNumber sorts stably, by counting: numbers are dense.
func sortByNumber(dst, src []located, numbers int) []located {
	at := make([]uint32, numbers+1)
	for i := range src {
		at[src[i].number+1]++
	}
	for i := 1; i < len(at); i++ {
		at[i] += at[i-1]
	}
	if cap(dst) < len(src) {
		dst = make([]located, len(src))
	}
	dst = dst[:len(src)]
	for i := range src {
		n := src[i].number
		dst[at[n]] = src[i]
		at[n]++
	}
	return dst
}

// defaultRollSeries is the number of series added up at once, which bounds memory: ten
// minutes of so many take some 15 MB.
const defaultRollSeries = 1 << 14

func (r *roller) roll(tier int, slot int64, sc scope) (added freshState, points int, err error) {
	u, err := r.s.units.get(dayOf(slot), sc)
	if err != nil {
		return added, 0, err
	}
	for first := 0; first < len(u.kinds); first += r.s.rollSeries {
		a, n, err := r.rollRange(tier, slot, u, first, min(first+r.s.rollSeries, len(u.kinds)))
		if err != nil {
			return added, points, err
		}
		points += n
		added.chunks += a.chunks
		added.bytes += a.bytes
	}
	return added, points, nil
}

// rollRange rolls up the series with the numbers [first, until).
func (r *roller) rollRange(tier int, slot int64, u *unit, first, until int) (freshState, int, error) {
	fine := tier - 1
	part := partOf(fine, slot)
	a := area{tier: fine, part: part, lo: int((slot - part) / tierSlot[fine]), shards: 1}
	a.hi = a.lo + int(tierSlot[tier]/tierSlot[fine])
	r.arena, r.points = r.arena[:0], r.points[:0]
	err := r.scanner.chunks(a, u.scope, selectRange(first, until), func(number uint32, slot int, data []byte) error {
		r.points = append(r.points, located{number: number - uint32(first), slot: uint16(slot), size: uint32(len(data)), off: uint32(len(r.arena))})
		r.arena = append(r.arena, data...)
		return nil
	})
	if err != nil || len(r.points) == 0 {
		return freshState{}, 0, err
	}
	r.sorted = sortByNumber(r.sorted, r.points, until-first)
	r.entries, r.out = r.entries[:0], r.out[:0]
	for l := r.sorted; len(l) > 0; {
		number := l[0].number
		r.parts = r.parts[:0]
		for len(l) > 0 && l[0].number == number {
			r.parts = append(r.parts, l[0].bytesIn(r.arena))
			l = l[1:]
		}
		number += uint32(first)
		data, err := r.merger.merge(u.kinds[number], r.parts)
		if err != nil {
			return freshState{}, 0, fmt.Errorf("series %d of scope %d in slot %d: %w", number, u.scope, slot, err)
		}
		if len(r.parts) > 1 {
			n := len(r.out)
			r.out = append(r.out, data...)
			data = r.out[n:] // stays valid if out grows: the old array is not written to any more
		}
		r.entries = append(r.entries, entry{number, data})
	}
	added, err := writeChunks(r.wb, tier, slot, u.scope, originRollup, 0, 0, r.entries, &r.key, &r.val)
	return added, len(r.entries), err
}

// selectAll selects all n series of a unit.
func selectAll(n int) *selection { return selectRange(0, n) }

// selectRange selects the series with the numbers [first, until).
func selectRange(first, until int) *selection {
	sel := &selection{group: make([]int32, until), numbers: make([]uint32, until-first)}
	for i := range sel.group[:first] {
		sel.group[i] = -1
	}
	for i := range sel.numbers {
		sel.numbers[i] = uint32(first + i)
	}
	return sel
}

// freshCounted bounds the chunks of a scope that are counted when the store is opened:
// enough to distinguish a little late data from a partition that was never compacted.
const freshCounted = 200

// readFresh finds the partitions that were not compacted when the store was opened.
func (s *Store) readFresh(ctx context.Context) error {
	if s.freshRead {
		return nil
	}
	c, err := s.newScanner(ctx, s.db)
	if err != nil {
		return err
	}
	defer c.close()
	for tier := range numTiers {
		prefix := tierPrefix(nil, tier)
		c.it.SetBounds(prefix, prefixEnd(prefix))
		for ok := c.it.First(); ok; {
			if err := ctx.Err(); err != nil {
				return err
			}
			key := c.it.Key()
			part, sc := readTime(key[2:]), scope(readUint32(key[6:]))
			n := 0
			for n < freshCounted && ok && c.it.Key()[scopePrefixLen] == classChunk &&
				readTime(c.it.Key()[2:]) == part && scope(readUint32(c.it.Key()[6:])) == sc {
				n++
				ok = c.it.Next()
			}
			if err := c.it.Error(); err != nil {
				return classify(err)
			}
			if id := (scopeID{partID{tier, part}, sc}); n > 0 && s.fresh[id] == nil {
				s.fresh[id] = &freshState{chunks: n}
			}
			ok = c.it.SeekGE(scopePrefix(nil, tier, part, sc+1))
		}
		if err := c.it.Error(); err != nil {
			return classify(err)
		}
	}
	s.freshRead = true
	return nil
}
