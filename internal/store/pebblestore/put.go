package pebblestore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Put stores a batch in one synced write. See the package comment for what a
// repeated address does. Points older than every retention are dropped and
// counted in Stats.Expired.
func (s *Store) Put(ctx context.Context, b *store.Batch) error {
	done, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	tier, err := checkBatch(b)
	if err != nil {
		return fmt.Errorf("put generation %d of %s: %w", b.Generation, b.Writer, err)
	}
	s.write.Lock()
	defer s.write.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.room(); err != nil {
		return fmt.Errorf("put generation %d of %s: %w", b.Generation, b.Writer, err)
	}
	p := putter{
		s: s, b: b, tier: tier, wb: s.db.NewBatch(),
		scopes: make([]scope, len(b.Series)), ids: make([]series.ID, len(b.Series)), hashed: make([]bool, len(b.Series)),
		days: map[int64]*dayPut{}, families: map[string]*family{}, fresh: map[scopeID]freshState{},
		direct: map[partID]bool{}, merger: newMerger(),
	}
	defer p.wb.Close()
	if err := p.put(); err != nil {
		return fmt.Errorf("put generation %d of %s: %w", b.Generation, b.Writer, err)
	}
	s.stats.puts.Add(1)
	s.stats.points.Add(uint64(len(b.Points)))
	return nil
}

func checkBatch(b *store.Batch) (tier int, err error) {
	if b.Writer == "" {
		return 0, errors.New("the batch names no writer")
	}
	if b.Generation == 0 {
		return 0, errors.New("generations start from 1")
	}
	if len(b.Points) > 0 || b.Resolution != 0 {
		if tier, err = tierOf(b.Resolution); err != nil {
			return 0, err
		}
	}
	for i := range b.Points {
		p := &b.Points[i]
		if int(p.Series) >= len(b.Series) {
			return 0, fmt.Errorf("point %d is of series %d, the batch has %d", i, p.Series, len(b.Series))
		}
		if p.Slot%int64(b.Resolution) != 0 || !inRange(p.Slot) {
			return 0, fmt.Errorf("point %d: slot %d is not a multiple of %d s", i, p.Slot, b.Resolution)
		}
		if b.Series[p.Series].Kind == series.Distribution {
			_, err = hist.Moments(p.Data)
		} else {
			_, err = store.DecodeNumber(p.Data)
		}
		if err != nil {
			return 0, fmt.Errorf("point %d: %w", i, err)
		}
	}
	for i := range b.Samples {
		ss := &b.Samples[i]
		if int(ss.Series) >= len(b.Series) {
			return 0, fmt.Errorf("samples %d are of series %d, the batch has %d", i, ss.Series, len(b.Series))
		}
		for _, v := range ss.Samples {
			if !inRange(v.TimeMillis / 1000) {
				return 0, fmt.Errorf("sample at %d ms is out of range", v.TimeMillis)
			}
		}
	}
	for i := range b.Series {
		if b.Series[i].Family == "" || b.Series[i].Kind > series.Counter || b.Series[i].View > series.Total {
			return 0, fmt.Errorf("series %d has no family, or an unknown kind or view", i)
		}
	}
	return tier, nil
}

// room refuses to write while the disk is nearly full, because Pebble cannot
// go on once a write to its log has failed.
func (s *Store) room() error {
	if s.opts.MinFreeBytes > 0 {
		u, err := s.opts.FS.GetDiskUsage(s.opts.Dir)
		switch {
		case errors.Is(err, vfs.ErrUnsupported):
		case err != nil:
			return fmt.Errorf("read free space of %s: %w", s.opts.Dir, err)
		case u.AvailBytes < uint64(s.opts.MinFreeBytes):
			return fmt.Errorf("%w on the disk of %s: %d MiB free, %d MiB must stay free", store.ErrFull, s.opts.Dir, u.AvailBytes>>20, s.opts.MinFreeBytes>>20)
		}
	}
	if s.opts.MaxBytes > 0 {
		// Expired data leaves with a later compaction, so the bound is firm
		// only some way beyond. Files about to be deleted do not count.
		limit := s.opts.MaxBytes + s.opts.MaxBytes/4 + 4*s.opts.MemtableBytes
		m := s.db.Metrics()
		if used := int64(m.DiskSpaceUsage() - m.WAL.ObsoletePhysicalSize - m.Table.Local.ObsoleteSize); used > limit {
			return fmt.Errorf("%w: %s holds %d MiB, its bound is %d MiB", store.ErrFull, s.opts.Dir, used>>20, s.opts.MaxBytes>>20)
		}
	}
	return nil
}

