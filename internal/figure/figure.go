// Package figure writes figures as text: counts, digits, shares, durations, and the
// sentences that begin with one. All text output uses it, so that a figure reads the
// same everywhere.
package figure

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// Whole is the constraint of whole numbers that Thousands accepts.
type Whole interface{ ~int | ~int64 | ~uint64 }

// Thousands writes n with a comma after every third digit: 86,400,000.
func Thousands[N Whole](n N) string { return group(fmt.Sprint(n)) }

// Rounded writes v rounded to a whole number, as Thousands does.
func Rounded(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return unfinished(v)
	}
	return group(fixed(v, 0))
}

// group separates the digits of a whole number into threes by commas.
func group(s string) string {
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return strings.Replace(s, "-", "−", 1)
}

// fixed writes a finite v with so many digits behind the point. Halves are rounded away from zero,
// as JavaScript does: 2.25 is 2.3.
func fixed(v float64, digits int) string { return new(big.Rat).SetFloat64(v).FloatString(digits) }

// unfinished writes what is not a finite number: ∞, −∞, and - for NaN.
func unfinished(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case v < 0:
		return "−∞"
	}
	return "∞"
}

// Counted writes a count and its noun: 1 trace, 1,200 requests.
func Counted[N Whole](n N, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return Thousands(n) + " " + thing
}

// TwoDigits writes two significant digits, and from 9.95 on a whole number: 0.04, 4.1,
// 62. It does not write the sign of infinity.
func TwoDigits(v float64) string {
	switch a := math.Abs(v); {
	case math.IsInf(v, 0):
		return "∞"
	case a >= 9.95 || a == 0:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 0.095:
		return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
	}
	return strconv.FormatFloat(v, 'g', 1, 64)
}

// Digits writes two significant digits, or all before the point: 0.037, 4.1, 62. Just
// below 100 it keeps the digit that separates 99.9 from 100. It returns "" for NaN and
// infinities.
func Digits(v float64) string {
	a := math.Abs(v)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return ""
	case a < 1e-6:
		return "0"
	case a >= 9.95:
		if a < 99.95 && math.Abs(v-math.Round(v)) > 0.0499 && a > 99 {
			return strconv.FormatFloat(v, 'f', 1, 64)
		}
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	s := strconv.FormatFloat(v, 'f', 1-int(math.Floor(math.Log10(a))), 64)
	return strings.TrimRight(strings.TrimRight(s, "0"), ".")
}

// Percent writes a share as Digits of a hundred: 5 %. It writes NaN and infinities as -.
func Percent(share float64) string {
	if d := Digits(100 * share); d != "" {
		return d + " %"
	}
	return "-"
}

// ThreeDigits writes three significant digits, zeros at the end included, and whole
// numbers from 1000 on in groups of three: 0.0372, 4.18, 60.0, 1,234, and 2.00 G from 10⁹ on.
// It writes 0 as 0. The page's digits does the same.
func ThreeDigits(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return unfinished(v)
	case v < 0:
		return "−" + ThreeDigits(-v)
	case v == 0:
		return "0"
	case v >= short:
		return scaled(v, large)
	case v >= 99.95:
		return Rounded(v)
	case v < 1e-6:
		return power(v)
	}
	return fixed(v, 2-exponent(v))
}

// From short on a number is not written in full.
const short = 999_999_999.5

// power writes three digits of v and a power of ten, without zeros before its exponent: 1.00e-7.
func power(v float64) string {
	return strings.NewReplacer("e-0", "e-", "e+0", "e+").Replace(strconv.FormatFloat(v, 'e', 2, 64))
}

// exponent returns the power of ten of v > 0 once it is rounded to three digits.
func exponent(v float64) int {
	_, e, _ := strings.Cut(strconv.FormatFloat(v, 'e', 2, 64), "e")
	n, _ := strconv.Atoi(e)
	return n
}

