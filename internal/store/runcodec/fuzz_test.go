package runcodec

import (
	"errors"
	"testing"

	"tailscope/hist"
)

// Hostile runs end in ErrCorrupt, or decode to points that hist can encode.
func FuzzDecoder(f *testing.F) {
	f.Add(pack(f, workload(1, 2, 3, 2), nil))
	f.Add(pack(f, workload(2, 1, 2, 50), nil))
	for _, form := range sentForms {
		f.Add(pack(f, asSent(4, 2, 2, 50, form.form), nil))
	}
	f.Add([]byte{version, 0})
	f.Add([]byte{version, 4, 255, 255, 255, 255, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Fuzz(func(t *testing.T, b []byte) {
		var d Decoder
		if err := d.Reset(b); err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		var buf []byte
		h := hist.New(hist.DefaultSchema)
		for i := range 4 {
			if i == 2 {
				d.Group()
			}
			d.Series()
			for n := 0; n < 1000; n++ {
				_, ok, err := d.More()
				if err != nil && !errors.Is(err, ErrCorrupt) {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				if n&1 == 0 {
					buf, err = d.Append(buf[:0])
					var g hist.Histogram
					if err == nil && d.class != raw && g.UnmarshalBinary(buf) != nil {
						t.Fatalf("decoded %x", buf)
					}
				} else {
					err = d.Merge(h)
				}
				if err != nil {
					if !errors.Is(err, ErrCorrupt) && !errors.Is(err, hist.ErrInvalid) {
						t.Fatal(err)
					}
					return
				}
			}
		}
	})
}

// FuzzEncoder feeds whatever hist decodes through a run.
func FuzzEncoder(f *testing.F) {
	for _, s := range workload(3, 2, 2, 3) {
		f.Add(s[0].data, s[1].data, uint32(1))
	}
	f.Add([]byte{0x10}, []byte{0x15, 0x31, 0x32, 0x2c, 0x01, 0xe0, 0x94, 0xb6, 0xc4, 0x40, 0x42, 0x0f, 0xd0, 0x34, 0x31, 0x01, 0xc2, 0xfe, 0x8c, 0x00, 0x00, 0x05, 0x64, 0x6d, 0x05, 0x64, 0x1d, 0x04, 0x64}, uint32(70))
	f.Fuzz(func(t *testing.T, a, b []byte, gap uint32) {
		var e Encoder
		e.Reset()
		e.Series()
		var kept []entry
		slot := uint32(0)
		for _, data := range [][]byte{a, b, a} {
			if e.Add(slot, data) == nil {
				kept = append(kept, entry{slot, data})
			}
			slot += 1 + gap%(1<<20)
		}
		unpack(t, e.AppendTo(nil), [][]entry{kept}, nil)
	})
}

// No prefix of a run and no flipped byte makes the decoder do more than err or
// decode something else.
func TestDamagedRuns(t *testing.T) {
	run := pack(t, workload(5, 3, 4, 100), nil)
	var d Decoder
	h := hist.New(hist.DefaultSchema)
	read := func(b []byte) {
		if d.Reset(b) != nil {
			return
		}
		for range 3 {
			d.Series()
			for range 100 {
				if _, ok, _ := d.More(); !ok || d.Next(h) != nil {
					break
				}
			}
		}
	}
	for i := range run {
		read(run[:i])
		bad := append([]byte(nil), run...)
		bad[i] ^= 0x55
		read(bad)
	}
	for _, b := range [][]byte{nil, {0}, {2, 0}, {version}, {version, 200}} {
		if err := d.Reset(b); !errors.Is(err, ErrCorrupt) {
			t.Errorf("run %x: %v", b, err)
		}
		if _, _, err := d.More(); !errors.Is(err, ErrCorrupt) {
			t.Errorf("more of %x: %v", b, err)
		}
	}
}
