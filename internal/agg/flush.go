package agg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Flush cuts the generation now and puts it; used by tests, shutdown and imports.
func (a *Aggregator) Flush(ctx context.Context) error {
	a.putMu.Lock()
	defer a.putMu.Unlock()
	a.cut(a.o.Now())
	err := a.putFrozen(ctx)
	a.flushError.Store(&err)
	a.prune(ctx)
	a.tidy(a.o.Now())
	return err
}

// FlushError returns why the last Flush did not store what had arrived, or nil.
func (a *Aggregator) FlushError() error {
	if err := a.flushError.Load(); err != nil {
		return *err
	}
	return nil
}

// runFlusher cuts and stores generations until ctx is done.
func (a *Aggregator) runFlusher(ctx context.Context) {
	var backoff time.Duration
	at := nextCut(a.o.Now(), a.o.FlushInterval)
	for {
		timer := time.NewTimer(at.Sub(a.o.Now()))
		var kick <-chan struct{}
		if backoff == 0 {
			kick = a.kick // while the store refuses, only time helps
		}
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-kick:
			timer.Stop()
		}
		err := a.Flush(ctx)
		now := a.o.Now()
		at = nextCut(now, a.o.FlushInterval)
		if err == nil || ctx.Err() != nil {
			backoff = 0
			continue
		}
		a.o.Logger.Error("generation not stored, will retry", "err", err)
		backoff = min(max(2*backoff, time.Second), 30*time.Second)
		if retry := now.Add(backoff); retry.Before(at) || backoff > a.o.FlushInterval {
			at = retry
		}
	}
}

// cut freezes the open generation and opens the next, if it holds anything.
func (a *Aggregator) cut(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.open
	if hour := now.Unix() / 3600; hour != a.hour {
		a.hour = hour
		a.reg.updateSketches()
		if a.reg.turn() {
			a.advance()
		}
		a.saveTenants()
		a.stored = now
	} else if now.Sub(a.stored) >= 5*time.Minute {
		a.saveTenants()
		a.stored = now
	}
	if now.Sub(a.expiry) >= time.Hour {
		a.expiry = now
		a.streams.expire()
	}
	if g.entries == 0 && len(g.records) == 0 && len(a.declared) == 0 && len(a.streams.expired) == 0 {
		if g.journal != nil && g.journal.torn { // a fresh file under a fresh number
			a.frozen = append(a.frozen, g)
			a.openGeneration(g.number+1, now)
		}
		return
	}
	g.records = append(g.records, a.streams.cut()...)
	if g.entries > 0 {
		g.records = append(g.records, positionRecord(a.position))
		a.lastJournal = g.number
	}
	size := 0
	for _, r := range g.records {
		size += 48 + len(r.Key) + len(r.Value)
	}
	g.cells.grew(int64(size))
	for _, f := range a.declared {
		g.infos = append(g.infos, f)
	}
	clear(a.declared)
	a.frozen = append(a.frozen, g)
	a.openGeneration(g.number+1, now)
}

// putFrozen stores what is frozen, oldest first, and deletes the journals.
func (a *Aggregator) putFrozen(ctx context.Context) error {
	for {
		a.mu.Lock()
		if len(a.frozen) == 0 {
			a.mu.Unlock()
			return nil
		}
		g := a.frozen[0]
		recs, meta, ids := a.reg.series, a.reg.meta, a.reg.ids
		a.mu.Unlock()

		// What this generation holds of them does not change until it is stored.
		lost := makeTotals(g, recs)
		batch := a.build.batch(g, meta, ids)
		batch.Writer, batch.Generation, batch.Resolution = a.o.Writer, g.number, series.Base
		if lost += a.build.lost; lost > 0 {
			a.o.Logger.Error("histograms that cannot be merged were left out", "generation", g.number, "cells", lost, "err", a.build.err)
		}
		err := a.st.Put(ctx, batch)
		a.build.reset()
		a.built.Store(a.build.bytes())
		a.mu.Lock()
		a.stats.Unmergeable += uint64(lost)
		if err != nil {
			a.stats.FlushErrors++
			a.mu.Unlock()
			return fmt.Errorf("store generation %d: %w", g.number, err)
		}
		a.frozen = slices.Delete(a.frozen, 0, 1)
		a.stats.Generations++
		g.cells.release()
		a.full.Store(a.memory() > a.o.MemoryBytes)
		a.mu.Unlock()
		if g.journal != nil {
			a.keep(g.number, g.journal)
		}
	}
}

