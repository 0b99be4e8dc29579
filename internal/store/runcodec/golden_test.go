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

// Stored runs must stay readable: another result here is another format, which
// needs another version byte and a decoder for this one.
func TestGoldenRuns(t *testing.T) {
	if got, want := hex.EncodeToString(golden(t, 1, 2, 2)), "01080059613ae505a6951f3ce9a200b44e8cadc8e57db0"; got != want {
		t.Errorf("small run: got %s, want %s", got, want)
	}
	run := golden(t, 4, 30, 150)
	f := fnv.New64a()
	_, _ = f.Write(run)
	if got, want := f.Sum64(), uint64(0x772dae3709df7ef1); got != want || len(run) != 3053 {
		t.Errorf("large run: %d bytes that hash to %#x, want %#x", len(run), got, want)
	}
}
