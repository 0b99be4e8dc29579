package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

const day = 24 * 3600

// testOldData puts base slots that are older than their retention: they count in the
// finest slots still kept, once for each address.
func testOldData(t *testing.T, st store.Store) {
	ctx := context.Background()
	const now = T0 + 400*day
	a := Span(series.Full, "service", "a")
	check(t, st.Maintain(ctx, time.Unix(now, 0)))
	want := uint64(0)
	ages := []int64{3600, 3 * day, 20 * day, 34 * day, 60 * day, 99 * day, 200 * day, 390 * day}
	counts := func(when string) {
		t.Helper()
		for _, step := range []int64{0, 3600, day} {
			equal(t, fmt.Sprintf("%s, step %d", when, step), total(query(t, st, store.Query{Start: T0, End: now, Step: step})), want)
		}
	}
	generation := func(round, i int) uint64 { return uint64(round*len(ages)+i) + 1 }
	for round := range 3 {
		for i, age := range ages {
			for range 2 { // once, and again
				put(t, st, "w", generation(round, i), a, now-age, []float64{1}, []float64{1, 1}, nil, nil, nil, nil, nil, []float64{1})
			}
			want += 4
		}
		counts(fmt.Sprint("round ", round))
		check(t, st.Maintain(ctx, time.Unix(now+int64(round)*3600, 0)))
		counts(fmt.Sprint("round ", round, " maintained"))
		for i, age := range ages { // and again, compacted or not
			put(t, st, "w", generation(round, i), a, now-age, []float64{1}, []float64{1, 1})
		}
		counts(fmt.Sprint("round ", round, " repeated"))
	}
	for _, age := range ages {
		n := total(query(t, st, store.Query{Start: now - age - age%3600, End: now - age + 3600}))
		equal(t, fmt.Sprintf("%d s ago", age), n, 3*4)
	}
}

// testOldMonth puts a month in one generation, as an import of old logs may.
func testOldMonth(t *testing.T, st store.Store) {
	ctx := context.Background()
	const now, days, every = T0 + 40*day, 30, 600
	check(t, st.Maintain(ctx, time.Unix(now, 0)))
	b := &store.Batch{Writer: "import", Generation: 1, Resolution: series.Base,
		Series: []series.Series{Span(series.Full, "service", "web", "tenant", "acme"), Span(series.Full, "service", "web"), Span(series.Total, "service", "web")}}
	one := Dist(0.25)
	for at := int64(now - days*day); at < now; at += every {
		for i := range b.Series {
			b.Points = append(b.Points, store.Point{Series: uint32(i), Slot: at, Data: one})
		}
	}
	for _, wait := range []int64{0, 600, 3 * day} {
		check(t, st.Put(ctx, b))
		r := query(t, st, store.Query{Start: now - days*day, End: now, Step: day})
		for _, p := range r.Groups[0].Points {
			equal(t, fmt.Sprintf("after %d s, the day %d", wait, (p.Start-now)/day), p.Hist.Count, 2*day/every)
		}
		equal(t, "days", len(r.Groups[0].Points), days)
		equal(t, "total view", total(query(t, st, store.Query{View: series.Total, Start: now - days*day, End: now})), uint64(days*day/every))
		check(t, st.Maintain(ctx, time.Unix(now+wait, 0)))
	}
}
