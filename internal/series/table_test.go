package series

import (
	"github.com/prometheus/prometheus/model/labels"
	"testing"

	"pgregory.net/rapid"
)

// A Table is a map, whatever is done to it and however its identities collide.
func TestTableIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table Table
		ids := make([]ID, 1)
		model := map[ID]uint32{}
		draw := rapid.Custom(func(t *rapid.T) ID {
			// Few values of the half that decides the place.
			return ID{rapid.Uint64Range(0, 40).Draw(t, "hi"), rapid.SampledFrom([]uint64{0, 1, 2, 1021, 1022, 1023, 1 << 32}).Draw(t, "lo")}
		})
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			id := draw.Draw(t, "id")
			n, ok := model[id]
			if got := table.Find(ids, id); got != n {
				t.Fatalf("found %d for %v, want %d", got, id, n)
			}
			if ok {
				table.Delete(id, n)
				delete(model, id)
			} else {
				ids = append(ids, id)
				n = uint32(len(ids) - 1)
				table.Add(id, n)
				model[id] = n
			}
			if table.Len() != len(model) {
				t.Fatalf("holds %d, want %d", table.Len(), len(model))
			}
		}
		for id, n := range model {
			if got := table.Find(ids, id); got != n {
				t.Fatalf("found %d for %v, want %d", got, id, n)
			}
		}
	})
}

func TestTableGrows(t *testing.T) {
	var table Table
	ids := make([]ID, 1)
	for i := range 20_000 {
		id := ID{Lo: 0x9e3779b97f4a7c15 * uint64(i+1)}
		ids = append(ids, id)
		table.Add(id, uint32(i+1))
	}
	for n, id := range ids[1:] {
		if got := table.Find(ids, id); got != uint32(n+1) {
			t.Fatalf("found %d, want %d", got, n+1)
		}
	}
	for n := 20_000; n > 100; n-- {
		table.Delete(ids[n], uint32(n))
	}
	before := table.Bytes()
	table.Shrink()
	if after := table.Bytes(); after > before/32 {
		t.Errorf("%d bytes of %d are left for 100 of 20,000", after, before)
	}
	for n, id := range ids[1:] {
		want := uint32(n + 1)
		if n >= 100 {
			want = 0
		}
		if got := table.Find(ids, id); got != want {
			t.Fatalf("found %d, want %d", got, want)
		}
	}
	if got := table.Find(ids, ID{Lo: 1}); got != 0 {
		t.Fatalf("found %d, want nothing", got)
	}
}

// A table that is full doubles, so that at least a third of it is in use.
func TestTableDoubles(t *testing.T) {
	var table Table
	for i := range 100_000 {
		table.Add(ID{Lo: 0x9e3779b97f4a7c15 * uint64(i+1)}, uint32(i+1))
		if n := int64(table.Len()); n > 1000 && table.Bytes() > 8*3*n+8 {
			t.Fatalf("%d numbers take %d bytes", n, table.Bytes())
		}
	}
}

func TestWith(t *testing.T) {
	all := Series{Family: "f", View: Full, Labels: labels.FromStrings("a", "1", "b", "2", "c", "3")}
	less := Series{Family: "f", View: Full, Labels: labels.FromStrings("a", "1", "c", "3")}
	want, _ := all.ID(nil)
	id, _ := less.ID(nil)
	if got := id.With("b", "2"); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}
