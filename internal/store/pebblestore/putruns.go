package pebblestore

import (
	"bytes"
	"context"
	"math/rand/v2"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"tailscope/internal/series"
)

// Old data comes in batches that hold whole partitions. As chunks these would be logged,
// read back and rewritten, so Put writes them as runs. A run stands for a partition that
// is compacted: the coarser tiers have passed it, its generation is in its folded list,
// and what comes later lies beside it.

// stragglers is how long after a partition a batch must go on for its run to be written:
// what concurrent senders send in order of time comes that close together.
const stragglers = 60

// runPut collects what the batch holds of a partition and scope, for its run.
type runPut struct {
	id     scopeID
	arena  []byte
	points []located // number is the rank of the series
}

// runOrder is the order of the batch's series of a scope in runs.
type runOrder struct {
	series []uint32 // indices into b.Series, by rank
	groups []uint32 // by rank; see unit.groups
}

// passOld rolls up what the batch leaves behind, while Maintain has no clock that it
// believes and follows the newest slot. Otherwise the first hours of old data that a new
// store is sent would be rolled up slot by slot. The caller holds write.
func (s *Store) passOld(ctx context.Context, newest int64) error {
	c := s.believed.Load()
	if c == nil || c.moment != farPast {
		return nil
	}
	passed, _ := c.passed(s.monotonic())
	until := time.Unix(min(newest-stragglers, c.standing+passed), 0)
	for tier := 1; tier < tierSamples; tier++ {
		for more := true; more; {
			if err := ctx.Err(); err != nil {
				return err
			}
			var err error
			if more, err = s.rollNext(ctx, tier, until); err != nil {
				return err
			}
		}
	}
	return nil
}

// newest returns the newest slot of the batch, which has points in order of slot.
func (p *putter) newest() int64 { return p.pts[len(p.pts)-1].Slot }

// runFor returns where the points of a partition and scope are collected for a run, or
// nil if they are written as chunks: the partition may not be over, more of it may come
// with the next batch, or something of it is stored already.
func (p *putter) runFor(id scopeID) (*runPut, error) {
	if p.retry || p.restoring != nil || p.tier != 0 || id.tier == tierSamples {
		return nil, nil
	}
	end := id.part + tierPart[id.tier]
	if p.newest() < end+stragglers || !passed(&p.ready, id.tier, end) {
		return nil, nil
	}
	if r, known := p.runs[id]; known {
		return r, nil
	}
	var r *runPut
	empty, err := p.empty(id)
	if err != nil {
		return nil, err
	}
	if empty {
		r = &runPut{id: id}
		if n := len(p.spareRuns); n > 0 {
			r, p.spareRuns = p.spareRuns[n-1], p.spareRuns[:n-1]
			*r = runPut{id: id, arena: r.arena[:0], points: r.points[:0]}
		}
	}
	p.runs[id] = r
	return r, nil
}

// passed reports whether this tier and the next have passed the moment, so that nothing
// before it is still to be rolled up.
func passed(ready *[numTiers]int64, tier int, at int64) bool {
	return (tier == 0 || tier == tierSamples || ready[tier] >= at) && (tier+1 >= tierSamples || ready[tier+1] >= at)
}

// empty reports whether nothing is stored of the partition and scope.
func (p *putter) empty(id scopeID) (bool, error) {
	if p.it == nil {
		it, err := p.s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{tablePoints}, UpperBound: []byte{tablePoints + 1}})
		if err != nil {
			return false, classify(err)
		}
		p.it = it
	}
	p.keyBuf = scopePrefix(p.keyBuf[:0], id.tier, id.part, id.scope)
	found := p.it.SeekGE(p.keyBuf) && bytes.HasPrefix(p.it.Key(), p.keyBuf)
	return !found, classify(p.it.Error())
}

// add appends the point of a series in a slot; slots ascend.
func (r *runPut) add(rank uint32, slot int64, data []byte) {
	at := uint16((slot - r.id.part) / tierSlot[r.id.tier])
	r.points = append(r.points, located{number: rank, slot: at, size: uint32(len(data)), off: uint32(len(r.arena))})
	r.arena = append(r.arena, data...)
}

// writeRuns writes the runs of the partitions that end by the moment.
func (p *putter) writeRuns(by int64) error {
	for id, r := range p.runs {
		if id.part+tierPart[id.tier] > by {
			continue
		}
		delete(p.runs, id) // slots ascend: nothing more comes
		if r == nil {
			continue
		}
		if err := p.writeRun(r); err != nil {
			return err
		}
		p.spareRuns = append(p.spareRuns, r)
	}
	return nil
}

func (p *putter) writeRun(r *runPut) error {
	d := p.days[dayOf(r.id.part)]
	o := p.orders[r.id.scope]
	numbers := make([]uint32, len(o.series))
	for rank, si := range o.series {
		if n := d.numbers[si]; n != 0 {
			numbers[rank] = n - 1
		}
	}
	w := &p.compactor
	w.s, w.id, w.wb, w.merger = p.s, r.id, p.wb, p.merger
	w.dir = &directory{version: rand.Uint64(), starts: []uint32{0}}
	w.kinds = p.kinds(d.units[r.id.scope])
	w.arena, w.sorted = r.arena, sortByNumber(w.sorted, r.points, len(numbers))
	if err := w.write(numbers, o.groups); err != nil {
		return err
	}
	f := &folded{}
	f.add(p.w.number, []uint64{p.b.Generation})
	if err := w.setFolded(f); err != nil {
		return err
	}
	return w.finish()
}

// kinds returns the kinds of the unit's series with those that the batch adds, by number.
func (p *putter) kinds(up *unitPut) []series.Kind {
	kinds := up.u.kinds[:up.base:up.base]
	for _, si := range up.series {
		kinds = append(kinds, p.b.Series[si].Kind)
	}
	return kinds
}

// rankOf returns the place of the batch's series in runs of its scope.
func (p *putter) rankOf(si uint32) uint32 {
	if p.ranks == nil {
		p.ranks = make([]uint32, len(p.b.Series))
	}
	if p.ranks[si] == 0 {
		sc := p.scopes[si]
		o := &runOrder{series: make([]uint32, 0, p.perScope[sc])}
		u := newUnit(0, sc)
		all := make([]newSeries, 0, p.perScope[sc])
		for i := range p.b.Series {
			if p.scopes[i] == sc {
				o.series = append(o.series, uint32(i))
				all = append(all, p.newSeries(uint32(i)))
			}
		}
		u.add(all, nil)
		order := u.order()
		o.groups = u.groups(order)
		for rank, n := range order {
			order[rank] = o.series[n]
			p.ranks[order[rank]] = uint32(rank) + 1
		}
		o.series = order
		p.orders[sc] = o
	}
	return p.ranks[si] - 1
}
