package pebblestore

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"tailscope/internal/series"
)

// besideLoaded is how many neighbours on either side are read with a series. Of
// an hour that is not settled all chunks have to be looked at anyway, and each
// holds about that many; blocks of one that is hold several too. Without room
// for them it is done for the former only.
const besideLoaded = 64

// load reads an hour of l, and keeps it unless l has changed meanwhile: then
// the caller may have to read again. It returns nil if somebody else has just
// read it.
func (set *sampleSet) load(ctx context.Context, l *lookup, hour int64) (*sampleBlock, error) {
	s := set.s
	done, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	set.loading.Lock()
	defer set.loading.Unlock()
	l.mu.Lock()
	_, has := l.find(hour)
	own := hourRead{l: l, changes: l.changes}
	l.mu.Unlock()
	if has {
		return nil, nil
	}
	// What is committed before the names are looked at and the view is opened is
	// read; what comes later has changed l by the time the block is to be kept.
	names, err := set.names(dayOf(hour))
	if err != nil {
		return nil, err
	}
	wanted := []hourRead{own}
	sel := &selection{}
	want := func(day uint32, i int) {
		for len(sel.group) <= int(day) {
			sel.group = append(sel.group, -1)
		}
		sel.group[day] = int32(i)
		sel.numbers = append(sel.numbers, day)
	}
	if int(l.number) < len(names.day) && names.day[l.number] != 0 {
		self := names.day[l.number] - 1
		lo, hi := self, self
		hours := *set.hours.Load()
		room := s.sets.cache.bytes.Load() < s.sets.cache.limit*3/4
		if room || len(hours) > 0 && hour >= hours[len(hours)-1]-3600 {
			lo, hi = max(self, besideLoaded)-besideLoaded, min(self+besideLoaded, uint32(len(names.set))-1)
		}
		for n := lo; n <= hi; n++ {
			if n == self {
				want(n, 0)
			} else if o := set.neighbour(names.set[n]); o != nil && !set.isGone(o.number, hour) {
				o.mu.Lock()
				if _, ok := o.find(hour); !ok {
					want(n, len(wanted))
					wanted = append(wanted, hourRead{l: o, changes: o.changes})
				}
				o.mu.Unlock()
			}
		}
	}
	v := s.look()
	defer v.close()
	c, err := s.newScanner(ctx, v.snap)
	if err != nil {
		return nil, err
	}
	defer c.close()
	err = c.scan(area{tier: tierSamples, part: hour, hi: 1}, set.scope, sel, func(number uint32, _ int, data []byte) error {
		w := &wanted[sel.group[number]]
		w.parts++
		var err error
		w.samples, err = decodeSamples(w.samples, data)
		return err
	})
	if err != nil {
		return nil, err
	}
	var first *sampleBlock
	for i := range wanted {
		w := &wanted[i]
		if w.parts > 1 {
			w.samples = mergeSamples(w.samples)
		}
		b := newSampleBlock(w.l, hour, w.samples)
		if i == 0 {
			first = b
		}
		if w.l.install(b, w.changes) {
			s.sets.cache.add(b)
		}
	}
	return first, nil
}

// hourRead is one series' hour that is being read.
type hourRead struct {
	l       *lookup
	changes uint64
	parts   int
	samples []series.Sample
}

// blockCache bounds the blocks in memory. Which go is decided by a clock's hand:
// it passes over those that were used since it last came by.
type blockCache struct {
	limit int64
	bytes atomic.Int64
	dead  atomic.Int64

	mu   sync.Mutex
	ring []*sampleBlock
	hand int
}

// forget is told of a block that its owner has removed; the owner's lock is held.
func (c *blockCache) forget(b *sampleBlock) {
	b.dead = true
	c.bytes.Add(-b.size)
	c.dead.Add(1)
}

// add takes a block that its owner has installed, and drops others while there
// are too many.
func (c *blockCache) add(b *sampleBlock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b.used.Store(true)
	c.ring = append(c.ring, b)
	if n := c.dead.Load(); n > 1000 && n > int64(len(c.ring)/2) {
		c.ring = slices.DeleteFunc(c.ring, func(b *sampleBlock) bool {
			b.owner.mu.Lock()
			defer b.owner.mu.Unlock()
			if b.dead {
				c.dead.Add(-1)
			}
			return b.dead
		})
	}
	for tries := 2 * len(c.ring); c.bytes.Load() > c.limit && tries > 0 && len(c.ring) > 1; tries-- {
		c.hand %= len(c.ring)
		if old := c.ring[c.hand]; !c.evict(old) {
			c.hand++
			continue
		}
		last := len(c.ring) - 1
		c.ring[c.hand], c.ring[last] = c.ring[last], nil
		c.ring = c.ring[:last]
	}
}

// evict removes a block unless it has been used, and says whether it is gone.
func (c *blockCache) evict(b *sampleBlock) bool {
	b.owner.mu.Lock()
	defer b.owner.mu.Unlock()
	if b.dead {
		c.dead.Add(-1)
		return true
	}
	if b.used.Swap(false) {
		return false
	}
	if i, ok := b.owner.find(b.hour); ok && b.owner.blocks[i] == b {
		b.owner.remove(i)
		c.dead.Add(-1)
	}
	return true
}
