package hist

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// genHistogram draws histograms of every kind: durations and other numbers,
// any schema and zero threshold, weights, explicit bounds.
func genHistogram() *rapid.Generator[*Histogram] {
	return rapid.Custom(func(t *rapid.T) *Histogram {
		if rapid.IntRange(0, 9).Draw(t, "kind") == 0 {
			return genExplicit(t)
		}
		return genExponential(t)
	})
}

func genExponential(t *rapid.T) *Histogram {
	schema := int8(DefaultSchema)
	if rapid.Bool().Draw(t, "other schema") {
		schema = int8(rapid.IntRange(MinSchema, MaxSchema).Draw(t, "schema"))
	}
	h := New(schema)
	if rapid.IntRange(0, 3).Draw(t, "threshold?") == 0 {
		th := rapid.SampledFrom([]float64{0, 0x1p-128, 1e-9, 0.001, 0.1, 3}).Draw(t, "threshold")
		if err := h.SetZeroThreshold(th); err != nil {
			t.Fatal(err)
		}
	}
	n := rapid.SampledFrom([]int{0, 1, 2, 3, 5, 20, 100}).Draw(t, "n")
	nanos := rapid.IntRange(0, 2).Draw(t, "nanos") > 0
	weighted := rapid.IntRange(0, 3).Draw(t, "weighted") == 0
	for range n {
		w := uint64(1)
		if weighted {
			w = uint64(rapid.IntRange(1, 1000).Draw(t, "weight"))
		}
		var err error
		if nanos {
			err = h.RecordNanos(rapid.OneOf(rapid.Int64Range(0, 1e9), rapid.Int64Range(2e7, 4e7), rapid.Int64Range(0, math.MaxInt64/1000000)).Draw(t, "ns"), w)
		} else {
			err = h.RecordN(rapid.OneOf(rapid.Float64Range(-10, 10), rapid.Float64Range(-1e30, 1e30), rapid.SampledFrom([]float64{0, 1, -1, 0.5, 1e-40, -5e-324})).Draw(t, "v"), w)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if rapid.IntRange(0, 9).Draw(t, "unknown") == 0 {
		h.Min, h.Max = math.NaN(), math.NaN()
	}
	if rapid.IntRange(0, 9).Draw(t, "error") == 0 {
		h.Error = rapid.SampledFrom([]float64{0.5, 1, math.Inf(1)}).Draw(t, "error")
	}
	return h
}

func genExplicit(t *rapid.T) *Histogram {
	all := []float64{-5, 0, 0.005, 0.01, 0.025, 0.1, 1.0 / 3, 1, 10}
	var bounds []float64
	for _, b := range all {
		if rapid.Bool().Draw(t, "bound") {
			bounds = append(bounds, b)
		}
	}
	h, err := NewExplicit(bounds)
	if err != nil {
		t.Fatal(err)
	}
	for range rapid.IntRange(0, 30).Draw(t, "n") {
		if err := h.RecordN(rapid.Float64Range(-7, 20).Draw(t, "v"), uint64(rapid.SampledFrom([]int{1, 1, 1, 8}).Draw(t, "weight"))); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func encode(t interface{ Fatal(...any) }, h *Histogram) []byte {
	b, err := h.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// summary is what a failing test prints of a histogram.
func summary(h *Histogram) string {
	c := h.Clone()
	c.Positive.Offset, c.Positive.Counts = h.Positive.Occupied()
	c.Negative.Offset, c.Negative.Counts = h.Negative.Occupied()
	return fmt.Sprintf("%.600v", *c)
}

// equal compares content; sums may differ by the tolerance.
func equal(a, b *Histogram, tolerance float64) bool {
	same := func(x, y float64) bool { return x == y || x != x && y != y }
	sides := func(x, y *Buckets) bool {
		xo, xc := x.Occupied()
		yo, yc := y.Occupied()
		return slices.Equal(xc, yc) && (len(xc) == 0 || xo == yo)
	}
	return a.Schema == b.Schema && a.ZeroThreshold == b.ZeroThreshold && a.ZeroCount == b.ZeroCount &&
		a.Count == b.Count && a.Weighted == b.Weighted && a.Squares == b.Squares && a.Error == b.Error &&
		same(a.Min, b.Min) && same(a.Max, b.Max) && slices.Equal(a.Bounds, b.Bounds) &&
		sides(&a.Positive, &b.Positive) && sides(&a.Negative, &b.Negative) &&
		(same(a.Sum, b.Sum) || math.Abs(a.Sum-b.Sum) <= tolerance)
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := genHistogram().Draw(t, "h")
		if err := h.Validate(); err != nil {
			t.Fatal(err)
		}
		b := encode(t, h)
		var g Histogram
		if err := g.UnmarshalBinary(b); err != nil {
			t.Fatalf("%v: %x", err, b)
		}
		if !equal(h, &g, 0) {
			t.Fatalf("got %+v, want %+v", g, *h)
		}
		if err := g.Validate(); err != nil {
			t.Fatal(err)
		}
		if c := encode(t, &g); !bytes.Equal(b, c) {
			t.Fatalf("encoded again: %x, want %x", c, b)
		}
		m, err := Moments(b)
		if err != nil || m.Count != h.Count || m.Sum != h.Sum && h.Sum == h.Sum || m.Weighted != h.Weighted || m.Squares != h.Squares || m.Effective() != h.Effective() ||
			m.Min != h.Min && h.Min == h.Min || m.Max != h.Max && h.Max == h.Max {
			t.Fatalf("moments %+v, %v of %+v", m, err, *h)
		}
		for i := range b { // no prefix decodes
			if err := g.UnmarshalBinary(b[:i]); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("prefix of %d bytes of %x: %v", i, b, err)
			}
		}
	})
}

func TestMergeEncodedIsMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := New(int8(rapid.IntRange(MinSchema, MaxSchema).Draw(t, "schema"))), New(0)
		*b = *a
		for range rapid.IntRange(1, 4).Draw(t, "n") {
			h := genHistogram().Draw(t, "h")
			e := encode(t, h)
			var g Histogram
			if err := g.UnmarshalBinary(e); err != nil {
				t.Fatal(err)
			}
			if err := a.MergeEncoded(e); err != nil {
				t.Fatal(err)
			}
			if err := b.Merge(&g); err != nil {
				t.Fatal(err)
			}
		}
		if !equal(a, b, 0) {
			t.Fatalf("got %.300v, want %.300v", summary(a), summary(b))
		}
		if err := a.Validate(); err != nil {
			t.Fatal(err)
		}
	})
}

