package runcodec

import (
	"encoding/hex"
	"hash/fnv"
	"testing"

	"tailscope/hist"
)

// golden builds a run from integers alone, so that it is the same everywhere.
func golden(t *testing.T, series, slots, n int) []byte {
	var e Encoder
	e.Reset()
	x := uint64(1)
	for s := range series {
		if s == 2 {
			e.Group()
		}
		e.Series()
		for slot := range slots {
			h := hist.New(hist.DefaultSchema)
			for range n {
				v := int64(1e6)
				for range 12 { // a sum of many: bell-shaped
					x = x*6364136223846793005 + 1442695040888963407
					v += int64(x >> 40)
				}
				if err := h.RecordNanos(v, 1); err != nil {
					t.Fatal(err)
				}
			}
			b, err := h.AppendBinary(nil)
			if err == nil {
				err = e.Add(uint32(slot*slot), b)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return e.AppendTo(nil)
}

// Stored runs must stay readable: another result here is another format, which needs
// another version byte and a decoder for this one. But for that byte these runs are those
// of version 1, which had no general points.
func TestGoldenRuns(t *testing.T) {
	if got, want := hex.EncodeToString(golden(t, 1, 2, 2)), "02080059613ae505a6951f3ce9a200b44e8cadc8e57db0"; got != want {
		t.Errorf("small run: got %s, want %s", got, want)
	}
	run := golden(t, 4, 30, 150)
	run[0] = before
	f := fnv.New64a()
	_, _ = f.Write(run)
	if got, want := f.Sum64(), uint64(0x772dae3709df7ef1); got != want || len(run) != 3053 {
		t.Errorf("large run: %d bytes that hash to %#x, want %#x", len(run), got, want)
	}
	var d Decoder
	if err := d.Reset(run); err != nil {
		t.Fatal(err)
	}
	points, h := 0, hist.New(hist.DefaultSchema)
	for s := range 4 {
		if s == 2 {
			d.Group()
		}
		d.Series()
		for {
			slot, ok, err := d.More()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			if err := d.Next(h); err != nil || h.Count != 150 {
				t.Fatalf("slot %d: %d observations, %v", slot, h.Count, err)
			}
			points++
		}
	}
	if points != 4*30 {
		t.Errorf("%d points of version 1, want %d", points, 4*30)
	}
	general := func() []byte {
		e := new(Encoder)
		e.Reset()
		e.Series()
		for slot := range uint32(40) {
			h := hist.New(4)
			h.ZeroThreshold, h.Error, h.Sum, h.Count = 0, 0.25, 0.1+1.0/float64(3+slot), 0
			for i := range uint64(60) {
				n := 1 + (i*uint64(slot+7))%11
				h.Positive.Counts = append(h.Positive.Counts, n)
				h.Count += n
			}
			b, err := h.AppendBinary(nil)
			if err == nil {
				err = e.Add(slot, b)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return e.AppendTo(nil)
	}()
	f.Reset()
	_, _ = f.Write(general)
	if got, want := f.Sum64(), uint64(0xcfc404db23b23fb4); got != want {
		t.Errorf("general run: %d bytes that hash to %#x, want %#x", len(general), got, want)
	}
}
