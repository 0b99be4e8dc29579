package profile

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"tailscope/internal/guard/check/spec"
)

func calendar(t testing.TB, s spec.Calendar) *Calendar {
	t.Helper()
	c, err := NewCalendar(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Dates of Easter Sunday from the tables of the Astronomical Applications
// Department of the U.S. Naval Observatory; 1818 and 2285 are the earliest
// possible, 1943 and 2038 the latest.
func TestEaster(t *testing.T) {
	for _, want := range []string{
		"1818-03-22", "1943-04-25", "1954-04-18", "1981-04-19", "1999-04-04", "2000-04-23", "2008-03-23", "2019-04-21",
		"2024-03-31", "2025-04-20", "2026-04-05", "2027-03-28", "2028-04-16", "2038-04-25", "2049-04-18", "2076-04-19", "2285-03-22",
	} {
		w, err := time.Parse("2006-01-02", want)
		if err != nil {
			t.Fatal(err)
		}
		if got := easter(w.Year()); got != on(w) {
			y, m, d := got.date()
			t.Errorf("got %d-%02d-%02d, want %s", y, m, d, want)
		}
	}
}

func TestHolidays(t *testing.T) {
	f := func(rule string, year int, want ...string) {
		t.Helper()
		c := calendar(t, spec.Calendar{Holidays: []string{rule}})
		var got []string
		for d := time.Date(year, 1, 1, 12, 0, 0, 0, time.UTC); d.Year() == year; d = d.AddDate(0, 0, 1) {
			if c.Holiday(d) {
				got = append(got, d.Format("Mon 01-02"))
			}
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s in %d: got %q, want %q", rule, year, got, want)
		}
	}
	f("2026-12-25", 2026, "Fri 12-25")
	f("2026-12-25", 2027)
	f("12-25", 2027, "Sat 12-25")
	f("02-29", 2027)
	f("02-29", 2028, "Tue 02-29")
	f("easter", 2026, "Sun 04-05")
	f("easter-2", 2026, "Fri 04-03")
	f("easter+1", 2026, "Mon 04-06")
	f("Easter+39", 2026, "Thu 05-14") // Ascension
	f("easter+60", 2026, "Thu 06-04") // Corpus Christi
	f("11-thu#4", 2026, "Thu 11-26")  // Thanksgiving
	f("01-mon#3", 2026, "Mon 01-19")
	f("05-mon#L", 2026, "Mon 05-25") // Memorial Day
	f("05-mon#5", 2026)
	f("06-20+sat", 2026, "Sat 06-20") // Midsummer Day in Sweden
	f("06-20+sat", 2027, "Sat 06-26")
	f("10-31+sat", 2027, "Sat 11-06") // All Saints' Day in Sweden
	f("05-24-mon", 2026, "Mon 05-18") // Victoria Day
	f("05-24-mon", 2027, "Mon 05-24")
	f("12-28+sun", 2026)              // 2026's falls into 2027
	f("12-28+sun", 2027, "Sun 01-03") // and 2027's into 2028

	for _, wrong := range []string{"", "12-32", "2027-02-29", "easter+", "easter5", "easter+999", "13-mon#1", "11-thu#0", "11-thu#6", "11-xyz#1", "06-20+foo", "25-12-2026", "tomorrow", "11-thu#", "11-thu#-1"} {
		if _, err := NewCalendar(spec.Calendar{Holidays: []string{wrong}}); err == nil || !strings.Contains(err.Error(), "is not a date; write 2026-12-24") {
			t.Errorf("%q: got %v", wrong, err)
		}
	}
}

func TestHolidayGoesByTheZone(t *testing.T) {
	c := calendar(t, spec.Calendar{Zone: "Europe/Stockholm", Holidays: []string{"12-25"}})
	f := func(at string, want bool) {
		t.Helper()
		m, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Holiday(m); got != want {
			t.Errorf("%s: got %v", at, got)
		}
	}
	f("2026-12-24T22:59:59Z", false)
	f("2026-12-24T23:00:00Z", true)
	f("2026-12-25T22:59:59Z", true)
	f("2026-12-25T23:00:00Z", false)
	if (*Calendar)(nil).Holiday(time.Now()) || (*Calendar)(nil).Zone() != time.UTC {
		t.Error("no calendar has holidays, or a zone")
	}
}

func TestWeek(t *testing.T) {
	iso, us := calendar(t, spec.Calendar{}), calendar(t, spec.Calendar{Week: "us"})
	f := func(date string, wantISO, wantUS int) {
		t.Helper()
		d, err := time.Parse("Mon 2006-01-02", date)
		if err != nil {
			t.Fatal(err)
		}
		if i, u := iso.week(on(d)), us.week(on(d)); i != wantISO || u != wantUS {
			t.Errorf("%s: got %d, %d, want %d, %d", date, i, u, wantISO, wantUS)
		}
	}
	f("Sat 2022-01-01", 52, 1)
	f("Sun 2022-01-02", 52, 2)
	f("Mon 2022-01-03", 1, 2)
	f("Sun 2025-12-28", 52, 1)
	f("Thu 2026-01-01", 1, 1)
	f("Sat 2026-01-03", 1, 1)
	f("Sun 2026-01-04", 1, 2)
	f("Mon 2026-01-05", 2, 2)
	f("Thu 2026-12-31", 53, 1)
	f("Sun 2028-12-31", 52, 1)
	f("Sat 2028-12-30", 52, 53)
	f("Sat 2000-12-30", 52, 53)
	f("Sun 2000-12-31", 52, 1)
}

func TestNewCalendarSaysAll(t *testing.T) {
	_, err := NewCalendar(spec.Calendar{Zone: "Mars", Week: "lunar", Holidays: []string{"foo"}})
	want := []string{`zone "Mars": unknown time zone Mars; write a name`, `holiday "foo" is not a date`, `week "lunar" is not known; write iso or us`}
	for _, w := range want {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("got %v, want %s", err, w)
		}
	}
}

func FuzzParseDate(f *testing.F) {
	for _, s := range []string{"2026-12-24", "12-24", "easter-2", "11-thu#4", "05-mon#L", "06-20+sat", "05-24-mon"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := parseDate(s)
		if err != nil {
			return
		}
		// At most once a year, and a second time where one of the year before falls
		// into this one.
		days := 0
		for d, end := dayOf(2026, 1, 1), dayOf(2027, 1, 1); d < end; d++ {
			if r.is(d) {
				days++
			}
		}
		if days > 2 {
			t.Errorf("%q is %d days of a year", s, days)
		}
	})
}
