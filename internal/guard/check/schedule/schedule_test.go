package schedule

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"pgregory.net/rapid"

	"tailscope/internal/guard/check/spec"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func TestParse(t *testing.T) {
	f := func(s spec.Schedule, want string) {
		t.Helper()
		got, err := Parse(s, "orders")
		text := got.String()
		if err != nil {
			text = err.Error()
		}
		if text != want {
			t.Errorf("%+v: got %q, want %q", s, text, want)
		}
	}
	f(spec.Schedule{Interval: 10 * time.Second}, "every 10s")
	f(spec.Schedule{Interval: 10 * time.Minute}, "every 10m")
	f(spec.Schedule{Interval: 90 * time.Minute}, "every 1h30m")
	f(spec.Schedule{Interval: 24 * time.Hour}, "every 24h")
	f(spec.Schedule{Interval: 61 * time.Second}, "every 1m1s")
	f(spec.Schedule{Cron: "0 0/5 * * * ?"}, "cron 0 0/5 * * * ?")
	f(spec.Schedule{Cron: "*/5 * * * *", Zone: "Europe/Stockholm"}, "cron */5 * * * * (Europe/Stockholm)")
	f(spec.Schedule{After: "orders"}, "after orders")
	f(spec.Schedule{After: "orders", Delay: 10 * time.Second}, "after orders (10s later)")

	f(spec.Schedule{}, "a schedule has exactly one of interval, cron and after; 0 are given")
	f(spec.Schedule{Interval: time.Second, After: "a"}, "a schedule has exactly one of interval, cron and after; 2 are given")
	f(spec.Schedule{Interval: time.Millisecond}, "interval 1ms is too short; give 1s or more")
	f(spec.Schedule{Interval: -time.Second}, "interval -1s is too short; give 1s or more")
	f(spec.Schedule{After: "a", Delay: -time.Second}, "delay -1s is negative; give 0s or more")
	f(spec.Schedule{Interval: time.Second, Delay: time.Second}, "delay belongs to a schedule with after; leave it out")
	f(spec.Schedule{Cron: "* * * * *", Zone: "Mars"}, `zone "Mars": unknown time zone Mars; write a name such as Europe/Stockholm`)
	f(spec.Schedule{Cron: "* * * *"}, `cron "* * * *": 4 fields; write five (minute hour day-of-month month day-of-week) or six with seconds in front`)
	f(spec.Schedule{Cron: "60 * * * *"}, `cron "60 * * * *": minute "60": "60" is not a number from 0 to 59`)
	f(spec.Schedule{Cron: "* * * foo *"}, `cron "* * * foo *": month "foo": "foo" is not a number from 1 to 12 or a name such as JAN`)
	f(spec.Schedule{Cron: "*/0 * * * *"}, `cron "*/0 * * * *": minute "*/0": step "0" is not a number from 1 to 59`)
	f(spec.Schedule{Cron: "0 0 30 2 *"}, `cron "0 0 30 2 *": no day ever matches; check day of month, month and day of week`)
	f(spec.Schedule{Cron: "0 0 9 ? * 2-6"}, `cron "0 0 9 ? * 2-6": day of week "2-6": with seconds and ?, this is Quartz's notation, whose day 2 is Monday and cron's Tuesday; write names, such as MON-FRI`)
	f(spec.Schedule{Cron: "0 0 9 * * L"}, `cron "0 0 9 * * L": day of week "L": write SAT, or a day and L, such as FRIL for the last Friday`)
	f(spec.Schedule{Cron: "0 0 9 * * ? 2027"}, `cron "0 0 9 * * ? 2027": years are not supported; leave the seventh field out`)
	f(spec.Schedule{Cron: "@often"}, `cron "@often": unknown word; use @hourly, @daily, @weekly, @monthly, @yearly, five fields, or interval`)
	f(spec.Schedule{Cron: " "}, `cron " ": 0 fields; write five (minute hour day-of-month month day-of-week) or six with seconds in front`)
}

