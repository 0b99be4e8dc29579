package http1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// show says what was understood of a head, in one line.
func (h *Head) show() string {
	var b strings.Builder
	if h.Status != 0 {
		fmt.Fprintf(&b, "%d %q", h.Status, h.Reason)
	} else {
		fmt.Fprintf(&b, "%s %s host=%s", h.Method, h.Target, h.Host)
	}
	switch h.Framing {
	case Length:
		fmt.Fprintf(&b, " length=%d", h.Length)
	case Chunked:
		b.WriteString(" chunked")
	case UntilClose:
		b.WriteString(" until close")
	case Tunnel:
		b.WriteString(" tunnel")
	}
	if h.Minor == 0 {
		b.WriteString(" 1.0")
	}
	if h.Close {
		b.WriteString(" close")
	}
	if h.Expect {
		b.WriteString(" expect")
	}
	if h.Trailers {
		b.WriteString(" trailers")
	}
	if h.Upgrade != nil {
		fmt.Fprintf(&b, " upgrade=%s", h.Upgrade)
	}
	for _, f := range h.Fields {
		fmt.Fprintf(&b, " [%s=%s]", f.Name, f.Value)
	}
	return b.String()
}

func lines(s string) []byte { return []byte(strings.ReplaceAll(s, "|", "\r\n") + "\r\n\r\n") }

