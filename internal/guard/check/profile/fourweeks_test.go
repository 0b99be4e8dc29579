package profile

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tailscope/internal/guard/check/spec"
)

var update = flag.Bool("update", false, "rewrite testdata")

// A clock that is set, not waited for, goes through four weeks of weekdays,
// weekends and holidays and over both changes of the year, minute by minute. What
// the thresholds were stands in testdata/fourweeks.txt: of each day its rule and a
// few moments, of a day on which the clock is changed every half hour of the night.
func TestFourWeeks(t *testing.T) {
	hours := make([]string, 24)
	for h := range hours {
		hours[h] = fmt.Sprint(100 + 10*h)
	}
	flat := strings.Split(strings.Repeat("50,", 23)+"50", ",")
	office := spec.Profile{Days: []spec.ProfileDay{
		{Name: "holidays", Holiday: true, Hours: flat},
		{Name: "pay day", MonthDays: []int{24, -1}, Hours: strings.Split(strings.Repeat("500,", 23)+"500", ",")},
		{Name: "inventory", Dates: []string{"2026-04-09", "2026-10-08"}, None: true},
		{Name: "saturdays", Weekdays: []string{"sat"}, Intervals: []spec.Interval{{From: "08:30", To: "18:00", Value: "90"}}},
		{Name: "sundays", Weekdays: []string{"sun"}, Hours: hours},
		{Name: "weekdays", Hours: hours},
	}}
	var b strings.Builder
	for _, c := range []struct {
		zone, start string
		holidays    []string
	}{
		{"Europe/Stockholm", "2026-03-16", []string{"easter-2", "easter", "easter+1"}},
		{"Europe/Stockholm", "2026-10-05", []string{"10-31+sat"}},
		{"America/New_York", "2026-02-23", []string{"02-mon#3"}},
		{"America/New_York", "2026-10-19", []string{"10-mon#2", "11-11"}},
		{"Australia/Lord_Howe", "2026-03-23", []string{"easter-2", "easter-1", "easter+1"}},
		{"Australia/Lord_Howe", "2026-09-21", []string{"10-mon#1"}},
		{"Asia/Kolkata", "2026-03-16", nil},
	} {
		cal := calendar(t, spec.Calendar{Zone: c.zone, Holidays: c.holidays})
		p := compile(t, office, cal)
		start := at(t, c.start+" 00:00", c.zone)
		fmt.Fprintf(&b, "%s, holidays %v\n  %-16s%-14s%8s%8s%8s%8s\n", c.zone, c.holidays, "day", "rule", "00:00", "09:15", "12:30", "23:45")
		for d := range 28 {
			day := start.AddDate(0, 0, d)
			rule := strings.Split(p.At(day).Rule, ", ")[1]
			fmt.Fprintf(&b, "  %-16s%-14s", day.Format("Mon 2006-01-02"), rule)
			for _, clock := range []int{0, 9*60 + 15, 12*60 + 30, 23*60 + 45} {
				y, m, n := day.Date()
				b.WriteString(fmt.Sprintf("%8s", show(p.At(time.Date(y, m, n, 0, clock, 0, 0, cal.Zone())))))
			}
			next := day.AddDate(0, 0, 1)
			if length := next.Sub(day); length != 24*time.Hour {
				fmt.Fprintf(&b, "   %g hours", length.Hours())
			}
			b.WriteString("\n")
			if _, change := day.ZoneBounds(); !change.IsZero() && change.Before(next) {
				for m := change.Add(-90 * time.Minute); !m.After(change.Add(2 * time.Hour)); m = m.Add(30 * time.Minute) {
					fmt.Fprintf(&b, "      %s %7s  %s\n", m.In(cal.Zone()).Format("15:04 -0700"), show(p.At(m)), strings.Split(p.At(m).Rule, ", ")[2])
				}
			}
		}
		b.WriteString("\n")
		everyMinute(t, p, start)
	}
	file := filepath.Join("testdata", "fourweeks.txt")
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s\n(-update rewrites it)", b.String(), want)
	}
}

func show(b Blend) string {
	if b.None() {
		return "-"
	}
	return fmt.Sprintf("%.4g", number64(b))
}

// everyMinute holds each of the minutes of four weeks against what its day's rule
// must come to by the local clock, where the clock is not being changed.
func everyMinute(t *testing.T, p *Profile, start time.Time) {
	t.Helper()
	for d := range 28 {
		day := start.AddDate(0, 0, d)
		next := day.AddDate(0, 0, 1)
		rule, following := p.rule(on(day)), p.rule(on(next)).name
		for m := day; m.Before(next); m = m.Add(time.Minute) {
			hour, minute, _ := m.Clock()
			if next.Sub(day) != 24*time.Hour && hour < 4 {
				continue
			}
			part := float64(minute) / 60
			var want float64
			switch rule.name {
			case "holidays":
				want = 50
			case "pay day":
				want = 500
			case "inventory":
				want = math.NaN()
			case "saturdays":
				if want = 90; hour*60+minute < 8*60+30 || hour >= 18 {
					want = math.NaN()
				}
			default:
				want = 100 + 10*(float64(hour)+part)
			}
			if hour == 23 && rule.hours != nil {
				from := rule.hours[23].Number
				to, ok := map[string]float64{"holidays": 50, "pay day": 500, "sundays": 100, "weekdays": 100}[following]
				if want = from + part*(to-from); !ok { // a day without a threshold at 00:00
					want = from
				}
			}
			b := p.At(m)
			if got := number64(b); math.IsNaN(got) != math.IsNaN(want) || math.Abs(got-want) > 1e-9 {
				t.Fatalf("%s: got %g by %s, want %g", m, got, b.Rule, want)
			}
		}
	}
}
