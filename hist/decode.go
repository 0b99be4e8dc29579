package hist

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// Moment holds the moments of a distribution, without its buckets.
type Moment struct {
	Count         uint64
	Sum, Min, Max float64 // Min and Max are NaN when Count is 0 or they are unknown
	Weighted      bool
	Squares       float64 // as Histogram's
}

// Effective is Histogram's, of these moments.
func (m *Moment) Effective() float64 { return effective(m.Count, m.SquaredWeights()) }

// Moment returns the moments of h.
func (h *Histogram) Moment() Moment {
	m := Moment{Count: h.Count, Sum: h.Sum, Min: h.Min, Max: h.Max, Weighted: h.Weighted}
	if h.Weighted {
		m.Squares = h.Squares
	}
	return m
}

// Merge adds o to m.
func (m *Moment) Merge(o Moment) {
	if o.Count == 0 {
		return
	}
	if m.Count == 0 {
		*m = o
		return
	}
	if m.Weighted || o.Weighted {
		m.Squares = m.SquaredWeights() + o.SquaredWeights()
		m.Weighted = true
	}
	m.Count += o.Count
	m.Sum += o.Sum
	m.Min = min(m.Min, o.Min) // NaN, for unknown, wins
	m.Max = max(m.Max, o.Max)
}

// SquaredWeights is Histogram's, of these moments.
func (m *Moment) SquaredWeights() float64 {
	if m.Weighted {
		return m.Squares
	}
	return float64(m.Count)
}

// Moments reads count, sum, min, max and squares from the compact form alone, without
// walking the buckets (which it does not check), except of weighted points that lack
// squares. It returns ErrCorrupt.
func Moments(b []byte) (m Moment, err error) {
	var p point
	if err := p.read(b); err != nil {
		return m, err
	}
	m = Moment{Count: p.count, Sum: p.Sum(), Min: p.minimum(), Max: p.maximum(), Weighted: p.weighted}
	switch {
	case p.lacksSquares():
		var h Histogram
		if err := h.UnmarshalBinary(b); err != nil {
			return Moment{}, err
		}
		m.Squares = h.Squares
	case p.weighted:
		m.Squares = p.square
	}
	return m, nil
}

// UnmarshalBinary replaces h by the histogram in compact form, using h's memory; of explicit
// buckets it goes on sharing h's bounds if they are the same. If it
// returns ErrCorrupt, h's content is undefined: Reset it. The buckets of the schema
// bound what a hostile form can make it allocate: at most 4.3 MB a side, at schema 8.
func (h *Histogram) UnmarshalBinary(b []byte) error {
	var p point
	if err := p.read(b); err != nil {
		return err
	}
	bounds := h.Bounds
	h.Reset(DefaultSchema)
	if p.form == explicitForm {
		return h.readExplicit(&p, bounds)
	}
	h.Schema, h.ZeroThreshold = p.schema, p.threshold
	if err := h.mergePoint(&p); err != nil {
		return err
	}
	h.Sum = p.Sum()
	h.exact = exactSum{ok: p.whole, nanos: p.sumNanos, last: h.Sum}
	h.Min, h.Max = p.minimum(), p.maximum()
	h.Error = p.err
	h.boundSquares(&p)
	return nil
}

// boundSquares sets the squares of h, which holds the point p alone. Those of a point
// that lacks them are the greatest that its buckets allow, as if each bucket held one
// observation: so Effective is at least what is known, and never more than was seen.
func (h *Histogram) boundSquares(p *point) {
	h.Weighted, h.Squares = p.weighted, p.square
	if !p.lacksSquares() {
		return
	}
	h.Squares = float64(h.ZeroCount) * float64(h.ZeroCount)
	for _, side := range [...][]uint64{h.Positive.Counts, h.Negative.Counts} {
		for _, c := range side {
			h.Squares += float64(c) * float64(c)
		}
	}
}

