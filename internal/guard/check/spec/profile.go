package spec

import (
	"cmp"
	"strconv"
	"strings"
	"time"
)

// zoneOf returns the time zone of the file that a place is in.
func (r *reader) zoneOf(at place) string { return r.zones[at.File.Name] }

func (r *reader) addCalendar(name string, def defined[Calendar]) {
	c := def.it
	c.Zone, c.Holidays = cmp.Or(c.Zone, r.zoneOf(def.at)), unique(c.Holidays)
	r.out.Calendars[name] = *c
}

// addProfile checks a profile and adds it to the File.
func (r *reader) addProfile(name string, def defined[Profile]) {
	p := def.it
	p.File, p.Line = def.at.File.Name, def.at.Line
	if r.d.Given(&p.Calendar) {
		checkNamed(r, "calendar", []*string{&p.Calendar}, r.all.Calendars.of)
	}
	if (len(p.Days) > 0) == (p.Learn != nil) {
		r.problem(def.at, "write days: with hours or intervals, or learn: {}", "profile %s has either days or learn", name)
	}
	before := r.problems.Len()
	for i := range p.Days {
		r.checkDay(name, &p.Days[i])
	}
	if p.Learn != nil {
		r.checkLearn(p.Learn, r.zoneOf(def.at))
	}
	r.out.Profiles[name] = *p
	if r.o.Profile == nil || r.problems.Len() > before {
		return
	}
	cal, ok := r.out.Calendars[p.Calendar]
	if !ok {
		cal = Calendar{Zone: r.zoneOf(def.at), Week: "iso"}
	}
	for _, found := range r.o.Profile(name, *p, cal) {
		at := place{File: def.at.File, Line: found.Line, Column: max(1, found.Column)}
		if found.Line == 0 {
			at = def.at
		}
		r.problem(at, found.Hint, "%s", found.Message)
	}
}

func (r *reader) checkDay(profile string, d *ProfileDay) {
	d.Line = r.d.Node(d).At.Line
	d.Dates, d.Weekdays = unique(d.Dates), unique(d.Weekdays)
	d.Weeks, d.MonthDays, d.Months = unique(d.Weeks), unique(d.MonthDays), unique(d.Months)
	given := 0
	for _, yes := range []bool{d.None, len(d.Hours) > 0, len(d.Intervals) > 0} {
		if yes {
			given++
		}
	}
	if given != 1 {
		r.d.Wrong(d, "write one of hours: [24 values], intervals: and none: true", "a day of profile %s says not what holds on it", profile)
	}
	if n := len(d.Hours); n > 0 && n != 24 {
		r.d.Wrong(&d.Hours[0], "one for each hour from 00:00; none where there is no threshold", "a day has 24 hours, not %d", n)
	}
	for _, h := range pointers(d.Hours) {
		r.checkHour("hours", h)
	}
	for i := range d.Intervals {
		in := &d.Intervals[i]
		r.checkHour("value", &in.Value)
		if !r.d.OK(&in.From) || !r.d.OK(&in.To) {
			continue
		}
		if in.From >= in.To {
			r.d.Wrong(&in.To, "make two of it: until 24:00, and from 00:00", "%s is not after %s", in.To, in.From)
		}
		for _, other := range d.Intervals[:i] {
			if in.From < other.To && other.From < in.To {
				r.d.Wrong(&in.From, "let one end where the other begins", "%s to %s overlaps %s to %s", in.From, in.To, other.From, other.To)
			}
		}
	}
}

