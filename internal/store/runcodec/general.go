package runcodec

import (
	"math"
	"slices"

	"tailscope/hist"
)

// General points are the distributions that senders make: exponential histograms of any
// schema, explicit bounds, sums and extremes that are no whole nanoseconds or are
// unknown, weights, zeros. Their buckets are counted as those of dense points are. The
// other fields of a point are those of the last general one, or are written whole:
//
//	same bit | else: flags, schema, [bounds], [error], first bucket of the window
//	positive count, first and last bucket | [zero count] | buckets | [squares]
//	kind of extremes, [min, max] | kind of sum, sum

// space is where the buckets of a shape lie: bucket 0 of the model is the bucket first of
// the schema.
type space struct {
	schema int8
	first  int32
}

var denseSpace = space{hist.DefaultSchema, first}

// header holds the fields in which a series' points seldom differ.
type header struct {
	flags  byte
	bounds []float64 // of explicit points
	err    float64
	space  space
}

const (
	hasZeros     = 1 << 0 // observations in the zero bucket
	hasThreshold = 1 << 1 // hist's default zero threshold, else 0
	hasError     = 1 << 2
	isWeighted   = 1 << 3
	isExplicit   = 1 << 4
	knownFlags   = 1<<5 - 1
)

func (h *header) equal(o *header) bool {
	return h.flags == o.flags && h.err == o.err && h.space == o.space && slices.Equal(h.bounds, o.bounds)
}

// kinds of extremes and of sums
const (
	unknown = 0 // extremes only
	nanos   = 1 // whole nanoseconds
	floats  = 2
	whole64 = 3 // bits of the float64s, unchanged
)

// between returns the bounds of a bucket of the model: values in it are above low and at
// most high.
func (h *header) between(i int) (low, high float64) {
	if h.flags&isExplicit == 0 {
		at := h.space.first + int32(i)
		return hist.UpperBound(at-1, h.space.schema), hist.UpperBound(at, h.space.schema)
	}
	high = math.MaxFloat64
	if i < len(h.bounds) {
		high = h.bounds[i]
	}
	if i > 0 {
		low = h.bounds[i-1]
	}
	return low, high
}

// enter moves the shape to another space, where nothing is known of it.
func (m *model) enter(s space) {
	if m.space == s {
		return
	}
	m.space = s
	m.fresh = true
	m.priorLo, m.priorHi = 1, 0
	m.priorCount = 0
}

// estimate returns the sum that the counts suggest. The conversion keeps the product from
// being fused, which would not be the same on every machine.
func (m *model) estimate(h *header, p *point) float64 {
	sum := 0.0
	middles := m.middles[p.lo:][:len(p.counts)]
	for i, c := range p.counts {
		if c == 0 {
			continue
		}
		mid := middles[i]
		if mid == 0 {
			low, high := h.between(p.lo + i)
			mid = low/2 + high/2
			middles[i] = mid
		}
		sum += float64(float64(int64(c)) * mid) // counts are below 2^63
	}
	return sum
}

// wholeNanos returns seconds as nanoseconds, roughly, and 0 for what is out of range.
func wholeNanos(v float64) int64 {
	if v = float64(v * 1e9); v > 0 && v < 1<<62 {
		return int64(v)
	}
	return 0
}

// describe returns the point in e.h as a general one. It is not ok if a decoder would not
// make the same bytes of it.
func (e *Encoder) describe() (p point, hd header, ok bool) {
	h := &e.h
	for _, c := range h.Negative.Counts {
		if c != 0 {
			return p, hd, false
		}
	}
	if h.Count == 0 || math.IsNaN(h.Min) != math.IsNaN(h.Max) {
		return p, hd, false
	}
	hd.err, hd.space.schema = h.Error, h.Schema
	switch {
	case h.Schema == hist.Explicit:
		hd.flags |= isExplicit
		hd.bounds = h.Bounds
		if len(h.Bounds) >= buckets {
			return p, hd, false
		}
	case h.ZeroThreshold == hist.DefaultZeroThreshold:
		hd.flags |= hasThreshold
	case h.ZeroThreshold != 0:
		return p, hd, false
	}
	if h.Error != 0 {
		hd.flags |= hasError
	}
	if h.Weighted {
		hd.flags |= isWeighted
	}
	if h.ZeroCount != 0 {
		hd.flags |= hasZeros
	}
	counts := h.Positive.Counts
	i, j := 0, len(counts)
	for j > 0 && counts[j-1] == 0 {
		j--
	}
	for i < j && counts[i] == 0 {
		i++
	}
	if p.count = h.Count - h.ZeroCount; i == j || j-i > buckets || p.count > math.MaxInt64/2 || h.ZeroCount > math.MaxInt64/2 {
		return p, hd, false
	}
	p.counts = counts[i:j]
	lo := int(h.Positive.Offset) + i
	if last := &e.m.header; hd.flags&isExplicit == 0 {
		hd.space.first = last.space.first
		if at := lo - int(hd.space.first); hd.space.schema != last.space.schema || at < 0 || at+j-i > buckets {
			hd.space.first = int32(lo - (buckets-(j-i))/2)
		}
	}
	p.lo = lo - int(hd.space.first)
	p.hi = p.lo + j - i - 1
	return p, hd, true
}

