package probe

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Dates in a query, as Bischeck has them: %%yyyy-MM-dd%% is today,
// %%yy.MM.dd%[D-1]%% yesterday; units of offsets are Y, M and D. What else stands
// between per cent signs is left as it is.
var (
	dateMacro = regexp.MustCompile(`%%([yMdHms0-9 .:/_-]*[yMdHms][yMdHms0-9 .:/_-]*)(?:%\[([YMD])([+-]?[0-9]{1,5})\])?%%`)
	datePart  = regexp.MustCompile(`y+|M+|d+|H+|m+|s+`)
)

// replaceDates fills in the dates of a query, of what is the moment at.
func replaceDates(query string, at time.Time) string {
	if !strings.Contains(query, "%%") {
		return query
	}
	return dateMacro.ReplaceAllStringFunc(query, func(macro string) string {
		m := dateMacro.FindStringSubmatch(macro)
		day := at
		if m[2] != "" {
			n, err := strconv.Atoi(m[3])
			if err != nil {
				return macro
			}
			day = addUnits(at, m[2], n)
		}
		known := true
		text := datePart.ReplaceAllStringFunc(m[1], func(part string) string {
			layout, ok := dateLayouts[part]
			known = known && ok
			return day.Format(layout)
		})
		if !known {
			return macro
		}
		return text
	})
}

var dateLayouts = map[string]string{
	"yyyy": "2006", "yy": "06", "MM": "01", "M": "1", "dd": "02", "d": "2", "HH": "15", "mm": "04", "ss": "05",
}

// addUnits shifts a date by n years, months or days, by the clock on the wall. A day
// that the month lacks is its last: a month before 31 March is 28 February.
func addUnits(at time.Time, unit string, n int) time.Time {
	if unit == "D" {
		return at.AddDate(0, 0, n)
	}
	if unit == "Y" {
		n *= 12
	}
	day := at.Day()
	first := at.AddDate(0, 0, 1-day).AddDate(0, n, 0)
	last := first.AddDate(0, 1, -1).Day()
	return first.AddDate(0, 0, min(day, last)-1)
}
