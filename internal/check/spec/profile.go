package spec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (r *reader) calendar(name string, def defined[rawCalendar]) {
	raw := def.raw
	r.out.Calendars[name] = Calendar{Zone: raw.Zone.or(def.zone), Holidays: strs(raw.Holidays), Week: raw.Week.or("iso")}
}

// profile reads a threshold by the clock.
func (r *reader) profile(name string, def defined[rawProfile]) {
	raw := def.raw
	p := Profile{Calendar: raw.Calendar.s(), File: def.at.file.name, Line: def.at.line}
	if raw.Calendar.given() {
		named(r, "calendar", []text{raw.Calendar}, r.calendars)
	}
	if (len(raw.Days) > 0) == (raw.Learn != nil) {
		r.problem(def.at, "write days: with hours or intervals, or learn: {}", "profile %s has either days or learn", name)
	}
	before := len(r.problems)
	for i := range raw.Days {
		p.Days = append(p.Days, r.day(name, &raw.Days[i]))
	}
	if raw.Learn != nil {
		p.Learn = r.learn(raw.Learn, def.zone)
	}
	r.out.Profiles[name] = p
	if r.o.Profile == nil || len(r.problems) > before {
		return
	}
	cal, ok := r.out.Calendars[p.Calendar]
	if !ok {
		cal = Calendar{Zone: def.zone, Week: "iso"}
	}
	for _, found := range r.o.Profile(name, p, cal) {
		at := place{file: def.at.file, line: found.Line, column: max(1, found.Column)}
		if found.Line == 0 {
			at = def.at
		}
		r.problem(at, found.Hint, "%s", found.Message)
	}
}

func (r *reader) day(profile string, raw *rawDay) ProfileDay {
	d := ProfileDay{
		Name: raw.Name.s(), Holiday: raw.Holiday.b, Dates: strs(raw.Dates), Weekdays: strs(raw.Weekdays),
		Weeks: ints(raw.Weeks), MonthDays: ints(raw.MonthDays), Months: ints(raw.Months),
		None: raw.None.b, Step: raw.Step.b, Line: raw.Node.at.line,
	}
	given := 0
	for _, yes := range []bool{d.None, len(raw.Hours) > 0, len(raw.Intervals) > 0} {
		if yes {
			given++
		}
	}
	if given != 1 {
		r.problem(raw.Node.at, "write one of hours: [24 values], intervals: and none: true", "a day of profile %s says not what holds on it", profile)
	}
	if n := len(raw.Hours); n > 0 && n != 24 {
		r.problem(raw.Hours[0].n.at, "one for each hour from 00:00; none where there is no threshold", "a day has 24 hours, not %d", n)
	}
	for _, h := range raw.Hours {
		d.Hours = append(d.Hours, r.hour(h))
	}
	for i := range raw.Intervals {
		v := &raw.Intervals[i]
		in := Interval{From: v.From.s(), To: v.To.s(), Value: r.hour(v.Value), Warning: distance(v.Warning), Critical: distance(v.Critical)}
		if v.From.ok && v.To.ok {
			if in.From >= in.To {
				r.problem(v.To.n.at, "make two of it: until 24:00, and from 00:00", "%s is not after %s", in.To, in.From)
			}
			for _, other := range d.Intervals {
				if in.From < other.To && other.From < in.To {
					r.problem(v.From.n.at, "let one end where the other begins", "%s to %s overlaps %s to %s", in.From, in.To, other.From, other.To)
				}
			}
		}
		d.Intervals = append(d.Intervals, in)
	}
	return d
}

// hour is a number, an expression or none.
func (r *reader) hour(t text) string {
	s := t.s()
	if !t.given() || s == "" || s == "none" {
		return "none"
	}
	if strings.Contains(s, "..") {
		return s // low..middle..high, which profiles know
	}
	if _, err := strconv.ParseFloat(s, 64); err != nil {
		if at := macro.FindStringIndex(s); at != nil {
			r.problem(t.n.within(at[0]), "write the names out, or $label in a check with each", "%s is not replaced in a profile, which belongs to no check", s[at[0]:at[1]])
			return s
		}
		n := *t.n // with examples
		for at := dollar.FindStringIndex(n.text); at != nil; at = dollar.FindStringIndex(n.text) {
			v, refused := intoExpression(n.text[:at[0]], example)
			if refused != "" {
				r.problem(n.within(at[0]), refused, "%s cannot be replaced here", n.text[at[0]:at[1]])
				return s
			}
			n.replace(at[0], at[1]-at[0], v)
		}
		r.expression(nil, &n, "value")
	}
	return s
}

