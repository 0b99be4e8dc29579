package hist

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func merged(t *rapid.T, schema int8, hs ...*Histogram) *Histogram {
	m := New(schema)
	for _, h := range hs {
		if err := m.Merge(h); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Validate(); err != nil {
		t.Fatalf("%v: %s", err, summary(m))
	}
	return m
}

// tolerance is 1e-12 of the absolute values that were summed.
func tolerance(hs ...*Histogram) float64 {
	t := 0.0
	for _, h := range hs {
		for b := range h.All() {
			if m := max(math.Abs(b.Lower), math.Abs(b.Upper)); !math.IsInf(m, 0) {
				t += m * float64(b.Count)
			}
		}
		t += math.Abs(h.Sum)
	}
	return t * 1e-12
}

func TestMergeAlgebra(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hs := rapid.SliceOfN(rapid.Custom(genExponential), 1, 6).Draw(t, "hs")
		before := make([]string, len(hs))
		for i, h := range hs {
			before[i] = summary(h)
		}
		want := merged(t, MaxSchema, hs...)
		var count uint64
		for _, h := range hs {
			count += h.Count
		}
		if want.Count != count {
			t.Fatalf("count %d, want %d", want.Count, count)
		}
		tol := tolerance(hs...)

		// Any order.
		shuffled := rapid.Permutation(hs).Draw(t, "order")
		if got := merged(t, MaxSchema, shuffled...); !equal(got, want, tol) {
			t.Fatalf("shuffled: got %s, want %s", summary(got), summary(want))
		}
		// Any grouping.
		cut := rapid.IntRange(0, len(hs)).Draw(t, "cut")
		a, b := merged(t, MaxSchema, hs[:cut]...), merged(t, MaxSchema, hs[cut:]...)
		if got := merged(t, MaxSchema, a, b); !equal(got, want, tol) {
			t.Fatalf("grouped: got %s, want %s", summary(got), summary(want))
		}
		// Empty changes nothing.
		again := want.Clone()
		if err := again.Merge(New(MinSchema)); err != nil || !equal(again, want, 0) {
			t.Fatalf("merged with nothing: %s, want %s", summary(again), summary(want))
		}
		for i, h := range hs {
			if summary(h) != before[i] {
				t.Fatalf("merging changed its argument: %s, was %s", summary(h), before[i])
			}
		}
	})
}

// Whole nanoseconds sum exactly, in any order.
func TestSumIsExact(t *testing.T) {
	h, o := New(5), New(5)
	var total int64
	for i := range int64(100000) {
		ns := i * 7919 % 1e9
		total += ns
		_ = o.RecordNanos(ns, 1)
		if i%100 == 99 {
			_ = h.Merge(o)
			o.Reset(5)
		}
	}
	if got, ok := h.SumNanos(); !ok || got != total || h.Sum != Seconds(total) {
		t.Errorf("got %d, %v, want %d", got, ok, total)
	}
	// Other numbers are summed with compensation: 0.1 as float64, a million times.
	g := New(5)
	for range 1000000 {
		_ = g.Record(1.0 / 3)
	}
	if want := 1e6 / 3; math.Abs(g.Sum-want) > 1e-12*want {
		t.Errorf("got %v, want %v", g.Sum, want)
	}
	// What the owner writes is taken.
	g.Sum = 7
	_ = g.Record(1.5)
	if g.Sum != 8.5 {
		t.Errorf("got %v, want 8.5", g.Sum)
	}
}

// Reducing, and merging of unequal schemas, are recording at the coarser one.
func TestReduceIsRecordingCoarser(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fine := int8(rapid.IntRange(MinSchema, MaxSchema).Draw(t, "fine"))
		coarse := int8(rapid.IntRange(MinSchema, int(fine)).Draw(t, "coarse"))
		vs := rapid.SliceOf(rapid.OneOf(rapid.Float64Range(-1, 1), rapid.Float64Range(-1e9, 1e9), rapid.SampledFrom([]float64{0, 1, 2, 4, -1}))).Draw(t, "vs")
		a, b, c, rest := New(fine), New(coarse), New(fine), New(coarse)
		for i, v := range vs {
			_ = a.Record(v)
			_ = b.Record(v)
			if i%2 == 0 {
				_ = c.Record(v)
			} else {
				_ = rest.Record(v)
			}
		}
		a.Reduce(coarse)
		if !equal(a, b, 0) {
			t.Fatalf("got %s, want %s", summary(a), summary(b))
		}
		_ = c.Merge(rest)
		c.Reduce(coarse)
		if !equal(c, b, tolerance(b)) {
			t.Fatalf("merged: got %s, want %s", summary(c), summary(b))
		}
	})
}

