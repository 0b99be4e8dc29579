package hist

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"testing"
)

// seeds are forms of every kind, and broken ones.
func seeds(f *testing.F) {
	for _, s := range []string{
		"", "10", "160303000000", "11c0f0f50b", "1100", "12c0f0f50bc0f0f50b", "1380ade20480ade20480ade204",
		"1404c0eccf2680ade20480dac40901fc110101fc0201", "1531322c01e094b6c440420fd0343101c2fe8c000005646d05641d0464",
		"1641050480a8d6b9070080a8d6b90703020001", "1601000280e8922680dac409808ece1c040b11",
		"18182d4454fb210940", "190ac0f0f50b", "17090280b7d9b31680bfd60680f882ad160380ade204c096b1028095f52a0001030101",
		"1701018094ebdc038094ebdc038094ebdc0301555555555555d53f00010101",
		"16790502bfcbeff20effcfacf30ec0843d1101000000000000e03f00024001",
		"20", "19ffffffffffffffffff01", "1601080100000000ffff3f0000", "14ffffffffffffffff7f010101fe",
		"1645057180f882ad160080c2d72f2143d3020005281f0428", // weighted, without squares and with
		"1685054180a1dc8d0c80e1eb1780e1eb17c0c00a03d302000441", "17850380bcc1960b8094ebdc038094ebdc03c04401555555555555d53f00010103",
		"1430305a23303030303030303030", // sixteen digits are all, but not all bytes
	} {
		b, err := hex.DecodeString(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
}

func FuzzDecode(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var h Histogram
		m, merr := Moments(b)
		if err := h.UnmarshalBinary(b); err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%v", err)
			}
			return
		}
		if err := h.Validate(); err != nil && !math.IsInf(h.Sum, 0) {
			t.Fatalf("decoded %s: %v", summary(&h), err)
		}
		if merr != nil || m.Count != h.Count {
			t.Fatalf("moments %+v, %v of %s", m, merr, summary(&h))
		}
		// What was decoded has a canonical form that decodes to the same.
		c, err := h.AppendBinary(nil)
		if err != nil {
			t.Fatalf("encoding %s: %v", summary(&h), err)
		}
		var g Histogram
		if err := g.UnmarshalBinary(c); err != nil || !equal(&g, &h, 0) {
			t.Fatalf("got %s, %v, want %s", summary(&g), err, summary(&h))
		}
		if d, _ := g.AppendBinary(nil); !bytes.Equal(c, d) {
			t.Fatalf("canonical %x, again %x", c, d)
		}
		if q := h.Quantile(0.99); h.Count > 0 && (q < h.Min || q > h.Max) {
			t.Fatalf("quantile %v beyond %v..%v", q, h.Min, h.Max)
		}
	})
}

func FuzzMergeEncoded(f *testing.F) {
	f.Add([]byte{1, 0x11, 5}, int8(5))
	f.Add([]byte{5, 0x14, 4, 8, 1, 1, 0x22}, int8(0))
	f.Fuzz(func(t *testing.T, data []byte, schema int8) {
		a, b := New(schema), New(schema)
		for len(data) > 0 {
			n := min(int(data[0]), len(data)-1)
			form := data[1 : 1+n]
			data = data[1+n:]
			var g Histogram
			err := g.UnmarshalBinary(form)
			if err != nil {
				// MergeEncoded may leave a changed: try it on a copy.
				if c := a.Clone(); form == nil || c.MergeEncoded(form) == nil && !emptyPoint(form) {
					t.Fatalf("merged what does not decode (%v): %x", err, form)
				}
				continue
			}
			ea, eb := a.MergeEncoded(form), b.Merge(&g)
			if (ea == nil) != (eb == nil) {
				t.Fatalf("%v, but %v: %x", ea, eb, form)
			}
		}
		if math.IsNaN(a.Sum) || math.IsInf(a.Sum, 0) || math.IsInf(b.Sum, 0) {
			a.Sum, b.Sum = 0, 0
		}
		if !equal(a, b, 1e-9*(math.Abs(a.Sum)+math.Abs(b.Sum))) {
			t.Fatalf("got %s, want %s", summary(a), summary(b))
		}
		if err := a.Validate(); err != nil {
			t.Fatalf("%v: %s", err, summary(a))
		}
	})
}

// emptyPoint reports whether a form's head says that nothing follows.
func emptyPoint(b []byte) bool {
	var p point
	return p.read(b) == nil && p.count == 0
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\xf0\x3f"), int8(5), 0.0)
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xef\x7f\x01\x00\x00\x00\x00\x00\x00\x80"), int8(8), 1e-3)
	f.Fuzz(func(t *testing.T, data []byte, schema int8, threshold float64) {
		h := New(schema)
		_ = h.SetZeroThreshold(threshold)
		var n uint64
		low, high := math.Inf(1), math.Inf(-1)
		for ; len(data) >= 8; data = data[8:] {
			v := math.Float64frombits(binary.LittleEndian.Uint64(data))
			err := h.Record(v)
			if refused := math.IsNaN(v) || math.IsInf(v, 0); refused != (err != nil) {
				t.Fatalf("recording %v: %v", v, err)
			} else if refused {
				continue
			}
			n++
			low, high = min(low, v), max(high, v)
		}
		if h.Count != n || n > 0 && (h.Min != low || h.Max != high) {
			t.Fatalf("%d observations from %v to %v: %s", n, low, high, summary(h))
		}
		if err := h.Validate(); err != nil {
			t.Fatalf("%v: %s", err, summary(h))
		}
		var g Histogram
		b, err := h.AppendBinary(nil)
		if err == nil {
			err = g.UnmarshalBinary(b)
		}
		if err != nil || !equal(h, &g, 0) && !math.IsNaN(h.Sum) {
			t.Fatalf("got %s, %v, want %s", summary(&g), err, summary(h))
		}
		if n > 0 {
			for _, q := range []float64{0, 0.5, 1} {
				if v := h.Quantile(q); !(v >= low && v <= high) {
					t.Fatalf("quantile %v is %v, beyond %v..%v", q, v, low, high)
				}
			}
		}
	})
}
