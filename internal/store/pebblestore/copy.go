package pebblestore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// A Store is a store.Content as long as nothing writes to it, and with Options.Copy a
// store.CopyTarget.
var (
	_ store.Content    = (*Store)(nil)
	_ store.CopyTarget = (*Store)(nil)
)

// copyPoints is the number of points, or of samples, from which on a batch is yielded;
// copyTraceBytes that of bytes of traces. copySeries bounds the series of a partition and
// scope that are read at once.
const (
	copyPoints     = 20_000
	copyTraceBytes = 4 << 20
	copySeries     = 1 << 14
)

// Outline returns what a copy is told beside points, samples, traces and records.
func (s *Store) Outline(ctx context.Context) (*store.Outline, error) {
	o := &store.Outline{Writers: map[string]uint64{}}
	var err error
	if o.Families, err = s.Families(ctx); err != nil {
		return nil, err
	}
	s.mu.RLock()
	copy(o.Floor[:], s.floor[:])
	copy(o.Ready[:], s.ready[:])
	for id := range s.direct {
		o.Direct = append(o.Direct, store.DirectSlots{Tier: id.tier, From: id.part, To: id.part + tierPart[id.tier]})
	}
	for sc, parts := range s.coarse {
		for id := range parts {
			o.Direct = append(o.Direct, store.DirectSlots{Tier: id.tier, From: id.part, To: id.part + tierPart[id.tier],
				Family: s.byNumber[sc>>2].name, View: sc.view()})
		}
	}
	for name, w := range s.writers {
		if name != store.CopyWriter {
			o.Writers[name] = w.flushed
		}
	}
	s.mu.RUnlock()
	slices.SortFunc(o.Direct, func(a, b store.DirectSlots) int {
		return cmp.Or(cmp.Compare(a.Tier, b.Tier), cmp.Compare(a.Family, b.Family), cmp.Compare(a.View, b.View), cmp.Compare(a.From, b.From))
	})
	joined := o.Direct[:0] // neighbours are one
	for _, d := range o.Direct {
		if last := len(joined) - 1; last >= 0 && joined[last].To == d.From && joined[last].Tier == d.Tier && joined[last].Family == d.Family && joined[last].View == d.View {
			joined[last].To = d.To
		} else {
			joined = append(joined, d)
		}
	}
	o.Direct = joined
	if o.Kinds, err = s.recordKinds(); err != nil {
		return nil, err
	}
	o.Cuts, err = s.sampleCuts(ctx)
	return o, err
}

func (s *Store) recordKinds() (kinds []string, err error) {
	c, err := s.newScanner(context.Background(), s.db)
	if err != nil {
		return nil, err
	}
	for ok := c.it.SeekGE([]byte{tableRecord}); ok && c.it.Key()[0] == tableRecord; {
		kind, _, _ := bytes.Cut(c.it.Key()[1:], []byte{0})
		kinds = append(kinds, string(kind))
		ok = c.it.SeekGE(prefixEnd(recordKey(string(kind), "")))
	}
	return kinds, errors.Join(classify(c.it.Error()), c.close())
}

// eachScope calls fn for each partition and scope of a tier that holds something, in order.
// fn may move the scanner.
func (c *scanner) eachScope(ctx context.Context, tier int, fn func(part int64, sc scope) error) error {
	at, end := tierPrefix(nil, tier), prefixEnd(tierPrefix(nil, tier))
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.it.SetBounds(at, end)
		if !c.it.First() {
			return classify(c.it.Error())
		}
		part, sc := readTime(c.it.Key()[2:]), scope(readUint32(c.it.Key()[6:]))
		at = scopePrefix(nil, tier, part, sc+1)
		if err := fn(part, sc); err != nil {
			return err
		}
	}
}

