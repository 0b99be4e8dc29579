package pebblestore

import (
	"context"
	"encoding/binary"
	"slices"

	"tailscope/internal/series"
)

type dayPut struct {
	numbers []uint32 // by index into b.Series: the number plus one, or 0 if unknown
	units   map[scope]*unitPut
}

// unitPut is a unit with the series that this batch adds to it.
type unitPut struct {
	u       *unit
	base    uint32       // number of series it has
	series  []uint32     // indices in the batch
	ids     []series.ID  // by index in series plus one
	pending series.Table // of indices in series plus one
	recs    []placed     // content of the slot being written
}

// family finds or declares a family; the longest interval is kept.
func (p *putter) family(name string, kind series.Kind, interval int64) *family {
	if f := p.families[name]; f != nil {
		f.interval = max(f.interval, interval)
		return f
	}
	p.s.mu.RLock()
	f := p.s.families[name]
	p.s.mu.RUnlock()
	if f != nil && f.interval >= interval {
		return f
	}
	n := &family{name: name, kind: kind, interval: interval}
	if f != nil {
		n.number, n.kind = f.number, f.kind
	} else {
		n.number = p.nextFam
		p.nextFam++
	}
	p.families[name] = n
	return n
}

// resolve returns the number of the batch's series in the unit of the day.
func (p *putter) resolve(day int64, si uint32) (uint32, *unitPut, error) {
	if p.day == nil || p.at != day {
		p.at, p.day, p.unit = day, p.days[day], nil
		if p.day == nil {
			p.day = &dayPut{numbers: make([]uint32, len(p.b.Series)), units: map[scope]*unitPut{}}
			p.days[day] = p.day
		}
	}
	d := p.day
	sc := p.scopes[si]
	up := p.unit
	if up == nil || up.u.scope != sc {
		if up = d.units[sc]; up == nil {
			u, err := p.s.units.get(day, sc)
			if err != nil {
				return 0, nil, err
			}
			u.writable(p.b.Series[si].Family)
			u.lastPut = p.s.stats.puts.Load()
			up = &unitPut{u: u, base: uint32(len(u.kinds)), ids: make([]series.ID, 1)}
			if up.base == 0 { // all are new
				up.series = make([]uint32, 0, p.perScope[sc])
				up.ids = slices.Grow(up.ids, p.perScope[sc])
				up.pending.Grow(p.perScope[sc])
			}
			d.units[sc] = up
		}
		p.unit = up
	}
	if n := d.numbers[si]; n != 0 {
		return n - 1, up, nil
	}
	sr := &p.b.Series[si]
	var id series.ID
	if p.b.IDs != nil {
		id = withKind(p.b.IDs[si], sr.Kind)
	} else {
		id, p.idBuf = idOf(sr, p.idBuf)
	}
	n := up.u.table.Find(up.u.ids, id)
	if n == 0 {
		place := up.pending.Find(up.ids, id)
		if place == 0 {
			up.series = append(up.series, si)
			up.ids = append(up.ids, id)
			place = uint32(len(up.series))
			up.pending.Add(id, place)
		}
		n = up.base + place
	}
	d.numbers[si] = n
	return n - 1, up, nil
}

// newSeries returns a series of the batch, to be numbered.
func (p *putter) newSeries(si uint32) newSeries {
	s := newSeries{Series: &p.b.Series[si]}
	if p.b.TenantOf != nil {
		n := p.b.TenantOf[si]
		s.tenant, s.number = p.b.Tenants[n], n+1
	}
	return s
}

const indexBlockSeries = 1024

func (p *putter) writeIndex(ctx context.Context) error {
	var w indexWriter
	var ss []newSeries
	for day, d := range p.days {
		for sc, up := range d.units {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			for i := 0; i < len(up.series); i += indexBlockSeries {
				ss = ss[:0]
				for _, si := range up.series[i:min(i+indexBlockSeries, len(up.series))] {
					ss = append(ss, p.newSeries(si))
				}
				k := binary.BigEndian.AppendUint32(indexScopePrefix(nil, day, sc), up.base+uint32(i))
				p.valBuf = w.append(p.valBuf[:0], ss)
				if err := p.wb.Set(k, p.valBuf, nil); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
