package pebblestore

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// The breakdown of what was sent long after it happened is stored in minutes, once; that
// of what is recent, and durations of any age, in base slots.
func TestOldBreakdownIsKeptInMinutes(t *testing.T) {
	const now = t0 + 5*3600 + 600
	fs := vfs.NewMem()
	s := open(t, Options{FS: fs})
	defer func() { s.Close() }()
	check(t, s.Maintain(t.Context(), time.Unix(now, 0)))
	h := hist.New(hist.DefaultSchema)
	check(t, h.RecordNanos(5e6, 3))
	data, err := h.AppendBinary(nil)
	check(t, err)
	span := batch(1, 0, 1).Series[0]
	parts := series.Series{Family: series.BreakdownSelf, Kind: series.Distribution, Labels: span.Labels}
	b := &store.Batch{Writer: "w", Generation: 1, Resolution: series.Base, Series: []series.Series{span, parts}}
	for _, slot := range []int64{t0, t0 + 30, t0 + 60, now - 5400, now - 5370} {
		for i := range b.Series {
			b.Points = append(b.Points, store.Point{Series: uint32(i), Slot: slot, Data: data})
		}
	}
	compare := func(when string) {
		t.Helper()
		for _, c := range []struct {
			family      string
			start, step int64
			points      int
			resolution  series.Resolution
		}{
			{series.BreakdownSelf, t0, 10, 2, series.Minute},
			{series.BreakdownSelf, t0, 60, 2, series.Minute},
			{series.BreakdownSelf, t0, 600, 1, series.TenMin},
			{series.BreakdownSelf, now - 5400, 10, 2, series.Base},
			{series.SpanDuration, t0, 10, 3, series.Base},
			{series.SpanDuration, now - 5400, 10, 2, series.Base},
		} {
			q := store.Query{Family: c.family, View: span.View, Start: c.start, End: c.start + 600, Step: c.step, Schema: hist.DefaultSchema}
			if c.family == series.BreakdownSelf {
				q.View = series.Full
			}
			res, err := s.Query(t.Context(), q)
			check(t, err)
			n, points := uint64(0), 0
			for _, g := range res.Groups {
				points += len(g.Points)
				for _, p := range g.Points {
					n += p.Hist.Count
				}
			}
			want := uint64(9)
			if c.start != t0 {
				want = 6
			}
			if n != want || points != c.points || res.Resolution != c.resolution {
				t.Errorf("%s, %s from %d by %d: %d in %d points of %d s, want %d in %d of %d s", when, c.family, c.start-t0, c.step, n, points, res.Resolution, want, c.points, c.resolution)
			}
		}
	}
	check(t, s.Put(t.Context(), b))
	compare("put")
	check(t, s.Put(t.Context(), b))
	compare("put again")
	check(t, s.Maintain(t.Context(), time.Unix(now, 0)))
	compare("maintained")
	check(t, s.Close())
	s = open(t, Options{FS: fs})
	compare("opened again")
	check(t, s.Maintain(t.Context(), time.Unix(now, 0)))
	check(t, s.Put(t.Context(), b))
	compare("opened and put again")
	if back, err := s.Restore(t.Context(), b, false); err != nil || back.Back > 0 {
		t.Errorf("restoring what is there put back %+v, %v", back, err)
	}
	compare("restored")
}
