package profile

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"tailscope/internal/guard/check/spec"
	"tailscope/internal/weekday"
)

// Profile returns what was learned as an operator would write it, with the name of its
// calendar. Compiling it gives the same thresholds.
func (l *Learned) Profile(calendar string, cal *Calendar) spec.Profile {
	p := spec.Profile{Calendar: calendar}
	for k := range l.Kinds {
		kind := &l.Kinds[k]
		day := spec.ProfileDay{Name: kind.Name, Hours: kind.hours(), Step: true}
		sunday := false
		for _, w := range kind.Weekdays {
			sunday = sunday || w == time.Sunday
			day.Weekdays = append(day.Weekdays, weekday.Names[w])
		}
		if len(l.Kinds) == 1 {
			day.Weekdays = nil
		}
		p.Days = append(p.Days, day)
		if sunday && len(l.Kinds) > 1 && cal != nil && len(cal.holidays) > 0 {
			day.Name, day.Weekdays, day.Holiday = "holidays", nil, true
			p.Days = append(p.Days, day)
		}
	}
	return p
}

// hours prints the bands of a kind, none where there were too few samples.
func (k *Kind) hours() []string {
	texts := make([]string, 24)
	for i, h := range k.Hours {
		texts[i] = "none"
		if !h.None {
			low, high := outward(h.Low, -1), outward(h.High, 1)
			middle := min(max(outward(h.Middle, 0), low), high)
			texts[i] = number(low) + ".." + number(middle) + ".." + number(high)
		}
	}
	return texts
}

// outward rounds to four digits: down if toward is -1, up if it is 1, so that a
// printed band still holds what the band held.
func outward(v float64, toward int) float64 {
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', 3, 64), "e")
	r := parse(mantissa + "e" + exponent)
	if r > v && toward < 0 || r < v && toward > 0 {
		n, _ := strconv.Atoi(strings.Replace(mantissa, ".", "", 1))
		e, _ := strconv.Atoi(exponent)
		r = parse(fmt.Sprintf("%de%d", n+toward, e-3))
	}
	return r
}

func parse(s string) float64 {
	v, _ := strconv.ParseFloat(s, 64) // digits that we printed
	return v
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// YAML prints what p has learned for a file of checks: put there in the place of p
// it holds the same thresholds for ever, and may be edited.
func (l *Learned) YAML(p *Profile) string {
	var b strings.Builder
	clock := func(t time.Time) string { return t.In(p.cal.Zone()).Format("2006-01-02 15:04") }
	fmt.Fprintf(&b, "# Learned from %s to %s: quantiles %g, %g and %g of each hour, low..middle..high.\n",
		clock(l.At.Add(-time.Duration(l.Over*float64(time.Second)))), clock(l.At), l.Low, l.Mid, l.High)
	b.WriteString("profiles:\n  " + strconv.Quote(p.name) + ":\n")
	if p.calendar != "" {
		b.WriteString("    calendar: " + strconv.Quote(p.calendar) + "\n")
	}
	b.WriteString("    days:\n")
	for _, d := range l.Profile(p.calendar, p.cal).Days {
		fmt.Fprintf(&b, "      - name: %s\n", d.Name)
		if d.Holiday {
			b.WriteString("        holiday: true\n")
		}
		if d.Weekdays != nil {
			fmt.Fprintf(&b, "        weekdays: [%s]\n", strings.Join(d.Weekdays, ", "))
		}
		b.WriteString("        step: true\n        hours:\n")
		for h, text := range d.Hours {
			fmt.Fprintf(&b, "          - %-28s # %02d:00\n", text, h)
		}
	}
	return b.String()
}
