package pair

import "time"

var started = time.Now()

// Steady returns the time of day in Unix nanoseconds, without the steps of the
// machine's clock since the program started: the difference of two of its times is
// the time that passed. Legs, waits and time limits use it; slots use the time of
// day.
func Steady() int64 { return started.UnixNano() + int64(time.Since(started)) }
