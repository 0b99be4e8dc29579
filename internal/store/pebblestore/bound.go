package pebblestore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// defaultBoundSamples bounds the samples in the hours that one Maintain rewrites; the
// next call continues.
const defaultBoundSamples = 10_000_000

// boundSamples drops the samples of each series in hours from which on the series has
// enough newer ones. It rewrites an hour only once half of its samples are to go, so
// that each sample is rewritten less than twice, and the surplus is less than what must
// be kept. Only compacted hours count as newer, and only those are rewritten.
func (s *Store) boundSamples(ctx context.Context) error {
	snap := s.db.NewSnapshot()
	defer snap.Close()
	c, err := s.newScanner(ctx, snap)
	if err != nil {
		return err
	}
	defer c.close()
	// Hours with samples, by scope, newest last.
	hours := map[scope][]int64{}
	prefix := tierPrefix(nil, tierSamples)
	c.it.SetBounds(prefix, prefixEnd(prefix))
	for ok := c.it.First(); ok; {
		part, sc := readTime(c.it.Key()[2:]), scope(readUint32(c.it.Key()[6:]))
		hours[sc] = append(hours[sc], part)
		ok = c.it.SeekGE(scopePrefix(nil, tierSamples, part, sc+1))
	}
	if err := c.it.Error(); err != nil {
		return classify(err)
	}
	s.boundMore = false
	budget := s.boundBudget
	thinned := int64(math.MinInt64)
	var rewritten []int64
	var errs []error
	for _, sc := range slices.Sorted(maps.Keys(hours)) {
		b := bounder{s: s, scanner: c, scope: sc, family: s.familyName(sc), byID: map[series.ID]int32{}}
		for _, part := range slices.Backward(hours[sc]) {
			if err := ctx.Err(); err != nil {
				return err
			}
			h, err := b.hour(part)
			if err != nil {
				errs = append(errs, fmt.Errorf("samples of scope %d from %d: %w", sc, part, err))
				continue
			}
			if h.gone {
				thinned = max(thinned, part+tierPart[tierSamples])
			}
			if h.drop == 0 || 2*h.drop < h.samples {
				continue
			}
			if budget <= 0 {
				s.boundMore = true
				break
			}
			budget -= h.samples
			done, err := s.rewriteWithout(ctx, scopeID{partID{tierSamples, part}, sc}, b.dropped)
			if err != nil {
				errs = append(errs, fmt.Errorf("samples of scope %d from %d: %w", sc, part, err))
			}
			if done {
				thinned = max(thinned, part+tierPart[tierSamples])
				rewritten = append(rewritten, part)
				s.stats.outnumbered.Add(uint64(h.drop))
			}
		}
	}
	if !s.boundMore && len(errs) == 0 {
		s.write.Lock()
		s.thinned = thinned
		s.write.Unlock()
	}
	return errors.Join(append(errs, s.reclaimHours(ctx, rewritten))...)
}

// bounder counts the samples of a scope's series, from the newest hour back.
type bounder struct {
	s       *Store
	scanner *scanner
	scope   scope
	family  string

	byID   map[series.ID]int32 // index in counts
	counts []int               // samples so far
	day    int64
	places []int32 // index plus one of the day's series; 0 is not looked up yet

	dropped []uint64 // series of the hour that have enough newer samples
	id      []byte
	labels  labels.ScratchBuilder
}

// counted counts the samples of an hour.
type counted struct {
	samples, drop int  // samples of all series, and of those to drop
	gone          bool // samples of some series have been dropped before
}

