// Package check makes what the benchmark of thresholds looks up, a sample of
// each service a second, and the ways to look it up in Redis: lists that are
// walked or searched, as Bischeck 1.1.0 and 1.1.1 did, and sorted sets.
package check

import (
	"math"
	"math/rand/v2"

	"tailscope/internal/series"
)

// Offsets are those of the threshold of Bischeck's report, seconds back.
var Offsets = [9]int64{10 * 60, 20 * 60, 30 * 60, 40 * 60, 60 * 60, 90 * 60, 120 * 60, 150 * 60, 180 * 60}

// Source makes samples of one service, one a second at a moment of its own in
// the second, give or take a few milliseconds, as schedules do.
type Source struct {
	rng   *rand.Rand
	phase int64
	level float64
	Whole bool // values that take all 64 bits, in place of milliseconds with three decimals
}

// NewSource returns the i-th service's.
func NewSource(i int, whole bool) *Source {
	rng := rand.New(rand.NewPCG(uint64(i), 15000))
	return &Source{rng: rng, phase: rng.Int64N(900), level: 20 + 100*rng.Float64(), Whole: whole}
}

// Next returns the sample of the second that begins at a Unix time.
func (s *Source) Next(second int64) series.Sample {
	s.level += 0.05*s.rng.NormFloat64() + 0.001*(60-s.level)
	v := s.level * math.Exp(0.4*s.rng.NormFloat64())
	if !s.Whole {
		v = math.Round(v*1000) / 1000
	}
	return series.Sample{TimeMillis: second*1000 + s.phase + s.rng.Int64N(6), Value: v}
}
