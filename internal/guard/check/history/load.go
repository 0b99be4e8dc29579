package history

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// hoursRead is one series whose hours are being read.
type hoursRead struct {
	l       *lookup
	changes uint64
	samples []series.Sample
	dropped []store.Span
}

// load reads hours of l, one with its neighbours or several of it alone, and keeps
// them unless l has changed meanwhile: then the caller may have to read again. It
// returns the block with the hour, nil if somebody else has just read it.
func (set *seriesSet) load(ctx context.Context, l *lookup, hour, hours int64) (*sampleBlock, error) {
	set.loading.Lock()
	defer set.loading.Unlock()
	from, to := hour, hour+hours*hourSeconds
	if hours < 0 {
		from, to = max(hour+(hours+1)*hourSeconds, firstHour), hour+hourSeconds
	}
	l.mu.Lock()
	beside := false // the hour before or after, towards which it is gone, is whole
	i, has := l.find(hour)
	if has && set.m.oldBlock(l.blocks[i]) {
		l.remove(i)
		has = false
	}
	if !has { // hours that are in memory are not read
		if i > 0 {
			from = max(from, l.blocks[i-1].until)
			beside = hours > 0 && l.blocks[i-1].whole
		}
		if i < len(l.blocks) {
			to = min(to, l.blocks[i].hour)
			beside = beside || hours < 0 && l.blocks[i].whole
		}
	}
	wanted := []hoursRead{{l: l, changes: l.changes}}
	l.mu.Unlock()
	if has {
		return nil, nil
	}
	if alone := to-from > hourSeconds; !alone && set.m.roomBeside(set, hour) {
		for _, o := range set.neighbours(l) {
			o.mu.Lock()
			if _, ok := o.find(hour); !ok {
				wanted = append(wanted, hoursRead{l: o, changes: o.changes})
			}
			o.mu.Unlock()
		}
	}
	err := set.loadSamples(ctx, wanted, from, to)
	if errors.Is(err, store.ErrTooMany) && len(wanted) > 1 {
		wanted = wanted[:1]
		err = set.loadSamples(ctx, wanted, from, to)
	}
	if err != nil {
		return nil, err
	}
	// Where none of them has a sample, samples of all may have been dropped, unless
	// those beside and some before were not; what is later than any has none yet.
	whole := false
	for i := range wanted {
		if ss := wanted[i].samples; len(ss) > 0 {
			whole = whole || to == from+hourSeconds
			set.found(ss)
		}
	}
	whole = whole || from >= set.end() || beside && from >= set.oldest.Load()
	var found *sampleBlock
	for i := range wanted {
		w := &wanted[i]
		bs := w.blocks(from, to, whole)
		if i == 0 {
			for _, b := range bs {
				if hour < b.until {
					found = b
					break
				}
			}
		}
		if w.l.install(bs, w.changes) {
			for _, b := range bs {
				set.m.cache.add(b)
			}
		}
	}
	return found, nil
}

// roomBeside reports whether neighbours of a series are worth their room: those of the
// newest hours always are, because nearly all of these are asked for.
func (m *Cache) roomBeside(set *seriesSet, hour int64) bool {
	return m.cache.bytes.Load() < m.cache.limit*3/4 || hour >= set.end()-2*hourSeconds
}

// loadSamples reads the samples of series in the hours from one to the other.
func (set *seriesSet) loadSamples(ctx context.Context, wanted []hoursRead, from, to int64) error {
	q := store.SampleQuery{Family: set.family, StartMillis: from * 1000, EndMillis: to*1000 - 1, Dropped: true}
	at := make(map[seriesKey]int, len(wanted))
	for i := range wanted {
		l := wanted[i].l
		q.IDs = append(q.IDs, l.id)
		at[seriesKey{l.id, l.kind}] = i
	}
	got, err := set.m.Samples(store.WithBudget(ctx, nil), q)
	if err != nil {
		return err
	}
	var buf []byte
	for i := range got {
		s := series.Series{Family: set.family, View: series.Full, Kind: got[i].Kind, Labels: got[i].Labels}
		var id series.ID
		id, buf = s.ID(buf)
		if k, ok := at[seriesKey{id, s.Kind}]; ok {
			wanted[k].samples, wanted[k].dropped = got[i].Samples, got[i].Dropped
		}
	}
	return nil
}

// blocks makes blocks of the hours from one to the other: one of each hour with
// samples, and one of each time between them.
func (w *hoursRead) blocks(from, to int64, whole bool) (out []*sampleBlock) {
	if to == from+hourSeconds {
		return []*sampleBlock{newSampleBlock(w.l, from, to, w.samples, whole && len(w.dropped) == 0)}
	}
	for ss := w.samples; len(ss) > 0; {
		hour, n := hourOf(ss[0].TimeMillis), 1
		for n < len(ss) && hourOf(ss[n].TimeMillis) == hour {
			n++
		}
		if from < hour {
			out = append(out, newSampleBlock(w.l, from, hour, nil, whole && !w.lost(from, hour)))
		}
		out = append(out, newSampleBlock(w.l, hour, hour+hourSeconds, ss[:n], !w.lost(hour, hour+hourSeconds)))
		from, ss = hour+hourSeconds, ss[n:]
	}
	if from < to {
		out = append(out, newSampleBlock(w.l, from, to, nil, whole && !w.lost(from, to)))
	}
	return out
}

// lost reports whether samples of the hours from one to the other were dropped.
func (w *hoursRead) lost(from, to int64) bool {
	return slices.ContainsFunc(w.dropped, func(d store.Span) bool { return d.Start < to*1000 && d.End > from*1000 })
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

// forget counts a block as dead that its owner has removed. The owner's lock is held.
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

// evict removes a block that has not been used since the last sweep, and reports whether
// it is gone.
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
