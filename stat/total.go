package stat

import (
	"math"
	"sort"
)

// finish sums up what NewSeries collected.
func (s *Series) finish() *Series {
	s.all = make([]float64, len(s.counts))
	n := 0.0
	for i, c := range s.counts {
		n += c
		s.all[i] = n
	}
	s.alone = effective(s.total, s.squaresOfAll())
	return s
}

// squaresOfAll returns Σw² of all observations.
func (s *Series) squaresOfAll() float64 {
	if s.squares == nil {
		return s.total
	}
	sum := 0.0
	for _, v := range s.squares {
		sum += v
	}
	return sum
}

// atMostAll returns how many of all observations lie at or below a place.
func (s *Series) atMostAll(p place) float64 {
	below := 0.0
	if p.bucket > 0 {
		below = s.all[p.bucket-1]
	}
	return below + p.share*s.counts[p.bucket]
}

// quantile returns the value that a share p of all observations is at or below,
// interpolated within its bucket as hist does, or NaN if there are none.
func (s *Series) quantile(p float64) float64 {
	if s.total == 0 {
		return math.NaN()
	}
	rank := p * s.total
	i := sort.Search(len(s.all)-1, func(i int) bool { return s.all[i] >= rank })
	if s.counts[i] == 0 { // only beyond the last observation, by rounding
		for i > 0 && s.counts[i] == 0 {
			i--
		}
		return s.valueAt(place{i, 1})
	}
	below := s.all[i] - s.counts[i]
	return s.valueAt(place{i, max(0, min(1, (rank-below)/s.counts[i]))})
}
