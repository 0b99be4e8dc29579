package runcodec

import (
	"testing"

	"tailscope/hist"
)

// Every table shares out all its slots, and each count has some.
func TestTables(t *testing.T) {
	for i := range ansTables() {
		a := &ansTables()[i]
		if got := a.start[a.escape+1]; got != 1<<ansBits || a.start[0] != 0 {
			t.Errorf("table %d ends at %d", i, got)
		}
		for s := range a.escape + 1 {
			from, to := a.start[s], a.start[s+1]
			if from >= to {
				t.Fatalf("table %d, symbol %d: slots %d to %d", i, s, from, to)
			}
			for k := from; k < to; k++ {
				if want := slot(s<<24 | uint32(to-from)<<12 | uint32(k-from)); a.slots[k] != want {
					t.Fatalf("table %d, slot %d: %#x, want %#x", i, k, a.slots[k], want)
				}
			}
		}
	}
}

// Shapes that change at once, and counts far from what was expected, come back.
func TestSurprises(t *testing.T) {
	var e Encoder
	e.Reset()
	e.Series()
	var want [][]byte
	for slot := range uint32(200) {
		h := hist.New(hist.DefaultSchema)
		median := int64(1e6) << (slot / 40)
		for i := range int64(30 + slot%7*100) {
			_ = h.RecordNanos(median+median*(i*i%97)/97, 1)
		}
		for range slot % 5 * 1000 {
			_ = h.RecordNanos(median, 1)
		}
		b, err := h.AppendBinary(nil)
		if err == nil {
			err = e.Add(slot, b)
		}
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, b)
	}
	run := e.AppendTo(nil)
	var d Decoder
	if err := d.Reset(run); err != nil {
		t.Fatal(err)
	}
	d.Series()
	for slot := range want {
		if _, ok, err := d.More(); !ok || err != nil {
			t.Fatalf("slot %d: %v", slot, err)
		}
		if got, err := d.Append(nil); err != nil || string(got) != string(want[slot]) {
			t.Fatalf("slot %d: got %x, %v, want %x", slot, got, err, want[slot])
		}
	}
	if _, ok, err := d.More(); ok || err != nil {
		t.Fatalf("more: %v", err)
	}
}
