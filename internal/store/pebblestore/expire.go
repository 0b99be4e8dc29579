package pebblestore

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// expire drops what is older than its tier's retention at aged, and the oldest slots of
// the finest tiers while the store exceeds its bound.
func (s *Store) expire(ctx context.Context, now, aged time.Time) error {
	raised, err := s.raiseDue(now, aged)
	if err != nil || !raised || s.opts.MaxBytes == 0 {
		return err
	}
	// A range deletion frees space when Pebble compacts it, which may be late; with a
	// bound the space is needed now.
	for tier := range numTiers {
		if used := s.db.Metrics().DiskSpaceUsage(); used <= uint64(s.opts.MaxBytes) {
			return nil
		}
		if err := s.db.Compact(ctx, tierPrefix(nil, tier), partPrefix(nil, tier, max(s.floorOf(tier), farPast)), false); err != nil {
			return classify(err)
		}
	}
	return nil
}

func (s *Store) floorOf(tier int) int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.floor[tier]
}

// raiseDue moves the floors to their places at now, with ages at aged, and reports whether
// any has moved.
func (s *Store) raiseDue(now, aged time.Time) (bool, error) {
	s.write.Lock()
	defer s.write.Unlock()
	s.mu.RLock()
	floor, ready := s.floor, s.ready
	s.mu.RUnlock()
	// What has not been rolled up yet stays, whatever its age.
	limit := func(tier int, t int64) int64 {
		if tier+1 < tierSamples {
			t = min(t, ready[tier+1])
		}
		return partOf(tier, max(t, farPast))
	}
	for tier := range numTiers {
		age := s.opts.SampleAge
		if tier < tierSamples {
			age = s.opts.Retention[tier]
		}
		floor[tier] = max(floor[tier], limit(tier, aged.Add(-age).Unix()))
	}
	if s.opts.MaxBytes > 0 {
		if err := s.raiseToFit(now, &floor, limit); err != nil {
			return false, err
		}
	}
	if floor == s.floor {
		return false, nil
	}
	return true, s.raiseFloors(floor)
}

// raiseToFit raises floors until the rest fits the bound.
func (s *Store) raiseToFit(now time.Time, floor *[numTiers]int64, limit func(int, int64) int64) error {
	used, err := s.db.EstimateDiskUsage([]byte{0}, []byte{tablePoints})
	if err != nil {
		return classify(err)
	}
	traces, err := s.db.EstimateDiskUsage([]byte{tableTrace}, []byte{tableTraceEnd})
	if err != nil {
		return classify(err)
	}
	used += traces
	for tier := range numTiers {
		n, err := s.db.EstimateDiskUsage(partPrefix(nil, tier, max(floor[tier], farPast)), prefixEnd(tierPrefix(nil, tier)))
		if err != nil {
			return classify(err)
		}
		used += n
	}
	c, err := s.newScanner(context.Background(), s.db)
	if err != nil {
		return err
	}
	defer c.close()
	// The first partition of a tier that may be dropped: the last two stay.
	oldest := func(tier int) (part int64, ok bool) {
		prefix := tierPrefix(nil, tier)
		c.it.SetBounds(prefix, prefixEnd(prefix))
		if !c.it.SeekGE(partPrefix(nil, tier, max(floor[tier], farPast))) {
			return 0, false
		}
		part = readTime(c.it.Key()[2:])
		return part, part < limit(tier, partOf(tier, now.Unix())-tierPart[tier])
	}
	for tier := 0; tier < tierSamples && used > uint64(s.opts.MaxBytes); {
		from := tier
		part, ok := oldest(tier)
		if tier == 0 {
			if p, found := oldest(tierSamples); found && (!ok || p < part) {
				from, part, ok = tierSamples, p, true
			}
		}
		if !ok {
			if err := c.it.Error(); err != nil {
				return classify(err)
			}
			tier++
			continue
		}
		floor[from] = part + tierPart[from]
		n, err := s.db.EstimateDiskUsage(partPrefix(nil, from, part), partPrefix(nil, from, floor[from]))
		if err != nil {
			return classify(err)
		}
		used -= min(n, used)
		what := "slots"
		if from == tierSamples {
			what = "raw samples"
			s.stats.evictedHours.Add(1)
		}
		s.opts.Logger.Info("dropped "+what+" to keep the store within its bound", "resolution", tierSlot[from],
			"until", time.Unix(floor[from], 0).UTC(), "bound", s.opts.MaxBytes)
	}
	return nil
}

// raiseFloors deletes what lies below the floors. The caller holds write.
func (s *Store) raiseFloors(floor [numTiers]int64) error {
	wb := s.db.NewBatch()
	defer wb.Close()
	var errs []error
	oldest := floor[0]
	s.mu.RLock()
	old := s.floor
	s.mu.RUnlock()
	for tier := range numTiers {
		oldest = min(oldest, floor[tier])
		if floor[tier] == old[tier] {
			continue
		}
		errs = append(errs,
			wb.DeleteRange(tierPrefix(nil, tier), partPrefix(nil, tier, floor[tier]), nil),
			wb.DeleteRange([]byte{tableDirect, byte(tier)}, directKey(nil, tier, floor[tier]), nil),
			wb.DeleteRange([]byte{tableCoarse, byte(tier)}, coarseKey(nil, tier, floor[tier], 0), nil),
			wb.Set(metaKey(metaFloor, tier), metaTime(floor[tier]), nil))
	}
	day := dayOf(max(oldest, farPast))
	errs = append(errs, wb.DeleteRange([]byte{tableIndex}, indexPrefix(nil, day), nil))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	// First the floors, then the deletion: a query that still sees the old
	// floors has its snapshot from before.
	s.mu.Lock()
	s.floor = floor
	for id := range s.direct {
		if id.part < floor[id.tier] {
			delete(s.direct, id)
		}
	}
	for _, parts := range s.coarse {
		maps.DeleteFunc(parts, func(id partID, _ bool) bool { return id.part < floor[id.tier] })
	}
	s.mu.Unlock()
	for id := range s.fresh {
		if id.part < floor[id.tier] {
			delete(s.fresh, id)
		}
	}
	s.units.dropBefore(day)
	err := s.commit(wb, pebble.NoSync)
	if floor[tierSamples] > old[tierSamples] {
		s.noteDropped(everyScope, floor[tierSamples])
	}
	return err
}
