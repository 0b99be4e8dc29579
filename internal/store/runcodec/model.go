package runcodec

import (
	"math/bits"
	"sync"

	"tailscope/hist"
)

// A level stands for an expected count: level i for 2^((i-oneLevel)/4).
const (
	levels   = 140
	oneLevel = 48
	steps    = 16 // distances from the expected count, in units, with cells of their own

	fraction    = 12                   // weights are counts in units of 2^-12
	little      = 40                   // weight of a bucket that was never seen
	maxGain     = 1<<(31-fraction) - 1 // upper bound on the share of a count in a weight
	learned     = 48                   // number of points that a series' weights average over
	carried     = 2                    // weight of a prior, in points
	buckets     = 2048                 // of schema 5, from that of one nanosecond
	octets      = buckets / 8          // single values are located by eight buckets, within which their density hardly changes
	symbols     = 64                   // of the trees for gaps and residues
	maxNanos    = 1 << 51              // longer durations are stored raw
	first       = -956                 // bucket of one nanosecond
	slotSymbols = 32                   // gaps below have symbols of their own
)

// residue models a signed number around zero: its sign, and its magnitude in units of
// its expected deviation.
type residue struct {
	sign cell
	tree [symbols]cell
}

func (r *residue) reset() {
	r.sign = even
	fill(r.tree[:])
}

func fill(t []cell) {
	for i := range t {
		t[i] = even
	}
}

// step holds the cells of one expected count: whether it is reached, and then
// whether the count lies further off, upwards or downwards.
type step struct {
	reach cell
	up    [steps]cell
	down  [steps]cell
}

// classes of points
const (
	dense   = 0 // a histogram coded bucket by bucket; 1 to 3: so many values
	raw     = 4 // the compact form, unchanged
	none    = 5 // before the first
	general = 6 // any other distribution, see general.go
)

// model is the state that encoder and decoder learn alike. It is all integers: both must
// compute the same on any machine.
type model struct {
	gap   [3][symbols]cell
	class [general + 1][8]cell
	next  [3]cell // whether the gap is 1
	value [3][octets]cell
	other [256]cell // bytes of raw points
	count [40]residue
	low   residue
	high  residue
	sum   [2]residue
	steps [levels]step

	// Of general points.
	same     cell // whether the header is that of the one before
	extremes [4]cell
	sums     [4]cell
	lengths  [128]cell
	header   header
	middles  [buckets]float64 // of the header's buckets, 0 until needed

	space space // of the shapes
	// The shape of the current series: mean counts per point of buckets lo..hi.
	weight [buckets]uint32
	lo, hi int
	points int // number of points it was learnt from, up to learned
	// The shape of the group's previous series.
	prior            [buckets]uint32
	priorLo, priorHi int // empty if priorHi < priorLo
	// Means, in units of 2^-8: of the count, of the first and last bucket.
	meanCount, meanLow, meanHigh    int64
	priorCount, priorLow, priorHigh int64
	fresh                           bool // no dense point yet in this series

	last  int // class of the point before
	where int // 0: no point yet in this series; 1: the last gap was 1; 2: it was longer
	slot  int64

	scratch [buckets + 2]uint32
}

func (m *model) reset() {
	for i := range m.gap {
		fill(m.gap[i][:])
	}
	fill(m.next[:])
	for i := range m.class {
		fill(m.class[i][:])
	}
	for i := range m.value {
		fill(m.value[i][:])
	}
	fill(m.other[:])
	for i := range m.count {
		m.count[i].reset()
	}
	m.low.reset()
	m.high.reset()
	m.sum[0].reset()
	m.sum[1].reset()
	m.steps = *poisson()
	m.same = even
	fill(m.extremes[:])
	fill(m.sums[:])
	fill(m.lengths[:])
	m.header = header{}
	m.space = denseSpace
	m.last = none
	m.points = 0
	m.fresh = true
	m.group()
	m.series()
}

func (m *model) group() {
	m.keep()
	m.priorLo, m.priorHi = 1, 0
	m.priorCount = 0
}

