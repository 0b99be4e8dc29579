package hist

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// durations draws n log-normal durations in nanoseconds around 20 ms.
func durations(n int, seed uint64) []int64 {
	r := rand.New(rand.NewPCG(seed, 0))
	ns := make([]int64, n)
	for i := range ns {
		ns[i] = int64(2e7 * math.Exp(0.5*r.NormFloat64()))
	}
	return ns
}

func recorded(ns []int64) *Histogram {
	h := New(DefaultSchema)
	for _, v := range ns {
		_ = h.RecordNanos(v, 1)
	}
	return h
}

// points of n observations each, in compact form, with the mean of their
// bytes: so many that no branch predictor learns them.
func points(n int) (forms [][]byte, bytes float64) {
	for seed := range uint64(1024) {
		b, _ := recorded(durations(n, seed)).AppendBinary(nil)
		forms = append(forms, b)
		bytes += float64(len(b)) / 1024
	}
	return forms, bytes
}

var sizes = []int{1, 2, 3, 10, 75, 200, 1200, 12000, 72000}

func BenchmarkRecord(b *testing.B) {
	ns := durations(4096, 1)
	b.Run("input=nanos", func(b *testing.B) {
		h := recorded(ns)
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			_ = h.RecordNanos(ns[i&4095], 1)
			i++
		}
	})
	b.Run("input=float", func(b *testing.B) {
		h := recorded(ns)
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			_ = h.Record(float64(ns[i&4095]) / 1e9)
			i++
		}
	})
}

func BenchmarkMerge(b *testing.B) {
	for _, n := range []int{75, 200, 12000} {
		b.Run(fmt.Sprintf("observations=%d", n), func(b *testing.B) {
			h, o := recorded(durations(100000, 1)), recorded(durations(n, 2))
			b.ReportAllocs()
			for b.Loop() {
				_ = h.Merge(o)
				h.Count = 100000
			}
		})
	}
}

func BenchmarkMergeEncoded(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("observations=%d", n), func(b *testing.B) {
			forms, bytes := points(n)
			h := recorded(durations(100000, 1))
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if err := h.MergeEncoded(forms[i&1023]); err != nil {
					b.Fatal(err)
				}
				i++
			}
			b.ReportMetric(bytes, "B/point")
		})
	}
	b.Run("observations=200/schema=3", func(b *testing.B) {
		forms, _ := points(200)
		h := recorded(durations(100000, 1))
		h.Reduce(3)
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			_ = h.MergeEncoded(forms[i&1023])
			i++
		}
	})
}

func BenchmarkAppendBinary(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("observations=%d", n), func(b *testing.B) {
			h := recorded(durations(n, 1))
			var buf []byte
			b.ReportAllocs()
			for b.Loop() {
				buf, _ = h.AppendBinary(buf[:0])
			}
			b.ReportMetric(float64(len(buf)), "B/point")
		})
	}
}

func BenchmarkAppendNanos(b *testing.B) {
	for _, n := range []int{1, 2, 3, 5, 8, 16} {
		b.Run(fmt.Sprintf("observations=%d", n), func(b *testing.B) {
			ns := durations(4096, 1)
			var buf []byte
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				at := i * n & 2047
				buf, _ = AppendNanos(buf[:0], DefaultSchema, ns[at:at+n], nil)
				i++
			}
			b.ReportMetric(float64(len(buf)), "B/point")
		})
	}
}

func BenchmarkMoments(b *testing.B) {
	forms, _ := points(200)
	i := 0
	for b.Loop() {
		_, _ = Moments(forms[i&1023])
		i++
	}
}

func BenchmarkQuantile(b *testing.B) {
	h := recorded(durations(100000, 1))
	for b.Loop() {
		_ = h.Quantile(0.99)
	}
}

// Recording, merging and encoding allocate nothing once the window fits.
func TestAllocations(t *testing.T) {
	ns := durations(1000, 1)
	h, o := recorded(durations(100000, 1)), recorded(ns)
	cell := Cell{Schema: 5, Count: o.Count, Offset: o.Positive.Offset}
	cell.moments(o)
	buf := make([]byte, 0, 4096)
	encoded, _ := o.AppendBinary(nil)
	coarse := h.Clone()
	coarse.Reduce(3)
	_ = coarse.MergeEncoded(encoded)
	one := []byte{0x11, 0xc0, 0xf0, 0xf5, 0x0b}
	var fresh Histogram
	_ = fresh.UnmarshalBinary(encoded)
	for name, f := range map[string]func(){
		"RecordNanos":            func() { _ = h.RecordNanos(ns[7], 1) },
		"Record":                 func() { _ = h.Record(0.02) },
		"Merge":                  func() { _ = h.Merge(o) },
		"MergeEncoded":           func() { _ = h.MergeEncoded(encoded) },
		"MergeEncoded to coarse": func() { _ = coarse.MergeEncoded(encoded) },
		"MergeEncoded one":       func() { _ = h.MergeEncoded(one) },
		"UnmarshalBinary":        func() { _ = fresh.UnmarshalBinary(encoded) },
		"AppendBinary":           func() { buf, _ = h.AppendBinary(buf[:0]) },
		"AppendNanos of 1":       func() { buf, _ = AppendNanos(buf[:0], 5, ns[:1], nil) },
		"AppendNanos of 3":       func() { buf, _ = AppendNanos(buf[:0], 5, ns[:3], nil) },
		"AppendNanos of 16":      func() { buf, _ = AppendNanos(buf[:0], 5, ns[:16], nil) },
		"AppendCell":             func() { buf, _ = AppendCell(buf[:0], &cell, o.Positive.Counts) },
		"Moments":                func() { _, _ = Moments(encoded) },
		"Quantile":               func() { _ = h.Quantile(0.5) },
		"Rank":                   func() { _ = h.Rank(0.5) },
		"All": func() {
			for range h.All() {
			}
		},
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
