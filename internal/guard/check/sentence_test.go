package check

import (
	"testing"
	"time"
)

func TestQuantityHasTheUnitOfItsSize(t *testing.T) {
	for _, c := range []struct {
		v    float64
		unit string
		want string
	}{
		{0.6355123, "s", "635.5 ms"}, {0.0000421, "s", "42.1 µs"}, {4e-8, "s", "4e-08 s"}, {0, "s", "0 s"}, {61.25, "s", "61.25 s"}, {-0.25, "s", "-250 ms"},
		{123456789000, "B", "123.5 GB"}, {999, "B", "999 B"}, {1e3, "B", "1 kB"},
		{30420, "MB", "30420 MB"}, {0.5, "", "0.5"}, {12, "%", "12%"}, {123456, "/s", "123456/s"},
	} {
		if got := quantity(c.v, c.unit); got != c.want {
			t.Errorf("%g %q: %q, want %q", c.v, c.unit, got, c.want)
		}
	}
}

func TestSpanIsNoLongerThanNeeded(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 42*time.Second + 4e8: "42s", time.Minute: "1m", 90 * time.Second: "1m30s", 10 * time.Minute: "10m", 70 * time.Second: "1m10s",
		time.Hour: "1h", 2*time.Hour + 20*time.Second: "2h", 90 * time.Minute: "1h30m", 10 * time.Hour: "10h", time.Hour - 1: "1h",
	} {
		if got := span(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}