func TestCron(t *testing.T) {
	f := func(cron, after string, want ...string) {
		t.Helper()
		c, err := ParseCron(cron, nil)
		if err != nil {
			t.Error(err)
			return
		}
		at, err := time.Parse("2006-01-02 15:04:05", after)
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range want {
			at = c.Next(at)
			if got := at.Format("Mon 2006-01-02 15:04:05"); got != w {
				t.Errorf("%s after %s, run %d: got %s, want %s", cron, after, i+1, got, w)
			}
		}
	}
	// Bischeck's.
	f("0 0/5 * * * ?", "2026-01-01 00:03:00", "Thu 2026-01-01 00:05:00", "Thu 2026-01-01 00:10:00")
	f("0 0 9 ? * MON-FRI", "2026-01-02 10:00:00", "Mon 2026-01-05 09:00:00", "Tue 2026-01-06 09:00:00")
	f("*/10 * * * * ?", "2026-01-01 00:00:55", "Thu 2026-01-01 00:01:00", "Thu 2026-01-01 00:01:10")
	f("0 0 12 1/5 * ? *", "2026-01-30 00:00:00", "Sat 2026-01-31 12:00:00", "Sun 2026-02-01 12:00:00")
	// cron(5).
	f("15 3 * * *", "2026-12-31 03:15:00", "Fri 2027-01-01 03:15:00")
	f("0 0 * * 7", "2026-01-01 00:00:00", "Sun 2026-01-04 00:00:00", "Sun 2026-01-11 00:00:00")
	f("0 0 * * 5-7", "2026-01-01 00:00:00", "Fri 2026-01-02 00:00:00", "Sat 2026-01-03 00:00:00", "Sun 2026-01-04 00:00:00", "Fri 2026-01-09 00:00:00")
	f("0 0 * * FRI-MON", "2026-01-02 00:00:00", "Sat 2026-01-03 00:00:00", "Sun 2026-01-04 00:00:00", "Mon 2026-01-05 00:00:00", "Fri 2026-01-09 00:00:00")
	f("0 22-2/2 * * *", "2026-01-01 21:00:00", "Thu 2026-01-01 22:00:00", "Fri 2026-01-02 00:00:00", "Fri 2026-01-02 02:00:00", "Fri 2026-01-02 22:00:00")
	f("0 0 13 * FRI", "2026-01-10 00:00:00", "Tue 2026-01-13 00:00:00", "Fri 2026-01-16 00:00:00") // either
	f("0 0 */7 * MON", "2026-01-01 00:00:00", "Mon 2026-06-01 00:00:00")                           // both: days 1, 8, 15, 22, 29
	f("0 0 29 2 *", "2026-01-01 00:00:00", "Tue 2028-02-29 00:00:00", "Sun 2032-02-29 00:00:00")
	f("0 0 29 2 *", "2097-01-01 00:00:00", "Fri 2104-02-29 00:00:00") // 2100 has none
	f("0 0 1 jan,JUL *", "2026-01-01 00:00:00", "Wed 2026-07-01 00:00:00", "Fri 2027-01-01 00:00:00")
	f("0 0 1 NOV-FEB *", "2026-01-01 00:00:00", "Sun 2026-02-01 00:00:00", "Sun 2026-11-01 00:00:00")
	f("59 23 31 12 *", "2026-12-31 23:59:00", "Fri 2027-12-31 23:59:00")
	f("@daily", "2026-01-01 00:00:00", "Fri 2026-01-02 00:00:00")
	f("@hourly", "2026-01-01 00:00:00", "Thu 2026-01-01 01:00:00")
	// L, W and #.
	f("0 0 L * *", "2026-02-01 00:00:00", "Sat 2026-02-28 00:00:00", "Tue 2026-03-31 00:00:00")
	f("0 0 L-2 2 ?", "2028-01-01 00:00:00", "Sun 2028-02-27 00:00:00")
	f("0 0 15W * *", "2026-02-01 00:00:00", "Mon 2026-02-16 00:00:00", "Mon 2026-03-16 00:00:00", "Wed 2026-04-15 00:00:00")
	f("0 0 1W * *", "2026-07-15 00:00:00", "Mon 2026-08-03 00:00:00") // the 1st is a Saturday
	f("0 0 LW * *", "2026-05-01 00:00:00", "Fri 2026-05-29 00:00:00")
	f("0 0 * * FRIL", "2026-01-01 00:00:00", "Fri 2026-01-30 00:00:00", "Fri 2026-02-27 00:00:00")
	f("0 0 * * 5#2", "2026-01-01 00:00:00", "Fri 2026-01-09 00:00:00")
	f("0 0 ? * MON#5", "2026-01-01 00:00:00", "Mon 2026-03-30 00:00:00", "Mon 2026-06-29 00:00:00")
	f("0 0 ? 2 MON#5", "2026-01-01 00:00:00", "Mon 2044-02-29 00:00:00") // once in 28 years
}

func TestIntervalKeepsItsPhase(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		every := time.Duration(rapid.Int64Range(int64(Least), int64(2000*time.Hour)).Draw(t, "every"))
		s, err := Parse(spec.Schedule{Interval: every}, rapid.String().Draw(t, "seed"))
		if err != nil {
			t.Fatal(err)
		}
		at := time.Unix(rapid.Int64Range(-1e10, 1e11).Draw(t, "at"), rapid.Int64Range(0, 1e9-1).Draw(t, "ns"))
		first := s.Next(at)
		if d := first.Sub(at); d <= 0 || d > every {
			t.Fatalf("next of %s is %s away, of %s", at, d, every)
		}
		// However late it is asked, and again after a restart, the phase stays.
		late := time.Duration(rapid.Int64Range(0, int64(every)-1).Draw(t, "late"))
		if next := s.Next(first.Add(late)); next.Sub(first) != every {
			t.Fatalf("asked %s late the next run is %s after, not %s", late, next.Sub(first), every)
		}
	})
}

