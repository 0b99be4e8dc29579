package pebblestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// lostLabels is the service of series whose labels were in a lost table.
const lostLabels = "(labels lost)"

// mendMarker marks a store that has lost tables until mend has ended, however often a
// start is killed or stopped before.
const mendMarker = "mend"

// oweMend makes the next start mend the store in dir, and its writers put back what
// their journals hold.
func oweMend(fsys vfs.FS, dir string) error {
	for _, m := range []string{mendMarker, lostMarker} {
		owed, err := findMarker(fsys, dir, m)
		if err == nil && owed == "" {
			err = placeMarker(fsys, dir, m, "tables-lost")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// findMarker returns the path of a marker, or "" if there is none.
func findMarker(fsys vfs.FS, dir, marker string) (string, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return "", fmt.Errorf("list data directory %s: %w", dir, err)
	}
	for _, n := range names {
		if strings.HasPrefix(n, "marker."+marker+".") {
			return fsys.PathJoin(dir, n), nil
		}
	}
	return "", nil
}

// removeMarker removes a marker, if there is one.
func removeMarker(fsys vfs.FS, dir, marker string) error {
	path, err := findMarker(fsys, dir, marker)
	if err != nil || path == "" {
		return err
	}
	if err := errors.Join(fsys.Remove(path), syncDir(fsys, dir)); err != nil {
		return fmt.Errorf("remove %s: %w", path, classify(err))
	}
	return nil
}

// mendIfOwed mends the store if it is marked.
func (s *Store) mendIfOwed(ctx context.Context) error {
	owed, err := findMarker(s.opts.FS, s.opts.Dir, mendMarker)
	if err != nil || owed == "" {
		return err
	}
	if err := s.mend(ctx); err != nil {
		return err
	}
	return removeMarker(s.opts.FS, s.opts.Dir, mendMarker)
}

// mend completes the labels of series after tables were lost: a number without labels
// would make every Put and question of its day fail, and a new series that took the
// number would get the points of the old one. Such numbers get labels that name the
// loss, and their points keep counting. Families whose names are lost get a name
// likewise. A writer's generation becomes at least that of the newest points it has put.
func (s *Store) mend(ctx context.Context) error {
	need := map[dayScope]uint32{}     // one more than the highest number in use
	newest := map[uint32]uint64{}     // generation by writer
	kinds := map[uint32]series.Kind{} // by number of a family whose name is lost
	if err := s.numbersInUse(ctx, need, newest, kinds); err != nil {
		return err
	}
	have := map[dayScope]uint32{}
	wb := s.db.NewBatch()
	defer wb.Close()
	numbers, families := 0, 0
	fill := func(id dayScope, from, to uint32) error {
		numbers += int(to - from)
		return s.setLost(wb, id, from, to, kinds)
	}
	err := s.each([]byte{tableIndex}, func(k, v []byte) error {
		if len(k) != 13 {
			return nil
		}
		id := dayScope{readTime(k[1:]), scope(readUint32(k[5:]))}
		first := readUint32(k[9:])
		r := reader{b: v}
		r.byte()
		n := r.uvarint()
		if r.err != nil || n > 1<<20 {
			return nil // a question that needs it reports the error
		}
		if at := have[id]; first > at {
			if err := fill(id, at, first); err != nil {
				return err
			}
		}
		have[id] = max(have[id], first+uint32(n))
		need[id] = max(need[id], have[id])
		return nil
	})
	if err != nil {
		return err
	}
	for id, n := range need {
		if n > have[id] {
			if err := fill(id, have[id], n); err != nil {
				return err
			}
		}
		number := uint32(id.scope) >> 2
		if int(number) < len(s.byNumber) && s.byNumber[number] != nil {
			continue
		}
		f := &family{number: number, name: fmt.Sprintf("lost_family_%d", number), kind: kinds[number]}
		v := binary.AppendUvarint(nil, uint64(f.number))
		v = binary.AppendVarint(append(v, byte(f.kind)), f.interval)
		if err := wb.Set(append([]byte{tableFamily}, f.name...), v, nil); err != nil {
			return err
		}
		s.addFamily(f)
		families++
	}
	for name, w := range s.writers {
		if g := newest[w.number]; g > w.flushed {
			w.flushed, w.points = g, true
			if err := wb.Set(append([]byte{tableWriter}, name...), w.encode(), nil); err != nil {
				return err
			}
		}
	}
	used := map[uint32]bool{} // numbers of writers
	for number := range newest {
		used[number] = true
	}
	if err := s.mendReplaced(ctx, wb, used); err != nil {
		return err
	}
	if err := s.mendWriters(wb, used, newest); err != nil {
		return err
	}
	if err := s.mendRevision(wb); err != nil {
		return err
	}
	if wb.Empty() {
		return nil
	}
	if numbers+families == 0 {
		return s.commit(wb, pebble.Sync)
	}
	s.opts.Logger.Warn("labels were in tables that are lost: their points count on under the service "+lostLabels,
		"series", numbers, "families", families)
	return s.commit(wb, pebble.Sync)
}

// mendWriters reserves the numbers of writers whose names are lost: a new writer would
// get the records and the generations of the old one.
func (s *Store) mendWriters(wb *pebble.Batch, used map[uint32]bool, newest map[uint32]uint64) error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{tableState}, UpperBound: []byte{tableState + 1}})
	if err != nil {
		return classify(err)
	}
	defer it.Close()
	for ok := it.First(); ok; {
		if len(it.Key()) < 5 {
			ok = it.Next()
			continue
		}
		number := readUint32(it.Key()[1:])
		used[number] = true
		if number == math.MaxUint32 {
			break
		}
		ok = it.SeekGE(binary.BigEndian.AppendUint32([]byte{tableState}, number+1))
	}
	if err := it.Error(); err != nil {
		return classify(err)
	}
	for _, w := range s.writers {
		delete(used, w.number)
	}
	for number := range used {
		name := fmt.Sprintf("(lost writer %d)", number)
		w := &writer{number: number, flushed: newest[number], points: newest[number] > 0}
		if err := wb.Set(append([]byte{tableWriter}, name...), w.encode(), nil); err != nil {
			return err
		}
		s.writers[name] = w
		s.opts.Logger.Warn("the name of a writer was in a table that is lost: its records are not read any more", "number", number)
	}
	return nil
}

