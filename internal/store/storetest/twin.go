// Package storetest is the suite that every store passes, and a naive store to
// compare them with.
package storetest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Twin is a store in memory that keeps every point it is given and answers each query by
// reading all of them. It has no rollups, no retention and no shortcuts: it defines the
// right answer. It is for tests of stores and of their callers.
type Twin struct {
	mu       sync.Mutex
	points   map[address]twinPoint
	samples  map[string]map[int64]series.Sample // by series key, by time
	series   map[string]series.Series
	flushed  map[string]uint64
	state    map[string]map[string][]byte
	families map[string]store.FamilyInfo
	records  map[recordKey]store.Record
	revision uint64 // of the last write of records
	traces   map[store.TraceID]store.Trace
	closed   bool
}

type address struct {
	series     string
	resolution series.Resolution
	slot       int64
	writer     string
	generation uint64
}

type twinPoint struct {
	series series.Series
	data   []byte
}

// NewTwin returns an empty twin.
func NewTwin() *Twin {
	return &Twin{points: map[address]twinPoint{}, samples: map[string]map[int64]series.Sample{}, series: map[string]series.Series{},
		flushed: map[string]uint64{}, state: map[string]map[string][]byte{}, families: map[string]store.FamilyInfo{}, records: map[recordKey]store.Record{}, traces: map[store.TraceID]store.Trace{}}
}

var _ store.Store = (*Twin)(nil)

func (w *Twin) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return errors.New("store is closed")
	}
	return nil
}

func key(s *series.Series) string { return string(append(s.AppendKey(nil), byte(s.Kind))) }

// Put stores the batch under its addresses.
func (w *Twin) Put(ctx context.Context, b *store.Batch) error {
	if err := w.enter(ctx); err != nil {
		return err
	}
	defer w.mu.Unlock()
	if b.Writer == "" || b.Generation == 0 {
		return errors.New("batch without writer or generation")
	}
	if b.TenantOf != nil && b.IDs == nil {
		return errors.New("batch with tenants and without identities")
	}
	for _, p := range b.Points {
		if int(p.Series) >= len(b.Series) || p.Slot%int64(b.Resolution) != 0 {
			return fmt.Errorf("point of series %d in slot %d", p.Series, p.Slot)
		}
	}
	for _, p := range b.Points {
		s := b.Whole(int(p.Series))
		a := address{key(&s), b.Resolution, p.Slot, b.Writer, b.Generation}
		w.points[a] = twinPoint{s, bytes.Clone(p.Data)}
	}
	for _, s := range b.Samples {
		sr := b.Whole(int(s.Series))
		k := key(&sr)
		w.series[k] = sr
		if w.samples[k] == nil {
			w.samples[k] = map[int64]series.Sample{}
		}
		for _, v := range s.Samples {
			w.samples[k][v.TimeMillis] = v
		}
	}
	for _, s := range b.Series {
		if _, ok := w.families[s.Family]; !ok {
			w.families[s.Family] = store.FamilyInfo{Name: s.Family, Kind: s.Kind}
		}
	}
	for _, f := range b.Families {
		old, ok := w.families[f.Name]
		if ok {
			old.IntervalSeconds = max(old.IntervalSeconds, f.IntervalSeconds)
			f = old
		}
		w.families[f.Name] = f
	}
	for _, r := range b.State {
		if w.state[b.Writer] == nil {
			w.state[b.Writer] = map[string][]byte{}
		}
		if len(r.Value) == 0 {
			delete(w.state[b.Writer], string(r.Key))
		} else {
			w.state[b.Writer][string(r.Key)] = bytes.Clone(r.Value)
		}
	}
	w.flushed[b.Writer] = max(w.flushed[b.Writer], b.Generation)
	return nil
}

func (w *Twin) Flushed(ctx context.Context, writer string) (uint64, error) {
	if err := w.enter(ctx); err != nil {
		return 0, err
	}
	defer w.mu.Unlock()
	return w.flushed[writer], nil
}

// Durable is Flushed: the twin has no log that could be lost.
func (w *Twin) Durable(ctx context.Context, writer string) (uint64, error) {
	return w.Flushed(ctx, writer)
}

func (w *Twin) State(ctx context.Context, writer string, prefix []byte, yield func(key, value []byte) error) error {
	if err := w.enter(ctx); err != nil {
		return err
	}
	type kv struct{ k, v []byte }
	var all []kv
	for k, v := range w.state[writer] {
		if strings.HasPrefix(k, string(prefix)) {
			all = append(all, kv{[]byte(k), v})
		}
	}
	w.mu.Unlock()
	slices.SortFunc(all, func(a, b kv) int { return bytes.Compare(a.k, b.k) })
	for _, e := range all {
		if err := yield(e.k, e.v); err != nil {
			return err
		}
	}
	return nil
}

