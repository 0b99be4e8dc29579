package schedule

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// field is one of the fields of cron.
type field struct {
	name     string
	low, top int
	names    string // three letters each, the first of them low
}

var (
	seconds   = field{"second", 0, 59, ""}
	minutes   = field{"minute", 0, 59, ""}
	hours     = field{"hour", 0, 23, ""}
	monthDays = field{"day of month", 1, 31, ""}
	months    = field{"month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec"}
	weekDays  = field{"day of week", 0, 7, "sunmontuewedthufrisat"}
)

var aliases = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *",
	"@weekly": "0 0 * * 0", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

func (c *Cron) parse(text string) error {
	if strings.HasPrefix(text, "@") {
		long, ok := aliases[strings.ToLower(text)]
		if !ok {
			return fmt.Errorf("unknown word; use @hourly, @daily, @weekly, @monthly, @yearly, five fields, or interval")
		}
		text = long
	}
	f := strings.Fields(text)
	switch {
	case len(f) == 5:
		f = append([]string{"0"}, f...)
	case len(f) == 7 && (f[6] == "*" || f[6] == "?"):
		f = f[:6] // Quartz's year
	case len(f) == 7:
		return fmt.Errorf("years are not supported; leave the seventh field out")
	case len(f) != 6:
		return fmt.Errorf("%d fields; write five (minute hour day-of-month month day-of-week) or six with seconds in front", len(f))
	case strings.Contains(f[3]+f[5], "?") && strings.ContainsAny(strings.Split(f[5], "#")[0], "01234567") && !strings.HasPrefix(f[5], "*"):
		return fmt.Errorf("day of week %q: with seconds and ?, this is Quartz's notation, whose day 2 is Monday and cron's Tuesday; write names, such as MON-FRI", f[5])
	}
	var err error
	for _, s := range []struct {
		set   *uint64
		field field
		text  string
	}{{&c.second, seconds, f[0]}, {&c.minute, minutes, f[1]}, {&c.hour, hours, f[2]}, {&c.month, months, f[4]}} {
		if *s.set, err = s.field.set(s.text); err != nil {
			return err
		}
	}
	c.hours = bits.OnesCount64(c.hour) == 24
	return c.day.parse(f[3], f[5])
}

// set reads a list of values, ranges and steps. A range may go around: FRI-MON.
func (f field) set(text string) (uint64, error) {
	var set uint64
	for part := range strings.SplitSeq(text, ",") {
		from, to, step, err := f.part(part)
		if err != nil {
			return 0, fmt.Errorf("%s %q: %w", f.name, part, err)
		}
		if to < from {
			to += f.top - f.low + 1
			if f.top == 7 {
				to-- // Sunday is 0 and 7
			}
		}
		for v := from; v <= to; v += step {
			n := v
			switch {
			case f.top == 7:
				n %= 7
			case n > f.top:
				n -= f.top - f.low + 1
			}
			set |= 1 << n
		}
	}
	return set, nil
}

// part reads *, ?, n, a-b, and each of them with /step.
func (f field) part(text string) (from, to, step int, err error) {
	span, by, stepped := strings.Cut(text, "/")
	step = 1
	if stepped {
		if step, err = strconv.Atoi(by); err != nil || step < 1 || step > f.top {
			return 0, 0, 0, fmt.Errorf("step %q is not a number from 1 to %d", by, f.top)
		}
	}
	top := f.top
	if top == 7 {
		top = 6
	}
	if span == "*" || span == "?" {
		return f.low, top, step, nil
	}
	a, b, ranged := strings.Cut(span, "-")
	if from, err = f.value(a); err != nil {
		return 0, 0, 0, err
	}
	switch {
	case ranged:
		to, err = f.value(b)
	case stepped: // from/step goes on to the end
		to = max(top, from)
	default:
		to = from
	}
	return from, to, step, err
}

