package pebblestore

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// compactDue compacts what is due into runs. It reports whether samples were among it.
func (s *Store) compactDue(ctx context.Context, now time.Time) (samples bool, err error) {
	s.write.Lock()
	err = s.readFresh(ctx)
	var due []scopeID
	if err == nil {
		s.mu.RLock()
		ready := s.ready
		s.mu.RUnlock()
		elapsed := s.opts.Elapsed()
		for id, f := range s.fresh {
			end := id.part + tierPart[id.tier]
			if f.chunks == 0 || f.settling(s.opts.Quiet, elapsed) || now.Unix() < end+int64(s.opts.Settle/time.Second) {
				continue
			}
			if !passed(&ready, id.tier, end) {
				continue
			}
			due = append(due, id)
		}
	}
	s.write.Unlock()
	if err != nil {
		return false, err
	}
	slices.SortFunc(due, func(a, b scopeID) int {
		return cmp.Or(cmp.Compare(a.part, b.part), cmp.Compare(a.tier, b.tier), cmp.Compare(a.scope, b.scope))
	})
	var rewritten []scopeID
	var corrupt []error // the others are compacted all the same
	for _, id := range due {
		if err := ctx.Err(); err != nil {
			return samples, err
		}
		done, err := s.compactScope(ctx, id)
		if err != nil {
			err = fmt.Errorf("scope %d of %d s slots from %d: %w", id.scope, tierSlot[id.tier], id.part, err)
			if !errors.Is(err, store.ErrCorrupt) {
				return samples, err
			}
			corrupt = append(corrupt, err)
			continue
		}
		if done {
			samples = samples || id.tier == tierSamples
			rewritten = append(rewritten, id)
		}
	}
	return samples, errors.Join(append(corrupt, s.reclaim(ctx, rewritten))...)
}

// reclaim frees the space of the chunks that compaction has replaced. Pebble drops what
// a range deletion covers only when it compacts there, which for keys that are never
// written again may be never: unreclaimed, they are more bytes than the runs. rewritten is
// sorted by partition.
func (s *Store) reclaim(ctx context.Context, rewritten []scopeID) error {
	var bounds [numTiers][2][]byte
	for _, id := range rewritten {
		b := &bounds[id.tier]
		if b[0] == nil {
			b[0] = partPrefix(nil, id.tier, id.part)
		}
		b[1] = partPrefix(nil, id.tier, id.part+tierPart[id.tier])
	}
	for _, b := range bounds {
		if b[0] == nil {
			continue
		}
		if err := s.db.Compact(ctx, b[0], b[1], false); err != nil {
			return fmt.Errorf("reclaim the space of compacted slots: %w", classify(err))
		}
	}
	return nil
}

// worthCompacting reports whether so many chunks beside a run are worth a new run.
func worthCompacting(chunks, blocks int) bool { return chunks > 16+2*blocks }

// compactScope writes a run from the chunks of a partition and scope, and from the run
// that may exist. Puts go on meanwhile; if one touches the same scope the work is
// dropped and repeated later.
func (s *Store) compactScope(ctx context.Context, id scopeID) (done bool, err error) {
	s.write.Lock()
	snap := s.db.NewSnapshot()
	defer snap.Close()
	f := s.fresh[id]
	if f == nil {
		s.write.Unlock()
		return false, nil
	}
	before := *f
	s.write.Unlock()

	old, err := s.readDirectory(snap, id.tier, id.part, id.scope)
	if err != nil {
		return false, err
	}
	if old != nil && !worthCompacting(before.chunks, old.blocks()) {
		return false, nil
	}
	return s.rewrite(ctx, id, snap, before, nil)
}

// freshOf returns the state of what lies beside the run of a scope. The caller holds
// write.
func (s *Store) freshOf(id scopeID) freshState {
	if f := s.fresh[id]; f != nil {
		return *f
	}
	return freshState{changes: -1}
}

