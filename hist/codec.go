package hist

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// The compact form. Its first byte holds the format's version in the high
// digit, 1, and one of the forms below in the low one. Integers are uvarints
// unless noted, "zigzag" marks signed varints, times are whole nanoseconds. The
// writer takes the first form that can hold the histogram, so that equal
// histograms have equal bytes. Forms up to wideForm and oneWeighted are for
// schema 5 with the default zero threshold, no inherited error, no negative
// buckets; the buckets of the extremes, and of all of up to three
// observations, follow from the values.
//
//	empty
//	one         value
//	two         min, max-min
//	three       min, middle-min, max-middle
//	nibbles     count, sum, min, max-min, counts from min's bucket to max's
//	wide        the same for large counts, see planes.go
//	general     flags, schema (int8), count, moments, [threshold exponent,
//	            zigzag], [zero count], [error, float64], [squares], positive
//	            side, [negative side]
//	explicit    flags, count, moments, [error], [squares], bounds, counts
//	oneFloat    value (float64)
//	oneWeighted weight, value; its squares are weight²
//
// Moments are sum, min and max: zigzag nanoseconds if all three are whole,
// else float64, little-endian; the extremes are left out if neither is known.
// Squares are a float64 with its bytes reversed, which makes small ones short.
// Weighted points written before there were squares have none: see point.squared.
// A side is 2n+alphabet and, if n > 0, the first bucket (zigzag) and the counts
// of n buckets; the alphabet is 0 for nibbles (tokens.go) and 1 for planes. A threshold of 0 is written as exponent 1024. Bounds are their
// number, then each as nanoseconds (the first zigzag, then differences) if
// flagged whole, else as float64; counts are the alphabet (one byte), then n+1
// buckets, led by the number of empty ones before the first that is not.
const (
	version = 0x10

	emptyForm       = version | 0
	oneForm         = version | 1
	twoForm         = version | 2
	threeForm       = version | 3
	nibblesForm     = version | 4
	wideForm        = version | 5
	generalForm     = version | 6
	explicitForm    = version | 7
	oneFloatForm    = version | 8
	oneWeightedForm = version | 9

	flagWhole     = 1 << 0 // moments are nanoseconds
	flagNoExtreme = 1 << 1
	flagWeighted  = 1 << 2
	flagThreshold = 1 << 3
	flagError     = 1 << 4
	flagNegative  = 1 << 5
	flagZero      = 1 << 6
	flagSquares   = 1 << 7
	flagBounds    = 1 << 3 // explicit: bounds are nanoseconds
)

