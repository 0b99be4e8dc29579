package stat

import (
	"math"
	"slices"
)

const (
	// fullSlot is the number of observations that slots need for the nominal
	// rate of false findings, measured: with 7 in a slot one series in seven has a false
	// change.
	fullSlot = 60
	// fewestGroups is the least number of groups when slots are merged.
	fewestGroups = 40
)

// together returns how many neighbouring slots are merged; none is empty.
func (s *Series) together() int {
	counts := make([]float64, s.Slots())
	for t := range counts {
		counts[t] = s.effective(t)
	}
	thin := thin(counts)
	slices.Sort(counts)
	k := int(math.Ceil(fullSlot / min(counts[len(counts)/2], 1.2*thin)))
	return max(1, min(k, len(counts)/fewestGroups))
}

// grouped returns s with each k neighbouring slots merged; the last group may have
// fewer.
func (s *Series) grouped(k int) *Series {
	p := *s
	p.begin((s.Slots() + k - 1) / k)
	p.squares = nil
	p.cum = make([]float64, 0, len(s.cum))
	p.counts = make([]float64, len(s.counts))
	p.total, p.occupied = 0, 0
	row := make([]float64, len(s.counts))
	for from := 0; from < s.Slots(); from += k {
		lo, hi, sum, squares := int32(len(row)), int32(0), 0.0, 0.0
		for t := from; t < min(from+k, s.Slots()); t++ {
			below := 0.0
			for i, c := range s.cum[s.start[t]:s.start[t+1]] {
				row[int(s.first[t])+i] += c - below
				below = c
			}
			lo, hi = min(lo, s.first[t]), max(hi, s.first[t]+s.start[t+1]-s.start[t])
			sum += s.sum[t]
			if s.squares != nil {
				squares += s.squares[t]
			}
		}
		if s.squares != nil {
			p.squares = append(p.squares, squares)
		}
		add(&p, lo, row[lo:hi], sum)
		clear(row[lo:hi])
	}
	return p.finish()
}