// MergeEncoded adds a histogram in its binary form without building it: it is Merge of
// the result of UnmarshalBinary. It allocates only if h's windows must grow or the forms
// differ in kind (explicit buckets and exponential ones). After ErrCorrupt h's content
// is undefined; after ErrInvalid (the count overflows) it is unchanged.
func (h *Histogram) MergeEncoded(b []byte) error {
	if len(b) > 0 && b[0] == wideForm && h.Schema == DefaultSchema && h.ZeroThreshold == DefaultZeroThreshold {
		return h.mergeWide(b[1:])
	}
	var p point
	if err := p.read(b); err != nil {
		return err
	}
	if p.count == 0 {
		return nil
	}
	if h.Count+p.count < h.Count {
		return invalid("count overflows: %d and %d more", h.Count, p.count)
	}
	if p.form == explicitForm || h.Schema == Explicit || p.lacksSquares() {
		return h.mergeUnlike(b, &p)
	}
	return h.mergePoint(&p)
}

// mergeWide adds a wide form to a histogram like it.
func (h *Histogram) mergeWide(b []byte) error {
	var p wide
	if !p.read(b) {
		return corrupt("head")
	}
	if h.Count+p.count < h.Count {
		return invalid("count overflows: %d and %d more", h.Count, p.count)
	}
	total, used := addPlanes(h.Positive.window(p.first, p.first+p.n-1), p.planes)
	if used != len(p.planes) || total != p.count {
		return corrupt("counts of %d observations", p.count)
	}
	lo, hi := Seconds(p.min), Seconds(p.max)
	if h.Count == 0 {
		h.Min, h.Max = lo, hi
	} else {
		// Comparisons are false for an unknown (NaN) extreme: it stays unknown.
		if lo < h.Min {
			h.Min = lo
		}
		if hi > h.Max {
			h.Max = hi
		}
	}
	h.addSquares(false, float64(p.count))
	h.Count += p.count
	h.addNanos(p.sum)
	return nil
}

// mergeUnlike merges where explicit buckets are involved, or squares are lacking.
func (h *Histogram) mergeUnlike(b []byte, p *point) error {
	if p.form == explicitForm && h.Schema == Explicit && h.Count > 0 && !p.lacksSquares() {
		if rest, same := p.sameBounds(h.Bounds); same {
			return h.addExplicit(p, rest)
		}
	}
	var o Histogram
	if err := o.UnmarshalBinary(b); err != nil {
		return err
	}
	return h.Merge(&o)
}

// point is a compact form, read up to its buckets.
type point struct {
	form      byte
	schema    int8
	whole     bool // moments are nanoseconds
	unknown   bool // extremes are not known
	weighted  bool
	negative  bool
	bounds    bool // explicit: bounds are nanoseconds
	count     uint64
	zero      uint64
	threshold float64
	err       float64
	squared   bool    // of a weighted point: it holds squares
	square    float64 // Σw² if squared

	sumNanos, minNanos, maxNanos int64
	midNanos                     int64 // of three
	sum, min, max                float64

	rest []byte // the rest of the form
	wide wide   // for the wide form
}

// lacksSquares reports whether the point was written without the squares of its weights.
func (p *point) lacksSquares() bool { return p.weighted && !p.squared && p.count > 0 }

// squares returns Σw², which the point does not lack.
func (p *point) squares() float64 {
	if p.weighted {
		return p.square
	}
	return float64(p.count)
}

func (p *point) Sum() float64 {
	if p.whole {
		return Seconds(p.sumNanos)
	}
	return p.sum
}

func (p *point) minimum() float64 {
	switch {
	case p.unknown:
		return math.NaN()
	case p.whole:
		return Seconds(p.minNanos)
	}
	return p.min
}

func (p *point) maximum() float64 {
	switch {
	case p.unknown:
		return math.NaN()
	case p.whole:
		return Seconds(p.maxNanos)
	}
	return p.max
}

