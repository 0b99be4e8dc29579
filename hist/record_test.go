package hist

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestUnusualInput(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		h := New(5)
		if err := h.Record(v); !errors.Is(err, ErrInvalid) {
			t.Errorf("recording %v: %v", v, err)
		}
		if h.Count != 0 || h.Sum != 0 || !math.IsNaN(h.Min) {
			t.Errorf("recording %v changed the histogram: %+v", v, *h)
		}
	}
	for _, c := range []struct {
		v                  float64
		zero, plus, minus  uint64
		threshold          float64
		quantile, smallest float64
	}{
		{0, 1, 0, 0, DefaultZeroThreshold, 0, 0},
		{math.Copysign(0, -1), 1, 0, 0, DefaultZeroThreshold, 0, 0},
		{5e-324, 1, 0, 0, DefaultZeroThreshold, 5e-324, 5e-324},
		{-1e-310, 1, 0, 0, DefaultZeroThreshold, -1e-310, -1e-310},
		{0x1p-128, 1, 0, 0, DefaultZeroThreshold, 0x1p-128, 0x1p-128},
		{math.Nextafter(0x1p-128, 1), 0, 1, 0, DefaultZeroThreshold, math.Nextafter(0x1p-128, 1), math.Nextafter(0x1p-128, 1)},
		{5e-324, 0, 1, 0, 0, 5e-324, 5e-324},
		{math.MaxFloat64, 0, 1, 0, DefaultZeroThreshold, math.MaxFloat64, math.MaxFloat64},
		{-math.MaxFloat64, 0, 0, 1, DefaultZeroThreshold, -math.MaxFloat64, -math.MaxFloat64},
		{-3, 0, 0, 1, DefaultZeroThreshold, -3, -3},
		{0.7, 1, 0, 0, 1, 0.7, 0.7},
	} {
		h := New(5)
		if err := h.SetZeroThreshold(c.threshold); err != nil {
			t.Fatal(err)
		}
		if err := h.Record(c.v); err != nil {
			t.Errorf("recording %v: %v", c.v, err)
		}
		if err := h.Validate(); err != nil {
			t.Errorf("%v: %v", c.v, err)
		}
		sum := func(b Buckets) (n uint64) {
			for _, c := range b.Counts {
				n += c
			}
			return n
		}
		if h.ZeroCount != c.zero || sum(h.Positive) != c.plus || sum(h.Negative) != c.minus || h.Min != c.smallest || h.Max != c.smallest {
			t.Errorf("%v: got %s", c.v, summary(h))
		}
		if q := h.Quantile(0.5); q != c.quantile {
			t.Errorf("median of %v is %v", c.v, q)
		}
		var g Histogram
		if err := g.UnmarshalBinary(encode(t, h)); err != nil || !equal(h, &g, 0) {
			t.Errorf("%v: round trip: %v, %s", c.v, err, summary(&g))
		}
	}
	h := New(5)
	_ = h.RecordN(1, math.MaxUint64)
	if err := h.Record(1); !errors.Is(err, ErrInvalid) {
		t.Errorf("overflow: %v", err)
	}
	if _, err := h.AppendBinary(nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("encoding 2^64-1 observations: %v", err)
	}
}

func TestRecordNanosIsRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schema := int8(rapid.IntRange(MinSchema, MaxSchema).Draw(t, "schema"))
		a, b := New(schema), New(schema)
		for range rapid.IntRange(1, 20).Draw(t, "n") {
			ns := rapid.OneOf(rapid.Int64Range(-5, 5), rapid.Int64Range(0, 1e9), rapid.Int64Range(-maxSure, maxSure)).Draw(t, "ns")
			n := rapid.Uint64Range(0, 3).Draw(t, "weight")
			if err := a.RecordNanos(ns, n); err != nil {
				t.Fatal(err)
			}
			if err := b.RecordN(Seconds(ns), n); err != nil {
				t.Fatal(err)
			}
		}
		if !equal(a, b, 0) {
			t.Fatalf("got %s, want %s", summary(a), summary(b))
		}
	})
}