// makeTotals adds the Total cells of a frozen generation, from its Marginals.
// It says how many could not be added.
func makeTotals(g *generation, recs list[seriesRec]) (lost int) {
	if g.totals {
		return 0
	}
	g.totals = true
	c := g.cells
	n := c.count
	for i := uint32(1); i < n; i++ {
		m := c.at(i)
		t := recs.at(m.series).total
		if t == 0 {
			continue
		}
		total, _ := c.cell(t, m.key)
		if err := c.absorb(total, m); err != nil {
			lost++
		}
	}
	return lost
}

// crowdedIdle is when series go once their tables are an eighth of the memory.
const crowdedIdle = 10 * time.Second

// tidy lets idle series go. Needs putMu.
func (a *Aggregator) tidy(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	used := a.memory()
	pressed := used > a.o.MemoryBytes/2
	// Most series of many tenants are seen once in a while. To make one anew
	// costs microseconds; to keep it costs memory until it is seen again.
	crowded := a.reg.bytes() > a.o.MemoryBytes/8
	every := time.Minute
	switch {
	case pressed:
		every = 0
	case crowded:
		every = crowdedIdle
	}
	if now.Sub(a.swept) < every {
		return
	}
	a.swept = now
	a.reg.updateSketches()
	idle := a.o.IdleAfter
	switch {
	case used > a.o.MemoryBytes*7/8:
		idle = 0
		a.reg.groups = map[series.ID]*group{} // made again as they are met
	case pressed || crowded:
		idle = min(idle, crowdedIdle)
	}
	// Who was last used in a generation that ended before the moment is idle:
	// one before the last that began by then.
	since := uint32(a.open.number)
	for i := len(a.began) - 1; i > 0 && a.began[i].at.After(now.Add(-idle)); i-- {
		since = a.began[i-1].number
	}
	for len(a.began) > 1 && a.began[1].number < since {
		a.began = a.began[1:]
	}
	if a.reg.retire(since, used > a.o.MemoryBytes*7/8) > 0 || a.reg.pressed && !pressed {
		a.reg.pressed = false // there is room again for names
		a.advance()
	}
	a.reclaim()
}

// reclaim makes room of the targets and series that nothing holds any more.
// Needs putMu and mu.
func (a *Aggregator) reclaim() {
	oldest := uint32(a.open.number)
	if len(a.frozen) > 0 {
		oldest = uint32(a.frozen[0].number)
	}
	a.reg.reclaim(a.oldestPin(), oldest)
	a.full.Store(a.memory() > a.o.MemoryBytes)
}

// reclaimSoon makes room of what tidy let go while batches held it: they end
// within milliseconds, the next flush is seconds away, and until then new series
// would take memory of their own.
func (a *Aggregator) reclaimSoon() {
	if !a.putMu.TryLock() {
		return // a flush is under way, and does it
	}
	defer a.putMu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.reg.graves) > 0 && a.reg.graves[0].epoch < a.oldestPin() {
		a.reclaim()
	}
}

