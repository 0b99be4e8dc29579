package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (r *reader) calendar(name string, def defined[Calendar]) {
	r.out.Calendars[name] = Calendar{Zone: cmp.Or(def.raw.Zone, def.zone), Holidays: strs(def.raw.Holidays), Week: def.raw.Week}
}

// profile reads a threshold by the clock.
func (r *reader) profile(name string, def defined[rawProfile]) {
	raw := def.raw
	p := Profile{Calendar: raw.Calendar, File: def.at.File.Name, Line: def.at.Line}
	if r.d.Given(&raw.Calendar) {
		named(r, "calendar", []*string{&raw.Calendar}, r.calendars)
	}
	if (len(raw.Days) > 0) == (raw.Learn != nil) {
		r.problem(def.at, "write days: with hours or intervals, or learn: {}", "profile %s has either days or learn", name)
	}
	before := r.problems.Len()
	for i := range raw.Days {
		p.Days = append(p.Days, r.day(name, &raw.Days[i]))
	}
	if raw.Learn != nil {
		p.Learn = r.learn(raw.Learn, def.zone)
	}
	r.out.Profiles[name] = p
	if r.o.Profile == nil || r.problems.Len() > before {
		return
	}
	cal, ok := r.out.Calendars[p.Calendar]
	if !ok {
		cal = Calendar{Zone: def.zone, Week: "iso"}
	}
	for _, found := range r.o.Profile(name, p, cal) {
		at := place{File: def.at.File, Line: found.Line, Column: max(1, found.Column)}
		if found.Line == 0 {
			at = def.at
		}
		r.problem(at, found.Hint, "%s", found.Message)
	}
}

func (r *reader) day(profile string, raw *ProfileDay) ProfileDay {
	d := *raw
	d.Line = r.d.Node(raw).At.Line
	d.Dates, d.Weekdays = strs(d.Dates), strs(d.Weekdays)
	d.Weeks, d.MonthDays, d.Months = each(d.Weeks), each(d.MonthDays), each(d.Months)
	d.Hours, d.Intervals = nil, nil
	given := 0
	for _, yes := range []bool{d.None, len(raw.Hours) > 0, len(raw.Intervals) > 0} {
		if yes {
			given++
		}
	}
	if given != 1 {
		r.d.Wrong(raw, "write one of hours: [24 values], intervals: and none: true", "a day of profile %s says not what holds on it", profile)
	}
	if n := len(raw.Hours); n > 0 && n != 24 {
		r.d.Wrong(&raw.Hours[0], "one for each hour from 00:00; none where there is no threshold", "a day has 24 hours, not %d", n)
	}
	for _, h := range fields(raw.Hours) {
		d.Hours = append(d.Hours, r.hour(h))
	}
	for i := range raw.Intervals {
		v := &raw.Intervals[i]
		in := *v
		in.Value = r.hour(&v.Value)
		if r.d.OK(&v.From) && r.d.OK(&v.To) {
			if in.From >= in.To {
				r.d.Wrong(&v.To, "make two of it: until 24:00, and from 00:00", "%s is not after %s", in.To, in.From)
			}
			for _, other := range d.Intervals {
				if in.From < other.To && other.From < in.To {
					r.d.Wrong(&v.From, "let one end where the other begins", "%s to %s overlaps %s to %s", in.From, in.To, other.From, other.To)
				}
			}
		}
		d.Intervals = append(d.Intervals, in)
	}
	return d
}

// hour is a number, an expression or none.
func (r *reader) hour(t *string) string {
	s := *t
	if !r.d.Given(t) || s == "" || s == "none" {
		return "none"
	}
	if strings.Contains(s, "..") {
		return s // low..middle..high, which profiles know
	}
	if _, err := strconv.ParseFloat(s, 64); err != nil {
		if at := macro.FindStringIndex(s); at != nil {
			r.problem(r.d.Node(t).Within(at[0]), "write the names out, or $label in a check with each", "%s is not replaced in a profile, which belongs to no check", s[at[0]:at[1]])
			return s
		}
		n := *r.d.Node(t) // with examples
		for at := dollar.FindStringIndex(n.Text); at != nil; at = dollar.FindStringIndex(n.Text) {
			v, refused := intoExpression(n.Text[:at[0]], example)
			if refused != "" {
				r.problem(n.Within(at[0]), refused, "%s cannot be replaced here", n.Text[at[0]:at[1]])
				return s
			}
			n.Replace(at[0], at[1]-at[0], v)
		}
		r.expression(nil, &n, "value")
	}
	return s
}