func TestAddBuckets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schema := rapid.IntRange(MinSchema, 20).Draw(t, "schema")
		own := int8(rapid.IntRange(MinSchema, MaxSchema).Draw(t, "own"))
		offset := rapid.Int32Range(-1000, 1000).Draw(t, "offset")
		counts := rapid.SliceOfN(rapid.Uint64Range(0, 3), 0, 50).Draw(t, "counts")
		negative := rapid.Bool().Draw(t, "negative")
		h := New(own)
		if err := h.SetZeroThreshold(0); err != nil {
			t.Fatal(err)
		}
		if err := h.AddBuckets(schema, offset, counts, negative); err != nil {
			if schema >= 0 || int64(offset)<<-schema > -1074 && int64(offset)+50 < 1024>>-schema {
				t.Fatal(err)
			}
			return
		}
		h.Min, h.Max = math.NaN(), math.NaN()
		if err := h.Validate(); err != nil {
			t.Fatal(err)
		}
		// Each of them lies in the bucket that its upper bound lies in.
		want := map[int32]uint64{}
		for i, c := range counts {
			k := int64(offset) + int64(i)
			if by := schema - int(h.Schema); by > 0 {
				k = (k + 1<<by - 1) >> by
			}
			if c > 0 {
				want[int32(k)] += c
			}
		}
		n := 0
		for b := range h.All() {
			if n++; want[b.Index] != b.Count || negative != (b.Lower < 0) { // the bounds next to zero may be zero
				t.Fatalf("bucket %+v, want %d", b, want[b.Index])
			}
		}
		if n != len(want) {
			t.Fatalf("%d buckets, want %d", n, len(want))
		}
	})
	h := New(5)
	for _, c := range []struct {
		schema int
		offset int32
	}{{21, 0}, {-5, 0}, {8, math.MaxInt32 - 1}, {20, math.MinInt32}, {0, 1024}} {
		if err := h.AddBuckets(c.schema, c.offset, []uint64{1, 1}, false); !errors.Is(err, ErrInvalid) {
			t.Errorf("schema %d, offset %d: %v", c.schema, c.offset, err)
		}
	}
}

func TestSubtract(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Custom(genExponential).Draw(t, "a"), rapid.Custom(genExponential).Draw(t, "b")
		m := merged(t, MaxSchema, a, b)
		want := merged(t, MaxSchema, a)
		want.coarsenTo(m.Schema, m.ZeroThreshold)
		if err := m.Subtract(b); err != nil {
			t.Fatal(err)
		}
		if math.Abs(m.Sum-want.Sum) > tolerance(a, b) {
			t.Fatalf("sum %v, want %v", m.Sum, want.Sum)
		}
		if m.Min == m.Min && m.Min != want.Min || m.Max == m.Max && m.Max != want.Max {
			t.Fatalf("extremes %v, %v, want %v, %v or not known", m.Min, m.Max, want.Min, want.Max)
		}
		if want.Weighted && m.Squares != want.Squares {
			t.Fatalf("squares %v, want %v", m.Squares, want.Squares)
		}
		m.Sum, m.Min, m.Max, m.Weighted, m.Squares, m.Error = want.Sum, want.Min, want.Max, want.Weighted, want.Squares, want.Error
		if want.Count > 0 && !equal(m, want, 0) {
			t.Fatalf("got %s, want %s", summary(m), summary(want))
		}
		if want.Count == 0 && m.Count != 0 {
			t.Fatalf("count %d", m.Count)
		}
	})
	a, b := New(5), New(5)
	_ = a.Record(1)
	_ = b.Record(2)
	if err := a.Subtract(b); !errors.Is(err, ErrInvalid) || a.Count != 1 {
		t.Errorf("subtracted what was not there: %v, %s", err, summary(a))
	}
}

func TestExplicit(t *testing.T) {
	record := func(bounds []float64, vs ...float64) *Histogram {
		h, err := NewExplicit(bounds)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range vs {
			if err := h.Record(v); err != nil {
				t.Fatal(err)
			}
		}
		return h
	}
	merge := func(hs ...*Histogram) *Histogram {
		m := New(5)
		for _, h := range hs {
			if err := m.Merge(h); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.Validate(); err != nil {
			t.Fatal(err)
		}
		return m
	}
	bounds := []float64{0.1, 0.2, 0.4, 1}
	a, b := record(bounds, 0.15, 0.15, 0.2, 0.9), record(slices.Clone(bounds), 0.3, 5)
	if m := merge(a, b); !slices.Equal(m.Positive.Counts, []uint64{0, 3, 1, 1, 1}) || m.Max != 5 || m.Count != 6 {
		t.Errorf("equal bounds: %s", summary(m))
	}
	c := record([]float64{0.2, 0.3, 1}, 0.25, 0.01)
	m := merge(a, c)
	if !slices.Equal(m.Bounds, []float64{0.2, 1}) || !slices.Equal(m.Positive.Counts, []uint64{4, 2, 0}) {
		t.Errorf("common bounds: %s", summary(m))
	}
	if got, want := m.RelativeError(), max(0.2/0.01-1, 0.9/0.2-1); math.Abs(got-want) > 1e-9 {
		t.Errorf("error %v, want %v", got, want)
	}
	// With an exponential one: both orders, and merging before converting.
	e := New(5)
	_ = e.Record(0.15)
	x, y := merge(a, e, b), merge(e, merge(a, b))
	if x.Schema != 5 || !equal(x, y, 1e-12) || x.Count != 7 {
		t.Errorf("mixed: %s and %s", summary(x), summary(y))
	}
	if got, want := x.RelativeError(), 4.0; !(got >= want && got < want*1.03) { // 1 to 5
		t.Errorf("mixed: error %v, want %v and a bucket", got, want)
	}
	// No minimum, and a bucket that begins at zero: no bound.
	f := record(bounds, 0.05)
	f.Min, f.Max = math.NaN(), math.NaN()
	if got := f.RelativeError(); !math.IsInf(got, 1) {
		t.Errorf("error %v, want +Inf", got)
	}
	if got := merge(f, e).RelativeError(); !math.IsInf(got, 1) {
		t.Errorf("mixed: error %v, want +Inf", got)
	}
	if q := merge(a, b).Quantile(0.5); q <= 0.1 || q > 0.2 {
		t.Errorf("median %v", q)
	}
	if r := merge(a, b).Rank(0.2); r.Below != 0 || r.Same != 0.5 || r.Low != 0.1 || r.High != 0.2 {
		t.Errorf("rank %+v", r)
	}
	if n, lo, hi := merge(a, b).AtMost(0.4); n != 4 || lo != 4 || hi != 4 {
		t.Errorf("at most 0.4: %v, %d, %d", n, lo, hi)
	}
}
