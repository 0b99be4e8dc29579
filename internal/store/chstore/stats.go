package chstore

import "sync/atomic"

// Stats are running totals since Open.
type Stats struct {
	Puts     uint64 // batches stored
	Points   uint64 // points in them
	Late     uint64 // points added to a tier that had passed their slot
	Expired  uint64 // points and samples dropped: older than every retention
	LeftOut  uint64 // points dropped because a sum would exceed what can be counted
	RollUps  uint64 // steps of roll-ups finished
	Requests uint64 // statements sent, with those sent again
	Retries  uint64 // statements sent again
	Failures uint64 // statements that failed

	TracesKept, TracesLate uint64 // kept, replaced ones included; not kept: expired already
}

type statCounters struct {
	puts, points, late, expired, leftOut, rollUps, tracesKept, tracesLate atomic.Uint64
}

// Stats returns the present statistics. It may be called at any time.
func (s *Store) Stats() Stats {
	c := s.client
	return Stats{
		Puts: s.stats.puts.Load(), Points: s.stats.points.Load(), Late: s.stats.late.Load(), Expired: s.stats.expired.Load(),
		LeftOut: s.stats.leftOut.Load(), RollUps: s.stats.rollUps.Load(),
		Requests: c.requests.Load(), Retries: c.retries.Load(), Failures: c.failures.Load(),
		TracesKept: s.stats.tracesKept.Load(), TracesLate: s.stats.tracesLate.Load(),
	}
}