// Ten thousand checks of one interval spread evenly: no second of the ten gets a
// tenth more than its share.
func TestIntervalSpreads(t *testing.T) {
	const checks = 10000
	var seconds [10]int
	at := time.Unix(1.8e9, 0)
	for i := range checks {
		s, err := Parse(spec.Schedule{Interval: 10 * time.Second}, fmt.Sprintf("orders-%d", i))
		if err != nil {
			t.Fatal(err)
		}
		next := s.Next(at)
		seconds[next.Sub(at)%(10*time.Second)/time.Second]++
		if again, _ := Parse(spec.Schedule{Interval: 10 * time.Second}, fmt.Sprintf("orders-%d", i)); again.Next(at) != next {
			t.Fatal("a restart changes the phase")
		}
	}
	for s, n := range seconds {
		if n < checks/10*9/10 || n > checks/10*11/10 {
			t.Errorf("second %d gets %d runs of %d", s, n, checks)
		}
	}
}

func TestAfter(t *testing.T) {
	s, err := Parse(spec.Schedule{After: "orders", Delay: 10 * time.Second}, "x")
	if err != nil {
		t.Fatal(err)
	}
	name, delay, ok := s.After()
	if name != "orders" || delay != 10*time.Second || !ok || !s.Next(time.Now()).IsZero() || s.Interval() != 0 {
		t.Errorf("got %s %s %v, next %s", name, delay, ok, s.Next(time.Now()))
	}
	if _, _, ok := (Schedule{}).After(); ok || !(Schedule{}).Next(time.Now()).IsZero() || (Schedule{}).String() != "never" {
		t.Error("the zero schedule runs")
	}
}

func TestInterval(t *testing.T) {
	f := func(cron string, want time.Duration) {
		t.Helper()
		s, err := Parse(spec.Schedule{Cron: cron}, "")
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Interval(); got != want {
			t.Errorf("%s: got %s, want %s", cron, got, want)
		}
	}
	f("*/5 * * * *", 5*time.Minute)
	f("*/20 9-17 * * MON-FRI", 20*time.Minute)
	f("0 9 * * *", 24*time.Hour)
	f("*/10 * * * * *", 10*time.Second)
}

func TestOpen(t *testing.T) {
	s, err := Parse(spec.Schedule{Cron: "0 22 * * SUN", Zone: "Europe/Stockholm"}, "")
	if err != nil {
		t.Fatal(err)
	}
	sunday := time.Date(2026, 3, 29, 22, 0, 0, 0, zone(t, "Europe/Stockholm"))
	for _, c := range []struct {
		after time.Duration
		open  bool
	}{{-time.Second, false}, {0, true}, {3*time.Hour - 1, true}, {3 * time.Hour, false}} {
		start, open := s.Open(sunday.Add(c.after), 3*time.Hour)
		if open != c.open || open && !start.Equal(sunday) {
			t.Errorf("%s after it opens: %v since %s", c.after, open, start)
		}
	}
}

// The zones of the tests, each with a moment near to a change of its clock:
// ordinary ones, by half an hour, at midnight, of a quarter of an hour's offset,
// and one where a whole day was left out.
var changes = []struct{ zone, at string }{
	{"Europe/Stockholm", "2026-03-28T12:00:00Z"}, {"Europe/Stockholm", "2026-10-24T12:00:00Z"},
	{"America/New_York", "2026-03-07T12:00:00Z"}, {"America/New_York", "2026-10-31T12:00:00Z"},
	{"Australia/Lord_Howe", "2026-04-04T03:00:00Z"}, {"Australia/Lord_Howe", "2026-10-03T03:00:00Z"},
	{"Pacific/Chatham", "2026-04-04T03:00:00Z"}, {"Pacific/Chatham", "2026-09-26T03:00:00Z"},
	{"America/Sao_Paulo", "2018-11-03T12:00:00Z"}, {"America/Sao_Paulo", "2018-02-17T12:00:00Z"},
	{"Pacific/Apia", "2011-12-29T12:00:00Z"}, {"Asia/Kolkata", "2026-03-28T12:00:00Z"}, {"UTC", "2026-12-31T12:00:00Z"},
}

// twin is cron by the minute, read from sets instead of text, and told what the
// clock shows minute by minute.
type twin struct {
	minute, hour, day, month, weekday map[int]bool // nil: *
}