// sampleCuts returns of each series whose samples were dropped the end of the last such
// hour.
func (s *Store) sampleCuts(ctx context.Context) (out []store.SampleCut, err error) {
	c, err := s.newScanner(ctx, s.db)
	if err != nil {
		return nil, err
	}
	defer c.close()
	type key struct {
		sc scope
		id series.ID
	}
	at := map[key]int{}
	var buf []byte
	var b labels.ScratchBuilder
	err = c.eachScope(ctx, tierSamples, func(part int64, sc scope) error {
		gone, err := s.goneOf(s.db, part, sc)
		if err != nil || len(gone) == 0 {
			return err
		}
		u, err := s.units.get(dayOf(part), sc)
		if err != nil {
			return err
		}
		cols, until := u.columnsNow(), (part+tierPart[tierSamples])*1000
		for n, kind := range cols.kinds {
			if !gone.has(uint64(n)) {
				continue
			}
			sr := series.Series{Family: s.familyName(sc), View: sc.view(), Kind: kind, Labels: cols.labels(uint32(n), &b)}
			k := key{sc: sc}
			if k.id, buf = idOf(&sr, buf); at[k] == 0 {
				out = append(out, store.SampleCut{Series: sr})
				at[k] = len(out)
			}
			out[at[k]-1].Until = until // partitions ascend
		}
		return nil
	})
	return out, err
}

