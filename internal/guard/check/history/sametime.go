package history

import (
	"time"

	"tailscope/internal/guard/check/expr"
)

// farthest bounds the days back in which a weekday is looked for.
const farthest = 1000

// sameTime calls look for the same time of day on each earlier day that s
// selects, the latest first.
func (v *view) sameTime(at time.Time, s *expr.Selector, look func(t time.Time) error) error {
	local := at.In(v.o.Location)
	for n, back := 0, 1; n < s.N && back <= farthest; back++ {
		days := back
		if s.Every == expr.Weeks {
			days = 7 * back
		}
		t := sameTime(local, days)
		if s.Every == expr.Weekdays {
			// The day is that of the calendar: its noon lies on it in every zone.
			noon := time.Date(local.Year(), local.Month(), local.Day()-days, 12, 0, 0, 0, v.o.Location)
			if d := noon.Weekday(); d == time.Saturday || d == time.Sunday || v.o.Holidays != nil && v.o.Holidays(noon) {
				continue
			}
		}
		if err := look(t); err != nil {
			return err
		}
		n++
	}
	return nil
}

// sameTime returns the moment so many calendar days before at when the clocks
// of its location show the same. A time that is skipped that day is as much
// later as the clocks were put forward; of one that comes twice it is the one
// with at's distance from UTC, or the first.
func sameTime(at time.Time, days int) time.Time {
	loc := at.Location()
	wall := time.Date(at.Year(), at.Month(), at.Day()-days, at.Hour(), at.Minute(), at.Second(), at.Nanosecond(), time.UTC)
	offset := func(t time.Time) time.Duration {
		_, s := t.In(loc).Zone()
		return time.Duration(s) * time.Second
	}
	// The offsets in force before and after any change near that time.
	before, after := offset(wall.Add(-36*time.Hour)), offset(wall.Add(36*time.Hour))
	valid := func(o time.Duration) bool { return offset(wall.Add(-o)) == o }
	switch own := offset(at); {
	case valid(own):
		return wall.Add(-own).In(loc)
	case valid(before):
		return wall.Add(-before).In(loc)
	case valid(after):
		return wall.Add(-after).In(loc)
	}
	return wall.Add(-before).In(loc)
}
