package compare

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/query"
	"tailscope/internal/weekday"
	"tailscope/stat"
)

// mostWindows is the most windows that make a side.
const mostWindows = 60

// fewestWindows are those of a side that can be judged, where sides are of several.
const fewestWindows = 3

// Repeat is a window that repeats: the same hours of several days, such as five nights.
type Repeat struct {
	Weekdays weekday.Set // on which a window begins
	// From and To are minutes of the day; a window of which To is not after From ends on
	// the next day.
	From, To int
	Count    int
	First    bool // the first Count windows from At on; else the last that end by At
	At       time.Time
}

var repeated = regexp.MustCompile(`^(\S+) (\d\d):(\d\d)-(\d\d):(\d\d) (last|first) (\d+)(?: (before|after) (.+))?$`)

var hours = regexp.MustCompile(`^\S+ +\d\d?:\d\d-\d\d?:\d\d( |$)`)

// Repeats reports whether a side is written as a window that repeats.
func Repeats(text string) bool {
	return strings.Contains(text, " last ") || strings.Contains(text, " first ") || hours.MatchString(strings.TrimSpace(text))
}

// ParseRepeat reads DAYS HH:MM-HH:MM last COUNT [before TIME], or first COUNT after TIME.
// DAYS is daily, or weekdays on which windows begin: mon-fri, sat,sun. Moment reads TIME,
// default now.
func ParseRepeat(field, text string, now time.Time, moment func(string) (time.Time, error)) (r Repeat, err error) {
	wrong := func(format string, args ...any) (Repeat, error) {
		return r, query.Invalid(field, "%s; write one such as daily 22:00-06:00 last 5 before now-7d, or mon-fri 09:00-17:00 first 5 after now-7d", fmt.Sprintf(format, args...))
	}
	m := repeated.FindStringSubmatch(strings.Join(strings.Fields(text), " "))
	if m == nil {
		return wrong("%s is not a window that repeats", quote(text))
	}
	if err := r.setWeekdays(m[1]); err != nil {
		return wrong("%v", err)
	}
	var clock [4]int
	for i := range clock {
		clock[i], _ = strconv.Atoi(m[2+i]) // two digits
	}
	if clock[0] > 23 || clock[2] > 24 || max(clock[1], clock[3]) > 59 || clock[2] == 24 && clock[3] > 0 {
		return wrong("%s:%s-%s:%s are not hours of a day", m[2], m[3], m[4], m[5])
	}
	r.From, r.To = 60*clock[0]+clock[1], 60*clock[2]+clock[3]
	if r.Count, err = strconv.Atoi(m[7]); err != nil || r.Count < 1 || r.Count > mostWindows {
		return wrong("%s windows are not between 1 and %d", m[7], mostWindows)
	}
	if r.First = m[6] == "first"; r.First != (m[8] == "after") && (r.First || m[8] != "") {
		return wrong("the last windows are before a time, the first after one")
	}
	if r.At = now; m[9] != "" {
		r.At, err = moment(m[9])
	}
	return r, err
}

// setWeekdays reads daily, mon-fri, or sat,sun.
func (r *Repeat) setWeekdays(text string) error {
	if text == "daily" {
		r.Weekdays = weekday.All
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		set, ok := weekday.ParseSet(part)
		if !ok {
			return fmt.Errorf("%s are not weekdays: daily, mon-fri and sat,sun are", quote(text))
		}
		r.Weekdays |= set
	}
	return nil
}