// AppendBinary appends the compact form. It returns ErrInvalid, and dst as it
// was, for a histogram that Validate would refuse or of more than MaxInt64
// observations. Histograms with equal content have equal forms; the form is
// canonical.
func (h *Histogram) AppendBinary(dst []byte) ([]byte, error) {
	if h.Count > math.MaxInt64 {
		return dst, invalid("count %d", h.Count)
	}
	if h.Schema == Explicit {
		return h.appendExplicit(dst)
	}
	if h.Schema < MinSchema || h.Schema > MaxSchema || h.Bounds != nil {
		return dst, invalid("schema %d, %d explicit bounds", h.Schema, len(h.Bounds))
	}
	c := Cell{
		Schema: h.Schema, Zero: h.ZeroCount, Count: h.Count, Weighted: h.Weighted, Squares: h.Squares,
	}
	offset, counts := h.Positive.Occupied()
	c.Offset = offset
	negOffset, negative := h.Negative.Occupied()
	zero := thresholdIndex(h.ZeroThreshold, h.Schema)
	if h.ZeroThreshold != DefaultZeroThreshold && h.ZeroThreshold != 0 {
		if t, err := RoundZeroThreshold(h.ZeroThreshold, h.Schema); err != nil || t != h.ZeroThreshold {
			return dst, invalid("zero threshold %v", h.ZeroThreshold)
		}
	}
	total := h.ZeroCount
	var p packed // of the positive side
	for i, side := range [...][]uint64{counts, negative} {
		if len(side) == 0 {
			continue
		}
		first := [...]int32{offset, negOffset}[i]
		if int64(first)+int64(len(side))-1 > int64(maxIndex(h.Schema)) || first < minIndex(h.Schema) {
			return dst, invalid("buckets outside of schema %d", h.Schema)
		}
		if first <= zero {
			return dst, invalid("bucket %d within the zero threshold %v", first, h.ZeroThreshold)
		}
		var sum uint64
		ok := true
		if i == 0 && pack(&p, side) && p.any < 1<<43 {
			sum = p.total
		} else {
			sum, ok = addCounts(side)
		}
		if total += sum; !ok || sum > h.Count || total > h.Count {
			return dst, invalid("count %d, but buckets hold more", h.Count)
		}
	}
	if total != h.Count {
		return dst, invalid("count %d, but buckets hold %d", h.Count, total)
	}
	if !(h.Error >= 0) {
		return dst, invalid("relative error %v", h.Error)
	}
	if math.IsInf(h.Min, 0) || math.IsInf(h.Max, 0) || h.Min > h.Max {
		return dst, invalid("minimum %v, maximum %v", h.Min, h.Max)
	}
	if h.Weighted && !validSquares(h.Squares, h.Count) {
		return dst, invalid("squares %v of count %d", h.Squares, h.Count)
	}
	whole := c.moments(h)
	if h.ZeroThreshold == DefaultZeroThreshold && h.Error == 0 && len(negative) == 0 {
		if whole {
			if out, ok := appendShort(dst, &c, &p, counts); ok {
				return out, nil
			}
		}
		if h.Count == 0 && h.Schema == DefaultSchema && !h.Weighted && h.Sum == 0 && math.IsNaN(h.Min) && math.IsNaN(h.Max) {
			return append(dst, emptyForm), nil
		}
	}
	if h.Count == 1 && h.Schema == DefaultSchema && !h.Weighted && h.Error == 0 && h.ZeroThreshold == DefaultZeroThreshold &&
		h.Min == h.Sum && h.Max == h.Sum && (!whole || h.Sum < 0) && h.holdsOne(h.Sum) {
		dst = append(dst, oneFloatForm)
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(h.Sum)), nil
	}

	var flags byte
	dst = append(dst, generalForm, 0, byte(h.Schema))
	at := len(dst) - 2
	dst = binary.AppendUvarint(dst, h.Count)
	dst, flags = h.appendMoments(dst, &c, whole)
	if h.ZeroThreshold != DefaultZeroThreshold {
		flags |= flagThreshold
		e := int64(1024)
		if h.ZeroThreshold != 0 {
			e = int64(math.Ilogb(h.ZeroThreshold))
		}
		dst = binary.AppendVarint(dst, e)
	}
	if h.ZeroCount != 0 {
		flags |= flagZero
		dst = binary.AppendUvarint(dst, h.ZeroCount)
	}
	if h.Error != 0 {
		flags |= flagError
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(h.Error))
	}
	dst, flags = h.appendSquares(dst, flags)
	dst = appendSide(dst, offset, &p, counts)
	if len(negative) > 0 {
		flags |= flagNegative
		dst = appendSide(dst, negOffset, nil, negative)
	}
	dst[at] = flags
	return dst, nil
}

// appendSquares appends Σw² if h is weighted, and returns flags with those of weights.
func (h *Histogram) appendSquares(dst []byte, flags byte) ([]byte, byte) {
	if !h.Weighted {
		return dst, flags
	}
	if h.Count == 0 {
		return dst, flags | flagWeighted
	}
	dst = binary.AppendUvarint(dst, bits.ReverseBytes64(math.Float64bits(h.Squares)))
	return dst, flags | flagWeighted | flagSquares
}

// holdsOne reports whether the one observation of h is in the bucket of v.
func (h *Histogram) holdsOne(v float64) bool {
	_, same, _ := h.counts(v)
	return same == 1
}