func (e *Encoder) header(hd *header) {
	m := &e.m
	if hd.equal(&m.header) {
		e.c.bit(&m.same, 1)
		return
	}
	e.c.bit(&m.same, 0)
	e.w.bits(uint64(hd.flags), 8)
	e.w.bits(uint64(uint8(hd.space.schema)), 8)
	if hd.flags&isExplicit != 0 {
		e.w.gamma(uint64(len(hd.bounds)))
		for _, b := range hd.bounds {
			e.w.bits(math.Float64bits(b), 64)
		}
		hd.bounds = slices.Clone(hd.bounds)
	} else {
		e.w.bits(uint64(uint32(hd.space.first)), 32)
	}
	if hd.flags&hasError != 0 {
		e.w.bits(math.Float64bits(hd.err), 64)
	}
	m.adopt(hd)
}

// adopt makes the header that of the points that follow.
func (m *model) adopt(hd *header) {
	m.header = *hd
	clear(m.middles[:])
	m.enter(space{schema: hist.MaxSchema + 1}) // even if only the bounds differ
}

func (e *Encoder) general(p *point, hd *header) {
	e.header(hd)
	m, h := &e.m, &e.h
	m.enter(hd.space)
	m.begin()
	unit, r := m.countUnit()
	e.residue(r, unit, int64(p.count)-m.meanCount>>8)
	e.residue(&m.low, 0, int64(p.lo)-m.meanLow>>8)
	e.residue(&m.high, 0, int64(p.hi)-m.meanHigh>>8)
	if hd.flags&hasZeros != 0 {
		e.w.gamma(h.ZeroCount)
	}
	if p.count > 1 {
		e.counts(p)
	}
	if hd.flags&isWeighted != 0 {
		e.w.bits(math.Float64bits(h.Squares), 64)
	}
	e.extremes(hd, p)
	e.sum(m.estimate(hd, p))
	m.learnShape(p.lo, p.hi, p.counts)
	m.learnMeans(p.count, p.lo, p.hi)
}

func (e *Encoder) extremes(hd *header, p *point) {
	m, h := &e.m, &e.h
	if math.IsNaN(h.Min) {
		e.c.tree(m.extremes[:], 2, unknown)
		return
	}
	values := [2]float64{h.Min, h.Max}
	var from, size [2]uint64 // where the values may lie
	for kind := uint32(nanos); kind < whole64; kind++ {
		var at [2]uint64
		ok := true
		for i, k := range [...]int{p.lo, p.hi} {
			from[i], size[i] = m.extremeRange(hd, k, kind)
			v := math.Float64bits(values[i])
			if kind == nanos {
				ns, whole := hist.Nanos(values[i])
				ok = ok && whole
				v = uint64(ns)
			}
			at[i] = v - from[i]
			ok = ok && values[i] > 0 && v >= from[i] && at[i] < size[i]
		}
		if ok {
			e.c.tree(m.extremes[:], 2, kind)
			e.w.below(at[0], size[0])
			e.w.below(at[1], size[1])
			return
		}
	}
	e.c.tree(m.extremes[:], 2, whole64)
	for _, v := range values {
		e.w.bits(math.Float64bits(v), 64)
	}
}

// extremeRange returns the least value of a bucket, and how many there are, as nanoseconds
// or as bits of float64s.
func (m *model) extremeRange(h *header, bucket int, kind uint32) (from, size uint64) {
	low, high := h.between(bucket)
	if !(low >= 0) || !(high > low) {
		low, high = 0, math.MaxFloat64
	}
	if kind == nanos {
		if high >= 1<<32 {
			high = 1 << 32
		}
		a, b := wholeNanos(low), wholeNanos(high)
		return uint64(a), uint64(max(b-a, 0)) + 2
	}
	a, b := math.Float64bits(low), math.Float64bits(high)
	return a, b - a + 1
}

// sum codes the sum by its distance from the estimate.
func (e *Encoder) sum(estimate float64) {
	m, h := &e.m, &e.h
	if ns, ok := h.SumNanos(); ok && math.Float64bits(hist.Seconds(ns)) == math.Float64bits(h.Sum) {
		e.c.tree(m.sums[:], 2, nanos)
		e.distance(uint64(ns) - uint64(wholeNanos(estimate)))
		return
	}
	if h.Sum > 0 {
		e.c.tree(m.sums[:], 2, floats)
		e.distance(math.Float64bits(h.Sum) - math.Float64bits(estimate))
		return
	}
	e.c.tree(m.sums[:], 2, whole64)
	e.w.bits(math.Float64bits(h.Sum), 64)
}

// distance codes a signed number by its length.
func (e *Encoder) distance(d uint64) {
	z := d<<1 ^ uint64(int64(d)>>63)
	n := length(z)
	e.c.tree(e.m.lengths[:], 7, uint32(n))
	if n > 1 {
		e.w.bits(z&(1<<(n-1)-1), n-1)
	}
}

