package schedule

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tailscope/internal/guard/check/spec"
)

var update = flag.Bool("update", false, "rewrite testdata")

// A clock that is set, not waited for, runs four weeks of schedules over both
// changes of the year. What came of it stands in testdata/fourweeks.txt; the
// totals are checked here besides.
func TestFourWeeks(t *testing.T) {
	var b strings.Builder
	for _, c := range []struct{ zone, start string }{
		{"Europe/Stockholm", "2026-03-16"}, {"Europe/Stockholm", "2026-10-12"},
		{"America/New_York", "2026-02-23"}, {"America/New_York", "2026-10-19"},
		{"Australia/Lord_Howe", "2026-03-23"}, {"Australia/Lord_Howe", "2026-09-21"},
		{"Asia/Kolkata", "2026-03-16"},
	} {
		z := zone(t, c.zone)
		start, err := time.ParseInLocation("2006-01-02", c.start, z)
		if err != nil {
			t.Fatal(err)
		}
		end := start.AddDate(0, 0, 28)
		change := time.Time{}
		fmt.Fprintf(&b, "%s, four weeks from %s\n", c.zone, start.Format("Mon 2006-01-02"))
		if _, at := start.ZoneBounds(); at.Before(end) && !at.IsZero() {
			change = at
			fmt.Fprintf(&b, "the clock goes from %s to %s\n", at.Add(-time.Minute).Format("Mon 2006-01-02 15:04 -0700"), at.Format("15:04 -0700"))
		}
		for _, s := range []spec.Schedule{
			{Interval: 10 * time.Minute},
			{Cron: "*/10 * * * *"}, {Cron: "15 * * * *"}, {Cron: "15 1 * * *"}, {Cron: "45 1 * * *"}, {Cron: "0 2 * * *"}, {Cron: "15,45 2 * * *"}, {Cron: "0 0/20 1-3 ? * SUN"},
			{Cron: "0 9 * * MON-FRI"}, {Cron: "0 9 L * *"}, {Cron: "0 9 * * FRI#2"},
		} {
			s.Zone = c.zone
			x, err := Parse(s, "orders")
			if err != nil {
				t.Fatal(err)
			}
			report(t, &b, x, start, end, change)
		}
		b.WriteString("\n")
	}
	golden(t, "fourweeks.txt", b.String())
}

// report prints how many runs there were, and those of the day of the change.
func report(t *testing.T, b *strings.Builder, s Schedule, start, end, change time.Time) {
	t.Helper()
	var runs []time.Time
	for at := s.Next(start.Add(-time.Nanosecond)); at.Before(end); at = s.Next(at) {
		if n := len(runs); n > 0 && !at.After(runs[n-1]) {
			t.Fatalf("%s: %s after %s", s, at, runs[n-1])
		}
		runs = append(runs, at.In(start.Location()))
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(s.String(), "cron "), " (")
	fmt.Fprintf(b, "  %-22s %4d runs", name, len(runs))
	if s.cron == nil {
		if want := int(end.Sub(start) / s.interval); len(runs) != want {
			t.Errorf("%s runs %d times in %s, want %d", s, len(runs), end.Sub(start), want)
		}
		b.WriteString("\n")
		return
	}
	var day []string
	for _, r := range runs {
		if !change.IsZero() && r.YearDay() == change.YearDay() && r.Hour() >= 1 && r.Hour() <= 3 {
			day = append(day, r.Format("15:04-0700"))
		}
	}
	switch {
	case len(runs) < 5:
		for _, r := range runs {
			b.WriteString("  " + r.Format("Mon 2006-01-02 15:04"))
		}
	case len(day) > 0:
		fmt.Fprintf(b, "; 1-4 h on the day: %s", strings.Join(day, " "))
	}
	b.WriteString("\n")
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s\n(-update rewrites it)", got, want)
	}
}