// appendMoments appends sum, min and max and returns their flags.
func (h *Histogram) appendMoments(dst []byte, c *Cell, whole bool) ([]byte, byte) {
	var flags byte
	unknown := math.IsNaN(h.Min) && math.IsNaN(h.Max)
	if unknown {
		flags |= flagNoExtreme
		if c.SumNanos, whole = h.SumNanos(); whole {
			flags |= flagWhole
			return binary.AppendVarint(dst, c.SumNanos), flags
		}
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(h.Sum)), flags
	}
	if whole {
		flags |= flagWhole
		dst = binary.AppendVarint(dst, c.SumNanos)
		dst = binary.AppendVarint(dst, c.MinNanos)
		return binary.AppendVarint(dst, c.MaxNanos), flags
	}
	for _, v := range [...]float64{h.Sum, h.Min, h.Max} {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
	}
	return dst, flags
}

func appendSide(dst []byte, offset int32, p *packed, counts []uint64) []byte {
	if len(counts) == 0 {
		return append(dst, 0)
	}
	head := len(dst)
	dst = binary.AppendUvarint(dst, uint64(len(counts))<<1)
	dst = binary.AppendVarint(dst, int64(offset))
	dst, planes := appendCounts(dst, p, counts)
	if planes {
		dst[head] |= 1
	}
	return dst
}

// maxSure is the least duration that Seconds may round so that Nanos misses it (26
// days).
const maxSure = 1 << 51

// Cell is an exponential histogram of durations in an aggregator's form: without the
// counts, which stay where they are. Zero threshold and relative error are the defaults.
// The zero value with a schema is empty.
type Cell struct {
	Schema   int8
	Weighted bool    // some observation stood for several
	Zero     uint64  // observations of 0
	Count    uint64  // all observations, zeros included
	Squares  float64 // as Histogram's
	// Whole nanoseconds, exactly as Seconds turns them into Histogram's fields.
	SumNanos, MinNanos, MaxNanos int64
	Offset                       int32 // bucket of the first count, Prometheus' numbering
}

// moments sets sum, min and max to those of h. It returns false if one of them is not
// whole nanoseconds.
func (c *Cell) moments(h *Histogram) bool {
	var ok [3]bool
	c.SumNanos, ok[0] = h.SumNanos()
	c.MinNanos, ok[1] = Nanos(h.Min)
	c.MaxNanos, ok[2] = Nanos(h.Max)
	return ok == [3]bool{true, true, true}
}

// AppendCell appends the compact form of a cell, the same bytes as for the equal
// Histogram. Durations must not be negative, counts must add up to Count. It allocates
// only the growth of dst, if the schema is DefaultSchema; leading and trailing zeros of
// counts cost their scan.
func AppendCell[C count](dst []byte, c *Cell, counts []C) ([]byte, error) {
	lo, hi := trimmed(counts)
	cell := *c
	cell.Offset += int32(lo)
	total := c.Zero
	var p packed
	if pack(&p, counts[lo:hi]) {
		total += p.total
	} else {
		for _, n := range counts[lo:hi] {
			total += uint64(n)
		}
	}
	if total != c.Count {
		return dst, invalid("count %d, but buckets hold %d", c.Count, total)
	}
	if c.Count > 0 && c.MinNanos >= 0 && c.MaxNanos < maxSure {
		if out, ok := appendShort(dst, &cell, &p, counts[lo:hi]); ok {
			return out, nil
		}
	}
	h := New(c.Schema)
	h.ZeroCount, h.Count, h.Weighted, h.Squares = c.Zero, c.Count, c.Weighted, c.Squares
	h.SetSumNanos(c.SumNanos)
	if c.Count > 0 {
		h.Min, h.Max = Seconds(c.MinNanos), Seconds(c.MaxNanos)
	}
	h.Positive.Offset = cell.Offset
	for _, n := range counts[lo:hi] {
		h.Positive.Counts = append(h.Positive.Counts, uint64(n))
	}
	return h.AppendBinary(dst)
}

