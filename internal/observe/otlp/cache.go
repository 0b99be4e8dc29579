package otlp

import (
	"sync"
	"sync/atomic"

	"tailscope/internal/agg"
	"tailscope/internal/observe/traces"
)

// cache holds the target that a span or a stream was resolved to, and its name in the
// breakdown, by the 64-bit hash of what decides it. Reading takes no lock: tables only
// ever gain entries, an entry's hash being written last, and are replaced whole. When
// the young table is full it becomes the old one, whose entries move over as they are
// used; the rest is dropped. It holds no pointers for the garbage collector to scan.
type cache struct {
	limit int // bound on the entries of one table
	mu    sync.Mutex
	now   atomic.Pointer[tables]
}

// tables holds the tables of one epoch of the aggregator and the assembler.
type tables struct {
	epoch      uint32
	young, old *table
}

type table struct {
	mask uint64
	used int // guarded by cache.mu
	slot []slot
}

// slot is empty while hash is 0. The probability that any two of half a million keys
// have the same 64 bits is 1e-8, and the seed of each process prevents a search for such
// keys.
type slot struct {
	hash, target, name atomic.Uint64
}

// resolved is the content of a slot.
type resolved struct {
	target agg.Target
	name   traces.Name
}

func (s *slot) load() resolved {
	return resolved{agg.Target(s.target.Load()), traces.Name(s.name.Load())}
}

const smallest = 1 << 10

func newCache(limit int) *cache {
	c := &cache{limit: max(limit, smallest)}
	c.now.Store(&tables{young: newTable(smallest)})
	return c
}

// newTable returns a table of n slots, a power of two.
func newTable(n int) *table { return &table{mask: uint64(n) - 1, slot: make([]slot, n)} }

func (t *table) find(h uint64) (resolved, bool) {
	for i := h & t.mask; ; i = (i + 1) & t.mask {
		s := &t.slot[i]
		switch s.hash.Load() {
		case h:
			return s.load(), true
		case 0:
			return resolved{}, false
		}
	}
}

// put adds an entry if it is missing. The table must have a free slot.
func (t *table) put(h uint64, to resolved) {
	for i := h & t.mask; ; i = (i + 1) & t.mask {
		s := &t.slot[i]
		switch s.hash.Load() {
		case 0:
			s.target.Store(uint64(to.target))
			s.name.Store(uint64(to.name))
			s.hash.Store(h)
			t.used++
			return
		case h:
			return
		}
	}
}

// at returns the tables that hold targets of the epoch or a later one.
func (c *cache) at(epoch uint32) *tables {
	t := c.now.Load()
	if int32(epoch-t.epoch) <= 0 {
		return t
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t = c.now.Load()
	if int32(epoch-t.epoch) > 0 {
		t = &tables{epoch: epoch, young: newTable(len(t.young.slot))}
		c.now.Store(t)
	}
	return t
}

// get looks up h. t is what at returned at the beginning of the request.
func (c *cache) get(t *tables, h uint64) (resolved, bool) {
	h = max(h, 1) // 0 is an empty slot
	to, ok := t.young.find(h)
	if !ok {
		if now := c.now.Load(); now != t {
			if now.epoch != t.epoch {
				return to, false
			}
			if to, ok = now.young.find(h); ok {
				return to, true
			}
			t = now
		}
		if t.old == nil {
			return to, false
		}
		if to, ok = t.old.find(h); ok {
			c.put(t.epoch, h, to)
		}
	}
	return to, ok
}

// latest returns the present tables if they are of the epoch of t, which at returned, or else t.
func (c *cache) latest(t *tables) *tables {
	if now := c.now.Load(); now.epoch == t.epoch {
		return now
	}
	return t
}

// fetch touches what find will read of the pending spans. The loads are independent of each
// other, so that the processor has many under way at once. sum has no meaning: it keeps the
// compiler from dropping them.
func (t *tables) fetch(list []pending) (sum uint64) {
	young := t.young
	for i := range list {
		sum += young.slot[list[i].hash&young.mask].hash.Load()
	}
	return sum
}

// find is get of a hash that is not 0, without what was put since latest returned t.
func (c *cache) find(t *tables, h uint64) (resolved, bool) {
	to, ok := t.young.find(h)
	if !ok && t.old != nil {
		return c.get(t, h)
	}
	return to, ok
}

// put adds what was resolved in the epoch or later.
func (c *cache) put(epoch uint32, h uint64, to resolved) {
	h = max(h, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.now.Load()
	if t.epoch != epoch {
		return
	}
	if y := t.young; y.used >= len(y.slot)*5/8 {
		next := &tables{epoch: t.epoch, old: t.old}
		if y.used >= c.limit {
			next.old, next.young = y, newTable(len(y.slot))
		} else {
			next.young = newTable(2 * len(y.slot))
			for i := range y.slot {
				if h := y.slot[i].hash.Load(); h != 0 {
					next.young.put(h, y.slot[i].load())
				}
			}
		}
		c.now.Store(next)
		t = next
	}
	t.young.put(h, to)
}

// bytes returns the memory of the tables.
func (c *cache) bytes() int64 {
	t := c.now.Load()
	n := len(t.young.slot)
	if t.old != nil {
		n += len(t.old.slot)
	}
	return int64(n) * slotBytes
}

// slotBytes is the size of a slot.
const slotBytes = 24

// entriesOf returns the entries that each of the two tables may have within
// bytes. A table has up to twice the slots.
func entriesOf(bytes int64) int {
	n := smallest
	for int64(2*n)*2*2*slotBytes <= bytes {
		n *= 2
	}
	return n
}

// entries returns the present number of entries.
func (c *cache) entries() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.now.Load()
	n := t.young.used
	if t.old != nil {
		n += t.old.used
	}
	return n
}