// keep merges the current series into the group's prior.
func (m *model) keep() {
	if m.fresh {
		return
	}
	m.fresh = true
	if m.priorHi < m.priorLo {
		copy(m.prior[m.lo:m.hi+1], m.weight[m.lo:m.hi+1])
		m.priorLo, m.priorHi = m.lo, m.hi
		m.priorCount, m.priorLow, m.priorHigh = m.meanCount, m.meanLow, m.meanHigh
		return
	}
	for k := m.lo; k < m.priorLo; k++ {
		m.prior[k] = 0
	}
	for k := m.priorHi + 1; k <= m.hi; k++ {
		m.prior[k] = 0
	}
	m.priorLo, m.priorHi = min(m.lo, m.priorLo), max(m.hi, m.priorHi)
	for k := m.priorLo; k <= m.priorHi; k++ {
		w := uint32(0)
		if k >= m.lo && k <= m.hi {
			w = m.weight[k]
		}
		m.prior[k] += uint32((int64(w) - int64(m.prior[k])) >> 2)
	}
	m.priorCount += (m.meanCount - m.priorCount) >> 2
	m.priorLow += (m.meanLow - m.priorLow) >> 2
	m.priorHigh += (m.meanHigh - m.priorHigh) >> 2
}

func (m *model) series() {
	m.keep()
	m.where, m.slot = 0, -1
}

// begin prepares for the first dense point of a series.
func (m *model) begin() {
	if !m.fresh {
		return
	}
	m.fresh = false
	if m.priorHi < m.priorLo {
		m.points, m.lo, m.hi = 0, 1, 0
		m.meanCount, m.meanLow, m.meanHigh = 0, 0, 0
		return
	}
	m.points, m.lo, m.hi = carried, m.priorLo, m.priorHi
	copy(m.weight[m.lo:m.hi+1], m.prior[m.lo:m.hi+1])
	m.meanCount, m.meanLow, m.meanHigh = m.priorCount, m.priorLow, m.priorHigh
}

// cover extends the shape to the buckets from lo to hi.
func (m *model) cover(lo, hi int) {
	if m.hi < m.lo {
		clear(m.weight[lo : hi+1])
		m.lo, m.hi = lo, hi
		return
	}
	if lo < m.lo {
		clear(m.weight[lo:m.lo])
		m.lo = lo
	}
	if hi > m.hi {
		clear(m.weight[m.hi+1 : hi+1])
		m.hi = hi
	}
}

// expect returns the weights of buckets lo to hi, smoothed, and their sum.
func (m *model) expect(lo, hi int) ([]uint32, uint64) {
	m.cover(lo, hi)
	v := m.scratch[:hi-lo+1]
	w := m.weight[lo : hi+1]
	var before uint32
	if lo > m.lo {
		before = m.weight[lo-1]
	}
	total := uint64(0)
	for i := range v {
		here := w[i]
		after := uint32(0)
		if i+1 < len(w) {
			after = w[i+1]
		} else if hi < m.hi {
			after = m.weight[hi+1]
		}
		x := before>>2 + here>>1 + after>>2 + little
		before = here
		v[i] = x
		total += uint64(x)
	}
	return v, total
}

// learnShape moves the shape towards a point's counts, of buckets lo to hi.
func (m *model) learnShape(lo, hi int, counts []uint64) {
	r := int64(131072 / (2*m.points + 3))
	if m.points < learned {
		m.points++
	}
	for k := m.lo; k < lo; k++ {
		w := &m.weight[k]
		*w = uint32(int64(*w) - int64(*w)*r>>16)
	}
	w := m.weight[lo : hi+1]
	counts = counts[:len(w)]
	for i, c := range counts {
		c := int64(min(c, maxGain)) << fraction
		w[i] = uint32(int64(w[i]) + (c-int64(w[i]))*r>>16)
	}
	for k := hi + 1; k <= m.hi; k++ {
		w := &m.weight[k]
		*w = uint32(int64(*w) - int64(*w)*r>>16)
	}
}

