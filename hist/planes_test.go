package hist

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestPlanes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "n")
		counts := make([]uint64, n)
		for range rapid.IntRange(0, 60).Draw(t, "occupied") {
			i := rapid.IntRange(0, n-1).Draw(t, "bucket")
			counts[i] = rapid.Uint64Range(1, math.MaxInt64/100).Draw(t, "count") >> rapid.IntRange(0, 62).Draw(t, "shift")
		}
		counts[0] |= 1
		counts[n-1] |= 256 // planes of zeros on the way
		w := make([]uint64, n)
		var want uint64
		for i, c := range counts {
			w[i] = uint64(i)
			want += c
		}
		b := appendPlanes(nil, nil, counts)
		total, used := addPlanes(w, append(b, 7))
		if total != want || used != len(b) {
			t.Fatalf("total %d of %d bytes, want %d of %d", total, used, want, len(b))
		}
		for i := range w {
			w[i] -= uint64(i)
		}
		if !slices.Equal(w, counts) {
			t.Fatalf("got %d, want %d", w, counts)
		}
		if _, used := addPlanes(make([]uint64, n-1), b); used != -1 {
			t.Fatalf("fits a bucket less: %d bytes", used)
		}
	})
}

// A cell and a histogram of large counts give the same wide form, whatever its
// extremes, and it merges as it was.
func TestWide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := New(DefaultSchema)
		base := rapid.Int64Range(1, 1<<40).Draw(t, "base")
		for range rapid.IntRange(1, 40).Draw(t, "values") {
			v := base * rapid.Int64Range(1, 100).Draw(t, "factor")
			for range rapid.SampledFrom([]int{1, 20, 300}).Draw(t, "times") {
				if err := h.RecordNanos(v, 1); err != nil {
					t.Fatal(err)
				}
			}
		}
		b := encode(t, h)
		a, c := New(DefaultSchema), New(DefaultSchema)
		for range 2 {
			if err := a.MergeEncoded(b); err != nil {
				t.Fatal(err)
			}
			if err := c.Merge(h); err != nil {
				t.Fatal(err)
			}
		}
		if !equal(a, c, 0) {
			t.Fatalf("%x: got %s, want %s", b, summary(a), summary(c))
		}
		cell := Cell{Schema: 5, Count: h.Count, Offset: h.Positive.Offset}
		if !cell.moments(h) {
			t.Skip("sum beyond whole nanoseconds")
		}
		counts := make([]uint16, len(h.Positive.Counts))
		for i, n := range h.Positive.Counts {
			counts[i] = uint16(n)
		}
		if d, err := AppendCell(nil, &cell, counts); err != nil || !slices.Equal(d, b) {
			t.Fatalf("cell: got %x, %v, want %x", d, err, b)
		}
	})
}