// Many durations that stand for themselves, added to weighted ones, count in their squares.
func TestMergeEncodedIntoWeighted(t *testing.T) {
	many := New(DefaultSchema)
	for i := range 20_000 {
		if err := many.RecordNanos(int64(1e7+i*2e3), 1); err != nil {
			t.Fatal(err)
		}
	}
	e := encode(t, many)
	if e[0] != wideForm {
		t.Fatalf("the form is %d, want the wide one", e[0])
	}
	got, want := New(DefaultSchema), New(DefaultSchema)
	for _, h := range []*Histogram{got, want} {
		if err := h.RecordNanos(2e7, 3); err != nil {
			t.Fatal(err)
		}
	}
	if err := got.MergeEncoded(e); err != nil {
		t.Fatal(err)
	}
	if err := want.Merge(many); err != nil {
		t.Fatal(err)
	}
	if got.Squares != 20_009 || !equal(got, want, 0) {
		t.Errorf("got %.300v, want %.300v", summary(got), summary(want))
	}
}

// Few durations straight to bytes give what a histogram of them gives.
func TestAppendNanos(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ns := rapid.SliceOfN(rapid.OneOf(rapid.Int64Range(0, 5), rapid.Int64Range(0, 1e11), rapid.Int64Range(2e7, 3e7), rapid.Int64Range(1, math.MaxInt64/100)), 0, 80).Draw(t, "ns")
		var weights []uint32
		if rapid.IntRange(0, 3).Draw(t, "weighted") == 0 {
			weights = rapid.SliceOfN(rapid.Uint32Range(0, 20), len(ns), len(ns)).Draw(t, "weights")
		}
		schema := rapid.SampledFrom([]int8{5, 5, 5, 3}).Draw(t, "schema")
		h := New(schema)
		for i, v := range ns {
			w := uint64(1)
			if weights != nil {
				w = uint64(weights[i])
			}
			if err := h.RecordNanos(v, w); err != nil {
				t.Fatal(err)
			}
		}
		want := encode(t, h)
		before := slices.Clone(ns)
		got, err := AppendNanos([]byte("x"), schema, ns, weights)
		if err != nil || !bytes.Equal(got[1:], want) {
			t.Fatalf("got %x, %v, want %x", got, err, want)
		}
		if !slices.Equal(ns, before) {
			t.Fatal("durations were changed")
		}
		if h.Count == 0 {
			return
		}
		c := Cell{Schema: schema, Weighted: h.Weighted, Squares: h.Squares, Zero: h.ZeroCount, Count: h.Count, Offset: h.Positive.Offset}
		if !c.moments(h) {
			t.Skip("sum beyond whole nanoseconds")
		}
		counts := make([]uint32, len(h.Positive.Counts))
		for i, n := range h.Positive.Counts {
			counts[i] = uint32(n)
		}
		got, err = AppendCell(nil, &c, counts)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("cell: got %x, %v, want %x", got, err, want)
		}
	})
}