// mendReplaced deletes chunks that reappeared because the table with their deletion is
// lost, while the run that contains them exists: they would count twice. Where the run's
// directory is lost the chunks are all there is. It adds the writers in runs to used. A
// watermark that fell back is moved to the last slot that was visibly rolled up, or late
// points would be taken for all there is.
func (s *Store) mendReplaced(ctx context.Context, wb *pebble.Batch, used map[uint32]bool) error {
	c, err := s.newScanner(ctx, s.db)
	if err != nil {
		return err
	}
	defer c.close()
	ready := s.ready
	rolled := func(tier int, until int64) {
		if tier > 0 && tier < tierSamples {
			ready[tier] = max(ready[tier], until)
		}
	}
	back := 0
	for tier := range numTiers {
		prefix := tierPrefix(nil, tier)
		c.it.SetBounds(prefix, prefixEnd(prefix))
		for ok := c.it.First(); ok; {
			if err := ctx.Err(); err != nil {
				return err
			}
			key := c.it.Key()
			if len(key) <= scopePrefixLen {
				ok = c.it.Next()
				continue
			}
			part, sc := readTime(key[2:]), scope(readUint32(key[6:]))
			f, err := s.readFolded(s.db, tier, part, sc)
			if err != nil && !errors.Is(err, store.ErrCorrupt) {
				return err
			}
			run := f != nil
			if f != nil {
				for _, w := range f.writers {
					used[w.writer] = true
				}
				if d, err := s.readDirectory(s.db, tier, part, sc); err != nil && !errors.Is(err, store.ErrCorrupt) {
					return err
				} else if err == nil && d == nil {
					run = false
				}
			}
			if f != nil { // compacted: this tier and the next have passed it
				rolled(tier, part+tierPart[tier])
				if tier < tierSamples {
					rolled(tier+1, part+tierPart[tier])
				}
			}
			for ok && c.it.Key()[scopePrefixLen] == classChunk && bytes.HasPrefix(c.it.Key(), scopePrefix(nil, tier, part, sc)) {
				ck, err := parseChunkKey(c.it.Key())
				if err == nil && ck.origin != originPut {
					rolled(tier, part+int64(ck.slot+1)*tierSlot[tier])
				}
				if err == nil && run && (ck.origin == originRollup || f.has(ck.writer, ck.gen)) {
					back++
					if err := wb.Delete(c.it.Key(), nil); err != nil {
						return err
					}
				}
				ok = c.it.Next()
			}
			if err := c.it.Error(); err != nil {
				return classify(err)
			}
			ok = c.it.SeekGE(scopePrefix(nil, tier, part, sc+1))
		}
		if err := c.it.Error(); err != nil {
			return classify(err)
		}
	}
	for tier, t := range ready {
		if t == s.ready[tier] {
			continue
		}
		if err := wb.Set(metaKey(metaReady, tier), metaTime(t), nil); err != nil {
			return err
		}
		s.ready[tier] = t
	}
	if back > 0 {
		s.opts.Logger.Warn("slots that had been replaced were back with a table that is lost, and are deleted again", "chunks", back)
	}
	return nil
}

