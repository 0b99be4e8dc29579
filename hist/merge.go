package hist

import (
	"math"
	"math/bits"
)

// Merge adds o to h; h may become coarser. o is not changed.
//
// The result has the coarser schema, the greater zero threshold, the greater
// inherited error. Explicit-bucket histograms merge exactly if their bounds
// are equal; with unequal bounds the common ones remain; with an exponential
// histogram they become one, see ToExponential. Merging an empty histogram
// changes nothing; an empty h takes o's kind, but its schema stays a ceiling.
// It returns ErrInvalid if the count overflows; then h is unchanged.
func (h *Histogram) Merge(o *Histogram) error {
	if o.Count == 0 {
		return nil
	}
	if h.Count+o.Count < h.Count {
		return invalid("count overflows: %d and %d more", h.Count, o.Count)
	}
	if h.Schema == Explicit || o.Schema == Explicit {
		if done, err := h.mergeExplicit(o); done || err != nil {
			return err
		}
		if o.Schema == Explicit {
			o = o.Clone()
			o.ToExponential(h.Schema)
		}
	}
	h.coarsenTo(o.Schema, o.ZeroThreshold)
	h.ZeroCount += o.ZeroCount
	shift := uint(o.Schema - h.Schema)
	h.fold(&h.Positive, o.Positive.Offset, o.Positive.Counts, shift)
	h.fold(&h.Negative, o.Negative.Offset, o.Negative.Counts, shift)
	h.mergeMoments(o)
	return nil
}

// coarsenTo makes h at least as coarse as the schema and the zero threshold.
func (h *Histogram) coarsenTo(schema int8, threshold float64) {
	if schema < h.Schema {
		h.Reduce(schema)
	}
	if threshold > h.ZeroThreshold {
		h.widenZero(threshold)
	}
}

// fold adds counts, whose schema is finer than h's by shift, to one side of h.
func (h *Histogram) fold(to *Buckets, offset int32, counts []uint64, shift uint) {
	lo, hi := trimmed(counts)
	if lo == hi {
		return
	}
	counts = counts[lo:hi]
	offset += int32(lo)
	last := offset + int32(len(counts)) - 1
	zero := thresholdIndex(h.ZeroThreshold, h.Schema)
	if coarsen(offset, shift) <= zero {
		for len(counts) > 0 && coarsen(offset, shift) <= zero {
			h.ZeroCount += counts[0]
			counts = counts[1:]
			offset++
		}
		if len(counts) == 0 {
			return
		}
	}
	first := coarsen(offset, shift)
	w := to.window(first, coarsen(last, shift))
	if shift == 0 {
		for i, c := range counts {
			w[i] += c
		}
		return
	}
	for i, c := range counts {
		w[coarsen(offset+int32(i), shift)-first] += c
	}
}

// mergeMoments merges everything of o but its buckets.
func (h *Histogram) mergeMoments(o *Histogram) {
	if h.Count == 0 {
		h.Min, h.Max = o.Min, o.Max
	} else {
		h.Min, h.Max = lesser(h.Min, o.Min), greater(h.Max, o.Max)
	}
	h.addSquares(o.Weighted, o.SquaredWeights())
	h.Count += o.Count
	h.addSum(o)
	h.Error = max(h.Error, o.Error)
}

// addSquares adds Σw² of observations that are not in Count yet.
func (h *Histogram) addSquares(weighted bool, squares float64) {
	if weighted || h.Weighted {
		h.Squares = h.SquaredWeights() + squares
		h.Weighted = true
	}
}

// lesser and greater are NaN if either is: an extreme not known of a part is
// not known of the whole.
func lesser(a, b float64) float64 {
	if b < a || b != b {
		return b
	}
	return a
}

func greater(a, b float64) float64 {
	if b > a || b != b {
		return b
	}
	return a
}

// Reduce makes h no finer than schema, exactly: the result equals recording at that
// schema. It does nothing to explicit buckets.
func (h *Histogram) Reduce(schema int8) {
	schema = max(schema, MinSchema)
	if h.Schema == Explicit || schema >= h.Schema {
		return
	}
	shift := uint(h.Schema - schema)
	h.Positive.reduce(shift)
	h.Negative.reduce(shift)
	h.Schema = schema
	if schema < 0 && h.ZeroThreshold != 0 && h.ZeroThreshold != DefaultZeroThreshold {
		h.widenZero(h.ZeroThreshold)
	}
}

// widenZero raises the zero threshold to t, rounded up to a bucket bound, and
// moves the buckets within it into the zero bucket.
func (h *Histogram) widenZero(t float64) {
	t, err := RoundZeroThreshold(t, h.Schema)
	if err != nil {
		t = math.Ldexp(1, 1024-1<<uint(max(0, -h.Schema)))
	}
	h.ZeroThreshold = t
	last := thresholdIndex(t, h.Schema)
	h.ZeroCount += h.Positive.takeBelow(last)
	h.ZeroCount += h.Negative.takeBelow(last)
}

// SetZeroThreshold raises the zero threshold to t, rounded up as by
// RoundZeroThreshold; a lower one changes nothing once h holds observations.
func (h *Histogram) SetZeroThreshold(t float64) error {
	t, err := RoundZeroThreshold(t, h.Schema)
	if err != nil {
		return err
	}
	if t > h.ZeroThreshold {
		h.widenZero(t)
	} else if h.Count == 0 {
		h.ZeroThreshold = t
	}
	return nil
}

