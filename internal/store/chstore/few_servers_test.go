//go:build servers

package chstore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// TestFewSeries asks with statements that name the series and with such that select them: both
// answer as the twin does.
func TestFewSeries(t *testing.T) {
	ctx := t.Context()
	s := open(t, on(t, nodes(t, 3)))
	defer func() { check(t, s.Close()) }()
	twin := storetest.NewTwin()
	put := func(generation uint64, day int64) {
		b := &store.Batch{Writer: "w", Generation: generation, Resolution: series.Base}
		for i := range 12 {
			b.Series = append(b.Series, storetest.Span(series.Full, "service", []string{"shop", "stock"}[i%2], "tenant", fmt.Sprint("t", i%5), "operation", fmt.Sprint("o", i)))
			for slot := range int64(i%3 + 1) {
				b.Points = append(b.Points, store.Point{Series: uint32(i), Slot: storetest.T0 + day*86400 + 10*slot, Data: storetest.Dist(0.1*float64(i+1), 3)})
			}
		}
		check(t, s.Put(ctx, b))
		check(t, twin.Put(ctx, b))
	}
	put(1, 0)
	put(2, 1)
	shop := labels.MustNewMatcher(labels.MatchEqual, "service", "shop")
	for _, q := range []store.Query{
		{}, {By: []string{"tenant"}}, {By: []string{"tenant", "none"}, Step: 10, Schema: 3}, {Each: true, Step: 10},
		{By: []string{"tenant"}, TopK: 2}, {Each: true, TopK: 3}, {By: []string{"service"}, MaxSeries: 12}, {MaxSeries: 3}, {Each: true, MaxSeries: 12},
		{By: []string{"operation"}, End: storetest.T0 + 30}, {End: storetest.T0 + 30, MaxSeries: 6},
	} {
		for _, matchers := range [][]*labels.Matcher{nil, {shop}, {labels.MustNewMatcher(labels.MatchEqual, "service", "nobody")}} {
			for _, measure := range []store.Measure{store.Buckets, store.Moments} {
				q := q
				q.Family, q.View, q.Matchers, q.Measure, q.Start = series.SpanDuration, series.Full, matchers, measure, storetest.T0
				if q.End == 0 {
					q.End = storetest.T0 + 86400 + 60
				}
				want, wantErr := twin.Query(ctx, q)
				for _, s.mostFew = range []int{0, 1, defaultMostFew} {
					s.lists = listings{}
					for range 2 { // listed, and kept
						got, err := s.Query(ctx, q)
						if errors.Is(err, store.ErrTooMany) != errors.Is(wantErr, store.ErrTooMany) {
							t.Fatalf("%+v, %d are few: error %v, want %v", q, s.mostFew, err, wantErr)
						}
						if wantErr != nil {
							continue
						}
						check(t, err)
						if d := storetest.Diff(got, want); d != "" {
							t.Errorf("%+v, %d are few: %s", q, s.mostFew, d)
						}
						if got.Series != want.Series {
							t.Errorf("%+v, %d are few: %d series, want %d", q, s.mostFew, got.Series, want.Series)
						}
					}
				}
			}
		}
	}
}

// TestStatementsOfAnAnswer counts what the questions of one answer send: the log and the series
// are read once, and who writes in between reads what it wrote.
func TestStatementsOfAnAnswer(t *testing.T) {
	c := nodes(t, 1)
	o := on(t, c)
	s, other := open(t, o), open(t, o)
	defer func() { check(t, errors.Join(s.Close(), other.Close())) }()
	put := func(s *Store, writer string, generation uint64) {
		t.Helper()
		check(t, s.Put(t.Context(), &store.Batch{Writer: writer, Generation: generation, Resolution: series.Base,
			Series: []series.Series{storetest.Span(series.Total, "service", "shop")},
			Points: []store.Point{{Series: 0, Slot: storetest.T0 + 10*int64(generation), Data: storetest.Dist(0.1)}}}))
	}
	put(s, "w", 1)
	ctx := store.OneAnswer(t.Context())
	ask := func() (count uint64, statements uint64) {
		t.Helper()
		before := s.client.requests.Load()
		res, err := s.Query(ctx, store.Query{Family: series.SpanDuration, View: series.Total, By: []string{"service"}, Start: storetest.T0, End: storetest.T0 + 3600, Measure: store.Buckets})
		check(t, err)
		for _, g := range res.Groups {
			count += g.Points[0].Hist.Count
		}
		return count, s.client.requests.Load() - before
	}
	for i, want := range []uint64{4, 0, 0} { // the log, the series, sums and buckets
		if count, n := ask(); count != 1 || n != want {
			t.Errorf("question %d: %d requests by %d statements, want 1 by %d", i+1, count, n, want)
		}
	}
	put(s, "w", 2)
	if count, _ := ask(); count != 2 {
		t.Errorf("%d requests after another was put in between, want 2", count)
	}
	put(other, "o", 3)
	ctx = store.OneAnswer(t.Context())
	if count, _ := ask(); count != 3 {
		t.Errorf("%d requests in an answer after another server put one, want 3", count)
	}
	put(other, "o", 4)
	ctx = t.Context()
	if count, _ := ask(); count != 4 {
		t.Errorf("%d requests after another server put one, want 4", count)
	}

	record := func(key string) {
		_, err := other.PutRecords(t.Context(), "marks", store.RecordWrite{Key: key, Value: []byte("v"), IfRevision: store.AnyRevision})
		check(t, err)
	}
	list := func() (records, statements uint64) {
		before := s.client.requests.Load()
		check(t, s.ListRecords(ctx, "marks", "", func(store.Record) error { records++; return nil }))
		return records, s.client.requests.Load() - before
	}
	record("a")
	ctx = store.OneAnswer(t.Context())
	for i, want := range []uint64{1, 0} {
		if records, n := list(); records != 1 || n != want {
			t.Errorf("list %d: %d records by %d statements, want 1 by %d", i+1, records, n, want)
		}
	}
	record("b")
	ctx = store.OneAnswer(t.Context())
	if records, _ := list(); records != 2 {
		t.Errorf("%d records after another server wrote one, want 2", records)
	}
}
