package simulate

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"sync"

	"tailscope/hist"
)

// Distribution is a distribution of durations in seconds, by its quantile function:
// pieces of straight lines. It never changes, so goroutines may share it.
type Distribution struct {
	p, x []float64 // ascending both, p from 0 to 1; equal p are a gap, equal x one value
	mean float64
	n    uint64

	numbers, scores sync.Once
	draws           table
}

// table returns a table that draws by numbers, or by normal scores. Only the one that
// is asked for is made, because there may be thousands of moments.
func (d *Distribution) table(scores bool) *table {
	if scores {
		d.scores.Do(func() { d.draws.scores = newScores(d.cursor()) })
	} else {
		d.numbers.Do(func() { d.draws.cells = newCells(d.cursor()) })
	}
	return &d.draws
}

// cursor returns Quantile for ascending p: it continues from the last one.
func (d *Distribution) cursor() func(p float64) float64 {
	i := 1 // p is within [p[i-1], p[i]], or beyond the ends
	return func(p float64) float64 {
		for i < len(d.p)-1 && d.p[i] < p {
			i++
		}
		for i > 1 && d.p[i-1] >= p {
			i--
		}
		return between(d.p[i-1], d.x[i-1], d.p[i], d.x[i], min(max(p, 0), 1))
	}
}

// FromHistogram returns the distribution of a histogram: within a bucket as
// hist.Histogram.Quantile has it, except that the first and the last bucket end at
// Min and Max. It wraps ErrInvalid for an empty histogram, for negative durations and
// for a highest bucket without end.
func FromHistogram(h *hist.Histogram) (*Distribution, error) {
	if h == nil || h.Count == 0 {
		return nil, fmt.Errorf("%w: no observations", ErrInvalid)
	}
	var p, x []float64
	before := uint64(0)
	for b := range h.All() {
		low, high := b.Lower, b.Upper
		if !math.IsNaN(h.Min) {
			low = max(low, h.Min)
		}
		if !math.IsNaN(h.Max) {
			high = min(high, h.Max)
		}
		low, high = min(low, high), max(low, high)
		if low < 0 && high > 0 { // the zero bucket
			low = 0
		}
		if low < 0 {
			return nil, fmt.Errorf("%w: durations below 0", ErrInvalid)
		}
		if math.IsInf(high, 1) {
			return nil, fmt.Errorf("%w: %d observations above %g s and nobody knows how far", ErrInvalid, b.Count, low)
		}
		from, share := float64(before)/float64(h.Count), float64(b.Count)/float64(h.Count)
		p, x = append(p, from), append(x, low)
		if h.Schema != hist.Explicit && low > 0 && high/low > 1.05 {
			for i := 1; i < 8; i++ {
				f := float64(i) / 8
				p, x = append(p, from+f*share), append(x, low*math.Pow(high/low, f))
			}
		}
		before += b.Count
		p, x = append(p, float64(before)/float64(h.Count)), append(x, high)
	}
	p[len(p)-1] = 1
	return newDistribution(p, x, h.Count)
}

// FromSamples returns the distribution of equally likely observations, in any order.
// It does not change them. It wraps ErrInvalid if there are none, or one is not a
// duration.
func FromSamples(seconds []float64) (*Distribution, error) {
	s := slices.Sorted(slices.Values(seconds))
	n := float64(len(s))
	p, x := make([]float64, 0, 2*len(s)), make([]float64, 0, 2*len(s))
	for i := 0; i < len(s); {
		j := i + 1
		for j < len(s) && s[j] == s[i] {
			j++
		}
		p, x = append(p, float64(i)/n, float64(j)/n), append(x, s[i], s[i])
		i = j
	}
	return newDistribution(p, x, uint64(len(s)))
}

// FromQuantiles returns the distribution whose quantile function goes through the given
// points in straight lines; p ascends from 0 to 1.
func FromQuantiles(p, seconds []float64) (*Distribution, error) {
	return newDistribution(slices.Clone(p), slices.Clone(seconds), 0)
}

// FromInverse returns the distribution of a quantile function, which is called for p
// within (0, 1) and cut off 2^-40 from either end.
func FromInverse(quantile func(p float64) float64) (*Distribution, error) {
	const octaves, steps = 40, 64
	var p, x []float64
	for e := octaves; e >= 1; e-- {
		for i := range steps {
			p = append(p, math.Ldexp(1+float64(i)/steps, -e-1))
		}
	}
	for i := len(p) - 1; i >= 0; i-- {
		p = append(p, 1-p[i])
	}
	p = slices.Compact(p)
	for _, v := range p {
		x = append(x, quantile(v))
	}
	p[0], p[len(p)-1] = 0, 1
	return newDistribution(p, x, 0)
}

// Constant returns the distribution of one duration.
func Constant(seconds float64) *Distribution {
	return &Distribution{p: []float64{0, 1}, x: []float64{seconds, seconds}, mean: seconds}
}

// Exponential returns the exponential distribution.
func Exponential(mean float64) *Distribution {
	d, err := FromInverse(func(p float64) float64 { return -mean * math.Log1p(-p) })
	if err != nil {
		panic(err) // a mean that is not a duration
	}
	return d
}

