package pebblestore

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"tailscope/internal/series"
)

// lateKey is the key under which late points are added up.
type lateKey struct {
	tier  int
	slot  int64
	scope scope
}

func (p *putter) lateList(k lateKey) *[]placed {
	l := p.late[k]
	if l == nil {
		if n := len(p.spare); n > 0 {
			l, p.spare = p.spare[n-1], p.spare[:n-1]
		} else {
			l = &[]placed{}
		}
		p.late[k] = l
	}
	return l
}

// writeLate adds late points to the tiers that had passed their slots, if these end by
// the moment, and writes the runs of partitions that do.
func (p *putter) writeLate(by int64) error {
	var due []lateKey
	for k := range p.late {
		if by == math.MaxInt64 || k.slot+tierSlot[k.tier] <= by {
			due = append(due, k)
		}
	}
	slices.SortFunc(due, func(a, b lateKey) int {
		return cmp.Or(cmp.Compare(a.tier, b.tier), cmp.Compare(a.slot, b.slot), cmp.Compare(a.scope, b.scope))
	})
	for _, k := range due {
		l := p.late[k]
		p.inOrder(*l)
		if err := p.addLate(k, *l); err != nil {
			return err
		}
		*l = (*l)[:0]
		p.spare = append(p.spare, l)
		delete(p.late, k)
	}
	return p.writeRuns(by)
}

// addLate writes points in order of number, those of one series added up.
func (p *putter) addLate(k lateKey, l []placed) error {
	r, err := p.runFor(scopeID{partID{k.tier, partOf(k.tier, k.slot)}, k.scope})
	if err != nil {
		return err
	}
	entries := slices.Grow(p.entries[:0], len(l))
	var kinds map[uint32]series.Kind
	if p.retry {
		kinds = map[uint32]series.Kind{}
	}
	p.merged = p.merged[:0]
	for len(l) > 0 {
		n, number := 1, l[0].number()
		for n < len(l) && l[n].number() == number {
			n++
		}
		first := &p.pts[uint32(l[0])]
		kind, data := p.b.Series[first.Series].Kind, first.Data
		if n > 1 {
			p.parts = p.parts[:0]
			for _, r := range l[:n] {
				p.parts = append(p.parts, p.pts[uint32(r)].Data)
			}
			sum, err := p.merger.merge(kind, p.parts)
			if err != nil {
				return err
			}
			data = sum
			if r == nil {
				data = p.copyMerged(sum)
			}
		}
		if r != nil {
			r.add(p.rankOf(first.Series), k.slot, data)
		} else {
			entries = append(entries, entry{number, data})
		}
		p.s.stats.late.Add(1)
		if p.retry {
			kinds[number] = kind
		}
		l = l[n:]
	}
	p.entries = entries
	if p.retry {
		old, err := p.readPrevious(k.tier, k.slot, k.scope, originLate)
		if err != nil {
			return err
		}
		entries, err = unite(old, entries, func(a, b entry) (entry, error) {
			data, err := p.merger.merge(kinds[a.number], [][]byte{a.data, b.data})
			return entry{a.number, bytes.Clone(data)}, err
		})
		if err != nil {
			return err
		}
		if err := p.deletePrevious(k.tier, k.slot, k.scope, originLate); err != nil {
			return err
		}
	}
	return p.writeChunks(k.tier, k.slot, k.scope, originLate, entries)
}

// copyMerged copies b into merged, or into its next block.
func (p *putter) copyMerged(b []byte) []byte {
	if cap(p.merged)-len(p.merged) < len(b) {
		p.merged = make([]byte, 0, max(256<<10, len(b)))
	}
	at := len(p.merged)
	p.merged = append(p.merged, b...)
	return p.merged[at:len(p.merged):len(p.merged)]
}
