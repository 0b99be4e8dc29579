package profile

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"tailscope/internal/guard/check/expr"
	"tailscope/internal/guard/check/spec"
)

// slot is an interval of a day, or the time between two.
type slot struct {
	value
	from, to          int // minutes of the day, [from, to)
	warning, critical *spec.Distance
	text              string
}

// slot is the one that holds what the clock shows at t.
func (r *rule) slot(t time.Time) *slot { return &r.slots[r.find(t.Hour()*60+t.Minute())] }

func (r *rule) find(minute int) int {
	for i := range r.slots {
		if minute < r.slots[i].to {
			return i
		}
	}
	return len(r.slots) - 1
}

// compiler gathers what is wrong, so that all of it is said at once.
type compiler struct {
	p            *Profile
	parse        func(string, int) (*expr.Program, error)
	errs         []error
	bands, plain int
	series       map[string]string // whose labels stand for $label; nil for examples
	labels       bool              // some expression has a $label
}

func (c *compiler) wrong(line int, hint, format string, args ...any) {
	c.errs = append(c.errs, &Error{line, fmt.Sprintf(format, args...), hint})
}

func (c *compiler) day(s spec.ProfileDay) {
	var r rule
	c.errs = append(c.errs, r.when(s)...)
	given := 0
	for _, b := range []bool{s.None, s.Hours != nil, s.Intervals != nil} {
		if b {
			given++
		}
	}
	switch {
	case given != 1:
		c.wrong(s.Line, "give one of them", "day %s has %d of none, hours and intervals", r.name, given)
		return
	case s.Step && s.Hours == nil:
		c.wrong(s.Line, "leave step out", "day %s: step belongs to hours", r.name)
	case s.Hours != nil:
		c.hours(&r, s)
	default:
		c.intervals(&r, s)
	}
	c.p.rules = append(c.p.rules, r)
}

func (c *compiler) hours(r *rule, s spec.ProfileDay) {
	if len(s.Hours) != 24 {
		c.wrong(s.Line, "list one value for each hour from 00:00 on, none where there is none", "day %s has %d hours, not 24", r.name, len(s.Hours))
		return
	}
	r.hours, r.step = new([24]value), s.Step
	for h, text := range s.Hours {
		r.hours[h] = c.value(text, s.Line, fmt.Sprintf("day %s, %02d:00", r.name, h))
		r.texts[h] = c.text(r, h*60, h*60+60)
	}
}

func (c *compiler) intervals(r *rule, s spec.ProfileDay) {
	var slots []slot
	for _, i := range s.Intervals {
		from, ok1 := parseClock(i.From)
		to, ok2 := parseClock(i.To)
		where := fmt.Sprintf("day %s, interval %s to %s", r.name, i.From, i.To)
		switch {
		case !ok1 || !ok2:
			c.wrong(s.Line, "write times such as 09:00, up to 24:00", "%s is not two times of the day", where)
		case from >= to:
			c.wrong(s.Line, "end it at 24:00 and begin another at 00:00, of the day that it shall count to", "%s does not end after it begins", where)
		default:
			slots = append(slots, slot{value: c.value(i.Value, s.Line, where), from: from, to: to,
				warning: i.Warning, critical: i.Critical, text: c.text(r, from, to)})
		}
	}
	slices.SortStableFunc(slots, func(a, b slot) int { return a.from - b.from })
	at := 0
	gap := func(to int) {
		if to > at {
			r.slots = append(r.slots, slot{value: nothing, from: at, to: to, text: c.text(r, at, to)})
		}
	}
	for _, x := range slots {
		if x.from < at {
			last := r.slots[len(r.slots)-1]
			c.wrong(s.Line, "let one end where the other begins", "day %s: intervals %s and %s overlap", r.name, span(last.from, last.to), span(x.from, x.to))
			continue
		}
		gap(x.from)
		r.slots = append(r.slots, x)
		at = x.to
	}
	gap(24 * 60)
}

func (c *compiler) text(r *rule, from, to int) string {
	return fmt.Sprintf("profile %s, %s, %s", c.p.name, r.name, span(from, to))
}

func span(from, to int) string {
	return fmt.Sprintf("%02d:%02d–%02d:%02d", from/60, from%60, to/60, to%60)
}

// value reads a number, none, low..middle..high, or an expression.
func (c *compiler) value(text string, line int, where string) value {
	text = strings.TrimSpace(text)
	if text == "none" || text == "null" || text == "" {
		return nothing
	}
	if parts := strings.Split(text, ".."); len(parts) == 3 {
		if n, ok := numbers(parts); ok {
			if !(n[0] <= n[1] && n[1] <= n[2]) {
				c.wrong(line, "write low..middle..high, rising", "%s: the band %s does not rise", where, text)
			}
			c.bands++
			return value{Quantity{Number: n[1]}, n[0], n[2]}
		}
	}
	c.plain++
	v := value{low: math.NaN(), high: math.NaN()}
	if n, ok := numbers([]string{text}); ok {
		v.Number = n[0]
		return v
	}
	var err error
	c.labels = c.labels || len(spec.Labels(text)) > 0
	if c.parse == nil {
		c.wrong(line, "write a number", "%s: %q is not a number", where, text)
	} else if text, err = spec.Fill(text, c.series); err != nil {
		c.wrong(line, "", "%s: %v", where, err)
	} else if v.Program, err = c.parse(text, line); err != nil {
		c.errs = append(c.errs, fmt.Errorf("%s: %w", where, err))
	}
	return v
}

// numbers reads finite numbers.
func numbers(texts []string) (n []float64, ok bool) {
	for _, t := range texts {
		v, err := strconv.ParseFloat(strings.TrimSpace(t), 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, false
		}
		n = append(n, v)
	}
	return n, true
}

// parseClock reads 9:00 or 09:00 to 24:00, as minutes of the day.
func parseClock(s string) (int, bool) {
	h, m, ok := strings.Cut(strings.TrimSpace(s), ":")
	hour, err := strconv.ParseUint(h, 10, 8)
	mins, err2 := strconv.ParseUint(m, 10, 8)
	if !ok || err != nil || err2 != nil || len(m) != 2 || mins > 59 || hour > 24 || hour == 24 && mins > 0 {
		return 0, false
	}
	return int(hour*60 + mins), true
}