// A scale is a unit and how much of it is written in the next larger one.
type scale struct {
	of   float64
	name string
	end  float64
}

var (
	times = []scale{{1e-9, "ns", 1000}, {1e-6, "µs", 1000}, {1e-3, "ms", 1000}, {1, "s", 1000}, {60, "min", 120}, {3600, "h", 48}, {86400, "d", math.Inf(1)}}
	large = []scale{{1e9, "G", 1000}, {1e12, "T", 1000}}
	sizes = []scale{{1, "B", 1000}, {1e3, "kB", 1000}, {1e6, "MB", 1000}, {1e9, "GB", 1000}, {1e12, "TB", math.Inf(1)}}
)

// Value writes a measured value of a unit, "seconds", "bytes" or empty, with three
// significant digits: 850 µs, 12.3 ms, 1.00 s, 25.8 h, 4.10 kB, and whole bytes, 12 B.
// The page's value does the same.
func Value(v float64, unit string) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return unfinished(v)
	case unit == "seconds" && v == 0:
		return "0 s"
	case unit == "seconds":
		return scaled(v, times)
	case unit == "bytes" && math.Abs(v) < 1000 && v == math.Trunc(v):
		return Rounded(v) + " B"
	case unit == "bytes":
		return scaled(v, sizes)
	}
	return ThreeDigits(v)
}

func scaled(v float64, by []scale) string {
	a := math.Abs(v)
	for _, s := range by {
		if rounded, _ := strconv.ParseFloat(strconv.FormatFloat(a/s.of, 'g', 3, 64), 64); rounded < s.end {
			return ThreeDigits(v/s.of) + " " + s.name
		}
	}
	return power(v)
}

// Seconds writes Value of seconds.
func Seconds(v float64) string { return Value(v, "seconds") }

// Tick writes Value of seconds for an axis, without zeros at the end: 100 ms, 1 s.
func Tick(seconds float64) string {
	n, unit, known := strings.Cut(Seconds(seconds), " ")
	if !known {
		return n
	}
	if strings.Contains(n, ".") {
		n = strings.TrimSuffix(strings.TrimRight(n, "0"), ".")
	}
	return n + " " + unit
}

// UnitOf returns what a check's name of a unit means: "seconds" of s, second and seconds, "bytes" of
// B, byte and bytes, and "ratio". It is empty of any other, which stands behind the number.
func UnitOf(name string) string {
	switch name {
	case "s", "second", "seconds":
		return "seconds"
	case "B", "byte", "bytes":
		return "bytes"
	case "ratio":
		return "ratio"
	}
	return ""
}

// PluginUnit returns a check's unit as performance data of Nagios has it, empty if it has none such.
// https://nagios-plugins.org/doc/guidelines.html#AEN200
func PluginUnit(name string) string {
	switch UnitOf(name) {
	case "seconds":
		return "s"
	case "bytes":
		return "B"
	}
	switch name {
	case "us", "ms", "%", "KB", "MB", "GB", "TB", "c":
		return name
	}
	return ""
}

// Quantity writes a value with the unit that its check gives it: of s and B as Value
// does, a ratio in per cent, and any other behind the number: 84.8/s, 12 %, 3 orders. The
// page's amount does the same.
func Quantity(v float64, unit string) string {
	switch of := UnitOf(unit); of {
	case "seconds", "bytes":
		return Value(v, of)
	case "ratio":
		return Ratio(v)
	}
	text := ThreeDigits(v)
	if v == math.Trunc(v) && math.Abs(v) < short {
		text = Rounded(v)
	}
	if unit == "" || strings.HasPrefix(unit, "/") {
		return text + unit
	}
	return text + " " + unit
}

