package sla

import (
	"fmt"
	"time"

	"tailscope/internal/query"
)

// Names of periods.
const (
	Day   = "day"
	Week  = "week" // from Monday, named as ISO 8601 does
	Month = "month"
)

// defaultCounts holds the default numbers of periods in a report.
var defaultCounts = map[string]int{Day: 7, Week: 8, Month: 6}

// maxCount bounds the periods of a report: older hours are not kept.
const maxCount = 400

// period is one day, week or month: half open, beginning at midnight. A day of 23 or 25
// hours counts as one day.
type period struct {
	kind       string
	start, end time.Time
}

// periodOf returns the period that holds t, in t's zone.
func periodOf(kind string, t time.Time) (period, error) {
	switch kind {
	case Day:
		return period{kind, query.Midnight(t), query.AddDays(t, 1)}, nil
	case Week:
		back := (int(t.Weekday()) + 6) % 7 // days since Monday
		return period{kind, query.AddDays(t, -back), query.AddDays(t, 7-back)}, nil
	case Month:
		first := t.Day() - 1
		days := time.Date(t.Year(), t.Month()+1, 0, 12, 0, 0, 0, time.UTC).Day()
		return period{kind, query.AddDays(t, -first), query.AddDays(t, days-first)}, nil
	}
	return period{}, query.Invalid("period", "there is no period %q; %s", kind, query.Suggest(kind, []string{Day, Week, Month}))
}

// before returns the period that ends where p begins.
func (p period) before() period {
	b, err := periodOf(p.kind, p.start.Add(-time.Hour))
	if err != nil { // p has a kind
		panic(err)
	}
	return b
}

// name returns 2026-11-16, 2026-W47 or 2026-11.
func (p period) name() string {
	switch p.kind {
	case Week:
		// Thursday decides to which year a week belongs; noon is never skipped.
		year, week := p.start.Add(12 * time.Hour).ISOWeek()
		return fmt.Sprintf("%d-W%02d", year, week)
	case Month:
		return p.start.Format("2006-01")
	}
	return p.start.Format("2006-01-02")
}

// periods returns n periods and the one before them, oldest first; the last holds the
// moment just before end.
func periods(kind string, end time.Time, n int) ([]period, error) {
	p, err := periodOf(kind, end.Add(-time.Nanosecond))
	if err != nil {
		return nil, err
	}
	list := make([]period, n+1)
	for i := n; i >= 0; i-- {
		list[i] = p
		p = p.before()
	}
	return list, nil
}

// samePart returns the end of the part of b that has the wall-clock length of [a.start,
// until).
func samePart(b, a period, until time.Time) time.Time {
	days, start := 0, a.start
	for next := query.AddDays(start, 1); !next.After(until); next = query.AddDays(start, 1) {
		start = next
		days++
	}
	day := query.AddDays(b.start, days)
	clock := until.Sub(start)
	at := day.Add(clock)
	if at.After(b.end) { // a month may be longer than the one before
		return b.end
	}
	return at
}
