package pebblestore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
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
		s: s, b: b, tier: tier, wb: s.db.NewBatchWithSize(sizeHint(b)),
		scopes: make([]scope, len(b.Series)),
		days:   map[int64]*dayPut{}, families: map[string]*family{}, fresh: map[scopeID]freshState{},
		direct: map[partID]bool{}, late: map[lateKey]*[]placed{}, perScope: map[scope]int{}, merger: s.newMerger(),
	}
	defer p.wb.Close()
	if err := p.put(); err != nil {
		return fmt.Errorf("put generation %d of %s: %w", b.Generation, b.Writer, err)
	}
	s.stats.puts.Add(1)
	s.stats.points.Add(uint64(len(b.Points)))
	return nil
}

// sizeHint is about what a batch takes when it is written, so that large ones
// are not copied from one buffer to the next.
func sizeHint(b *store.Batch) int {
	n := 1<<10 + 16*len(b.Series)
	for i := range b.Points {
		n += len(b.Points[i].Data) + 2
	}
	return n
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
	if b.IDs != nil && len(b.IDs) != len(b.Series) {
		return 0, fmt.Errorf("%d identities of %d series", len(b.IDs), len(b.Series))
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
	pts      []store.Point // in order of slot
	late     map[lateKey]*[]placed
	spare    []*[]placed   // of late, written
	perScope map[scope]int // series of the batch
	merger   *merger
	merged   []byte // of addLate
	parts    [][]byte
	sorting  []placed

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
	ids     []series.ID  // by place in series plus one
	pending series.Table // of places in series plus one
	recs    []placed     // what the slot being written holds
}

// lateKey is where late points are added up.
type lateKey struct {
	tier  int
	slot  int64
	scope scope
}

// placed is a point by its number in the unit, above bit 32, and its place in
// the list of points.
type placed uint64

func (r placed) number() uint32 { return uint32(r >> 32) }

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
		sc := makeScope(f.number, sr.View)
		p.scopes[i] = sc
		p.perScope[sc]++
	}
	if err := p.points(); err != nil {
		return err
	}
	if err := p.samples(); err != nil {
		return err
	}
	if err := p.writeLate(math.MaxInt64); err != nil {
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
				up.u.add(up.series, up.ids[1:])
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
				up.series = make([]*series.Series, 0, p.perScope[sc])
				up.ids = slices.Grow(up.ids, p.perScope[sc])
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
			up.series = append(up.series, sr)
			up.ids = append(up.ids, id)
			place = uint32(len(up.series))
			up.pending.Add(id, place)
		}
		n = up.base + place
	}
	d.numbers[si] = n
	return n - 1, up, nil
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
	p.pts = pts
	var units []*unitPut
	for i := 0; i < len(pts); {
		slot, end := pts[i].Slot, i+1
		for end < len(pts) && pts[end].Slot == slot {
			end++
		}
		// What earlier slots alone add to is complete.
		if err := p.writeLate(slot); err != nil {
			return err
		}
		if p.expired(p.tier, slot) {
			p.s.stats.expired.Add(uint64(end - i))
		} else {
			day := dayOf(slot)
			units = units[:0]
			for k := i; k < end; k++ {
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
				if err := p.slot(p.tier, slot, up.u.scope, pts, up.recs); err != nil {
					return err
				}
				up.recs = up.recs[:0]
			}
		}
		i = end
	}
	return nil
}

// inOrder sorts the points by number, points of one number by place.
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
	// The points come in order of place, and a pass leaves equal ones alone.
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

// radixPass puts from into to in order of the bits at shift, equal ones as they were.
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
	type place struct {
		slot int64
		sc   scope
	}
	bySlot := map[place][]placed{}
	var pts []store.Point
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
				number, _, err := p.resolve(dayOf(slot), si)
				if err != nil {
					return err
				}
				at := place{slot, p.scopes[si]}
				bySlot[at] = append(bySlot[at], placed(number)<<32|placed(len(pts)))
				pts = append(pts, store.Point{Series: si, Data: appendSamples(nil, mergeSamples(slices.Clone(ss[:n])))})
			}
			ss = ss[n:]
		}
	}
	for at, recs := range bySlot {
		if err := p.slot(tierSamples, at.slot, at.sc, pts, recs); err != nil {
			return err
		}
	}
	return nil
}

// slot writes what the batch holds in one slot and scope: recs, of pts.
func (p *putter) slot(tier int, slot int64, sc scope, pts []store.Point, recs []placed) error {
	p.inOrder(recs)
	entries := slices.Grow(p.entries[:0], len(recs))
	for i, r := range recs {
		if i > 0 && r.number() == recs[i-1].number() {
			return fmt.Errorf("one series twice in slot %d", slot)
		}
		entries = append(entries, entry{r.number(), pts[uint32(r)].Data})
	}
	p.entries = entries
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

// writeLate adds late points to the tiers that had passed their slots, as far
// as these end by the moment.
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
	return nil
}

// addLate writes points in order of number, those of one series added up.
func (p *putter) addLate(k lateKey, l []placed) error {
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
			data = p.keep(sum)
		}
		entries = append(entries, entry{number, data})
		if p.retry {
			kinds[number] = kind
		}
		l = l[n:]
	}
	p.entries = entries
	if p.retry {
		old, err := p.before(k.tier, k.slot, k.scope, originLate)
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
		if err := p.forget(k.tier, k.slot, k.scope, originLate); err != nil {
			return err
		}
	}
	if err := p.chunks(k.tier, k.slot, k.scope, originLate, entries); err != nil {
		return err
	}
	p.s.stats.late.Add(uint64(len(entries)))
	return nil
}

// keep copies b into merged, or the block that follows it.
func (p *putter) keep(b []byte) []byte {
	if cap(p.merged)-len(p.merged) < len(b) {
		p.merged = make([]byte, 0, max(256<<10, len(b)))
	}
	at := len(p.merged)
	p.merged = append(p.merged, b...)
	return p.merged[at:len(p.merged):len(p.merged)]
}
