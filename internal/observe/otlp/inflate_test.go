package otlp

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"

	"tailscope/test/payload"
)

// unzip returns what gzipBlock makes of b.
func unzip(b []byte, limit int) ([]byte, bool, error) {
	return gzipBlock(nil, b, limit, func(int) bool { return true })
}

// TestInflate: what a compressor of any level makes of any bytes is read without a stream.
func TestInflate(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := make([]byte, 70_000)
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	few := bytes.Clone(random) // codes of many lengths
	for i := range few {
		few[i] = byte(rng.ExpFloat64() * 9)
	}
	texts := [][]byte{nil, []byte("a"), payload.Traces(1, 1)[0], random, few, bytes.Repeat([]byte("a"), 300_000), []byte(strings.Repeat("abc", 1000)), append(few[:1000:1000], random[:1000]...)}
	for i, text := range texts {
		for _, level := range []int{gzip.NoCompression, gzip.BestSpeed, 3, gzip.DefaultCompression, gzip.BestCompression, gzip.HuffmanOnly, gzip.StatelessCompression} {
			var b bytes.Buffer
			w, err := gzip.NewWriterLevel(&b, level)
			if err != nil {
				t.Fatal(err)
			}
			for part := text; ; { // some blocks end early
				n := min(len(part), 20_000)
				if _, err := w.Write(part[:n]); err != nil {
					t.Fatal(err)
				}
				if part = part[n:]; len(part) == 0 {
					break
				}
				if i%2 == 0 {
					if err := w.Flush(); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			out, ok, err := unzip(b.Bytes(), 1<<20)
			if !ok || err != nil || !bytes.Equal(out, text) {
				t.Fatalf("text %d at level %d: %d bytes, %v, %v", i, level, len(out), ok, err)
			}
			if len(text) > 0 {
				if _, ok, _ := unzip(b.Bytes(), len(text)-1); ok {
					t.Fatalf("text %d at level %d: taken beyond the limit", i, level)
				}
			}
		}
	}
	// Two members are a stream's business, and it takes both.
	two := append(zip([]byte("one")), zip([]byte("two"))...)
	if _, ok, _ := unzip(two, 1<<20); ok {
		t.Error("two members were taken as one")
	}
	out, err := gzipFormat.unpack(nil, two, 1<<20, func(int) bool { return true })
	if err != nil || string(out) != "onetwo" {
		t.Errorf("two members: %q, %v", out, err)
	}
}

// FuzzInflate: what is taken is what the other implementation reads; nothing else is, and no
// bytes make it fail otherwise.
func FuzzInflate(f *testing.F) {
	for _, level := range []int{flate.NoCompression, flate.BestSpeed, flate.BestCompression, flate.HuffmanOnly} {
		for _, text := range [][]byte{[]byte("abcabcabcabcabc"), payload.Traces(1, 1)[0][:3000]} {
			var b bytes.Buffer
			w, err := flate.NewWriter(&b, level)
			if err != nil {
				f.Fatal(err)
			}
			_, _ = w.Write(text)
			_ = w.Close()
			f.Add(b.Bytes())
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		want, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(b)), 1<<16))
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && len(want) == 0 {
			want = nil
		}
		z := new(inflater)
		for _, size := range []int{len(want), len(want) + 1, max(len(want)-1, 0)} {
			out := make([]byte, size+inflateSlack)
			end, ok := z.inflate(out, b, size)
			if !ok {
				continue
			}
			if err != nil || size != len(want) || !bytes.Equal(out[:size], want) {
				t.Fatalf("%d bytes of %d, up to %d: the reference has %d, %v", size, len(b), end, len(want), err)
			}
		}
	})
}
