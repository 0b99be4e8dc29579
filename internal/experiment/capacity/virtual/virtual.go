// Package virtual simulates servers in virtual time, whose capacity is known. Tests
// run the search against them hundreds of times in the time one real search takes.
//
// Requests arrive by Poisson and wait in one line for a number of workers (Kiefer &
// Wolfowitz 1955, Trans. AMS 78). Service may slow down with the number of busy
// workers, their queue may be limited, and a limiter may refuse what comes too fast.
package virtual

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"tailscope/hist"
	"tailscope/internal/experiment/capacity/objective"
)

// Server describes how a server answers. It is only read.
type Server struct {
	Name    string
	Workers int
	// Service draws the time that a request takes a worker, in seconds.
	Service func(*rand.Rand) float64
	// Slowing multiplies Service by a factor of the number of workers that are busy
	// when it begins, itself counted; nil is 1.
	Slowing func(busy int) float64
	// QueueLimit bounds the requests that wait; those beyond fail at once. 0 is no
	// limit.
	QueueLimit int
	// Allowed is the rate that a limiter lets pass, in requests a second, in a bucket
	// of Burst; the others fail at once. 0 is no limit.
	Allowed, Burst float64
	// Collapses is the rate of arrivals, averaged over about a second, beyond which a
	// share of 0.3 fails at once. 0 is none.
	Collapses float64
	// Freezes, if not 0, is the time in seconds after which it begins nothing more.
	Freezes float64
}

// Line is the state of a server under load. It belongs to one goroutine.
type Line struct {
	s     Server
	rng   *rand.Rand
	clock float64
	free  []float64 // when each worker is free
	began []float64 // when those begin, or began, that wait; a ring from head
	head  int
	level float64 // of the limiter's bucket
	at    float64 // when it was that
	rate  float64 // of arrivals, averaged over a second
	last  float64 // arrival
	open  []request
}

type request struct{ due, ends float64 }

// New returns an idle server.
func New(s Server, rng *rand.Rand) *Line {
	return &Line{s: s, rng: rng, free: make([]float64, s.Workers), level: s.Burst}
}

// resize sets the number of workers; idle ones come or go first.
func (l *Line) resize(workers int) {
	slices.SortFunc(l.free, func(a, b float64) int { return cmp.Compare(b, a) })
	for len(l.free) < workers {
		l.free = append(l.free, l.clock)
	}
	l.free = l.free[:workers]
}

// Idle waits until nothing is under way, most seconds at most, and returns the time
// that it took.
func (l *Line) Idle(most float64) float64 {
	until := l.clock
	for _, f := range l.free {
		until = max(until, f)
	}
	until = min(until, l.clock+most)
	took := until - l.clock
	l.clock = until
	return took
}

// Arrive lets one request arrive at t, no earlier than the one before. It returns how
// long it takes, in seconds, and whether it fails.
func (l *Line) Arrive(t float64) (takes float64, fails bool) {
	s := &l.s
	if s.Allowed > 0 {
		l.level = min(l.level+(t-l.at)*s.Allowed, s.Burst)
		if l.at = t; l.level < 1 {
			return 1e-4, true
		}
		l.level--
	}
	if s.Collapses > 0 {
		l.rate = l.rate*math.Exp(l.last-t) + 1
		if l.last = t; l.rate > s.Collapses && l.rng.Float64() < 0.3 {
			return 1e-4, true
		}
	}
	if s.QueueLimit > 0 {
		for l.head < len(l.began) && l.began[l.head] <= t {
			l.head++
		}
		if len(l.began)-l.head >= s.QueueLimit {
			return 1e-4, true
		}
		if l.head > 4096 {
			l.began, l.head = append(l.began[:0], l.began[l.head:]...), 0
		}
	}
	first := 0
	for i, f := range l.free {
		if f < l.free[first] {
			first = i
		}
	}
	begin := max(t, l.free[first])
	if s.Freezes > 0 && begin >= s.Freezes {
		begin = 1e9
	}
	takes = s.Service(l.rng)
	if s.Slowing != nil {
		busy := 1
		for i, f := range l.free {
			if f > begin && i != first {
				busy++
			}
		}
		takes *= s.Slowing(busy)
	}
	l.free[first] = begin + takes
	if s.QueueLimit > 0 && begin > t {
		l.began = append(l.began, begin)
	}
	return begin + takes - t, false
}

// Hold loads the server with rate requests a second for at most so many seconds, and
// yields a batch every by seconds until yield returns false. It returns how long it
// took.
func (l *Line) Hold(rate, seconds, by float64, yield func(objective.Batch) bool) float64 {
	start := l.clock
	next := start + l.rng.ExpFloat64()/rate
	type slot struct {
		latency *hist.Histogram
		errors  uint64
		n       uint64
	}
	slots := map[int]*slot{}
	under, oldest := l.open, 0
	for k := 0; ; k++ {
		end := start + by*float64(k+1)
		var due uint64
		for ; next < end; next += l.rng.ExpFloat64() / rate {
			takes, fails := l.Arrive(next)
			due++
			at := int((next + takes - start) / by)
			if at > int(seconds/by)+1 {
				under = append(under, request{next, next + takes})
				continue
			}
			under = append(under, request{next, next + takes})
			s := slots[at]
			if s == nil {
				s = &slot{latency: hist.New(hist.DefaultSchema)}
				slots[at] = s
			}
			s.n++
			if fails {
				s.errors++
			}
			if err := s.latency.Record(takes); err != nil {
				panic(err) // no latency is negative or not a number
			}
		}
		waiting := objective.Waiting{Due: due}
		// Ended requests are dropped from the front; answers overtake a little.
		for oldest < len(under) && under[oldest].ends <= end {
			oldest++
		}
		for _, r := range under[oldest:] {
			if r.ends > end {
				waiting.UnderWay++
				waiting.Oldest = max(waiting.Oldest, time.Duration((end-r.due)*1e9))
			}
		}
		b := objective.Batch{At: time.Duration(math.Round(by * float64(k+1) * 1e9)), Waiting: map[objective.Part]objective.Waiting{{}: waiting}, Ended: map[objective.Part]objective.Ended{}}
		if s := slots[k]; s != nil {
			b.Ended[objective.Part{}] = objective.Ended{Requests: s.n, Errors: s.errors, Latency: s.latency}
			delete(slots, k)
		}
		l.clock = end
		if !yield(b) || end-start >= seconds-1e-9 {
			l.open = append([]request(nil), under[oldest:]...)
			return end - start
		}
	}
}