type twinGroup struct {
	labels labels.Labels
	kind   series.Kind
	count  uint64
	points map[int64]*store.MergedPoint
}

// Query merges every point that matches.
func (w *Twin) Query(ctx context.Context, q store.Query) (*store.Result, error) {
	if err := w.enter(ctx); err != nil {
		return nil, err
	}
	defer w.mu.Unlock()
	res := &store.Result{Start: q.Start, End: q.End, Resolution: series.Base, Flushed: w.flushed[q.Writer]}
	groups := map[string]*twinGroup{}
	matched := map[string]bool{}
	by := slices.Compact(slices.Sorted(slices.Values(q.By)))
	for a, p := range w.points {
		if p.series.Family != q.Family || p.series.View != q.View || a.slot < q.Start || a.slot >= q.End || !series.Matches(p.series.Labels, q.Matchers) {
			continue
		}
		matched[a.series] = true
		ls := p.series.Labels
		if !q.Each {
			var b labels.ScratchBuilder
			for _, n := range by {
				if v := ls.Get(n); v != "" {
					b.Add(n, v)
				}
			}
			ls = b.Labels()
		}
		k := fmt.Sprint(ls.String(), p.series.Kind)
		g := groups[k]
		if g == nil {
			g = &twinGroup{labels: ls, kind: p.series.Kind, points: map[int64]*store.MergedPoint{}}
			groups[k] = g
		}
		start := q.Start
		if q.Step > 0 {
			start += (a.slot - q.Start) / q.Step * q.Step
		}
		m := g.points[start]
		if m == nil {
			m = &store.MergedPoint{Start: start}
			g.points[start] = m
		}
		res.PointsRead++
		if p.series.Kind != series.Distribution {
			n, err := store.DecodeNumber(p.data)
			if err != nil {
				return nil, err
			}
			m.Number.Merge(n)
			g.count += n.Count
			continue
		}
		h := *hist.New(hist.MaxSchema)
		if err := h.UnmarshalBinary(p.data); err != nil {
			return nil, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
		}
		g.count += h.Count
		if m.Hist == nil {
			m.Hist = hist.New(q.Schema)
		}
		if err := m.Hist.Merge(&h); err != nil {
			return nil, err
		}
	}
	res.Series = len(matched)
	if q.MaxSeries > 0 && res.Series > q.MaxSeries {
		return nil, fmt.Errorf("%d series: %w", res.Series, store.ErrTooMany)
	}
	var list []*twinGroup
	for _, g := range groups {
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b *twinGroup) int {
		if q.TopK > 0 && a.count != b.count {
			return cmp.Compare(b.count, a.count)
		}
		return cmp.Or(labels.Compare(a.labels, b.labels), cmp.Compare(a.kind, b.kind))
	})
	if q.TopK > 0 && len(list) > q.TopK {
		list = list[:q.TopK]
	}
	for _, g := range list {
		out := store.Group{Labels: g.labels, Kind: g.kind}
		for _, p := range g.points {
			if p.Hist != nil && q.Measure == store.Moments {
				p.Hist = &hist.Histogram{Schema: q.Schema, Count: p.Hist.Count, Sum: p.Hist.Sum, Min: p.Hist.Min, Max: p.Hist.Max, Weighted: p.Hist.Weighted, Squares: p.Hist.Squares}
			}
			out.Points = append(out.Points, *p)
		}
		slices.SortFunc(out.Points, func(a, b store.MergedPoint) int { return cmp.Compare(a.Start, b.Start) })
		res.Groups = append(res.Groups, out)
	}
	return res, nil
}

func (w *Twin) eachSamples(family string, ms []*labels.Matcher, fn func(s series.Series, all []series.Sample)) {
	for k, byTime := range w.samples {
		s := w.series[k]
		if s.Family != family || !series.Matches(s.Labels, ms) {
			continue
		}
		var all []series.Sample
		for _, v := range byTime {
			all = append(all, v)
		}
		slices.SortFunc(all, func(a, b series.Sample) int { return cmp.Compare(a.TimeMillis, b.TimeMillis) })
		fn(s, all)
	}
}

