package figure

import (
	"math"
	"testing"
	"time"
)

func TestFigures(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Thousands(0), "0"},
		{Thousands(999), "999"},
		{Thousands(-123456), "-123,456"},
		{Thousands(uint64(86_400_000)), "86,400,000"},
		{Rounded(1e21), "1,000,000,000,000,000,000,000"},
		{Rounded(-1499.6), "-1,500"},
		{Counted(1, "trace"), "1 trace"},
		{Counted(0, "trace"), "0 traces"},
		{Counted(1200, "request"), "1,200 requests"},
		{TwoDigits(0), "0"},
		{TwoDigits(0.0416), "0.04"},
		{TwoDigits(0.96), "1"},
		{TwoDigits(4.12), "4.1"},
		{TwoDigits(9.951), "10"},
		{TwoDigits(1234.5), "1234"},
		{TwoDigits(math.Inf(-1)), "∞"},
		{Planned(40.2), "41 s"},
		{Planned(60.000000001), "60 s"},
		{Planned(340), "6 min"},
		{Planned(11520), "4 h"},
		{Planned(817564), "10 days"},
		{Signed(0), "0"},
		{Signed(-4.12), "−4.1"},
		{Signed(38), "+38"},
		{Points(0.62), "62"},
		{Points(0.04), "4.0"},
		{Points(0.0004), "0.04"},
		{Points(0), "0"},
		{Duration(0), "0s"},
		{Duration(10 * time.Second), "10s"},
		{Duration(10*time.Minute + 10*time.Second), "10m10s"},
		{Duration(5 * time.Minute), "5m"},
		{Duration(time.Hour), "1h"},
		{Duration(90 * time.Minute), "1h30m"},
		{Sentence(""), ""},
		{Sentence("p99 of all"), "p99 of all"},
		{Sentence("part of all"), "Part of all"},
		{Sentence("too little data"), "Too little data"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{ThreeDigits(0.03721), "0.0372"}, {ThreeDigits(0), "0"}, {ThreeDigits(3), "3.00"}, {ThreeDigits(9.996), "10.0"}, {ThreeDigits(99.96), "100"},
		{Seconds(0), "0 s"}, {Seconds(2.5e-10), "0.250 ns"}, {Seconds(0.00085), "850 µs"}, {Seconds(0.38285), "383 ms"}, {Seconds(0.9996), "1.00 s"}, {Seconds(-0.004), "-4.00 ms"},
		{Seconds(125), "125 s"}, {Seconds(1200), "20.0 min"}, {Seconds(24_900), "6.92 h"}, {Seconds(92_880), "25.8 h"}, {Seconds(260_000), "3.01 d"}, {Seconds(math.NaN()), "-"},
		{Value(4100, "bytes"), "4.10 kB"}, {Value(999, "bytes"), "999 B"}, {Value(3.14159, ""), "3.14"},
		{Quantity(0.02682, "ratio"), "2.7 %"}, {Quantity(0, "ratio"), "0 %"}, {Quantity(0.0001, "ratio"), "0.01 %"}, {Quantity(1e-5, "ratio"), "< 0.01 %"},
		{Quantity(0.412, "s"), "412 ms"}, {Quantity(12, "%"), "12 %"}, {Quantity(84.77, "/s"), "84.8/s"}, {Quantity(1204, "orders"), "1,204 orders"}, {Quantity(0.5, ""), "0.500"},
		{Tick(0.1), "100 ms"}, {Tick(1), "1 s"}, {Tick(1.5), "1.5 s"}, {Tick(0), "0 s"}, {Span(10), "10 s"}, {Span(300), "5 min"}, {Span(250), "4.2 min"}, {Span(5400), "90 min"}, {Span(9000), "2.5 h"}, {Span(3 * 86400), "3 d"}, {ThreeDigits(62.5), "62.5"}, {ThreeDigits(1234.4), "1,234"}, {ThreeDigits(-999), "-999"},
		{Percentile(0.99), "p99"}, {Percentile(0.999), "p99.9"}, {Percentile(0.5), "p50"},
		{Listed(nil), ""}, {Listed([]string{"a"}), "a"}, {Listed([]string{"a", "b"}), "a and b"}, {Listed([]string{"a", "b", "c"}), "a, b and c"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
