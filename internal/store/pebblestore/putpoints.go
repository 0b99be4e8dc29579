package pebblestore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// checkEvery is the number of points between Put's checks of ctx.
const checkEvery = 1024

// sortPoints sets pts.
func (p *putter) sortPoints() {
	pts := p.b.Points
	if !slices.IsSortedFunc(pts, func(a, b store.Point) int { return cmp.Compare(a.Slot, b.Slot) }) {
		pts = slices.Clone(pts)
		slices.SortStableFunc(pts, func(a, b store.Point) int { return cmp.Compare(a.Slot, b.Slot) })
	}
	p.pts = pts
}

func (p *putter) points(ctx context.Context) error {
	pts := p.pts
	var units []*unitPut
	for i := 0; i < len(pts); {
		slot, end := pts[i].Slot, i+1
		for end < len(pts) && pts[end].Slot == slot {
			end++
		}
		// The slots that only earlier ones add to are complete.
		if err := p.writeLate(slot); err != nil {
			return err
		}
		if p.expired(p.tier, slot) {
			p.s.stats.expired.Add(uint64(end - i))
		} else {
			day := dayOf(slot)
			units = units[:0]
			for k := i; k < end; k++ {
				if k%checkEvery == 0 && ctx.Err() != nil {
					return ctx.Err()
				}
				number, up, err := p.resolve(day, pts[k].Series)
				if err != nil {
					return err
				}
				if len(up.recs) == 0 {
					units = append(units, up)
				}
				up.recs = append(up.recs, placed(number)<<32|placed(k))
			}
			for _, up := range units {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if err := p.writeSlot(p.tier, slot, up.u.scope, pts, up.recs); err != nil {
					return err
				}
				up.recs = up.recs[:0]
			}
		}
		i = end
	}
	return nil
}

func (p *putter) samples(ctx context.Context) error {
	type place struct {
		slot int64
		sc   scope
	}
	bySlot := map[place][]placed{}
	gone := map[place]ranges{}
	var pts []store.Point
	for i := range p.b.Samples {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		si := p.b.Samples[i].Series
		ss := p.b.Samples[i].Samples
		if !slices.IsSortedFunc(ss, func(a, b series.Sample) int { return cmp.Compare(a.TimeMillis, b.TimeMillis) }) {
			return fmt.Errorf("samples of series %d are not in order of time", si)
		}
		for len(ss) > 0 {
			slot := floorTo(floorDiv(ss[0].TimeMillis, 1000), 3600)
			n := 1
			for n < len(ss) && floorDiv(ss[n].TimeMillis, 1000) < slot+3600 {
				n++
			}
			if p.expired(tierSamples, slot) {
				p.s.stats.expired.Add(uint64(n))
			} else {
				number, _, err := p.resolve(dayOf(slot), si)
				if err != nil {
					return err
				}
				at := place{slot, p.scopes[si]}
				if slot < p.s.thinned {
					// Late samples of a series whose samples were dropped are dropped
					// too.
					g, known := gone[at]
					if !known {
						if g, err = p.s.goneIfKnown(p.s.db, at.slot, at.sc); err != nil {
							return err
						}
						gone[at] = g
					}
					if g.has(uint64(number)) {
						p.s.stats.expired.Add(uint64(n))
						ss = ss[n:]
						continue
					}
				}
				bySlot[at] = append(bySlot[at], placed(number)<<32|placed(len(pts)))
				pts = append(pts, store.Point{Series: si, Data: appendSamples(nil, mergeSamples(slices.Clone(ss[:n])))})
			}
			ss = ss[n:]
		}
	}
	for at, recs := range bySlot {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := p.writeSlot(tierSamples, at.slot, at.sc, pts, recs); err != nil {
			return err
		}
	}
	return nil
}

// expired reports whether no tier keeps the slot any more.
func (p *putter) expired(tier int, slot int64) bool {
	if tier == tierSamples {
		return slot < p.floor[tierSamples]
	}
	for t := tier; t < tierSamples; t++ {
		if slot >= p.floor[t] {
			return false
		}
	}
	return true
}

// writeSlot writes what the batch holds in one slot and scope: recs, of pts.
func (p *putter) writeSlot(tier int, slot int64, sc scope, pts []store.Point, recs []placed) error {
	p.inOrder(recs)
	entries := slices.Grow(p.entries[:0], len(recs))
	for i, r := range recs {
		if i > 0 && r.number() == recs[i-1].number() {
			return fmt.Errorf("one series twice in slot %d", slot)
		}
		entries = append(entries, entry{r.number(), pts[uint32(r)].Data})
	}
	p.entries = entries
	if p.restoring != nil {
		return p.putBack(tier, slot, sc, entries)
	}
	write, isNew := entries, func(uint32) bool { return true }
	if p.retry {
		var err error
		if write, isNew, err = p.diffRepeated(tier, slot, sc, entries); err != nil {
			return err
		}
	}
	if tier == 0 && p.inMinutes(slot, sc) {
		p.markCoarse(slot, sc)
	} else if slot >= p.floor[tier] && len(write) > 0 {
		id := scopeID{partID{tier, partOf(tier, slot)}, sc}
		if r, err := p.runFor(id); err != nil {
			return err
		} else if r != nil {
			for _, rec := range recs {
				pt := &pts[uint32(rec)]
				r.add(p.rankOf(pt.Series), slot, pt.Data)
			}
		} else if err := p.writeChunks(tier, slot, sc, originPut, write); err != nil {
			return err
		}
		if tier > 0 && tier < tierSamples && !p.s.opts.Copy {
			p.s.mu.RLock()
			known := p.s.direct[id.partID]
			p.s.mu.RUnlock()
			if !known {
				p.direct[id.partID] = true
			}
		}
	}
	if tier == tierSamples {
		return nil
	}
	for t := tier + 1; t < tierSamples; t++ {
		up := floorTo(slot, tierSlot[t])
		if up >= p.ready[t] || up < p.floor[t] {
			continue
		}
		l := p.lateList(lateKey{t, up, sc})
		if !p.retry {
			*l = append(*l, recs...)
			continue
		}
		for _, r := range recs {
			if isNew(r.number()) {
				*l = append(*l, r)
			}
		}
	}
	return nil
}

// placed holds a point's number in the unit, above bit 32, and its index in the list of
// points.
type placed uint64

func (r placed) number() uint32 { return uint32(r >> 32) }

// inOrder sorts the points by number, points of one number by index.
func (p *putter) inOrder(recs []placed) {
	most, sorted := placed(0), true
	for _, r := range recs {
		sorted = sorted && r >= most
		most = max(most, r)
	}
	if sorted {
		return
	}
	if len(recs) < 256 {
		slices.Sort(recs)
		return
	}
	// The points come in order of index, and a pass is stable.
	p.sorting = slices.Grow(p.sorting[:0], len(recs))
	from, to := recs, p.sorting[:len(recs)]
	for shift := 32; most>>shift != 0; shift += radixBits {
		radixPass(from, to, shift)
		from, to = to, from
	}
	if &from[0] != &recs[0] {
		copy(recs, from)
	}
}

const radixBits = 11

// radixPass sorts from into to by the bits at shift, stably.
func radixPass(from, to []placed, shift int) {
	var at [1 << radixBits]uint32
	for _, v := range from {
		at[v>>shift&(1<<radixBits-1)]++
	}
	sum := uint32(0)
	for i, n := range at {
		at[i] = sum
		sum += n
	}
	for _, v := range from {
		d := v >> shift & (1<<radixBits - 1)
		to[at[d]] = v
		at[d]++
	}
}
