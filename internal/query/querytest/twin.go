// Package querytest holds what tests of questions share: a naive store that
// keeps every point in a slice and answers by looking at all of them.
package querytest

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Twin is a store.Store in memory without rollups or expiry: it keeps points
// at the resolution they were put at and answers as if that were the finest kept.
type Twin struct {
	mu       sync.Mutex
	points   map[address]point
	samples  map[string]*samples
	families map[string]store.FamilyInfo
	flushed  map[string]uint64
	state    map[string][]byte
	marks    map[string]store.Mark
	// Queries counts calls of Query.
	Queries int
	// Last is the latest query.
	Last store.Query
}

type address struct {
	series     series.ID
	resolution series.Resolution
	slot       int64
	writer     string
	generation uint64
}

type point struct {
	series series.Series
	data   []byte
}

type samples struct {
	series series.Series
	list   []series.Sample
}

var _ store.Store = (*Twin)(nil)

// NewTwin returns an empty store.
func NewTwin() *Twin {
	return &Twin{
		points: map[address]point{}, samples: map[string]*samples{}, families: map[string]store.FamilyInfo{},
		flushed: map[string]uint64{}, state: map[string][]byte{}, marks: map[string]store.Mark{},
	}
}

func (t *Twin) Put(ctx context.Context, b *store.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range b.Series {
		if _, ok := t.families[s.Family]; !ok {
			t.families[s.Family] = store.FamilyInfo{Name: s.Family, Kind: s.Kind}
		}
	}
	for _, f := range b.Families {
		f.IntervalSeconds = max(f.IntervalSeconds, t.families[f.Name].IntervalSeconds)
		t.families[f.Name] = f
	}
	for _, p := range b.Points {
		s := b.Series[p.Series]
		id, _ := s.ID(nil)
		t.points[address{id, b.Resolution, p.Slot, b.Writer, b.Generation}] = point{s, slices.Clone(p.Data)}
	}
	for _, s := range b.Samples {
		key := string(b.Series[s.Series].AppendKey(nil))
		if t.samples[key] == nil {
			t.samples[key] = &samples{series: b.Series[s.Series]}
		}
		have := t.samples[key]
		have.list = append(have.list, s.Samples...)
		sort.SliceStable(have.list, func(i, j int) bool { return have.list[i].TimeMillis < have.list[j].TimeMillis })
	}
	for _, r := range b.State {
		t.state[b.Writer+"\x00"+string(r.Key)] = slices.Clone(r.Value)
	}
	t.flushed[b.Writer] = max(t.flushed[b.Writer], b.Generation)
	return nil
}

func (t *Twin) Flushed(ctx context.Context, writer string) (uint64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.flushed[writer], ctx.Err()
}

func (t *Twin) State(ctx context.Context, writer string, prefix []byte, yield func(key, value []byte) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var keys []string
	for k, v := range t.state {
		if strings.HasPrefix(k, writer+"\x00"+string(prefix)) && len(v) > 0 {
			keys = append(keys, k)
		}
	}
	sort.Strings(keys)
	for _, k := range keys {
		if err := yield([]byte(k[len(writer)+1:]), t.state[k]); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func matches(l labels.Labels, ms []*labels.Matcher) bool {
	return !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !m.Matches(l.Get(m.Name)) })
}

type slotPoint struct {
	address
	point
}

func (t *Twin) selected(family string, view series.View, ms []*labels.Matcher, start, end int64) []slotPoint {
	var out []slotPoint
	for a, p := range t.points {
		if p.series.Family == family && p.series.View == view && a.slot >= start && a.slot < end && matches(p.series.Labels, ms) {
			out = append(out, slotPoint{a, p})
		}
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		if a.slot != b.slot {
			return a.slot < b.slot
		}
		if c := labels.Compare(a.point.series.Labels, b.point.series.Labels); c != 0 {
			return c < 0
		}
		return a.generation < b.generation
	})
	return out
}

func (t *Twin) Query(ctx context.Context, q store.Query) (*store.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Queries++
	t.Last = q
	if q.Start >= q.End || q.Step < 0 {
		return nil, fmt.Errorf("query of [%d, %d) by %d", q.Start, q.End, q.Step)
	}
	res := &store.Result{Start: q.Start, End: q.End, Resolution: series.Base}
	groups := map[string]*store.Group{}
	cells := map[string]map[int64]*store.MergedPoint{}
	seen := map[series.ID]bool{}
	for _, p := range t.selected(q.Family, q.View, q.Matchers, q.Start, q.End) {
		seen[p.address.series] = true
		res.PointsRead++
		res.Resolution = max(res.Resolution, p.resolution)
		l := p.point.series.Labels
		if !q.Each {
			l = labels.NewBuilder(l).Keep(q.By...).Labels()
		}
		key := l.String()
		g := groups[key]
		if g == nil {
			g = &store.Group{Labels: l, Kind: p.point.series.Kind}
			groups[key], cells[key] = g, map[int64]*store.MergedPoint{}
		}
		at := q.Start
		if q.Step > 0 {
			at += (p.slot - q.Start) / q.Step * q.Step
		}
		c := cells[key][at]
		if c == nil {
			c = &store.MergedPoint{Start: at}
			cells[key][at] = c
		}
		if err := addPoint(c, p, q); err != nil {
			return nil, err
		}
	}
	res.Series = len(seen)
	if q.MaxSeries > 0 && res.Series > q.MaxSeries {
		return nil, fmt.Errorf("%d series: %w", res.Series, store.ErrTooMany)
	}
	for key, g := range groups {
		for _, c := range cells[key] {
			g.Points = append(g.Points, *c)
		}
		sort.Slice(g.Points, func(i, j int) bool { return g.Points[i].Start < g.Points[j].Start })
		res.Groups = append(res.Groups, *g)
	}
	count := func(g store.Group) (n uint64) {
		for _, p := range g.Points {
			if p.Hist != nil {
				n += p.Hist.Count
			} else {
				n += p.Number.Count
			}
		}
		return n
	}
	sort.Slice(res.Groups, func(i, j int) bool {
		a, b := res.Groups[i], res.Groups[j]
		if q.TopK > 0 && count(a) != count(b) {
			return count(a) > count(b)
		}
		return labels.Compare(a.Labels, b.Labels) < 0
	})
	if q.TopK > 0 {
		res.Groups = res.Groups[:min(q.TopK, len(res.Groups))]
	}
	return res, nil
}

