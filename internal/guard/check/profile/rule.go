package profile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tailscope/internal/guard/check/spec"
	"tailscope/internal/weekday"
)

// class is the order in which day rules are asked. It is Bischeck's.
type class int

const (
	byHoliday class = iota
	byDate          // dates, or a day of a month of the year
	byWeekAndWeekday
	byMonthDay
	byWeekday
	byMonth
	byWeek
	byDefault
)

// rule says which days it applies to: all that is given must hold.
type rule struct {
	class     class
	name      string
	holiday   bool
	dates     []date
	weeks     uint64 // bit n: week n
	weekdays  weekday.Set
	months    uint16 // bit n: month n
	monthDays uint64 // bit n: day n
	fromEnd   uint64 // bit n: the nth day from the month's end, 1 is the last

	slots []slot // of a day of intervals, touching, from 00:00 to 24:00; else
	hours *[24]value
	step  bool
	texts [24]string // Blend.Rule of each hour
}

func (r *rule) applies(c *Calendar, d day) bool {
	if r.class == byDefault {
		return true
	}
	if r.holiday && !c.holiday(d) {
		return false
	}
	if len(r.dates) > 0 && !slices.ContainsFunc(r.dates, func(x date) bool { return x.is(d) }) {
		return false
	}
	if r.weekdays != 0 && !r.weekdays.Has(d.weekday()) {
		return false
	}
	if r.weeks != 0 && r.weeks&(1<<c.week(d)) == 0 {
		return false
	}
	if r.months == 0 && r.monthDays == 0 && r.fromEnd == 0 {
		return true
	}
	y, m, n := d.date()
	if r.months != 0 && r.months&(1<<m) == 0 {
		return false
	}
	if r.monthDays|r.fromEnd == 0 {
		return true
	}
	length := time.Date(y, m+1, 0, 0, 0, 0, 0, time.UTC).Day()
	return r.monthDays&(1<<n) != 0 || r.fromEnd&(1<<(length+1-n)) != 0
}

// when reads the conditions of a day rule.
func (r *rule) when(s spec.ProfileDay) (errs []error) {
	wrong := func(hint, format string, args ...any) {
		errs = append(errs, &Error{s.Line, fmt.Sprintf(format, args...), hint})
	}
	r.holiday = s.Holiday
	for _, text := range s.Dates {
		d, err := parseDate(text)
		if err != nil {
			wrong("", "%v", err)
			continue
		}
		r.dates = append(r.dates, d)
	}
	for _, w := range s.Weeks {
		if w < 1 || w > 53 {
			wrong("weeks are 1 to 53", "week %d does not exist", w)
			continue
		}
		r.weeks |= 1 << w
	}
	for _, text := range s.Weekdays {
		set, ok := weekday.ParseSet(text)
		if !ok {
			wrong("write mon, or mon-fri", "weekday %q is not known", text)
		}
		r.weekdays |= set
	}
	for _, d := range s.MonthDays {
		switch {
		case d >= 1 && d <= 31:
			r.monthDays |= 1 << d
		case d <= -1 && d >= -31:
			r.fromEnd |= 1 << -d
		default:
			wrong("write 1 to 31, or -1 for the last", "day of month %d does not exist", d)
		}
	}
	for _, m := range s.Months {
		if m < 1 || m > 12 {
			wrong("months are 1 to 12", "month %d does not exist", m)
			continue
		}
		r.months |= 1 << m
	}
	r.class = r.rank()
	r.name = s.Name
	if r.name == "" {
		r.name = describe(s)
	}
	return errs
}

func (r *rule) rank() class {
	monthDay := r.monthDays|r.fromEnd != 0
	switch {
	case r.holiday:
		return byHoliday
	case len(r.dates) > 0 || monthDay && r.months != 0:
		return byDate
	case r.weeks != 0 && r.weekdays != 0:
		return byWeekAndWeekday
	case monthDay:
		return byMonthDay
	case r.weekdays != 0:
		return byWeekday
	case r.months != 0:
		return byMonth
	case r.weeks != 0:
		return byWeek
	}
	return byDefault
}

// describe names a rule by its conditions.
func describe(s spec.ProfileDay) string {
	var parts []string
	list := func(word string, n []int) {
		if len(n) > 0 {
			parts = append(parts, word+" "+strings.Trim(strings.ReplaceAll(fmt.Sprint(n), " ", ","), "[]"))
		}
	}
	if s.Holiday {
		parts = append(parts, "holiday")
	}
	if len(s.Dates) > 0 {
		parts = append(parts, strings.Join(s.Dates, ","))
	}
	list("week", s.Weeks)
	if len(s.Weekdays) > 0 {
		parts = append(parts, strings.Join(s.Weekdays, ","))
	}
	list("day", s.MonthDays)
	list("month", s.Months)
	if parts == nil {
		return "default"
	}
	return strings.Join(parts, " ")
}