// AddBuckets adds counts to the positive or negative side of an exponential
// histogram; they belong to buckets offset, offset+1, … of a schema that may
// be finer than any Histogram's (OTLP allows 20; pass OTLP's offset plus one).
// A coarser schema reduces h. Count grows; Sum, Min and Max are the caller's.
func (h *Histogram) AddBuckets(schema int, offset int32, counts []uint64, negative bool) error {
	if h.Schema == Explicit {
		return invalid("exponential buckets for a histogram of explicit ones")
	}
	if schema < MinSchema || schema > 20 {
		return invalid("schema %d, want %d to 20", schema, MinSchema)
	}
	lo, hi := trimmed(counts)
	if lo == hi {
		return nil
	}
	total := h.Count
	for _, c := range counts[lo:hi] {
		if total+c < total {
			return invalid("counts overflow")
		}
		total += c
	}
	first, last := int64(offset)+int64(lo), int64(offset)+int64(hi)-1
	if schema > MaxSchema {
		// minIndex and maxIndex at this schema.
		if s := uint(schema); first < -1074<<s || last > 1024<<s {
			return invalid("buckets %d to %d are outside of schema %d", first, last, schema)
		}
	} else if first < int64(minIndex(int8(schema))) || last > int64(maxIndex(int8(schema))) {
		return invalid("buckets %d to %d are outside of schema %d", first, last, schema)
	}
	if schema < int(h.Schema) {
		h.Reduce(int8(schema))
	}
	to := &h.Positive
	if negative {
		to = &h.Negative
	}
	h.fold(to, int32(first), counts[lo:hi], uint(schema-int(h.Schema)))
	h.addSquares(false, float64(total-h.Count))
	h.Count = total
	return nil
}

// Subtract removes o, which must be contained in h: the result is the distribution of
// the observations since o, as for cumulative streams. Buckets subtract exactly at the
// coarser schema. An extreme of h remains known only if o's is known and lies inside of
// it. If o is not contained, it returns ErrInvalid and h is no finer than o but
// otherwise unchanged.
func (h *Histogram) Subtract(o *Histogram) error {
	if o.Count == 0 {
		return nil
	}
	if h.Count < o.Count {
		return invalid("subtracting %d observations from %d", o.Count, h.Count)
	}
	if h.Schema == Explicit || o.Schema == Explicit {
		if h.Schema != o.Schema || !equalBounds(h.Bounds, o.Bounds) {
			return invalid("subtracting histograms of unequal bounds")
		}
	} else {
		h.coarsenTo(o.Schema, o.ZeroThreshold)
		if o.Schema != h.Schema || o.ZeroThreshold != h.ZeroThreshold {
			o = o.Clone()
			o.coarsenTo(h.Schema, h.ZeroThreshold)
		}
	}
	if h.ZeroCount < o.ZeroCount || !h.Positive.subtract(&o.Positive) {
		return invalid("subtracting a histogram that is not contained")
	}
	if !h.Negative.subtract(&o.Negative) {
		h.Positive.restore(&o.Positive)
		return invalid("subtracting a histogram that is not contained")
	}
	h.ZeroCount -= o.ZeroCount
	if h.Weighted {
		h.Squares -= o.SquaredWeights()
	}
	h.Count -= o.Count
	if h.Count == 0 {
		h.SetSumNanos(0)
		h.Min, h.Max = math.NaN(), math.NaN()
		h.Weighted, h.Squares = false, 0
		return nil
	}
	if n := float64(h.Count); h.Weighted { // squares of old points are bounds, see decode.go
		h.Squares = max(n, min(n*n, h.Squares))
	}
	if !(o.Min > h.Min) {
		h.Min = math.NaN()
	}
	if !(o.Max < h.Max) {
		h.Max = math.NaN()
	}
	if ns, ok := o.SumNanos(); ok && ns != math.MinInt64 {
		h.addNanos(-ns)
	} else {
		h.addFloat(-o.Sum, 0)
	}
	return nil
}

func (b *Buckets) at(k int64) uint64 {
	if i := k - int64(b.Offset); i >= 0 && i < int64(len(b.Counts)) {
		return b.Counts[i]
	}
	return 0
}

// subtract subtracts o, and reports whether b contains it: no bucket of o holds more than
// the same one of b. If not, it changes nothing.
func (b *Buckets) subtract(o *Buckets) bool {
	w, counts, ok := b.under(o)
	if !ok {
		return false
	}
	var less, borrow uint64
	for i, c := range counts {
		w[i], less = bits.Sub64(w[i], c, 0)
		borrow |= less
	}
	if borrow != 0 {
		b.restore(o)
		return false
	}
	return true
}

// restore undoes subtract.
func (b *Buckets) restore(o *Buckets) {
	w, counts, _ := b.under(o)
	for i, c := range counts {
		w[i] += c
	}
}

// under returns the occupied part of o and b's counts of the same buckets, if
// b's window has them all.
func (b *Buckets) under(o *Buckets) (mine, counts []uint64, ok bool) {
	lo, hi := trimmed(o.Counts)
	if lo == hi {
		return nil, nil, true
	}
	at := int64(o.Offset) + int64(lo) - int64(b.Offset)
	if at < 0 || at+int64(hi-lo) > int64(len(b.Counts)) {
		return nil, nil, false
	}
	return b.Counts[at : at+int64(hi-lo)], o.Counts[lo:hi], true
}