func addPoint(c *store.MergedPoint, p slotPoint, q store.Query) error {
	if p.point.series.Kind != series.Distribution {
		n, err := store.DecodeNumber(p.data)
		if err != nil {
			return err
		}
		c.Number.Merge(n)
		return nil
	}
	h := hist.New(hist.MaxSchema)
	if err := h.UnmarshalBinary(p.data); err != nil {
		return err
	}
	h.Reduce(q.Schema)
	if q.Measure == store.Moments {
		h.Positive, h.Negative, h.ZeroCount, h.Bounds = hist.Buckets{}, hist.Buckets{}, 0, nil
		m := hist.New(hist.MaxSchema)
		m.Count, m.Sum, m.Min, m.Max, m.Weighted = h.Count, h.Sum, h.Min, h.Max, h.Weighted
		if c.Hist == nil {
			c.Hist = m
			return nil
		}
		c.Hist.Count += m.Count
		c.Hist.Sum += m.Sum
		c.Hist.Min, c.Hist.Max = min(c.Hist.Min, m.Min), max(c.Hist.Max, m.Max)
		return nil
	}
	if c.Hist == nil {
		c.Hist = h
		return nil
	}
	return c.Hist.Merge(h)
}

func (t *Twin) Samples(ctx context.Context, q store.SampleQuery) ([]store.SampleSeries, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []store.SampleSeries
	for _, s := range t.samples {
		if s.series.Family != q.Family || !matches(s.series.Labels, q.Matchers) {
			continue
		}
		var list []series.Sample
		for _, v := range s.list {
			if v.TimeMillis >= q.StartMillis && v.TimeMillis <= q.EndMillis {
				list = append(list, v)
			}
		}
		if len(list) > 0 {
			out = append(out, store.SampleSeries{Labels: s.series.Labels, Kind: s.series.Kind, Samples: list})
		}
	}
	sort.Slice(out, func(i, j int) bool { return labels.Compare(out[i].Labels, out[j].Labels) < 0 })
	return out, ctx.Err()
}

func (t *Twin) Nearest(ctx context.Context, family string, ms []*labels.Matcher, at int64) ([]store.SampleSeries, error) {
	all, err := t.Samples(ctx, store.SampleQuery{Family: family, Matchers: ms, StartMillis: -1 << 62, EndMillis: 1 << 62})
	for i := range all {
		best := all[i].Samples[0]
		for _, s := range all[i].Samples {
			if abs(s.TimeMillis-at) < abs(best.TimeMillis-at) {
				best = s
			}
		}
		all[i].Samples = []series.Sample{best}
	}
	return all, err
}

func abs(x int64) int64 { return max(x, -x) }

func (t *Twin) Families(ctx context.Context) ([]store.FamilyInfo, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []store.FamilyInfo
	for _, f := range t.families {
		out = append(out, f)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, ctx.Err()
}

func (t *Twin) LabelNames(ctx context.Context, family string, view series.View, ms []*labels.Matcher, start, end int64) ([]string, error) {
	var out []string
	t.eachLabels(family, view, ms, start, end, func(l labels.Labels) {
		l.Range(func(l labels.Label) { out = append(out, l.Name) })
	})
	sort.Strings(out)
	return slices.Compact(out), ctx.Err()
}

func (t *Twin) LabelValues(ctx context.Context, family string, view series.View, name string, ms []*labels.Matcher, start, end int64) ([]string, error) {
	var out []string
	t.eachLabels(family, view, ms, start, end, func(l labels.Labels) {
		if v := l.Get(name); v != "" {
			out = append(out, v)
		}
	})
	sort.Strings(out)
	return slices.Compact(out), ctx.Err()
}

func (t *Twin) eachLabels(family string, view series.View, ms []*labels.Matcher, start, end int64, yield func(labels.Labels)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.selected(family, view, ms, start, end) {
		yield(p.point.series.Labels)
	}
	for _, s := range t.samples {
		if view == series.Full && s.series.Family == family && matches(s.series.Labels, ms) {
			yield(s.series.Labels)
		}
	}
}

func (t *Twin) PutMark(ctx context.Context, m store.Mark) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.marks[m.ID] = m
	return ctx.Err()
}

func (t *Twin) DeleteMark(ctx context.Context, id string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.marks, id)
	return ctx.Err()
}

func (t *Twin) Marks(ctx context.Context, start, end time.Time) ([]store.Mark, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []store.Mark
	for _, m := range t.marks {
		if !m.Time.Before(start) && m.Time.Before(end) {
			out = append(out, m)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Time.Before(out[j].Time) })
	return out, ctx.Err()
}

func (t *Twin) Maintain(context.Context, time.Time) error { return nil }

func (t *Twin) Close() error { return nil }
