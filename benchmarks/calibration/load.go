// Package calibration checks judgements of change against simulated latency
// whose truth is known: how often they alarm when nothing changed, and how often
// they find a change, beside the methods that other tools use and beside an
// oracle that knows the variance.
//
// A trial draws two sides of slots. Within a slot requests are independent;
// slots depend on each other by a first-order autoregression of their median.
package calibration

import (
	"math"
	"math/rand/v2"
	"sync"

	"tailscope/stat"
)

// perOctave is the number of buckets to a factor of two: hist's default schema.
const perOctave = 32

// Load describes how a side's requests are drawn.
type Load struct {
	Slots       int
	Rate        float64 // requests a slot
	Poisson     bool    // the number of requests varies
	Correlation float64 // of the medians of neighbouring slots
	Spread      float64 // standard deviation of the slots' log medians
	// Memory, if not 0, makes the log medians fractional noise of this order of
	// integration: they remember for as long as they last.
	Memory float64
	// Sojourn, if not 0, makes them switch between two values, each of which lasts for
	// so many slots on average.
	Sojourn float64
	// Busy, if not 0, is the load of a queue that is answered, 1 at most: what wanders
	// is then the logarithm of the load, and the latency follows from it.
	Busy float64
	// Season is the amplitude of a daily season of the log medians, 8640 slots
	// long; Start is where in it the side begins.
	Season float64
	Start  int
	Strata []Stratum
}

// Stratum is a kind of requests.
type Stratum struct {
	Share  float64 // of the requests
	Median float64 // in seconds
	Sigma  float64 // of the log; 0.6 unless set
	Pareto float64 // if not 0, requests are Median times a Pareto variable with this index
	// Slower multiplies the slowest requests of each slot, a share Tail of them;
	// it tapers to nothing, in the logarithm, at three times that share. 0
	// changes nothing, Tail 1 changes all.
	Slower, Tail float64
}

// Plain is one stratum of log-normal requests.
func Plain() []Stratum { return []Stratum{{Share: 1, Median: 0.1}} }

// Heavy is one stratum with a Pareto tail whose variance is infinite.
func Heavy() []Stratum { return []Stratum{{Share: 1, Median: 0.1, Pareto: 1.5}} }

// Counts are one stratum's observations, by slot and bucket.
type Counts struct {
	Slots  [][]float64
	Used   [][2]int // per slot, the range of buckets outside of which are none
	Sums   []float64
	Series *stat.Series
	flat   []float64
}

// spare holds the rows of sides that are done with: they are large.
var spare sync.Pool

func rows(slots int) []float64 {
	n := slots * (len(edges) - 1)
	if flat, ok := spare.Get().(*[]float64); ok && cap(*flat) >= n {
		clear((*flat)[:n])
		return (*flat)[:n]
	}
	return make([]float64, n)
}

// free gives a side's rows back; it must not be used any more.
func free(side []*Counts) {
	for _, c := range side {
		c.Slots = nil
		spare.Put(&c.flat)
	}
}

// The buckets of a simulated side reach from 2^-10 s to 2^12 s; what lies
// beyond is counted in the outermost.
const lowest, highest = -10 * perOctave, 12 * perOctave

var edges = func() []float64 {
	e := make([]float64, 0, highest-lowest+2)
	for k := lowest - 1; k <= highest; k++ {
		e = append(e, math.Exp2(float64(k)/perOctave))
	}
	return e
}()

// medians draws the log factors of the slots' medians.
func (l *Load) medians(r *rand.Rand) []float64 { return l.course(r, l.Slots).medians }

// Draw draws a side, one Series for each stratum.
func (l *Load) Draw(r *rand.Rand) []*Counts { return l.draw(r, l.course(r, l.Slots)) }

// DrawPair draws two sides whose slots share their medians, as mirrored traffic
// does.
func DrawPair(r *rand.Rand, a, b *Load) (ca, cb []*Counts) {
	c := a.course(r, a.Slots)
	return a.draw(r, c), b.draw(r, c)
}

// DrawApart draws two sides of one course, of which b begins so many slots after a.
func DrawApart(r *rand.Rand, a, b *Load, apart int) (ca, cb []*Counts) {
	c := a.course(r, apart+b.Slots)
	return a.draw(r, c.cut(0, a.Slots)), b.draw(r, c.cut(apart, apart+b.Slots))
}

func (l *Load) draw(r *rand.Rand, c course) []*Counts {
	out := make([]*Counts, len(l.Strata))
	for i := range l.Strata {
		out[i] = l.Strata[i].draw(r, l, c)
	}
	return out
}

func (s *Stratum) draw(r *rand.Rand, l *Load, of course) *Counts {
	c := &Counts{Slots: make([][]float64, l.Slots), Used: make([][2]int, l.Slots), Sums: make([]float64, l.Slots)}
	flat := rows(l.Slots)
	c.flat = flat
	sigma := s.Sigma
	if sigma == 0 {
		sigma = 0.6
	}
	base := math.Log(s.Median)
	slower := 0.0
	if s.Slower > 0 {
		slower = math.Log(s.Slower)
	}
	// Between bar and full, in the unit of the draw, the change sets in.
	bar, full := math.Inf(-1), math.Inf(-1)
	if s.Tail < 1 {
		at := func(tail float64) float64 { return math.Sqrt2 * math.Erfinv(1-2*tail) }
		if s.Pareto > 0 {
			at = func(tail float64) float64 { return -math.Log(tail) }
		}
		bar, full = at(min(0.99, 3*s.Tail)), at(s.Tail)
	}
	for t := range c.Slots {
		row := flat[:len(edges)-1]
		flat = flat[len(row):]
		used := [2]int{len(row), 0}
		share := s.Share
		if of.rates != nil {
			share *= of.rates[t]
		}
		for range l.requests(r, share) {
			var u, x float64
			if s.Pareto > 0 {
				u = r.ExpFloat64()
				x = base + of.medians[t] + u/s.Pareto
			} else {
				u = r.NormFloat64()
				x = base + of.medians[t] + sigma*u
			}
			if u >= full {
				x += slower
			} else if u > bar {
				x += slower * (u - bar) / (full - bar)
			}
			k := int(math.Ceil(x * (perOctave / math.Ln2)))
			k = min(max(k, lowest), highest) - lowest
			row[k]++
			used[0], used[1] = min(used[0], k), max(used[1], k+1)
			c.Sums[t] += math.Exp(x)
		}
		c.Slots[t], c.Used[t] = row, [2]int{min(used[0], used[1]), used[1]}
	}
	return c
}

// requests returns how many requests of a share there are in a slot.
func (l *Load) requests(r *rand.Rand, share float64) int {
	n := l.Rate * share
	if !l.Poisson {
		whole := math.Floor(n)
		if r.Float64() < n-whole {
			whole++
		}
		return int(whole)
	}
	// Knuth's product, in parts small enough for it.
	k := 0
	for n > 0 {
		part := min(n, 30)
		n -= part
		for p := r.Float64(); p > math.Exp(-part); p *= r.Float64() {
			k++
		}
	}
	return k
}

// Of makes the series of a side.
func Of(side []*Counts) (stat.Side, error) {
	out := make(stat.Side, len(side))
	for i, c := range side {
		if c.Series == nil {
			s, err := stat.NewSeriesOfCounts(edges, c.Slots, c.Sums)
			if err != nil {
				return nil, err
			}
			c.Series = s
		}
		out[i] = c.Series
	}
	return out, nil
}
