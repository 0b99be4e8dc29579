package agg

import "time"

// crowdedIdle replaces IdleAfter once the tables of series are an eighth of the memory.
const crowdedIdle = 10 * time.Second

// retireIdle retires idle series. The caller holds putMu.
func (a *Aggregator) retireIdle(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	used := a.memory()
	pressed := used > a.o.MemoryBytes/2
	// Most series of many tenants are seen now and then. Making one anew costs
	// microseconds; keeping it costs memory until it is seen again.
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
		a.reg.clearGroups() // filled again by new look-ups
	case pressed || crowded:
		idle = min(idle, crowdedIdle)
	}
	// A target is idle if its last generation ended before the moment: it is older than
	// the last one begun by then.
	since := uint32(a.open.number)
	for i := len(a.began) - 1; i > 0 && a.began[i].at.After(now.Add(-idle)); i-- {
		since = a.began[i-1].number
	}
	for len(a.began) > 1 && a.began[1].number < since {
		a.began = a.began[1:]
	}
	if a.reg.retire(since, used > a.o.MemoryBytes*7/8) > 0 || a.reg.pressed && !pressed {
		a.reg.pressed = false // names are admitted again
		a.advance()
	}
	a.reclaim()
	if a.memory() > a.o.MemoryBytes*7/8 {
		if a.reg.shedTenants(a.o.MemoryBytes / 4) {
			a.advance()
		}
		a.full.Store(a.memory() > a.o.MemoryBytes)
	}
}

// reclaim frees the targets and series that nothing refers to any more. The caller holds
// putMu and mu.
func (a *Aggregator) reclaim() {
	oldest := uint32(a.open.number)
	if len(a.frozen) > 0 {
		oldest = uint32(a.frozen[0].number)
	}
	a.reg.reclaim(a.oldestPin(), oldest)
	a.full.Store(a.memory() > a.o.MemoryBytes)
}

// reclaimSoon frees what was retired while batches still held it: they end within
// milliseconds, the next flush is seconds away, and until then new series would take
// memory of their own.
func (a *Aggregator) reclaimSoon() {
	if !a.putMu.TryLock() {
		return // a flush is in progress, and reclaims
	}
	defer a.putMu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.reg.graves) > 0 && a.reg.graves[0].epoch < a.oldestPin() {
		a.reclaim()
	}
}
