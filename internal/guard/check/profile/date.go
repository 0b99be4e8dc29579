package profile

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"tailscope/internal/weekday"
)

// A day is a date of the Gregorian calendar, counted from 1970-01-01, without a
// zone.
type day int

func dayOf(y int, m time.Month, d int) day {
	return day(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86400)
}

// on is the date that a clock shows at t, in t's location.
func on(t time.Time) day { return dayOf(t.Date()) }

func (d day) date() (int, time.Month, int) { return time.Unix(int64(d)*86400, 0).UTC().Date() }

func (d day) weekday() time.Weekday { return time.Weekday(((int(d)+4)%7 + 7) % 7) }

// date is a rule that names one day of a year, or of every year.
type date struct {
	year   int // 0: every year
	month  time.Month
	day    int
	easter bool // month and day are not given; off days from Easter Sunday
	off    int

	weekday time.Weekday
	nth     int // 1..5: the nth weekday of the month; -1 the last
	toward  int // 1: the first weekday on or after the day; -1: the last on or before
}

// parseDate reads 2026-12-24, 12-24, easter, easter-2, and days that move:
// 11-thu#4 (the fourth Thursday of November), 05-mon#L (the last Monday of May),
// 06-20+sat (the first Saturday from June 20 on), 05-24-mon (the last Monday up to
// May 24).
func parseDate(text string) (date, error) {
	wrong := fmt.Errorf("%q is not a date; write 2026-12-24, 12-24 (every year), easter, easter+1, 11-thu#4 (fourth Thursday of November) or 06-20+sat (first Saturday from then on)", text)
	s := strings.ToLower(strings.TrimSpace(text))
	if rest, ok := strings.CutPrefix(s, "easter"); ok {
		if rest == "" {
			return date{easter: true}, nil
		}
		off, err := strconv.Atoi(rest)
		if err != nil || rest[0] >= '0' && rest[0] <= '9' || off < -100 || off > 250 {
			return date{}, wrong
		}
		return date{easter: true, off: off}, nil
	}
	if len(s) >= 8 && s[2] == '-' && s[6] == '#' {
		m, err := strconv.Atoi(s[:2])
		w, ok := weekday.Parse(s[3:6])
		n, err2 := strconv.Atoi(s[7:])
		if err != nil || !ok || m < 1 || m > 12 || s[7:] != "l" && (err2 != nil || n < 1 || n > 5) {
			return date{}, wrong
		}
		if s[7:] == "l" {
			n = -1
		}
		return date{month: time.Month(m), weekday: w, nth: n}, nil
	}
	var r date
	if len(s) == 9 && (s[5] == '+' || s[5] == '-') {
		w, ok := weekday.Parse(s[6:])
		if !ok {
			return date{}, wrong
		}
		r.weekday, r.toward = w, 1
		if s[5] == '-' {
			r.toward = -1
		}
		s = s[:5]
	}
	switch len(s) {
	case 5: // February 29 is a date
		t, err := time.Parse("2006-01-02", "2000-"+s)
		if err != nil {
			return date{}, wrong
		}
		r.month, r.day = t.Month(), t.Day()
	case 10:
		t, err := time.Parse("2006-01-02", s)
		if err != nil {
			return date{}, wrong
		}
		r.year, r.month, r.day = t.Date()
	default:
		return date{}, wrong
	}
	return r, nil
}

// is reports whether d is such a day.
func (r *date) is(d day) bool {
	if r.easter {
		sunday := d - day(r.off)
		y, m, _ := sunday.date()
		return (m == time.March || m == time.April) && easter(y) == sunday
	}
	y, m, n := d.date()
	switch {
	case r.nth != 0:
		if m != r.month || d.weekday() != r.weekday {
			return false
		}
		if r.nth < 0 {
			_, next, _ := (d + 7).date()
			return next != m
		}
		return (n+6)/7 == r.nth
	case r.toward != 0:
		if d.weekday() != r.weekday {
			return false
		}
		for i := range 7 {
			_, m, n := (d - day(i*r.toward)).date()
			if m == r.month && n == r.day {
				return true
			}
		}
		return false
	}
	return m == r.month && n == r.day && (r.year == 0 || r.year == y)
}

// easter is Easter Sunday of the Gregorian calendar, by the anonymous algorithm
// of 1876 as J. Meeus, Astronomical Algorithms (2nd ed., 1998), chapter 8, has it.
func easter(y int) day {
	a, b, c := y%19, y/100, y%100
	d, e := b/4, b%4
	g := (8*b + 13) / 25
	h := (19*a + b - d - g + 15) % 30
	i, k := c/4, c%4
	l := (32 + 2*e + 2*i - h - k) % 7
	m := (a + 11*h + 19*l) / 433
	n := (h + l - 7*m + 90) / 25
	p := (h + l - 7*m + 33*n + 19) % 32
	return dayOf(y, time.Month(n), p)
}