// appendShort appends one of the short forms if the histogram has one. The first and
// last of counts are not zero; few enough are packed too.
func appendShort[C count](dst []byte, c *Cell, p *packed, counts []C) ([]byte, bool) {
	if c.Schema != DefaultSchema || c.Count == 0 || c.MinNanos < 0 || c.SumNanos < 0 {
		return dst, false
	}
	if c.Weighted {
		if n := float64(c.Count); c.MinNanos != c.MaxNanos || c.Squares != n*n {
			return dst, false
		}
		sum, ok := mulNanos(c.MinNanos, c.Count)
		if !ok || sum != c.SumNanos || !holds(c, counts, c.MinNanos, c.Count) {
			return dst, false
		}
		dst = append(dst, oneWeightedForm)
		dst = binary.AppendUvarint(dst, c.Count)
		return binary.AppendUvarint(dst, uint64(c.MinNanos)), true
	}
	if c.Count <= 3 {
		v := [3]int64{c.MinNanos, c.MaxNanos - c.MinNanos, 0}
		ok := true
		switch c.Count {
		case 1:
			ok = v[1] == 0 && c.SumNanos == c.MinNanos && holds(c, counts, c.MinNanos, 1)
		case 2:
			ok = c.SumNanos-c.MaxNanos == c.MinNanos && holdsAll(c, counts, c.MinNanos, c.MaxNanos, c.MaxNanos)
		case 3:
			mid := c.SumNanos - c.MaxNanos - c.MinNanos
			ok = mid >= c.MinNanos && mid <= c.MaxNanos && holdsAll(c, counts, c.MinNanos, mid, c.MaxNanos)
			v[1], v[2] = mid-c.MinNanos, c.MaxNanos-mid
		}
		if ok {
			dst = append(dst, version|byte(c.Count))
			for _, u := range v[:c.Count] {
				dst = binary.AppendUvarint(dst, uint64(u))
			}
			return dst, true
		}
	}
	if c.Count > 14 && wantsPlanes(p, counts) {
		if !fitsWide(c, len(counts)) {
			return dst, false
		}
		return appendWide(dst, c, p, counts), true
	}
	if c.Zero != 0 || len(counts) == 0 || c.MinNanos == 0 {
		return dst, false
	}
	if BucketIndex(Seconds(c.MinNanos), DefaultSchema) != c.Offset ||
		BucketIndex(Seconds(c.MaxNanos), DefaultSchema) != c.Offset+int32(len(counts))-1 {
		return dst, false
	}
	return appendNibbles(appendHead(dst, c), p, counts), true
}

func appendHead(dst []byte, c *Cell) []byte {
	dst = append(dst, nibblesForm)
	dst = binary.AppendUvarint(dst, c.Count)
	dst = binary.AppendUvarint(dst, uint64(c.SumNanos))
	dst = binary.AppendUvarint(dst, uint64(c.MinNanos))
	return binary.AppendUvarint(dst, uint64(c.MaxNanos-c.MinNanos))
}

// holds reports whether v's bucket holds exactly n.
func holds[C count](c *Cell, counts []C, ns int64, n uint64) bool {
	if ns == 0 {
		return c.Zero == n
	}
	i := int(BucketIndex(Seconds(ns), DefaultSchema)) - int(c.Offset)
	return i >= 0 && i < len(counts) && uint64(counts[i]) == n
}

// holdsAll reports whether a <= b <= d, of which the two greater may be the same
// observation, are the only observations.
func holdsAll[C count](c *Cell, counts []C, a, b, d int64) bool {
	bucket := func(ns int64) int32 {
		if ns == 0 {
			return math.MinInt32
		}
		return BucketIndex(Seconds(ns), DefaultSchema)
	}
	ka, kb, kd := bucket(a), bucket(b), bucket(d)
	if c.Count == 2 {
		if ka == kd {
			return holds(c, counts, a, 2)
		}
		return holds(c, counts, a, 1) && holds(c, counts, d, 1)
	}
	switch {
	case ka == kd:
		return holds(c, counts, a, 3)
	case ka == kb:
		return holds(c, counts, a, 2) && holds(c, counts, d, 1)
	case kb == kd:
		return holds(c, counts, a, 1) && holds(c, counts, d, 2)
	}
	return holds(c, counts, a, 1) && holds(c, counts, b, 1) && holds(c, counts, d, 1)
}

