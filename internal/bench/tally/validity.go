package tally

import "time"

// Limits are how much of the generator's own error a run may have; of a zero
// field the default holds.
type Limits struct {
	// Late is how late the generator may be at the 99th percentile of requests
	// although a connection was free, whatever it measures: 1 ms. At the median it
	// is half of that, at the 99.9th percentile five times.
	Late time.Duration
	// Share is how much of the measured latency at the same percentile lateness may
	// be where it is more than Late: 0.1.
	Share float64
	// Busiest is how busy its busiest thread may be on average, 0..1: 0.95.
	Busiest float64
	// Host is how busy all cores of the machine together may be on average, 0..1:
	// 0.95.
	Host float64
}
