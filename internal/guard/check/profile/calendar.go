package profile

import (
	"errors"
	"fmt"
	"time"

	"tailscope/internal/guard/check/spec"
)

// Calendar has the days of one zone, and which of them are holidays. A nil
// Calendar is UTC without holidays. It is safe for concurrent use.
type Calendar struct {
	zone     *time.Location
	holidays []date
	us       bool
}

// NewCalendar reads a calendar. Its errors are *Error, joined if there are
// several.
func NewCalendar(s spec.Calendar) (*Calendar, error) {
	c := new(Calendar)
	var errs []error
	var err error
	if c.zone, err = time.LoadLocation(s.Zone); err != nil {
		errs = append(errs, &Error{Message: fmt.Sprintf("zone %q: %v", s.Zone, err), Hint: "write a name such as Europe/Stockholm"})
	}
	for _, h := range s.Holidays {
		d, err := parseDate(h)
		if err != nil {
			errs = append(errs, &Error{Message: "holiday " + err.Error()})
			continue
		}
		c.holidays = append(c.holidays, d)
	}
	switch s.Week {
	case "", "iso":
	case "us":
		c.us = true
	default:
		errs = append(errs, &Error{Message: fmt.Sprintf("week %q is not known", s.Week), Hint: "write iso or us"})
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	return c, nil
}

// Zone is the calendar's zone.
func (c *Calendar) Zone() *time.Location {
	if c == nil {
		return time.UTC
	}
	return c.zone
}

// Holiday reports whether the day that t lies in, in the calendar's zone, is one.
func (c *Calendar) Holiday(t time.Time) bool { return c.holiday(on(t.In(c.Zone()))) }

func (c *Calendar) holiday(d day) bool {
	if c != nil {
		for i := range c.holidays {
			if c.holidays[i].is(d) {
				return true
			}
		}
	}
	return false
}

// week is the number of the week that d lies in: of ISO 8601, from Monday, where
// week 1 holds the year's first Thursday; or of the United States, from Sunday,
// where week 1 holds January 1, so that the last days of December may lie in it.
func (c *Calendar) week(d day) int {
	y, m, n := d.date()
	if c == nil || !c.us {
		_, w := time.Date(y, m, n, 0, 0, 0, 0, time.UTC).ISOWeek()
		return w
	}
	sunday := d - day(d.weekday())
	if next := dayOf(y+1, 1, 1); sunday+7 > next {
		return 1
	}
	first := dayOf(y, 1, 1)
	first -= day(first.weekday())
	return int(sunday-first)/7 + 1
}
