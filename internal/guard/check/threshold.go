package check

import (
	"math"

	"tailscope/internal/guard/check/event"
)

// noBands are the bands of a check without a threshold.
func noBands(rule string) event.Bands {
	n := math.NaN()
	return event.Bands{Threshold: n, LowCritical: n, LowWarning: n, HighWarning: n, HighCritical: n, Rule: rule}
}

// judge returns the level of a value, which is bad strictly beyond a band. Bands that are NaN
// hold nothing against it.
func judge(v float64, b *event.Bands) event.Level {
	switch {
	case v > b.HighCritical, v < b.LowCritical:
		return event.Critical
	case v > b.HighWarning, v < b.LowWarning:
		return event.Warning
	}
	return event.OK
}
