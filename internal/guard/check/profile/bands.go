package profile

import (
	"math"

	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
)

// Bands makes the thresholds of one run from T, which is null if it is NaN: then
// no bound is set. must is what a healthy value does: "<" stays below T, so that
// the bounds lie above it by their distances; ">" the other way; "=" both. A
// distance is a share of |T| or an absolute amount; nil sets no bound, but without
// both of them CRITICAL begins at T itself.
//
// Around a band (low and high, else NaN) the distances begin at its edges, and
// shares are of T, its middle: with must "=", warning 0 and critical 20%, a value
// is a warning outside of the band and critical further from it than a fifth of
// the middle.
func Bands(must string, t, low, high float64, warning, critical *spec.Distance) event.Bands {
	nan := math.NaN()
	b := event.Bands{Threshold: t, LowCritical: nan, LowWarning: nan, HighWarning: nan, HighCritical: nan}
	if math.IsNaN(t) {
		return b
	}
	if math.IsNaN(low) || math.IsNaN(high) {
		low, high = t, t
	}
	if warning == nil && critical == nil {
		critical = &spec.Distance{}
	}
	w, c := width(t, warning), width(t, critical)
	if must != "<" {
		b.LowWarning, b.LowCritical = low-w, low-c
	}
	if must != ">" {
		b.HighWarning, b.HighCritical = high+w, high+c
	}
	return b
}

// width is a distance from T; NaN without one.
func width(t float64, d *spec.Distance) float64 {
	if d == nil {
		return math.NaN()
	}
	return d.Share*math.Abs(t) + d.Absolute
}

// Bands makes the thresholds of one run at the moment of the blend, for the T of From
// and To. Its own distances replace those given.
func (b Blend) Bands(must string, t float64, warning, critical *spec.Distance) event.Bands {
	if b.Warning != nil {
		warning = b.Warning
	}
	if b.Critical != nil {
		critical = b.Critical
	}
	r := Bands(must, t, b.Low, b.High, warning, critical)
	r.Rule = b.Rule
	return r
}
