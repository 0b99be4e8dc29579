// Package hist keeps whole distributions: base-2 exponential histograms as
// OTLP ExponentialHistogram and Prometheus native histograms define them.
package hist

import "errors"

const (
	MinSchema     = -4
	MaxSchema     = 8
	DefaultSchema = 5
	// Explicit is the schema of histograms with explicit bounds (le buckets);
	// it is Prometheus' number for custom buckets.
	Explicit = -53
)

// Errors of decoding and merging; wrapped with what was wrong.
var (
	ErrCorrupt = errors.New("corrupt histogram")
	ErrInvalid = errors.New("invalid histogram")
)

// Buckets is a dense window of bucket counts. Counts[i] belongs to the bucket
// with index Offset+i in Prometheus' numbering: bucket k of schema s covers
// (2^((k-1)/2^s), 2^(k/2^s)], open below, closed above. OTLP's bucket i is
// Prometheus' bucket i+1.
type Buckets struct {
	Offset int32
	Counts []uint64
}

// Histogram is a distribution. The zero value is not ready: use New.
type Histogram struct {
	Schema        int8
	ZeroThreshold float64 // values in [-t, t] are in the zero bucket
	ZeroCount     uint64
	Positive      Buckets
	Negative      Buckets
	Bounds        []float64 // explicit upper bounds, ascending, +Inf left out; only if Schema is Explicit; Positive.Counts has one more, Offset 0
	Count         uint64
	Sum           float64
	Min, Max      float64 // NaN when Count is 0 or unknown
	Weighted      bool    // holds observations that stood for several (sampling)
	Error         float64 // relative error inherited from coarser inputs; 0 if none
}

// New returns an empty histogram.
func New(schema int8) *Histogram { panic("todo") }

// Reset empties h, keeping its memory.
func (h *Histogram) Reset(schema int8) {}

// Record adds one observation; RecordN adds one that stands for n.
func (h *Histogram) Record(v float64) error            { return h.RecordN(v, 1) }
func (h *Histogram) RecordN(v float64, n uint64) error { return nil }

// Merge adds o to h; h may become coarser. o is not changed.
func (h *Histogram) Merge(o *Histogram) error { return nil }

// MergeEncoded adds a histogram in its binary form without building it.
func (h *Histogram) MergeEncoded(b []byte) error { return nil }

// Subtract removes o, which must be contained in h.
func (h *Histogram) Subtract(o *Histogram) error { return nil }

// Reduce makes h no finer than schema, exactly.
func (h *Histogram) Reduce(schema int8) {}

// Quantile returns an estimate of the q-quantile; relative error at most RelativeError.
func (h *Histogram) Quantile(q float64) float64 { return 0 }

// RelativeError is the bound on |estimate-truth|/|truth| of a quantile.
func (h *Histogram) RelativeError() float64 { return 0 }

func (h *Histogram) Mean() float64 { return 0 }

// Rank gives the shares of observations in buckets below that of v, in the same
// bucket, and above. They sum to 1. lo and hi bound v's bucket.
func (h *Histogram) Rank(v float64) (r Rank) { return }

type Rank struct {
	Below, Same, Above float64
	Low, High          float64 // bounds of the bucket that holds the value
}

func (h *Histogram) Clone() *Histogram { return nil }
func (h *Histogram) Validate() error   { return nil }

// AppendBinary appends the compact form; UnmarshalBinary replaces h by one.
func (h *Histogram) AppendBinary(dst []byte) ([]byte, error) { return dst, nil }
func (h *Histogram) UnmarshalBinary(b []byte) error          { return nil }

// Moments reads count, sum, min and max from the compact form alone.
func Moments(b []byte) (m Moment, err error) { return }

type Moment struct {
	Count         uint64
	Sum, Min, Max float64
	Weighted      bool
}

// BucketIndex returns the bucket of v > 0 at the schema; UpperBound its inclusive upper bound.
func BucketIndex(v float64, schema int8) int32    { return 0 }
func UpperBound(index int32, schema int8) float64 { return 0 }
