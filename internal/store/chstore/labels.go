package chstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/tier"
)

// onDays returns the condition on rows of series that exist on the days that [start, end)
// touches. An empty family stands for all.
func onDays(m *meta, family string, view series.View, matchers []*labels.Matcher, start, end int64) (string, error) {
	c, err := condition(matchers)
	if err != nil {
		return "", err
	}
	// Days are numbers of 32 bits.
	const most = 1 << 30
	last := min(tier.FloorDiv(end-1, day), most)
	if end <= start {
		last = -most
	}
	q := fmt.Sprintf("view = %d AND day >= %d AND day <= %d", view, max(tier.FloorDiv(start, day), -most), last)
	if family != "" {
		q = "family = " + quote(family) + " AND " + q
	}
	return q + c + " AND " + m.visible.rows(false), nil
}

// listSeries reads rows of an aggregate over series on every shard.
func (s *Store) listSeries(ctx context.Context, family string, view series.View, matchers []*labels.Matcher, start, end int64, selected, grouped string, read func(r *rows)) error {
	done, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	m, err := s.readMeta(ctx)
	if err != nil {
		return err
	}
	c, err := onDays(m, family, view, matchers, start, end)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	return s.eachShard(ctx, func(ctx context.Context, _ int, n *node) error {
		r, err := s.client.read(ctx, n, "SELECT "+selected+" FROM "+s.local("series")+" WHERE "+c+grouped)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for r.next() {
			read(r)
		}
		return r.err
	})
}

// LabelNames lists the names of labels. See store.Store.
func (s *Store) LabelNames(ctx context.Context, family string, view series.View, matchers []*labels.Matcher, start, end int64) ([]string, error) {
	found := map[string]bool{}
	err := s.listSeries(ctx, family, view, matchers, start, end, "DISTINCT arrayJoin(names) AS name", "", func(r *rows) { found[r.string()] = true })
	if err != nil {
		return nil, fmt.Errorf("names of labels: %w", err)
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// LabelValues lists the values of a label. See store.Store.
func (s *Store) LabelValues(ctx context.Context, family string, view series.View, name string, matchers []*labels.Matcher, start, end int64) ([]string, error) {
	found := map[string]bool{}
	err := s.listSeries(ctx, family, view, matchers, start, end, "DISTINCT "+label(name)+" AS value", "", func(r *rows) { found[r.string()] = true })
	if err != nil {
		return nil, fmt.Errorf("values of label %s: %w", name, err)
	}
	delete(found, "")
	return slices.Sorted(maps.Keys(found)), nil
}

// seriesBytes is the memory of a series in an answer, without its labels' values.
const seriesBytes = 200

// Series lists the series of a family, each once. See store.Store.
func (s *Store) Series(ctx context.Context, family string, view series.View, matchers []*labels.Matcher, start, end int64) ([]series.Series, error) {
	if family == "" {
		return nil, errors.New("series of no family")
	}
	var out []series.Series
	var b labels.ScratchBuilder
	err := s.listSeries(ctx, family, view, matchers, start, end, "id, kind, any(names), any(values)", " GROUP BY id, kind", func(r *rows) {
		r.take(16)
		x := series.Series{Family: family, View: view, Kind: series.Kind(r.uint8())}
		names, values := r.strings(), r.strings()
		if r.err == nil && len(names) != len(values) {
			r.err = fmt.Errorf("%d names of labels, %d values: %w", len(names), len(values), store.ErrCorrupt)
		}
		if r.err == nil {
			x.Labels = labelsOf(&b, names, values)
			r.err = store.BudgetOf(ctx).Reserve(seriesBytes)
			out = append(out, x)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("series of %s: %w", family, err)
	}
	slices.SortFunc(out, func(a, b series.Series) int {
		if c := labels.Compare(a.Labels, b.Labels); c != 0 {
			return c
		}
		return int(a.Kind) - int(b.Kind)
	})
	return out, nil
}
