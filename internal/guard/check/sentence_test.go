package check

import (
	"testing"
	"time"

	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
)

func TestMeasuredText(t *testing.T) {
	for _, c := range []struct {
		value, bound float64
		unit, want   string
	}{
		{0.38285, 0.3, "s", ": 383 ms is above 300 ms"},
		{0.3001, 0.3, "s", ": 300 ms is just above 300 ms"},
		{0.02682, 0.01, "ratio", ": 2.7 % is above 1.0 %"},
		{1, 0.5, "s", ": 1.00 s is above 500 ms"},
		{90.04, 90, "%", ": 90.0 % is just above 90 %"}, // a whole number has no zeros behind the point
		{1000.4, 1000, "orders", ": 1,000 orders is just above 1,000 orders"},
		{1.1e-7, 1e-7, "", ": 1.10e-7 is above 1.00e-7"},
		{-0.1, -3, "°C", ": −0.100 °C is above −3 °C"},
	} {
		bands := noBands("")
		bands.HighWarning = c.bound
		in := &instance{c: &spec.Check{Unit: c.unit, Threshold: &spec.Threshold{}}}
		r := &event.Result{Time: time.Unix(1, 0), Reading: event.Reading{Value: c.value}, Bands: bands}
		if got := measuredText(in, r); got != c.want {
			t.Errorf("%v %s: %q, want %q", c.value, c.unit, got, c.want)
		}
	}
}
