package pebblestore

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// Counts that nobody can have measured stay in their own series: neither late
// points nor rollups nor compaction of the others stop at them.
func TestCountsBeyondCounting(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{})
	defer s.Close()
	huge := hist.New(hist.DefaultSchema)
	huge.Positive = hist.Buckets{Offset: 1, Counts: []uint64{math.MaxInt64 - 5}}
	huge.Count, huge.Sum = math.MaxInt64-5, 1
	data, err := huge.AppendBinary(nil)
	check(t, err)
	put := func(gen uint64) {
		t.Helper()
		b := &store.Batch{Writer: "w", Generation: gen, Resolution: series.Base, Series: []series.Series{
			storetest.Span(series.Full, "service", "bad"), storetest.Span(series.Full, "service", "good")}}
		for i := range int64(4) {
			b.Points = append(b.Points, store.Point{Series: 0, Slot: t0 + 10*i, Data: data},
				store.Point{Series: 1, Slot: t0 + 10*i, Data: storetest.Dist(0.1)})
		}
		check(t, s.Put(ctx, b))
	}
	put(1)
	check(t, s.Maintain(ctx, time.Unix(t0+2*3600, 0)))
	put(2) // late
	put(3)
	check(t, s.Maintain(ctx, time.Unix(t0+3*3600, 0)))
	good := eq("service", "good")
	for _, q := range []store.Query{
		{Start: t0, End: t0 + 40, Step: 10}, // base slots
		{Start: t0, End: t0 + 60},
		{Start: t0, End: t0 + 600},
		{Start: t0, End: t0 + 3600},
	} {
		q.Matchers = good
		if n := count(t, s, q); n != 12 {
			t.Errorf("[%d, %d) holds %d of the good series, want 12", q.Start-t0, q.End-t0, n)
		}
	}
	if s.Stats().LeftOut == 0 {
		t.Error("nothing was counted as left out")
	}
	// What cannot be counted is an error, not a wrong number.
	_, err = s.Query(ctx, store.Query{Family: series.SpanDuration, Start: t0, End: t0 + 40, Matchers: eq("service", "bad"), Schema: hist.DefaultSchema})
	if !errors.Is(err, hist.ErrInvalid) {
		t.Errorf("the bad series: %v", err)
	}
}