type dayScope struct {
	day   int64
	scope scope
}

// numbersInUse reads the numbers that series points lie under, and the kinds of points
// of families without a name.
func (s *Store) numbersInUse(ctx context.Context, need map[dayScope]uint32, newest map[uint32]uint64, kinds map[uint32]series.Kind) error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{tablePoints}, UpperBound: []byte{tablePoints + 1}})
	if err != nil {
		return classify(err)
	}
	defer it.Close()
	seen := 0
	for ok := it.First(); ok; {
		if seen++; seen%1024 == 1 && ctx.Err() != nil {
			return ctx.Err()
		}
		k := it.Key()
		if len(k) <= scopePrefixLen {
			ok = it.Next()
			continue
		}
		id := dayScope{dayOf(readTime(k[2:])), scope(readUint32(k[6:]))}
		switch k[scopePrefixLen] {
		case classChunk:
			v, err := it.ValueAndErr()
			if err != nil {
				return classify(err)
			}
			ck, err := parseChunkKey(k)
			if err != nil {
				break
			}
			if c, err := openChunk(v, ck.first); err == nil {
				need[id] = max(need[id], c.last+1)
				newest[ck.writer] = max(newest[ck.writer], ck.gen)
				number := uint32(id.scope) >> 2
				named := int(number) < len(s.byNumber) && s.byNumber[number] != nil
				if _, data, ok := c.next(); ok && !named && int(k[1]) < tierSamples {
					kinds[number] = kindOf(data)
				}
			}
		case classDirectory:
			v, err := it.ValueAndErr()
			if err != nil {
				return classify(err)
			}
			if d, err := decodeDirectory(v); err == nil {
				for _, n := range d.numbers {
					need[id] = max(need[id], n+1)
				}
			}
		case classBlock: // the points themselves
			ok = it.SeekGE(append(k[:scopePrefixLen:scopePrefixLen], classBlock+1))
			continue
		}
		ok = it.Next()
	}
	return classify(it.Error())
}

// kindOf returns the kind of a stored point. Gauges and counters are stored alike, and
// count as gauges.
func kindOf(point []byte) series.Kind {
	if err := hist.New(hist.DefaultSchema).UnmarshalBinary(point); err != nil {
		if _, err := store.DecodeNumber(point); err == nil {
			return series.Gauge
		}
	}
	return series.Distribution
}

// setLost writes labels for the numbers [from, to). kinds holds those of families whose
// name is lost.
func (s *Store) setLost(wb *pebble.Batch, id dayScope, from, to uint32, kinds map[uint32]series.Kind) error {
	number, name := uint32(id.scope)>>2, ""
	kind := kinds[number]
	if int(number) < len(s.byNumber) && s.byNumber[number] != nil {
		kind, name = s.byNumber[number].kind, s.byNumber[number].name
	}
	for from < to {
		n := min(to-from, 1<<16)
		block := make([]newSeries, n)
		for i := range block {
			block[i].Series = &series.Series{Family: name, View: id.scope.view(), Kind: kind,
				Labels: labels.FromStrings(series.LabelService, lostLabels, "lost_series", fmt.Sprint(from+uint32(i)))}
		}
		k := binary.BigEndian.AppendUint32(indexScopePrefix(nil, id.day, id.scope), from)
		if err := wb.Set(k, appendIndexBlock(nil, block), nil); err != nil {
			return err
		}
		from += n
	}
	return nil
}
