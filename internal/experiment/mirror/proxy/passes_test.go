package proxy

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

const forwardedFrom = "X-Forwarded-For: 127.0.0.1|X-Forwarded-Host: a|X-Forwarded-Proto: http|Tailscope-Passed: here|"

// What the primary gets and what the client gets, byte for byte.
func TestPasses(t *testing.T) {
	for _, c := range []struct {
		name, request, primary, answer, client string
		last                                   bool // the primary ends the connection
		closes                                 bool // so does the proxy
		method                                 string
	}{
		{name: "get", request: "GET /a?b=%20 HTTP/1.1|Host: a|aCCept:x|X-B:  y ||",
			primary: "GET /a?b=%20 HTTP/1.1|Host: a|aCCept:x|X-B:  y |" + forwardedFrom + "|",
			answer:  "HTTP/1.1 200 Very Fine|dAte: now|Content-Length: 3|X-A: 1|x-a:2||abc",
			client:  "HTTP/1.1 200 Very Fine|dAte: now|Content-Length: 3|X-A: 1|x-a:2||abc"},
		{name: "hop by hop", request: "GET / HTTP/1.1|Host: a|Connection: keep-alive, X-Me|X-Me: 1|Keep-Alive: 5|Proxy-Connection: x|TE: trailers, gzip|Upgrade: no||",
			primary: "GET / HTTP/1.1|Host: a|" + forwardedFrom + "TE: trailers|Connection: TE||",
			answer:  "HTTP/1.1 200 OK|Connection: keep-alive, X-It|X-It: 1|Keep-Alive: timeout=5|Upgrade: h2|Content-Length: 0||",
			client:  "HTTP/1.1 200 OK|Content-Length: 0||"},
		{name: "forwarded", request: "GET / HTTP/1.1|Host: a|X-Forwarded-For: 1.2.3.4|X-Forwarded-Proto: https|x-forwarded-for: 5.6.7.8|Cookie: z||",
			primary: "GET / HTTP/1.1|Host: a|X-Forwarded-Proto: https|Cookie: z|X-Forwarded-For: 1.2.3.4, 5.6.7.8, 127.0.0.1|X-Forwarded-Host: a|Tailscope-Passed: here||",
			answer:  "HTTP/1.1 204 No Content||", client: "HTTP/1.1 204 No Content||"},
		{name: "post", request: "POST / HTTP/1.1|Host: a|Content-Length: 5||hello",
			primary: "POST / HTTP/1.1|Host: a|Content-Length: 5|" + forwardedFrom + "|hello",
			answer:  "HTTP/1.1 404 |Content-Length: 2||no", client: "HTTP/1.1 404 |Content-Length: 2||no"},
		{name: "chunks and trailers both ways", request: "PUT / HTTP/1.1|Host: a|Transfer-Encoding: chunked|Trailer: X-T|TE: trailers||3;e|abc|0|X-T: 1||",
			primary: "PUT / HTTP/1.1|Host: a|Transfer-Encoding: chunked|Trailer: X-T|" + forwardedFrom + "TE: trailers|Connection: TE||3;e|abc|0|X-T: 1||",
			answer:  "HTTP/1.1 200 OK|transfer-encoding: chunked|Trailer: X-S||A|0123456789|1|x|0|X-S: 9||",
			client:  "HTTP/1.1 200 OK|transfer-encoding: chunked|Trailer: X-S||A|0123456789|1|x|0|X-S: 9||"},
		{name: "head", method: "HEAD", request: "HEAD / HTTP/1.1|Host: a||", primary: "HEAD / HTTP/1.1|Host: a|" + forwardedFrom + "|",
			answer: "HTTP/1.1 200 OK|Content-Length: 1000||", client: "HTTP/1.1 200 OK|Content-Length: 1000||"},
		{name: "not modified", request: "GET / HTTP/1.1|Host: a||", primary: "GET / HTTP/1.1|Host: a|" + forwardedFrom + "|",
			answer: "HTTP/1.1 304 Not Modified|Content-Length: 1000||", client: "HTTP/1.1 304 Not Modified|Content-Length: 1000||"},
		{name: "until close", request: "GET / HTTP/1.1|Host: a||", primary: "GET / HTTP/1.1|Host: a|" + forwardedFrom + "|", last: true, closes: true,
			answer: "HTTP/1.0 200 OK|X: y||all of it", client: "HTTP/1.1 200 OK|X: y|Connection: close||all of it"},
		{name: "client closes", request: "GET / HTTP/1.1|Host: a|Connection: close||", primary: "GET / HTTP/1.1|Host: a|" + forwardedFrom + "|", closes: true,
			answer: "HTTP/1.1 200 OK|Content-Length: 1||x", client: "HTTP/1.1 200 OK|Content-Length: 1|Connection: close||x"},
		{name: "primary closes", request: "GET / HTTP/1.1|Host: a||", primary: "GET / HTTP/1.1|Host: a|" + forwardedFrom + "|", last: true,
			answer: "HTTP/1.1 200 OK|Content-Length: 1|Connection: close||x", client: "HTTP/1.1 200 OK|Content-Length: 1||x"},
		{name: "1.0", request: "GET / HTTP/1.0||", primary: "GET / HTTP/1.1|Host: PRIMARY|X-Forwarded-For: 127.0.0.1|X-Forwarded-Proto: http|Tailscope-Passed: here||", closes: true,
			answer: "HTTP/1.1 200 OK|Transfer-Encoding: chunked|X: y||3|abc|2|de|0|T: u||", client: "HTTP/1.1 200 OK|X: y|Connection: close||abcde"},
		{name: "1.0 kept", request: "GET / HTTP/1.0|Host: a|Connection: keep-alive||", primary: "GET / HTTP/1.1|Host: a|" + forwardedFrom + "|",
			answer: "HTTP/1.1 200 OK|Content-Length: 1||x", client: "HTTP/1.1 200 OK|Content-Length: 1|Connection: keep-alive||x"},
		{name: "absolute target", request: "GET http://b/x HTTP/1.1|Host: a||", primary: "GET http://b/x HTTP/1.1|Host: b|X-Forwarded-For: 127.0.0.1|X-Forwarded-Host: b|X-Forwarded-Proto: http|Tailscope-Passed: here||",
			answer: "HTTP/1.1 200 OK|Content-Length: 1||x", client: "HTTP/1.1 200 OK|Content-Length: 1||x"},
		{name: "upgrade required", request: "GET / HTTP/1.1|Host: a||", primary: "GET / HTTP/1.1|Host: a|" + forwardedFrom + "|",
			answer: "HTTP/1.1 426 Upgrade Required|Connection: upgrade|Upgrade: x/2|Content-Length: 0||",
			client: "HTTP/1.1 426 Upgrade Required|Content-Length: 0|Upgrade: x/2|Connection: Upgrade||"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			w := start(t, answering(&got, c.answer, c.last))
			nc := w.dial()
			rounds := 3
			if c.closes {
				rounds = 1
			}
			var rest []byte
			if c.method == "" {
				c.method = "GET"
			}
			for i := range rounds {
				io.WriteString(nc, crlf(c.request))
				raw, _, err := message(nc, &rest, c.method)
				if bars(raw) != c.client || err != nil {
					t.Fatalf("the client got %d: %v\n %s\nwant\n %s", i, err, bars(raw), c.client)
				}
			}
			if len(rest) > 0 {
				t.Errorf("left over: %q", rest)
			}
			if c.closes {
				if n, err := nc.Read(make([]byte, 1)); n != 0 || err != io.EOF {
					t.Errorf("the connection goes on: %d, %v", n, err)
				}
			}
			if len(got) != rounds {
				t.Fatalf("%d requests came, want %d", len(got), rounds)
			}
			for _, g := range got {
				if want := strings.ReplaceAll(c.primary, "PRIMARY", w.p.o.Addresses[0]); g != want {
					t.Errorf("the primary got\n %s\nwant\n %s", g, want)
				}
			}
		})
	}
}