// rewrite writes the run of a scope from what the snapshot holds of it, without the
// samples of the series in drop, by number. It does nothing if the scope has changed
// since before.
func (s *Store) rewrite(ctx context.Context, id scopeID, snap *pebble.Snapshot, before freshState, drop []uint64) (done bool, err error) {
	u, err := s.units.get(dayOf(id.part), id.scope)
	if err != nil {
		return false, err
	}
	w := &compactor{s: s, id: id, u: u, wb: s.db.NewBatch(), merger: s.newMerger(), dir: &directory{version: rand.Uint64(), starts: []uint32{0}}}
	defer w.wb.Close()
	if w.scanner, err = s.newScanner(ctx, snap); err != nil {
		return false, err
	}
	defer w.scanner.close()
	if id.tier == tierSamples {
		if w.tally.gone, err = s.goneOf(snap, id.part, id.scope); err != nil {
			return false, err
		}
		w.tally.gone.add(drop)
	}
	start := scopePrefix(nil, id.tier, id.part, id.scope)
	if err := w.wb.DeleteRange(start, prefixEnd(start), nil); err != nil {
		return false, err
	}
	if err := w.run(ctx); err != nil {
		return false, err
	}

	s.write.Lock()
	defer s.write.Unlock()
	if s.freshOf(id) != before {
		return false, nil
	}
	if err := s.commit(w.wb, pebble.NoSync); err != nil {
		return false, err
	}
	if len(drop) > 0 {
		s.noteDropped(id.scope, id.part+tierPart[tierSamples])
		s.thinned = max(s.thinned, id.part+tierPart[tierSamples])
	}
	delete(s.fresh, id)
	s.stats.compacted.Add(uint64(w.points))
	return true, nil
}

// defaultCompactBatch is the number of points sorted at once, which bounds memory.
const defaultCompactBatch = 400_000

type compactor struct {
	s       *Store
	id      scopeID
	u       *unit
	scanner *scanner
	wb      *pebble.Batch
	merger  *merger
	dir     *directory
	tally   tally // of samples
	points  int

	kinds  []series.Kind
	arena  []byte
	found  []located
	sorted []located

	block blockWriter
	key   []byte
	value []byte
}

func (w *compactor) run(ctx context.Context) error {
	order := w.u.order()
	w.u.mu.RLock()
	w.kinds = w.u.kinds[:len(order):len(order)]
	group := w.u.groups(order)
	w.u.mu.RUnlock()
	if err := w.fold(); err != nil {
		return err
	}
	all := area{tier: w.id.tier, part: w.id.part, shards: 1}
	all.hi = all.slots()
	// The number of points of each series, to cut the order into batches.
	counts := make([]uint32, len(order))
	err := w.scanner.scan(all, w.id.scope, selectAll(len(order)), func(number uint32, _ int, _ []byte) error {
		if len(w.tally.gone) == 0 || !w.tally.gone.has(uint64(number)) {
			counts[number]++
		}
		return nil
	})
	if err != nil {
		return err
	}
	rank := make([]uint32, len(order)) // within the batch
	for len(order) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, sum := 0, 0
		for n < len(order) && (n == 0 || sum+int(counts[order[n]]) <= w.s.compactBatch) {
			sum += int(counts[order[n]])
			n++
		}
		batch, groups := order[:n], group[:n]
		order, group = order[n:], group[n:]
		if sum == 0 {
			continue
		}
		sel := &selection{group: make([]int32, len(counts))}
		for i := range sel.group {
			sel.group[i] = -1
		}
		for i, number := range batch {
			if counts[number] > 0 {
				sel.group[number] = 0
				sel.numbers = append(sel.numbers, number)
				rank[number] = uint32(i)
			}
		}
		slices.Sort(sel.numbers)
		w.arena, w.found = w.arena[:0], w.found[:0]
		err := w.scanner.scan(all, w.id.scope, sel, func(number uint32, slot int, data []byte) error {
			w.found = append(w.found, located{number: rank[number], slot: uint16(slot), size: uint32(len(data)), off: uint32(len(w.arena))})
			w.arena = append(w.arena, data...)
			return nil
		})
		if err != nil {
			return err
		}
		w.sorted = sortByNumber(w.sorted, w.found, n)
		if err := w.write(batch, groups); err != nil {
			return err
		}
	}
	return w.finish()
}

