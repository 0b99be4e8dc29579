package pebblestore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Flushed returns the highest generation this writer has put, 0 if none.
func (s *Store) Flushed(ctx context.Context, name string) (uint64, error) {
	done, err := s.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	s.mu.RLock()
	defer s.mu.RUnlock()
	if w := s.writers[name]; w != nil {
		return w.flushed, nil
	}
	return 0, nil
}

// State calls yield with the writer's records.
func (s *Store) State(ctx context.Context, name string, prefix []byte, yield func(key, value []byte) error) error {
	done, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	s.mu.RLock()
	w := s.writers[name]
	s.mu.RUnlock()
	if w == nil {
		return nil
	}
	p := binary.BigEndian.AppendUint32([]byte{tableState}, w.number)
	head := len(p)
	p = append(p, prefix...)
	return s.each(p, func(k, v []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return yield(k[head:], v)
	})
}

// familyName returns the name of a scope's family.
func (s *Store) familyName(sc scope) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byNumber[sc>>2].name
}

// Families lists the stored families, by name.
func (s *Store) Families(ctx context.Context) ([]store.FamilyInfo, error) {
	done, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []store.FamilyInfo
	for _, f := range s.families {
		out = append(out, store.FamilyInfo{Name: f.name, Kind: f.kind, IntervalSeconds: f.interval, Dropped: s.dropped.ofFamily(f.number)})
	}
	slices.SortFunc(out, func(a, b store.FamilyInfo) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// LabelNames lists the names of labels that matching series have on the days
// that [start, end) touches. An empty family stands for all.
func (s *Store) LabelNames(ctx context.Context, family string, view series.View, matchers []*labels.Matcher, start, end int64) ([]string, error) {
	names := map[string]bool{}
	err := s.eachUnit(ctx, family, view, start, end, func(u *columns) error {
		sel, err := u.match(ctx, matchers)
		if err != nil {
			return err
		}
		for _, c := range u.cols {
			if names[c.name] {
				continue
			}
			for n := range c.of.len() {
				if sel[n] && c.of.at(n) != 0 {
					names[c.name] = true
					break
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("label names of %s: %w", family, err)
	}
	return sorted(names), nil
}

// valueBytes is the memory of a value in a list beside its text: in the set, the list
// and the answer.
const valueBytes = 100

// LabelValues lists the values of one label, as LabelNames does names.
func (s *Store) LabelValues(ctx context.Context, family string, view series.View, name string, matchers []*labels.Matcher, start, end int64) ([]string, error) {
	values := map[string]bool{}
	err := s.eachUnit(ctx, family, view, start, end, func(u *columns) error {
		c := u.find(name)
		if c == nil {
			return nil
		}
		sel, err := u.match(ctx, matchers)
		if err != nil {
			return err
		}
		seen := make([]bool, len(c.values))
		seen[0] = true
		before, bytes := len(values), 0
		for n := range c.of.len() {
			if code := c.of.at(n); sel[n] && !seen[code] {
				seen[code] = true
				values[c.values[code]] = true
				bytes += len(c.values[code])
			}
		}
		if fresh := len(values) - before; fresh > 0 {
			return store.BudgetOf(ctx).Reserve(int64(fresh*valueBytes + bytes))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("values of label %s of %s: %w", name, family, err)
	}
	return sorted(values), nil
}

// Series lists the series of a family on those days, in order of arrival.
func (s *Store) Series(ctx context.Context, family string, view series.View, matchers []*labels.Matcher, start, end int64) (out []series.Series, err error) {
	if family == "" {
		return nil, errors.New("series of no family: name one")
	}
	known := map[series.ID]bool{}
	var b labels.ScratchBuilder
	var buf []byte
	err = s.eachUnit(ctx, family, view, start, end, func(u *columns) error {
		sel, err := u.match(ctx, matchers)
		if err != nil {
			return err
		}
		before := len(out)
		for n, ok := range sel {
			if !ok {
				continue
			}
			sr := series.Series{Family: family, View: view, Kind: u.kinds[n], Labels: u.labels(uint32(n), &b)}
			var id series.ID
			if id, buf = idOf(&sr, buf); !known[id] {
				known[id] = true
				out = append(out, sr)
			}
		}
		return store.BudgetOf(ctx).Reserve(int64(len(out)-before) * groupBytes)
	})
	if err != nil {
		return nil, fmt.Errorf("series of %s: %w", family, err)
	}
	return out, nil
}

func sorted(set map[string]bool) []string {
	out := make([]string, 0, len(set))
	for v := range set {
		out = append(out, v)
	}
	slices.Sort(out)
	return out
}

// eachUnit calls fn with the columns of every unit of the family on the days
// that the range touches.
func (s *Store) eachUnit(ctx context.Context, name string, view series.View, start, end int64, fn func(*columns) error) error {
	done, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	start, end = min(max(start, farPast), farFuture), min(max(end, farPast), farFuture)
	if end <= start {
		return nil
	}
	var scopes []scope
	s.mu.RLock()
	for n, f := range s.families {
		if name == "" || n == name {
			scopes = append(scopes, makeScope(f.number, view))
		}
	}
	s.mu.RUnlock()
	if len(scopes) == 0 {
		return nil
	}
	days, err := s.days(dayOf(start), end)
	if err != nil {
		return err
	}
	for _, day := range days {
		for _, sc := range scopes {
			if err := ctx.Err(); err != nil {
				return err
			}
			u, err := s.units.get(day, sc)
			if err != nil {
				return err
			}
			if err := fn(u.columnsNow()); err != nil {
				return err
			}
		}
	}
	return nil
}

// days lists the days in [from, to) that have an index.
func (s *Store) days(from, to int64) ([]int64, error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: indexPrefix(nil, from), UpperBound: []byte{tableIndex + 1}})
	if err != nil {
		return nil, classify(err)
	}
	defer it.Close()
	var out []int64
	for ok := it.First(); ok; {
		day := readTime(it.Key()[1:])
		if day >= to {
			break
		}
		out = append(out, day)
		ok = it.SeekGE(indexPrefix(nil, day+secondsPerDay))
	}
	return out, classify(it.Error())
}