func (d *Decoder) distance() uint64 {
	n := uint(d.c.tree(d.m.lengths[:], 7))
	if n > 64 {
		d.fail("a sum's distance of %d bits", n)
		return 0
	}
	z := uint64(n)
	if n > 1 {
		z = 1<<(n-1) | d.r.bits(n-1)
	}
	return z>>1 ^ -(z & 1)
}

func (d *Decoder) header() *header {
	m := &d.m
	if d.c.bit(&m.same) == 1 {
		return &m.header
	}
	hd := header{flags: byte(d.r.bits(8)), space: space{schema: int8(d.r.bits(8))}}
	explicit := hd.flags&isExplicit != 0
	switch {
	case hd.flags > knownFlags || explicit != (hd.space.schema == hist.Explicit) ||
		!explicit && (hd.space.schema < hist.MinSchema || hd.space.schema > hist.MaxSchema):
		d.fail("general points of schema %d", hd.space.schema)
	case explicit:
		n := d.r.gamma()
		if n >= buckets {
			d.fail("%d bounds", n)
			break
		}
		hd.bounds = make([]float64, n) // histograms that are handed out share it
		for i := range hd.bounds {
			hd.bounds[i] = math.Float64frombits(d.r.bits(64))
		}
	default:
		hd.space.first = int32(uint32(d.r.bits(32)))
	}
	if hd.flags&hasError != 0 {
		hd.err = math.Float64frombits(d.r.bits(64))
	}
	if d.err == nil {
		m.adopt(&hd)
	}
	return &m.header
}

// general reads a general point into view.
func (d *Decoder) general() {
	hd := d.header()
	if d.err != nil {
		return
	}
	m, p, h := &d.m, &d.p, &d.view
	m.enter(hd.space)
	m.begin()
	unit, r := m.countUnit()
	p.count = uint64(m.meanCount>>8 + d.residue(r, unit))
	lo := m.meanLow>>8 + d.residue(&m.low, 0)
	hi := m.meanHigh>>8 + d.residue(&m.high, 0)
	explicit := hd.flags&isExplicit != 0
	if p.count < 1 || p.count > math.MaxInt64/2 || lo < 0 || hi < lo || hi >= buckets || p.count == 1 && lo != hi ||
		explicit && hi > int64(len(hd.bounds)) {
		d.fail("%d observations in buckets %d to %d", p.count, lo, hi)
		return
	}
	p.lo, p.hi = int(lo), int(hi)
	h.Reset(hist.DefaultSchema)
	h.Schema, h.Error, h.Weighted, h.Bounds = hd.space.schema, hd.err, hd.flags&isWeighted != 0, hd.bounds
	if hd.flags&hasThreshold == 0 {
		h.ZeroThreshold = 0
	}
	if hd.flags&hasZeros != 0 {
		h.ZeroCount = min(d.r.gamma(), math.MaxInt64/2)
	}
	h.Count = p.count + h.ZeroCount
	if p.count == 1 {
		d.window[0] = 1
		p.counts = d.window[:1]
	} else if !d.counts() {
		d.fail("counts of %d observations", p.count)
		return
	}
	if explicit {
		h.Positive.Counts = append(slices.Grow(d.explicit[:0], len(hd.bounds)+1), make([]uint64, p.lo)...)
		h.Positive.Counts = append(h.Positive.Counts, p.counts...)
		h.Positive.Counts = append(h.Positive.Counts, make([]uint64, len(hd.bounds)-p.hi)...)
		d.explicit = h.Positive.Counts
	} else {
		h.Positive = hist.Buckets{Offset: hd.space.first + int32(p.lo), Counts: p.counts}
	}
	if h.Weighted {
		h.Squares = math.Float64frombits(d.r.bits(64))
	}
	d.extremes(hd)
	d.sum(m.estimate(hd, p))
	if d.err == nil && h.Validate() != nil {
		d.fail("a point that contradicts itself")
	}
	m.learnShape(p.lo, p.hi, p.counts)
	m.learnMeans(p.count, p.lo, p.hi)
}

func (d *Decoder) extremes(hd *header) {
	m, h := &d.m, &d.view
	var values [2]float64
	kind := d.c.tree(m.extremes[:], 2)
	for i, k := range [...]int{d.p.lo, d.p.hi} {
		switch kind {
		case unknown:
			return
		case whole64:
			values[i] = math.Float64frombits(d.r.bits(64))
		default:
			from, size := m.extremeRange(hd, k, kind)
			v := from + d.r.below(size)
			if values[i] = math.Float64frombits(v); kind == nanos {
				values[i] = hist.Seconds(int64(v))
			}
		}
	}
	h.Min, h.Max = values[0], values[1]
}

func (d *Decoder) sum(estimate float64) {
	switch h := &d.view; d.c.tree(d.m.sums[:], 2) {
	case nanos:
		h.SetSumNanos(int64(uint64(wholeNanos(estimate)) + d.distance()))
	case floats:
		h.Sum = math.Float64frombits(math.Float64bits(estimate) + d.distance())
	default:
		h.Sum = math.Float64frombits(d.r.bits(64))
	}
}