func TestValidate(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name string
		h    Histogram
	}{
		{"schema", Histogram{Schema: 9, Min: nan, Max: nan}},
		{"count", Histogram{Schema: 5, Count: 2, Positive: Buckets{0, []uint64{1}}}},
		{"index", Histogram{Schema: 0, Count: 1, Positive: Buckets{1025, []uint64{1}}}},
		{"index below", Histogram{Schema: 0, Count: 1, Negative: Buckets{-1075, []uint64{1}}}},
		{"threshold", Histogram{Schema: 0, ZeroThreshold: 0.3}},
		{"threshold at a negative schema", Histogram{Schema: -1, ZeroThreshold: 0.5}},
		{"within the threshold", Histogram{Schema: 0, ZeroThreshold: 0.5, Count: 1, Positive: Buckets{-1, []uint64{1}}}},
		{"minimum", Histogram{Schema: 0, Count: 1, Positive: Buckets{0, []uint64{1}}, Min: 2, Max: 1}},
		{"infinite", Histogram{Schema: 0, Count: 1, Positive: Buckets{0, []uint64{1}}, Min: 2, Max: math.Inf(1)}},
		{"squares below the count", Histogram{Schema: 0, Count: 2, Weighted: true, Squares: 1, Positive: Buckets{0, []uint64{2}}}},
		{"squares beyond one observation's", Histogram{Schema: 0, Count: 2, Weighted: true, Squares: 5, Positive: Buckets{0, []uint64{2}}}},
		{"error", Histogram{Schema: 0, Error: nan}},
		{"overflow", Histogram{Schema: 0, Count: 1, Positive: Buckets{0, []uint64{math.MaxUint64, 2}}}},
		{"index of the last", Histogram{Schema: 0, Count: 2, Positive: Buckets{1024, []uint64{1, 1}}}},
		{"overflow over the sides", Histogram{Schema: 0, Count: 1, Positive: Buckets{0, []uint64{math.MaxUint64}}, Negative: Buckets{0, []uint64{2}}}},
		{"overflow with zeros", Histogram{Schema: 0, Count: 1, ZeroCount: 2, Positive: Buckets{0, []uint64{math.MaxUint64}}}},
		{"bounds", Histogram{Schema: Explicit, Bounds: []float64{1, 1}, Positive: Buckets{0, make([]uint64, 3)}}},
		{"NaN bound", Histogram{Schema: Explicit, Bounds: []float64{nan}, Positive: Buckets{0, make([]uint64, 2)}}},
		{"too few buckets", Histogram{Schema: Explicit, Bounds: []float64{1}, Positive: Buckets{0, make([]uint64, 1)}}},
		{"bounds of an exponential one", Histogram{Schema: 1, Bounds: []float64{1}}},
	} {
		if err := c.h.Validate(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := c.h.AppendBinary(nil); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: encoded, %v", c.name, err)
		}
	}
	// Zeros around the window mean nothing, wherever they are.
	h := Histogram{Schema: 0, ZeroThreshold: 0.5, Count: 2, Positive: Buckets{-2, make([]uint64, 1100)}}
	h.Positive.Counts[2], h.Positive.Counts[1026] = 1, 1
	if err := h.Validate(); err != nil {
		t.Error(err)
	}
}

// −0 is the value 0: what was recorded in another order has the same bytes.
func TestRecordNegativeZero(t *testing.T) {
	zero := math.Copysign(0, -1)
	var encoded [2][]byte
	for i, values := range [][]float64{{zero, 0, 1}, {0, zero, 1}} {
		h := New(DefaultSchema)
		for _, v := range values {
			if err := h.Record(v); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		if encoded[i], err = h.AppendBinary(nil); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(encoded[0], encoded[1]) {
		t.Errorf("%x and %x", encoded[0], encoded[1])
	}
}