func TestRequest(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"GET / HTTP/1.1|Host: a", "GET / host=a [Host=a]"},
		{"||GET / HTTP/1.1|Host: a", "GET / host=a [Host=a]"},
		{"GET / HTTP/1.0", "GET / host= 1.0 close"},
		{"GET / HTTP/1.0|Connection: Keep-Alive", "GET / host= 1.0 [Connection=Keep-Alive]"},
		{"GET / HTTP/1.1|host:a|Connection: x, close", "GET / host=a close [host=a] [Connection=x, close]"},
		{"GET / HTTP/1.7|Host: a", "GET / host=a [Host=a]"},
		{"POST /a?b HTTP/1.1|Host: a|Content-Length: 5", "POST /a?b host=a length=5 [Host=a] [Content-Length=5]"},
		{"POST / HTTP/1.1|Host: a|Content-Length: 5|content-length: 5", "POST / host=a length=5 [Host=a] [Content-Length=5] [content-length=5]"},
		{"POST / HTTP/1.1|Host: a|Transfer-Encoding: Chunked|Expect: 100-Continue|TE: gzip, trailers",
			"POST / host=a chunked expect trailers [Host=a] [Transfer-Encoding=Chunked] [Expect=100-Continue] [TE=gzip, trailers]"},
		{"GET / HTTP/1.1|Host: a|Connection: Upgrade|Upgrade: websocket", "GET / host=a upgrade=websocket [Host=a] [Connection=Upgrade] [Upgrade=websocket]"},
		{"GET / HTTP/1.1|Host: a|Upgrade: websocket", "GET / host=a [Host=a] [Upgrade=websocket]"},
		{"GET http://b:1/x HTTP/1.1|Host: a", "GET http://b:1/x host=b:1 [Host=a]"},
		{"CONNECT a:443 HTTP/1.1|Host: a:443", "CONNECT a:443 host=a:443 [Host=a:443]"},
		{"OPTIONS * HTTP/1.1|Host: a", "OPTIONS * host=a [Host=a]"},
		{"GET / HTTP/1.1|Host: a|X:|Y: \t z \t", "GET / host=a [Host=a] [X=] [Y=z]"},

		{"GET /", "400 malformed request line"},
		{"GET / HTTP/2.0|Host: a", "505 version of HTTP not supported, use HTTP/1.1"},
		{"GET / http/1.1|Host: a", "400 malformed request line"},
		{"GET /a b HTTP/1.1|Host: a", "400 malformed target in the request line"},
		{"GET  / HTTP/1.1|Host: a", "400 malformed target in the request line"},
		{"G(T / HTTP/1.1|Host: a", "400 malformed method in the request line"},
		{"GET / HTTP/1.1", "400 an HTTP/1.1 request needs one Host field"},
		{"GET / HTTP/1.1|Host: a|Host: a", "400 an HTTP/1.1 request needs one Host field"},
		{"GET / HTTP/1.1|Host: a/b", "400 malformed Host"},
		{"GET / HTTP/1.1|Host : a", "400 malformed field name"},
		{"GET / HTTP/1.1|Host: a|nothing", "400 malformed field name"},
		{"GET / HTTP/1.1|Host: a|: x", "400 malformed field name"},
		{"GET / HTTP/1.1|Host: a|X: b| c", "400 folded field line"},
		{"GET / HTTP/1.1| Host: a", "400 folded field line"},
		{"GET / HTTP/1.1|Host: a|X: b\rc", "400 carriage return without line feed"},
		{"GET / HTTP/1.1|Host: a|X: b\x00c", "400 control character in a field value"},
		{"POST / HTTP/1.1|Host: a|Content-Length: 5|Transfer-Encoding: chunked", "400 both Transfer-Encoding and Content-Length"},
		{"POST / HTTP/1.1|Host: a|Content-Length: 5|Content-Length: 6", "400 Content-Length given twice"},
		{"POST / HTTP/1.1|Host: a|Content-Length: 5, 5", "400 malformed Content-Length"},
		{"POST / HTTP/1.1|Host: a|Content-Length: +5", "400 malformed Content-Length"},
		{"POST / HTTP/1.1|Host: a|Content-Length:", "400 malformed Content-Length"},
		{"POST / HTTP/1.1|Host: a|Content-Length: 99999999999999999999", "400 malformed Content-Length"},
		{"POST / HTTP/1.1|Host: a|Transfer-Encoding: gzip, chunked", "501 transfer coding not supported, use chunked"},
		{"POST / HTTP/1.1|Host: a|Transfer-Encoding: chunked|Transfer-Encoding: chunked", "501 transfer coding not supported, use chunked"},
		{"POST / HTTP/1.1|Host: a|Transfer-Encoding: xchunked", "501 transfer coding not supported, use chunked"},
		{"POST / HTTP/1.0|Transfer-Encoding: chunked", "400 Transfer-Encoding in HTTP/1.0"},
	} {
		var h Head
		in := lines(c.in)
		n, err := h.ParseRequest(append(in, "rest"...))
		got := h.show()
		if e := (*Error)(nil); errors.As(err, &e) {
			got = fmt.Sprint(e.Status, " ", e.Reason)
		} else if n != len(in) {
			t.Errorf("%q: %d bytes, want %d", c.in, n, len(in))
		}
		if got != c.want {
			t.Errorf("%q:\n got %s\nwant %s", c.in, got, c.want)
		}
		if err == nil {
			for i := range in {
				if n, err := h.ParseRequest(in[:i:i]); n != 0 || err != nil && !strings.HasPrefix(c.in, "||") {
					t.Errorf("%q cut at %d: %d, %v", c.in, i, n, err)
				}
				if Ends(in[:i], i/2) && i < len(in)-1 && !strings.HasPrefix(c.in, "||") {
					t.Errorf("%q cut at %d has an end", c.in, i)
				}
			}
			if !Ends(in, len(in)-1) {
				t.Errorf("%q has no end", c.in)
			}
		}
	}
}