// Copies hold what goes end to end.
func TestCopies(t *testing.T) {
	w := start(t, answering(nil, "HTTP/1.1 200 OK|Content-Length: 1||x", false))
	nc := w.dial()
	io.WriteString(nc, crlf("POST /p HTTP/1.1|Host: h|Connection: X-Me|X-Me: 1|A: b|Expect: 100-continue|Content-Length: 3||abc"+
		"PUT /c HTTP/1.1|Host: h|Transfer-Encoding: chunked||2|de|1|f|0||"+"GET / HTTP/1.1|Host: h||"))
	var rest []byte
	for range 3 {
		if _, _, err := message(nc, &rest, "GET"); err != nil {
			t.Fatal(err)
		}
	}
	f := strings.ReplaceAll(strings.ReplaceAll(forwardedFrom, "Host: a", "Host: h"), "Tailscope-Passed: here|", "")
	want := []string{"POST /p h|A: b|" + f + "abc", "PUT /c h|" + f + "def", "GET / h|" + f}
	if got := w.sender.seen(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("copies\n %q\nwant\n %q", got, want)
	}
	if a := w.ledger.Account(0); a.Offered != 3 || a.Answered != 3 || a.Paired+a.Pairing != 3 {
		t.Errorf("%+v", a)
	}
}

