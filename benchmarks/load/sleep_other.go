//go:build !linux

package load

import "time"

// SleepCost is measured on Linux only.
func SleepCost(time.Duration, int) (time.Duration, error) { return 0, ErrCannot }
