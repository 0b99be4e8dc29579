package pebblestore

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
)

// lookup finds samples of one series in blocks of an hour each, which are read
// when they are first needed and added to by every Put from then on.
type lookup struct {
	set    *sampleSet
	number uint32 // in the set
	labels labels.Labels
	kind   series.Kind

	mu     sync.Mutex
	blocks []*sampleBlock // in memory, by hour
	// changes is how often samples were put or dropped: what was read in the
	// meantime may lack some, and is not kept.
	changes uint64
}

func (l *lookup) Labels() labels.Labels { return l.labels }
func (l *lookup) Kind() series.Kind     { return l.kind }

// find returns where the block of the hour is, or would be.
func (l *lookup) find(hour int64) (int, bool) {
	// Mostly one of the last few hours is asked for.
	for i := len(l.blocks) - 1; i >= 0; i-- {
		if h := l.blocks[i].hour; h <= hour {
			if h == hour {
				return i, true
			}
			return i + 1, false
		}
		if len(l.blocks)-i > 8 {
			return slices.BinarySearchFunc(l.blocks, hour, func(b *sampleBlock, h int64) int { return int(b.hour - h) })
		}
	}
	return 0, false
}

// block returns an hour's samples. The caller holds mu, which is let go of
// while they are read.
func (l *lookup) block(ctx context.Context, hour int64) (*sampleBlock, error) {
	for {
		if i, ok := l.find(hour); ok {
			b := l.blocks[i]
			if !b.used.Load() {
				b.used.Store(true)
			}
			return b, nil
		}
		if l.set.isGone(l.number, hour) {
			return noSamples, nil
		}
		changes := l.changes
		l.mu.Unlock()
		b, err := l.set.load(ctx, l, hour)
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

// noSamples is the block of an hour whose samples are gone.
var noSamples = &sampleBlock{}

// begin checks whether an answer may be given.
func (l *lookup) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if l.set.s.closed.Load() {
		return errClosed
	}
	return nil
}

// hourOf is the start of the hour of a moment in milliseconds.
func hourOf(t int64) int64 { return floorTo(floorDiv(t, 1000), 3600) }

// hourRange returns the hours that may hold samples in [start, end].
func (l *lookup) hourRange(start, end int64) []int64 {
	hours := *l.set.hours.Load()
	to := len(hours)
	for last := hourOf(end); to > 0 && hours[to-1] > last; to-- {
		if len(hours)-to > 16 {
			to, _ = slices.BinarySearch(hours, last+1)
			break
		}
	}
	from := to
	for first := hourOf(start); from > 0 && hours[from-1] >= first; from-- {
		if to-from > 16 {
			from, _ = slices.BinarySearch(hours, first)
			break
		}
	}
	return hours[from:to]
}

// Nearest looks into the one or two hours beside the moment, unless those have
// none of the series.
func (l *lookup) Nearest(ctx context.Context, t, within int64) (v series.Sample, ok bool, err error) {
	if err := l.begin(ctx); err != nil || within < 0 {
		return v, false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	within = min(within, farFuture)
	hours := l.hourRange(t-within, t+within)
	mid := len(hours)
	for here := hourOf(t); mid > 0 && hours[mid-1] > here; mid-- {
	}
	for i := mid - 1; i >= 0; i-- {
		b, err := l.block(ctx, hours[i])
		if err != nil {
			return v, false, err
		}
		k := b.after(t)
		last := i == mid-1 && k < b.len() // no later hour can have a closer one
		var next series.Sample
		if last {
			next = b.sample(k)
		}
		if k > 0 {
			if s := b.sample(k - 1); t-s.TimeMillis <= within {
				v, ok = s, true
				within = t - s.TimeMillis - 1
			}
		}
		if last && k > 0 {
			if next.TimeMillis-t <= within {
				return next, true, nil
			}
			return v, ok, nil
		}
		if last {
			// One as close, or closer, may be in an earlier hour.
			v, ok, within = next, next.TimeMillis-t <= within, min(within, next.TimeMillis-t)
			mid = len(hours)
			continue
		}
		if k > 0 {
			break
		}
	}
	for _, hour := range hours[mid:] {
		if hour*1000 > t+within {
			break
		}
		b, err := l.block(ctx, hour)
		if err != nil {
			return v, false, err
		}
		if b.len() > 0 {
			if a := b.sample(0); a.TimeMillis-t <= within {
				return a, true, nil
			}
			break
		}
	}
	return v, ok, nil
}

func (l *lookup) Latest(ctx context.Context, dst []series.Sample, until int64, skip, n int) ([]series.Sample, error) {
	if err := l.begin(ctx); err != nil {
		return dst, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	hours := l.hourRange(farPast*1000, until)
	for i := len(hours) - 1; i >= 0 && n > 0; i-- {
		b, err := l.block(ctx, hours[i])
		if err != nil {
			return dst, err
		}
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
	}
	return dst, nil
}

func (l *lookup) Range(ctx context.Context, dst []series.Sample, start, end int64) ([]series.Sample, error) {
	if err := l.begin(ctx); err != nil || end < start {
		return dst, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, hour := range l.hourRange(start, end) {
		b, err := l.block(ctx, hour)
		if err != nil {
			return dst, err
		}
		for i := b.after(start - 1); i < b.len(); i++ {
			v := b.sample(i)
			if v.TimeMillis > end {
				break
			}
			dst = append(dst, v)
		}
	}
	return dst, nil
}

// put adds samples of an hour, which are in order of time; again says that they
// may replace others.
func (l *lookup) put(hour int64, ss []series.Sample, again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
	i, ok := l.find(hour)
	if !ok || l.set.isGone(l.number, hour) {
		return
	}
	b := l.blocks[i]
	if again || !b.append(ss) {
		// Late, or there already: which of them counts only the store knows.
		l.remove(i)
		return
	}
	l.resized(b)
	if i > 0 && i == len(l.blocks)-1 && len(l.blocks[i-1].tail) > 0 {
		l.blocks[i-1].pack()
		l.resized(l.blocks[i-1])
	}
}

func (l *lookup) resized(b *sampleBlock) {
	size := b.bytes()
	l.set.s.sets.cache.bytes.Add(size - b.size)
	b.size = size
}

// remove takes a block out of memory.
func (l *lookup) remove(i int) {
	b := l.blocks[i]
	l.blocks = slices.Delete(l.blocks, i, i+1)
	l.set.s.sets.cache.forget(b)
}

// drop forgets an hour that is no longer stored.
func (l *lookup) drop(hour int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
	if i, ok := l.find(hour); ok {
		l.remove(i)
	}
}

// dropBefore forgets the hours before the floor, or all.
func (l *lookup) dropBefore(floor int64, all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
	for len(l.blocks) > 0 && (all || l.blocks[0].hour < floor) {
		l.remove(0)
	}
}

// install keeps a block unless something has changed since it was read.
func (l *lookup) install(b *sampleBlock, changes uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, ok := l.find(b.hour)
	if ok || l.changes != changes {
		return false
	}
	l.blocks = slices.Insert(l.blocks, i, b)
	l.set.s.sets.cache.bytes.Add(b.size)
	return true
}
