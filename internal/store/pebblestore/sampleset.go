package pebblestore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// sampleSet is the number series of a family over all days that raw samples are
// kept, numbered as they came, and the lookups made of them. The holder of the
// store's write lock alone adds to it.
type sampleSet struct {
	s      *Store
	scope  scope
	family string
	u      *unit // its day is of no meaning
	length atomic.Int64
	first  int64 // length when it was made

	hours atomic.Pointer[[]int64] // that hold samples of the family, or held them, ascending
	// gone says by day, and then by number, of which hours of the day a series'
	// samples are gone: bit 0 is the first. What it points to does not change.
	gone atomic.Pointer[map[int64][]uint32]

	mu      sync.Mutex
	lookups []*lookup           // by number; nil where none was made
	made    int                 // of them
	days    map[int64]*dayNames // by day

	loading sync.Mutex // held while an hour is read
}

// dayNames says which series of a set are which of a day's unit.
type dayNames struct {
	set []uint32 // by number in the unit, numbers in the set plus one
	day []uint32 // by number in the set, numbers in the unit plus one
}

// sampleSets are the sets that somebody has asked for.
type sampleSets struct {
	cache blockCache

	mu sync.RWMutex
	m  map[scope]*sampleSet
}

// NumberSeries makes the set of a family when it is first asked for.
func (s *Store) NumberSeries(ctx context.Context, family string) (store.SeriesSet, error) {
	f := s.family(family)
	if f == nil {
		return nil, ctx.Err()
	}
	sc := makeScope(f.number, series.Full)
	s.sets.mu.RLock()
	set := s.sets.m[sc]
	s.sets.mu.RUnlock()
	if set == nil {
		done, err := s.enter(ctx)
		if err != nil {
			return nil, err
		}
		defer done()
		if set, err = s.makeSet(ctx, sc, f.name); err != nil {
			return nil, fmt.Errorf("series of %s: %w", family, err)
		}
	}
	if set.length.Load() == 0 {
		return nil, nil
	}
	return set, nil
}

func (s *Store) makeSet(ctx context.Context, sc scope, family string) (*sampleSet, error) {
	s.write.Lock()
	defer s.write.Unlock()
	if set := s.sets.m[sc]; set != nil {
		return set, nil
	}
	set := &sampleSet{s: s, scope: sc, family: family, u: newUnit(0, sc), days: map[int64]*dayNames{}}
	set.gone.Store(&map[int64][]uint32{})
	set.u.writable(family)
	c, err := s.newScanner(ctx, s.db)
	if err != nil {
		return nil, err
	}
	defer c.close()
	var hours []int64
	prefix := tierPrefix(nil, tierSamples)
	c.it.SetBounds(prefix, prefixEnd(prefix))
	for ok := c.it.First(); ok; {
		part, at := readTime(c.it.Key()[2:]), scope(readUint32(c.it.Key()[6:]))
		switch {
		case at < sc:
			ok = c.it.SeekGE(scopePrefix(nil, tierSamples, part, sc))
			continue
		case at == sc:
			hours = append(hours, part)
		}
		ok = c.it.SeekGE(partPrefix(nil, tierSamples, part+tierPart[tierSamples]))
	}
	if err := c.it.Error(); err != nil {
		return nil, classify(err)
	}
	// Days with points and no samples count as well: a series whose samples are
	// gone has slots.
	days := []int64{}
	prefix = []byte{tableIndex}
	c.it.SetBounds(prefix, prefixEnd(prefix))
	for ok := c.it.SeekGE(indexPrefix(nil, dayOf(max(s.floorOf(tierSamples), farPast)))); ok; {
		day := readTime(c.it.Key()[1:])
		days = append(days, day)
		ok = c.it.SeekGE(indexPrefix(nil, day+secondsPerDay))
	}
	if err := c.it.Error(); err != nil {
		return nil, classify(err)
	}
	for _, day := range days {
		u, err := s.units.get(day, sc)
		if err != nil {
			return nil, err
		}
		set.addUnit(u)
	}
	set.hours.Store(&hours)
	set.first = set.length.Load()
	for _, hour := range hours {
		gone, err := s.goneIfKnown(s.db, hour, sc)
		if err == nil && len(gone) > 0 {
			_, err = set.hide(hour, gone.all)
		}
		if err != nil {
			return nil, err
		}
	}
	s.sets.mu.Lock()
	s.sets.m[sc] = set
	s.sets.mu.Unlock()
	return set, nil
}