// Batches yields all points and samples, tier by tier, in order of partitions.
func (s *Store) Batches(ctx context.Context, yield func(*store.Batch) error) error {
	done, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	c, err := s.newScanner(ctx, s.db)
	if err != nil {
		return err
	}
	defer c.close()
	for tier := range numTiers {
		x := contentReader{s: s, scanner: c, tier: tier, merger: s.newMerger(), yield: yield}
		if tier < tierSamples {
			x.batch.Resolution = series.Resolutions[tier]
		}
		err := c.eachScope(ctx, tier, x.read)
		if err == nil {
			err = x.flush()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// contentReader makes batches of what a tier holds.
type contentReader struct {
	s       *Store
	scanner *scanner
	tier    int
	merger  *merger
	yield   func(*store.Batch) error

	batch  store.Batch
	held   int // points or samples of the batch
	points []located
	arena  []byte
	parts  [][]byte
	labels labels.ScratchBuilder
}

// read adds what a partition and scope hold.
func (x *contentReader) read(part int64, sc scope) error {
	u, err := x.s.units.get(dayOf(part), sc)
	if err != nil {
		return err
	}
	cols := u.columnsNow()
	for first := 0; first < len(cols.kinds); first += copySeries {
		x.points, x.arena = x.points[:0], x.arena[:0]
		sel := selectRange(first, min(first+copySeries, len(cols.kinds)))
		a := area{tier: x.tier, part: part}
		a.hi = a.slots()
		err := x.scanner.scan(a, sc, sel, func(number uint32, slot int, data []byte) error {
			if len(x.arena) > math.MaxUint32-len(data) {
				return fmt.Errorf("more than 4 GiB in the partition at %d of scope %d", part, sc)
			}
			x.points = append(x.points, located{number: number, slot: uint16(slot), size: uint32(len(data)), off: uint32(len(x.arena))})
			x.arena = append(x.arena, data...)
			return nil
		})
		if err != nil {
			return err
		}
		slices.SortFunc(x.points, func(a, b located) int {
			return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.slot, b.slot), cmp.Compare(a.off, b.off))
		})
		if err := x.add(part, sc, cols); err != nil {
			return err
		}
	}
	return nil
}

// add adds the points that were read to the batch, those of one address added up.
func (x *contentReader) add(part int64, sc scope, cols *columns) error {
	last, listed := uint32(0), false
	for l := x.points; len(l) > 0; {
		n := 1
		for n < len(l) && l[n].number == l[0].number && l[n].slot == l[0].slot {
			n++
		}
		x.parts = x.parts[:0]
		for i := range l[:n] {
			x.parts = append(x.parts, l[i].bytesIn(x.arena))
		}
		b, number := &x.batch, l[0].number
		kind := cols.kinds[number]
		if !listed || number != last {
			last, listed = number, true
			b.Series = append(b.Series, series.Series{Family: x.s.familyName(sc), View: sc.view(), Kind: kind, Labels: cols.labels(number, &x.labels)})
		}
		of := uint32(len(b.Series) - 1)
		if x.tier == tierSamples {
			var ss []series.Sample
			for _, p := range x.parts {
				var err error
				if ss, err = decodeSamples(ss, p); err != nil {
					return err
				}
			}
			ss = mergeSamples(ss)
			b.Samples = append(b.Samples, store.Samples{Series: of, Samples: ss})
			x.held += len(ss)
		} else {
			data, err := x.merger.merge(kind, x.parts)
			if err != nil {
				return err
			}
			b.Points = append(b.Points, store.Point{Series: of, Slot: part + int64(l[0].slot)*tierSlot[x.tier], Data: bytes.Clone(data)})
			x.held++
		}
		if l = l[n:]; x.held >= copyPoints {
			listed = false
			if err := x.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *contentReader) flush() error {
	if x.held == 0 {
		return nil
	}
	err := x.yield(&x.batch)
	x.batch, x.held = store.Batch{Resolution: x.batch.Resolution}, 0
	return err
}

// KeptTraces yields all kept traces, in order of the hour of their latest request.
func (s *Store) KeptTraces(ctx context.Context, yield func([]store.Trace) error) error {
	done, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	var some []store.Trace
	bytesHeld := 0
	err = s.each([]byte{tableTrace}, func(k, v []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		t, err := decodeTrace(bytes.Clone(v))
		if err == nil && len(k) != 1+4+len(t.ID) {
			err = fmt.Errorf("key %x of a kept trace: %w", k, store.ErrCorrupt)
		}
		if err != nil {
			return err
		}
		copy(t.ID[:], k[5:])
		some = append(some, t)
		if bytesHeld += len(v); bytesHeld < copyTraceBytes {
			return nil
		}
		err = yield(some)
		some, bytesHeld = nil, 0
		return err
	})
	if err != nil || len(some) == 0 {
		return err
	}
	return yield(some)
}

// EndCopy writes the outline of a copy. It is read when the store is opened next.
func (s *Store) EndCopy(ctx context.Context, o *store.Outline) error {
	done, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	s.write.Lock()
	defer s.write.Unlock()
	wb := s.db.NewBatch()
	defer wb.Close()
	var errs []error
	for t := range tierSamples {
		errs = append(errs, wb.Set(metaKey(metaFloor, t), metaTime(o.Floor[t]), nil))
		if t > 0 {
			errs = append(errs, wb.Set(metaKey(metaReady, t), metaTime(o.Ready[t]), nil))
		}
	}
	for _, d := range o.Direct {
		sc, known := s.scopeIn(d.Family, d.View)
		for part := partOf(d.Tier, d.From); part < d.To; part += tierPart[d.Tier] {
			switch {
			case d.Family == "":
				errs = append(errs, wb.Set(directKey(nil, d.Tier, part), nil, nil))
			case known:
				errs = append(errs, wb.Set(coarseKey(nil, d.Tier, part, sc), nil, nil))
			}
		}
	}
	gone, err := s.goneBefore(o.Cuts)
	for id, numbers := range gone {
		t := tally{}
		t.gone.add(numbers)
		errs = append(errs, wb.Set(classPrefix(nil, tierSamples, id.part, id.scope, classTally), appendTally(nil, &t), nil))
	}
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	return s.commit(wb, pebble.Sync)
}

// scopeIn returns the scope of a family in a view.
func (s *Store) scopeIn(family string, v series.View) (scope, bool) {
	f := s.family(family)
	if f == nil {
		return 0, false
	}
	return makeScope(f.number, v), true
}

// goneBefore returns the series without samples in each hour before the cuts, on the days
// that list them. The caller holds write.
func (s *Store) goneBefore(cuts []store.SampleCut) (map[scopeID][]uint64, error) {
	gone := map[scopeID][]uint64{}
	days, err := s.days(farPast, farFuture)
	if err != nil {
		return nil, err
	}
	var buf []byte
	for i := range cuts {
		cut := &cuts[i]
		sc, known := s.scopeIn(cut.Series.Family, cut.Series.View)
		if !known {
			continue
		}
		var id series.ID
		id, buf = cut.Series.ID(buf)
		for _, day := range days {
			until := min(day+secondsPerDay, floorDiv(cut.Until, 1000))
			if day >= until {
				break
			}
			u, err := s.units.get(day, sc)
			if err != nil {
				return nil, err
			}
			numbers, cols := u.identified(cut.Series.Family, []series.ID{id})
			for _, n := range numbers {
				if cols.kinds[n] != cut.Series.Kind {
					continue
				}
				for part := day; part < until; part += tierPart[tierSamples] {
					at := scopeID{partID{tierSamples, part}, sc}
					gone[at] = append(gone[at], uint64(n))
				}
			}
		}
	}
	return gone, nil
}