// Windows returns the windows that are over by now, the first one first, by the clocks of
// a zone.
func (r Repeat) Windows(zone *time.Location, now time.Time) []Window {
	y, month, d := r.At.In(zone).Date()
	on := func(day int) (w Window, ok bool) {
		begin := time.Date(y, month, d+day, 0, r.From, 0, 0, zone)
		if w = (Window{begin, time.Date(y, month, d+day, 0, r.To, 0, 0, zone)}); r.To <= r.From {
			w.End = time.Date(y, month, d+day+1, 0, r.To, 0, 0, zone)
		}
		// The day's own weekday: of an hour that clocks skip, begin may be of another.
		return w, r.Weekdays.Has(time.Date(y, month, d+day, 12, 0, 0, 0, zone).Weekday()) && w.End.After(w.Start)
	}
	var out []Window
	for i := 0; i <= 7*(mostWindows+1) && len(out) < r.Count; i++ {
		day := i
		if !r.First {
			day = -i
		}
		w, ok := on(day)
		switch {
		case !ok, r.First && w.Start.Before(r.At), !r.First && w.End.After(r.At), w.End.After(now.Add(-unfinished)):
		default:
			out = append(out, w)
		}
	}
	if !r.First {
		slices.Reverse(out)
	}
	return out
}

// severalWindows reports whether a side is made of several windows.
func (r *Request) severalWindows() bool { return len(r.WindowsA)+len(r.WindowsB) > 0 }

