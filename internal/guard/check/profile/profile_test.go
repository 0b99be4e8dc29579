package profile

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tailscope/internal/guard/check/expr"
	"tailscope/internal/guard/check/spec"
)

// one is a rule's day that has the same value at every hour.
func one(d spec.ProfileDay, value string) spec.ProfileDay {
	d.Hours = strings.Split(strings.Repeat(value+",", 23)+value, ",")
	return d
}

func compile(t testing.TB, s spec.Profile, cal *Calendar) *Profile {
	t.Helper()
	p, err := Compile("office", s, cal, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func at(t testing.TB, text, zone string) time.Time {
	t.Helper()
	z, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	m, err := time.ParseInLocation("2006-01-02 15:04", text, z)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// number64 is T of a blend of numbers, NaN if there is none.
func number64(b Blend) float64 {
	if b.None() {
		return math.NaN()
	}
	return b.T(b.From.Number, b.To.Number)
}

// Every class of rules, the least first, so that only their rank decides.
func TestPrecedence(t *testing.T) {
	days := []spec.ProfileDay{
		one(spec.ProfileDay{}, "8"),
		one(spec.ProfileDay{Weeks: []int{52, 51}}, "7"),
		one(spec.ProfileDay{Months: []int{12}}, "6"),
		one(spec.ProfileDay{Weekdays: []string{"thu-fri"}}, "5"),
		one(spec.ProfileDay{MonthDays: []int{24, -1}}, "4"),
		one(spec.ProfileDay{Weeks: []int{52}, Weekdays: []string{"tue", "wed"}}, "3"),
		one(spec.ProfileDay{Dates: []string{"12-22", "2026-12-25"}}, "2"),
		one(spec.ProfileDay{Months: []int{12}, MonthDays: []int{31}}, "2.5"),
		one(spec.ProfileDay{Holiday: true}, "1"),
	}
	cal := calendar(t, spec.Calendar{Holidays: []string{"12-25", "2027-12-24"}})
	p := compile(t, spec.Profile{Days: days}, cal)
	f := func(date string, want float64, rule string) {
		t.Helper()
		m, err := time.Parse("Mon 2006-01-02", date)
		if err != nil {
			t.Fatal(err)
		}
		b := p.At(m.Add(12 * time.Hour))
		if got := number64(b); got != want || b.Rule != "profile office, "+rule+", 12:00–13:00" {
			t.Errorf("%s: got %g by %q, want %g by %s", date, got, b.Rule, want, rule)
		}
	}
	f("Fri 2026-12-25", 1, "holiday")
	f("Fri 2027-12-24", 1, "holiday")
	f("Tue 2026-12-22", 2, "12-22,2026-12-25") // before week 52 and Tuesday
	f("Thu 2026-12-31", 2.5, "day 31 month 12")
	f("Wed 2026-12-23", 3, "week 52 tue,wed")
	f("Wed 2025-12-24", 3, "week 52 tue,wed") // before day 24
	f("Thu 2026-12-24", 4, "day 24,-1")       // before Thursday
	f("Sat 2026-01-31", 4, "day 24,-1")
	f("Sat 2026-02-28", 4, "day 24,-1")
	f("Thu 2028-02-24", 4, "day 24,-1")
	f("Tue 2028-02-29", 4, "day 24,-1")
	f("Thu 2026-12-10", 5, "thu-fri") // before December
	f("Mon 2026-12-14", 6, "month 12")
	f("Sat 2026-12-26", 6, "month 12") // before week 52
	f("Sun 2028-12-31", 2.5, "day 31 month 12")
	f("Sat 2028-01-01", 7, "week 52,51")
	f("Mon 2026-11-23", 8, "default")
}

// A holiday without a rule for holidays is a day like any other.
func TestHolidayWithoutRule(t *testing.T) {
	cal := calendar(t, spec.Calendar{Holidays: []string{"12-25"}})
	p := compile(t, spec.Profile{Days: []spec.ProfileDay{one(spec.ProfileDay{}, "8")}}, cal)
	if got := number64(p.At(time.Date(2026, 12, 25, 12, 0, 0, 0, time.UTC))); got != 8 {
		t.Errorf("got %g", got)
	}
	p = compile(t, spec.Profile{Days: []spec.ProfileDay{{Holiday: true, None: true}, one(spec.ProfileDay{}, "8")}}, cal)
	if b := p.At(time.Date(2026, 12, 25, 12, 0, 0, 0, time.UTC)); !b.None() || b.Rule != "profile office, holiday, 00:00–24:00" {
		t.Errorf("got %+v", b)
	}
}

// Conditions of one rule must hold together; of equal rules the first wins.
func TestRulesTogether(t *testing.T) {
	p := compile(t, spec.Profile{Days: []spec.ProfileDay{
		one(spec.ProfileDay{Name: "summer mondays", Months: []int{6, 7, 8}, Weekdays: []string{"mon"}}, "1"),
		one(spec.ProfileDay{Name: "around the weekend", Weekdays: []string{"fri-mon"}}, "2"),
		one(spec.ProfileDay{Name: "friday 13th", Weekdays: []string{"Friday"}, MonthDays: []int{13}}, "3"),
	}}, nil)
	f := func(date string, want float64) {
		t.Helper()
		m, err := time.Parse("Mon 2006-01-02", date)
		if err != nil {
			t.Fatal(err)
		}
		if got := number64(p.At(m)); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("%s: got %g, want %g", date, got, want)
		}
	}
	f("Mon 2026-07-06", 1)
	f("Mon 2026-09-07", 2)
	f("Sat 2026-07-11", 2)
	f("Fri 2026-11-13", 3)
	f("Fri 2026-11-20", 2)
	f("Tue 2026-07-07", math.NaN())
	if b := p.At(time.Date(2026, 7, 7, 0, 0, 0, 0, time.UTC)); b.Rule != "profile office, no day rule applies" {
		t.Errorf("got %q", b.Rule)
	}
}

func TestWeeksOfTheUS(t *testing.T) {
	p := compile(t, spec.Profile{Days: []spec.ProfileDay{one(spec.ProfileDay{Weeks: []int{1}}, "1"), one(spec.ProfileDay{}, "2")}},
		calendar(t, spec.Calendar{Week: "us"}))
	for date, want := range map[string]float64{"2026-12-27": 1, "2026-12-26": 2, "2027-01-02": 1, "2027-01-03": 2} {
		if got := number64(p.At(at(t, date+" 10:00", "UTC"))); got != want {
			t.Errorf("%s: got %g, want %g", date, got, want)
		}
	}
}

// hourly lists 24 hours: 0, 100, …, 2300, with the changes given.
func hourly(d spec.ProfileDay, changes map[int]string) spec.ProfileDay {
	for h := range 24 {
		text := fmt.Sprint(h * 100)
		if c, ok := changes[h]; ok {
			text = c
		}
		d.Hours = append(d.Hours, text)
	}
	return d
}

func TestHours(t *testing.T) {
	p := compile(t, spec.Profile{Days: []spec.ProfileDay{
		hourly(spec.ProfileDay{Name: "weekdays", Weekdays: []string{"mon-fri"}}, map[int]string{6: "none", 7: " none"}),
		hourly(spec.ProfileDay{Name: "saturday", Weekdays: []string{"sat"}, Step: true}, map[int]string{0: "5000"}),
		{Name: "sunday", Weekdays: []string{"sun"}, Intervals: []spec.Interval{{From: "09:00", To: "12:00", Value: "7"}}},
	}}, nil)
	f := func(m string, want float64, rule string) {
		t.Helper()
		b := p.At(at(t, m, "UTC"))
		if got := number64(b); math.Abs(got-want) > 1e-9 || math.IsNaN(got) != math.IsNaN(want) {
			t.Errorf("%s: got %g, want %g", m, got, want)
		}
		if b.Rule != "profile office, "+rule {
			t.Errorf("%s: got rule %q", m, b.Rule)
		}
	}
	f("2026-11-19 09:00", 900, "weekdays, 09:00–10:00")
	f("2026-11-19 09:15", 925, "weekdays, 09:00–10:00")
	f("2026-11-19 09:59", 900+100*59.0/60, "weekdays, 09:00–10:00")
	f("2026-11-19 23:30", 1150, "weekdays, 23:00–24:00") // to Friday's 0
	f("2026-11-20 23:30", 3650, "weekdays, 23:00–24:00") // to Saturday's 5000, not to Friday's 0
	f("2026-11-20 05:00", 500, "weekdays, 05:00–06:00")
	f("2026-11-20 05:01", math.NaN(), "weekdays, 05:00–06:00") // an end is none
	f("2026-11-20 07:59", math.NaN(), "weekdays, 07:00–08:00")
	f("2026-11-20 08:00", 800, "weekdays, 08:00–09:00")
	f("2026-11-21 00:59", 5000, "saturday, 00:00–01:00") // held
	f("2026-11-21 23:59", 2300, "saturday, 23:00–24:00")
	f("2026-11-22 08:59", math.NaN(), "sunday, 00:00–09:00")
	f("2026-11-22 09:00", 7, "sunday, 09:00–12:00")
	f("2026-11-22 11:59", 7, "sunday, 09:00–12:00")
	f("2026-11-22 12:00", math.NaN(), "sunday, 12:00–24:00")
}

// Into a day that has no threshold at 00:00 the last hour holds its value, so
// that nothing goes unwatched that has one.
func TestLastHourHolds(t *testing.T) {
	for name, sunday := range map[string][]spec.ProfileDay{
		"no rule":   nil,
		"none":      {{Weekdays: []string{"sun"}, None: true}},
		"intervals": {{Weekdays: []string{"sun"}, Intervals: []spec.Interval{{From: "06:00", To: "07:00", Value: "1"}}}},
		"hour none": {hourly(spec.ProfileDay{Weekdays: []string{"sun"}}, map[int]string{0: "none"})},
	} {
		p := compile(t, spec.Profile{Days: append(sunday, hourly(spec.ProfileDay{Weekdays: []string{"sat"}}, nil))}, nil)
		if got := number64(p.At(at(t, "2026-11-21 23:45", "UTC"))); got != 2300 {
			t.Errorf("%s: got %g, want 2300", name, got)
		}
	}
	// Into an interval that begins at 00:00 it moves.
	p := compile(t, spec.Profile{Days: []spec.ProfileDay{
		hourly(spec.ProfileDay{Weekdays: []string{"sat"}}, nil),
		{Weekdays: []string{"sun"}, Intervals: []spec.Interval{{From: "00:00", To: "24:00", Value: "0"}}},
	}}, nil)
	if got := number64(p.At(at(t, "2026-11-21 23:45", "UTC"))); got != 2300.0/4 {
		t.Errorf("got %g, want 575", got)
	}
}

func TestIntervals(t *testing.T) {
	ten, five := &spec.Distance{Share: 0.1}, &spec.Distance{Absolute: 5}
	p := compile(t, spec.Profile{Days: []spec.ProfileDay{{Intervals: []spec.Interval{
		{From: "17:30", To: "24:00", Value: "30"},
		{From: "9:00", To: "12:15", Value: "10", Warning: ten, Critical: five},
		{From: "12:15", To: "13:00", Value: "20"},
	}}}}, nil)
	f := func(clock string, want float64, warning, critical *spec.Distance, rule string) {
		t.Helper()
		b := p.At(at(t, "2026-11-19 "+clock, "UTC"))
		if got := number64(b); got != want && !math.IsNaN(want) || b.Warning != warning || b.Critical != critical {
			t.Errorf("%s: got %g, %v, %v", clock, got, b.Warning, b.Critical)
		}
		if b.Rule != "profile office, default, "+rule {
			t.Errorf("%s: got rule %q", clock, b.Rule)
		}
	}
	f("00:00", math.NaN(), nil, nil, "00:00–09:00")
	f("09:00", 10, ten, five, "09:00–12:15")
	f("12:14", 10, ten, five, "09:00–12:15")
	f("12:15", 20, nil, nil, "12:15–13:00")
	f("13:00", math.NaN(), nil, nil, "13:00–17:30")
	f("23:59", 30, nil, nil, "17:30–24:00")
}

func TestExpressions(t *testing.T) {
	program := new(expr.Program)
	var lines []int
	p, err := Compile("p", spec.Profile{Days: []spec.ProfileDay{{Line: 12, Intervals: []spec.Interval{{From: "00:00", To: "01:00", Value: "avg(x[0:9])"}}}}}, nil,
		func(src string, line int) (*expr.Program, error) {
			if src != "avg(x[0:9])" {
				t.Errorf("parses %q", src)
			}
			lines = append(lines, line)
			return program, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	if b := p.At(time.Date(2026, 1, 1, 0, 30, 0, 0, time.UTC)); b.From.Program != program || b.To.Program != program || b.Fraction != 0 || len(lines) != 1 || lines[0] != 12 {
		t.Errorf("got %+v, lines %v", b, lines)
	}
	broken := errors.New("line 12, column 3: no")
	_, err = Compile("p", spec.Profile{Days: []spec.ProfileDay{one(spec.ProfileDay{}, "x[")}}, nil, func(string, int) (*expr.Program, error) { return nil, broken })
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestCompileErrors(t *testing.T) {
	f := func(d spec.ProfileDay, want string) {
		t.Helper()
		d.Line = 7
		_, err := Compile("p", spec.Profile{Days: []spec.ProfileDay{d}, Line: 5}, nil, nil)
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	f(spec.ProfileDay{}, "line 7: day default has 0 of none, hours and intervals; give one of them")
	f(one(spec.ProfileDay{None: true}, "1"), "line 7: day default has 2 of none, hours and intervals; give one of them")
	f(spec.ProfileDay{Hours: []string{"1"}}, "line 7: day default has 1 hours, not 24; list one value for each hour from 00:00 on, none where there is none")
	f(spec.ProfileDay{None: true, Step: true}, "line 7: day default: step belongs to hours; leave step out")
	f(hourly(spec.ProfileDay{}, map[int]string{3: "x["}), `line 7: day default, 03:00: "x[" is not a number; write a number`)
	f(hourly(spec.ProfileDay{}, map[int]string{3: "3..2..1"}), "line 7: day default, 03:00: the band 3..2..1 does not rise; write low..middle..high, rising\nline 5: profile p mixes bands and single values; write every value as low..middle..high, or none of them")
	f(one(spec.ProfileDay{Weekdays: []string{"mo"}}, "1"), `line 7: weekday "mo" is not known; write mon, or mon-fri`)
	f(one(spec.ProfileDay{Months: []int{13}}, "1"), "line 7: month 13 does not exist; months are 1 to 12")
	f(one(spec.ProfileDay{MonthDays: []int{0}}, "1"), "line 7: day of month 0 does not exist; write 1 to 31, or -1 for the last")
	f(one(spec.ProfileDay{Weeks: []int{54}}, "1"), "line 7: week 54 does not exist; weeks are 1 to 53")
	intervals := func(i ...spec.Interval) spec.ProfileDay { return spec.ProfileDay{Name: "x", Intervals: i} }
	f(intervals(spec.Interval{From: "09:00", To: "12:00", Value: "1"}, spec.Interval{From: "11:30", To: "13:00", Value: "1"}),
		"line 7: day x: intervals 09:00–12:00 and 11:30–13:00 overlap; let one end where the other begins")
	f(intervals(spec.Interval{From: "22:00", To: "06:00", Value: "1"}),
		"line 7: day x, interval 22:00 to 06:00 does not end after it begins; end it at 24:00 and begin another at 00:00, of the day that it shall count to")
	f(intervals(spec.Interval{From: "9", To: "12:00", Value: "1"}), "line 7: day x, interval 9 to 12:00 is not two times of the day; write times such as 09:00, up to 24:00")
	f(intervals(spec.Interval{From: "09:00", To: "24:01", Value: "1"}), "line 7: day x, interval 09:00 to 24:01 is not two times of the day; write times such as 09:00, up to 24:00")

	_, err := Compile("p", spec.Profile{Days: []spec.ProfileDay{one(spec.ProfileDay{}, "1"), one(spec.ProfileDay{Line: 9}, "2")}}, nil, nil)
	if err == nil || err.Error() != "line 9: profile p has several days without a condition; give all of them but one a condition, such as weekdays" {
		t.Errorf("got %v", err)
	}
	if _, err = Compile("p", spec.Profile{Line: 3}, nil, nil); err == nil || err.Error() != "line 3: profile p has no days; list days, or say learn" {
		t.Errorf("got %v", err)
	}
}

// profiles draws hourly profiles of a few rules without gaps, in zones whose
// clocks change in every way.
func drawProfile(t *rapid.T) (*Profile, time.Time) {
	zone := rapid.SampledFrom([]struct{ zone, at string }{
		{"Europe/Stockholm", "2026-03-27"}, {"Europe/Stockholm", "2026-10-23"}, {"America/New_York", "2026-10-30"},
		{"Australia/Lord_Howe", "2026-04-03"}, {"Australia/Lord_Howe", "2026-10-02"}, {"America/Sao_Paulo", "2018-11-02"},
		{"America/Sao_Paulo", "2018-02-15"}, {"Asia/Kolkata", "2026-03-27"}, {"Pacific/Apia", "2011-12-28"},
	}).Draw(t, "zone")
	cal, err := NewCalendar(spec.Calendar{Zone: zone.zone, Holidays: []string{zone.at}})
	if err != nil {
		t.Fatal(err)
	}
	hours := func(name string) []string {
		texts := make([]string, 24)
		for i, v := range rapid.SliceOfN(rapid.IntRange(-1000, 1000), 24, 24).Draw(t, name) {
			texts[i] = fmt.Sprint(v)
		}
		return texts
	}
	p, err := Compile("p", spec.Profile{Days: []spec.ProfileDay{
		{Holiday: true, Hours: hours("holiday")},
		{Weekdays: []string{"sun"}, Hours: hours("sunday")},
		{Hours: hours("default")},
	}}, cal, nil)
	if err != nil {
		t.Fatal(err)
	}
	start, err := time.ParseInLocation("2006-01-02", zone.at, cal.Zone())
	if err != nil {
		t.Fatal(err)
	}
	return p, start
}

// At hh:00 the threshold is the hour's value, of whatever rule the day has; where
// an hour is skipped, at the moment of the change.
func TestValueAtFullHours(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, start := drawProfile(t)
		for i := range 5 * 24 * 2 {
			m := start.Add(time.Duration(i) * 30 * time.Minute)
			if m.Minute() != 0 {
				continue
			}
			want := p.rule(on(m)).hours[m.Hour()].Number
			if got := number64(p.At(m)); got != want {
				t.Fatalf("%s: got %g, want %g", m, got, want)
			}
		}
	})
}

// The threshold never jumps: over four minutes it moves by no more than the
// steepest line between two values can, through midnight and every change of the
// clock, be hours skipped or repeated.
func TestContinuity(t *testing.T) {
	const step = 4 * time.Minute
	rapid.Check(t, func(t *rapid.T) {
		p, start := drawProfile(t)
		last := number64(p.At(start))
		// At most 2000 within the shortest time between knots, which is half an hour.
		most := 2000 * float64(step) / float64(30*time.Minute)
		for m := start.Add(step); m.Before(start.AddDate(0, 0, 4)); m = m.Add(step) {
			got := number64(p.At(m))
			if math.IsNaN(got) || math.Abs(got-last) > most+1e-9 {
				t.Fatalf("%s: %g after %g", m, got, last)
			}
			last = got
		}
	})
}

func TestAtDoesNotAllocate(t *testing.T) {
	cal := calendar(t, spec.Calendar{Zone: "Europe/Stockholm", Holidays: []string{"12-25", "easter", "11-thu#4", "06-20+sat"}})
	p := compile(t, spec.Profile{Days: []spec.ProfileDay{one(spec.ProfileDay{Holiday: true}, "1"), hourly(spec.ProfileDay{}, nil)}}, cal)
	m := at(t, "2026-11-19 23:30", "Europe/Stockholm")
	if n := testing.AllocsPerRun(100, func() { p.At(m) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

func BenchmarkAt(b *testing.B) {
	cal := calendar(b, spec.Calendar{Zone: "Europe/Stockholm", Holidays: []string{"12-25", "12-26", "01-01", "easter", "easter+1", "easter-2", "11-thu#4", "06-20+sat"}})
	p := compile(b, spec.Profile{Days: []spec.ProfileDay{one(spec.ProfileDay{Holiday: true}, "1"), hourly(spec.ProfileDay{}, nil)}}, cal)
	m := at(b, "2026-11-19 23:30", "Europe/Stockholm")
	b.ReportAllocs()
	for b.Loop() {
		p.At(m)
	}
}
