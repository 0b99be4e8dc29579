package history

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/guard/check/expr"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
	"tailscope/internal/store/storetest"
)

func TestDistributions(t *testing.T) {
	w := newWorld(t, pebblestore.Options{})
	defer w.close()
	h := w.h.For(ForOptions{Tolerance: time.Minute})
	// A request of i ms in the i-th slot, of each of two tenants; none in slots 7, 17, 27 …
	const slots = 3 * 8640
	for day := range 3 {
		b := &store.Batch{Writer: "w", Generation: uint64(day + 1), Resolution: series.Base}
		for i := range 2 {
			b.Series = append(b.Series, series.Series{Family: "served", Kind: series.Distribution, Labels: labels.FromStrings("tenant", fmt.Sprint(i))})
		}
		for k := day * 8640; k < (day+1)*8640; k++ {
			if k%10 == 7 {
				continue
			}
			for i := range 2 {
				b.Points = append(b.Points, store.Point{Series: uint32(i), Slot: t0 + int64(k)*10, Data: storetest.Dist(float64(k+1) / 1000)})
			}
		}
		if err := w.c.Put(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		w.maintain(time.Unix(t0+int64(day+1)*86400, 0))
	}
	end := time.Unix(t0+slots*10, 0)
	if k, err := h.Kind(context.Background(), "served"); err != nil || k != expr.Distributions {
		t.Fatalf("kind %d, %v", k, err)
	}
	for _, tt := range []struct {
		what string
		s    expr.Selector
		at   time.Time
		want string // counts
		time int64  // of the first, seconds before end
	}{
		{"an hour", expr.Selector{By: expr.ByTimeRange, Older: time.Hour}, end, " n=648", 3600},
		{"in the middle of a slot, without it", expr.Selector{By: expr.ByTimeRange, Older: 20 * time.Second}, end.Add(-3 * time.Second), " n=2", 30},
		{"a long one begins on the minute", expr.Selector{By: expr.ByTimeRange, Older: time.Hour}, end.Add(-20 * time.Second), " n=654", 3660},
		{"and ends there, if not of late", expr.Selector{By: expr.ByTimeRange, Newer: time.Hour, Older: 2 * time.Hour}, end.Add(-20 * time.Second), " n=648", 7260},
		{"one tenant", expr.Selector{By: expr.ByTimeRange, Older: time.Hour, Matchers: equals("tenant", "1")}, end, " n=324", 3600},
		{"nobody", expr.Selector{By: expr.ByTimeRange, Older: time.Hour, Matchers: equals("tenant", "7")}, end, " null", 0},
		{"all", expr.Selector{By: expr.ByTimeRange, Older: -1}, end, fmt.Sprint(" n=", slots/10*9*2), -1},
		{"nothing between", expr.Selector{By: expr.ByTimeRange, Newer: time.Hour, Older: time.Hour}, end, " null", 0},
		{"now: the last slot that is over", expr.Selector{By: expr.ByTime}, end.Add(4 * time.Second), " n=2", 10},
		{"half an hour ago", expr.Selector{By: expr.ByTime, Ago: 30 * time.Minute}, end.Add(4 * time.Second), " n=12", 1800},
		{"an empty slot: the one before", expr.Selector{By: expr.ByTime, Ago: 25 * time.Second}, end, " n=2", 40},
		{"before anything", expr.Selector{By: expr.ByTime, Ago: 100 * time.Hour}, end, " null", 0},
		{"a minute", expr.Selector{By: expr.ByTime, Ago: 70*time.Hour + 30*time.Second}, end.Add(48 * time.Hour), " n=10", 79260},
		{"by index", expr.Selector{By: expr.ByIndex, Indexes: []int{0, 1, 2, 400}}, end, " n=2 n=2 n=2 null", 10},
		{"indexes", expr.Selector{By: expr.ByIndexRange, From: 1, To: 3}, end, " n=2 n=2 n=2", 20},
		{"days", expr.Selector{By: expr.BySameTime, N: 4, Every: expr.Days}, end.Add(-time.Hour), " n=12 n=12 null null", 86400 + 3600},
		{"around days", expr.Selector{By: expr.BySameTime, N: 3, Every: expr.Days, Before: time.Hour, After: time.Hour}, end.Add(-time.Hour), " n=1296 n=1296 null", 86400 + 7200},
	} {
		tt.s.Text, tt.s.Family = "x", "served"
		got := look(t, h, &tt.s, tt.at)
		if values(got) != tt.want {
			t.Errorf("%s: got%s, want%s", tt.what, values(got), tt.want)
		}
		if tt.time > 0 && !got[0].Null && end.Unix()-got[0].Time.Unix() != tt.time {
			t.Errorf("%s: is of %d s before, want %d", tt.what, end.Unix()-got[0].Time.Unix(), tt.time)
		}
	}
	// Of two days ago and more only slots of a minute are left.
	w.maintain(end.Add(24 * time.Hour))
	old := expr.Selector{Text: "x", Family: "served", By: expr.ByTime, Ago: 71*time.Hour + 25*time.Second}
	if got := values(look(t, h, &old, end)); got != " n=10" && got != " n=12" {
		t.Errorf("a slot of a minute: %s", got)
	}
	_, err := h.Look(context.Background(), &expr.Selector{Text: "x", Family: series.SpanDuration, Matchers: append(equals("tenant", "a"), equals("instance", "b")...)}, end, nil)
	if err != nil {
		t.Errorf("a family that is not there: %v", err)
	}
}

// Selectors that differ in the values of labels alone are answered by one
// question, and each as if it had asked alone.
func TestGrouped(t *testing.T) {
	const many = 30
	twin := &counting{Store: storetest.NewTwin()}
	now := time.Unix(t0+7200, 0)
	h := New(Options{Cache: NewCache(twin, CacheOptions{}), Now: func() time.Time { return now }})
	v := h.For(ForOptions{Tolerance: time.Minute})
	b := &store.Batch{Writer: "w", Generation: 1, Resolution: series.Base}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range many {
		b.Series = append(b.Series, series.Series{Family: "served", Kind: series.Distribution,
			Labels: labels.FromStrings("service", fmt.Sprint("s", i%3), "operation", fmt.Sprint("o", i), "code", fmt.Sprint(200+100*(i%2)))})
		for k := range int64(720) {
			if rng.IntN(30) > 0 {
				b.Points = append(b.Points, store.Point{Series: uint32(i), Slot: t0 + k*10, Data: storetest.Dist(float64(i+1) * 0.001)})
			}
		}
	}
	if err := twin.Put(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	for _, by := range []expr.Selector{
		{By: expr.ByTimeRange, Older: time.Hour}, {By: expr.ByTime, Ago: 30 * time.Minute}, {By: expr.ByTime, Ago: time.Minute},
		{By: expr.ByTimeRange, Newer: 90 * time.Minute, Older: 100 * time.Minute}, {By: expr.ByIndex, Indexes: []int{0, 3}}, {By: expr.ByTime, Ago: 5 * time.Hour},
	} {
		for _, others := range [][]*labels.Matcher{nil, {labels.MustNewMatcher(labels.MatchRegexp, "code", "2..")}, {labels.MustNewMatcher(labels.MatchEqual, "tenant", "")}} {
			var all []*expr.Selector
			for i := range many + 3 {
				s := by
				s.Text, s.Family = "x", "served"
				s.Matchers = append(append(equals("operation", fmt.Sprint("o", i)), equals("service", fmt.Sprint("s", i%3))...), others...)
				all = append(all, &s)
			}
			for _, s := range all { // each is known
				look(t, v, s, now)
			}
			now = now.Add(10 * time.Second)
			twin.queries = 0
			var got []string
			for _, s := range all {
				got = append(got, values(look(t, v, s, now)))
			}
			// One question, and where slots are empty one for those around them.
			if twin.queries > 4 {
				t.Errorf("%+v: %d questions", by, twin.queries)
			}
			for i, s := range all {
				alone := New(Options{Cache: NewCache(twin, CacheOptions{}), Now: h.o.Now}).For(ForOptions{Tolerance: time.Minute})
				if want := values(look(t, alone, s, now)); got[i] != want {
					t.Errorf("%+v, %v: got%s, alone%s", by, s.Matchers, got[i], want)
				}
			}
			now = now.Add(-10 * time.Second)
		}
	}
	// So many that grouping would cost more than it saves: each asks alone.
	b = &store.Batch{Writer: "w", Generation: 2, Resolution: series.Base}
	for i := range many * shapeSeries * 2 {
		b.Series = append(b.Series, series.Series{Family: "wide", Kind: series.Distribution, Labels: labels.FromStrings("operation", fmt.Sprint("o", i))})
		b.Points = append(b.Points, store.Point{Series: uint32(i), Slot: t0, Data: storetest.Dist(0.001)})
	}
	if err := twin.Put(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	for i := range many {
		s := &expr.Selector{Text: "x", Family: "wide", Matchers: equals("operation", fmt.Sprint("o", i)), By: expr.ByTimeRange, Older: 3 * time.Hour}
		if got := values(look(t, v, s, now)); got != " n=1" {
			t.Errorf("one of many: %s", got)
		}
	}
}

// counting counts questions.
type counting struct {
	store.Store
	queries int
}

func (c *counting) Query(ctx context.Context, q store.Query) (*store.Result, error) {
	c.queries++
	return c.Store.Query(ctx, q)
}