// putter turns one batch into one write. It changes nothing in memory before
// the write has succeeded.
type putter struct {
	s     *Store
	b     *store.Batch
	tier  int
	wb    *pebble.Batch
	w     writer
	isNew bool // the writer
	retry bool // the generation may have been put before

	ready, floor [numTiers]int64

	scopes []scope // by index into b.Series
	ids    []series.ID
	hashed []bool
	idBuf  []byte

	days     map[int64]*dayPut
	at       int64    // the day of day
	day      *dayPut  // the last one used
	unit     *unitPut // likewise, of the day
	entries  []entry
	families map[string]*family // new or changed
	nextFam  uint32
	fresh    map[scopeID]freshState
	direct   map[partID]bool
	late     []latePoint
	merger   *merger

	keyBuf, valBuf []byte
}

type dayPut struct {
	numbers []uint32 // by index into b.Series, one more than the number; 0 is unknown
	units   map[scope]*unitPut
}

// unitPut is a unit with the series that this batch adds to it.
type unitPut struct {
	u       *unit
	base    uint32 // how many series it has
	series  []*series.Series
	ids     []series.ID
	pending map[series.ID]uint32
}

type latePoint struct {
	tier   int
	slot   int64
	scope  scope
	number uint32
	kind   series.Kind
	data   []byte
}

// placed is a point with its place in the index.
type placed struct {
	key  uint64 // scope, number
	kind series.Kind
	data []byte
}

func (p *putter) put() error {
	s := p.s
	s.mu.RLock()
	p.ready, p.floor = s.ready, s.floor
	p.nextFam = uint32(len(s.byNumber))
	if w := s.writers[p.b.Writer]; w != nil {
		p.w = *w
	} else {
		p.w.number, p.isNew = uint32(len(s.writers)), true
	}
	s.mu.RUnlock()
	p.retry = p.b.Generation <= p.w.flushed

	for i := range p.b.Families {
		f := &p.b.Families[i]
		p.family(f.Name, f.Kind, f.IntervalSeconds)
	}
	var f *family
	for i := range p.b.Series {
		sr := &p.b.Series[i]
		if f == nil || f.name != sr.Family {
			f = p.family(sr.Family, sr.Kind, 0)
		}
		p.scopes[i] = makeScope(f.number, sr.View)
	}
	if err := p.points(); err != nil {
		return err
	}
	if err := p.samples(); err != nil {
		return err
	}
	if err := p.writeLate(); err != nil {
		return err
	}
	if err := p.writeIndex(); err != nil {
		return err
	}
	for _, r := range p.b.State {
		k := append(binary.BigEndian.AppendUint32([]byte{tableState}, p.w.number), r.Key...)
		var err error
		if len(r.Value) == 0 {
			err = p.wb.Delete(k, nil)
		} else {
			err = p.wb.Set(k, r.Value, nil)
		}
		if err != nil {
			return err
		}
	}
	for _, f := range p.families {
		v := binary.AppendUvarint(nil, uint64(f.number))
		v = binary.AppendVarint(append(v, byte(f.kind)), f.interval)
		if err := p.wb.Set(append([]byte{tableFamily}, f.name...), v, nil); err != nil {
			return err
		}
	}
	for id := range p.direct {
		if err := p.wb.Set(directKey(nil, id.tier, id.part), nil, nil); err != nil {
			return err
		}
	}
	p.w.flushed = max(p.w.flushed, p.b.Generation)
	v := binary.AppendUvarint(nil, uint64(p.w.number))
	v = binary.AppendUvarint(v, p.w.flushed)
	if err := p.wb.Set(append([]byte{tableWriter}, p.b.Writer...), v, nil); err != nil {
		return err
	}
	if err := s.commit(p.wb, pebble.Sync); err != nil {
		return err
	}
	p.publish()
	return nil
}

// commit applies a batch whole or not at all.
func (s *Store) commit(wb *pebble.Batch, o *pebble.WriteOptions) error {
	return classify(wb.Commit(o))
}

