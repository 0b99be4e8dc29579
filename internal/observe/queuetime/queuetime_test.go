package queuetime

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	const at int64 = 1_700_000_000_123_456_000
	f := func(value string, want int64) {
		t.Helper()
		got, ok := Parse(value)
		if got != want || ok != (want != 0) {
			t.Errorf("Parse(%q) = %d, %v; want %d", value, got, ok, want)
		}
	}
	f("1700000000", at/1e9*1e9)                                // s
	f("t=1700000000.123456", at)                               // nginx: ${msec} has three digits, others six
	f("t=1700000000.123", at/1e6*1e6)                          //
	f("T=1700000000.1234567891234", 1_700_000_000_123_456_789) // beyond nanoseconds
	f("1700000000123", at/1e6*1e6)                             // ms
	f("t=1700000000123.456", at)                               //
	f("1700000000123456", at)                                  // µs
	f("1700000000123456.5", at+500)                            //
	f("t=1700000000123456789", 1_700_000_000_123_456_789)      // ns
	f("t=1700000000123456, t=1700000000122456", at-1_000_000)  // two hops
	f("t=1700000000123456 t=1700000000.120;1700000000999", at-3_456_000)
	f(" t=1700000000123456 ", at)
	f("t=1700000000123456, unknown", at)
	f("t=1700000000123456,", at)

	for _, no := range []string{"", "t=", "t", "=", "-", "-1700000000", "+1700000000", "0", "12", "99999999", "1e9", "0x6553f100",
		"1700000000,123", "1.700000000", "t=t=1700000000", "1700000000.12x", "99999999999999999999", "9999999999999999999", "2023-11-14T22:13:20Z"} {
		if no == "1700000000,123" {
			f(no, at/1e9*1e9) // a decimal comma costs the fraction
			continue
		}
		f(no, 0)
	}
}

func TestPlausible(t *testing.T) {
	const start = int64(1_700_000_000_000_000_000)
	for _, x := range []struct {
		before time.Duration
		want   bool
	}{{0, true}, {time.Millisecond, true}, {Most, true}, {Most + 1, false}, {-1, true}, {-Most, true}, {-Most - 1, false}, {time.Duration(start), false}} {
		if got := Plausible(start-int64(x.before), start); got != x.want {
			t.Errorf("queued %v before: %v, want %v", x.before, got, x.want)
		}
	}
}

// Whatever the unit, the time is read to the precision it was written with.
func TestParseUnits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nanos := rapid.Int64Range(1e17+1, 4e18).Draw(t, "nanos")
		unit := rapid.SampledFrom([]int64{1, 1e3, 1e6, 1e9}).Draw(t, "unit")
		digits := rapid.IntRange(0, 9).Draw(t, "digits")
		whole, rest := nanos/unit, nanos%unit
		text := fmt.Sprint(whole)
		precision := unit
		if digits > 0 {
			text = fmt.Sprintf("%d.%0*d", whole, digits, scaled(rest, unit, digits))
			precision = max(unit/int64(math.Pow10(digits)), 1)
		}
		if rapid.Bool().Draw(t, "t=") {
			text = "t=" + text
		}
		got, ok := Parse(text)
		if !ok || got > nanos || nanos-got >= precision {
			t.Errorf("%s: got %d, %v; want %d to %d ns", text, got, ok, nanos, precision)
		}
	})
}

// scaled is rest/unit in digits decimal places.
func scaled(rest, unit int64, digits int) int64 {
	p := int64(math.Pow10(digits))
	if unit >= p {
		return rest / (unit / p)
	}
	return rest * (p / unit)
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"t=1700000000.123", "1700000000123, t=1700000000123456", "t=1e9", "9223372036854775807", "t=99999999999.999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := Parse(s)
		if !ok {
			if got != 0 {
				t.Errorf("%q: no time, but %d", s, got)
			}
			return
		}
		if got < 1e17 {
			t.Errorf("%q: %d is before 1973", s, got)
		}
		again, ok := Parse(fmt.Sprintf("%s,t=%d", s, got))
		if !ok || again != got {
			t.Errorf("%q: %d, with itself added %d", s, got, again)
		}
	})
}