func (f field) value(text string) (int, error) {
	if len(text) == 3 && f.names != "" {
		if i := strings.Index(f.names, strings.ToLower(text)); i >= 0 && i%3 == 0 {
			return f.low + i/3, nil
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < f.low || n > f.top || text[0] == '+' {
		also := ""
		if f.names != "" {
			also = fmt.Sprintf(" or a name such as %s", strings.ToUpper(f.names[:3]))
		}
		return 0, fmt.Errorf("%q is not a number from %d to %d%s", text, f.low, f.top, also)
	}
	return n, nil
}

// dayRule says which days of a month match.
type dayRule struct {
	month, week uint64 // days of the month, of the week (0 is Sunday)
	last        uint64 // bit n: n days before the last one
	lastWork    bool   // LW: the last day from Monday to Friday
	near        uint64 // bit n: the day from Monday to Friday that is nearest to n, within the month
	lastOf      uint64 // the last such weekday
	nth         [7]uint64
	anyM, anyW  bool // the field begins with * or ?
}

func (r *dayRule) parse(month, week string) error {
	r.anyM, r.anyW = strings.ContainsAny(month[:1], "*?"), strings.ContainsAny(week[:1], "*?")
	for part := range strings.SplitSeq(month, ",") {
		if err := r.parseMonth(strings.ToUpper(part)); err != nil {
			return fmt.Errorf("day of month %q: %w", part, err)
		}
	}
	for part := range strings.SplitSeq(week, ",") {
		if err := r.parseWeek(strings.ToUpper(part)); err != nil {
			return fmt.Errorf("day of week %q: %w", part, err)
		}
	}
	return nil
}

func (r *dayRule) parseMonth(part string) error {
	before, isLast := strings.CutPrefix(part, "L")
	near, isNear := strings.CutSuffix(part, "W")
	switch {
	case part == "LW":
		r.lastWork = true
	case part == "L":
		r.last |= 1
	case isLast:
		n, err := strconv.Atoi(strings.TrimPrefix(before, "-"))
		if err != nil || n < 1 || n > 30 || before[0] != '-' {
			return fmt.Errorf("write L for the last day, or L-1 to L-30 for days before it")
		}
		r.last |= 1 << n
	case isNear:
		n, err := monthDays.value(near)
		if err != nil {
			return err
		}
		r.near |= 1 << n
	default:
		set, err := monthDays.set(part)
		r.month |= set
		return err
	}
	return nil
}

func (r *dayRule) parseWeek(part string) error {
	if day, n, ok := strings.Cut(part, "#"); ok {
		d, err := weekDays.value(day)
		if err != nil {
			return err
		}
		k, err := strconv.Atoi(n)
		if err != nil || k < 1 || k > 5 {
			return fmt.Errorf("%q is not a number from 1 to 5", n)
		}
		r.nth[d%7] |= 1 << k
		return nil
	}
	if day, ok := strings.CutSuffix(part, "L"); ok {
		if day == "" {
			return fmt.Errorf("write SAT, or a day and L, such as FRIL for the last Friday")
		}
		d, err := weekDays.value(day)
		if err != nil {
			return err
		}
		r.lastOf |= 1 << (d % 7)
		return nil
	}
	set, err := weekDays.set(part)
	r.week |= set
	return err
}

// in is the set of the days of a month that match.
func (r *dayRule) in(y int, m time.Month) uint64 {
	n := time.Date(y, m+1, 0, 0, 0, 0, 0, time.UTC).Day()
	first := int(time.Date(y, m, 1, 0, 0, 0, 0, time.UTC).Weekday())
	weekday := func(d int) int { return (first + d - 1) % 7 }
	var ofMonth, ofWeek uint64
	for d := 1; d <= n; d++ {
		w := weekday(d)
		if r.month&(1<<d) != 0 || r.last&(1<<(n-d)) != 0 {
			ofMonth |= 1 << d
		}
		if r.near&(1<<d) != 0 {
			ofMonth |= 1 << nearest(d, n, w)
		}
		if r.week&(1<<w) != 0 || r.lastOf&(1<<w) != 0 && d+7 > n || r.nth[w]&(1<<((d+6)/7)) != 0 {
			ofWeek |= 1 << d
		}
	}
	if r.lastWork {
		ofMonth |= 1 << nearest(n, n, weekday(n))
	}
	if r.anyM || r.anyW {
		return ofMonth & ofWeek
	}
	return ofMonth | ofWeek
}

// nearest is the day from Monday to Friday nearest to day d, weekday w, of a
// month of n days, as Quartz has it: never in another month.
func nearest(d, n, w int) int {
	switch time.Weekday(w) {
	case time.Saturday:
		if d > 1 {
			return d - 1
		}
		return d + 2
	case time.Sunday:
		if d < n {
			return d + 1
		}
		return d - 2
	}
	return d
}
