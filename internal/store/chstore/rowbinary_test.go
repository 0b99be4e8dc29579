package chstore

import (
	"errors"
	"reflect"
	"testing"

	"tailscope/internal/store"
)

func TestRows(t *testing.T) {
	b := appendInt64(appendFloat64(appendUint16(append([]byte(nil), 7), 300), -0.5), -3)
	b = appendUint64s(appendStrings(appendString(appendInt32(b, -9), "é"), []string{"a", ""}), []uint64{1, 1<<64 - 1})
	r := &rows{b: b}
	got := []any{r.uint8(), r.uint16(), r.float64(), r.int64(), r.int32(), r.string(), r.strings(), r.uint64s()}
	want := []any{uint8(7), uint16(300), -0.5, int64(-3), int32(-9), "é", []string{"a", ""}, []uint64{1, 1<<64 - 1}}
	if !reflect.DeepEqual(got, want) || r.next() || r.err != nil {
		t.Errorf("got %v, want %v; then %v", got, want, r.err)
	}
	for n := range len(b) {
		r := &rows{b: b[:n]}
		r.uint8()
		r.uint16()
		r.float64()
		r.int64()
		r.int32()
		r.bytes()
		r.strings()
		r.uint64s()
		if !errors.Is(r.err, store.ErrCorrupt) {
			t.Errorf("of %d bytes of %d: got %v, want ErrCorrupt", n, len(b), r.err)
		}
	}
}

func FuzzRows(f *testing.F) {
	f.Add([]byte{3, 'a', 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := &rows{b: b}
		for r.next() {
			r.strings()
			r.uint64s()
			r.trace(store.TraceID{})
		}
	})
}
