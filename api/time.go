package api

import (
	"math"
	"time"
)

// UnixTime returns Unix seconds to the millisecond, NaN (null in JSON) of the zero time.
func UnixTime(t time.Time) Float {
	if t.IsZero() {
		return Float(math.NaN())
	}
	return Float(float64(t.UnixMilli()) / 1e3)
}

// Time returns the moment of Unix seconds, to the millisecond.
func (f Float) Time() time.Time { return time.UnixMilli(int64(math.Round(float64(f) * 1e3))) }