// Ratio writes a measured share in per cent, of which a tenth is a lot: 0.12 %, 3.4 %. Something never
// reads as nothing. The page's errorRatio does the same.
func Ratio(share float64) string {
	p := 100 * share
	switch {
	case math.IsNaN(p) || math.IsInf(p, 0):
		return unfinished(p)
	case p < 0:
		return strings.Replace("−"+Ratio(-share), "−< ", "> −", 1)
	case p == 0:
		return "0 %"
	case p < 0.005:
		return "< 0.01 %"
	case p < 0.995:
		return fixed(p, 2) + " %"
	}
	return fixed(p, 1) + " %"
}

// Span writes a length of time up to two minutes in seconds, then in minutes, from two hours on in
// hours and from two days on in days: 10 s, 4.2 min, 100 min, 2.5 h, 3 d. The page's lasting does
// the same.
func Span(seconds float64) string {
	of := func(unit float64, name string) string {
		return strings.TrimSuffix(fixed(seconds/unit, 1), ".0") + " " + name
	}
	switch {
	case math.IsNaN(seconds) || math.IsInf(seconds, 0):
		return unfinished(seconds)
	case seconds < 0:
		return "−" + Span(-seconds)
	case seconds < 1:
		return Value(seconds, "seconds")
	case seconds < 10:
		return of(1, "s")
	case seconds <= 120:
		return Rounded(seconds) + " s"
	case seconds < 119.95*60:
		return of(60, "min")
	case seconds < 47.95*3600:
		return of(3600, "h")
	}
	return of(86400, "d")
}

// Percentile writes a quantile as a percentile: p99 of 0.99, p99.9 of 0.999.
func Percentile(q float64) string {
	return "p" + strconv.FormatFloat(math.Round(q*1e8)/1e6, 'f', -1, 64)
}

// Listed joins words as a sentence does: a, b and c.
func Listed(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// Between writes an interval of two texts: 51 … 64 ms. An end that is empty is unknown.
func Between(low, high, unit string) string {
	switch {
	case high == "":
		return low + unit + " or more"
	case low == "":
		return "up to " + high + unit
	}
	return low + " … " + high + unit
}

// Planned writes seconds for planning, rounded up: 40 s, 25 min, 3 h, 2 days.
func Planned(seconds float64) string {
	up := func(unit float64) string { return Digits(math.Ceil(seconds/unit - 1e-9)) } // 60.000000001 s are a minute
	switch {
	case seconds < 90:
		return up(1) + " s"
	case seconds < 90*60:
		return up(60) + " min"
	case seconds < 36*3600:
		return up(3600) + " h"
	}
	return up(86400) + " days"
}

// Signed writes TwoDigits with a plus or a minus sign before it, and 0 without one.
func Signed(v float64) string {
	s := TwoDigits(math.Abs(v))
	switch {
	case s == "0":
		return s
	case v < 0:
		return "−" + s
	}
	return "+" + s
}

// Points writes a share in hundredths with two significant digits, a zero behind
// the point included: 62, 4.0, 0.04.
func Points(share float64) string {
	x := 100 * share
	if a := math.Abs(x); a >= 0.095 && a < 9.95 {
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return TwoDigits(x)
}

// Duration writes d as time.Duration does, without the zeros at its end: 10s, 5m,
// 1h30m.
func Duration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Clock writes how far a clock is ahead of that of who looks, in seconds, or behind it if that is
// negative: 12s ahead. It returns an empty text for ten seconds and less, which is not worth a
// finding, and for NaN.
func Clock(ahead float64) string {
	const most = 10
	seconds := math.Trunc(math.Abs(ahead))
	if !(seconds > most) {
		return ""
	}
	way := " ahead"
	if ahead < 0 {
		way = " behind"
	}
	return Duration(time.Duration(seconds)*time.Second) + way
}

// SetClocks is the next step where a clock is found to be wrong.
const SetClocks = "synchronise the clocks, such as with chrony"

// Sentence returns s with a capital letter at its beginning, unless it begins with
// the name of a percentile, such as p99.
func Sentence(s string) string {
	if s == "" || s[0] == 'p' && len(s) > 1 && s[1] >= '0' && s[1] <= '9' {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
