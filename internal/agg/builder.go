package agg

import (
	"cmp"
	"slices"
	"unsafe"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// builder builds store batches, and reuses its memory.
type builder struct {
	b       store.Batch
	sorted  []cellRef
	offsets []uint32
	number  []uint32 // by series: its index in the batch plus one
	data    [][]byte // blocks of the points' data
	block   int      // index of the block in use
	samples []series.Sample
	common  map[uint32]series.Series // by marginal: see tables.common
	tenants map[uint32]uint32        // by number in tables.tenants: the index in the batch
	h, h2   hist.Histogram
	times   pointTimes
	scratch *cells // of one cell at a time
	lost    int    // cells left out of the last batch
	err     error  // the reason of the last one
}

type cellRef struct {
	slot   uint32
	series uint32 // index in the batch
	cell   uint32
}

// reset drops the last batch, and its memory if that was much.
func (w *builder) reset() {
	if cap(w.b.Points) > 1<<16 || cap(w.b.Series) > 1<<16 || len(w.data) > 16 {
		*w = builder{lost: w.lost, err: w.err}
	}
}

// bytes returns the memory of the last batch, which is kept for the next one.
func (w *builder) bytes() int64 {
	sum := int64(cap(w.b.Points))*int64(unsafe.Sizeof(store.Point{})) + int64(cap(w.b.Series))*int64(unsafe.Sizeof(series.Series{})) +
		int64(cap(w.b.IDs)+cap(w.b.Tenants))*16 + int64(cap(w.sorted))*12 + int64(cap(w.offsets)+cap(w.number)+cap(w.b.TenantOf))*4 + int64(cap(w.samples))*16
	for _, b := range w.data {
		sum += int64(cap(b))
	}
	return sum
}

// batch builds the store batch of a frozen generation. The result is valid until the
// next call.
func (w *builder) batch(g *generation, t *tables) *store.Batch {
	b := &w.b
	clear(b.Series)
	clear(b.Tenants)
	clear(b.Points)
	*b = store.Batch{Series: b.Series[:0], IDs: b.IDs[:0], Tenants: b.Tenants[:0], TenantOf: b.TenantOf[:0], Points: b.Points[:0], Samples: b.Samples[:0], State: g.records, Families: b.Families[:0]}
	c := g.cells
	if len(w.number) < len(c.heads) {
		w.number = make([]uint32, len(c.heads)+len(c.heads)/4)
	}
	clear(w.number)
	n := 0
	for _, h := range c.heads {
		if h != 0 {
			n++
		}
	}
	b.Series, b.IDs, b.TenantOf = slices.Grow(b.Series, n), slices.Grow(b.IDs, n), slices.Grow(b.TenantOf, n)
	b.Tenants = append(slices.Grow(b.Tenants, 1+len(c.members.tenants)), "")
	for i := range c.members.tenants {
		b.Tenants = append(b.Tenants, c.members.tenants[i].name)
	}
	w.tenants = map[uint32]uint32{}
	w.common = map[uint32]series.Series{}
	for s, h := range c.heads {
		if h == 0 {
			continue
		}
		x, tenant := t.meta.at(uint32(s)), uint32(0)
		if r := t.series.at(uint32(s)); r.like != 0 {
			common, ok := w.common[r.like]
			if !ok {
				common = t.common(r.like)
				w.common[r.like] = common
			}
			x, tenant = &common, w.tenant(&c.members, r.tenant, t.tenants.at(r.tenant).name)
		}
		b.Series = append(b.Series, *x)
		b.IDs, b.TenantOf = append(b.IDs, t.ids[s]), append(b.TenantOf, tenant)
		w.number[s] = uint32(len(b.Series))
	}
	w.sortBySlot(c)
	w.points(b, c)
	if c.members.n > 0 {
		w.memberPoints(b, c.members.order(64))
	}
	w.rawSamples(b, c)
	w.families(b, g)
	return b
}

// tenant returns the index in the batch of a tenant's name, which has a number in the tables;
// the names in the log are there already.
func (w *builder) tenant(l *memberLog, number uint32, name string) uint32 {
	if i, ok := w.tenants[number]; ok || name == "" {
		return i
	}
	i := uint32(len(w.b.Tenants))
	if k := l.tenant(name, tenantHash(name)); k != 0 {
		i = k
	} else {
		w.b.Tenants = append(w.b.Tenants, name)
	}
	w.tenants[number] = i
	return i
}

// sortBySlot fills sorted with the cells in order of slot, and within a slot of series.
func (w *builder) sortBySlot(c *cells) {
	count := int(c.count) - 1
	w.sorted = slices.Grow(w.sorted[:0], count)[:count]
	if count == 0 {
		return
	}
	least, most := ^uint32(0), uint32(0)
	for i := uint32(1); i < c.count; i++ {
		slot := c.at(i).key >> 2
		least, most = min(least, slot), max(most, slot)
	}
	span := int(most-least) + 1
	if span > 1<<20 {
		i := 0
		w.eachCell(c, func(r cellRef) { w.sorted[i] = r; i++ })
		slices.SortStableFunc(w.sorted, func(a, b cellRef) int { return cmp.Compare(a.slot, b.slot) })
		return
	}
	w.offsets = slices.Grow(w.offsets[:0], span+1)[:span+1]
	clear(w.offsets)
	for i := uint32(1); i < c.count; i++ {
		w.offsets[c.at(i).key>>2-least+1]++
	}
	for i := 1; i <= span; i++ {
		w.offsets[i] += w.offsets[i-1]
	}
	w.eachCell(c, func(r cellRef) {
		p := &w.offsets[r.slot-least]
		w.sorted[*p] = r
		*p++
	})
}

// eachCell calls yield with the cells of each series in turn, along their chains.
func (w *builder) eachCell(c *cells, yield func(cellRef)) {
	for s, h := range c.heads {
		for ; h != 0; h = c.at(h).next {
			yield(cellRef{c.at(h).key >> 2, w.number[s] - 1, h})
		}
	}
}

// dataBlock is the size in bytes of a block of points' data.
const dataBlock = 256 << 10

// openBlock returns the block to append a point's data to.
func (w *builder) openBlock() []byte {
	const most = 16 << 10 // enough for nearly every point
	for ; w.block < len(w.data); w.block++ {
		if b := w.data[w.block]; cap(b)-len(b) >= most {
			return b
		}
	}
	w.data = append(w.data, make([]byte, 0, dataBlock))
	return w.data[w.block]
}

// points encodes the cells in order. It leaves out and counts a cell that cannot be
// encoded, which takes a histogram that contradicts itself or its neighbours, so that
// the others are stored.
func (w *builder) points(b *store.Batch, c *cells) {
	for i := range w.data {
		w.data[i] = w.data[i][:0]
	}
	w.block, w.lost = 0, 0
	b.Points = slices.Grow(b.Points, len(w.sorted))
	for i := 0; i < len(w.sorted); {
		r := w.sorted[i]
		// A series may hold durations, histograms and both in one slot.
		j := i + 1
		for j < len(w.sorted) && w.sorted[j].slot == r.slot && w.sorted[j].series == r.series {
			j++
		}
		cells := w.sorted[i:j]
		i = j
		first, data := c.at(r.cell), w.openBlock()
		from := len(data)
		var err error
		switch {
		case first.mode() == modeNumber:
			data = store.AppendNumber(data, first.asNumber())
		case len(cells) == 1 && first.mode() == modeBlobs && first.n == 1:
			data = append(data, c.blobBytes(first.w[0])...)
		case len(cells) == 1 && first.mode() == modeDurations:
			data, err = c.appendDurations(data, first, &w.h)
		default:
			w.merge(c, cells)
			if w.h2.Count == 0 {
				continue
			}
			data, err = w.h2.AppendBinary(data)
		}
		if err != nil {
			w.lost, w.err = w.lost+1, err
			continue
		}
		w.data[w.block] = data // appending a giant point may have moved it
		b.Points = append(b.Points, store.Point{Series: r.series, Slot: int64(r.slot) * int64(series.Base), Data: data[from:len(data):len(data)]})
	}
	for i := range w.data {
		if cap(w.data[i]) > 2*dataBlock {
			w.data[i] = make([]byte, 0, dataBlock)
		}
	}
}

// merge merges into h2 several cells of one series and slot, or one of several blobs.
func (w *builder) merge(c *cells, refs []cellRef) {
	w.h2.Reset(cellSchema)
	for _, r := range refs {
		x := c.at(r.cell)
		if x.mode() == modeDurations {
			c.histogram(&w.h, x)
			if err := w.h2.Merge(&w.h); err != nil {
				w.lost, w.err = w.lost+1, err
			}
			continue
		}
		for k := range int(x.n) {
			if err := mergeInto(&w.h2, c.blobBytes(x.w[k])); err != nil {
				w.lost, w.err = w.lost+1, err
			}
		}
	}
}

// rawSamples groups the samples, which are sorted, by series. Of equal times it keeps the
// sample that came last.
func (w *builder) rawSamples(b *store.Batch, c *cells) {
	raw := c.samples
	w.samples = slices.Grow(w.samples[:0], len(raw))
	for i := 0; i < len(raw); {
		s, from := raw[i].series, len(w.samples)
		for ; i < len(raw) && raw[i].series == s; i++ {
			v := series.Sample{TimeMillis: raw[i].millis, Value: raw[i].value}
			if k := len(w.samples); k > from && w.samples[k-1].TimeMillis == v.TimeMillis {
				w.samples[k-1] = v
				continue
			}
			w.samples = append(w.samples, v)
		}
		b.Samples = append(b.Samples, store.Samples{Series: w.number[s] - 1, Samples: w.samples[from:len(w.samples):len(w.samples)]})
	}
}

// families declares every family of the batch, with its interval if that is known.
func (w *builder) families(b *store.Batch, g *generation) {
	b.Families = append(b.Families, g.infos...)
	last := ""
	for i := range b.Series {
		s := &b.Series[i]
		if s.Family == last {
			continue
		}
		last = s.Family
		b.Families = append(b.Families, store.FamilyInfo{Name: s.Family, Kind: s.Kind})
	}
	// The declared entry of a family comes first.
	slices.SortStableFunc(b.Families, func(x, y store.FamilyInfo) int { return cmp.Compare(x.Name, y.Name) })
	b.Families = slices.CompactFunc(b.Families, func(x, y store.FamilyInfo) bool { return x.Name == y.Name })
}
