package history

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"tailscope/internal/guard/check/expr"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// scratch is the memory of one look-up besides its answer.
type scratch struct{ a, b, c []series.Sample }

var scratches = sync.Pool{New: func() any { return &scratch{} }}

func (v *view) lookUpNumbers(ctx context.Context, r *resolved, s *expr.Selector, at time.Time, dst []expr.Sample) ([]expr.Sample, error) {
	sources, err := r.findSources(ctx, v.h, s)
	if err != nil {
		return dst, err
	}
	now := at.UnixMilli()
	switch s.By {
	case expr.ByTime:
		return v.closest(ctx, s, sources, now-s.Ago.Milliseconds(), now, dst)
	case expr.ByIndex, expr.ByIndexRange:
		return v.byIndex(ctx, s, sources, now, dst)
	case expr.ByTimeRange:
		older := s.Older
		if older >= 0 {
			return v.between(ctx, s, sources, now-older.Milliseconds(), now-s.Newer.Milliseconds(), dst)
		}
		return v.toTheEnd(ctx, s, sources, now-s.Newer.Milliseconds(), dst)
	case expr.BySameTime:
		return v.numbersAtSameTime(ctx, s, sources, at, dst)
	}
	return dst, nil
}

func (v *view) numbersAtSameTime(ctx context.Context, s *expr.Selector, sources []*source, at time.Time, dst []expr.Sample) ([]expr.Sample, error) {
	now, begin := at.UnixMilli(), len(dst)
	err := v.sameTime(at, s, func(at time.Time) error {
		mark, t := len(dst), at.UnixMilli()
		if mark-begin > expr.MaxSamples {
			return nil // refused as it is; days that overlap could be any number
		}
		var err error
		if s.Before == 0 && s.After == 0 {
			dst, err = v.closest(ctx, s, sources, t, now, dst)
		} else {
			dst, err = v.between(ctx, s, sources, t-s.Before.Milliseconds(), min(t+s.After.Milliseconds(), now), dst)
		}
		if len(dst) == mark {
			dst = append(dst, expr.Sample{Null: true})
		}
		return err
	})
	return dst, err
}

func sampleOf(v series.Sample) expr.Sample {
	return expr.Sample{Time: time.UnixMilli(v.TimeMillis), Value: v.Value, Null: math.IsNaN(v.Value)}
}

// ambiguousError names the series of sources.
func ambiguousError(s *expr.Selector, sources []*source) error {
	e := &expr.AmbiguousError{Selector: s}
	for _, o := range sources[:min(len(sources), 5)] {
		e.Series = append(e.Series, o.labels)
	}
	return e
}

// closest appends the sample closest to t, none from after now, or a null.
func (v *view) closest(ctx context.Context, s *expr.Selector, sources []*source, t, now int64, dst []expr.Sample) ([]expr.Sample, error) {
	var best series.Sample
	var from *source
	for _, o := range sources {
		a, ok, err := v.nearest(ctx, o, t, now)
		if err != nil {
			return dst, err
		}
		if !ok {
			continue
		}
		if from != nil {
			follow, err := v.follow(ctx, from, o, t, now)
			if err != nil {
				return dst, err
			}
			if !follow {
				return dst, ambiguousError(s, []*source{from, o})
			}
			d := max(a.TimeMillis-t, t-a.TimeMillis) - max(best.TimeMillis-t, t-best.TimeMillis)
			if d > 0 || d == 0 && a.TimeMillis > best.TimeMillis {
				continue
			}
		}
		best, from = a, o
	}
	if from == nil {
		return append(dst, expr.Sample{Null: true}), nil
	}
	return append(dst, sampleOf(best)), nil
}

// follow reports whether one of two series ended around t before the other began, as
// those of a process and its successor do. They are read as one then.
func (v *view) follow(ctx context.Context, a, b *source, t, now int64) (bool, error) {
	x := scratches.Get().(*scratch)
	defer scratches.Put(x)
	around := max(goneAfter, 2*v.tolerance)
	from, to := t-around, min(t+around, now)
	var err error
	if x.a, err = v.rangeOf(ctx, a, x.a[:0], from, to); err != nil {
		return false, err
	}
	n := len(x.a)
	if x.a, err = v.rangeOf(ctx, b, x.a, from, to); err != nil || n == 0 || len(x.a) == n {
		return false, err
	}
	return x.a[n-1].TimeMillis < x.a[n].TimeMillis || x.a[len(x.a)-1].TimeMillis < x.a[0].TimeMillis, nil
}

