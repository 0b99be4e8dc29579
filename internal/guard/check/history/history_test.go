package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"go.uber.org/goleak"

	"tailscope/internal/guard/check/expr"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
	"tailscope/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const t0 = 1_789_948_800 // on the hour and on the day, UTC

// world is a store with gauges check_value{check="…"}.
type world struct {
	t   testing.TB
	st  *pebblestore.Store
	c   *Cache // of st
	h   *History
	gen uint64
	now time.Time
}

func newWorld(t testing.TB, o pebblestore.Options) *world {
	t.Helper()
	o.Dir, o.FS, o.MemtableBytes = "data", vfs.NewMem(), 1<<20
	st, err := pebblestore.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, st: st, c: NewCache(st, CacheOptions{Samples: o.SampleCount}), now: time.Unix(t0, 0)}
	w.h = New(Options{Cache: w.c, Now: func() time.Time { return w.now }})
	return w
}

func (w *world) close() {
	if err := w.st.Close(); err != nil {
		w.t.Error(err)
	}
}

func value(pairs ...string) series.Series {
	return series.Series{Family: "check_value", Kind: series.Gauge, Labels: labels.FromStrings(pairs...)}
}

// put stores samples, in order of time, with the points of their slots.
func (w *world) put(s series.Series, ss ...series.Sample) {
	w.t.Helper()
	w.gen++
	b := &store.Batch{Writer: "w", Generation: w.gen, Resolution: series.Base, Series: []series.Series{s}, Samples: []store.Samples{{Samples: ss}}}
	slots := map[int64]*series.Number{}
	for _, v := range ss {
		slot := series.Base.Slot(floorTo(v.TimeMillis, 1000) / 1000)
		one := series.Number{Count: 1, Sum: v.Value, Min: v.Value, Max: v.Value, Last: v.Value, LastTimeMillis: v.TimeMillis}
		if slots[slot] == nil {
			slots[slot] = &one
		} else {
			slots[slot].Merge(one)
		}
	}
	for slot, n := range slots {
		b.Points = append(b.Points, store.Point{Slot: slot, Data: store.AppendNumber(nil, *n)})
	}
	if err := w.c.Put(context.Background(), b); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) maintain(at time.Time) {
	w.t.Helper()
	if err := w.c.Maintain(context.Background(), at); err != nil {
		w.t.Fatal(err)
	}
}

func equals(name, value string) []*labels.Matcher {
	return []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, name, value)}
}

func look(t testing.TB, h expr.History, s *expr.Selector, at time.Time) []expr.Sample {
	t.Helper()
	got, err := h.Look(context.Background(), s, at, nil)
	if err != nil {
		t.Fatalf("%s: %v", s.Text, err)
	}
	return got
}

func values(ss []expr.Sample) string {
	out := ""
	for _, s := range ss {
		switch {
		case s.Null:
			out += " null"
		case s.Dist != nil:
			out += fmt.Sprint(" n=", s.Dist.Count)
		default:
			out += fmt.Sprint(" ", s.Value)
		}
	}
	return out
}

