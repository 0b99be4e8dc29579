// Package hist keeps whole distributions: base-2 exponential histograms as
// OTLP ExponentialHistogram and Prometheus native histograms define them.
//
// Bucket bounds grow by 2^(2^-schema), so a value is known to within one
// bucket however many observations are added, and histograms of any origin
// merge by adding counts: merging is commutative and associative, and a finer
// schema becomes a coarser one exactly, by halving. A Histogram is an
// accumulator; its compact binary form is what is stored, and MergeEncoded
// adds that form to an accumulator without building anything in between.
//
// Buckets are numbered as Prometheus does: bucket k of schema s covers
// (2^((k-1)/2^s), 2^(k/2^s)], open below and closed above. OTLP's bucket i,
// (base^i, base^(i+1)], is bucket i+1 here. Negative values mirror this.
//
// What becomes of unusual input: NaN and infinities are refused (ErrInvalid);
// values no greater in magnitude than the zero threshold, 2^-128 unless set
// otherwise, count in the zero bucket, so subnormal numbers do too; the largest
// finite number has a bucket of its own kind like any other; negative values
// go to negative buckets.
//
// Nothing here reads a clock, does I/O or locks: a Histogram belongs to one
// goroutine at a time.
package hist

import (
	"errors"
	"fmt"
	"math"
)

const (
	MinSchema     = -4
	MaxSchema     = 8
	DefaultSchema = 5
	// Explicit is the schema of histograms with explicit bounds (le buckets);
	// it is Prometheus' number for custom buckets.
	Explicit = -53
	// DefaultZeroThreshold is 2^-128, as in Prometheus' client.
	DefaultZeroThreshold = 0x1p-128
)

// Errors of decoding and merging; wrapped with the cause.
var (
	ErrCorrupt = errors.New("corrupt histogram")
	ErrInvalid = errors.New("invalid histogram")
)

// Buckets is a dense window of bucket counts. Counts[i] belongs to the bucket
// with index Offset+i in Prometheus' numbering: bucket k of schema s covers
// (2^((k-1)/2^s), 2^(k/2^s)], open below, closed above. OTLP's bucket i is
// Prometheus' bucket i+1. Leading and trailing zeros mean nothing.
type Buckets struct {
	Offset int32
	Counts []uint64
}

// Histogram is a distribution. Use New, or fill every exported field yourself (as a
// decoder of foreign histograms does) and call Validate. The exported fields are the
// whole content: the unexported ones only help to keep Sum exact.
type Histogram struct {
	Schema        int8
	ZeroThreshold float64 // values in [-t, t] are in the zero bucket; 0 or a power of two, see RoundZeroThreshold
	ZeroCount     uint64
	Positive      Buckets
	Negative      Buckets
	Bounds        []float64 // explicit upper bounds, ascending, +Inf left out; only if Schema is Explicit; Positive.Counts has one more, Offset 0. Shared between histograms, never written to
	Count         uint64    // all buckets together
	Sum           float64   // NaN when unknown
	Min, Max      float64   // NaN when Count is 0 or unknown
	Weighted      bool      // holds observations that stood for several (sampling)
	Squares       float64   // Σw² of observations that stood for w each; only if Weighted, else 0. See Effective
	Error         float64   // relative error inherited from coarser inputs; 0 if none, +Inf if unbounded

	exact   exactSum
	scratch []uint64
}

// New returns an empty histogram of a schema in [MinSchema, MaxSchema]; other
// schemas are replaced by the nearest of these. For explicit bounds see
// NewExplicit.
func New(schema int8) *Histogram {
	h := &Histogram{}
	h.Reset(schema)
	return h
}

// Reset empties h, keeping its memory. The schema is treated as by New.
func (h *Histogram) Reset(schema int8) {
	h.Schema = min(max(schema, MinSchema), MaxSchema)
	h.ZeroThreshold = DefaultZeroThreshold
	h.ZeroCount = 0
	h.Positive = Buckets{Counts: h.Positive.Counts[:0]}
	h.Negative = Buckets{Counts: h.Negative.Counts[:0]}
	h.Bounds = nil
	h.Count = 0
	h.Sum = 0
	h.Min, h.Max = math.NaN(), math.NaN()
	h.Weighted, h.Squares = false, 0
	h.Error = 0
	h.exact = exactSum{ok: true}
}

