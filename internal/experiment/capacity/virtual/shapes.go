package virtual

import (
	"math/rand/v2"
)

// Shape is a server with an objective.
type Shape struct {
	Server
	Objective string
	// Truth is the rate at which the objective breaks; the tests say how it is known.
	Truth float64
	// Gaps lets it idle before every step, as if each were a run of its own.
	Gaps bool
}

func exponential(mean float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 { return r.ExpFloat64() * mean }
}

func fixed(d float64) func(*rand.Rand) float64 {
	return func(*rand.Rand) float64 { return d }
}

// bimodal draws service times that are fast or, with probability share, slow, both
// within a tenth.
func bimodal(fast, slow, share float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 {
		d := fast
		if r.Float64() < share {
			d = slow
		}
		return d * (0.9 + 0.2*r.Float64())
	}
}

// Shapes returns the servers of the calibration. Truths of queues with one worker are
// in closed form, −ln(1−0.99)/(μ−λ) = limit; the others were found by Find with 20
// million requests, thrice, and are known to 0.2 %.
func Shapes() []Shape {
	return []Shape{
		{Server{Name: "M/M/1", Workers: 1, Service: exponential(1.0 / 500)}, "p99 < 100ms", 453.948, false},
		{Server{Name: "M/M/1, fast", Workers: 1, Service: exponential(1.0 / 2000)}, "p99 < 50ms", 1907.897, false},
		{Server{Name: "M/M/8", Workers: 8, Service: exponential(0.016)}, "p99 < 150ms", 465.9, false},
		{Server{Name: "M/M/4, mean", Workers: 4, Service: exponential(0.008)}, "mean < 20ms", 438.3, false},
		{Server{Name: "M/D/4", Workers: 4, Service: fixed(0.010)}, "p99 < 50ms", 347.9, false},
		{Server{Name: "bimodal", Workers: 8, Service: bimodal(0.005, 0.060, 0.1)}, "p99 < 120ms", 687.1, false},
		{Server{Name: "slowing", Workers: 16, Service: exponential(0.010), Slowing: contention(0.05, 0.0005)}, "p99 < 150ms", 819.8, false},
		{Server{Name: "full", Workers: 8, Service: exponential(0.010), QueueLimit: 16}, "p99 < 200ms and errors < 0.5%", 667.4, false},
		{Server{Name: "cliff", Workers: 16, Service: exponential(0.010), Collapses: 800}, "p99 < 200ms and errors < 1%", 763.0, false},
		{Server{Name: "limiter", Workers: 64, Service: exponential(0.010), Allowed: 600, Burst: 60}, "p99 < 200ms and errors < 0.1%", 582.9, false},
		{Server{Name: "M/M/8, in runs", Workers: 8, Service: exponential(0.016)}, "p99 < 150ms", 465.9, true},
	}
}

// contention slows each worker by the Universal Scalability Law (Gunther 2007): by
// sigma for each other busy one, and by kappa for each pair.
func contention(sigma, kappa float64) func(int) float64 {
	return func(busy int) float64 {
		n := float64(busy)
		return 1 + sigma*(n-1) + kappa*n*(n-1)
	}
}

// Pool is a pool of servers under a constant load.
type Pool struct {
	Server    // Workers is of each
	Rate      float64
	Objective string
	Truth     int // the fewest that keep it
}

// Pools returns the pools of the calibration.
func Pools() []Pool {
	return []Pool{
		{Server{Name: "pool", Workers: 4, Service: exponential(0.020)}, 800, "p99 < 150ms", 5},
		{Server{Name: "narrow pool", Workers: 2, Service: fixed(0.010)}, 900, "p99 < 40ms", 5},
	}
}