func TestGoldenBytes(t *testing.T) {
	record := func(schema int8, vs ...float64) *Histogram {
		h := New(schema)
		for _, v := range vs {
			if err := h.Record(v); err != nil {
				t.Fatal(err)
			}
		}
		return h
	}
	weighted := New(5)
	_ = weighted.RecordN(0.025, 10)
	sampled := New(5)
	for _, n := range []uint64{32, 1, 32} {
		_ = sampled.RecordNanos(25e6, n)
	}
	many := New(5)
	for i := range 300 {
		_ = many.RecordNanos(int64(1e6+i%3*1e3+i/100*1e7), 1)
	}
	explicit, _ := NewExplicit([]float64{0.005, 0.01, 0.1})
	_ = explicit.Record(0.007)
	_ = explicit.Record(3)
	third, _ := NewExplicit([]float64{1.0 / 3})
	_ = third.Record(0.5)
	sixth, _ := NewExplicit([]float64{1.0 / 3})
	_ = sixth.RecordN(0.5, 3)
	wide := New(5)
	_ = wide.SetZeroThreshold(0.001)
	_ = wide.Record(0.0005)
	_ = wide.Record(-2)
	wide.Error = 0.5
	for _, c := range []struct {
		name string
		h    *Histogram
		want string
	}{
		{"empty", New(5), "10"},
		{"empty of schema 3", New(3), "160303000000"},
		{"one", record(5, 0.025), "11c0f0f50b"},
		{"one zero", record(5, 0), "1100"},
		{"two", record(5, 0.05, 0.025), "12c0f0f50bc0f0f50b"},
		{"three", record(5, 0.01, 0.03, 0.02), "1380ade20480ade20480ade204"},
		{"four", record(5, 0.01, 0.03, 0.02, 0.021), "1404c0eccf2680ade20480dac40901fc110101fc0201"},
		{"three hundred", many, "1531322c01e094b6c440420fd0343101c2fe8c000005646d05641d0464"},
		{"zeros among", record(5, 0, 0, 0, 1), "1641050480a8d6b9070080a8d6b90703020001"},
		{"coarse", record(0, 0.01, 0.03), "1601000280e8922680dac409808ece1c040b11"},
		{"one float", record(5, math.Pi), "18182d4454fb210940"},
		{"one negative", record(5, -1), "18000000000000f0bf"},
		{"one weighted", weighted, "190ac0f0f50b"},
		{"sampled", sampled, "1685054180a1dc8d0c80e1eb1780e1eb17c0c00a03d302000441"},
		{"explicit, sampled", sixth, "17850380bcc1960b8094ebdc038094ebdc03c04401555555555555d53f00010103"},
		{"explicit", explicit, "17090280b7d9b31680bfd60680f882ad160380ade204c096b1028095f52a0001030101"},
		{"explicit third", third, "1701018094ebdc038094ebdc038094ebdc0301555555555555d53f00010101"},
		{"zero threshold, error, negative", wide, "16790502bfcbeff20effcfacf30ec0843d1101000000000000e03f00024001"},
	} {
		b := encode(t, c.h)
		if got := hex.EncodeToString(b); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
		var g Histogram
		if err := g.UnmarshalBinary(b); err != nil || !equal(&g, c.h, 0) {
			t.Errorf("%s: got %+v, %v, want %+v", c.name, g, err, *c.h)
		}
	}
}

// Weighted points of older versions have no squares. They read as if each bucket held one
// observation: no set of weights has greater squares.
func TestOldWeightedPoints(t *testing.T) {
	for _, c := range []struct {
		name, old string
		squares   float64
	}{
		{"65 of 25 ms", "1941c0f0f50b", 65 * 65},
		{"two buckets and zeros", "1645057180f882ad160080c2d72f2143d3020005281f0428", 33*33 + 40*40 + 40*40},
		{"explicit", "170d488080b793b60180bfd60680f882ad160380ade204c096b1028095f52a010103000c400008", 64*64 + 8*8},
	} {
		b, err := hex.DecodeString(c.old)
		if err != nil {
			t.Fatal(err)
		}
		var h Histogram
		if err := h.UnmarshalBinary(b); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		m, err := Moments(b)
		if err != nil || h.Squares != c.squares || m.Squares != c.squares {
			t.Errorf("%s: squares %v, moments %+v, %v, want %v", c.name, h.Squares, m, err, c.squares)
		}
		merged := New(5)
		_ = merged.RecordN(0.5, 3)
		if err := merged.MergeEncoded(b); err != nil || merged.Squares != c.squares+9 {
			t.Errorf("%s: merged squares %v, %v, want %v", c.name, merged.Squares, err, c.squares+9)
		}
	}
}

// Squares do not depend on how observations were grouped, encoded or merged.
func TestEffectiveIsKishs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.SampledFrom([]uint64{1, 1, 8, 32, 1000}), 1, 60).Draw(t, "weights")
		var sum, squares float64
		parts := []*Histogram{New(5)}
		for _, w := range weights {
			if rapid.IntRange(0, 5).Draw(t, "next") == 0 {
				schema := int8(rapid.IntRange(MinSchema, MaxSchema).Draw(t, "schema"))
				parts = append(parts, New(schema))
			}
			_ = parts[len(parts)-1].RecordNanos(rapid.Int64Range(0, 1e9).Draw(t, "ns"), w)
			sum, squares = sum+float64(w), squares+float64(w)*float64(w)
		}
		whole := New(MaxSchema)
		for _, p := range rapid.Permutation(parts).Draw(t, "order") {
			if rapid.Bool().Draw(t, "encoded") {
				if err := whole.MergeEncoded(encode(t, p)); err != nil {
					t.Fatal(err)
				}
			} else if err := whole.Merge(p); err != nil {
				t.Fatal(err)
			}
		}
		if want := sum / squares * sum; math.Abs(whole.Effective()-want) > 1e-12*want || whole.SquaredWeights() != squares {
			t.Fatalf("effective %v, want %v; squares %v, want %v", whole.Effective(), want, whole.SquaredWeights(), squares)
		}
		first := New(MaxSchema)
		_ = first.Merge(parts[0])
		rest := whole.SquaredWeights() - first.SquaredWeights()
		if err := whole.Subtract(first); err != nil || whole.SquaredWeights() != rest {
			t.Fatalf("the first part subtracted: squares %v, %v, want %v", whole.SquaredWeights(), err, rest)
		}
	})
}

// Counts that add up only where they overflow are refused.
func TestAppendOverflow(t *testing.T) {
	for _, counts := range [][]uint64{{1 << 63, 1 << 63, 5}, {math.MaxUint64, 6}, {1 << 62, 1 << 62, 1 << 62, 1 << 62, 5}, {1<<63 + 5, 1 << 63}} {
		h := New(DefaultSchema)
		h.Positive.Counts, h.Count, h.Min, h.Max = counts, 5, 1, 1
		if b, err := h.AppendBinary(nil); !errors.Is(err, ErrInvalid) || b != nil {
			t.Errorf("%d: got %x, %v", counts, b, err)
		}
	}
}

// Nanoseconds come back from seconds, also where the product of both is rounded.
func TestNanosOfSeconds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ns := rapid.OneOf(rapid.Int64Range(0, 1<<63-1<<11), rapid.Int64Range(1<<51-1e4, 1<<51+1e4), rapid.Int64Range(15<<48, 1<<53+1e4)).Draw(t, "ns")
		for _, want := range []int64{ns, -ns} {
			v := Seconds(want)
			if got, ok := Nanos(v); !ok || Seconds(got) != v || ns < 1<<51 && got != want {
				t.Fatalf("%d of %v, %v: want %d", got, v, ok, want)
			}
		}
	})
}

// A histogram that is decoded into goes on with its bounds, which others share, or leaves
// them alone.
func TestDecodeSharesBounds(t *testing.T) {
	encode := func(bounds ...float64) []byte {
		h, err := NewExplicit(bounds)
		if err != nil {
			t.Fatal(err)
		}
		_ = h.Record(0.3)
		b, err := h.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	same, other := encode(0.25, 0.5), encode(0.25, 0.7)
	bounds := []float64{0.25, 0.5}
	h, _ := NewExplicit(bounds)
	if n := testing.AllocsPerRun(100, func() {
		if err := h.UnmarshalBinary(same); err != nil {
			t.Fatal(err)
		}
	}); n != 0 || &h.Bounds[0] != &bounds[0] {
		t.Errorf("%v allocations, bounds %v", n, h.Bounds)
	}
	if err := h.UnmarshalBinary(other); err != nil || h.Bounds[1] != 0.7 || bounds[1] != 0.5 {
		t.Errorf("bounds %v of those that were %v: %v", h.Bounds, bounds, err)
	}
}
