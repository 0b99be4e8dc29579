package pair

import "time"

var started = time.Now()

// Steady is the time of day in Unix nanoseconds, but for what the machine's
// clock was set forward or back since the program started: what lies between two
// of its times is how long that took. Legs, waits and time limits go by it; slots
// go by the time of day.
func Steady() int64 { return started.UnixNano() + int64(time.Since(started)) }