// checkWindows makes both sides windows where one is of several, and puts them in order.
func (r *Request) checkWindows() error {
	if !r.severalWindows() {
		return nil
	}
	switch {
	case r.Mark != "" || r.Label != "" || r.Days != 0 || r.Like != "":
		return query.Invalid("a", "several windows make the sides; leave mark, label, days and like out")
	case r.Live:
		return query.Invalid("live", "sides of several windows are not watched: leave live out")
	case r.Seconds != nil:
		return query.Invalid("a", "slots of seconds are of one window a side")
	}
	type taken struct {
		Window
		side string
	}
	var all []taken
	for _, s := range []struct {
		field   string
		windows *[]Window
		one     Window
	}{{"a", &r.WindowsA, r.A}, {"b", &r.WindowsB, r.B}} {
		if len(*s.windows) == 0 {
			if s.one.Start.IsZero() || s.one.End.IsZero() {
				return query.Invalid(s.field, "side %s is not given; write its windows as start/end,start/end or as daily 22:00-06:00 last 5", s.field)
			}
			*s.windows = []Window{s.one}
		}
		if len(*s.windows) > mostWindows {
			return query.Invalid(s.field, "side %s has %d windows, at most %d make a side", s.field, len(*s.windows), mostWindows)
		}
		*s.windows = slices.Clone(*s.windows)
		slices.SortFunc(*s.windows, func(x, y Window) int { return x.Start.Compare(y.Start) })
		for _, w := range *s.windows {
			all = append(all, taken{w, s.field})
		}
	}
	slices.SortStableFunc(all, func(x, y taken) int { return x.Start.Compare(y.Start) })
	for i := 1; i < len(all); i++ {
		if all[i].Start.Before(all[i-1].End) {
			return query.Invalid(all[i].side, "the window from %s overlaps the one before it; write windows that do not", all[i].Start.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// laid returns both sides of several windows in whole slots of the given length, window
// after window.
func (c *comparison) laid(step int64) (a, b where, err error) {
	for _, x := range []struct {
		field   string
		windows []Window
		to      *where
	}{{"a", c.WindowsA, &a}, {"b", c.WindowsB, &b}} {
		slots := 0
		for _, w := range x.windows {
			if w.Start.Unix() < 0 {
				return a, b, query.Invalid(x.field, "side %s begins before 1970; write a later time", x.field)
			}
			at := inward(Window{w.Start, c.atLatest(w.End)}, step)
			if at.end <= at.start {
				continue
			}
			n := int((at.end - at.start) / step)
			x.to.parts, x.to.windows = append(x.to.parts, part{slots, n, at.start}), append(x.to.windows, at)
			slots += n
		}
		if slots == 0 {
			return a, b, query.TooEarly(x.field, "no window of side %s holds a slot of %d s yet; write longer or earlier ones", x.field, step)
		}
		start := x.to.windows[0].start
		x.to.span = span{start, start + int64(slots)*step}
	}
	return a, b, nil
}

// several reports whether the sides are of several windows.
func (c *comparison) several() bool { return c.a != nil && c.a.windows != nil }

// blocks returns the windows of both sides as package stat takes them.
func (c *comparison) blocks() *stat.Blocks {
	if !c.several() {
		return nil
	}
	each := func(s *side) (out []int) {
		for _, p := range s.places() {
			out = append(out, p.n)
		}
		return out
	}
	return &stat.Blocks{A: each(c.a), B: each(c.b)}
}

// startOf returns when slot i of a side begins, Unix seconds.
func (s *side) startOf(i int) int64 {
	if s.windows != nil {
		for _, p := range s.parts {
			if i < p.first+p.n {
				return p.start + int64(i-p.first)*s.step
			}
		}
	}
	return s.start + int64(i)*s.step
}

// holds reports whether a moment, Unix seconds, lies within a side and not at its edge.
func (s *side) holds(at int64) bool {
	if s.windows == nil {
		return at > s.start && at < s.end
	}
	return slices.ContainsFunc(s.windows, func(w span) bool { return at > w.start && at < w.end })
}

// apiWindows returns the windows of a side for the answer, nil of a side of one range.
func (s *side) apiWindows() (out []api.Range) {
	for _, w := range s.windows {
		out = append(out, api.Range{Start: w.start, End: w.end})
	}
	return out
}

// warnWindows says which windows have nothing, and whether the sides are of other hours.
func (c *comparison) warnWindows() {
	for _, s := range []*side{c.a, c.b} {
		busy := 0
		for _, p := range s.places() {
			for i := p.first; i < p.first+p.n; i++ {
				if s.has(i) {
					busy++
					break
				}
			}
		}
		if busy < len(s.windows) {
			c.warning("days", "only %d of the %d windows of side %s have %ss", busy, len(s.windows), s.name, c.what())
		}
	}
	c.warnShort()
	for _, of := range []struct {
		what, same string
		of         func(time.Time) int
	}{
		{"begin at other hours of the day, of which a daily season may be what differs", "hours", time.Time.Hour},
		{"are of other days of the week, of which a weekly season may be what differs", "days of the week", weekend},
	} {
		seen := func(s *side) map[int]bool {
			out := map[int]bool{}
			for _, w := range s.windows {
				out[of.of(time.Unix(w.start, 0).In(c.Zone))] = true
			}
			return out
		}
		if !maps.Equal(seen(c.a), seen(c.b)) {
			c.warning("season", "the windows of the sides %s: compare the same %s", of.what, of.same)
		}
	}
}

// weekend is 1 on Saturdays and Sundays, else 0.
func weekend(t time.Time) int {
	if d := t.Weekday(); d == time.Saturday || d == time.Sunday {
		return 1
	}
	return 0
}

// warnShort says how many windows are left out since they do not hold a whole slot, and how
// many of a window that repeats there are not.
func (c *comparison) warnShort() {
	for _, x := range []struct {
		s       *side
		windows []Window
		wanted  int
	}{{c.a, c.WindowsA, c.WantedA}, {c.b, c.WindowsB, c.WantedB}} {
		if n := len(x.windows); len(x.s.windows) < n {
			c.warning("days", "%d of %s of side %s do not hold a slot of %d s: they are left out; write longer windows, or a shorter side beside them", n-len(x.s.windows), figure.Counted(n, "window"), x.s.name, c.step)
		}
		if n := len(x.windows); n < x.wanted {
			c.warning("days", "only %d of the %d windows of side %s are over", n, x.wanted, x.s.name)
		}
	}
}

// neededText says how much data would tell, in windows where sides are of several.
func neededText(f *api.CompareFigure) string {
	if f.NeededWindows > 0 {
		return figure.Counted(f.NeededWindows, "window")
	}
	return figure.Planned(float64(f.NeededSeconds))
}
