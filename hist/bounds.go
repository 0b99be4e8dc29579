package hist

import (
	"math"
	"math/bits"
)

// starts[m>>43] is the number of the first bound of schema 8 that is not below
// the slice of mantissas starting at m; a slice (1/512) is narrower than the
// narrowest bucket, so it holds at most one bound and one comparison decides.
var starts = func() (s [512]uint16) {
	j := uint16(0)
	for i := range s {
		for mantissa[j] < uint64(i)<<43 {
			j++
		}
		s[i] = j
	}
	return s
}()

// BucketIndex returns the bucket of v > 0, finite, at the schema: the k with
// UpperBound(k-1) < v <= UpperBound(k), exactly.
func BucketIndex(v float64, schema int8) int32 {
	return coarsen(index8(v), uint(MaxSchema-schema))
}

// index8 is BucketIndex at schema 8. Coarser buckets are unions of its buckets.
func index8(v float64) int32 {
	b := math.Float64bits(v)
	e := int32(b >> 52 & 0x7ff)
	m := b & (1<<52 - 1)
	if e == 0 { // subnormal: normalise
		shift := bits.LeadingZeros64(m) - 11
		m = m << shift & (1<<52 - 1)
		e = int32(1 - shift)
	}
	j := starts[m>>43]
	// One more if the bound lies below v: then the difference is negative.
	return (e-1023)<<8 + int32(j) + int32((mantissa[j]-m)>>63)
}

// coarsen maps a bucket to the one that holds it in a schema coarser by shift.
func coarsen(k int32, shift uint) int32 {
	return (k + 1<<shift - 1) >> shift
}

// UpperBound returns the inclusive upper bound of a bucket: 2^(index/2^schema)
// as a float64, rounded to nearest (down among subnormals), MaxFloat64 if it is
// beyond. The exclusive lower bound is UpperBound(index-1, schema).
func UpperBound(index int32, schema int8) float64 {
	var e, m int64
	if schema >= 0 {
		e = int64(index >> uint(schema))
		m = int64(mantissa[(index&(1<<uint(schema)-1))<<uint(MaxSchema-schema)])
	} else {
		e = int64(index) << uint(-schema)
	}
	switch {
	case e > 1023:
		return math.MaxFloat64
	case e >= -1022:
		return math.Float64frombits(uint64(e+1023)<<52 | uint64(m))
	case e >= -1074:
		return math.Float64frombits((1<<52 | uint64(m)) >> uint(-1022-e))
	}
	return 0
}

// minIndex and maxIndex are the buckets of the smallest and the largest
// positive float64.
func minIndex(schema int8) int32 { return coarsen(-1074<<8, uint(MaxSchema-schema)) }
func maxIndex(schema int8) int32 { return coarsen(1024<<8, uint(MaxSchema-schema)) }

// RoundZeroThreshold returns the least zero threshold not below t that is a
// bucket bound of the schema and a power of two, or 0 if t is 0. Only such
// thresholds make merging independent of order. It refuses thresholds that are
// negative, NaN, or beyond the largest power of two.
func RoundZeroThreshold(t float64, schema int8) (float64, error) {
	if t == 0 {
		return 0, nil
	}
	if !(t > 0 && t <= 0x1p1023) {
		return 0, invalid("zero threshold %v", t)
	}
	e := int64(coarsen(index8(t), MaxSchema))
	if schema < 0 {
		step := int64(1) << uint(-schema)
		if e = (e + step - 1) &^ (step - 1); e > 1023 {
			return 0, invalid("zero threshold %v at schema %d", t, schema)
		}
	}
	return math.Ldexp(1, int(e)), nil
}

// thresholdIndex returns the last bucket that lies within threshold t, which
// RoundZeroThreshold has rounded, or math.MinInt32 if t is 0.
func thresholdIndex(t float64, schema int8) int32 {
	switch t {
	case 0:
		return math.MinInt32
	case DefaultZeroThreshold:
		return -128 << 8 >> uint(MaxSchema-schema)
	}
	return BucketIndex(t, schema)
}
