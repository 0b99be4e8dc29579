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
	r.out.Calendars[name] = Calendar{Zone: raw.Zone.Or(def.zone), Holidays: strs(raw.Holidays), Week: raw.Week.Or("iso")}
}

// profile reads a threshold by the clock.
func (r *reader) profile(name string, def defined[rawProfile]) {
	raw := def.raw
	p := Profile{Calendar: raw.Calendar.S(), File: def.at.File.Name, Line: def.at.Line}
	if raw.Calendar.Given() {
		named(r, "calendar", []text{raw.Calendar}, r.calendars)
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

func (r *reader) day(profile string, raw *rawDay) ProfileDay {
	d := ProfileDay{
		Name: raw.Name.S(), Holiday: raw.Holiday.Bool, Dates: strs(raw.Dates), Weekdays: strs(raw.Weekdays),
		Weeks: ints(raw.Weeks), MonthDays: ints(raw.MonthDays), Months: ints(raw.Months),
		None: raw.None.Bool, Step: raw.Step.Bool, Line: raw.Node.At.Line,
	}
	given := 0
	for _, yes := range []bool{d.None, len(raw.Hours) > 0, len(raw.Intervals) > 0} {
		if yes {
			given++
		}
	}
	if given != 1 {
		r.problem(raw.Node.At, "write one of hours: [24 values], intervals: and none: true", "a day of profile %s says not what holds on it", profile)
	}
	if n := len(raw.Hours); n > 0 && n != 24 {
		r.problem(raw.Hours[0].Node.At, "one for each hour from 00:00; none where there is no threshold", "a day has 24 hours, not %d", n)
	}
	for _, h := range raw.Hours {
		d.Hours = append(d.Hours, r.hour(h))
	}
	for i := range raw.Intervals {
		v := &raw.Intervals[i]
		in := Interval{From: v.From.S(), To: v.To.S(), Value: r.hour(v.Value), Warning: distance(v.Warning), Critical: distance(v.Critical)}
		if v.From.OK && v.To.OK {
			if in.From >= in.To {
				r.problem(v.To.Node.At, "make two of it: until 24:00, and from 00:00", "%s is not after %s", in.To, in.From)
			}
			for _, other := range d.Intervals {
				if in.From < other.To && other.From < in.To {
					r.problem(v.From.Node.At, "let one end where the other begins", "%s to %s overlaps %s to %s", in.From, in.To, other.From, other.To)
				}
			}
		}
		d.Intervals = append(d.Intervals, in)
	}
	return d
}

// hour is a number, an expression or none.
func (r *reader) hour(t text) string {
	s := t.S()
	if !t.Given() || s == "" || s == "none" {
		return "none"
	}
	if strings.Contains(s, "..") {
		return s // low..middle..high, which profiles know
	}
	if _, err := strconv.ParseFloat(s, 64); err != nil {
		if at := macro.FindStringIndex(s); at != nil {
			r.problem(t.Node.Within(at[0]), "write the names out, or $label in a check with each", "%s is not replaced in a profile, which belongs to no check", s[at[0]:at[1]])
			return s
		}
		n := *t.Node // with examples
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
	l := &Learn{By: raw.By.Or("weekday"), Over: 28 * 24 * time.Hour, Low: 0.05, Middle: 0.5, High: 0.95, Least: 20,
		Refresh: Schedule{Interval: 24 * time.Hour, Zone: zone}}
	if raw.Series.Given() {
		for _, name := range Labels(raw.Series.S()) {
			r.problem(raw.Series.Node.At, "leave series out: then each check learns from its own values", "$%s is not replaced in learn.series", name)
		}
		if _, ok := r.selector(raw.Series); ok {
			l.Selector = raw.Series.S()
		}
	}
	if raw.Over.OK {
		if l.Over = raw.Over.Duration; l.Over < 24*time.Hour {
			r.problem(raw.Over.Node.At, "at least 1d", "over %s is too short", raw.Over.S())
		}
	}
	for t, p := range map[*text]*float64{&raw.Low: &l.Low, &raw.Middle: &l.Middle, &raw.High: &l.High} {
		if t.OK {
			*p = t.Number
		}
	}
	if !(l.Low <= l.Middle && l.Middle <= l.High) {
		r.problem(raw.Node.At, "such as low: 5%, middle: 50%, high: 95%", "low, middle and high do not rise")
	}
	if raw.Least.OK {
		l.Least = int(raw.Least.Int)
	}
	if f := raw.Refresh; f != nil {
		if f.Every.Given() == f.Cron.Given() {
			r.problem(f.Node.At, "write {every: 1d}, or {cron: \"15 3 * * *\"}", "refresh says either every or cron")
		}
		l.Refresh = Schedule{Interval: f.Every.Duration, Cron: f.Cron.S(), Zone: f.Zone.Or(zone)}
		r.cron(f.Cron, l.Refresh)
	}
	return l
}

// cron asks who knows what is wrong with a line.
func (r *reader) cron(t text, s Schedule) {
	if !t.OK || r.o.Schedule == nil {
		return
	}
	if _, err := r.o.Schedule(s); err != nil {
		r.problem(t.Node.At, "", "%v", err)
	}
}

func ints(texts []text) []int {
	var out []int
	for _, t := range texts {
		if t.OK && !slices.Contains(out, int(t.Int)) {
			out = append(out, int(t.Int))
		}
	}
	return out
}

var moments = []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"}

// window reads a time in which nothing is told.
func (r *reader) window(def defined[rawWindow]) {
	raw := def.raw
	w := Window{
		Name: raw.Name.S(), Checks: named(r, "check", raw.Checks, r.checks), Match: r.matchers(raw.Match),
		Cron: raw.Cron.S(), Duration: raw.Duration.Duration, Zone: raw.Zone.Or(def.zone),
	}
	zone, err := time.LoadLocation(w.Zone)
	if err != nil {
		zone = time.UTC // said already
	}
	w.Start, w.End = r.moment(raw.Start, zone), r.moment(raw.End, zone)
	switch once := raw.Start.Given() || raw.End.Given(); {
	case once == raw.Cron.Given():
		r.problem(def.at, "write start: and end:, or cron: and duration:", "a maintenance is once or again and again")
	case once && (!raw.Start.Given() || !raw.End.Given()):
		r.problem(def.at, "write both start: and end:", "a maintenance begins and ends")
	case once && !w.Start.IsZero() && !w.End.IsZero() && !w.Start.Before(w.End):
		r.problem(raw.End.Node.At, "", "%s is not after %s", raw.End.S(), raw.Start.S())
	case !once && (!raw.Duration.Given() || raw.Duration.OK && w.Duration <= 0):
		r.problem(def.at, "write duration: 1h", "how long does it take?")
	}
	r.cron(raw.Cron, Schedule{Cron: w.Cron, Zone: w.Zone})
	r.out.Maintenance = append(r.out.Maintenance, w)
}

func (r *reader) moment(t text, zone *time.Location) time.Time {
	if !t.Given() {
		return time.Time{}
	}
	for _, layout := range moments {
		if at, err := time.ParseInLocation(layout, t.S(), zone); err == nil {
			return at
		}
	}
	r.problem(t.Node.At, "write one such as 2026-12-01 22:00", "%s is not a moment", fmt.Sprintf("%q", t.S()))
	return time.Time{}
}
