package proxy

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// What the primary says after its answer is nobody's answer, however soon the
// connection would be used again; and one that says no more is used again.
func TestLateBytesAnswerNobody(t *testing.T) {
	certified := httptest.NewUnstartedServer(nil)
	certified.StartTLS()
	certified.Close()
	for _, c := range []struct {
		name string
		tls  bool
		late bool          // it says more
		by   time.Duration // so long after the answer
	}{
		{name: "plain"}, {name: "plain, at once", late: true}, {name: "plain, later", late: true, by: 10 * time.Millisecond},
		{name: "tls", tls: true}, {name: "tls, at once", tls: true, late: true}, {name: "tls, later", tls: true, late: true, by: 10 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			var conns atomic.Int32
			said := make(chan struct{}, 10)
			w := start(t, func(nc net.Conn) {
				conns.Add(1)
				if c.tls {
					nc = tls.Server(nc, &tls.Config{Certificates: certified.TLS.Certificates})
				}
				var rest []byte
				for {
					if _, _, err := message(nc, &rest, ""); err != nil {
						return
					}
					io.WriteString(nc, crlf("HTTP/1.1 200 OK|Content-Length: 2||ok"))
					time.Sleep(c.by)
					if c.late {
						io.WriteString(nc, crlf("HTTP/1.1 200 OK|Content-Length: 6||poison"))
					}
					said <- struct{}{}
				}
			}, func(o *Options) {
				if c.tls {
					o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
						d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
						return d.DialContext(ctx, "tcp", address)
					}
				}
			})
			for range 3 {
				nc := w.dial()
				var rest []byte
				io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
				_, body, err := message(nc, &rest, "GET")
				if err != nil || string(body) != "ok" {
					t.Fatalf("%q, %v", body, err)
				}
				<-said
			}
			if n := conns.Load(); !c.late && n != 1 || c.late && n != 3 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

// After a malformed body nothing of the client is taken for a request, not even
// if the answer had come before it.
func TestNoRequestAfterMalformedBody(t *testing.T) {
	var bodies, requests atomic.Int32
	malformed := make(chan struct{})
	var now atomic.Pointer[func()]
	w := start(t, func(c net.Conn) {
		var head [1000]byte
		for {
			n, err := c.Read(head[:])
			if err != nil {
				return
			}
			switch {
			case strings.Contains(string(head[:n]), "/smuggled"):
				requests.Add(1)
			case bodies.Add(1) == 1:
				io.WriteString(c, crlf("HTTP/1.1 200 OK|Content-Length: 2||ok"))
			}
		}
	}, func(o *Options) {
		o.Now = func() int64 {
			if f := now.Load(); f != nil {
				(*f)()
			}
			return time.Now().UnixNano()
		}
	})
	nc := w.dial()
	// The read of the answer has returned, and is looked at when the body has
	// turned out to be malformed.
	calls := int32(0)
	hook := func() {
		if bodies.Load() == 1 && atomic.AddInt32(&calls, 1) == 1 {
			close(malformed)
			time.Sleep(50 * time.Millisecond)
		}
	}
	now.Store(&hook)
	io.WriteString(nc, crlf("POST / HTTP/1.1|Host: a|Transfer-Encoding: chunked||5|hello|"))
	<-malformed
	io.WriteString(nc, "zz\r\n")
	time.Sleep(100 * time.Millisecond)
	io.WriteString(nc, crlf("GET /smuggled HTTP/1.1|Host: a||"))
	answers, _ := io.ReadAll(nc)
	if n := strings.Count(string(answers), "HTTP/1.1 "); n != 1 || requests.Load() != 0 {
		t.Errorf("%d answers, %d requests after the malformed one: %q", n, requests.Load(), answers)
	}
}