// checkHour checks a number, an expression or none, and makes none of nothing.
func (r *reader) checkHour(what string, t *string) {
	if !r.d.Given(t) || *t == "" {
		*t = "none"
	}
	if *t == "none" || strings.Contains(*t, "..") { // low..middle..high, which profiles know
		return
	}
	if _, err := strconv.ParseFloat(*t, 64); err == nil {
		return
	}
	if at := macro.FindStringIndex(*t); at != nil {
		r.problem(r.d.Node(t).Within(at[0]), "write the names out, or $label in a check with each", "%s is not replaced in a profile, which belongs to no check", (*t)[at[0]:at[1]])
		return
	}
	n := *r.d.Node(t) // with examples
	for at := dollar.FindStringIndex(n.Text); at != nil; at = dollar.FindStringIndex(n.Text) {
		v, refused := intoExpression(n.Text[:at[0]], example)
		if refused != "" {
			r.problem(n.Within(at[0]), refused, "%s cannot be replaced here", n.Text[at[0]:at[1]])
			return
		}
		n.Replace(at[0], at[1]-at[0], v)
	}
	var of Of
	r.d.Read(what, "", &n, &of)
	r.checkNames(&n, of.Expr)
}

func (r *reader) checkLearn(l *Learn, zone string) {
	for _, name := range Labels(l.Selector) {
		r.d.Wrong(&l.Selector, "leave series out: then each check learns from its own values", "$%s is not replaced in learn.series", name)
	}
	if r.d.OK(&l.Over) && l.Over < 24*time.Hour {
		r.d.Wrong(&l.Over, "at least 1d", "over %s is too short", r.d.S(&l.Over))
	}
	if !(l.Low <= l.Middle && l.Middle <= l.High) {
		r.d.Wrong(l, "such as low: 5%, middle: 50%, high: 95%", "low, middle and high do not rise")
	}
	f := &l.Refresh
	f.Zone = cmp.Or(f.Zone, zone)
	if !r.d.OK(f) {
		f.Every = 24 * time.Hour
		return
	}
	if r.d.Given(&f.Every) == r.d.Given(&f.Cron) {
		r.d.Wrong(f, "write {every: 1d}, or {cron: \"15 3 * * *\"}", "refresh says either every or cron")
	}
	r.checkCron(&f.Cron, f.Schedule())
}

// checkCron asks who knows what is wrong with a line.
func (r *reader) checkCron(t *string, s Schedule) {
	if !r.d.OK(t) || r.o.Schedule == nil {
		return
	}
	if _, err := r.o.Schedule(s); err != nil {
		r.d.Wrong(t, "", "%v", err)
	}
}

var moments = []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"}

// addWindow checks a window and adds it to the File.
func (r *reader) addWindow(w *window) {
	at := r.d.Node(w).At
	checkNamed(r, "check", pointers(w.Checks), r.all.Checks.of)
	w.Zone = cmp.Or(w.Zone, r.zoneOf(at))
	zone, err := time.LoadLocation(w.Zone)
	if err != nil {
		zone = time.UTC // said already
	}
	w.Window.Start, w.Window.End = r.parseMoment(&w.Start, zone), r.parseMoment(&w.End, zone)
	switch once := r.d.Given(&w.Start) || r.d.Given(&w.End); {
	case once == r.d.Given(&w.Cron):
		r.problem(at, "write start: and end:, or cron: and duration:", "a maintenance is once or again and again")
	case once && (!r.d.Given(&w.Start) || !r.d.Given(&w.End)):
		r.problem(at, "write both start: and end:", "a maintenance begins and ends")
	case once && !w.Window.Start.IsZero() && !w.Window.End.IsZero() && !w.Window.Start.Before(w.Window.End):
		r.d.Wrong(&w.End, "", "%s is not after %s", w.End, w.Start)
	case !once && (!r.d.Given(&w.Duration) || r.d.OK(&w.Duration) && w.Duration <= 0):
		r.problem(at, "write duration: 1h", "how long does it take?")
	}
	r.checkCron(&w.Cron, Schedule{Cron: w.Cron, Zone: w.Zone})
	r.out.Maintenance = append(r.out.Maintenance, w.Window)
}

func (r *reader) parseMoment(t *string, zone *time.Location) time.Time {
	if !r.d.Given(t) {
		return time.Time{}
	}
	for _, layout := range moments {
		if at, err := time.ParseInLocation(layout, *t, zone); err == nil {
			return at
		}
	}
	r.d.Wrong(t, "write one such as 2026-12-01 22:00", "%q is not a moment", *t)
	return time.Time{}
}
