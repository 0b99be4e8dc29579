package history

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"sync"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// lookup finds samples of one series in blocks of an hour each, which are read
// when they are first needed and added to by every Put from then on. Times are Unix
// milliseconds. It is safe for concurrent use.
type lookup struct {
	set    *seriesSet
	mu     sync.Mutex
	blocks []*sampleBlock // in memory, by hour
	// changes counts puts and drops of samples: what was read in the meantime may lack
	// some, and is not kept.
	changes uint64

	number uint32 // in the set
	kind   series.Kind
	asked  bool // somebody looks it up; guarded by set.mu
	id     series.ID
	labels labels.Labels
}

const (
	hourSeconds = 3600
	firstHour   = -1 << 28 * hourSeconds // no sample is older
	lastHour    = 1 << 28 * hourSeconds
)

// hourOf returns the start of the hour of a moment in milliseconds, in seconds.
func hourOf(t int64) int64 {
	return floorTo(min(max(t, firstHour*1000), lastHour*1000), hourMillis) / 1000
}

// find returns where the block with the hour is, or would be.
func (l *lookup) find(hour int64) (int, bool) {
	// Mostly one of the last few hours is asked for.
	i := len(l.blocks) - 1
	for ; i >= 0 && l.blocks[i].hour > hour; i-- {
		if len(l.blocks)-i > 8 {
			i = sort.Search(i, func(i int) bool { return l.blocks[i].hour > hour }) - 1
			break
		}
	}
	if i >= 0 && hour < l.blocks[i].until {
		return i, true
	}
	return i + 1, false
}

// block returns the block with the hour. If it is not in memory, it is read with
// the hours that follow, hours in all, or with those before if hours is negative. The caller holds mu, which is let
// go of while they are read.
func (l *lookup) block(ctx context.Context, hour, hours int64) (*sampleBlock, error) {
	for {
		if i, ok := l.find(hour); ok && !l.set.m.oldBlock(l.blocks[i]) {
			b := l.blocks[i]
			if !b.used.Load() {
				b.used.Store(true)
			}
			return b, nil
		}
		changes := l.changes
		l.mu.Unlock()
		b, err := l.set.load(ctx, l, hour, hours)
		l.mu.Lock()
		if err != nil {
			return nil, fmt.Errorf("samples of %s: %w", l.set.family, err)
		}
		// b may already have been pushed out again, or be no longer complete.
		if b != nil && l.changes == changes {
			return b, nil
		}
	}
}

// mostHours bounds what walk reads at once, beyond all time that there is: blocks without
// samples may be more than hours can be doubled.
const mostHours = 1 << 40

// walk calls fn with the blocks of the hours from one to the other, in that order,
// until it returns false. Where there are no samples ever more hours are read at once.
func (l *lookup) walk(ctx context.Context, from, to int64, fn func(b *sampleBlock) bool) error {
	hours := int64(1)
	for at := from; from <= to && at <= to || from > to && at >= to; {
		n := min(hours, max(at-to, to-at)/hourSeconds+1)
		if from > to {
			n = -n
		}
		b, err := l.block(ctx, at, n)
		if err != nil {
			return err
		}
		if b.len() > 0 {
			hours = 1
		} else {
			hours = min(2*hours, mostHours)
		}
		if at = b.until; from > to {
			at = b.hour - hourSeconds
		}
		if !fn(b) {
			return nil
		}
	}
	return nil
}

// nearest returns the sample closest to the moment t (ties: the earlier) in
// [t-within, t+within].
func (l *lookup) nearest(ctx context.Context, t, within int64) (v series.Sample, ok bool, err error) {
	if err := ctx.Err(); err != nil || within < 0 {
		return v, false, err
	}
	within = min(within, lastHour*1000)
	l.mu.Lock()
	defer l.mu.Unlock()
	b, err := l.block(ctx, hourOf(t), 1)
	if err != nil {
		return v, false, err
	}
	// b may change while others are read, so all of it is looked at first.
	k := b.after(t)
	begin, end, later := b.hour, b.until, k < b.len()
	var next series.Sample
	reach := within // of an earlier one
	if later {
		next = b.sample(k)
		reach = min(reach, next.TimeMillis-t)
	}
	if k > 0 {
		v = b.sample(k - 1)
		ok = t-v.TimeMillis <= within
	} else if first := hourOf(t - reach); begin > first {
		err = l.walk(ctx, begin-hourSeconds, first, func(b *sampleBlock) bool {
			if n := b.len(); n > 0 {
				v = b.sample(n - 1)
				ok = t-v.TimeMillis <= within
			}
			return b.len() == 0
		})
	}
	if err != nil {
		return v, false, err
	}
	if ok {
		within = t - v.TimeMillis - 1
	}
	if last := hourOf(t + within); !later && end <= last {
		err = l.walk(ctx, end, last, func(b *sampleBlock) bool {
			if b.len() > 0 {
				next, later = b.sample(0), true
			}
			return b.len() == 0
		})
		if err != nil {
			return v, false, err
		}
	}
	if later && next.TimeMillis-t <= within {
		return next, true, nil
	}
	return v, ok, nil
}

