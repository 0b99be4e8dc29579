package traces

import (
	"testing"
	"unsafe"
)

// What the bounds reckon with is what things take.
func TestSizes(t *testing.T) {
	for _, c := range []struct {
		what      string
		got, want uintptr
	}{
		{"span", unsafe.Sizeof(span{}), 40},
		{"block", unsafe.Sizeof(block{}), blockBytes},
		{"extra", unsafe.Sizeof(extra{}), extraBytes},
		{"openTrace", unsafe.Sizeof(openTrace{}), openTraceBytes},
		{"cell", unsafe.Sizeof(cell{}), cellBytes},
		{"selfTime", unsafe.Sizeof(selfTime{}), selfBytes},
		{"node", unsafe.Sizeof(node{}), 96},
	} {
		if c.got > c.want {
			t.Errorf("%s: %d bytes, reckoned with %d", c.what, c.got, c.want)
		}
	}
}

// Elements are used again before new ones are made, and the budget holds.
func TestSlab(t *testing.T) {
	s := slab[uint64]{per: 4}
	var got []uint32
	for {
		i := s.allocate(8, 500-s.bytes)
		if i == 0 {
			break
		}
		*s.at(i) = uint64(i)
		got = append(got, i)
	}
	if s.bytes > 500 || len(got) < 2*16-1 {
		t.Errorf("%d elements in %d bytes", len(got), s.bytes)
	}
	for _, i := range got {
		if *s.at(i) != uint64(i) {
			t.Fatalf("element %d was handed out twice", i)
		}
	}
	s.free = append(s.free, got...)
	before := s.bytes
	for range got {
		if s.allocate(8, 0) == 0 {
			t.Fatal("none is left of those given back")
		}
	}
	if s.bytes != before || s.allocate(8, 0) != 0 {
		t.Error("more were handed out than there are")
	}
}

func TestRecent(t *testing.T) {
	r := newRecent(64 << 10)
	hash := func(i uint64) uint64 { return (i + 1) * 0x9e3779b97f4a7c15 }
	for i := range uint64(100_000) {
		r.add(hash(i), hash(i), closedTrace+fate(i%2))
	}
	if r.find(hash(0)) != 0 || r.find(hash(200_000)) != 0 {
		t.Error("remembers too much")
	}
	for i := uint64(98_000); i < 100_000; i++ {
		if f := r.find(hash(i)); f != closedTrace+fate(i%2) {
			t.Errorf("fate %d of number %d of 100,000", f, i)
			break
		}
	}
	if r.bytes() > 64<<10 {
		t.Errorf("%d bytes", r.bytes())
	}
}
