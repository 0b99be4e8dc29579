package report

import (
	"math"
	"testing"

	"tailscope/api"
)

// A unit reads alike under each of its names.
func TestPluginLineUnits(t *testing.T) {
	nan := api.Float(math.NaN())
	for _, c := range []struct {
		unit  string
		value api.Float
		want  string
	}{
		{"s", 0.412, "OK x = 412 ms (200 ms) | x=0.412s threshold=0.2s"},
		{"second", 0.412, "OK x = 412 ms (200 ms) | x=0.412s threshold=0.2s"},
		{"seconds", 0.412, "OK x = 412 ms (200 ms) | x=0.412s threshold=0.2s"},
		{"byte", 12, "OK x = 12 B (0.200 B) | x=12B threshold=0.2B"},
		{"bytes", 12, "OK x = 12 B (0.200 B) | x=12B threshold=0.2B"},
		{"ratio", 0.412, "OK x = 41.2 % (20.0 %) | x=0.412 threshold=0.2"},
		{"orders", 0.412, "OK x = 0.412orders (0.2) | x=0.412 threshold=0.2"},
	} {
		check := &api.Check{ID: "x", State: "OK", Value: c.value, Unit: c.unit,
			Bands: api.CheckBands{Threshold: 0.2, LowWarning: nan, LowCritical: nan, HighWarning: nan, HighCritical: nan}}
		if got := PluginLine(check); got != c.want {
			t.Errorf("%s: %q, want %q", c.unit, got, c.want)
		}
	}
}