func (w *Twin) Samples(ctx context.Context, q store.SampleQuery) ([]store.SampleSeries, error) {
	if err := w.enter(ctx); err != nil {
		return nil, err
	}
	defer w.mu.Unlock()
	var out []store.SampleSeries
	ms := q.Matchers
	if q.IDs != nil {
		ms = nil
	}
	w.eachSamples(q.Family, ms, func(s series.Series, all []series.Sample) {
		if id, _ := s.ID(nil); q.IDs != nil && !slices.Contains(q.IDs, id) {
			return
		}
		all = slices.DeleteFunc(all, func(v series.Sample) bool { return v.TimeMillis < q.StartMillis || v.TimeMillis > q.EndMillis })
		if len(all) > 0 {
			out = append(out, store.SampleSeries{Labels: s.Labels, Kind: s.Kind, Samples: all})
		}
	})
	if q.MaxSeries > 0 && len(out) > q.MaxSeries {
		return nil, fmt.Errorf("%d series: %w", len(out), store.ErrTooMany)
	}
	slices.SortFunc(out, func(a, b store.SampleSeries) int { return labels.Compare(a.Labels, b.Labels) })
	return out, nil
}

func (w *Twin) Nearest(ctx context.Context, family string, ms []*labels.Matcher, at int64) ([]store.SampleSeries, error) {
	if err := w.enter(ctx); err != nil {
		return nil, err
	}
	defer w.mu.Unlock()
	distance := func(v series.Sample) int64 { return max(v.TimeMillis-at, at-v.TimeMillis) }
	var out []store.SampleSeries
	w.eachSamples(family, ms, func(s series.Series, all []series.Sample) {
		best := slices.MinFunc(all, func(a, b series.Sample) int {
			return cmp.Or(cmp.Compare(distance(a), distance(b)), cmp.Compare(a.TimeMillis, b.TimeMillis))
		})
		out = append(out, store.SampleSeries{Labels: s.Labels, Kind: s.Kind, Samples: []series.Sample{best}})
	})
	slices.SortFunc(out, func(a, b store.SampleSeries) int { return labels.Compare(a.Labels, b.Labels) })
	return out, nil
}

func (w *Twin) Families(ctx context.Context) ([]store.FamilyInfo, error) {
	if err := w.enter(ctx); err != nil {
		return nil, err
	}
	defer w.mu.Unlock()
	var out []store.FamilyInfo
	for _, f := range w.families {
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b store.FamilyInfo) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// eachLabels calls fn for the series that have points, or samples, on the days that the
// range touches.
func (w *Twin) eachLabels(family string, view series.View, ms []*labels.Matcher, start, end int64, fn func(series.Series)) {
	start -= ((start % day) + day) % day
	end += ((-end)%day + day) % day
	see := func(s series.Series, t int64) {
		if (family == "" || s.Family == family) && s.View == view && t >= start && t < end && series.Matches(s.Labels, ms) {
			fn(s)
		}
	}
	for a, p := range w.points {
		see(p.series, a.slot)
	}
	for k, byTime := range w.samples {
		for t := range byTime {
			see(w.series[k], t/1000)
		}
	}
}

func (w *Twin) LabelNames(ctx context.Context, family string, view series.View, ms []*labels.Matcher, start, end int64) ([]string, error) {
	if err := w.enter(ctx); err != nil {
		return nil, err
	}
	defer w.mu.Unlock()
	var out []string
	w.eachLabels(family, view, ms, start, end, func(s series.Series) {
		s.Labels.Range(func(l labels.Label) { out = append(out, l.Name) })
	})
	slices.Sort(out)
	return slices.Compact(out), nil
}

func (w *Twin) LabelValues(ctx context.Context, family string, view series.View, name string, ms []*labels.Matcher, start, end int64) ([]string, error) {
	if err := w.enter(ctx); err != nil {
		return nil, err
	}
	defer w.mu.Unlock()
	var out []string
	w.eachLabels(family, view, ms, start, end, func(s series.Series) {
		if v := s.Labels.Get(name); v != "" {
			out = append(out, v)
		}
	})
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Series lists the known series, in order of labels.
func (w *Twin) Series(ctx context.Context, family string, view series.View, ms []*labels.Matcher, start, end int64) ([]series.Series, error) {
	if err := w.enter(ctx); err != nil {
		return nil, err
	}
	defer w.mu.Unlock()
	if family == "" {
		return nil, errors.New("series of no family")
	}
	known := map[string]bool{}
	var out []series.Series
	w.eachLabels(family, view, ms, start, end, func(s series.Series) {
		if k := key(&s); !known[k] {
			known[k] = true
			out = append(out, s)
		}
	})
	slices.SortFunc(out, func(a, b series.Series) int {
		return cmp.Or(labels.Compare(a.Labels, b.Labels), cmp.Compare(a.Kind, b.Kind))
	})
	return out, nil
}

// Maintain does nothing: a twin keeps everything unchanged.
func (w *Twin) Maintain(ctx context.Context, now time.Time) error { return ctx.Err() }

func (w *Twin) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	return nil
}
