package pebblestore

import "sync/atomic"

// Stats are running totals since Open, and the state of the directory.
type Stats struct {
	Puts     uint64 // batches stored
	Points   uint64 // points in them
	Late     uint64 // points added to a tier that had passed their slot
	Expired  uint64 // points and samples dropped: older than every retention, or late for an hour whose samples of their series were dropped
	RolledUp uint64 // points made for coarser tiers
	Settled  uint64 // points compacted into runs
	LeftOut  uint64 // points dropped because a sum would exceed what can be counted

	SamplesOutnumbered uint64 // raw samples dropped because their series had enough newer ones
	SampleHoursEvicted uint64 // hours of raw samples dropped to stay within MaxBytes

	TracesKept    uint64 // traces kept, replaced ones included
	TracesLate    uint64 // traces not kept: expired already, or far ahead of the clock
	TracesExpired uint64 // traces dropped by age
	TracesEvicted uint64 // traces dropped to stay within TraceBytes
	Traces        int64  // traces kept now
	TraceBytes    int64  // their bytes, index included, before compression

	DiskBytes, CacheBytes, MemtableBytes, IndexBytes int64
}

type statCounters struct {
	puts, points, late, expired, rolledUp, compacted, leftOut, outnumbered, evictedHours atomic.Uint64

	tracesKept, tracesLate, tracesExpired, tracesEvicted atomic.Uint64
}

// Stats returns the present statistics. It may be called at any time before Close.
func (s *Store) Stats() Stats {
	m := s.db.Metrics()
	st := Stats{
		Puts: s.stats.puts.Load(), Points: s.stats.points.Load(), Late: s.stats.late.Load(),
		Expired: s.stats.expired.Load(), RolledUp: s.stats.rolledUp.Load(), Settled: s.stats.compacted.Load(), LeftOut: s.stats.leftOut.Load(),
		DiskBytes: int64(m.DiskSpaceUsage()), CacheBytes: m.BlockCache.Size, MemtableBytes: int64(m.MemTable.Size),
	}
	st.SamplesOutnumbered, st.SampleHoursEvicted = s.stats.outnumbered.Load(), s.stats.evictedHours.Load()
	st.TracesKept, st.TracesLate = s.stats.tracesKept.Load(), s.stats.tracesLate.Load()
	st.TracesExpired, st.TracesEvicted = s.stats.tracesExpired.Load(), s.stats.tracesEvicted.Load()
	s.traces.mu.Lock()
	for _, u := range s.traces.parts {
		st.Traces += u.traces
		st.TraceBytes += u.bytes
	}
	s.traces.mu.Unlock()
	st.IndexBytes = s.units.size() + s.dirs.size()
	return st
}

func (c *unitCache) size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	var sum int64
	for e := c.lru.Front(); e != nil; e = e.Next() {
		if u := e.Value.(*unitSlot).loaded(); u != nil {
			u.mu.RLock()
			sum += u.held()
			u.mu.RUnlock()
		}
	}
	return sum
}

func (c *dirCache) size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}
