package pebblestore

import (
	"container/list"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"

	"tailscope/internal/store"
)

type unitKey struct {
	day   int64
	scope scope
}

// unitCache holds loaded units. Only the holder of the store's write lock
// evicts, so that Put always appends to the unit that queries find.
type unitCache struct {
	s     *Store
	limit int64

	mu  sync.Mutex
	m   map[unitKey]*list.Element
	lru *list.List // of *unitSlot, most recently used first
}

type unitSlot struct {
	key  unitKey
	once sync.Once
	u    *unit
	err  error
	done atomic.Bool
}

// loaded returns the unit, or nil while it is being loaded.
func (l *unitSlot) loaded() *unit {
	if !l.done.Load() {
		return nil
	}
	return l.u
}

func newUnitCache(s *Store, limit int64) *unitCache {
	return &unitCache{s: s, limit: limit, m: map[unitKey]*list.Element{}, lru: list.New()}
}

// get returns the unit, which is empty if nothing of the scope was stored that day.
func (c *unitCache) get(day int64, sc scope) (*unit, error) {
	key := unitKey{day, sc}
	c.mu.Lock()
	e, ok := c.m[key]
	if ok {
		c.lru.MoveToFront(e)
	} else {
		e = c.lru.PushFront(&unitSlot{key: key})
		c.m[key] = e
	}
	slot := e.Value.(*unitSlot)
	c.mu.Unlock()
	grown := false
	slot.once.Do(func() {
		slot.u, slot.err = c.s.readUnit(day, sc)
		slot.done.Store(true)
		grown = true
	})
	if slot.err != nil {
		c.mu.Lock()
		if c.m[key] == e {
			delete(c.m, key)
			c.lru.Remove(e)
		}
		c.mu.Unlock()
	}
	// A question about a year loads hundreds of units. If the lock is held, the next get
	// or Maintain evicts.
	if grown && c.s.write.TryLock() {
		c.evict()
		c.s.write.Unlock()
	}
	return slot.u, slot.err
}

// recentPuts is the number of last Puts that keep their units in memory, whatever the
// limit: the next Puts would only load them again.
const recentPuts = 3

// evict drops the least recently used units beyond the limit. The caller holds
// the store's write lock.
func (c *unitCache) evict() {
	puts := c.s.stats.puts.Load()
	c.mu.Lock()
	defer c.mu.Unlock()
	var sum int64
	var next *list.Element
	for e := c.lru.Front(); e != nil; e = next {
		next = e.Next()
		slot := e.Value.(*unitSlot)
		u := slot.loaded()
		if u == nil {
			continue
		}
		u.mu.RLock()
		sum += u.held() + 300
		u.mu.RUnlock()
		if sum > c.limit && e != c.lru.Front() && (u.ids == nil || puts-u.lastPut > recentPuts) {
			delete(c.m, slot.key)
			c.lru.Remove(e)
		}
	}
}

// dropBefore drops the units of expired days. The caller holds the write lock.
func (c *unitCache) dropBefore(day int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, e := range c.m {
		if k.day < day {
			delete(c.m, k)
			c.lru.Remove(e)
		}
	}
}

func (s *Store) readUnit(day int64, sc scope) (*unit, error) {
	u := newUnit(day, sc)
	prefix := indexScopePrefix(nil, day, sc)
	err := s.each(prefix, func(k, v []byte) error {
		if len(k) != len(prefix)+4 {
			return fmt.Errorf("index key %x: %w", k, store.ErrCorrupt)
		}
		return u.load(binary.BigEndian.Uint32(k[len(prefix):]), v)
	})
	return u, err
}

// dirCache holds decoded run directories. They never change: a new compaction writes a
// new one with a new version, drawn at random, which is part of the key.
type dirCache struct {
	limit int64

	mu    sync.Mutex
	bytes int64
	m     map[dirKey]*list.Element
	lru   *list.List
}

type dirKey struct {
	scopeID
	version uint64
}

type dirSlot struct {
	key dirKey
	dir *directory
}

func newDirCache(limit int64) *dirCache {
	return &dirCache{limit: limit, m: map[dirKey]*list.Element{}, lru: list.New()}
}

func (c *dirCache) get(key dirKey) *directory {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.m[key]
	if !ok {
		return nil
	}
	c.lru.MoveToFront(e)
	return e.Value.(*dirSlot).dir
}

func (c *dirCache) put(key dirKey, d *directory) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.m[key]; ok {
		return
	}
	c.m[key] = c.lru.PushFront(&dirSlot{key, d})
	c.bytes += d.size()
	for c.bytes > c.limit && c.lru.Len() > 1 {
		e := c.lru.Back()
		slot := e.Value.(*dirSlot)
		c.bytes -= slot.dir.size()
		delete(c.m, slot.key)
		c.lru.Remove(e)
	}
}