// builder makes store batches, keeping its memory.
type builder struct {
	b       store.Batch
	sorted  []cellRef
	offsets []uint32
	number  []uint32 // by series: index in the batch plus one
	data    [][]byte // blocks of the points' data
	block   int      // the one being filled
	samples []series.Sample
	h, h2   hist.Histogram
	lost    int   // cells left out of the last batch
	err     error // why the last of them was
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

// bytes is the memory that is kept for the next batch.
func (w *builder) bytes() int64 {
	sum := int64(cap(w.b.Points))*int64(unsafe.Sizeof(store.Point{})) + int64(cap(w.b.Series))*int64(unsafe.Sizeof(series.Series{})) +
		int64(cap(w.b.IDs))*16 + int64(cap(w.sorted))*12 + int64(cap(w.offsets)+cap(w.number))*4 + int64(cap(w.samples))*16
	for _, b := range w.data {
		sum += int64(cap(b))
	}
	return sum
}

// batch makes what Put takes of a frozen generation. The result is valid until the next call.
func (w *builder) batch(g *generation, meta list[series.Series], ids []series.ID) *store.Batch {
	b := &w.b
	clear(b.Series)
	clear(b.Points)
	*b = store.Batch{Series: b.Series[:0], IDs: b.IDs[:0], Points: b.Points[:0], Samples: b.Samples[:0], State: g.records, Families: b.Families[:0]}
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
	b.Series, b.IDs = slices.Grow(b.Series, n), slices.Grow(b.IDs, n)
	for s, h := range c.heads {
		if h != 0 {
			b.Series = append(b.Series, *meta.at(uint32(s)))
			b.IDs = append(b.IDs, ids[s])
			w.number[s] = uint32(len(b.Series))
		}
	}
	w.sortBySlot(c)
	w.points(b, c)
	w.rawSamples(b, c)
	w.families(b, g)
	return b
}

// sortBySlot puts the cells in order of slot into sorted, those of a slot in
// order of series.
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

// eachCell calls yield with the cells by series, as they hang together.
func (w *builder) eachCell(c *cells, yield func(cellRef)) {
	for s, h := range c.heads {
		for ; h != 0; h = c.at(h).next {
			yield(cellRef{c.at(h).key >> 2, w.number[s] - 1, h})
		}
	}
}

// dataBlock is what the points' data grows by.
const dataBlock = 256 << 10

// capacity returns the block to append a point's data to.
func (w *builder) openBlock() []byte {
	const most = 16 << 10 // what a point should fit
	for ; w.block < len(w.data); w.block++ {
		if b := w.data[w.block]; cap(b)-len(b) >= most {
			return b
		}
	}
	w.data = append(w.data, make([]byte, 0, dataBlock))
	return w.data[w.block]
}

// points encodes the cells in order. A cell that cannot be encoded, which takes
// a histogram at odds with itself or its neighbours, must not keep the others
// from being stored: it is left out and counted.
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
		w.data[w.block] = data // perhaps of a giant, who moved it
		b.Points = append(b.Points, store.Point{Series: r.series, Slot: int64(r.slot) * int64(series.Base), Data: data[from:len(data):len(data)]})
	}
	for i := range w.data {
		if cap(w.data[i]) > 2*dataBlock {
			w.data[i] = make([]byte, 0, dataBlock)
		}
	}
}

// merge puts several cells of one series and slot, or one of several blobs, into h2.
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

// rawSamples groups the samples by series, in order of time; of equal times
// the last to come is kept.
func (w *builder) rawSamples(b *store.Batch, c *cells) {
	raw := c.samples
	slices.SortStableFunc(raw, func(a, b rawSample) int {
		return cmp.Or(cmp.Compare(a.series, b.series), cmp.Compare(a.millis, b.millis))
	})
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

// families declares every family of the batch, with the interval where it is known.
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
	// Of a family's entries the declared one is the first.
	slices.SortStableFunc(b.Families, func(x, y store.FamilyInfo) int { return cmp.Compare(x.Name, y.Name) })
	b.Families = slices.CompactFunc(b.Families, func(x, y store.FamilyInfo) bool { return x.Name == y.Name })
}

// runSyncer forces the journals to disk every sync interval until ctx is done.
func (a *Aggregator) runSyncer(ctx context.Context) {
	tick := time.NewTicker(a.o.SyncInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := a.syncJournals(); err != nil {
			a.o.Logger.Error("journal not synced: until the store has what it holds, a loss of power would lose it", "err", err)
		}
		a.reclaimSoon()
	}
}

// syncJournals forces to disk what was written since it last succeeded. A
// generation whose journal cannot be synced is cut, and put by the flusher soon:
// what is accepted meanwhile is in a new file. What failed is tried again.
func (a *Aggregator) syncJournals() error {
	a.mu.Lock()
	var list []*journal
	for _, g := range append(a.frozen[:len(a.frozen):len(a.frozen)], a.open) {
		if g.journal != nil && g.journal.dirty {
			g.journal.dirty = false
			list = append(list, g.journal)
		}
	}
	dir, ack := a.newFiles, a.ack.dirty
	a.newFiles, a.ack.dirty = false, false
	a.mu.Unlock()
	var err error
	failed := func(e error, again func()) {
		if e == nil {
			return
		}
		err = errors.Join(err, e)
		a.mu.Lock()
		defer a.mu.Unlock()
		again()
	}
	for _, j := range list {
		failed(j.sync(), func() { j.dirty, j.unsynced = true, true })
	}
	if ack { // after the journals: what it says should be in them
		failed(a.ack.f.SyncData(), func() { a.ack.dirty = true })
	}
	if dir {
		failed(syncDir(a.o.FS, a.o.Dir), func() { a.newFiles = true })
	}
	if err == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stats.SyncErrors++
	if j := a.open.journal; j != nil && j.unsynced {
		a.nudge()
	}
	return err
}
