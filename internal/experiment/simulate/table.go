package simulate

import (
	"math"
	"math/bits"
	"sync"
)

// source is a stream of random numbers: wyrand (Wang Yi, github.com/wangyi-fudan/wyhash,
// public domain), one multiplication each, passing BigCrush and PractRand.
type source struct{ state uint64 }

// newSource returns a stream of its own for each seed and name.
func newSource(seed uint64, name ...uint64) *source {
	s := &source{seed}
	h := s.next()
	for _, n := range name {
		s.state = h ^ (n+1)*0x9e3779b97f4a7c15
		h = s.next() ^ bits.RotateLeft64(h, 29)
	}
	s.state = h
	return s
}

func (s *source) next() uint64 {
	s.state += 0xa0761d6478bd642f
	high, low := bits.Mul64(s.state, s.state^0xe7037ed1a0b428db)
	return high ^ low
}

// share returns a number in [0, 1).
func (s *source) share() float64 { return float64(s.next()>>11) * 0x1p-53 }

// exponential returns an exponential number of mean 1.
func (s *source) exponential() float64 { return -math.Log1p(-s.share()) }

// below returns a number in [0, n).
func (s *source) below(n int) int {
	high, _ := bits.Mul64(s.next(), uint64(n))
	return int(high)
}

// octaves is the fineness of tails: the rarest piece has a chance of 2^-octaves.
const (
	octaves   = 32
	pieceBits = 8
	pieces    = 1 << pieceBits // of an octave
)

// cell is a piece of a quantile function: base + slope·f for f in [0, 1).
type cell struct{ base, slope float32 }

// table draws from a distribution. Its cells are pieces of the quantile function that
// get finer towards the tail: half of them halve the chance above, so the relative
// error of a tail's chance is at most 1/pieces everywhere. The number of leading zeros of
// a random number picks the octave, its next bits the piece, the rest the place within.
type table struct {
	cells []cell
	// scores holds the same by the normal score, from -scoreRange to scoreRange.
	scores []cell
}

const (
	// Scores are drawn up to 6.5, so sums of two do not reach the range.
	scoreRange = 10
	scoreSteps = 128 // to one standard deviation
)

func piece(low, high float64) cell { return cell{float32(low), float32(high - low)} }

func newCells(quantile func(p float64) float64) []cell {
	cells := make([]cell, octaves*pieces)
	for o := octaves - 1; o >= 0; o-- {
		half := 1 / float64(uint64(2)<<o)
		at := quantile(1 - half)
		for i := range pieces {
			next := quantile(1 - half*(1+float64(i+1)/pieces))
			cells[o*pieces+i] = piece(at, next)
			at = next
		}
	}
	return cells
}

func newScores(quantile func(p float64) float64) []cell {
	scores := make([]cell, 2*scoreRange*scoreSteps)
	at := quantile(0)
	for i, p := range scoreShares() {
		next := quantile(p)
		scores[i] = piece(at, next)
		at = next
	}
	return scores
}

// scoreShares holds the normal distribution function at the ends of scores' pieces.
var scoreShares = sync.OnceValue(func() []float64 {
	p := make([]float64, 2*scoreRange*scoreSteps)
	for i := range p {
		p[i] = normal(float64(i+1)/scoreSteps - scoreRange)
	}
	return p
})

// normal returns the standard normal distribution function.
func normal(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }

// score is the inverse of normal.
func score(p float64) float64 { return -math.Sqrt2 * math.Erfcinv(2*p) }

// draw turns a random number into a duration.
func (t *table) draw(r uint64) float64 {
	zeros := bits.LeadingZeros64(r | 1<<(64-octaves))
	r <<= uint(zeros+1) & 63
	c := &t.cells[uint(zeros)<<pieceBits|uint(r>>(64-pieceBits))]
	return float64(c.base + c.slope*(float32(uint32(r<<pieceBits>>40))*0x1p-24))
}

// at returns the duration of a normal score. The score is a sum of two that were
// drawn, whose squared weights add up to at most 1.
func (t *table) at(z float64) float64 {
	f := (z + scoreRange) * scoreSteps
	i := int(f)
	c := &t.scores[i]
	return float64(c.base) + float64(c.slope)*(f-float64(i))
}

// halfNormal is the distribution of a normal score without its sign.
var halfNormal = sync.OnceValue(func() *table {
	return &table{cells: newCells(func(p float64) float64 { return min(score((1+p)/2), 6.5) })}
})

// drawScore turns a random number into a normal score.
func drawScore(t *table, r uint64) float64 {
	return math.Float64frombits(math.Float64bits(t.draw(r)) ^ r<<63)
}