func TestResponse(t *testing.T) {
	for _, c := range []struct{ method, in, want string }{
		{"GET", "HTTP/1.1 200 OK|Content-Length: 3", `200 "OK" length=3 [Content-Length=3]`},
		{"HEAD", "HTTP/1.1 200 OK|Content-Length: 3", `200 "OK" [Content-Length=3]`},
		{"GET", "HTTP/1.1 304 Not Modified|Content-Length: 3", `304 "Not Modified" [Content-Length=3]`},
		{"GET", "HTTP/1.1 204|X: y", `204 "" [X=y]`},
		{"GET", "HTTP/1.1 100 Continue", `100 "Continue"`},
		{"GET", "HTTP/1.1 299 Ganz Gut ", `299 "Ganz Gut " until close close`},
		{"GET", "HTTP/1.0 200 OK|Connection: keep-alive|Content-Length: 0", `200 "OK" length=0 1.0 [Connection=keep-alive] [Content-Length=0]`},
		{"GET", "HTTP/1.1 200 OK|Transfer-Encoding: chunked|Content-Length: 3", `200 "OK" chunked [Transfer-Encoding=chunked] [Content-Length=3]`},
		{"GET", "HTTP/1.1 101 Switching Protocols|Connection: upgrade|Upgrade: x", `101 "Switching Protocols" tunnel upgrade=x [Connection=upgrade] [Upgrade=x]`},
		{"CONNECT", "HTTP/1.1 200 OK|Content-Length: 3", `200 "OK" tunnel [Content-Length=3]`},
		{"GET", "HTTP/1.1 200 OK|Content-Length: 0|X: a|\tb|  c|Y : d", `200 "OK" length=0 [Content-Length=0] [X=a  ` + " \tb    c] [Y=d]"},

		{"GET", "HTTP/1.1 20 OK", "malformed status line"},
		{"GET", "HTTP/1.1 099 OK", "malformed status line"},
		{"GET", "HTTP/1.1 2000 OK", "malformed status line"},
		{"GET", "HTTP/2.0 200 OK", "malformed status line"},
		{"GET", "HTTP/1.1 200 OK|Content-Length: 3|Content-Length: 4", "Content-Length given twice"},
		{"GET", "HTTP/1.1 200 OK|Transfer-Encoding: gzip", "transfer coding not supported, use chunked"},
		{"GET", "HTTP/1.0 200 OK|Transfer-Encoding: chunked", "Transfer-Encoding in HTTP/1.0"},
	} {
		var h Head
		in := lines(c.in)
		n, err := h.ParseResponse(bytes.Clone(in), []byte(c.method))
		got := strings.ReplaceAll(h.show(), "a    \tb", "a   \tb")
		if err != nil {
			got = err.Error()
		} else if n != len(in) {
			t.Errorf("%q: %d bytes, want %d", c.in, n, len(in))
		} else {
			h.skims(t, in, []byte(c.method))
		}
		if strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(c.want, " ", "") {
			t.Errorf("%q:\n got %s\nwant %s", c.in, got, c.want)
		}
	}
}

// skims sees that Skim understands of an answer what ParseResponse did.
func (h *Head) skims(t *testing.T, in, method []byte) {
	t.Helper()
	if bytes.Contains(in, []byte("\n ")) || bytes.Contains(in, []byte("\n\t")) {
		return // folded lines are left out
	}
	for _, all := range []bool{false, true} {
		var s Head
		n, err := s.Skim(in, method, all)
		if err != nil || n != len(in) || s.Status != h.Status || s.Framing != h.Framing || s.Length != h.Length || s.Close != h.Close || all && len(s.Fields) != len(h.Fields) {
			t.Fatalf("%q: skimmed %d bytes, %v, as %s; want %s", in, n, err, s.show(), h.show())
		}
	}
}

