package history

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/guard/check/expr"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// source is one number series: what the store holds of it and what was observed
// since. Either may be nil.
type source struct {
	family string
	labels labels.Labels
	kind   series.Kind
	set    *seriesSet // of stored
	stored stored
	recent *recentSeries
}

// stored is a lookup, or what a test has in its place.
type stored interface {
	nearest(ctx context.Context, t, within int64) (series.Sample, bool, error)
	latest(ctx context.Context, dst []series.Sample, until int64, skip, n int) ([]series.Sample, error)
	between(ctx context.Context, dst []series.Sample, start, end int64) ([]series.Sample, []store.Span, error)
	kept(ctx context.Context, start, end int64) (bool, error)
}

// matched are the sources of a selector, and the number of series when they were found.
type matched struct {
	name   string // of the family
	set    *seriesSet
	stored int // of set
	family *recentFamily
	count  int64  // of families observed; once it grows there may be one
	epoch  uint64 // of family
	seen   int    // of family

	sources []*source
}

// resolved holds the series of selectors with the same matchers. When there are more
// series than last time, the new ones are matched too.
type resolved struct {
	kind    atomic.Uint32 // expr.Kind, Missing as long as it is not known
	mu      sync.Mutex
	matched atomic.Pointer[matched]
	asked   *asked // of distributions; guarded by mu
}

// resolvedMost bounds what a view remembers; beyond it it begins anew.
const resolvedMost = 200_000

// resolve returns what s has in common with others of its matchers.
func (v *view) resolve(s *expr.Selector) *resolved {
	v.mu.RLock()
	r := v.resolved[s]
	v.mu.RUnlock()
	if r != nil {
		return r
	}
	key := strings.Builder{}
	key.WriteString(s.Family)
	for _, m := range s.Matchers {
		key.WriteByte(0)
		key.WriteString(m.String())
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.resolved) >= resolvedMost {
		clear(v.resolved)
		clear(v.same)
	}
	if r = v.same[key.String()]; r == nil {
		r = &resolved{}
		v.same[key.String()] = r
	}
	v.resolved[s] = r
	return r
}

func (m *matched) current(h *History) bool {
	if m == nil || m.set == nil || m.set.length.Load() != int64(m.stored) || m.set.m.o.Refresh != 0 {
		return false
	}
	if m.family == nil {
		return h.recent.count.Load() == m.count
	}
	return m.family.epoch.Load() == m.epoch && len(*m.family.series.Load()) == m.seen
}

func (r *resolved) findSources(ctx context.Context, h *History, s *expr.Selector) ([]*source, error) {
	m := r.matched.Load()
	if m.current(h) {
		return m.sources, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.matched.Load()
	count := h.recent.count.Load()
	family := h.recent.family(s.Family)
	if old == nil || old.set != nil && old.set.length.Load() < int64(old.stored) || old.family != nil && old.family.epoch.Load() != old.epoch {
		old = &matched{}
	}
	n := &matched{name: s.Family, set: old.set, stored: old.stored, family: family, count: count, epoch: old.epoch, seen: old.seen, sources: slices.Clone(old.sources)}
	set, err := h.o.Cache.seriesOf(ctx, s.Family)
	if err != nil {
		return nil, err
	}
	if n.set = set; set != nil {
		var found []*lookup
		found, n.stored = set.match(s.Matchers, n.stored)
		for _, l := range found {
			o := n.source(l.labels, l.kind)
			o.set, o.stored = set, l
		}
	}
	if family != nil {
		n.epoch = family.epoch.Load()
		all := *family.series.Load()
		for _, e := range all[min(n.seen, len(all)):] {
			if series.Matches(e.labels, s.Matchers) {
				n.source(e.labels, e.kind).recent = e
			}
		}
		n.seen = len(all)
	}
	r.matched.Store(n)
	return n.sources, nil
}

// source returns a copy, to be changed, of the source with the labels, or a new one.
func (m *matched) source(ls labels.Labels, kind series.Kind) *source {
	for i, s := range m.sources {
		if s.kind == kind && labels.Equal(s.labels, ls) {
			c := *s
			m.sources[i] = &c
			return &c
		}
	}
	s := &source{family: m.name, labels: ls, kind: kind}
	m.sources = append(m.sources, s)
	return s
}
