package history

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// seriesSet holds the number series of a family, numbered as they came, and their
// look-ups. It only grows, until its length is -1: then it has been replaced.
type seriesSet struct {
	m       *Cache
	family  string
	length  atomic.Int64
	newest  atomic.Int64         // time of the newest sample that was put or read; never if there is none
	oldest  atomic.Int64         // an hour before which samples of all series may have been dropped
	first   int64                // length when it was made
	dropped store.SamplesDropped // guarded by Cache.mu

	mu     sync.RWMutex
	all    []*lookup // by number
	byID   map[seriesKey]uint32
	by     map[label][]uint32 // numbers, ascending, of the series with a label
	asked  int                // of all
	listed time.Time          // when all was read
	unread bool

	loading sync.Mutex // held while samples are read
}

const never = math.MinInt64

type seriesKey struct {
	series.ID
	kind series.Kind
}

type label struct{ name, value string }

// read lists the series, if that has not been done or is too long ago. While it does
// so, Put waits.
func (set *seriesSet) read(ctx context.Context) error {
	set.mu.RLock()
	fresh := !set.unread && !set.m.old(set.listed)
	set.mu.RUnlock()
	if fresh {
		return nil
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	if !set.unread && !set.m.old(set.listed) {
		return nil
	}
	now, start := set.m.o.Now(), int64(firstHour)
	if set.m.o.Age > 0 {
		start = now.Add(-set.m.o.Age).Unix()
	}
	all, err := set.m.Series(ctx, set.family, series.Full, nil, start, lastHour)
	if err != nil {
		return fmt.Errorf("series of %s: %w", set.family, err)
	}
	var buf []byte
	for i := range all {
		if all[i].Kind == series.Distribution {
			continue
		}
		var id series.ID
		id, buf = all[i].ID(buf)
		if _, ok := set.byID[seriesKey{id, all[i].Kind}]; !ok {
			set.add(&all[i], id)
		}
	}
	if set.unread {
		set.first = int64(len(set.all))
	}
	set.unread, set.listed = false, now
	return nil
}

// add adds a series that the set lacks. Needs mu.
func (set *seriesSet) add(s *series.Series, id series.ID) *lookup {
	n := uint32(len(set.all))
	l := &lookup{set: set, number: n, id: id, labels: s.Labels.Copy(), kind: s.Kind}
	set.all = append(set.all, l)
	set.byID[seriesKey{id, s.Kind}] = n
	l.labels.Range(func(v labels.Label) {
		k := label{v.Name, v.Value}
		set.by[k] = append(set.by[k], n)
	})
	if set.length.Load() >= 0 {
		set.length.Store(int64(len(set.all)))
	}
	return l
}

// see returns the look-up of a series that was put.
func (set *seriesSet) see(s *series.Series, id series.ID) *lookup {
	k := seriesKey{id, s.Kind}
	set.mu.RLock()
	n, ok := set.byID[k]
	var l *lookup
	if ok {
		l = set.all[n]
	}
	set.mu.RUnlock()
	if ok {
		return l
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	if n, ok := set.byID[k]; ok {
		return set.all[n]
	}
	return set.add(s, id)
}

// match returns the look-ups of the series that the matchers select, without the
// first from of the set, and how many series the set held: from of the next call.
func (set *seriesSet) match(ms []*labels.Matcher, from int) (found []*lookup, n int) {
	set.mu.Lock()
	defer set.mu.Unlock()
	n = len(set.all)
	take := func(l *lookup) {
		if !series.Matches(l.labels, ms) {
			return
		}
		if !l.asked {
			l.asked = true
			set.asked++
		}
		found = append(found, l)
	}
	var few []uint32
	some := false
	for _, m := range ms {
		if m.Type != labels.MatchEqual || m.Value == "" {
			continue
		}
		if with := set.by[label{m.Name, m.Value}]; !some || len(with) < len(few) {
			few, some = with, true
		}
	}
	if !some {
		for _, l := range set.all[min(from, n):] {
			take(l)
		}
		return found, n
	}
	at, _ := slices.BinarySearch(few, uint32(from))
	for _, number := range few[at:] {
		take(set.all[number])
	}
	return found, n
}

const (
	// besideLoaded bounds the neighbours on either side that are read with a series:
	// reading one of them costs the store nearly as much as reading all.
	besideLoaded = 64
	// manyAsked is the number of series asked for after which others are expected to
	// follow.
	manyAsked = 16
)

// neighbours returns the look-ups that are worth reading with l.
func (set *seriesSet) neighbours(l *lookup) (out []*lookup) {
	set.mu.RLock()
	defer set.mu.RUnlock()
	lo, hi := max(int(l.number)-besideLoaded, 0), min(int(l.number)+besideLoaded+1, len(set.all))
	for _, o := range set.all[lo:hi] {
		if o != l && (o.asked || set.asked >= manyAsked) {
			out = append(out, o)
		}
	}
	return out
}

// found notes the times of samples that were read.
func (set *seriesSet) found(ss []series.Sample) {
	hour := hourOf(ss[0].TimeMillis)
	for old := set.oldest.Load(); hour < old && !set.oldest.CompareAndSwap(old, hour); old = set.oldest.Load() {
	}
	set.saw(ss[len(ss)-1].TimeMillis)
}

// end returns the end of the last hour with samples: nothing later was dropped.
func (set *seriesSet) end() int64 {
	if newest := set.newest.Load(); newest != never {
		return hourOf(newest) + hourSeconds
	}
	return lastHour
}

// saw notes the time of a sample.
func (set *seriesSet) saw(t int64) {
	for old := set.newest.Load(); t > old && !set.newest.CompareAndSwap(old, t); old = set.newest.Load() {
	}
}