// addUnit adds what a day's unit holds.
func (set *sampleSet) addUnit(u *unit) {
	var ss []*series.Series
	var ids []series.ID
	var buf []byte
	var b labels.ScratchBuilder
	u.mu.RLock()
	for n, kind := range u.kinds {
		if kind == series.Distribution {
			continue
		}
		var id series.ID
		s := series.Series{Family: set.family, View: set.scope.view(), Kind: kind}
		if u.ids != nil {
			id = u.ids[n+1]
		} else {
			s.Labels = u.labels(uint32(n), &b)
			id, buf = idOf(&s, buf)
		}
		if set.u.table.Find(set.u.ids, id) != 0 {
			continue
		}
		s.Labels = u.labels(uint32(n), &b)
		ss, ids = append(ss, &s), append(ids, id)
	}
	u.mu.RUnlock()
	set.add(ss, ids)
}

// add adds series that the set lacks. The caller holds the store's write lock.
func (set *sampleSet) add(ss []*series.Series, ids []series.ID) {
	if len(ss) == 0 {
		return
	}
	set.u.add(ss, ids)
	set.length.Add(int64(len(ss)))
}

// Len is atomic: callers ask at every look.
func (set *sampleSet) Len() int { return int(set.length.Load()) }

func (set *sampleSet) Match(matchers []*labels.Matcher, from int) (found []store.Lookup, n int) {
	sel, _ := set.u.columnsNow().match(context.Background(), matchers) // which has no end
	set.u.mu.RLock()
	defer set.u.mu.RUnlock()
	set.mu.Lock()
	defer set.mu.Unlock()
	var b labels.ScratchBuilder
	for n := from; n < len(sel); n++ {
		if sel[n] {
			found = append(found, set.lookup(uint32(n), &b))
		}
	}
	return found, len(sel)
}

// lookup returns that of a series, and makes it if need be. The caller holds mu,
// and u.mu for reading.
func (set *sampleSet) lookup(number uint32, b *labels.ScratchBuilder) *lookup {
	for len(set.lookups) <= int(number) {
		set.lookups = append(set.lookups, nil)
	}
	if set.lookups[number] == nil {
		set.lookups[number] = &lookup{set: set, number: number, labels: set.u.labels(number, b), kind: set.u.kinds[number]}
		set.made++
	}
	return set.lookups[number]
}

// manyAsked is how many lookups of a set let expect that of others are to follow.
const manyAsked = 16

// neighbour returns the lookup of a series, by its number plus one; nil if there
// is none, and the few there are do not let expect one.
func (set *sampleSet) neighbour(number uint32) *lookup {
	if number == 0 {
		return nil
	}
	set.u.mu.RLock()
	defer set.u.mu.RUnlock()
	set.mu.Lock()
	defer set.mu.Unlock()
	if set.made >= manyAsked {
		var b labels.ScratchBuilder
		return set.lookup(number-1, &b)
	}
	if int(number) <= len(set.lookups) {
		return set.lookups[number-1]
	}
	return nil
}

// Whole is the count up to which hours are not dropped.
func (set *sampleSet) Whole() int { return set.s.opts.SampleCount }

// of returns the lookup with the number, nil if there is none.
func (set *sampleSet) of(number uint32) *lookup {
	set.mu.Lock()
	defer set.mu.Unlock()
	if int(number) < len(set.lookups) {
		return set.lookups[number]
	}
	return nil
}

// names returns which series of the set are in the day's unit.
func (set *sampleSet) names(day int64) (*dayNames, error) {
	u, err := set.s.units.get(day, set.scope)
	if err != nil {
		return nil, err
	}
	set.mu.Lock()
	old := set.days[day]
	set.mu.Unlock()
	u.mu.RLock()
	defer u.mu.RUnlock()
	if old != nil && len(old.set) == len(u.kinds) {
		return old, nil
	}
	d := &dayNames{}
	if old != nil {
		d.set, d.day = slices.Clone(old.set), slices.Clone(old.day)
	}
	set.u.mu.RLock()
	defer set.u.mu.RUnlock()
	var buf []byte
	var b labels.ScratchBuilder
	for n := len(d.set); n < len(u.kinds); n++ {
		var id series.ID
		if u.ids != nil {
			id = u.ids[n+1]
		} else {
			s := series.Series{Family: set.family, View: set.scope.view(), Kind: u.kinds[n], Labels: u.labels(uint32(n), &b)}
			id, buf = idOf(&s, buf)
		}
		k := uint32(0)
		if u.kinds[n] != series.Distribution {
			k = set.u.table.Find(set.u.ids, id)
		}
		d.set = append(d.set, k)
		if k == 0 {
			continue
		}
		for len(d.day) < int(k) {
			d.day = append(d.day, 0)
		}
		d.day[k-1] = uint32(n + 1)
	}
	set.mu.Lock()
	set.days[day] = d
	set.mu.Unlock()
	return d, nil
}

