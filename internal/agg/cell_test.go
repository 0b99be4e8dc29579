package agg

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"tailscope/hist"
	"tailscope/internal/series"
)

// A cell holds the squares of its weights, wherever on the way to bucket counts the first
// weighted observation comes, and however its page grows.
func TestCellSquares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newCells(&slabs{}, 0)
		wants := [2]*hist.Histogram{hist.New(cellSchema), hist.New(cellSchema)}
		observe := func(s uint32, ns int64, w uint32) {
			c, _ := g.cell(s, 4)
			g.observe(c, ns, w, g.tab.bucket(ns))
			if err := wants[s].RecordNanos(ns, uint64(w)); err != nil {
				t.Fatal(err)
			}
		}
		check := func(s uint32, want *hist.Histogram) {
			c, _ := g.cell(s, 4)
			b, err := g.appendDurations(nil, c, &hist.Histogram{})
			var got hist.Histogram
			if err == nil {
				err = got.UnmarshalBinary(b)
			}
			if err != nil || got.Squares != want.Squares {
				t.Fatalf("squares %v, %v, want %v", got.Squares, err, want.Squares)
			}
			equal(t, "cell", &got, want)
		}
		for range rapid.IntRange(1, 60).Draw(t, "observations") {
			s := uint32(rapid.IntRange(0, 1).Draw(t, "series"))
			ns := rapid.OneOf(rapid.Int64Range(0, 1e12), rapid.Int64Range(1e6, 1e7)).Draw(t, "ns")
			w := rapid.SampledFrom([]uint32{1, 1, 1, 8, 32}).Draw(t, "weight")
			for range rapid.IntRange(1, 9).Draw(t, "times") {
				observe(s, ns, w)
			}
			check(s, wants[s])
		}
		observe(0, 1, 1)
		observe(1, 1, 1)
		c, _ := g.cell(0, 4)
		o, _ := g.cell(1, 4)
		if err := g.absorb(c, o); err != nil {
			t.Fatal(err)
		}
		if err := wants[0].Merge(wants[1]); err != nil {
			t.Fatal(err)
		}
		check(0, wants[0])
	})
}

// Weighted observations of every bucket are taken, beyond the ends of their cell's page too.
func TestWeightedPagesAreWidened(t *testing.T) {
	st, c := newMemStore(), newClock()
	a := open(t, st, c, t.TempDir())
	want := hist.New(cellSchema)
	for _, widest := range []float64{1, 2, 4, 8} { // octaves
		b := a.NewBatch()
		for i := range 400 {
			ns := int64(1e8 * math.Exp2(widest*(float64(i)/200-1)))
			b.Observe(a.SpanTarget(&SpanIdentity{Service: "s"}), c.now().UnixNano(), ns, 32)
			if err := want.RecordNanos(ns, 32); err != nil {
				t.Fatal(err)
			}
		}
		commit(t, b)
	}
	flush(t, a)
	got := st.slots(t, series.SpanDuration, series.Full)[`{service="s"}`][series.Base.Slot(c.now().Unix())]
	equal(t, "weighted", got, want)
}