// nearest looks among samples, and where none is left among points.
func (v *view) nearest(ctx context.Context, o *source, t, now int64) (best series.Sample, ok bool, err error) {
	within := v.tolerance
	if o.stored != nil {
		best, ok, err = o.stored.nearest(ctx, t, within)
		if err != nil {
			return best, false, err
		}
		if ok && best.TimeMillis > now {
			best, ok, err = o.latest(ctx, t, now, within)
			if err != nil {
				return best, false, err
			}
		}
		if ok {
			within = max(best.TimeMillis-t, t-best.TimeMillis) - 1
		}
	}
	if o.recent != nil && within >= 0 {
		if a, found := o.recent.nearest(t, within); found && a.TimeMillis <= now {
			return a, true, nil
		}
	}
	if ok || o.stored == nil {
		return best, ok, nil
	}
	if kept, err := o.stored.kept(ctx, t-v.tolerance, t+v.tolerance); err != nil || kept {
		return best, false, err
	}
	return v.h.pages.nearest(ctx, v.h, o, t, v.tolerance, now)
}

// latest is the last stored sample until now, if it is within the distance of t:
// a backtest must not see what came after its moment.
func (o *source) latest(ctx context.Context, t, now, within int64) (series.Sample, bool, error) {
	x := scratches.Get().(*scratch)
	defer scratches.Put(x)
	got, err := o.stored.latest(ctx, x.c[:0], now, 0, 1)
	x.c = got
	if err != nil || len(got) == 0 || t-got[0].TimeMillis > within {
		return series.Sample{}, false, err
	}
	return got[0], true, nil
}

// newest is the time of the last sample until a moment, math.MinInt64 if there is none.
func (o *source) newest(ctx context.Context, until int64, x *scratch) (int64, error) {
	var err error
	if x.c, err = o.last(ctx, x.c[:0], until, 0, 1, x); err != nil || len(x.c) == 0 {
		return math.MinInt64, err
	}
	return x.c[0].TimeMillis, nil
}

// last appends up to n samples until a moment, newest first, without the first
// skip. dst is not x.b.
func (o *source) last(ctx context.Context, dst []series.Sample, until int64, skip, n int, x *scratch) ([]series.Sample, error) {
	if o.recent == nil {
		return o.stored.latest(ctx, dst, until, skip, n)
	}
	stored := int64(math.MinInt64)
	if o.stored != nil {
		var err error
		if x.b, err = o.stored.latest(ctx, x.b[:0], until, 0, 1); err != nil {
			return dst, err
		}
		if len(x.b) > 0 {
			stored = x.b[0].TimeMillis
		}
	}
	x.b = o.recent.after(x.b[:0], stored, until)
	for i := len(x.b) - 1 - skip; i >= 0 && n > 0; i-- {
		dst = append(dst, x.b[i])
		n--
	}
	if o.stored == nil || n == 0 {
		return dst, nil
	}
	// What has been stored since was among the recent ones.
	return o.stored.latest(ctx, dst, min(until, stored), max(skip-len(x.b), 0), n)
}

// whole returns the number of newest samples of which none is missing.
func (o *source) whole() int {
	if o.set == nil {
		return math.MaxInt32
	}
	return o.set.m.o.Samples
}

// goneAfter is the least time between the last sample of a series that has ended and the
// newest sample of all.
const goneAfter = 10 * 60_000

// living returns the source that indexes count, nil if there is none: of several
// the one that still gets samples.
func (v *view) living(ctx context.Context, s *expr.Selector, sources []*source, now int64) (*source, error) {
	if len(sources) == 1 {
		return sources[0], nil
	}
	last := make([]int64, len(sources))
	x := scratches.Get().(*scratch)
	defer scratches.Put(x)
	best := -1
	for i, o := range sources {
		t, err := o.newest(ctx, now, x)
		if err != nil {
			return nil, err
		}
		if last[i] = t; t != math.MinInt64 && (best < 0 || t > last[best]) {
			best = i
		}
	}
	if best < 0 {
		return nil, nil
	}
	alive := []*source{sources[best]}
	for i, t := range last {
		if i != best && t >= last[best]-max(goneAfter, 2*v.tolerance) {
			alive = append(alive, sources[i])
		}
	}
	if len(alive) > 1 {
		return nil, ambiguousError(s, alive)
	}
	return alive[0], nil
}

