package storetest

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// twinSet is every number series of a family: it asks the twin again each time.
type twinSet struct {
	w      *Twin
	family string
}

// NumberSeries returns the series that have points or samples.
func (w *Twin) NumberSeries(ctx context.Context, family string) (store.SeriesSet, error) {
	if err := w.enter(ctx); err != nil {
		return nil, err
	}
	w.mu.Unlock()
	set := &twinSet{w, family}
	if set.Len() == 0 {
		return nil, nil
	}
	return set, nil
}

func (t *twinSet) all() (out []series.Series) {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	for _, s := range t.w.numbers {
		if s.Family == t.family {
			out = append(out, s)
		}
	}
	return out
}

// see notes a number series that has not been seen before.
func (w *Twin) see(key string, s series.Series) {
	if s.Kind != series.Distribution && !w.known[key] {
		w.known[key] = true
		w.numbers = append(w.numbers, s)
	}
}

func (t *twinSet) Len() int { return len(t.all()) }

func (t *twinSet) Match(ms []*labels.Matcher, from int) (out []store.Lookup, n int) {
	all := t.all()
	for _, s := range all[min(from, len(all)):] {
		if matches(s.Labels, ms) {
			out = append(out, &twinLookup{t.w, s})
		}
	}
	return out, len(all)
}

// Kept is true: a twin keeps everything.
func (l *twinLookup) Kept(start, end int64) bool { return true }

// Whole is all.
func (t *twinSet) Whole() int { return math.MaxInt }

type twinLookup struct {
	w *Twin
	s series.Series
}

func (l *twinLookup) Labels() labels.Labels { return l.s.Labels }
func (l *twinLookup) Kind() series.Kind     { return l.s.Kind }

// samples returns those in [start, end], ascending.
func (l *twinLookup) samples(ctx context.Context, start, end int64) (out []series.Sample, err error) {
	if err := l.w.enter(ctx); err != nil {
		return nil, err
	}
	defer l.w.mu.Unlock()
	for t, v := range l.w.samples[key(&l.s)] {
		if t >= start && t <= end {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b series.Sample) int { return cmp.Compare(a.TimeMillis, b.TimeMillis) })
	return out, nil
}

func (l *twinLookup) Nearest(ctx context.Context, t, within int64) (best series.Sample, ok bool, err error) {
	all, err := l.samples(ctx, t-within, t+within)
	for _, v := range all {
		if !ok || max(v.TimeMillis-t, t-v.TimeMillis) < max(best.TimeMillis-t, t-best.TimeMillis) {
			best, ok = v, true
		}
	}
	return best, ok, err
}

func (l *twinLookup) Latest(ctx context.Context, dst []series.Sample, until int64, skip, n int) ([]series.Sample, error) {
	all, err := l.samples(ctx, -1<<62, until)
	slices.Reverse(all)
	all = all[min(skip, len(all)):]
	return append(dst, all[:min(n, len(all))]...), err
}

func (l *twinLookup) Range(ctx context.Context, dst []series.Sample, start, end int64) ([]series.Sample, error) {
	all, err := l.samples(ctx, start, end)
	return append(dst, all...), err
}
