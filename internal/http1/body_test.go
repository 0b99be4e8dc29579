package http1

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// scan feeds in to a body in pieces of the size given.
func scan(b *Body, in []byte, size int) (data []byte, taken int, err error) {
	for taken < len(in) && !b.Done() {
		piece := in[taken:min(taken+size, len(in))]
		n, run, err := b.Next(piece)
		data = append(data, run...)
		if taken += n; err != nil {
			return data, taken, err
		}
	}
	return data, taken, nil
}

func TestChunked(t *testing.T) {
	for _, c := range []struct{ in, data, trailer, rest, err string }{
		{in: "0||rest", rest: "rest"},
		{in: "3|abc|0||", data: "abc"},
		{in: "3;x=\"y\"|abc|00A|0123456789|0|||", data: "abc0123456789", rest: "\r\n"},
		{in: "3  |abc|0 ;z||", data: "abc"},
		{in: "1|a|0|X: y|Z-A:||GET", data: "a", trailer: "X: y|Z-A:|", rest: "GET"},
		{in: "|", err: "malformed size of a chunk"},
		{in: "g|", err: "malformed size of a chunk"},
		{in: "0x1|a|", err: "malformed size of a chunk"},
		{in: "-1|a|", err: "malformed size of a chunk"},
		{in: "1\na|", err: "malformed size of a chunk"},
		{in: "1;a\nb|", err: "malformed size of a chunk"},
		{in: "1\rX", err: "malformed size of a chunk"},
		{in: "1111111111111111|", err: "malformed size of a chunk"},
		{in: "1|ab|", data: "a", err: "chunk without line end"},
		{in: "1|a\r\r", data: "a", err: "chunk without line end"},
		{in: "0|X|", err: "malformed trailer field"},
		{in: "0| X: y|", err: "malformed trailer field"},
		{in: "0|X: y\n|", err: "malformed trailer field"},
		{in: "1;" + strings.Repeat("x", 5000) + "|", err: "extensions of a chunk are too long"},
		{in: "0|X:" + strings.Repeat("x", 50000) + "|", err: "trailer fields are too long"},
	} {
		in := []byte(strings.ReplaceAll(c.in, "|", "\r\n"))
		for _, size := range []int{1, 2, 3, 7, len(in)} {
			var b Body
			b.ResetTo(Chunked, 0)
			data, n, err := scan(&b, in, size)
			if err != nil || c.err != "" {
				if err == nil || err.Error() != c.err {
					t.Errorf("%.40q by %d: error %v, want %q", in, size, err, c.err)
				}
				continue
			}
			if string(data) != c.data || string(in[n:]) != c.rest || !b.Done() || b.Bytes != int64(len(c.data)) ||
				strings.ReplaceAll(string(b.Trailer()), "\r\n", "|") != c.trailer {
				t.Errorf("%q by %d: %q, trailer %q, rest %q, done %v", in, size, data, b.Trailer(), in[n:], b.Done())
			}
		}
	}
}

func TestLength(t *testing.T) {
	var b Body
	b.ResetTo(Length, 3)
	if n, data, err := b.Next([]byte("abcd")); n != 3 || string(data) != "abc" || err != nil || !b.Done() {
		t.Error(n, data, err)
	}
	b.ResetTo(Length, 0)
	if !b.Done() {
		t.Error("an empty body is not done")
	}
	b.ResetTo(UntilClose, 0)
	if n, _, _ := b.Next([]byte("abcd")); n != 4 || b.Done() || !b.AtEOF() {
		t.Error(n, b.Done(), b.AtEOF())
	}
}

// What is written in chunks is read as it was, in whatever pieces it comes.
func TestChunkedRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var in, want []byte
		for _, p := range rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, 300)).Draw(t, "chunks") {
			in, want = AppendChunk(in, p), append(want, p...)
		}
		trailer := rapid.SampledFrom([]string{"", "X: y\r\n", "A:\r\nB: c d\r\n"}).Draw(t, "trailer")
		in = AppendEnd(in, []byte(trailer))
		size := rapid.IntRange(1, 400).Draw(t, "size")
		var b Body
		b.ResetTo(Chunked, 0)
		data, n, err := scan(&b, append(in, "more"...), size)
		if !bytes.Equal(data, want) || n != len(in) || err != nil || !b.Done() || string(b.Trailer()) != trailer {
			t.Fatalf("%d of %d bytes, %d taken of %d, trailer %q, %v", len(data), len(want), n, len(in), b.Trailer(), err)
		}
		fields, err := TrailerFields(nil, b.Trailer())
		if err != nil || len(fields) != strings.Count(trailer, "\r\n") {
			t.Fatalf("trailer %q: %v, %v", trailer, fields, err)
		}
	})
}

// FuzzChunked checks that a body taken here is the one that net/http reads, and
// that pieces make no difference.
func FuzzChunked(f *testing.F) {
	for _, s := range []string{"0||", "3|abc|0||x", "3;x|abc|1|d|0|X: y||"} {
		f.Add([]byte(strings.ReplaceAll(s, "|", "\r\n")), 2)
	}
	f.Fuzz(func(t *testing.T, in []byte, size int) {
		var b, whole Body
		b.ResetTo(Chunked, 0)
		whole.ResetTo(Chunked, 0)
		data, n, err := scan(&b, in, max(size, 1))
		again, m, werr := scan(&whole, in, len(in)+1)
		if !bytes.Equal(data, again) || (err == nil) != (werr == nil) || err == nil && n != m || b.Done() != whole.Done() {
			t.Fatalf("in pieces %q %d %v, whole %q %d %v", data, n, err, again, m, werr)
		}
		if err != nil || !b.Done() {
			return
		}
		r, err := http.ReadResponse(bufio.NewReader(io.MultiReader(
			strings.NewReader("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), bytes.NewReader(in[:n]))), nil)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := io.ReadAll(r.Body)
		if err != nil && len(b.Trailer()) == 0 && !bytes.ContainsAny(in[:n], ";") {
			t.Fatalf("%q: net/http refuses it: %v", in[:n], err)
		}
		if err == nil && !bytes.Equal(theirs, data) {
			t.Fatalf("%q: %q, net/http has %q", in[:n], data, theirs)
		}
	})
}

func BenchmarkChunked(b *testing.B) {
	var in []byte
	for range 16 {
		in = AppendChunk(in, make([]byte, 4096))
	}
	in = AppendEnd(in, nil)
	var body Body
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		body.ResetTo(Chunked, 0)
		if n, err := body.Skip(in); n != len(in) || err != nil {
			b.Fatal(n, err)
		}
	}
}
