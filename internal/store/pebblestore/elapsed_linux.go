package pebblestore

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot reads a monotonic clock that goes on while the machine is suspended, which
// Go's does not: a laptop that wakes up is not a clock that leaps.
func sinceBoot() (time.Duration, error) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t)
	return time.Duration(t.Nano()), err
}