func newDistribution(p, x []float64, n uint64) (*Distribution, error) {
	if len(p) == 0 || len(p) != len(x) {
		return nil, fmt.Errorf("%w: no observations", ErrInvalid)
	}
	mean := 0.0
	for i := range p {
		switch {
		case !(x[i] >= 0) || math.IsInf(x[i], 1):
			return nil, fmt.Errorf("%w: %g is not a duration", ErrInvalid, x[i])
		case i == 0 && p[i] != 0, i == len(p)-1 && p[i] != 1:
			return nil, fmt.Errorf("%w: quantiles from %g to %g, not from 0 to 1", ErrInvalid, p[0], p[len(p)-1])
		case i > 0 && !(p[i] >= p[i-1] && x[i] >= x[i-1]):
			return nil, fmt.Errorf("%w: quantiles do not ascend at %g: %g s", ErrInvalid, p[i], x[i])
		case i > 0:
			mean += (p[i] - p[i-1]) * (x[i] + x[i-1]) / 2
		}
	}
	return &Distribution{p: p, x: x, mean: mean, n: n}, nil
}

// Quantile returns the p-quantile, seconds, for p in [0, 1].
func (d *Distribution) Quantile(p float64) float64 {
	i := sort.SearchFloat64s(d.p, p)
	if i == 0 {
		return d.x[0]
	}
	if i == len(d.p) {
		return d.x[i-1]
	}
	return between(d.p[i-1], d.x[i-1], d.p[i], d.x[i], p)
}

// AtMost returns the share of durations that are at most this many seconds.
func (d *Distribution) AtMost(seconds float64) float64 {
	i := sort.Search(len(d.x), func(i int) bool { return d.x[i] > seconds })
	if i == 0 {
		return 0
	}
	if i == len(d.x) {
		return 1
	}
	return between(d.x[i-1], d.p[i-1], d.x[i], d.p[i], seconds)
}

func between(x0, y0, x1, y1, x float64) float64 {
	if x1 == x0 {
		return y1
	}
	return y0 + (y1-y0)*(x-x0)/(x1-x0)
}

// Mean returns the mean in seconds.
func (d *Distribution) Mean() float64 { return d.mean }

// Max returns the longest duration.
func (d *Distribution) Max() float64 { return d.x[len(d.x)-1] }

// Observations returns the number of observations that it was made of, 0 if it was
// given.
func (d *Distribution) Observations() uint64 { return d.n }

// mapped returns the distribution of f of the quantiles of ds at the same p; f must
// not descend.
func mapped(ds []*Distribution, f func(x []float64) float64) (*Distribution, error) {
	var p []float64
	for _, d := range ds {
		p = append(p, d.p...)
	}
	slices.Sort(p)
	// At a gap the quantile function has two values: both ends are asked for.
	x, at := make([]float64, 0, 2*len(p)), make([]float64, len(ds))
	out := make([]float64, 0, 2*len(p))
	n := uint64(math.MaxUint64)
	for i, v := range p {
		if i > 0 && v == p[i-1] {
			continue
		}
		for _, above := range []bool{false, true} {
			for k, d := range ds {
				at[k] = d.side(v, above)
			}
			y := max(0, f(at))
			if len(x) > 0 {
				y = max(y, x[len(x)-1])
			}
			out, x = append(out, v), append(x, y)
		}
	}
	for _, d := range ds {
		n = min(n, d.n)
	}
	return newDistribution(out, x, n)
}

// side returns the quantile from below, or from above where there is a gap.
func (d *Distribution) side(p float64, above bool) float64 {
	if !above {
		return d.Quantile(p)
	}
	i := sort.Search(len(d.p), func(i int) bool { return d.p[i] > p })
	if i == len(d.p) {
		return d.x[i-1]
	}
	if i == 0 {
		return d.x[0]
	}
	return between(d.p[i-1], d.x[i-1], d.p[i], d.x[i], p)
}

// changes reports whether leaves take another time in a slot than in the one before.
func (c Class) changes(slot int) bool {
	return slices.ContainsFunc(c.Sizes, func(s Size) bool { return s.at(slot) != s.at(slot-1) })
}

// For returns the time of a leaf of the class in a slot if the data is in that number
// of shards. With one size measured, the time beyond Fixed is proportional to the
// size of a shard. With several, quantiles are straight lines in the size of a shard
// between neighbouring ones, and go on beyond the last.
func (c Class) For(shards float64, slot int) (*Distribution, error) {
	if len(c.Sizes) == 1 {
		s := c.Sizes[0]
		d := s.at(slot)
		if s.Shards == 0 || s.Shards == shards {
			return d, nil
		}
		return mapped([]*Distribution{d}, func(x []float64) float64 {
			fixed := min(c.Fixed, x[0])
			return fixed + (x[0]-fixed)*s.Shards/shards
		})
	}
	i := sort.Search(len(c.Sizes)-2, func(i int) bool { return c.Sizes[i+1].Shards >= shards })
	a, b := c.Sizes[i], c.Sizes[i+1]
	share := (1/shards - 1/a.Shards) / (1/b.Shards - 1/a.Shards)
	switch share {
	case 0:
		return a.at(slot), nil
	case 1:
		return b.at(slot), nil
	}
	return mapped([]*Distribution{a.at(slot), b.at(slot)}, func(x []float64) float64 {
		return x[0] + share*(x[1]-x[0])
	})
}
