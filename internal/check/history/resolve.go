package history

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/check/expr"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// source is one number series: what the store holds of it and what was observed
// since. Either may be nil.
type source struct {
	family string
	labels labels.Labels
	kind   series.Kind
	set    store.SeriesSet // of stored
	stored store.Lookup
	recent *recentSeries
}

// matched are the sources of a selector, as of when so many series were there.
type matched struct {
	name   string // of the family
	set    store.SeriesSet
	stored int // of set
	family *recentFamily
	epoch  uint64 // of family
	seen   int    // of family

	sources []*source
}

// resolved is a selector's matched sources. They are looked for again when there
// are more series than last time, among those that are new.
type resolved struct {
	mu      sync.Mutex
	matched atomic.Pointer[matched]
}

func (v *view) sources(ctx context.Context, s *expr.Selector) ([]*source, error) {
	r, _ := v.resolved.Load(s)
	if r == nil {
		r, _ = v.resolved.LoadOrStore(s, &resolved{})
	}
	return r.(*resolved).sources(ctx, v.h, s)
}

func (m *matched) current() bool {
	return m != nil && m.set != nil && m.set.Len() == m.stored &&
		(m.family == nil || m.family.epoch.Load() == m.epoch && len(*m.family.series.Load()) == m.seen)
}

func (r *resolved) sources(ctx context.Context, h *History, s *expr.Selector) ([]*source, error) {
	m := r.matched.Load()
	if m.current() && (m.family != nil || len(m.sources) > 0) {
		return m.sources, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.matched.Load()
	family := h.recent.of(s.Family)
	if old == nil || old.set != nil && old.set.Len() < old.stored || old.family != nil && old.family.epoch.Load() != old.epoch {
		old = &matched{}
	}
	n := &matched{name: s.Family, set: old.set, stored: old.stored, family: family, epoch: old.epoch, seen: old.seen, sources: slices.Clone(old.sources)}
	if n.set == nil {
		set, err := h.o.Store.NumberSeries(ctx, s.Family)
		if err != nil {
			return nil, err
		}
		if set != nil {
			n.set = set
		}
	}
	if n.set != nil {
		var found []store.Lookup
		found, n.stored = n.set.Match(s.Matchers, n.stored)
		for _, l := range found {
			o := n.source(l.Labels(), l.Kind())
			o.set, o.stored = n.set, l
		}
	}
	if family != nil {
		n.epoch = family.epoch.Load()
		all := *family.series.Load()
		for _, e := range all[min(n.seen, len(all)):] {
			if matches(e.labels, s.Matchers) {
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

func matches(ls labels.Labels, ms []*labels.Matcher) bool {
	for _, m := range ms {
		if !m.Matches(ls.Get(m.Name)) {
			return false
		}
	}
	return true
}