// showSeries adds the batch's new series to the sets, before units name them.
// The caller holds the write lock.
func (p *putter) showSeries() {
	sets := &p.s.sets
	sets.mu.RLock()
	defer sets.mu.RUnlock()
	for _, d := range p.days {
		for sc, up := range d.units {
			set := sets.m[sc]
			if set == nil {
				continue
			}
			var ss []*series.Series
			var ids []series.ID
			for i, s := range up.series {
				if id := up.ids[i+1]; s.Kind != series.Distribution && set.u.table.Find(set.u.ids, id) == 0 {
					ss, ids = append(ss, s), append(ids, id)
				}
			}
			set.add(ss, ids)
		}
	}
}

// showSamples shows lookups what has been written. The caller holds the write lock.
func (p *putter) showSamples() {
	sets := &p.s.sets
	sets.mu.RLock()
	defer sets.mu.RUnlock()
	if len(sets.m) == 0 {
		return
	}
	for i := range p.b.Samples {
		si := p.b.Samples[i].Series
		set := sets.m[p.scopes[si]]
		if set == nil {
			continue
		}
		l := set.of(set.number(p.identity(si)))
		for ss := p.b.Samples[i].Samples; len(ss) > 0; {
			hour := hourOf(ss[0].TimeMillis)
			n := 1
			for n < len(ss) && hourOf(ss[n].TimeMillis) == hour {
				n++
			}
			if hour >= p.floor[tierSamples] {
				set.addHour(hour)
				if l != nil {
					l.put(hour, ss[:n], p.retry)
				}
			}
			ss = ss[n:]
		}
	}
}

// identity returns that of the batch's series.
func (p *putter) identity(si uint32) series.ID {
	sr := &p.b.Series[si]
	if p.b.IDs != nil {
		return withKind(p.b.IDs[si], sr.Kind)
	}
	var id series.ID
	id, p.idBuf = idOf(sr, p.idBuf)
	return id
}

// number returns the number of a series in the set, one that no lookup has if
// it is not there. The caller holds the write lock.
func (set *sampleSet) number(id series.ID) uint32 { return set.u.table.Find(set.u.ids, id) - 1 }

func (set *sampleSet) addHour(hour int64) {
	hours := *set.hours.Load()
	i, ok := slices.BinarySearch(hours, hour)
	if ok {
		return
	}
	hours = slices.Insert(slices.Clone(hours), i, hour)
	set.hours.Store(&hours)
}

// churned is how many series beyond twice those it began with a set may hold
// before it is made again without the ones whose days are gone.
const churned = 10000

// dropSamplesBefore forgets what lies below the floor of raw samples. The caller
// holds the write lock.
func (s *Store) dropSamplesBefore(floor int64) {
	s.sets.mu.Lock()
	defer s.sets.mu.Unlock()
	for sc, set := range s.sets.m {
		hours := *set.hours.Load()
		i, _ := slices.BinarySearch(hours, floor)
		hours = slices.Clone(hours[i:])
		set.hours.Store(&hours)
		gone := maps.Clone(*set.gone.Load())
		maps.DeleteFunc(gone, func(day int64, _ []uint32) bool { return day < dayOf(floor) })
		set.gone.Store(&gone)
		set.mu.Lock()
		for day := range set.days {
			if day < dayOf(floor) {
				delete(set.days, day)
			}
		}
		all := slices.Clone(set.lookups)
		set.mu.Unlock()
		retired := set.length.Load() > 2*set.first+churned
		if retired {
			set.length.Store(-1)
			delete(s.sets.m, sc)
		}
		for _, l := range all {
			if l != nil {
				l.dropBefore(floor, retired)
			}
		}
	}
}