// read reads all but the buckets.
func (p *point) read(b []byte) error {
	if len(b) == 0 {
		return corrupt("no bytes")
	}
	p.form = b[0]
	p.schema, p.threshold = DefaultSchema, DefaultZeroThreshold
	p.whole = true
	b = b[1:]
	switch p.form {
	case nibblesForm:
		return p.readHead(b)
	case wideForm:
		if !p.wide.read(b) {
			return corrupt("head")
		}
		p.count, p.sumNanos, p.minNanos, p.maxNanos = p.wide.count, p.wide.sum, p.wide.min, p.wide.max
		return nil
	case emptyForm:
		p.unknown = true
		if len(b) != 0 {
			return corrupt("%d bytes after an empty one", len(b))
		}
		return nil
	case oneForm, twoForm, threeForm:
		return p.readFew(b)
	case oneWeightedForm:
		return p.readWeighted(b)
	case oneFloatForm:
		if len(b) != 8 {
			return corrupt("one value in %d bytes", len(b))
		}
		v := math.Float64frombits(binary.LittleEndian.Uint64(b))
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return corrupt("one value %v", v)
		}
		p.whole, p.count, p.sum, p.min, p.max = false, 1, v, v, v
		return nil
	case generalForm, explicitForm:
		return p.readGeneral(b)
	}
	return corrupt("form %#02x", p.form)
}

// uvarint reads an integer of at most 63 bits.
func uvarint(b []byte) (int64, []byte, bool) {
	if len(b) > 0 && b[0] < 0x80 {
		return int64(b[0]), b[1:], true
	}
	u, k := binary.Uvarint(b)
	if k <= 0 || u > math.MaxInt64 {
		return 0, nil, false
	}
	return int64(u), b[k:], true
}

func (p *point) readHead(b []byte) error {
	var v [4]int64
	for i := range v {
		var u uint64
		var shift uint
		for n, c := range b {
			if c < 0x80 {
				u |= uint64(c) << shift
				b = b[n+1:]
				shift = 64
				break
			}
			u |= uint64(c&0x7f) << shift
			if shift += 7; shift >= 63 {
				return corrupt("integer too large")
			}
		}
		if shift != 64 {
			return corrupt("truncated")
		}
		v[i] = int64(u)
	}
	p.count, p.sumNanos, p.minNanos, p.maxNanos = uint64(v[0]), v[1], v[2], v[2]+v[3]
	if p.count == 0 || p.minNanos == 0 || p.maxNanos < p.minNanos {
		return corrupt("count %d, minimum %d ns, maximum %d ns", p.count, p.minNanos, p.maxNanos)
	}
	p.rest = b
	return nil
}

func (p *point) readFew(b []byte) error {
	p.count = uint64(p.form - oneForm + 1)
	var v [3]int64
	last := int64(0)
	for i := range v[:p.count] {
		d, rest, ok := uvarint(b)
		if !ok {
			return corrupt("value %d of %d", i+1, p.count)
		}
		if last += d; last < 0 {
			return corrupt("value %d of %d too large", i+1, p.count)
		}
		v[i], b = last, rest
		if p.sumNanos += last; p.sumNanos < 0 {
			return corrupt("sum too large")
		}
	}
	if len(b) != 0 {
		return corrupt("%d bytes after %d values", len(b), p.count)
	}
	p.minNanos, p.midNanos, p.maxNanos = v[0], v[1], last
	return nil
}

func (p *point) readWeighted(b []byte) error {
	n, b, ok := uvarint(b)
	if !ok || n < 1 {
		return corrupt("weight")
	}
	v, b, ok := uvarint(b)
	if !ok || len(b) != 0 {
		return corrupt("weighted value")
	}
	if p.sumNanos, ok = mulNanos(v, uint64(n)); !ok {
		return corrupt("weighted value too large")
	}
	p.count, p.minNanos, p.maxNanos, p.weighted = uint64(n), v, v, true
	p.squared, p.square = true, float64(n)*float64(n)
	return nil
}