func (v *view) byIndex(ctx context.Context, s *expr.Selector, sources []*source, now int64, dst []expr.Sample) ([]expr.Sample, error) {
	o, err := v.living(ctx, s, sources, now)
	if err != nil {
		return dst, err
	}
	x := scratches.Get().(*scratch)
	defer scratches.Put(x)
	if s.By == expr.ByIndex {
		for _, i := range s.Indexes {
			x.a = x.a[:0]
			if o != nil && i >= 0 && i < o.whole() {
				if x.a, err = o.last(ctx, x.a, now, i, 1, x); err != nil {
					return dst, err
				}
			}
			if len(x.a) == 0 {
				dst = append(dst, expr.Sample{Null: true})
			} else {
				dst = append(dst, sampleOf(x.a[0]))
			}
		}
		return dst, nil
	}
	if o == nil {
		return dst, nil
	}
	to := o.whole() - 1
	if s.To >= 0 {
		to = min(to, s.To)
	}
	if to < s.From {
		return dst, nil
	}
	if x.a, err = o.last(ctx, x.a[:0], now, s.From, to-s.From+1, x); err != nil {
		return dst, err
	}
	for _, a := range x.a {
		dst = append(dst, sampleOf(a))
	}
	return dst, nil
}

// toTheEnd appends what is left of the samples that indexes count.
func (v *view) toTheEnd(ctx context.Context, s *expr.Selector, sources []*source, until int64, dst []expr.Sample) ([]expr.Sample, error) {
	o, err := v.living(ctx, s, sources, until)
	if err != nil || o == nil {
		return dst, err
	}
	x := scratches.Get().(*scratch)
	defer scratches.Put(x)
	if x.a, err = o.last(ctx, x.a[:0], until, 0, o.whole(), x); err != nil {
		return dst, err
	}
	for _, a := range x.a {
		dst = append(dst, sampleOf(a))
	}
	return dst, nil
}

// between appends the samples of [from, to], newest first.
func (v *view) between(ctx context.Context, s *expr.Selector, sources []*source, from, to int64, dst []expr.Sample) ([]expr.Sample, error) {
	if from > to {
		return dst, nil
	}
	x := scratches.Get().(*scratch)
	defer scratches.Put(x)
	x.a = x.a[:0]
	var with []*source
	for _, o := range sources {
		var err error
		mark := len(x.a)
		if x.a, err = v.rangeOf(ctx, o, x.a, from, to); err != nil {
			return dst, err
		}
		if len(x.a) == mark {
			continue
		}
		// Series that follow each other, such as those of a process and of the
		// one that took its place, are one.
		with = append(with, o)
		if mark > 0 {
			if x.a[mark-1].TimeMillis < x.a[mark].TimeMillis {
				continue
			}
			if x.a[len(x.a)-1].TimeMillis >= x.a[0].TimeMillis {
				return dst, ambiguousError(s, with)
			}
			slices.SortFunc(x.a, func(a, b series.Sample) int { return cmp.Compare(a.TimeMillis, b.TimeMillis) })
		}
	}
	for _, a := range slices.Backward(x.a) {
		dst = append(dst, sampleOf(a))
	}
	return dst, nil
}

// rangeOf appends one source's samples of [from, to], ascending: of hours whose
// samples are gone, the points.
func (v *view) rangeOf(ctx context.Context, o *source, dst []series.Sample, from, to int64) ([]series.Sample, error) {
	mark := len(dst)
	last := from - 1
	if o.stored != nil {
		var gaps []store.Span
		var err error
		if dst, gaps, err = o.stored.between(ctx, dst, from, to); err != nil {
			return dst, err
		}
		if len(gaps) > 0 {
			if dst, err = v.h.pages.instead(ctx, v.h, o, from, to, gaps, dst, mark); err != nil {
				return dst, err
			}
		}
		if len(dst) > mark {
			last = dst[len(dst)-1].TimeMillis
		}
	}
	if o.recent != nil {
		dst = o.recent.after(dst, last, to)
	}
	return dst, nil
}
