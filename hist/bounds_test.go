package hist

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// The table is recomputed by repeated square roots of 2.
func TestMantissaTable(t *testing.T) {
	root := new(big.Float).SetPrec(300).SetInt64(2)
	for range 8 {
		root.Sqrt(root)
	}
	v := new(big.Float).SetPrec(300).SetInt64(1)
	for j := range 256 {
		f, _ := v.Float64()
		if got := math.Float64bits(f) & (1<<52 - 1); got != mantissa[j] {
			t.Errorf("2^(%d/256): got %#x, want %#x", j, mantissa[j], got)
		}
		v.Mul(v, root)
	}
}

func TestBucketIndex(t *testing.T) {
	for _, c := range []struct {
		v      float64
		schema int8
		want   int32
	}{
		{1, 5, 0}, {1, -4, 0}, {1, 8, 0}, {2, 0, 1}, {2, 5, 32}, {0.5, 5, -32},
		{math.Nextafter(1, 2), 5, 1}, {math.Nextafter(1, 0), 5, 0}, {math.Nextafter(2, 3), 0, 2},
		{3, 0, 2}, {4, 0, 2}, {3, -1, 1}, {4, -1, 1}, {5, -1, 2}, {65536, -4, 1}, {65537, -4, 2},
		{math.MaxFloat64, 0, 1024}, {math.MaxFloat64, 8, 1024 * 256}, {5e-324, 0, -1074}, {5e-324, 8, -1074 * 256},
		{0x1p-128, 5, -128 * 32}, {math.Sqrt2, 1, 1}, {math.Sqrt2 + 1e-15, 1, 2},
	} {
		if got := BucketIndex(c.v, c.schema); got != c.want {
			t.Errorf("BucketIndex(%v, %d) = %d, want %d", c.v, c.schema, got, c.want)
		}
	}
}

// Every bound is the last value of its bucket; so are the values around it.
func TestBoundsAreClosedAbove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schema := int8(rapid.IntRange(MinSchema, MaxSchema).Draw(t, "schema"))
		k := rapid.Int32Range(minIndex(schema), maxIndex(schema)).Draw(t, "k")
		b := UpperBound(k, schema)
		if b > 0 && UpperBound(k-1, schema) < b && BucketIndex(b, schema) != k {
			t.Fatalf("bound %v of %d is in %d", b, k, BucketIndex(b, schema))
		}
		if next := math.Nextafter(b, math.Inf(1)); next <= math.MaxFloat64 && BucketIndex(next, schema) <= k {
			t.Fatalf("%v beyond the bound of %d is in %d", next, k, BucketIndex(next, schema))
		}
		v := math.Float64frombits(rapid.Uint64Range(1, math.Float64bits(math.MaxFloat64)).Draw(t, "bits"))
		k = BucketIndex(v, schema)
		if v > UpperBound(k, schema) || v <= UpperBound(k-1, schema) {
			t.Fatalf("%v is in %d: (%v, %v]", v, k, UpperBound(k-1, schema), UpperBound(k, schema))
		}
		if schema > MinSchema {
			if half := BucketIndex(v, schema-1); half != (k+1)>>1 {
				t.Fatalf("%v is in %d, at half the resolution in %d", v, k, half)
			}
		}
	})
}

func TestRoundZeroThreshold(t *testing.T) {
	for _, c := range []struct {
		t      float64
		schema int8
		want   float64
	}{
		{0, 5, 0}, {0x1p-128, -4, 0x1p-128}, {0.001, 5, 0x1p-9}, {0.5, 5, 0.5}, {0.5, -1, 1}, {0.25, -1, 0.25},
		{3, 0, 4}, {5e-324, 0, 5e-324}, {1e300, 5, 0x1p997},
	} {
		if got, err := RoundZeroThreshold(c.t, c.schema); err != nil || got != c.want {
			t.Errorf("RoundZeroThreshold(%v, %d) = %v, %v, want %v", c.t, c.schema, got, err, c.want)
		}
	}
	for _, v := range []float64{-1, math.NaN(), math.Inf(1), math.MaxFloat64} {
		if _, err := RoundZeroThreshold(v, 5); err == nil {
			t.Errorf("zero threshold %v was accepted", v)
		}
	}
}
