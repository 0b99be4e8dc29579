package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"tailscope/internal/check/expr"
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
	w := &world{t: t, st: st, now: time.Unix(t0, 0)}
	w.h = New(Options{Store: st, Now: func() time.Time { return w.now }})
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
	if err := w.st.Put(context.Background(), b); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) maintain(at time.Time) {
	w.t.Helper()
	if err := w.st.Maintain(context.Background(), at); err != nil {
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

// naive answers by walking over every sample.
type naive struct {
	samples   map[string][]series.Sample // by check, ascending
	tolerance time.Duration
	location  *time.Location
	holidays  func(time.Time) bool
}

func (n *naive) look(check string, s *expr.Selector, at time.Time) (out []expr.Sample) {
	var newest []expr.Sample // newest first, none after at
	for _, v := range slices.Backward(n.samples[check]) {
		if v.TimeMillis <= at.UnixMilli() {
			newest = append(newest, expr.Sample{Time: time.UnixMilli(v.TimeMillis), Value: v.Value})
		}
	}
	closest := func(t time.Time) {
		best := expr.Sample{Null: true}
		far := n.tolerance + 1
		for _, v := range newest { // the later of two ties is seen first, so <= keeps the earlier
			if d := v.Time.Sub(t).Abs(); d <= n.tolerance && d <= far {
				best, far = v, d
			}
		}
		out = append(out, best)
	}
	between := func(from, to time.Time) {
		mark := len(out)
		for _, v := range newest {
			if !v.Time.Before(from) && !v.Time.After(to) {
				out = append(out, v)
			}
		}
		if len(out) == mark {
			out = append(out, expr.Sample{Null: true})
		}
	}
	switch s.By {
	case expr.ByIndex:
		for _, i := range s.Indexes {
			if i < len(newest) {
				out = append(out, newest[i])
			} else {
				out = append(out, expr.Sample{Null: true})
			}
		}
	case expr.ByIndexRange:
		for i, v := range newest {
			if i >= s.From && (s.To < 0 || i <= s.To) {
				out = append(out, v)
			}
		}
	case expr.ByTime:
		closest(at.Add(-s.Ago))
	case expr.ByTimeRange:
		from := at.Add(-s.Older)
		if s.Older < 0 {
			from = time.Unix(0, 0)
		}
		between(from, at.Add(-s.Newer))
	case expr.BySameTime:
		local := at.In(n.location)
		for day, found := 1, 0; found < s.N; day++ {
			date := time.Date(local.Year(), local.Month(), local.Day()-day, 12, 0, 0, 0, n.location)
			switch s.Every {
			case expr.Weekdays:
				if date.Weekday() == time.Saturday || date.Weekday() == time.Sunday || n.holidays(date) {
					continue
				}
			case expr.Weeks:
				if day%7 != 0 {
					continue
				}
			}
			found++
			t := wall(date, local)
			if s.Before == 0 && s.After == 0 {
				closest(t)
			} else {
				between(t.Add(-s.Before), t.Add(s.After))
			}
		}
	}
	if len(out) == 0 {
		out = append(out, expr.Sample{Null: true})
	}
	return out
}

// wall looks through the day for the moment when clocks show the time of at;
// if that never comes, it goes on from the last moment of the hour before.
func wall(date, at time.Time) time.Time {
	clock := at.Sub(time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, at.Location()))
	h, m, s := at.Clock()
	clock = time.Duration(h)*time.Hour + time.Duration(m)*time.Minute + time.Duration(s)*time.Second + time.Duration(at.Nanosecond())
	_, own := at.Zone()
	var found []time.Time
	for quarter := -60; quarter <= 60; quarter++ {
		t := time.Date(date.Year(), date.Month(), date.Day(), 0, 0, 0, 0, time.UTC).Add(clock + time.Duration(quarter)*15*time.Minute).In(date.Location())
		th, tm, ts := t.Clock()
		if th == h && tm == m && ts == s && t.YearDay() == date.YearDay() {
			if _, o := t.Zone(); o == own {
				return t
			}
			found = append(found, t)
		}
	}
	if len(found) > 0 {
		return found[0]
	}
	// Skipped: an hour earlier exists, and an hour after that is the answer.
	return wall(date, at.Add(-time.Hour)).Add(time.Hour)
}

func TestAgainstNaive(t *testing.T) {
	stockholm, newYork := zone(t, "Europe/Stockholm"), zone(t, "America/New_York")
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, pebblestore.Options{})
		defer w.close()
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		n := &naive{samples: map[string][]series.Sample{}, tolerance: rapid.SampledFrom([]time.Duration{time.Second, 5 * time.Minute, time.Hour}).Draw(rt, "tolerance")}
		n.location = rapid.SampledFrom([]*time.Location{time.UTC, stockholm, newYork}).Draw(rt, "zone")
		n.holidays = func(t time.Time) bool { return t.Day()%9 == 0 }
		h := w.h.For(ForOptions{Tolerance: n.tolerance, Location: n.location, Holidays: n.holidays})
		// Both zones change in the days before: three weeks until then are of interest.
		end := rapid.SampledFrom([]time.Time{
			time.Date(2026, 10, 27, 2, 30, 0, 0, stockholm), time.Date(2026, 3, 31, 2, 30, 0, 0, stockholm),
			time.Date(2026, 11, 3, 1, 30, 0, 0, newYork), time.Date(2026, 3, 10, 2, 15, 0, 0, newYork)}).Draw(rt, "end")
		step := rapid.SampledFrom([]time.Duration{10 * time.Second, time.Minute, 11 * time.Minute}).Draw(rt, "step")
		ago := rapid.SampledFrom([]time.Duration{3 * time.Hour, 26 * time.Hour, 21 * 24 * time.Hour}).Draw(rt, "ago")
		ago = min(ago, 400*step)
		if step == 11*time.Minute {
			ago = 21 * 24 * time.Hour
		}
		for i := range 3 {
			check := fmt.Sprint(i)
			var ss []series.Sample
			for at := end.Add(-ago); at.Before(end.Add(time.Minute)); at = at.Add(step + time.Duration(rng.IntN(300))*time.Millisecond) {
				if rng.IntN(400) == 0 && at.Before(end.Add(-150*time.Minute)) {
					at = at.Add(time.Duration(rng.IntN(7000)) * time.Second)
				}
				ss = append(ss, series.Sample{TimeMillis: at.UnixMilli(), Value: float64(rng.IntN(1e6)) / 100})
			}
			// The last were observed, and only some of them have reached the store.
			last := len(ss) - 1
			if step == 10*time.Second {
				last -= min(last, rng.IntN(4))
			}
			old := last - min(last, rng.IntN(3))
			w.put(value("check", check), ss[:last]...)
			for _, v := range ss[old:] {
				w.h.Observe(value("check", check), v)
			}
			n.samples[check] = ss
		}
		duration := func(most time.Duration) time.Duration {
			return time.Duration(rng.Int64N(int64(most/time.Second)+1)) * time.Second
		}
		for range 30 {
			s := &expr.Selector{Family: "check_value"}
			switch rng.IntN(7) {
			case 0:
				s.By, s.Indexes = expr.ByIndex, []int{0, rng.IntN(4), rng.IntN(100)}
			case 1:
				s.By, s.From, s.To = expr.ByIndexRange, rng.IntN(5), rng.IntN(300)
			case 2:
				s.By, s.From, s.To = expr.ByIndexRange, rng.IntN(5), -1
			case 3:
				s.By, s.Ago = expr.ByTime, duration(ago+time.Hour)
			case 4:
				s.By, s.Newer = expr.ByTimeRange, duration(ago/4)
				s.Older = s.Newer + duration(ago)
				if rng.IntN(4) == 0 {
					s.Older = -1
				}
			default:
				s.By, s.N, s.Every = expr.BySameTime, 1+rng.IntN(5), expr.Every(rng.IntN(3))
				if rng.IntN(2) == 0 {
					s.Before, s.After = duration(time.Hour), duration(time.Hour)
				}
			}
			check := fmt.Sprint(rng.IntN(4)) // one of them is not there
			s.Matchers = equals("check", check)
			s.Text = fmt.Sprintf("%+v", *s)
			at := end
			if rng.IntN(2) == 0 {
				at = end.Add(-duration(ago))
			}
			for range 2 {
				got, want := look(t, h, s, at), n.look(check, s, at)
				if !slices.EqualFunc(got, want, func(a, b expr.Sample) bool {
					return a.Null && b.Null || a.Null == b.Null && a.Time.Equal(b.Time) && a.Value == b.Value
				}) {
					rt.Fatalf("%s at %v:\ngot  %v\nwant %v", s.Text, at, short(got), short(want))
				}
			}
		}
	})
}

func short(ss []expr.Sample) string {
	out := fmt.Sprint(len(ss), " samples")
	for _, s := range ss[:min(len(ss), 6)] {
		out += fmt.Sprintf(" %v=%v", s.Time.UTC().Format("02T15:04:05.000"), values([]expr.Sample{s}))
	}
	return out
}

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
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
		if err := w.st.Put(context.Background(), b); err != nil {
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
	h := New(Options{Store: twin, Now: func() time.Time { return now }})
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
				alone := New(Options{Store: twin, Now: h.o.Now}).For(ForOptions{Tolerance: time.Minute})
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
		if err := w.st.Put(context.Background(), b); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
}