// learnMeans does the same for the count and the ends.
func (m *model) learnMeans(count uint64, lo, hi int) {
	r := int64(131072 / (2*m.points + 3))
	move := func(mean *int64, v int64) { *mean += (v<<8 - *mean) * r >> 16 }
	move(&m.meanCount, int64(min(count, 1<<36)))
	move(&m.meanLow, int64(lo))
	move(&m.meanHigh, int64(hi))
}

// countUnit returns the unit of the count's residue, and its model.
func (m *model) countUnit() (unit uint, r *residue) {
	n := length(uint64(m.meanCount >> 8)) // the deviation is about 2^(n/2)
	if n > 6 {
		unit = n/2 - 3
	}
	return unit, &m.count[min(n, 39)]
}

var logs = [32]int32{0, 1, 2, 2, 3, 4, 4, 5, 5, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 11, 12, 12, 13, 13, 14, 14, 14, 15, 15, 15, 16}

// log2 returns the logarithm of x > 0 in sixteenths.
func log2(x uint64) int32 {
	n := bits.LeadingZeros64(x)
	return int32(63-n)<<4 + logs[x<<uint(n)>>58&31]
}

// level returns the level of an expected count, given its logarithm.
func level(log int32) int32 {
	return max(0, min(levels-1, (log+2)>>2+oneLevel))
}

// wanted returns the expected count of a bucket that has weight of the total, and shares
// in rest observations; log is its logarithm.
func wanted(log int32, weight, rest, total uint64) uint64 {
	if log < sure {
		return uint64(counts16[max(0, log+16)])
	}
	hi, lo := bits.Mul64(weight, rest)
	n, _ := bits.Div64(hi, lo, total) // less than rest, as weight is less than total
	return n
}

// sure is the logarithm of 256, from which on expected counts are computed.
const sure = 8 * 16

// counts16 holds the counts whose logarithms in sixteenths are -16 and up.
var counts16 = func() (t [sure + 16]uint16) {
	// 2^(i/16) in 32 bits of fraction.
	roots := [16]uint64{4294967296, 4485121744, 4683695048, 4891059943, 5107605667, 5333738689, 5569883475, 5816483285, 6074001000, 6342919999, 6623745059, 6917003306, 7223245206, 7543045592, 7877004752, 8225749546}
	for i := range t {
		k := i - 16
		if k < 0 {
			if k >= -8 { // 0.7 and more
				t[i] = 1
			}
			continue
		}
		t[i] = uint16((roots[k&15]<<uint(k>>4)>>31 + 1) >> 1)
	}
	return t
}()

// units holds the unit of deviations from the expected count of each level: a power of
// two, about a quarter of the standard deviation.
var units = func() (u [levels]uint) {
	for i := range u {
		if n := uint(max(0, i-oneLevel)) / 8; n > 2 {
			u[i] = n - 2
		}
	}
	return u
}()

// poisson returns the initial cells of the counts: those of Poisson distributions. Only
// operations that give the same on every machine are used; conversions keep them from
// being fused.
var poisson = sync.OnceValue(func() *[levels]step {
	roots := [4]float64{1, 1.189207115002721, 1.4142135623730951, 1.681792830507429}
	table := new([levels]step)
	for i := range table {
		s := &table[i]
		s.reach = even
		fill(s.up[:])
		fill(s.down[:])
		k := i - oneLevel + 64
		lambda := float64(roots[k&3] * float64(uint64(1)<<uint(k>>2)) / 65536)
		if lambda > 400 {
			// Nearly the same as the last one that is computed.
			*s = table[i-1]
			continue
		}
		// Terms relative to the one at the expected count, up and down.
		m := int(lambda + 0.5)
		if i < oneLevel {
			m = int(counts16[max(0, (i-oneLevel)*4+16)])
		}
		unit := 1 << units[i]
		up := []float64{1}
		for j := m + 1; len(up) < 600; j++ {
			up = append(up, float64(up[len(up)-1]*lambda/float64(j)))
		}
		down := []float64{}
		for j, t := m, 1.0; j > 0; j-- {
			t = float64(t * float64(j) / lambda)
			down = append(down, t)
		}
		tail := func(t []float64, from int) float64 {
			sum := 0.0
			for j := len(t) - 1; j >= from; j-- {
				sum += t[j]
			}
			return sum
		}
		above, below := tail(up, 0), tail(down, 0)
		s.reach = chance(above, below)
		for j := range steps {
			s.up[j] = chance(tail(up, (j+1)*unit), tail(up, j*unit)-tail(up, (j+1)*unit))
			s.down[j] = chance(tail(down, (j+1)*unit), tail(down, j*unit)-tail(down, (j+1)*unit))
		}
	}
	return table
})