func (p *point) readGeneral(b []byte) error {
	if len(b) < 2 {
		return corrupt("truncated")
	}
	flags := b[0]
	b = b[1:]
	if p.form == generalForm {
		p.schema = int8(b[0])
		b = b[1:]
		if p.schema < MinSchema || p.schema > MaxSchema {
			return corrupt("schema %d", p.schema)
		}
	} else {
		p.schema = Explicit
		if flags&^(flagWhole|flagNoExtreme|flagWeighted|flagError|flagBounds|flagSquares) != 0 {
			return corrupt("flags %#02x", flags)
		}
		p.bounds = flags&flagBounds != 0
	}
	p.whole, p.unknown = flags&flagWhole != 0, flags&flagNoExtreme != 0
	p.weighted, p.negative = flags&flagWeighted != 0, flags&flagNegative != 0
	n, b, ok := uvarint(b)
	if !ok {
		return corrupt("count")
	}
	p.count = uint64(n)
	moments := 3
	if p.unknown {
		moments = 1
	}
	var ints [3]int64
	var floats [3]float64
	for i := range moments {
		if p.whole {
			v, k := binary.Varint(b)
			if k <= 0 {
				return corrupt("moments")
			}
			ints[i], b = v, b[k:]
			continue
		}
		if len(b) < 8 {
			return corrupt("moments")
		}
		floats[i], b = math.Float64frombits(binary.LittleEndian.Uint64(b)), b[8:]
	}
	p.sumNanos, p.minNanos, p.maxNanos = ints[0], ints[1], ints[2]
	p.sum, p.min, p.max = floats[0], floats[1], floats[2]
	if p.minNanos > p.maxNanos || p.min > p.max || math.IsInf(p.min, 0) || math.IsInf(p.max, 0) {
		return corrupt("minimum %v, maximum %v", p.minimum(), p.maximum())
	}
	if p.form == generalForm && flags&flagThreshold != 0 {
		e, k := binary.Varint(b)
		if k <= 0 || e < -1074 || e > 1024 {
			return corrupt("zero threshold")
		}
		b = b[k:]
		if e == 1024 {
			p.threshold = 0
		} else {
			p.threshold = math.Ldexp(1, int(e))
		}
		if t, err := RoundZeroThreshold(p.threshold, p.schema); err != nil || t != p.threshold {
			return corrupt("zero threshold %v at schema %d", p.threshold, p.schema)
		}
	}
	if flags&flagZero != 0 {
		n, rest, ok := uvarint(b)
		if !ok || uint64(n) > p.count {
			return corrupt("zero count")
		}
		p.zero, b = uint64(n), rest
	}
	if flags&flagError != 0 {
		if len(b) < 8 {
			return corrupt("relative error")
		}
		p.err, b = math.Float64frombits(binary.LittleEndian.Uint64(b)), b[8:]
		if !(p.err >= 0) {
			return corrupt("relative error %v", p.err)
		}
	}
	if flags&flagSquares != 0 {
		u, k := binary.Uvarint(b)
		if k <= 0 {
			return corrupt("squares")
		}
		b = b[k:]
		p.squared, p.square = true, math.Float64frombits(bits.ReverseBytes64(u))
		if !p.weighted || p.count == 0 || !validSquares(p.square, p.count) {
			return corrupt("squares %v of count %d", p.square, p.count)
		}
	}
	p.rest = b
	return nil
}