// Clone returns an independent copy of h. Bounds are shared.
func (h *Histogram) Clone() *Histogram {
	c := *h
	c.Positive.Counts = append([]uint64(nil), h.Positive.Counts...)
	c.Negative.Counts = append([]uint64(nil), h.Negative.Counts...)
	c.scratch = nil
	return &c
}

// Mean returns the arithmetic mean, NaN if h is empty or its sum unknown.
func (h *Histogram) Mean() float64 {
	if h.Count == 0 {
		return math.NaN()
	}
	return h.Sum / float64(h.Count)
}

// Effective returns the number of observations of equal weight that would say as much:
// (Σw)²/Σw² (Kish 1965, Survey Sampling, section 11.7). It is Count unless h is Weighted;
// where each observation stood for w it is Count/w, the number that was seen. It adds up
// over histograms whose weights are alike.
func (h *Histogram) Effective() float64 { return effective(h.Count, h.SquaredWeights()) }

func effective(count uint64, squares float64) float64 {
	if n := float64(count); squares > n {
		return n / squares * n
	}
	return float64(count)
}

// SquaredWeights returns Σw²: Squares, or Count where observations stand for themselves.
func (h *Histogram) SquaredWeights() float64 {
	if h.Weighted {
		return h.Squares
	}
	return float64(h.Count)
}

// validSquares reports whether Σw² is possible for whole weights that sum to count, give
// or take rounding.
func validSquares(squares float64, count uint64) bool {
	const slack = 1e-9
	n := float64(count)
	return squares >= n*(1-slack) && squares <= n*n*(1+slack)
}

// Validate reports the first broken rule of a histogram that was filled by
// hand, wrapping ErrInvalid: schema, zero threshold, bounds, bucket indexes
// beyond what a float64 can hold, counts that do not add up, a minimum above
// the maximum, infinite or NaN values where a number must be, squares that no weights
// have.
func (h *Histogram) Validate() error {
	if math.IsInf(h.Sum, 0) && h.Count == 0 {
		return invalid("sum %v of no observations", h.Sum)
	}
	if math.IsInf(h.Min, 0) || math.IsInf(h.Max, 0) || h.Min > h.Max {
		return invalid("minimum %v, maximum %v", h.Min, h.Max)
	}
	if !(h.Error >= 0) {
		return invalid("relative error %v", h.Error)
	}
	if h.Weighted && !validSquares(h.Squares, h.Count) {
		return invalid("squares %v of count %d", h.Squares, h.Count)
	}
	if h.Schema == Explicit {
		return h.validateExplicit()
	}
	if h.Schema < MinSchema || h.Schema > MaxSchema {
		return invalid("schema %d, want %d to %d", h.Schema, MinSchema, MaxSchema)
	}
	if h.Bounds != nil {
		return invalid("explicit bounds in a histogram of schema %d", h.Schema)
	}
	if t, err := RoundZeroThreshold(h.ZeroThreshold, h.Schema); err != nil {
		return err
	} else if t != h.ZeroThreshold {
		return invalid("zero threshold %v, want %v", h.ZeroThreshold, t)
	}
	least, most := int64(minIndex(h.Schema)), int64(maxIndex(h.Schema))
	zero := int64(thresholdIndex(h.ZeroThreshold, h.Schema))
	total := h.ZeroCount
	for _, b := range [...]*Buckets{&h.Positive, &h.Negative} {
		lo, hi := trimmed(b.Counts)
		if lo == hi {
			continue
		}
		first, last := int64(b.Offset)+int64(lo), int64(b.Offset)+int64(hi)-1
		switch {
		case first < least || first > most:
			return invalid("bucket %d is outside of schema %d", first, h.Schema)
		case last > most:
			return invalid("bucket %d is outside of schema %d", last, h.Schema)
		case first <= zero:
			return invalid("bucket %d is within the zero threshold %v", first, h.ZeroThreshold)
		}
		sum, ok := addCounts(b.Counts[lo:hi])
		if !ok || total+sum < total {
			return invalid("counts overflow")
		}
		total += sum
	}
	if total != h.Count {
		return invalid("count %d, but buckets hold %d", h.Count, total)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, ErrInvalid)...)
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, ErrCorrupt)...)
}
