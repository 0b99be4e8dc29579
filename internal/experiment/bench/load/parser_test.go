package load

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tailscope/internal/http1"
)

func TestParser(t *testing.T) {
	tests := []struct {
		name   string
		head   bool // the request was HEAD
		in     string
		status int
		body   string
		keep   bool
		rest   int // bytes that are not the answer's
		open   bool
		err    string // a part of it
	}{
		{name: "length", in: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", status: 200, body: "hello", keep: true},
		{name: "nothing", in: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", status: 200, keep: true},
		{name: "no reason", in: "HTTP/1.1 404\r\ncontent-length:0\r\n\r\n", status: 404, keep: true},
		{name: "lines end with LF", in: "HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", status: 200, body: "hi", keep: true},
		{name: "the same length twice", in: "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\nContent-Length: 2\r\n\r\nhi", status: 200, body: "hi", keep: true},
		{name: "two lengths", in: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n", err: "Content-Length given twice"},
		{name: "a negative length", in: "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n", err: "malformed Content-Length"},
		{name: "an empty length", in: "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n", err: "malformed Content-Length"},
		{name: "a huge length", in: "HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999999\r\n\r\n", err: "malformed Content-Length"},
		{name: "chunks", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nA;x=y\r\n, world of\r\n0\r\n\r\n", status: 200, body: "hello, world of", keep: true},
		{name: "chunks and a trailer", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n1\r\na\r\n0\r\nx: y\r\n\r\n", status: 200, body: "a", keep: true},
		{name: "chunks have the last word", in: "HTTP/1.1 200 OK\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", status: 200, body: "a", keep: true},
		{name: "a chunk longer than it says", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", err: "chunk without line end"},
		{name: "a chunk without size", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n", err: "malformed size of a chunk"},
		{name: "a chunk's size overflows", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1000000000000000\r\n", err: "malformed size of a chunk"},
		{name: "until the end", in: "HTTP/1.1 200 OK\r\n\r\nall of it", status: 200, body: "all of it"},
		{name: "a coding that is not chunked", in: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: gzip\r\n\r\nall of it", status: 200, body: "all of it"},
		{name: "close", in: "HTTP/1.1 200 OK\r\nConnection: foo, Close\r\nContent-Length: 1\r\n\r\na", status: 200, body: "a"},
		{name: "1.0", in: "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", status: 200, body: "a"},
		{name: "1.0 that stays", in: "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\na", status: 200, body: "a", keep: true},
		{name: "HEAD", head: true, in: "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", status: 200, keep: true},
		{name: "204", in: "HTTP/1.1 204 No Content\r\n\r\n", status: 204, keep: true},
		{name: "304", in: "HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n", status: 304, keep: true},
		{name: "100 and 103 first", in: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", status: 200, body: "a", keep: true},
		{name: "101", in: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", status: 101},
		{name: "more than the answer", in: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nabc", status: 200, body: "a", keep: true, rest: 2},
		{name: "a folded line", in: "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 1\r\n\r\na", status: 200, body: "a", keep: true},
		{name: "chunks whose lines end with LF", in: "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5\nhello\n1 ;x=y\n!\n0\nno field\n\n", status: 200, body: "hello!", keep: true},
		{name: "chunks of 1.0", in: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", status: 200, body: "a", keep: true},
		{name: "odd fields", in: "HTTP/1.1 200 OK\r\nX[1] y: \x01\r\nContent-Length: 1\r\n\r\na", status: 200, body: "a", keep: true},
		{name: "half a head", in: "HTTP/1.1 200 OK\r\nContent-", open: true},
		{name: "half a body", in: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe", open: true},
		{name: "half a chunk", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe", open: true},
		{name: "another protocol", in: "SSH-2.0-OpenSSH_9.2\r\n", err: "not an answer of HTTP/1.1"},
		{name: "another protocol without a line", in: "\x15\x03\x01\x00\x02\x02", err: "not an answer of HTTP/1.1"},
		{name: "another version", in: "HTTP/2.0 200 OK\r\n\r\n", err: "not an answer of HTTP/1.1"},
		{name: "no status", in: "HTTP/1.1 OK\r\n\r\n", err: "malformed status line"},
		{name: "a status of four digits", in: "HTTP/1.1 2000 OK\r\n\r\n", err: "malformed status line"},
		{name: "a status below 100", in: "HTTP/1.1 099 OK\r\n\r\n", err: "malformed status line"},
		{name: "a line that is not a field", in: "HTTP/1.1 200 OK\r\nnonsense\r\n\r\n", err: "malformed field name"},
		{name: "a head without end", in: "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", 300<<10), err: "longer than 256 KiB"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, piece := range []int{1, 2, 3, 7, 64, len(test.in)} {
				var p parser
				p.begin(test.head, true, true, 1<<20)
				n, err := feedIn(&p, []byte(test.in), piece)
				if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
					t.Fatalf("in pieces of %d: %v, not %v", piece, err, test.err)
				}
				if err != nil {
					continue
				}
				if done := p.done || p.eof(); done == test.open {
					t.Fatalf("in pieces of %d: done %v", piece, done)
				}
				if test.open {
					continue
				}
				if p.status != test.status || string(p.body) != test.body || p.keep != test.keep || len(test.in)-n != test.rest || p.size != int64(n) {
					t.Fatalf("in pieces of %d: status %d, body %q, keep %v, %d left, size %d", piece, p.status, p.body, p.keep, len(test.in)-n, p.size)
				}
			}
		})
	}
}

// feedIn feeds b in pieces until the answer is whole, and says how much of it was
// taken.
func feedIn(p *parser, b []byte, piece int) (n int, err error) {
	for n < len(b) && !p.done {
		took, err := p.feed(b[n:min(n+piece, len(b))])
		n += took
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// A parser that is used again has nothing of the answer before.
func TestParserAgain(t *testing.T) {
	var p parser
	for range 3 {
		p.begin(false, true, true, 4)
		if _, err := p.feed([]byte("HTTP/1.1 200 OK\r\nX-Long: first\r\nContent-Length: 6\r\n\r\nlonger")); err != nil || !p.done || string(p.body) != "long" {
			t.Fatalf("%v, body %q", err, p.body)
		}
		if h := p.header(); len(h) != 2 || h[0] != (Field{"X-Long", "first"}) || h[1] != (Field{"Content-Length", "6"}) {
			t.Fatalf("%q", h)
		}
		p.begin(false, false, false, 4)
		if _, err := p.feed([]byte("HTTP/1.1 404 No\r\nX: y\r\nContent-Length: 3\r\n\r\nabc")); err != nil || !p.done || len(p.body) > 0 || len(p.header()) > 0 || p.status != 404 {
			t.Fatalf("%v, body %q, header %q", err, p.body, p.header())
		}
	}
}

func TestParserAllocates(t *testing.T) {
	var p parser
	answers := [][]byte{
		[]byte("HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 5\r\n\r\nhello"),
		[]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
	}
	one := func() {
		for _, a := range answers {
			p.begin(false, true, true, 1<<20)
			if _, err := feedIn(&p, a, 11); err != nil || !p.done {
				t.Fatal(err)
			}
			p.header()
		}
	}
	one()
	if n := testing.AllocsPerRun(100, one); n != 0 {
		t.Errorf("%v allocations for two answers", n)
	}
}

// What arrives in one piece or in many is the same answer.
func TestParserOfPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := []byte(answerGen.Draw(t, "answer"))
		whole, pieces := new(parser), new(parser)
		whole.begin(false, true, true, 1<<20)
		pieces.begin(false, true, true, 1<<20)
		n, err := whole.feed(in)
		m, perr := feedIn(pieces, in, rapid.IntRange(1, 40).Draw(t, "piece"))
		if (err == nil) != (perr == nil) || err == nil && (n != m || whole.status != pieces.status || !bytes.Equal(whole.body, pieces.body) || whole.keep != pieces.keep || whole.done != pieces.done) {
			t.Fatalf("%v, %v: %d, %d bytes of %q", err, perr, n, m, in)
		}
	})
}

// answerGen makes answers of which most are right.
var answerGen = rapid.Custom(func(t *rapid.T) string {
	body := rapid.StringN(0, 200, -1).Draw(t, "body")
	status := rapid.SampledFrom([]string{"200 OK", "204 No", "404", "500 Oh no", "103 Early"}).Draw(t, "status")
	fields := rapid.SampledFrom([]string{"", "Connection: close\r\n", "X: y\r\nz:\r\n", "bad\r\n"}).Draw(t, "fields")
	head := "HTTP/1.1 " + status + "\r\n" + fields
	switch rapid.IntRange(0, 2).Draw(t, "framing") {
	case 0:
		return head + "Content-Length: " + itoa(len(body)) + "\r\n\r\n" + body
	case 1:
		return head + "Transfer-Encoding: chunked\r\n\r\n" + chunks(body, rapid.IntRange(1, 50).Draw(t, "chunk")) + "0\r\n\r\n"
	}
	return head + "\r\n" + body
})

// FuzzParser compares with the standard library where both say the answer is
// whole, and sees that pieces make no difference.
func FuzzParser(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"), uint8(3))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), uint8(1))
	f.Add([]byte("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\n\r\nrest"), uint8(9))
	f.Fuzz(func(t *testing.T, in []byte, piece uint8) {
		var a, b parser
		a.begin(false, true, true, 1<<20)
		b.begin(false, false, true, 1<<20)
		n, err := a.feed(in)
		m, berr := feedIn(&b, in, int(piece)+1)
		if (err == nil) != (berr == nil) || err == nil && (n != m || a.done != b.done || a.status != b.status || !bytes.Equal(a.body, b.body)) {
			t.Fatalf("pieces of %d: %v, %v", int(piece)+1, err, berr)
		}
		if n > len(in) || a.size != int64(n) {
			t.Fatalf("%d of %d bytes, size %d", n, len(in), a.size)
		}
		if err != nil || !a.done || a.status == 101 || a.status < 200 {
			return
		}
		r, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(in)), nil)
		if err != nil || r.StatusCode != a.status {
			return // it is stricter in some things, and stops at an interim answer
		}
		body, err := io.ReadAll(r.Body)
		if err == nil && len(r.TransferEncoding) == 0 && r.ContentLength >= 0 && a.head.Framing == http1.Length && a.head.Length == r.ContentLength && !bytes.Equal(body, a.body) {
			t.Fatalf("body %q, not %q", a.body, body)
		}
	})
}
