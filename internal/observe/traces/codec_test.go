package traces

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tailscope/internal/store"
)

// sample is a trace with everything in it.
func sample() *Trace {
	web := Identity{Service: "web", Operation: "GET /", Component: "app", Kind: "server", Tenant: "acme", Version: "1", Variant: "b", Instance: "w1"}
	call := Identity{Service: "web", Operation: "SELECT x", Component: "db", Kind: "client", Instance: "db:1"}
	return &Trace{
		ID: store.TraceID{1, 2, 3}, Complete: true, LeftOut: 300,
		Spans: []TraceSpan{
			{ID: spanID("a"), Start: 1_700_000_000_000_000_000, End: 1_700_000_000_100_000_000, Queued: 1_699_999_999_990_000_000, Identity: web, Weight: 1, Detail: "/?q=1"},
			{ID: spanID("b"), Parent: spanID("a"), Start: 1_700_000_000_000_000_500, End: 1_700_000_000_000_001_000, Identity: call, Weight: 8, Failed: true, Text: "select ?", Detail: "deadlock"},
			{ID: spanID("c"), Parent: spanID("x"), Start: 1_699_999_999_999_999_999, End: 1_700_000_000_000_001_000, Identity: call, Weight: 1, Text: "select ?"},
		},
	}
}

// The bytes of version 1, for good.
const golden1 = `
01 01020300000000000000000000000000 01 ac02 03
0a 6100000000000000 8080d0e2c6bfce972f 80c2d72f
00 01 03 776562 02 05 474554202f 03 03 617070 04 06 736572766572 05 04 61636d65 06 01 31 07 01 62 08 02 7731
80dac409 05 2f3f713d31
3d 6200000000000000 01 e807 f403
01 01 09 08 53454c4543542078 0a 02 6462 0b 06 636c69656e74 00 00 00 0c 04 64623a31
07 0d 08 73656c656374203f 08 646561646c6f636b
44 6300000000000000 7800000000000000 01 e907
01 0d`

// The bytes of version 2.
const golden2 = `
02 01020300000000000000000000000000 01 ac02 03
0a 6100000000000000 8080d0e2c6bfce972f 80c2d72f
00 01 03 776562 02 05 474554202f 03 03 617070 04 06 736572766572 05 04 61636d65 06 01 31 07 01 62 08 02 7731 09 04 70726f64 00
80dac409 05 2f3f713d31
3d 6200000000000000 01 e807 f403
01 01 0a 08 53454c4543542078 0b 02 6462 0c 06 636c69656e74 00 00 00 0d 04 64623a31 09 0e 05 6d7973716c
07 0f 08 73656c656374203f 08 646561646c6f636b
44 6300000000000000 7800000000000000 01 e907
01 0f`

// placed returns sample with what version 2 added.
func placed() *Trace {
	t := sample()
	for i := range t.Spans {
		t.Spans[i].Environment = "prod"
		if i > 0 {
			t.Spans[i].System = "mysql"
		}
	}
	return t
}

func TestGoldenBytes(t *testing.T) {
	bytesOf := func(golden string) []byte {
		b, err := hex.DecodeString(strings.Join(strings.Fields(golden), ""))
		if err != nil {
			t.Fatal(err)
		}
		return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	}
	if got, want := Encode(placed()), bytesOf(golden2); hex.EncodeToString(got) != hex.EncodeToString(want) {
		t.Errorf("got  %x\nwant %x", got, want)
	}
	for golden, want := range map[string]*Trace{golden1: sample(), golden2: placed()} {
		got, err := Decode(bytesOf(golden))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("decoded %+v, %v", got, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	good := Encode(sample())
	for n := range good {
		if _, err := Decode(good[:n]); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%d bytes of %d: %v", n, len(good), err)
		}
		bad := append([]byte(nil), good...)
		bad[n] ^= 1
		if _, err := Decode(bad); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("byte %d changed: %v", n, err)
		}
	}
	reseal := func(f func(b []byte) []byte) []byte {
		b := f(append([]byte(nil), good[:len(good)-4]...))
		return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	}
	for name, f := range map[string]func(b []byte) []byte{
		"a byte more":  func(b []byte) []byte { return append(b, 0) },
		"a byte less":  func(b []byte) []byte { return b[:len(b)-1] },
		"version 3":    func(b []byte) []byte { b[0] = 3; return b },
		"trace flags":  func(b []byte) []byte { b[17] = 2; return b },
		"span flags":   func(b []byte) []byte { b[21] = 0x80; return b },
		"more spans":   func(b []byte) []byte { b[20] = 4; return b },
		"own parent":   func(b []byte) []byte { b[21] |= spanParent; return b },
		"many spans":   func(b []byte) []byte { return append(b[:20], 0xff, 0xff, 0xff, 0x7f) },
		"of no length": func(b []byte) []byte { return b[:0] },
	} {
		if _, err := Decode(reseal(f)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func drawTrace(t *rapid.T) *Trace {
	word := rapid.SampledFrom([]string{"", "a", "web", "GET /cart/{id}", strings.Repeat("x", 300)})
	x := &Trace{LeftOut: rapid.IntRange(0, 1000).Draw(t, "left out"), Complete: rapid.Bool().Draw(t, "complete"), Spans: []TraceSpan{}}
	for range rapid.IntRange(0, 20).Draw(t, "spans") {
		var s TraceSpan
		s.ID[0] = rapid.Byte().Draw(t, "id")
		s.Parent[0] = rapid.ByteRange(0, 20).Draw(t, "parent")
		s.Start = rapid.Int64Range(0, maxTime).Draw(t, "start")
		s.End = rapid.Int64Range(s.Start, maxTime).Draw(t, "end")
		if rapid.Bool().Draw(t, "waited") {
			s.Queued = rapid.Int64Range(1, maxTime).Draw(t, "queued")
		}
		for _, v := range s.Identity.strings() {
			*v = word.Draw(t, "name")
		}
		s.Failed = rapid.Bool().Draw(t, "failed")
		s.Weight = rapid.Uint32Range(1, 1<<31).Draw(t, "weight")
		s.Text, s.Detail = word.Draw(t, "text"), word.Draw(t, "detail")
		x.Spans = append(x.Spans, s)
	}
	return x
}

func TestCodecRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawTrace(t)
		got, err := Decode(Encode(want))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v\ngot  %+v\nwant %+v", err, got, want)
		}
		Analyse(want)
	})
}

// Whatever the bytes, decoding ends with a trace that can be written, read
// again and analysed, or with ErrCorrupt. The checksum is mended, so that the
// fuzzer gets past it.
func FuzzDecode(f *testing.F) {
	good := Encode(sample())
	f.Add(good[:len(good)-4])
	small := Encode(&Trace{})
	f.Add(small[:len(small)-4])
	f.Fuzz(func(t *testing.T, b []byte) {
		b = binary.LittleEndian.AppendUint32(b[:len(b):len(b)], crc32.Checksum(b, castagnoli))
		x, err := Decode(b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		again, err := Decode(Encode(x))
		if err != nil || !reflect.DeepEqual(again, x) {
			t.Fatalf("%v\ngot  %+v\nwant %+v", err, again, x)
		}
		a := Analyse(x)
		if a.Root >= 0 {
			var self, critical int64
			for _, s := range a.Spans {
				self += s.Self
				critical += s.Critical
			}
			if d := x.Spans[a.Root].End - x.Spans[a.Root].Start; self != d || critical != d {
				t.Fatalf("request of %d: self %d, critical %d", d, self, critical)
			}
		}
	})
}
