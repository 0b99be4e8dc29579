package schedule

import (
	"fmt"
	"time"
)

// Cron runs by the clock on the wall: Paul Vixie's cron(5) of five fields
// (minute, hour, day of month, month, day of week), or six with seconds in front,
// with Quartz's ?, L, W and #. Where day of month and day of week are both
// restricted, which is when neither begins with * or is ?, either is enough.
//
// When the clock is changed:
//
//   - A local time that is skipped runs once, at the moment of the change;
//     several of them that are skipped run once together.
//   - A local time that is repeated runs once, when it first comes. But where
//     every hour is asked for (the field of the hour is *, ? or */1) runs go on
//     through the hour that is repeated, as nobody who asks for a run every five
//     minutes wants a pause of an hour.
//
// These are cronie's rules but for its three hours of grace. They are why
// a library is not used: of those that are kept, robfig/cron, hashicorp/cronexpr and
// gronx leave out a local time that is skipped, the first two run one twice that is
// repeated, and go-quartz and gronx pause for an hour then, even of */5.
// The parser of robfig/cron under these rules would leave as much to write: it
// refuses L, W and #, ranges that go around (FRI-MON), 7 for Sunday and Quartz's
// year, which is 15 of the 26 expressions of TestCron.
type Cron struct {
	text string
	zone *time.Location

	second, minute, hour, month uint64 // bit n is set if n matches
	hours                       bool   // every one
	day                         dayRule
}

// ParseCron reads an expression that goes by the clock of the zone; nil is UTC.
// One that never matches, such as February 30, is an error.
func ParseCron(text string, zone *time.Location) (*Cron, error) {
	if zone == nil {
		zone = time.UTC
	}
	c := &Cron{text: text, zone: zone}
	if err := c.parse(text); err != nil {
		return nil, fmt.Errorf("cron %q: %w", text, err)
	}
	if _, ok := c.next(0); !ok {
		return nil, fmt.Errorf("cron %q: no day ever matches; check day of month, month and day of week", text)
	}
	return c, nil
}

func (c *Cron) String() string {
	if c.zone == time.UTC {
		return "cron " + c.text
	}
	return "cron " + c.text + " (" + c.zone.String() + ")"
}

// Next is the first run strictly after the moment, in the cron's zone; the zero
// time if there is none in 400 years.
func (c *Cron) Next(after time.Time) time.Time {
	wall, ok := c.next(furthest(after, c.zone))
	if !ok {
		return time.Time{}
	}
	next := reads(wall, c.zone)
	if c.hours {
		next = c.again(after, next)
	}
	return time.Unix(next, 0).In(c.zone)
}

// again is the first moment after the one given, and at most next, whose wall
// time matches, be it repeated or not. Moments are Unix seconds.
func (c *Cron) again(after time.Time, next int64) int64 {
	at, from := after.Unix(), after.Unix()
	for {
		off, end := offset(at, c.zone)
		if wall, ok := c.next(from + off); ok && wall-off < end {
			return min(wall-off, next)
		}
		if end >= next {
			return next
		}
		at, from = end, end-1
	}
}

// next is the first wall time after w that matches.
func (c *Cron) next(w int64) (int64, bool) {
	t := time.Unix(w+1, 0).UTC()
	sec, mins, hour := t.Second(), t.Minute(), t.Hour()
	y, m, d := t.Date()
	for last := y + 400; y <= last; m, d, hour, mins, sec = m+1, 1, 0, 0, 0 {
		if m > 12 {
			m, y = 1, y+1
		}
		if c.month&(1<<m) == 0 {
			continue
		}
		days := c.day.in(y, m)
		for ; d <= 31; d, hour, mins, sec = d+1, 0, 0, 0 {
			if days&(1<<d) == 0 {
				continue
			}
			for ; hour < 24; hour, mins, sec = hour+1, 0, 0 {
				if c.hour&(1<<hour) == 0 {
					continue
				}
				for ; mins < 60; mins, sec = mins+1, 0 {
					if c.minute&(1<<mins) == 0 {
						continue
					}
					for ; sec < 60; sec++ {
						if c.second&(1<<sec) != 0 {
							return time.Date(y, m, d, hour, mins, sec, 0, time.UTC).Unix(), true
						}
					}
				}
			}
		}
	}
	return 0, false
}
