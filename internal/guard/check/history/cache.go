package history

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Cache is a store that keeps in memory the raw samples that a History has read of
// it, and adds to them what is put. Who puts, and who maintains, does so through it:
// a look-up then sees every Put that has returned.
type Cache struct {
	store.Store
	o     CacheOptions
	cache blockCache

	mu   sync.RWMutex
	sets map[string]*seriesSet // by family

	putting sync.Mutex        // guards what follows
	flushed map[string]uint64 // by writer, the highest generation that was put or tried
	put     []*lookup         // scratch
	id      []byte            // likewise
}

// CacheOptions configure a Cache. The zero value of each means the default.
type CacheOptions struct {
	Bytes   int64 // bounds the samples, which take 1 to 16 bytes each; default 128 MiB
	Samples int   // how many of a series the store keeps at least; default 15,000
	// Age bounds how long ago a series that is looked up may have ended; default as long
	// as the store knows of it.
	Age time.Duration
	// Refresh bounds the age of what was read where others put or maintain too; sixty times
	// as long for hours that were past by an hour when they were read. Default
	// no bound: nobody else does. Negative: each look-up reads.
	Refresh time.Duration
	Now     func() time.Time // default time.Now
}

// NewCache returns a Cache over the store. It has no goroutines, and is closed with
// the store.
func NewCache(st store.Store, o CacheOptions) *Cache {
	if o.Bytes == 0 {
		o.Bytes = 128 << 20
	}
	if o.Samples == 0 {
		o.Samples = 15000
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	m := &Cache{Store: st, o: o, sets: map[string]*seriesSet{}, flushed: map[string]uint64{}}
	m.cache.limit = o.Bytes
	return m
}

// Bytes returns how many bytes the samples in memory take.
func (m *Cache) Bytes() int64 { return m.cache.bytes.Load() }

// old reports whether what was read at a moment is to be read again.
func (m *Cache) old(read time.Time) bool {
	return m.o.Refresh != 0 && m.o.Now().Sub(read) >= m.o.Refresh
}

// pastRefresh is how many times as long a block of past hours is fresh as one that is still
// written to.
const pastRefresh = 60

// oldBlock reports whether a block is to be read again.
func (m *Cache) oldBlock(b *sampleBlock) bool {
	if !m.old(b.read) {
		return false
	}
	past := b.read.Unix()-b.until > hourSeconds
	return !past || m.o.Now().Sub(b.read) >= pastRefresh*m.o.Refresh
}

// Put puts the batch, and shows it to look-ups.
func (m *Cache) Put(ctx context.Context, b *store.Batch) error {
	again, err := m.begin(ctx, b)
	if err != nil {
		return err
	}
	err = m.Store.Put(ctx, b)
	m.show(b, again || err != nil)
	return err
}

// begin reports whether the batch's generation may have been put before.
func (m *Cache) begin(ctx context.Context, b *store.Batch) (again bool, err error) {
	m.putting.Lock()
	defer m.putting.Unlock()
	highest, ok := m.flushed[b.Writer]
	if !ok {
		if highest, err = m.Flushed(ctx, b.Writer); err != nil {
			return false, err
		}
	}
	m.flushed[b.Writer] = max(highest, b.Generation)
	return b.Generation <= highest, nil
}

// show adds to the sets and to the samples what has been put. Samples that are put
// again may replace others: which of them count only the store knows.
func (m *Cache) show(b *store.Batch, again bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if len(m.sets) == 0 {
		return
	}
	m.putting.Lock()
	defer m.putting.Unlock()
	m.put = append(m.put[:0], make([]*lookup, len(b.Series))...)
	var set *seriesSet
	family := ""
	for i := range b.Series {
		s := &b.Series[i]
		if s.Kind == series.Distribution || s.View != series.Full {
			continue
		}
		if s.Family != family {
			family, set = s.Family, m.sets[s.Family]
		}
		if set == nil {
			continue
		}
		var id series.ID
		if b.IDs != nil {
			id = b.IDs[i]
		} else {
			id, m.id = s.ID(m.id)
		}
		m.put[i] = set.see(s, id)
	}
	for i := range b.Samples {
		l := m.put[b.Samples[i].Series]
		for ss := b.Samples[i].Samples; l != nil && len(ss) > 0; {
			hour := hourOf(ss[0].TimeMillis)
			n := 1
			for n < len(ss) && hourOf(ss[n].TimeMillis) == hour {
				n++
			}
			l.addSamples(hour, ss[:n], again)
			ss = ss[n:]
		}
	}
	clear(m.put)
}

// Maintain maintains the store, and forgets the samples that it has dropped.
func (m *Cache) Maintain(ctx context.Context, now time.Time) error {
	err := m.Store.Maintain(ctx, now)
	m.mu.RLock()
	none := len(m.sets) == 0
	m.mu.RUnlock()
	if none {
		return err
	}
	return errors.Join(err, m.forget(ctx))
}

// churned bounds the growth of a set: with so many series beyond twice its first, it is
// made again without those that have ended.
const churned = 10_000

func (m *Cache) forget(ctx context.Context) error {
	families, err := m.Families(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range families {
		set := m.sets[f.Name]
		if set == nil {
			continue
		}
		retired := set.length.Load() > 2*set.first+churned
		if retired {
			set.length.Store(-1)
			delete(m.sets, f.Name)
		}
		if retired || set.dropped != f.Dropped {
			set.dropped = f.Dropped
			for o := set.oldest.Load(); o < f.Dropped.Until && !set.oldest.CompareAndSwap(o, lastHour); o = set.oldest.Load() {
			}
			for _, l := range set.lookups() {
				l.forget(f.Dropped.Until, retired)
			}
		}
	}
	return nil
}

// seriesOf returns the number series of a family, nil while there are none.
func (m *Cache) seriesOf(ctx context.Context, family string) (*seriesSet, error) {
	for {
		m.mu.RLock()
		set := m.sets[family]
		m.mu.RUnlock()
		if set == nil {
			m.mu.Lock()
			if m.sets[family] == nil {
				m.sets[family] = &seriesSet{m: m, family: family, byID: map[seriesKey]uint32{}, by: map[label][]uint32{}, unread: true}
				m.sets[family].newest.Store(never)
				m.sets[family].oldest.Store(lastHour)
			}
			m.mu.Unlock()
			continue
		}
		if err := set.read(ctx); err != nil {
			return nil, err
		}
		switch set.length.Load() {
		case -1: // it has been replaced since
		case 0:
			return nil, nil
		default:
			return set, nil
		}
	}
}

// lookups returns those of all series.
func (set *seriesSet) lookups() []*lookup {
	set.mu.RLock()
	defer set.mu.RUnlock()
	return slices.Clone(set.all)
}