func (w *twin) text() string {
	var f []string
	for _, s := range []map[int]bool{w.minute, w.hour, w.day, w.month, w.weekday} {
		if s == nil {
			f = append(f, "*")
			continue
		}
		var n []string
		for i := range 60 {
			if s[i] {
				n = append(n, fmt.Sprint(i))
			}
		}
		f = append(f, strings.Join(n, ","))
	}
	return strings.Join(f, " ")
}

func (w *twin) matches(wall time.Time) bool {
	in := func(s map[int]bool, n int) bool { return s == nil || s[n] }
	day, weekday := in(w.day, wall.Day()), in(w.weekday, int(wall.Weekday()))
	if w.day != nil && w.weekday != nil {
		day, weekday = day || weekday, true
	}
	return in(w.minute, wall.Minute()) && in(w.hour, wall.Hour()) && in(w.month, int(wall.Month())) && day && weekday
}

// runs are all in (from, until].
func (w *twin) runs(from, until time.Time, z *time.Location) (runs []time.Time) {
	shown := func(t time.Time) int64 { // in minutes
		_, o := t.In(z).Zone()
		return (t.Unix() + int64(o)) / 60
	}
	matches := func(m int64) bool { return w.matches(time.Unix(m*60, 0).UTC()) }
	most := shown(from)
	for back := range 48 * 60 {
		most = max(most, shown(from.Add(-time.Duration(back)*time.Minute)))
	}
	for t := from.Add(time.Minute); !t.After(until); t = t.Add(time.Minute) {
		now := shown(t)
		run := w.hour == nil && now <= most && matches(now) // repeated
		for ; most < now; most++ {
			run = run || matches(most+1) // several if they were skipped
		}
		if run {
			runs = append(runs, t)
		}
	}
	return runs
}

func TestNextAgainstTwin(t *testing.T) {
	set := func(t *rapid.T, name string, low, high int) map[int]bool {
		if rapid.Bool().Draw(t, name+" any") {
			return nil
		}
		m := map[int]bool{}
		for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(low, high), 1, 6, rapid.ID).Draw(t, name) {
			m[n] = true
		}
		return m
	}
	rapid.Check(t, func(t *rapid.T) {
		change := rapid.SampledFrom(changes).Draw(t, "change")
		z, err := time.LoadLocation(change.zone)
		if err != nil {
			t.Fatal(err)
		}
		from, _ := time.Parse(time.RFC3339, change.at)
		from = from.Add(time.Duration(rapid.IntRange(-600, 900).Draw(t, "minutes")) * time.Minute)
		until := from.Add(60 * time.Hour)
		w := twin{minute: set(t, "minute", 0, 59), hour: set(t, "hour", 0, 4), day: set(t, "day", 1, 31), weekday: set(t, "weekday", 0, 6)}
		c, err := ParseCron(w.text(), z)
		if err != nil {
			t.Fatal(err)
		}
		var got []time.Time
		for at := from; ; {
			next := c.Next(at)
			if next.IsZero() || next.After(until) {
				break
			}
			if !next.After(at) {
				t.Fatalf("%s: next of %s is %s", w.text(), at, next)
			}
			got = append(got, next)
			at = next
		}
		want := w.runs(from, until, z)
		if !slices.EqualFunc(got, want, time.Time.Equal) {
			t.Fatalf("%s in %s from %s:\ngot  %v\nwant %v", w.text(), z, from, got, want)
		}
		// Next of any moment is the first of those runs after it.
		at := from.Add(time.Duration(rapid.Int64Range(0, int64(60*time.Hour)).Draw(t, "within")))
		for _, r := range want {
			if r.After(at) {
				if next := c.Next(at); !next.Equal(r) {
					t.Fatalf("%s in %s: next of %s is %s, want %s", w.text(), z, at, next, r)
				}
				break
			}
		}
	})
}

func FuzzParseCron(f *testing.F) {
	for _, s := range []string{"0 0/5 * * * ?", "* * * * *", "0 0 LW * FRI#2", "@daily", "1-5/2 22-4 L-3 NOV-FEB MONL", "0 0 30 2 *"} {
		f.Add(s)
	}
	at := time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseCron(s, nil)
		if err != nil {
			return
		}
		if next := c.Next(at); !next.After(at) {
			t.Errorf("%q: next of %s is %s", s, at, next)
		}
	})
}

func BenchmarkNext(b *testing.B) {
	z := zone(b, "Europe/Stockholm")
	at := time.Date(2026, 3, 28, 12, 0, 0, 0, z)
	for _, cron := range []string{"*/5 * * * *", "0 9 * * MON-FRI"} {
		c, err := ParseCron(cron, z)
		if err != nil {
			b.Fatal(err)
		}
		b.Run("cron="+strings.ReplaceAll(cron, " ", "_"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.Next(at)
			}
		})
	}
}
