package hist

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestPacked holds counts that are written eight at a time against those that are written
// one by one.
func TestPacked(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 30000 {
		counts := make([]uint64, 1+r.IntN(60))
		empty, large := r.Float64(), r.Float64()*r.Float64()
		for i := range counts {
			switch {
			case r.Float64() < empty:
			case r.Float64() < large:
				counts[i] = r.Uint64() >> (20 + r.IntN(44))
			default:
				counts[i] = uint64(r.IntN(17))
			}
		}
		last := len(counts) - 1
		counts[0], counts[last] = max(counts[0], 1), max(counts[last], 1)
		var p packed
		if !pack(&p, counts) {
			t.Fatal("not packed")
		}
		if sum, _ := addCounts(counts); p.total != sum {
			t.Fatalf("%d: total %d, want %d", counts, p.total, sum)
		}
		if got, want := wantsPlanes(&p, counts), wantsPlanes(nil, counts); got != want {
			t.Fatalf("%d: planes %v, want %v", counts, got, want)
		}
		if got, want := appendNibbles(nil, &p, counts), appendNibbles(nil, nil, counts); !bytes.Equal(got, want) {
			t.Fatalf("%d:\nnibbles %x\nwant    %x", counts, got, want)
		}
		if got, want := appendPlanes(nil, &p, counts), appendPlanes(nil, nil, counts); !bytes.Equal(got, want) {
			t.Fatalf("%d:\nplanes %x\nwant   %x", counts, got, want)
		}
	}
	if pack(&packed{}, make([]uint64, maxPacked+1)) {
		t.Error("more counts are packed than fit")
	}
}