// mergePoint adds an exponential point. Overflow of h's count is excluded.
func (h *Histogram) mergePoint(p *point) error {
	if p.schema < h.Schema || p.threshold > h.ZeroThreshold {
		h.coarsenTo(p.schema, p.threshold)
	}
	switch p.form {
	case wideForm:
		w := &p.wide
		total, used := h.addSide(&h.Positive, w.first, w.first+w.n-1, true, p.schema, w.planes)
		if used != len(w.planes) || total != p.count {
			return corrupt("counts of %d observations", p.count)
		}
	case nibblesForm:
		first := BucketIndex(Seconds(p.minNanos), DefaultSchema)
		last := BucketIndex(Seconds(p.maxNanos), DefaultSchema)
		total, used := h.addSide(&h.Positive, first, last, false, p.schema, p.rest)
		if used != len(p.rest) || total != p.count {
			return corrupt("counts of %d observations", p.count)
		}
	case oneForm, twoForm, threeForm:
		h.place(Seconds(p.minNanos), 1)
		if p.form != oneForm {
			h.place(Seconds(p.maxNanos), 1)
		}
		if p.form == threeForm {
			h.place(Seconds(p.midNanos), 1)
		}
	case oneWeightedForm:
		h.place(Seconds(p.minNanos), p.count)
	case oneFloatForm:
		h.place(p.sum, 1)
	case generalForm:
		if err := h.mergeSides(p); err != nil {
			return err
		}
	}
	p.addSum(h)
	lo, hi := p.minimum(), p.maximum()
	if h.Count == 0 {
		h.Min, h.Max = lo, hi
	} else {
		h.Min, h.Max = lesser(h.Min, lo), greater(h.Max, hi)
	}
	h.addSquares(p.weighted, p.squares())
	h.Count += p.count
	if p.err > h.Error {
		h.Error = p.err
	}
	return nil
}

func (p *point) addSum(h *Histogram) {
	if p.whole {
		h.addNanos(p.sumNanos)
	} else if ns, ok := Nanos(p.sum); ok {
		h.addNanos(ns)
	} else {
		h.addFloat(p.sum, 0)
	}
}

// place adds n observations of v to the buckets alone.
func (h *Histogram) place(v float64, n uint64) {
	switch {
	case v > h.ZeroThreshold:
		i := h.Positive.index(coarsen(index8(v), uint(MaxSchema-h.Schema)&15))
		h.Positive.Counts[i] += n
	case v < -h.ZeroThreshold:
		i := h.Negative.index(coarsen(index8(-v), uint(MaxSchema-h.Schema)&15))
		h.Negative.Counts[i] += n
	default:
		h.ZeroCount += n
	}
}

func (h *Histogram) mergeSides(p *point) error {
	h.ZeroCount += p.zero
	left := p.count - p.zero
	sides := [...]*Buckets{&h.Positive, &h.Negative}
	b := p.rest
	for i, to := range sides {
		if i == 1 && !p.negative {
			break
		}
		head, rest, ok := uvarint(b)
		if !ok {
			return corrupt("buckets")
		}
		b = rest
		n := head >> 1
		if n == 0 {
			continue
		}
		offset, k := binary.Varint(b)
		if k <= 0 {
			return corrupt("buckets")
		}
		b = b[k:]
		lo, hi := int64(minIndex(p.schema)), int64(maxIndex(p.schema))
		lo = max(lo, int64(thresholdIndex(p.threshold, p.schema))+1)
		if offset < lo || offset > hi || n > hi-offset+1 {
			return corrupt("buckets %d and %d more at schema %d", offset, n-1, p.schema)
		}
		total, used := h.addSide(to, int32(offset), int32(offset+n-1), head&1 != 0, p.schema, b)
		if used < 0 || total > left {
			return corrupt("counts of %d observations", p.count)
		}
		b = b[used:]
		left -= total
	}
	if left != 0 || len(b) != 0 {
		return corrupt("counts of %d observations", p.count)
	}
	return nil
}

// addSide adds the encoded counts of buckets first to last of a schema to one
// side of h, which is no finer.
func (h *Histogram) addSide(to *Buckets, first, last int32, planes bool, schema int8, b []byte) (total uint64, used int) {
	if schema == h.Schema && first > thresholdIndex(h.ZeroThreshold, schema) {
		w := to.window(first, last)
		if planes {
			return addPlanes(w, b)
		}
		return addNibbles(w, b)
	}
	n := int(last-first) + 1
	if cap(h.scratch) < n {
		h.scratch = make([]uint64, n)
	}
	w := h.scratch[:n]
	clear(w)
	if planes {
		total, used = addPlanes(w, b)
	} else {
		total, used = addNibbles(w, b)
	}
	if used >= 0 {
		h.fold(to, first, w, uint(schema-h.Schema))
	}
	return total, used
}