// latest appends the samples at or before until, newest first, without the first
// skip, at most n of them.
func (l *lookup) latest(ctx context.Context, dst []series.Sample, until int64, skip, n int) ([]series.Sample, error) {
	if err := ctx.Err(); err != nil || n <= 0 {
		return dst, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.walk(ctx, hourOf(until), firstHour, func(b *sampleBlock) bool {
		k := b.len()
		if k > 0 && b.time(k-1) > until {
			k = b.after(until)
		}
		s := min(skip, k)
		skip, k = skip-s, k-s
		for ; k > 0 && n > 0; n-- {
			k--
			dst = append(dst, b.sample(k))
		}
		return n > 0
	})
	return dst, err
}

// between appends the samples in [start, end], ascending, and returns the hours
// within it, in seconds, whose samples may have been dropped: of these there are none.
func (l *lookup) between(ctx context.Context, dst []series.Sample, start, end int64) (_ []series.Sample, gaps []store.Span, err error) {
	if err := ctx.Err(); err != nil || end < start {
		return dst, nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	first, last := hourOf(start), hourOf(end)
	err = l.walk(ctx, first, last, func(b *sampleBlock) bool {
		if !b.whole && b.hour < l.set.end() {
			from, to := max(b.hour, first), min(b.until, last+hourSeconds, l.set.end())
			if n := len(gaps); n > 0 && gaps[n-1].End == from {
				gaps[n-1].End = to
			} else {
				gaps = append(gaps, store.Span{Start: from, End: to})
			}
			return true
		}
		for i := b.after(start - 1); i < b.len(); i++ {
			v := b.sample(i)
			if v.TimeMillis > end {
				break
			}
			dst = append(dst, v)
		}
		return true
	})
	return dst, gaps, err
}

// kept reports whether all samples of the hours of [start, end] are there: then there
// were no others.
func (l *lookup) kept(ctx context.Context, start, end int64) (kept bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept = true
	err = l.walk(ctx, hourOf(start), hourOf(end), func(b *sampleBlock) bool {
		kept = b.whole || b.hour >= l.set.end()
		return kept
	})
	return kept, err
}

// addSamples adds samples of an hour, which are in order of time; again reports
// that they may replace others.
func (l *lookup) addSamples(hour int64, ss []series.Sample, again bool) {
	l.set.saw(ss[len(ss)-1].TimeMillis)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
	i, ok := l.find(hour)
	if !ok {
		return
	}
	b := l.blocks[i]
	if again || !b.whole || b.until > b.hour+hourSeconds || !b.append(ss) {
		// Late, dropped, or there already: which of them count only the store knows.
		l.remove(i)
		return
	}
	l.accountSize(b)
	if i > 0 && i == len(l.blocks)-1 && len(l.blocks[i-1].tail) > 0 {
		l.blocks[i-1].pack()
		l.accountSize(l.blocks[i-1])
	}
}

func (l *lookup) accountSize(b *sampleBlock) {
	size := b.bytes()
	l.set.m.cache.bytes.Add(size - b.size)
	b.size = size
}

// remove takes a block out of memory.
func (l *lookup) remove(i int) {
	b := l.blocks[i]
	l.blocks = slices.Delete(l.blocks, i, i+1)
	l.set.m.cache.forget(b)
}

// forget takes the blocks before a moment in seconds out of memory, or all.
func (l *lookup) forget(until int64, all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
	for len(l.blocks) > 0 && (all || l.blocks[0].hour < until) {
		l.remove(0)
	}
}

// install keeps blocks unless something has changed since they were read.
func (l *lookup) install(bs []*sampleBlock, changes uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changes != changes {
		return false
	}
	for _, b := range bs {
		i, ok := l.find(b.hour)
		if ok {
			return false
		}
		l.blocks = slices.Insert(l.blocks, i, b)
		l.set.m.cache.bytes.Add(b.size)
	}
	return true
}