func TestSameTime(t *testing.T) {
	for _, tt := range []struct {
		zone, at string
		days     int
		want     string
	}{
		{"UTC", "2026-11-20T10:00:00Z", 7, "2026-11-13T10:00:00Z"},
		{"Europe/Stockholm", "2026-10-26T08:00:00+01:00", 1, "2026-10-25T08:00:00+01:00"},
		{"Europe/Stockholm", "2026-10-26T08:00:00+01:00", 2, "2026-10-24T08:00:00+02:00"}, // not 48 hours ago
		{"Europe/Stockholm", "2026-03-30T08:00:00+02:00", 7, "2026-03-23T08:00:00+01:00"},
		{"Europe/Stockholm", "2026-03-30T02:30:00+02:00", 1, "2026-03-29T03:30:00+02:00"}, // 02:30 was skipped
		{"Europe/Stockholm", "2026-10-26T02:30:00+01:00", 1, "2026-10-25T02:30:00+01:00"}, // came twice: the like offset
		{"America/New_York", "2026-11-02T01:30:00-05:00", 1, "2026-11-01T01:30:00-05:00"},
		{"America/New_York", "2026-03-09T02:15:00-04:00", 1, "2026-03-08T03:15:00-04:00"},
		{"America/New_York", "2026-03-09T02:15:00-04:00", 28, "2026-02-09T02:15:00-05:00"},
		{"Australia/Lord_Howe", "2026-10-05T02:10:00+11:00", 1, "2026-10-04T02:40:00+11:00"}, // half an hour is skipped
		{"Pacific/Apia", "2011-12-31T10:00:00+14:00", 2, "2011-12-29T10:00:00-10:00"},        // the 30th never was
	} {
		at, err := time.Parse(time.RFC3339, tt.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := sameTime(at.In(zone(t, tt.zone)), tt.days).Format(time.RFC3339); got != tt.want {
			t.Errorf("%s %s, %d days before: got %s, want %s", tt.zone, tt.at, tt.days, got, tt.want)
		}
	}
}

// What is observed is the newest at once and counts once when it is stored; what
// comes into being later is found.
func TestObserve(t *testing.T) {
	w := newWorld(t, pebblestore.Options{})
	defer w.close()
	h := w.h.For(ForOptions{})
	at := func(s int64) time.Time { return time.Unix(t0+s, 0) }
	a := value("check", "a")
	sample := func(s int64) series.Sample { return series.Sample{TimeMillis: at(s).UnixMilli(), Value: float64(s)} }
	newest := &expr.Selector{Text: "x[0:9]", Family: "check_value", Matchers: equals("check", "a"), By: expr.ByIndexRange, To: 9}
	expect := func(what, want string) {
		t.Helper()
		if got := values(look(t, h, newest, at(100))); got != want {
			t.Errorf("%s: got%s, want%s", what, got, want)
		}
	}
	expect("nothing yet", " null")
	kind := func() expr.Kind {
		k, err := h.Kind(context.Background(), "check_value")
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	if k := kind(); k != expr.Missing {
		t.Errorf("kind %d of a family that is not there", k)
	}
	w.h.Observe(a, sample(10))
	expect("observed", " 10")
	if k := kind(); k != expr.Numbers {
		t.Errorf("kind %d of what was observed", k)
	}
	w.h.Observe(a, sample(20))
	w.h.Observe(a, series.Sample{TimeMillis: at(25).UnixMilli(), Value: math.NaN()})
	w.put(a, sample(10))
	expect("one of two is stored", " 20 10")
	w.put(a, sample(20))
	expect("both are", " 20 10")
	w.h.Observe(a, sample(30))
	expect("a third", " 30 20 10")
	w.put(value("check", "b"), sample(35))
	expect("another series", " 30 20 10")
	if got := values(look(t, h, newest, at(29))); got != " 20 10" {
		t.Errorf("at an earlier moment: %s", got)
	}
	other := &expr.Selector{Text: "y[0]", Family: "check_value", Matchers: equals("check", "c"), By: expr.ByIndex, Indexes: []int{0}}
	if got := values(look(t, h, other, at(100))); got != " null" {
		t.Errorf("a series that is not there: %s", got)
	}
	w.put(value("check", "c"), sample(40))
	if got := values(look(t, h, other, at(100))); got != " 40" {
		t.Errorf("a series that came later: %s", got)
	}
	// Of a family that was only stored before.
	queue := series.Series{Family: "queue", Kind: series.Gauge}
	w.put(queue, sample(10))
	third := &expr.Selector{Text: "queue[0]", Family: "queue", By: expr.ByIndex, Indexes: []int{0}}
	if got := values(look(t, h, third, at(100))); got != " 10" {
		t.Errorf("stored: %s", got)
	}
	w.h.Observe(queue, sample(20))
	if got := values(look(t, h, third, at(100))); got != " 20" {
		t.Errorf("observed since: %s", got)
	}
}

func TestAmbiguous(t *testing.T) {
	w := newWorld(t, pebblestore.Options{})
	defer w.close()
	h := w.h.For(ForOptions{})
	run := func(instance string, from, to int64) {
		var ss []series.Sample
		for s := from; s < to; s += 10 {
			ss = append(ss, series.Sample{TimeMillis: (t0 + s) * 1000, Value: float64(s)})
		}
		w.put(value("check", "a", "instance", instance), ss...)
	}
	run("1", 0, 3600)
	run("2", 3600, 7200) // took the place of 1
	run("3", 7200, 10800)
	run("4", 9000, 10800)
	at := time.Unix(t0+10800, 0)
	for _, tt := range []struct {
		s    expr.Selector
		want string // ambiguous names of instances
	}{
		{expr.Selector{By: expr.ByIndex, Indexes: []int{0}}, "3 4"},
		{expr.Selector{By: expr.ByTime, Ago: 3 * time.Hour}, ""},
		{expr.Selector{By: expr.ByTime, Ago: time.Minute}, "3 4"},
		{expr.Selector{By: expr.ByTimeRange, Newer: time.Hour, Older: 2 * time.Hour}, ""},
		{expr.Selector{By: expr.ByTimeRange, Newer: time.Hour + time.Second, Older: 3 * time.Hour}, ""},
		{expr.Selector{By: expr.ByTimeRange, Older: time.Hour}, "3 4"},
	} {
		tt.s.Text, tt.s.Family, tt.s.Matchers = "x", "check_value", equals("check", "a")
		got, err := h.Look(context.Background(), &tt.s, at, nil)
		var a *expr.AmbiguousError
		names := ""
		if errors.As(err, &a) {
			for _, ls := range a.Series {
				names += " " + ls.Get("instance")
			}
		} else if err != nil {
			t.Fatal(err)
		}
		if tt.want == "" && (err != nil || got[0].Null) || tt.want != "" && names != " "+tt.want {
			t.Errorf("%+v: got %s, error %v; want error about %q", tt.s, values(got), err, tt.want)
		}
		if tt.s.Older == 3*time.Hour {
			if len(got) != 720 || !slices.IsSortedFunc(got, func(a, b expr.Sample) int { return cmp.Compare(b.Value, a.Value) }) {
				t.Errorf("two that follow each other: %s", short(got))
			}
		}
	}
	if got := values(look(t, h, &expr.Selector{Text: "x", Family: "check_value", Matchers: equals("check", "a"), By: expr.ByIndex, Indexes: []int{0, 1}}, time.Unix(t0+8000, 0))); got != " 8000 7990" {
		t.Errorf("indexes count the one that lives: %s", got)
	}
}

// Where samples are gone the points of slots answer, at their resolution.
func TestBeyondSamples(t *testing.T) {
	w := newWorld(t, pebblestore.Options{SampleCount: 400})
	defer w.close()
	h := w.h.For(ForOptions{Tolerance: time.Minute})
	a := value("check", "a")
	const days = 9
	for d := range int64(days) {
		var ss []series.Sample
		for s := d * 86400; s < (d+1)*86400; s += 5 {
			if s%86400 >= 43200 && s%86400 < 46800 {
				continue // nothing was measured from 12 to 13
			}
			ss = append(ss, series.Sample{TimeMillis: (t0 + s) * 1000, Value: float64(s)})
		}
		w.put(a, ss...)
		w.maintain(time.Unix(t0+(d+1)*86400, 0))
	}
	w.maintain(time.Unix(t0+days*86400+1800, 0))
	w.now = time.Unix(t0+days*86400, 0)
	ask := func(s expr.Selector, at time.Time) []expr.Sample {
		t.Helper()
		s.Text, s.Family, s.Matchers = "x", "check_value", equals("check", "a")
		return look(t, h, &s, at)
	}
	end := w.now
	for _, tt := range []struct {
		ago  time.Duration
		want float64 // seconds since t0
		off  float64
	}{
		{10 * time.Minute, days*86400 - 600, 0},      // a sample
		{20 * time.Hour, days*86400 - 72000, 5},      // of a slot of 10 s
		{5 * 24 * time.Hour, (days - 5) * 86400, 30}, // of a slot of a minute
		{8*24*time.Hour - 42*time.Second, 86400 + 42, 30},
	} {
		got := ask(expr.Selector{By: expr.ByTime, Ago: tt.ago}, end)
		if len(got) != 1 || got[0].Null || math.Abs(got[0].Value-tt.want) > tt.off || math.Abs(got[0].Time.Sub(end.Add(-tt.ago)).Seconds()) > tt.off {
			t.Errorf("%v ago: got %s, want %v ± %v", tt.ago, short(got), tt.want, tt.off)
		}
	}
	if got := ask(expr.Selector{By: expr.ByTime, Ago: 5*24*time.Hour + 11*time.Hour + 30*time.Minute}, end); !got[0].Null {
		t.Errorf("when nothing was measured: %s", short(got))
	}
	if got := ask(expr.Selector{By: expr.BySameTime, N: 10, Every: expr.Days}, end.Add(-time.Hour)); len(got) != 10 || got[7].Null || !got[8].Null || !got[9].Null {
		t.Errorf("the same time on ten days: %s", values(got))
	}
	// A range across what is left of samples: each second once.
	got := ask(expr.Selector{By: expr.ByTimeRange, Older: 6 * time.Hour}, end)
	if len(got) < 400+1000 {
		t.Errorf("six hours: %s", short(got))
	}
	for i := 1; i < len(got); i++ {
		if step := got[i-1].Time.Sub(got[i].Time); step <= 0 || step > 11*time.Second {
			t.Fatalf("sample %d is %v after the one before", i, step)
		}
	}
	// Indexes, and END, reach as far as what is kept in any case.
	for _, s := range []expr.Selector{{By: expr.ByIndexRange, To: -1}, {By: expr.ByTimeRange, Older: -1}} {
		if got := ask(s, end); len(got) != 400 {
			t.Errorf("to the end: %s", short(got))
		}
	}
	if got := values(ask(expr.Selector{By: expr.ByIndex, Indexes: []int{399, 400}}, end)); got != fmt.Sprint(" ", days*86400-2000, " null") {
		t.Errorf("the last index and the one after: %s", got)
	}
	week := ask(expr.Selector{By: expr.ByTimeRange, Newer: 24 * time.Hour, Older: 8 * 24 * time.Hour}, end)
	if len(week) < 7*23*50 || len(week) > 7*8640 {
		t.Errorf("a week: %s", short(week))
	}
}

// Everybody at once: what is looked up comes out right while it arrives.
func TestConcurrent(t *testing.T) {
	w := newWorld(t, pebblestore.Options{})
	defer w.close()
	const many = 12
	h := w.h.For(ForOptions{})
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() {
			check := fmt.Sprint(i)
			newest := &expr.Selector{Text: "x", Family: "check_value", Matchers: equals("check", check), By: expr.ByIndexRange, To: 4}
			slots := &expr.Selector{Text: "y", Family: "served", Matchers: equals("check", check), By: expr.ByTimeRange, Older: time.Hour}
			for k := range int64(100) {
				at := time.Unix(t0+k, 0)
				w.h.Observe(value("check", check), series.Sample{TimeMillis: at.UnixMilli(), Value: float64(k)})
				got, err := h.Look(context.Background(), newest, at, nil)
				if err != nil || got[0].Value != float64(k) || len(got) != int(min(k+1, 5)) {
					t.Errorf("check %d at %d: %s, %v", i, k, values(got), err)
				}
				if _, err := h.Look(context.Background(), slots, at.Add(time.Hour), nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for k := range int64(20) {
		b := &store.Batch{Writer: "w", Generation: uint64(k + 1), Resolution: series.Base}
		for i := range many {
			b.Series = append(b.Series, value("check", fmt.Sprint("other", i)), series.Series{Family: "served", Kind: series.Distribution, Labels: labels.FromStrings("check", fmt.Sprint(i))})
			b.Samples = append(b.Samples, store.Samples{Series: uint32(2 * i), Samples: []series.Sample{{TimeMillis: (t0 + k) * 1000}}})
			b.Points = append(b.Points, store.Point{Series: uint32(2*i + 1), Slot: t0 + k*10, Data: storetest.Dist(1)})
		}
		if err := w.c.Put(context.Background(), b); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
}
