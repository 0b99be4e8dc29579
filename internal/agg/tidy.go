package agg

import (
	"time"

	"tailscope/internal/series"
)

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