func TestSkim(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"HTTP/1.1 200 OK|Content-Length: 3, 3|Content-Length: 3", `200 "OK" length=3`},
		{"HTTP/1.1 200 OK|Content-Length: 3|Transfer-Encoding: gzip, chunked", `200 "OK" chunked`},
		{"HTTP/1.1 200 OK|Content-Length: 3|Transfer-Encoding: gzip", `200 "OK" until close close`},
		{"HTTP/1.1 200 OK|Transfer-Encoding: chunked|Transfer-Encoding: gzip", `200 "OK" until close close`},
		{"HTTP/1.0 200 OK|Transfer-Encoding: chunked", `200 "OK" chunked 1.0 close`},
		{"HTTP/1.1 200 OK|Connection: keep-alive|X: a| close|Content-Length: 0|A B[1]: \x01", `200 "OK" length=0`},
		{"HTTP/1.1 200 OK|Connection: x, Close|Content-Length: 0", `200 "OK" length=0 close`},

		{"HTTP/1.1 200 OK|Content-Length: 3, 4", "malformed Content-Length"},
		{"HTTP/1.1 200 OK|Content-Length: 3, 3|Content-Length: 4", "Content-Length given twice"},
		{"HTTP/1.1 200 OK|Content-Length:", "malformed Content-Length"},
		{"HTTP/1.1 200 OK|Content-Length: -3", "malformed Content-Length"},
		{"HTTP/1.1 200 OK|nothing", "malformed field name"},
		{"HTTP/1.1 2000 OK", "malformed status line"},
	} {
		var h Head
		in := lines(c.in)
		n, err := h.Skim(in, nil, false)
		h.Fields = nil
		got := h.show()
		if err != nil {
			got = err.Error()
		} else if n != len(in) {
			t.Errorf("%q: %d bytes, want %d", c.in, n, len(in))
		}
		if got != c.want {
			t.Errorf("%q:\n got %s\nwant %s", c.in, got, c.want)
		}
	}
}

func TestAppendFields(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"Host: a|User-Agent:x|aCCept:  */* ", "Host: a|User-Agent:x|aCCept:  */* |"},
		{"Host: a|Connection: close, X-Once|X-A: 1|x-once: 2|Keep-Alive: 3|X-B: 4|TE: trailers|Upgrade: y", "Host: a|X-A: 1|X-B: 4|"},
		{"Connection: Host, Content-Length|Host: a|Content-Length: 0|content-length: 0", "Host: a|Content-Length: 0|"},
		{"Host: a\nX : b", "Host: a|X: b|"},
		{"Proxy-Connection: x|Host: a", "Host: a|"},
		{"Host: a|Transfer-Encoding: chunked", "Host: a|"},
	} {
		var h Head
		in := append([]byte("HTTP/1.1 200 OK\r\n"), lines(c.in)...)
		if _, err := h.ParseResponse(in, nil); err != nil {
			t.Fatalf("%q: %v", c.in, err)
		}
		if got := strings.ReplaceAll(string(h.AppendFields(nil, HopByHop)), "\r\n", "|"); got != c.want {
			t.Errorf("%q:\n got %s\nwant %s", c.in, got, c.want)
		}
	}
}

// FuzzRequest checks that whatever is taken here is taken by net/http too, and
// for the same request: what is passed on is read in one way.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{"GET / HTTP/1.1|Host: a", "POST /a?b HTTP/1.1|Host: a|Content-Length: 5|X: y",
		"POST / HTTP/1.1|Host: a|Transfer-Encoding: chunked|Connection: close", "GET / HTTP/1.0"} {
		f.Add(lines(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var h Head
		n, err := h.ParseRequest(bytes.Clone(in))
		if n > len(in) || n > 0 && err != nil {
			t.Fatalf("%d bytes of %d, %v", n, len(in), err)
		}
		if n == 0 {
			return
		}
		out := AppendRequestLine(nil, h.Method, h.Target)
		if !h.Has.Has(Host) {
			out = AppendField(out, "Host", "")
		}
		out = append(h.AppendFields(out, HopByHop&^Of(TransferEncoding)), "\r\n"...)
		var again Head
		if m, err := again.ParseRequest(out); m != len(out) || err != nil {
			t.Fatalf("%q is passed on as %q: %d, %v", in[:n], out, m, err)
		}
		if again.Framing != h.Framing || again.Length != h.Length {
			t.Fatalf("%q is passed on as %q", in[:n], out)
		}
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(out)))
		if err != nil {
			return // a target that is not a URL, and the like: the primary decides
		}
		length := r.ContentLength
		switch {
		case h.Framing == Chunked && (len(r.TransferEncoding) != 1 || length != -1),
			h.Framing == Length && length != h.Length, h.Framing == None && length != 0:
			t.Fatalf("%q: framing %d, length %d; net/http has %v, %d", out, h.Framing, h.Length, r.TransferEncoding, length)
		}
	})
}

