package load

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A handshake that fails while the run goes on is a failure of its own kind.
func TestHandshakeFails(t *testing.T) {
	for _, p := range []Protocol{HTTP1, HTTP2} {
		t.Run([]string{"HTTP1", "HTTP2"}[p], func(t *testing.T) {
			t.Parallel()
			e := &engine{t: t, tls: true, protocol: p, run: Run}
			var shakes atomic.Int64
			e.configure = func(c *tls.Config) {
				c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
					if shakes.Add(1) > 2+int64(p) { // the engines look at the target before they begin
						return nil, http.ErrAbortHandler
					}
					return nil, nil
				}
			}
			e.serve(func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) })
			a := e.load(t.Context(), Options{Connections: 1, Source: requests(4, Request{Path: "/"}), NoKeepAlive: true})
			n := e.causes()
			if p == HTTP2 { // one stream was reset, and the connection lives
				if n[Reset] != 4 || a.Connections != 1 {
					t.Errorf("%+v %v", a, n)
				}
				return
			}
			if n[Closed] != 1 || n[TLS] != 3 || a.Connections != 4 {
				t.Errorf("%+v %v", a, n)
			}
		})
	}
}

// In TLS 1.3 a client hears of its certificate only after the handshake.
func TestCertificateIsRefused(t *testing.T) {
	e := &engine{t: t, tls: true, run: Run}
	e.configure = func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert }
	e.serve(func(http.ResponseWriter, *http.Request) {})
	if a := e.load(t.Context(), Options{Connections: 1, Source: requests(3, Request{Path: "/"})}); e.causes()[TLS] != 3 {
		t.Errorf("%+v %v", a, e.causes())
	}
}

// Connections after the first resume its session.
func TestSessionsAreResumed(t *testing.T) {
	e := &engine{t: t, tls: true, run: Run}
	var resumed, whole atomic.Int64
	e.serve(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS.DidResume {
			resumed.Add(1)
		} else {
			whole.Add(1)
		}
	})
	a := e.load(t.Context(), Options{Connections: 1, Source: requests(10, Request{Path: "/"}), NoKeepAlive: true})
	if e.causes()[Answered] != 10 || a.Connections != 10 || whole.Load() != 1 || resumed.Load() != 9 {
		t.Errorf("%+v: %d resumed, %d not", a, resumed.Load(), whole.Load())
	}
}

// What a target says on a connection that nobody asked anything closes that
// connection and fails nothing.
func TestUnaskedAnswer(t *testing.T) {
	t.Parallel()
	cert := testCertificate(t)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	over, closed := make(chan struct{}), make(chan struct{}, 10)
	go func() {
		defer close(over)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				if talk(c) {
					closed <- struct{}{}
				}
			}()
		}
	}()
	e := &engine{t: t, tls: true}
	a, err := Run(t.Context(), Options{Address: l.Addr().String(), TLS: &tls.Config{InsecureSkipVerify: true}, Connections: 1, Loops: 1,
		Pacer: func(int, int) (Pacer, error) { return afterEach(closed, 4), nil }, Source: requests(4, Request{Path: "/"}), Recorder: func(int, int) Recorder { return e }})
	if err != nil {
		t.Fatal(err)
	}
	if e.causes()[Answered] != 4 || a.Connections != 4 {
		t.Errorf("%+v %v", a, e.causes())
	}
	_ = l.Close()
	<-over
}

// afterEach is n requests, each due once the connection of the one before is closed.
func afterEach(closed <-chan struct{}, n int) Pacer {
	k := 0
	return pacerFunc(func() (time.Duration, int, bool) {
		if k++; k > 1 && k <= n {
			<-closed
		}
		return 0, 0, k <= n
	})
}

// talk answers once, and then says that it has waited too long, which closes the
// connection; it reports whether there was anything to answer.
func talk(c net.Conn) bool {
	defer c.Close()
	b := make([]byte, 1024)
	if _, err := c.Read(b); err != nil {
		return false
	}
	_, _ = c.Write([]byte("HTTP/1.1 204 No Content\r\n\r\n"))
	time.Sleep(10 * time.Millisecond)
	_, _ = c.Write([]byte("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"))
	_, _ = c.Read(b)
	return true
}

func testCertificate(t *testing.T) tls.Certificate {
	e := &engine{t: t, tls: true}
	e.serve(func(http.ResponseWriter, *http.Request) {})
	return e.server.TLS.Certificates[0]
}

// A certificate of nobody who is known is an error before any load.
func TestUnknownCertificate(t *testing.T) {
	t.Parallel()
	for _, protocol := range []Protocol{HTTP1, HTTP2} {
		e := &engine{t: t, tls: true, protocol: protocol}
		e.serve(func(http.ResponseWriter, *http.Request) {})
		_, err := Run(t.Context(), Options{Address: e.server.Listener.Addr().String(), TLS: &tls.Config{RootCAs: x509.NewCertPool()}, Protocol: protocol,
			Source: requests(1, Request{}), Recorder: func(int, int) Recorder { return e }})
		if err == nil || len(e.seen) > 0 || !strings.Contains(err.Error(), "unknown authority (hint: trust it by --set tls.ca=FILE") {
			t.Errorf("got %v", err)
		}
	}
}

func TestNoHTTP2ToBeHad(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{true, false} {
		e := &engine{t: t, tls: secure, run: Run}
		e.serve(func(http.ResponseWriter, *http.Request) {})
		o := Options{Address: e.server.Listener.Addr().String(), Protocol: HTTP2, Source: requests(1, Request{}), Recorder: func(int, int) Recorder { return e }}
		if secure {
			o.TLS = &tls.Config{InsecureSkipVerify: true}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_, err := Run(ctx, o)
		cancel()
		if err == nil || len(e.seen) > 0 || !strings.Contains(err.Error(), "HTTP/2") || !strings.Contains(err.Error(), "hint: ") {
			t.Errorf("TLS %v: %v", secure, err)
		}
	}
}
