package shadow

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"tailscope/internal/experiment/mirror/pair"
)

// netServer is net/http's server, by one of three ways to speak.
func netServer(t *testing.T, way string, h http.HandlerFunc) (url string, trust *tls.Config) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	switch way {
	case "plain":
		s.Start()
	case "tls":
		s.StartTLS()
	case "h2":
		s.EnableHTTP2 = true
		s.StartTLS()
	case "h2c":
		var p http.Protocols
		p.SetUnencryptedHTTP2(true)
		s.Config.Protocols = &p
		s.Start()
	}
	t.Cleanup(s.Close)
	switch way {
	case "plain":
		return s.URL, nil
	case "h2c":
		return "h2c" + s.URL[len("http"):], nil
	}
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return s.URL, &tls.Config{RootCAs: pool}
}

func netSender(t *testing.T, way string, change func(*Options), h http.HandlerFunc) *Sender {
	t.Helper()
	url, trust := netServer(t, way, h)
	return testSender(t, func(o *Options) {
		o.Servers, o.TLS = []string{url}, trust
		if change != nil {
			change(o)
		}
	})
}

func TestOtherWays(t *testing.T) {
	for _, way := range []string{"tls", "h2", "h2c"} {
		t.Run(way, func(t *testing.T) {
			var got atomic.Value
			l := netSender(t, way, nil, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got.Store(fmt.Sprint(r.Method, " ", r.RequestURI, " ", r.Host, " ", r.Header["X-Order"], " ",
					r.Header.Get("Tailscope-Mirror"), " ", r.ContentLength, " ", len(body), " ", r.Trailer.Get("X-Sum"),
					" ", r.Header["User-Agent"]))
				w.Header().Set("B", "1")
				w.WriteHeader(201)
				io.WriteString(w, "hello")
				w.(http.Flusher).Flush()
				io.WriteString(w, " world")
			})
			mark := " s1/0123456789abcdef; variant=candidate; copy=0 "
			check := func(leg pair.Leg, want string) {
				t.Helper()
				checkWhole(t, leg, 201, 11)
				if got.Load() != want {
					t.Errorf("got  %s\nwant %s", got.Load(), want)
				}
			}
			check(one(t, l, get("/a?b=%20c")), "GET /a?b=%20c example.com [b a]"+mark+"0 0  []")
			check(one(t, l, get("//double/slash")), "GET //double/slash example.com [b a]"+mark+"0 0  []")
			check(one(t, l, post("body")), "POST /post example.com [b a]"+mark+"4 4  []")
			check(one(t, l, post("")), "POST /post example.com [b a]"+mark+"0 0  []")
			part := []byte(strings.Repeat("x", 100_000))
			p, spool := stream(1_000_000)
			e := offer(l, p, 1)
			for range 10 {
				spool.Write(part)
			}
			spool.Close(nil)
			check(e.wait(t)[0], "PUT /upload example.com [b a]"+mark+"1000000 1000000  []")
			p, spool = stream(-1)
			p.Fields = append(p.Fields, "Trailer: X-Sum\r\n"...)
			e = offer(l, p, 1)
			for range 10 {
				spool.Write(part)
			}
			spool.Close([]byte("X-Sum: 42\r\n"))
			check(e.wait(t)[0], "PUT /upload example.com [b a]"+mark+"-1 1000000 42 []")

			keeping := newEnder(1)
			keeping.keep = true
			p = get("/")
			l.Offer(Copy{Payload: p, To: keeping, Copies: 1})
			p.Release()
			a := keeping.wait(t)[0].Answer
			if a == nil || a.Status != 201 || string(a.Body) != "hello world" {
				t.Errorf("kept %+v", a)
			}
			if n := len(l.State().Servers); n != 1 || l.State().Servers[0].Connections != 1 {
				t.Errorf("one copy after the other: %+v", l.State().Servers)
			}
		})
	}
}

// TestManyStreams has more copies at a time than one connection takes.
func TestManyStreams(t *testing.T) {
	for _, way := range []string{"tls", "h2", "h2c"} {
		t.Run(way, func(t *testing.T) {
			var now, most atomic.Int64
			two := make(chan struct{})
			both := sync.OnceFunc(func() { close(two) })
			l := netSender(t, way, func(o *Options) { o.Streams, o.Connections = 4, 3 }, func(w http.ResponseWriter, r *http.Request) {
				n := now.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				if n >= 2 {
					both()
				}
				select { // the first until there is another one, however long that takes to connect
				case <-two:
				case <-r.Context().Done():
				}
				time.Sleep(2 * time.Millisecond)
				now.Add(-1)
				io.WriteString(w, "ok")
			})
			var enders []*ender
			for range 100 {
				enders = append(enders, offer(l, get("/"), 1))
			}
			for _, e := range enders {
				checkWhole(t, e.wait(t)[0], 200, 2)
			}
			bound := int64(12)
			if way == "tls" {
				bound = 3
			}
			if m := most.Load(); m > bound || m < 2 {
				t.Errorf("%d at a time, with a bound of %d", m, bound)
			}
		})
	}
}