// chance returns the cell of probability yes/(yes+no), with some confidence.
func chance(yes, no float64) cell {
	const confidence = 30
	p := 0.5
	if yes+no > 0 {
		p = float64(yes / (yes + no))
	}
	p = max(0.0005, min(0.9995, p))
	return cell(uint32(float64(p*(1<<22))))<<10 | confidence
}

func length(v uint64) uint { return uint(bits.Len64(v)) }

// phaseIn returns how to write a number below size: in n bits if it is below spare, else
// in n+1.
func phaseIn(size uint64) (n uint, spare uint64) {
	n = length(size) - 1
	return n, 2<<n - size
}

// spans holds the schema-5 buckets in nanoseconds: bucket first+i holds start[i] to
// start[i+1]-1, which may be empty.
var spans = sync.OnceValue(func() *[buckets + 1]int64 {
	s := new([buckets + 1]int64)
	s[0] = 1
	for i := 1; i <= buckets; i++ {
		ns := int64(hist.UpperBound(int32(first+i-1), hist.DefaultSchema) * 1e9)
		if ns >= 1<<60 || ns < 0 {
			s[i] = 1 << 60
			continue
		}
		// The first nanosecond beyond bucket first+i-1.
		ns = max(1, ns-2)
		for hist.BucketIndex(hist.Seconds(ns), hist.DefaultSchema) <= int32(first+i-1) {
			ns++
		}
		for ns > 1 && hist.BucketIndex(hist.Seconds(ns-1), hist.DefaultSchema) > int32(first+i-1) {
			ns--
		}
		s[i] = ns
	}
	return s
})

// bucketOf returns the index of the bucket of ns in [1, maxNanos).
func bucketOf(ns int64) int {
	return int(hist.BucketIndex(hist.Seconds(ns), hist.DefaultSchema)) - first
}

// midpoints returns the sum of counts times the middle of their buckets, with the exact
// extremes in place of theirs. log is the logarithm, in halves, of the expected
// deviation of the true sum. Overflow wraps, alike on both sides.
func midpoints(spans *[buckets + 1]int64, lo, hi int, counts []uint64) (sum int64, log uint) {
	shift := uint(0)
	if n := length(uint64(spans[hi+1] - spans[hi])); n > 16 {
		shift = n - 16
	}
	var variance uint64
	var twice uint64
	s := spans[lo : hi+2]
	for i, c := range counts[:hi-lo+1] {
		a, b := uint64(s[i]), uint64(s[i+1])
		twice += c * (a + b - 1)
		w := (b - a) >> shift
		variance += c * (w * w)
	}
	return int64(twice >> 1), length(variance/12) + 2*shift
}

// sumUnit returns the sum that a point's counts and extremes suggest, the unit of its
// residue, and its model.
func (m *model) sumUnit(spans *[buckets + 1]int64, p *point) (estimate int64, unit uint, r *residue) {
	estimate, log := midpoints(spans, p.lo, p.hi, p.counts)
	for _, k := range [...]int{p.lo, p.hi} {
		estimate -= (spans[k] + spans[k+1] - 1) >> 1
	}
	estimate += p.min + p.max
	if log > 6 {
		unit = log/2 - 3
	}
	return estimate, min(unit, 58), &m.sum[log&1]
}