func TestPipelined(t *testing.T) {
	w := start(t, func(c net.Conn) {
		var rest []byte
		for {
			_, body, err := message(c, &rest, "")
			if err != nil {
				return
			}
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		}
	})
	nc := w.dial()
	const n = 200
	go func() {
		for i := range n {
			body := strings.Repeat(fmt.Sprint(i%10), i*37)
			fmt.Fprintf(nc, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		}
	}()
	var rest []byte
	for i := range n {
		_, body, err := message(nc, &rest, "GET")
		if want := strings.Repeat(fmt.Sprint(i%10), i*37); err != nil || string(body) != want {
			t.Fatalf("answer %d: %d bytes, %v", i, len(body), err)
		}
	}
}

func TestRefused(t *testing.T) {
	w := start(t, answering(nil, "HTTP/1.1 200 OK|Content-Length: 1||x", false), func(o *Options) { o.HeadLimit = 10 << 10 })
	for _, c := range []struct{ request, status string }{
		{"GET / HTTP/1.1||", "400"},
		{"GET / HTTP/1.1|Host: a|Content-Length: 1|Transfer-Encoding: chunked||", "400"},
		{"POST / HTTP/1.1|Host: a|Transfer-Encoding: chunked||zz|", "400"},
		{"GET / HTTP/3.0|Host: a||", "505"},
		{"GET / HTTP/1.1|Host: a|X: " + strings.Repeat("x", 20<<10) + "||", "431"},
		{"GET / HTTP/1.1|Host: a|Tailscope-Mirror: here/7; variant=candidate||", "508"},
		{"GET / HTTP/1.1|Host: a|Tailscope-Mirror: there/7; variant=candidate||", "200"},
	} {
		nc := w.dial()
		io.WriteString(nc, crlf(c.request))
		var rest []byte
		raw, body, err := message(nc, &rest, "GET")
		if err != nil || !strings.HasPrefix(string(raw), "HTTP/1.1 "+c.status+" ") {
			t.Errorf("%.60q: %q, %v, want %s", c.request, raw, err, c.status)
		}
		if c.status != "200" && !strings.HasPrefix(string(body), "tailscope mirror: ") {
			t.Errorf("%.60q: body %q", c.request, body)
		}
		nc.Close()
	}
}