func TestFaultsOfOtherWays(t *testing.T) {
	for _, way := range []string{"tls", "h2", "h2c"} {
		for _, tt := range []struct {
			name  string
			do    http.HandlerFunc
			cause pair.Cause
		}{
			{"sleep", func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body) // else HTTP/1.1 does not see its client go
				select {
				case <-r.Context().Done():
				case <-time.After(20 * time.Second):
				}
			}, pair.TimedOut},
			{"reset", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, pair.Reset},
			{"reset in the answer", func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "100")
				io.WriteString(w, "part")
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}, pair.Reset},
			{"endless", func(w http.ResponseWriter, r *http.Request) {
				b := make([]byte, 64<<10)
				for {
					if _, err := w.Write(b); err != nil {
						return
					}
				}
			}, pair.AnswerLimit},
		} {
			t.Run(way+"/"+tt.name, func(t *testing.T) {
				t.Parallel()
				l := netSender(t, way, func(o *Options) {
					o.Timeout, o.AnswerLimit = 30*time.Second, 1<<20
					if tt.cause == pair.TimedOut {
						o.Timeout = 500 * time.Millisecond
					}
				}, tt.do)
				for _, streamed := range []bool{false, true} {
					p := get("/")
					var spool *Spool
					if streamed {
						p, spool = stream(-1)
					}
					e := offer(l, p, 3)
					if spool != nil {
						spool.Write(make([]byte, 100_000))
						spool.Close(nil)
					}
					for _, leg := range e.wait(t) {
						if tt.cause == pair.TimedOut && leg.Cause == pair.Expired {
							continue // the handshake took its time
						}
						if leg.Cause != tt.cause || leg.Start == 0 {
							t.Errorf("streamed %v: %s", streamed, legText(leg))
						}
					}
				}
			})
		}
	}
}

// TestServerGoesAway: connections of HTTP/2 are given up in order.
func TestServerGoesAway(t *testing.T) {
	for _, way := range []string{"h2", "h2c"} {
		t.Run(way, func(t *testing.T) {
			l := netSender(t, way, nil, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/close" {
					w.Header().Set("Connection", "close") // net/http's word for GOAWAY
				}
			})
			for range 5 {
				checkWhole(t, one(t, l, get("/")), 200, 0)
				checkWhole(t, one(t, l, get("/close")), 200, 0)
			}
		})
	}
}

func TestUntrusted(t *testing.T) {
	url, _ := netServer(t, "h2", func(http.ResponseWriter, *http.Request) {})
	l := testSender(t, func(o *Options) { o.Servers = []string{url} })
	if leg := one(t, l, get("/")); leg.Cause != pair.Handshake {
		t.Errorf("ended with %s", legText(leg))
	}
	if down := l.State().Servers[0].Down; !strings.Contains(down, "certificate") {
		t.Errorf("down: %q", down)
	}
}

// TestNoStreams: a server of HTTP/2 that takes no requests is one that is not
// reached.
func TestNoStreams(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var accepted atomic.Int64
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			go func() {
				defer c.Close()
				io.ReadFull(c, make([]byte, len(http2.ClientPreface)))
				f := http2.NewFramer(c, c)
				f.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 0})
				for {
					got, err := f.ReadFrame()
					if err != nil {
						return
					}
					if p, ok := got.(*http2.PingFrame); ok && !p.IsAck() {
						f.WritePing(true, p.Data)
					}
				}
			}()
		}
	}()
	l := testSender(t, func(o *Options) { o.Servers = []string{"h2c://" + ln.Addr().String()} })
	if leg := one(t, l, get("/")); leg.Cause != pair.Handshake {
		t.Errorf("ended with %s", legText(leg))
	}
	if n := accepted.Load(); n > 2 {
		t.Errorf("%d connections", n)
	}
}

// TestFewStreams: a server that takes fewer requests at a time than we would
// send gets them on more connections, and none is lost.
func TestFewStreams(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Millisecond)
		io.WriteString(w, "ok")
	}))
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	s.Config.Protocols = &p
	s.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 3}
	s.Start()
	t.Cleanup(s.Close)
	l := testSender(t, func(o *Options) { o.Servers, o.Connections = []string{"h2c" + s.URL[len("http"):]}, 2 })
	var enders []*ender
	for range 60 {
		enders = append(enders, offer(l, get("/"), 1))
	}
	for _, e := range enders {
		checkWhole(t, e.wait(t)[0], 200, 2)
	}
}

// Every copy's answer is listened to, not only that of a request's first.
func TestOnHeader(t *testing.T) {
	for _, way := range []string{"plain", "tls", "h2", "h2c"} {
		var n, mu = atomic.Int64{}, sync.Mutex{}
		answered := map[string]int{}
		l := netSender(t, way, func(o *Options) {
			o.OnHeader = func(header []pair.Field) {
				mu.Lock()
				defer mu.Unlock()
				for _, f := range header {
					if strings.EqualFold(f.Name, "X-Number") {
						answered[f.Value]++
					}
				}
			}
		}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Number", fmt.Sprint(n.Add(1)))
			fmt.Fprint(w, "answered")
		})
		for _, leg := range offer(l, get("/"), 5).wait(t) {
			checkWhole(t, leg, 200, 8)
			if leg.Answer != nil {
				t.Errorf("%s: an answer is kept that nobody compares", way)
			}
		}
		mu.Lock()
		if len(answered) != 5 || answered["1"] != 1 || answered["5"] != 1 {
			t.Errorf("%s: heard %v of five answers", way, answered)
		}
		mu.Unlock()
	}
}