// hour counts an hour's samples.
func (b *bounder) hour(part int64) (h counted, err error) {
	dir, err := b.s.readDirectory(b.scanner.snap, tierSamples, part, b.scope)
	if err != nil {
		return h, err
	}
	t, err := b.s.readTally(b.scanner.snap, part, b.scope, true)
	if err != nil {
		return h, err
	}
	h.gone = t != nil && len(t.gone) > 0
	if dir == nil {
		return h, nil
	}
	if t != nil && len(t.counts) != len(dir.numbers) {
		return h, fmt.Errorf("tally of %d series, directory says %d: %w", len(t.counts), len(dir.numbers), store.ErrCorrupt)
	}
	u, err := b.s.units.get(dayOf(part), b.scope)
	if err != nil {
		return h, err
	}
	if b.day != dayOf(part) {
		b.day, b.places = dayOf(part), b.places[:0]
	}
	b.dropped = b.dropped[:0]
	u.mu.RLock()
	defer u.mu.RUnlock()
	add := func(number uint32, n int) error {
		place, err := b.place(u, number)
		if err != nil {
			return err
		}
		h.samples += n
		if b.counts[place] >= b.s.opts.SampleCount {
			b.dropped = append(b.dropped, uint64(number))
			h.drop += n
		}
		b.counts[place] += n
		return nil
	}
	if t == nil {
		err = b.scanner.run(area{tier: tierSamples, part: part, hi: 1, shards: 1}, b.scope, selectAll(len(u.kinds)), func(number uint32, _ int, data []byte) error {
			n, _ := binary.Uvarint(data)
			return add(number, int(n))
		})
	} else {
		for i, number := range dir.numbers {
			if err = add(number, int(t.counts[i])); err != nil {
				break
			}
		}
	}
	slices.Sort(b.dropped)
	return h, err
}

// place returns the index of a series in counts. The caller holds u.mu.
func (b *bounder) place(u *unit, number uint32) (int32, error) {
	if int(number) >= len(u.kinds) {
		return 0, fmt.Errorf("samples of series %d, which the index lacks: %w", number, store.ErrCorrupt)
	}
	for len(b.places) <= int(number) {
		b.places = append(b.places, 0)
	}
	if p := b.places[number]; p > 0 {
		return p - 1, nil
	}
	var id series.ID
	if u.ids != nil {
		id = u.ids[number+1]
	} else {
		sr := series.Series{Family: b.family, View: b.scope.view(), Kind: u.kinds[number], Labels: u.labels(number, &b.labels)}
		id, b.id = idOf(&sr, b.id)
	}
	p, ok := b.byID[id]
	if !ok {
		p = int32(len(b.counts))
		b.byID[id] = p
		b.counts = append(b.counts, 0)
	}
	b.places[number] = p + 1
	return p, nil
}

// droppedSamples counts how often samples were dropped, by family and in all.
type droppedSamples struct {
	all store.SamplesDropped
	by  map[uint32]store.SamplesDropped // by number of the family
}

func (d *droppedSamples) ofFamily(family uint32) store.SamplesDropped {
	o := d.by[family]
	return store.SamplesDropped{Times: d.all.Times + o.Times, Until: max(d.all.Until, o.Until)}
}

// everyScope stands for all scopes.
const everyScope = scope(math.MaxUint32)

// noteDropped records that samples from before a moment were dropped.
func (s *Store) noteDropped(sc scope, until int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sc == everyScope {
		s.dropped.all.Times++
		s.dropped.all.Until = max(s.dropped.all.Until, until)
		return
	}
	if s.dropped.by == nil {
		s.dropped.by = map[uint32]store.SamplesDropped{}
	}
	d := s.dropped.by[uint32(sc)>>2]
	s.dropped.by[uint32(sc)>>2] = store.SamplesDropped{Times: d.Times + 1, Until: max(d.Until, until)}
}

// rewriteWithout rewrites an hour of samples without those of the series in drop, by number, and
// records that they are gone. It leaves the hour for another time if Puts touch it
// meanwhile.
func (s *Store) rewriteWithout(ctx context.Context, id scopeID, drop []uint64) (done bool, err error) {
	s.write.Lock()
	snap := s.db.NewSnapshot()
	before := s.freshOf(id)
	s.write.Unlock()
	defer snap.Close()
	return s.rewrite(ctx, id, snap, before, drop)
}

// reclaimHours frees the space of dropped samples.
func (s *Store) reclaimHours(ctx context.Context, hours []int64) error {
	slices.Sort(hours)
	hours = slices.Compact(hours)
	for len(hours) > 0 {
		n := 1
		for n < len(hours) && hours[n] == hours[n-1]+tierPart[tierSamples] {
			n++
		}
		from, to := partPrefix(nil, tierSamples, hours[0]), partPrefix(nil, tierSamples, hours[n-1]+tierPart[tierSamples])
		if err := s.db.Compact(ctx, from, to, false); err != nil {
			return fmt.Errorf("reclaim the space of samples left out: %w", classify(err))
		}
		hours = hours[n:]
	}
	return nil
}