func (r *reader) learn(raw *rawLearn, zone string) *Learn {
	l := &Learn{By: raw.By, Over: raw.Over, Low: raw.Low, Middle: raw.Middle, High: raw.High, Least: raw.Least,
		Refresh: Schedule{Interval: 24 * time.Hour, Zone: zone}}
	if r.d.Given(&raw.Series) {
		for _, name := range Labels(raw.Series) {
			r.d.Wrong(&raw.Series, "leave series out: then each check learns from its own values", "$%s is not replaced in learn.series", name)
		}
		if _, ok := r.selector(&raw.Series); ok {
			l.Selector = raw.Series
		}
	}
	if r.d.OK(&raw.Over) && l.Over < 24*time.Hour {
		r.d.Wrong(&raw.Over, "at least 1d", "over %s is too short", r.d.S(&raw.Over))
	}
	if !(l.Low <= l.Middle && l.Middle <= l.High) {
		r.d.Wrong(raw, "such as low: 5%, middle: 50%, high: 95%", "low, middle and high do not rise")
	}
	if f := raw.Refresh; f != nil {
		if r.d.Given(&f.Every) == r.d.Given(&f.Cron) {
			r.d.Wrong(f, "write {every: 1d}, or {cron: \"15 3 * * *\"}", "refresh says either every or cron")
		}
		l.Refresh = Schedule{Interval: f.Every, Cron: f.Cron, Zone: cmp.Or(f.Zone, zone)}
		r.cron(&f.Cron, l.Refresh)
	}
	return l
}

// cron asks who knows what is wrong with a line.
func (r *reader) cron(t *string, s Schedule) {
	if !r.d.OK(t) || r.o.Schedule == nil {
		return
	}
	if _, err := r.o.Schedule(s); err != nil {
		r.d.Wrong(t, "", "%v", err)
	}
}

// each are numbers, each of them once.
func each(numbers []int) []int {
	var out []int
	for _, n := range numbers {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

var moments = []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"}

// window reads a time in which nothing is told.
func (r *reader) window(def defined[rawWindow]) {
	raw := def.raw
	w := Window{
		Name: raw.Name, Checks: named(r, "check", fields(raw.Checks), r.checks), Match: r.matchers(&raw.Match),
		Cron: raw.Cron, Duration: raw.Duration, Zone: cmp.Or(raw.Zone, def.zone),
	}
	zone, err := time.LoadLocation(w.Zone)
	if err != nil {
		zone = time.UTC // said already
	}
	w.Start, w.End = r.moment(&raw.Start, zone), r.moment(&raw.End, zone)
	switch once := r.d.Given(&raw.Start) || r.d.Given(&raw.End); {
	case once == r.d.Given(&raw.Cron):
		r.problem(def.at, "write start: and end:, or cron: and duration:", "a maintenance is once or again and again")
	case once && (!r.d.Given(&raw.Start) || !r.d.Given(&raw.End)):
		r.problem(def.at, "write both start: and end:", "a maintenance begins and ends")
	case once && !w.Start.IsZero() && !w.End.IsZero() && !w.Start.Before(w.End):
		r.d.Wrong(&raw.End, "", "%s is not after %s", raw.End, raw.Start)
	case !once && (!r.d.Given(&raw.Duration) || r.d.OK(&raw.Duration) && w.Duration <= 0):
		r.problem(def.at, "write duration: 1h", "how long does it take?")
	}
	r.cron(&raw.Cron, Schedule{Cron: w.Cron, Zone: w.Zone})
	r.out.Maintenance = append(r.out.Maintenance, w)
}

func (r *reader) moment(t *string, zone *time.Location) time.Time {
	if !r.d.Given(t) {
		return time.Time{}
	}
	for _, layout := range moments {
		if at, err := time.ParseInLocation(layout, *t, zone); err == nil {
			return at
		}
	}
	r.d.Wrong(t, "write one such as 2026-12-01 22:00", "%s is not a moment", fmt.Sprintf("%q", *t))
	return time.Time{}
}
