package agg

import (
	"math"

	"tailscope/internal/seconds"
	"tailscope/internal/series"
)

// noRecent is the number of a series of which Options.Seconds has none.
const noRecent = math.MaxUint32

// recent appends requests to the log of Options.Seconds.
type recent struct {
	ring *seconds.Ring
	on   bool
	log  []seconds.Observation
	now  int64 // Unix, of the batch
	from int64 // the oldest second that the ring has
	full int   // requests that the log had no space for
}

// beginRecent locks the log, if there is one. The caller holds mu, and calls end.
func (a *Aggregator) beginRecent(nowNanos int64) (r recent) {
	if a.o.Seconds == nil {
		return r
	}
	r.ring, r.on = a.o.Seconds, true
	r.now = nowNanos / 1e9
	r.from = r.now - r.ring.Keep()
	var epoch uint32
	if r.log, epoch = r.ring.Begin(); epoch != a.recentEpoch {
		a.recentEpoch = epoch
		for i := range a.reg.series.n {
			a.reg.series.at(uint32(i)).recent = 0
		}
	}
	return r
}

// others reports whether spans of a service that are not requests by their kind stand for
// some: it has had none of these, for as long as it takes a server's span to come after
// its children's.
func (r *recent) others(reg *registry, of uint32) bool {
	switch s := reg.services[of]; {
	case of == 0 || s.serves:
		return false
	case reg.generation-s.born < graceGenerations:
		r.ring.Skip(s.name)
		return false
	}
	return true
}

// graceGenerations is about a minute.
const graceGenerations = 6

// add appends a request of the series marginal, unless it is older than what the ring has.
func (r *recent) add(reg *registry, marginal uint32, request bool, s *observation) {
	second := int64(s.slot)*int64(series.Base) + int64(s.second)
	if second < r.from {
		return
	}
	m := reg.series.at(marginal)
	if m.recent == 0 {
		if m.recent = r.ring.Number(reg.meta.at(marginal).Labels); m.recent == 0 {
			m.recent = noRecent
		}
	}
	if m.recent == noRecent {
		return
	}
	if len(r.log) == cap(r.log) {
		r.full++
		return
	}
	if !request && !r.ring.Spare(m.recent) {
		return
	}
	r.log = append(r.log, seconds.Observation{Series: m.recent, Weight: s.weight, Second: uint32(second), Came: uint32(r.now), Nanos: s.nanos})
}

func (r *recent) end() {
	if r.on {
		r.ring.End(r.log, r.full)
	}
}
