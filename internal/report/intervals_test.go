package report

import (
	"math"
	"testing"

	"tailscope/api"
)

// Both ends of an interval are in one notation, and an end that is not known is marked.
func TestIntervalNotation(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		low, high float64
		want      string
	}{
		{0.9, 1.25, "−10.0 % … +25.0 %"},
		{0.02, 3.1, "×0.02 … ×3.1"},
		{0.97, 12, "×0.97 … ×12"},
		{0.04, 0.05, "÷25 … ÷20"},
		{0, 0.05, "? … ÷20"},
		{nan, 1.5, "? … +50.0 %"},
		{0.5, math.Inf(1), "−50.0 % … ?"},
		{20, math.Inf(1), "×20 … ?"},
		{nan, nan, "-"},
		{1, 1, "±0.0 % … ±0.0 %"},
		{0.9999, 1.0001, "−0.0 % … +0.0 %"},
	} {
		low, high := api.Float(c.low), api.Float(c.high)
		d := &Comparison{}
		if got := d.interval(&api.CompareMeasure{Name: "p99", Scale: "ratio"}, &api.CompareFigure{Low: low, High: high}); got != c.want {
			t.Errorf("compare %v to %v: %s, want %s", c.low, c.high, got, c.want)
		}
		if got := mirrorInterval(&api.MirrorMeasure{Name: "p99", Low: low, High: high}); got != c.want {
			t.Errorf("mirror %v to %v: %s, want %s", c.low, c.high, got, c.want)
		}
	}
}