// AppendNanos appends the compact form of a few durations in nanoseconds: the same bytes
// as recording them with RecordNanos into New(schema) and AppendBinary. Weights holds
// how many observations each stands for, or is nil. It returns ErrInvalid for a negative
// duration or weights of another number. It is meant for up to some 16 durations, in any
// order; ns and weights are not changed. It allocates only for zeros or weights among
// several durations, for more than 64 durations, or for another schema than
// DefaultSchema.
func AppendNanos(dst []byte, schema int8, ns []int64, weights []uint32) ([]byte, error) {
	if weights != nil && len(weights) != len(ns) {
		return dst, invalid("%d weights for %d durations", len(weights), len(ns))
	}
	if schema == DefaultSchema && len(ns) <= 64 {
		if out, ok := appendFew(dst, ns, weights); ok {
			return out, nil
		}
	}
	h := New(schema)
	for i, v := range ns {
		n := uint64(1)
		if weights != nil {
			n = uint64(weights[i])
		}
		if v < 0 {
			return dst, invalid("duration of %d ns", v)
		}
		if err := h.RecordNanos(v, n); err != nil {
			return dst, err
		}
	}
	return h.AppendBinary(dst)
}

func appendFew(dst []byte, ns []int64, weights []uint32) ([]byte, bool) {
	for _, w := range weights {
		if w != 1 {
			if len(ns) == 1 && w > 1 && ns[0] >= 0 && ns[0] < maxSure {
				if _, ok := mulNanos(ns[0], uint64(w)); ok {
					dst = append(dst, oneWeightedForm)
					dst = binary.AppendUvarint(dst, uint64(w))
					return binary.AppendUvarint(dst, uint64(ns[0])), true
				}
			}
			return dst, false
		}
	}
	var array [64]int64
	s := array[:copy(array[:], ns)]
	switch len(s) {
	case 0:
		return append(dst, emptyForm), true
	case 1:
		if s[0] < 0 || s[0] >= maxSure {
			return dst, false
		}
		dst = append(dst, oneForm)
		return binary.AppendUvarint(dst, uint64(s[0])), true
	}
	if len(s) <= 16 {
		for i := 1; i < len(s); i++ {
			for j := i; j > 0 && s[j] < s[j-1]; j-- {
				s[j], s[j-1] = s[j-1], s[j]
			}
		}
	} else {
		slices.Sort(s)
	}
	if s[0] < 0 || s[len(s)-1] >= maxSure {
		return dst, false
	}
	c := Cell{Schema: DefaultSchema, Count: uint64(len(s)), MinNanos: s[0], MaxNanos: s[len(s)-1]}
	for _, v := range s {
		if c.SumNanos += v; c.SumNanos < 0 {
			return dst, false
		}
	}
	if len(s) <= 3 {
		dst = append(dst, version|byte(len(s)))
		last := int64(0)
		for _, v := range s {
			dst = binary.AppendUvarint(dst, uint64(v-last))
			last = v
		}
		return dst, true
	}
	if s[0] == 0 {
		return dst, false
	}
	t := tokens{dst: appendHead(dst, &c), pending: -1}
	k := BucketIndex(Seconds(s[0]), DefaultSchema)
	last := k - 1
	n := uint64(0)
	occupied, large := 0, 0
	for _, v := range s {
		next := BucketIndex(Seconds(v), DefaultSchema)
		if next != k {
			t.add(int(k-last)-1, n)
			occupied++
			large += int((14 - n) >> 63)
			last, k, n = k, next, 0
		}
		n++
	}
	t.add(int(k-last)-1, n)
	if mostlyLarge(occupied+1, large+int((14-n)>>63)) { // rare: the dense writer does it
		return dst, false
	}
	return t.flush(), true
}
