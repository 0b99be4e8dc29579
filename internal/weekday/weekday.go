// Package weekday reads the days of the week as people write them in checks and windows.
package weekday

import (
	"strings"
	"time"
)

// Names are the short names, from Sunday on as time.Weekday counts.
var Names = [7]string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// Set is a set of days of the week: bit n is time.Weekday(n).
type Set uint8

// All has every day.
const All Set = 1<<7 - 1

// Has reports whether d is in the set.
func (s Set) Has(d time.Weekday) bool { return s&(1<<d) != 0 }

// Parse reads mon or monday, in any case.
func Parse(text string) (time.Weekday, bool) {
	text = strings.ToLower(strings.TrimSpace(text))
	for i, name := range Names {
		if text == name || text == strings.ToLower(time.Weekday(i).String()) {
			return time.Weekday(i), true
		}
	}
	return 0, false
}

// ParseSet reads a day, or a range such as mon-fri or fri-mon, which goes around.
func ParseSet(text string) (Set, bool) {
	a, b, ranged := strings.Cut(text, "-")
	from, ok := Parse(a)
	if !ok {
		return 0, false
	}
	to := from
	if ranged {
		if to, ok = Parse(b); !ok {
			return 0, false
		}
	}
	set := Set(1 << from)
	for d := from; d != to; {
		d = (d + 1) % 7
		set |= 1 << d
	}
	return set, true
}