// fold records the generations that the run contains.
func (w *compactor) fold() error {
	f, err := w.s.readFolded(w.scanner.snap, w.id.tier, w.id.part, w.id.scope)
	if err != nil {
		return err
	}
	if f == nil {
		f = &folded{}
	}
	gens := map[uint32]map[uint64]bool{}
	start := classPrefix(nil, w.id.tier, w.id.part, w.id.scope, classChunk)
	it := w.scanner.it
	it.SetBounds(start, prefixEnd(start))
	for ok := it.First(); ok; ok = it.Next() {
		ck, err := parseChunkKey(it.Key())
		if err != nil {
			return err
		}
		if ck.origin != originRollup {
			if gens[ck.writer] == nil {
				gens[ck.writer] = map[uint64]bool{}
			}
			gens[ck.writer][ck.gen] = true
		}
	}
	if err := it.Error(); err != nil {
		return classify(err)
	}
	for writer, set := range gens {
		f.add(writer, slices.Collect(maps.Keys(set)))
	}
	return w.setFolded(f)
}

func (w *compactor) setFolded(f *folded) error {
	return w.wb.Set(classPrefix(nil, w.id.tier, w.id.part, w.id.scope, classFolded), appendFolded(nil, f), nil)
}

// write appends the series of a batch to the run. sorted is by rank.
func (w *compactor) write(batch, groups []uint32) error {
	var pts []slotPoint
	var parts [][]byte
	var merged []byte
	packed := w.id.tier == 0 && w.id.scope.view() == series.Full
	for l := w.sorted; len(l) > 0; {
		rank := l[0].number
		n := 1
		for n < len(l) && l[n].number == rank {
			n++
		}
		own := l[:n]
		l = l[n:]
		slices.SortStableFunc(own, func(a, b located) int { return int(a.slot) - int(b.slot) })
		number := batch[rank]
		pts, merged = pts[:0], merged[:0]
		for len(own) > 0 {
			slot := own[0].slot
			parts = parts[:0]
			for len(own) > 0 && own[0].slot == slot {
				parts = append(parts, own[0].bytesIn(w.arena))
				own = own[1:]
			}
			data := parts[0]
			if len(parts) > 1 {
				var err error
				if w.id.tier == tierSamples {
					data, err = mergeSampleData(parts)
				} else {
					data, err = w.merger.merge(w.kinds[number], parts)
				}
				if err != nil {
					return fmt.Errorf("series %d, slot %d: %w", number, slot, err)
				}
				k := len(merged)
				merged = append(merged, data...)
				data = merged[k:len(merged):len(merged)]
			}
			pts = append(pts, slotPoint{int(slot), data})
		}
		w.points += len(pts)
		if w.id.tier == tierSamples {
			n, _ := binary.Uvarint(pts[0].data) // an hour is one slot
			w.tally.counts = append(w.tally.counts, uint32(n))
		}
		if w.block.full(packed && w.kinds[number] == series.Distribution) {
			if err := w.flush(); err != nil {
				return err
			}
		}
		if err := w.block.add(number, groups[rank], pts, packed && w.kinds[number] == series.Distribution); err != nil {
			return fmt.Errorf("series %d: %w", number, err)
		}
	}
	return nil
}

// flush writes the open block.
func (w *compactor) flush() error {
	if len(w.block.numbers) == 0 {
		return nil
	}
	w.key = classPrefix(w.key[:0], w.id.tier, w.id.part, w.id.scope, classBlock)
	w.key = binary.BigEndian.AppendUint32(w.key, uint32(w.dir.blocks()))
	w.value = w.block.appendTo(w.value[:0])
	if err := w.wb.Set(w.key, w.value, nil); err != nil {
		return err
	}
	w.dir.numbers = append(w.dir.numbers, w.block.numbers...)
	w.dir.starts = append(w.dir.starts, uint32(len(w.dir.numbers)))
	w.block.reset()
	return nil
}

func (w *compactor) finish() error {
	if err := w.flush(); err != nil {
		return err
	}
	if w.id.tier == tierSamples {
		if err := w.wb.Set(classPrefix(nil, w.id.tier, w.id.part, w.id.scope, classTally), appendTally(nil, &w.tally), nil); err != nil {
			return err
		}
		if w.dir.blocks() == 0 {
			return nil
		}
	}
	return w.wb.Set(classPrefix(nil, w.id.tier, w.id.part, w.id.scope, classDirectory), appendDirectory(nil, w.dir), nil)
}