func (r *reader) learn(raw *rawLearn, zone string) *Learn {
	l := &Learn{By: raw.By.or("weekday"), Over: 28 * 24 * time.Hour, Low: 0.05, Middle: 0.5, High: 0.95, Least: 20,
		Refresh: Schedule{Interval: 24 * time.Hour, Zone: zone}}
	if raw.Series.given() {
		for _, name := range Labels(raw.Series.s()) {
			r.problem(raw.Series.n.at, "leave series out: then each check learns from its own values", "$%s is not replaced in learn.series", name)
		}
		if _, ok := r.selector(raw.Series); ok {
			l.Selector = raw.Series.s()
		}
	}
	if raw.Over.ok {
		if l.Over = raw.Over.d; l.Over < 24*time.Hour {
			r.problem(raw.Over.n.at, "at least 1d", "over %s is too short", raw.Over.s())
		}
	}
	for t, p := range map[*text]*float64{&raw.Low: &l.Low, &raw.Middle: &l.Middle, &raw.High: &l.High} {
		if t.ok {
			*p = t.f
		}
	}
	if !(l.Low <= l.Middle && l.Middle <= l.High) {
		r.problem(raw.Node.at, "such as low: 5%, middle: 50%, high: 95%", "low, middle and high do not rise")
	}
	if raw.Least.ok {
		l.Least = int(raw.Least.i)
	}
	if f := raw.Refresh; f != nil {
		if f.Every.given() == f.Cron.given() {
			r.problem(f.Node.at, "write {every: 1d}, or {cron: \"15 3 * * *\"}", "refresh says either every or cron")
		}
		l.Refresh = Schedule{Interval: f.Every.d, Cron: f.Cron.s(), Zone: f.Zone.or(zone)}
		r.cron(f.Cron, l.Refresh)
	}
	return l
}

// cron asks who knows what is wrong with a line.
func (r *reader) cron(t text, s Schedule) {
	if !t.ok || r.o.Schedule == nil {
		return
	}
	if _, err := r.o.Schedule(s); err != nil {
		r.problem(t.n.at, "", "%v", err)
	}
}

func ints(texts []text) []int {
	var out []int
	for _, t := range texts {
		if t.ok && !slices.Contains(out, int(t.i)) {
			out = append(out, int(t.i))
		}
	}
	return out
}

var moments = []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"}

// window reads a time in which nothing is told.
func (r *reader) window(def defined[rawWindow]) {
	raw := def.raw
	w := Window{
		Name: raw.Name.s(), Checks: named(r, "check", raw.Checks, r.checks), Match: r.matchers(raw.Match),
		Cron: raw.Cron.s(), Duration: raw.Duration.d, Zone: raw.Zone.or(def.zone),
	}
	zone, err := time.LoadLocation(w.Zone)
	if err != nil {
		zone = time.UTC // said already
	}
	w.Start, w.End = r.moment(raw.Start, zone), r.moment(raw.End, zone)
	switch once := raw.Start.given() || raw.End.given(); {
	case once == raw.Cron.given():
		r.problem(def.at, "write start: and end:, or cron: and duration:", "a maintenance is once or again and again")
	case once && (!raw.Start.given() || !raw.End.given()):
		r.problem(def.at, "write both start: and end:", "a maintenance begins and ends")
	case once && !w.Start.IsZero() && !w.End.IsZero() && !w.Start.Before(w.End):
		r.problem(raw.End.n.at, "", "%s is not after %s", raw.End.s(), raw.Start.s())
	case !once && (!raw.Duration.given() || raw.Duration.ok && w.Duration <= 0):
		r.problem(def.at, "write duration: 1h", "how long does it take?")
	}
	r.cron(raw.Cron, Schedule{Cron: w.Cron, Zone: w.Zone})
	r.out.Maintenance = append(r.out.Maintenance, w)
}

func (r *reader) moment(t text, zone *time.Location) time.Time {
	if !t.given() {
		return time.Time{}
	}
	for _, layout := range moments {
		if at, err := time.ParseInLocation(layout, t.s(), zone); err == nil {
			return at
		}
	}
	r.problem(t.n.at, "write one such as 2026-12-01 22:00", "%s is no moment", fmt.Sprintf("%q", t.s()))
	return time.Time{}
}
