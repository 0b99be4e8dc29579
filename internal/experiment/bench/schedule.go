// Package bench drives load that does not wait for the system under test.
//
// The schedule is open-loop: it says when the k-th request is due, whatever
// became of the ones before. A request's latency runs from the moment it was
// due, not from the moment a worker was free to send it, so that time spent
// queueing behind a slow system is part of the answer (wrk2 calls the mistake
// this avoids coordinated omission). What cannot be sent is counted, never
// skipped in silence: dropped when the queue is full, unstarted when the run
// ends first. How late the generator itself is with handing requests out is
// measured too; a run whose lateness rivals its latencies says more about the
// generator than about the system.
//
// A Schedule is arithmetic alone. Run owns the clock, the workers and the end.
package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Arrivals is the law by which requests arrive.
type Arrivals uint8

const (
	Even     Arrivals = iota // one every 1/rate
	Poisson                  // independent arrivals: gaps are exponential with mean 1/rate
	Closed                   // each connection sends its next when its last is answered
	Recorded                 // when they came, in a recording or a log
)

var arrivals = [...]string{Even: "constant", Poisson: "poisson", Closed: "closed", Recorded: "recorded"}

// String returns the name of the law, as plans and results write it.
func (a Arrivals) String() string { return arrivals[min(int(a), len(arrivals)-1)] }

// Schedule says when requests are due. It is not safe for concurrent use.
type Schedule struct {
	rate     float64
	arrivals Arrivals
	rng      *rand.Rand
	k        int64
	seconds  float64 // Poisson: when the last was due
}

// NewSchedule returns a schedule of rate requests per second. The same seed
// gives the same schedule.
func NewSchedule(arrivals Arrivals, rate float64, seed uint64) (*Schedule, error) {
	if !(rate > 0) || math.IsInf(rate, 1) {
		return nil, fmt.Errorf("rate %v: must be a positive number of requests per second", rate)
	}
	if arrivals > Poisson {
		return nil, fmt.Errorf("unknown arrivals %d", arrivals)
	}
	return &Schedule{rate: rate, arrivals: arrivals, rng: rand.New(rand.NewPCG(seed, 0x5ced01e))}, nil
}

// Next returns when the next request is due, counted from the start of the
// run. It never decreases. The k-th call, from 0, of an even schedule returns
// k/rate rounded to the nanosecond: errors do not add up.
func (s *Schedule) Next() time.Duration {
	if s.arrivals == Even {
		due := float64(s.k) / s.rate
		s.k++
		return seconds(due)
	}
	s.seconds += s.rng.ExpFloat64() / s.rate
	return seconds(s.seconds)
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }
