package pebblestore

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"pgregory.net/rapid"

	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/runcodec"
	"tailscope/internal/store/storetest"
)

func corrupt(t *testing.T, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		t.Fatalf("got error %v, want ErrCorrupt", err)
	}
}

func FuzzChunk(f *testing.F) {
	f.Add(appendChunk(nil, []entry{{3, []byte("abc")}, {4, nil}, {400, []byte("x")}}), uint32(3))
	f.Fuzz(func(t *testing.T, b []byte, first uint32) {
		c, err := openChunk(b, first)
		corrupt(t, err)
		if err != nil {
			return
		}
		var es []entry
		for n, data, ok := c.next(); ok; n, data, ok = c.next() {
			es = append(es, entry{n, data})
		}
		if !entriesSorted(es) || es[0].number != first || es[len(es)-1].number != c.last {
			t.Fatalf("accepted numbers out of order: %v", es)
		}
	})
}

func FuzzSegment(f *testing.F) {
	f.Add(appendSegment(nil, []slotPoint{{1, []byte("abc")}, {2, []byte("d")}, {9, nil}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		last := -1
		err := segment(b, 60, 0, 60, func(slot int, data []byte) error {
			if slot <= last || slot >= 60 {
				t.Fatalf("slot %d after %d", slot, last)
			}
			last = slot
			return nil
		})
		corrupt(t, err)
	})
}

func FuzzBlock(f *testing.F) {
	var plain, packed blockWriter
	for n := range uint32(3) {
		pts := []slotPoint{{1, storetest.Dist(0.1, 0.2)}, {5, storetest.Dist(0.3)}}
		if err := errors.Join(plain.add(n, n/2, pts, false), packed.add(n, n/2, pts, true)); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(plain.appendTo(nil))
	f.Add(packed.appendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 0 && b[0] == packedFormat {
			c := &scanner{dec: runcodec.Decoder{}}
			corrupt(t, c.packed(b, area{lo: 0, hi: 60}, []uint32{0, 1, 2}, selectAll(3), func(uint32, int, []byte) error { return nil }))
			return
		}
		segs, err := segments(nil, b, 3)
		corrupt(t, err)
		if err == nil && len(segs) != 3 {
			t.Fatalf("got %d segments, want 3", len(segs))
		}
	})
}

func FuzzDirectory(f *testing.F) {
	f.Add(appendDirectory(nil, &directory{version: 7, numbers: []uint32{5, 1, 9, 1 << 31}, starts: []uint32{0, 1, 4}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := decodeDirectory(b)
		corrupt(t, err)
		if err != nil {
			return
		}
		if int(d.starts[d.blocks()]) != len(d.numbers) {
			t.Fatalf("blocks end at %d of %d series", d.starts[d.blocks()], len(d.numbers))
		}
		if again, err := decodeDirectory(appendDirectory(nil, d)); err != nil || len(again.numbers) != len(d.numbers) || again.version != d.version {
			t.Fatalf("came back as %v, %v", again, err)
		}
	})
}

func FuzzFolded(f *testing.F) {
	var x folded
	x.add(3, []uint64{1, 2, 3, 9})
	x.add(1, []uint64{7})
	f.Add(appendFolded(nil, &x))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, err := decodeFolded(b)
		corrupt(t, err)
	})
}

func FuzzIndex(f *testing.F) {
	ab, b := &series.Series{Kind: series.Gauge, Labels: labels.FromStrings("a", "x", "b", "y")}, &series.Series{Labels: labels.FromStrings("b", "y")}
	f.Add(appendIndexBlock(nil, []newSeries{{ab, "", 0}, {b, "t", 1}, {&series.Series{}, "t", 1}, {b, "u", 2}}))
	f.Add(appendIndexBlock(nil, []newSeries{{&series.Series{Labels: labels.FromStrings("a", "x")}, "", 0}, {&series.Series{Labels: labels.FromStrings("a", "x", "c", "")}, "", 0}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 4096 {
			return
		}
		u := newUnit(0, 0)
		err := u.load(0, b)
		corrupt(t, err)
		if err != nil {
			return
		}
		var sb labels.ScratchBuilder
		for n := range min(len(u.kinds), 100) {
			u.labels(uint32(n), &sb)
		}
		u.order()
	})
}

func FuzzSamples(f *testing.F) {
	f.Add(appendSamples(nil, []series.Sample{{TimeMillis: 5, Value: 1}, {TimeMillis: 15, Value: 1}, {TimeMillis: 25, Value: math.NaN()}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		ss, err := decodeSamples(nil, b)
		corrupt(t, err)
		if err != nil {
			return
		}
		again, err := decodeSamples(nil, appendSamples(nil, ss))
		if err != nil || len(again) != len(ss) {
			t.Fatalf("%d samples came back as %d, %v", len(ss), len(again), err)
		}
		for i := range ss {
			if again[i].TimeMillis != ss[i].TimeMillis || math.Float64bits(again[i].Value) != math.Float64bits(ss[i].Value) {
				t.Fatalf("sample %d: got %v, want %v", i, again[i], ss[i])
			}
		}
	})
}

func TestIndexRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var ss []newSeries
		values := []string{"", "x", "y", "longer value", "\xff"}
		value := rapid.SampledFrom(values)
		for range rapid.IntRange(1, 40).Draw(t, "series") {
			s := newSeries{Series: &series.Series{Kind: series.Kind(rapid.IntRange(0, 2).Draw(t, "kind"))}}
			ls := map[string]string{"a": value.Draw(t, "a"), "b": value.Draw(t, "b")}
			if tenant := value.Draw(t, "tenant"); rapid.Bool().Draw(t, "beside") {
				s.tenant = tenant
				if rapid.Bool().Draw(t, "numbered") {
					s.number = uint32(slices.Index(values, tenant)) + 1
				}
			} else {
				ls[series.LabelTenant] = tenant
			}
			s.Labels = labels.FromMap(ls).WithoutEmpty()
			ss = append(ss, s)
		}
		u := newUnit(0, 0)
		cut := rapid.IntRange(0, len(ss)).Draw(t, "cut")
		var w indexWriter
		for _, part := range [][]newSeries{ss[:cut], ss[cut:]} {
			if len(part) == 0 {
				continue
			}
			b := w.append(nil, part)
			if err := u.load(uint32(len(u.kinds)), b); err != nil {
				t.Fatal(err)
			}
			plain := slices.Clone(part)
			for i := range plain {
				plain[i].number = 0
			}
			if want := appendIndexBlock(nil, plain); !bytes.Equal(b, want) {
				t.Fatalf("the numbers of tenants change the block: %x, want %x", b, want)
			}
		}
		var b labels.ScratchBuilder
		for i, s := range ss {
			want := s.WithTenant(s.tenant).Labels
			if got := u.labels(uint32(i), &b); !labels.Equal(got, want) || u.kinds[i] != s.Kind {
				t.Fatalf("series %d: got %v of kind %d, want %v of kind %d", i, got, u.kinds[i], want, s.Kind)
			}
		}
		seen := map[uint32]bool{}
		for _, n := range u.order() {
			seen[n] = true
		}
		if len(seen) != len(ss) {
			t.Fatalf("the order holds %d of %d series", len(seen), len(ss))
		}
	})
}

func TestFolded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f folded
		want := map[[2]uint64]bool{}
		for range rapid.IntRange(0, 6).Draw(t, "times") {
			w := rapid.Uint32Range(0, 3).Draw(t, "writer")
			gens := rapid.SliceOfN(rapid.Uint64Range(1, 30), 1, 10).Draw(t, "generations")
			f.add(w, gens)
			for _, g := range gens {
				want[[2]uint64{uint64(w), g}] = true
			}
		}
		back, err := decodeFolded(appendFolded(nil, &f))
		if err != nil {
			t.Fatal(err)
		}
		for w := range uint32(5) {
			for g := range uint64(32) {
				if got := back.has(w, g); got != want[[2]uint64{uint64(w), g}] {
					t.Fatalf("writer %d, generation %d: got %v", w, g, got)
				}
			}
		}
	})
}