func FuzzResponse(f *testing.F) {
	for _, s := range []string{"HTTP/1.1 200 OK|Content-Length: 3", "HTTP/1.1 304 Not Modified|X: a| b",
		"HTTP/1.1 200 OK|Transfer-Encoding: chunked|Content-Length: 3", "HTTP/1.0 200|Connection: keep-alive"} {
		f.Add(lines(s), "GET")
	}
	f.Fuzz(func(t *testing.T, in []byte, method string) {
		var h Head
		n, err := h.ParseResponse(bytes.Clone(in), []byte(method))
		if n > len(in) || n > 0 && err != nil {
			t.Fatalf("%d bytes of %d, %v", n, len(in), err)
		}
		if n == 0 {
			return
		}
		h.skims(t, in[:n], []byte(method))
		if h.Framing == Tunnel {
			return
		}
		out := AppendStatusLine(nil, h.Status, h.Reason)
		out = append(h.AppendFields(out, HopByHop&^Of(TransferEncoding)), "\r\n"...)
		var again Head
		if m, err := again.ParseResponse(out, []byte(method)); m != len(out) || err != nil ||
			again.Framing != h.Framing || again.Length != h.Length || again.Status != h.Status {
			t.Fatalf("%q is passed on as %q: %d, %v", in[:n], out, m, err)
		}
		r, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(out)), &http.Request{Method: method})
		if err != nil || method != "GET" {
			return
		}
		want := map[Framing]int64{None: 0, Length: h.Length, Chunked: -1, UntilClose: -1}[h.Framing]
		if r.ContentLength != want && h.Framing != None {
			t.Fatalf("%q: framing %d, length %d; net/http has %d", out, h.Framing, h.Length, r.ContentLength)
		}
	})
}

var request = lines("POST /api/v1/orders?limit=20 HTTP/1.1|Host: shop.example:8080|User-Agent: Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101|" +
	"Accept: text/html,application/json;q=0.9,*/*;q=0.8|Accept-Encoding: gzip, deflate, br|Content-Type: application/json|Content-Length: 2048|" +
	"Connection: keep-alive|Cookie: session=4f6f2c1e9a7b; theme=dark|X-Tenant: blue")

func BenchmarkRequest(b *testing.B) {
	var h Head
	var out []byte
	b.SetBytes(int64(len(request)))
	b.ReportAllocs()
	for b.Loop() {
		if n, err := h.ParseRequest(request); n == 0 || err != nil {
			b.Fatal(n, err)
		}
		out = h.AppendFields(AppendRequestLine(out[:0], h.Method, h.Target), HopByHop)
	}
}

func BenchmarkResponse(b *testing.B) {
	in := lines("HTTP/1.1 200 OK|Server: nginx|Date: Fri, 20 Nov 2026 20:00:00 GMT|Content-Type: application/json|Content-Length: 1024|Connection: keep-alive|ETag: \"abc\"")
	get := []byte("GET")
	var h Head
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		if n, err := h.ParseResponse(in, get); n == 0 || err != nil {
			b.Fatal(n, err)
		}
		out = h.AppendFields(AppendStatusLine(out[:0], h.Status, h.Reason), HopByHop)
	}
}

func TestNoAllocations(t *testing.T) {
	var h Head
	var out []byte
	if n := testing.AllocsPerRun(100, func() {
		if n, err := h.ParseRequest(request); n == 0 || err != nil {
			t.Fatal(n, err)
		}
		out = h.AppendFields(AppendRequestLine(out[:0], h.Method, h.Target), HopByHop)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestOriginForm(t *testing.T) {
	for target, want := range map[string]string{
		"/a?b": "/a?b", "*": "*", "a:443": "a:443", "http://a/b?c": "/b?c", "http://a": "/", "http://a?c": "/?c", "/x://y": "/x://y",
	} {
		if got := string(OriginForm([]byte(target))); got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
}