// publish shows queries what has been written.
func (p *putter) publish() {
	for _, d := range p.days {
		for _, up := range d.units {
			if len(up.series) > 0 {
				up.u.add(up.series, up.ids)
			}
		}
	}
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range p.families {
		s.addFamily(f)
	}
	for id := range p.direct {
		s.direct[id] = true
	}
	w := p.w
	s.writers[p.b.Writer] = &w
	for id, a := range p.fresh {
		s.addFresh(id, a)
	}
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
func (p *putter) resolve(day int64, si uint32) (uint32, error) {
	if p.day == nil || p.at != day {
		p.at, p.day, p.unit = day, p.days[day], nil
		if p.day == nil {
			p.day = &dayPut{numbers: make([]uint32, len(p.b.Series)), units: map[scope]*unitPut{}}
			p.days[day] = p.day
		}
	}
	d := p.day
	if n := d.numbers[si]; n != 0 {
		return n - 1, nil
	}
	sr := &p.b.Series[si]
	sc := p.scopes[si]
	up := p.unit
	if up == nil || up.u.scope != sc {
		if up = d.units[sc]; up == nil {
			u, err := p.s.units.get(day, sc)
			if err != nil {
				return 0, err
			}
			u.writable(sr.Family)
			up = &unitPut{u: u, base: uint32(len(u.kinds)), pending: map[series.ID]uint32{}}
			d.units[sc] = up
		}
		p.unit = up
	}
	if !p.hashed[si] {
		p.ids[si], p.idBuf = idOf(sr, p.idBuf)
		p.hashed[si] = true
	}
	id := p.ids[si]
	n, ok := up.u.ids[id]
	if !ok && len(up.pending) > 0 {
		n, ok = up.pending[id]
	}
	if !ok {
		n = up.base + uint32(len(up.series))
		up.series = append(up.series, sr)
		up.ids = append(up.ids, id)
		up.pending[id] = n
	}
	d.numbers[si] = n + 1
	return n, nil
}

const indexBlockSeries = 1024

func (p *putter) writeIndex() error {
	for day, d := range p.days {
		for sc, up := range d.units {
			for i := 0; i < len(up.series); i += indexBlockSeries {
				ss := up.series[i:min(i+indexBlockSeries, len(up.series))]
				k := binary.BigEndian.AppendUint32(indexScopePrefix(nil, day, sc), up.base+uint32(i))
				p.valBuf = appendIndexBlock(p.valBuf[:0], ss)
				if err := p.wb.Set(k, p.valBuf, nil); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (p *putter) points() error {
	pts := p.b.Points
	if !slices.IsSortedFunc(pts, func(a, b store.Point) int { return cmp.Compare(a.Slot, b.Slot) }) {
		pts = slices.Clone(pts)
		slices.SortStableFunc(pts, func(a, b store.Point) int { return cmp.Compare(a.Slot, b.Slot) })
	}
	recs := make([]placed, 0, min(len(pts), len(p.b.Series)))
	for len(pts) > 0 {
		slot, n := pts[0].Slot, 1
		for n < len(pts) && pts[n].Slot == slot {
			n++
		}
		recs = recs[:0]
		if p.expired(p.tier, slot) {
			p.s.stats.expired.Add(uint64(n))
		} else {
			day := dayOf(slot)
			for i := range pts[:n] {
				number, err := p.resolve(day, pts[i].Series)
				if err != nil {
					return err
				}
				si := pts[i].Series
				recs = append(recs, placed{uint64(p.scopes[si])<<32 | uint64(number), p.b.Series[si].Kind, pts[i].Data})
			}
			if err := p.slot(p.tier, slot, recs); err != nil {
				return err
			}
		}
		pts = pts[n:]
	}
	return nil
}

// expired says whether no tier keeps the slot any more.
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

func (p *putter) samples() error {
	bySlot := map[int64][]placed{}
	for i := range p.b.Samples {
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
				number, err := p.resolve(dayOf(slot), si)
				if err != nil {
					return err
				}
				bySlot[slot] = append(bySlot[slot], placed{uint64(p.scopes[si])<<32 | uint64(number), p.b.Series[si].Kind,
					appendSamples(nil, mergeSamples(slices.Clone(ss[:n])))})
			}
			ss = ss[n:]
		}
	}
	for slot, recs := range bySlot {
		if err := p.slot(tierSamples, slot, recs); err != nil {
			return err
		}
	}
	return nil
}

// slot writes what the batch holds in one slot.
func (p *putter) slot(tier int, slot int64, recs []placed) error {
	byKey := func(a, b placed) int { return cmp.Compare(a.key, b.key) }
	if !slices.IsSortedFunc(recs, byKey) {
		slices.SortFunc(recs, byKey)
	}
	if cap(p.entries) < len(recs) {
		p.entries = make([]entry, 0, len(recs))
	}
	for len(recs) > 0 {
		sc := scope(recs[0].key >> 32)
		n := 0
		entries := p.entries[:0]
		for n < len(recs) && scope(recs[n].key>>32) == sc {
			entries = append(entries, entry{uint32(recs[n].key), recs[n].data})
			if n > 0 && entries[n].number == entries[n-1].number {
				return fmt.Errorf("one series twice in slot %d", slot)
			}
			n++
		}
		group := recs[:n]
		recs = recs[n:]
		write, isNew := entries, func(uint32) bool { return true }
		if p.retry {
			var err error
			if write, isNew, err = p.again(tier, slot, sc, entries); err != nil {
				return err
			}
		}
		if slot >= p.floor[tier] && len(write) > 0 {
			if err := p.chunks(tier, slot, sc, originPut, write); err != nil {
				return err
			}
			if id := (partID{tier, partOf(tier, slot)}); tier > 0 && tier < tierSamples {
				p.s.mu.RLock()
				known := p.s.direct[id]
				p.s.mu.RUnlock()
				if !known {
					p.direct[id] = true
				}
			}
		}
		if tier == tierSamples {
			continue
		}
		for t := tier + 1; t < tierSamples; t++ {
			up := floorTo(slot, tierSlot[t])
			if up >= p.ready[t] || up < p.floor[t] {
				continue
			}
			for i := range group {
				if number := uint32(group[i].key); isNew(number) {
					p.late = append(p.late, latePoint{t, up, sc, number, group[i].kind, group[i].data})
				}
			}
		}
	}
	return nil
}

// again settles what a repeated generation changes: the entries to write in
// place of what it put before, and which of them count as new.
func (p *putter) again(tier int, slot int64, sc scope, entries []entry) ([]entry, func(uint32) bool, error) {
	none := func(uint32) bool { return false }
	// The finest tier that still keeps the slot knows what was put before.
	t, origin, at := tier, byte(originPut), slot
	for tier != tierSamples && at < p.floor[t] && t+1 < tierSamples {
		t++
		origin, at = originLate, floorTo(slot, tierSlot[t])
	}
	part := partOf(t, at)
	folded, err := p.s.readFolded(p.s.db, t, part, sc)
	if err != nil {
		return nil, nil, err
	}
	if folded.has(p.w.number, p.b.Generation) {
		return nil, none, nil
	}
	old, err := p.before(t, at, sc, origin)
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
	return write, isNew, p.forget(tier, slot, sc, originPut)
}

// before reads the entries that this generation has put at an address.
func (p *putter) before(tier int, slot int64, sc scope, origin byte) ([]entry, error) {
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

// forget deletes what this generation has put at an address.
func (p *putter) forget(tier int, slot int64, sc scope, origin byte) error {
	part := partOf(tier, slot)
	prefix := generationPrefix(nil, tier, part, sc, int((slot-part)/tierSlot[tier]), origin, p.w.number, p.b.Generation)
	id := scopeID{partID{tier, part}, sc}
	if _, ok := p.fresh[id]; !ok {
		p.fresh[id] = freshState{} // the scope changes, even if nothing is added
	}
	return p.wb.DeleteRange(prefix, prefixEnd(prefix), nil)
}

// chunks writes entries of one slot and scope.
func (p *putter) chunks(tier int, slot int64, sc scope, origin byte, entries []entry) error {
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

// writeLate adds late points to the tiers that had passed their slots.
func (p *putter) writeLate() error {
	slices.SortStableFunc(p.late, func(a, b latePoint) int {
		return cmp.Or(cmp.Compare(a.tier, b.tier), cmp.Compare(a.slot, b.slot), cmp.Compare(a.scope, b.scope), cmp.Compare(a.number, b.number))
	})
	l := p.late
	for len(l) > 0 {
		tier, slot, sc := l[0].tier, l[0].slot, l[0].scope
		var entries []entry
		kinds := map[uint32]series.Kind{}
		for len(l) > 0 && l[0].tier == tier && l[0].slot == slot && l[0].scope == sc {
			var parts [][]byte
			number, kind := l[0].number, l[0].kind
			for len(l) > 0 && l[0].tier == tier && l[0].slot == slot && l[0].scope == sc && l[0].number == number {
				parts = append(parts, l[0].data)
				l = l[1:]
			}
			data, err := p.merger.merge(kind, parts)
			if err != nil {
				return err
			}
			if len(parts) > 1 {
				data = bytes.Clone(data)
			}
			entries = append(entries, entry{number, data})
			kinds[number] = kind
		}
		if p.retry {
			old, err := p.before(tier, slot, sc, originLate)
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
			if err := p.forget(tier, slot, sc, originLate); err != nil {
				return err
			}
		}
		if err := p.chunks(tier, slot, sc, originLate, entries); err != nil {
			return err
		}
		p.s.stats.late.Add(uint64(len(entries)))
	}
	return nil
}
