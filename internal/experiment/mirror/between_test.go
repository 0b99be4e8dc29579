package mirror

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"tailscope/internal/experiment/mirror/choose"
	"tailscope/internal/experiment/mirror/offer"
	"tailscope/internal/experiment/mirror/pair"
)

// The primary's time limit is for its answer to begin. One that has begun may
// pause, and a client may take its time, over whatever protocol.
func TestAnswersMayPause(t *testing.T) {
	const limit = 2 * time.Second // as a busy machine may take to begin
	primary := newBackend(t, "h1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "first, ")
		http.NewResponseController(w).Flush()
		time.Sleep(limit * 5 / 4)
		io.WriteString(w, "second")
	}))
	for _, from := range []string{"h1", "h2c"} {
		t.Run(from, func(t *testing.T) {
			t.Parallel() // they only wait
			s := newSession(t, from, primary.URL, func(o *Options) {
				away(o)
				o.PrimaryTimeout = limit
			})
			resp, err := newClient(t, from, s.Addr().String()).Get("http://localhost/")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil || string(body) != "first, second" {
				t.Errorf("%q, %v", body, err)
			}
		})
	}
}

// Without a limit on bodies of copies there are none: 0 copies no request that
// has a body.
func TestNoBodiesCopied(t *testing.T) {
	primary := newBackend(t, "h1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }))
	for _, from := range []string{"h1", "h2c"} {
		t.Run(from, func(t *testing.T) {
			s := newSession(t, from, primary.URL, func(o *Options) {
				away(o)
				o.Unsafe, o.BodyLimit = true, 0
			})
			c := newClient(t, from, s.Addr().String())
			unsized := io.MultiReader(strings.NewReader("body"))
			for _, body := range []io.Reader{nil, strings.NewReader("body"), unsized} {
				resp, err := c.Post("http://localhost/", "", body)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
			}
			waitFor(t, func() bool { return s.State().Requests == 3 }, func() any { return s.State().Requests })
			st := s.State()
			if a := st.Shadows[0].Account; a.Offered != 1 || st.Skipped["length"] != 2 {
				t.Errorf("%d copies offered, skipped %v; want 1 and length 2", a.Offered, st.Skipped)
			}
		})
	}
}

// A target or a method that would be more than one word of a request line is refused:
// HTTP/1.1 separates them by spaces alone.
func TestTermsOfRequestLine(t *testing.T) {
	var lines bytes.Buffer
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			buf := make([]byte, 4096)
			n, _ := c.Read(buf)
			lines.Write(buf[:n])
			io.WriteString(c, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
			c.Close()
		}
	}()
	s := newSession(t, "h2c", "http://"+l.Addr().String(), away)
	for _, c := range []struct{ method, path string }{
		{"GET", "/a HTTP/1.1"}, {"GET", "/a b"}, {"GET /x", "/a"}, {"G(T", "/"},
	} {
		if got := statusOf(t, s.Addr().String(), c.method, c.path); got != "400" && got != "reset" {
			t.Errorf("%s %s: %s", c.method, c.path, got)
		}
	}
	if got := statusOf(t, s.Addr().String(), "GET", "/a%20b?c=%7f"); got != "204" {
		t.Errorf("a plain target: %s", got)
	}
	l.Close()
	<-served
	if got := lines.String(); strings.Count(got, " HTTP/1.1\r\n") != 1 || !strings.Contains(got, "GET /a%20b?c=%7f HTTP/1.1\r\n") {
		t.Errorf("the primary got %q", got)
	}
}

// askH2 sends the head of a request, which is all of it, without a look at it.
func askH2(f *http2.Framer, stream uint32, method, path string) {
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, h := range [][2]string{{":method", method}, {":scheme", "http"}, {":authority", "a"}, {":path", path}} {
		e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
	}
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true})
}

// statusOf makes one request of HTTP/2 as it is given, and returns its status, or
// reset.
func statusOf(t *testing.T, addr, method, path string) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	io.WriteString(c, http2.ClientPreface)
	f := http2.NewFramer(c, c)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	f.WriteSettings()
	askH2(f, 1, method, path)
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			return frame.PseudoValue("status")
		case *http2.RSTStreamFrame:
			return "reset"
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				f.WriteSettingsAck()
			}
		}
	}
}

// One client that reads nothing of many answers keeps nobody else from theirs,
// although all share a connection to the primary.
func TestClientThatReadsNothing(t *testing.T) {
	primary := newBackend(t, "h2c", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/large" {
			io.Copy(w, io.LimitReader(zeros{}, 4<<20))
			return
		}
		io.WriteString(w, "small")
	}))
	s := newSession(t, "h2c", primary.URL, away)
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, http2.ClientPreface)
	f := http2.NewFramer(c, c)
	f.WriteSettings()
	const streams = 100
	for i := range uint32(streams) {
		askH2(f, 1+2*i, "GET", "/large")
	}
	// All of them have begun, and then have come as far as they can.
	waitFor(t, func() bool { return s.State().Requests == streams }, func() any { return s.State() })
	time.Sleep(300 * time.Millisecond)
	client := newClient(t, "h2c", s.Addr().String())
	client.Timeout = 30 * time.Second
	resp, err := client.Get("http://localhost/small")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "small" {
		t.Errorf("%q, %v", body, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// An invalid status is not an answer, and the request is counted all the same.
func TestStatusThatIsNone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if n, _ := c.Read(make([]byte, 4096)); n > 0 {
				io.WriteString(c, "HTTP/1.1 099 What\r\nContent-Length: 0\r\n\r\n")
			}
			c.Close()
		}
	})
	defer served.Wait()
	defer l.Close()
	for _, from := range []string{"h1", "h2c"} {
		t.Run(from, func(t *testing.T) {
			s := newSession(t, from, "http://"+l.Addr().String(), away)
			resp, err := newClient(t, from, s.Addr().String()).Get("http://localhost/")
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusBadGateway {
				t.Error(resp.Status)
			}
			waitFor(t, func() bool { return s.ledger.Stats().Open == 0 && s.State().Failed["bad_answer"] == 1 }, func() any { return s.State() })
		})
	}
}

// A request for which there is no connection to the primary is not copied, over any
// protocol: a shadow would have data that the primary does not have.
func TestNoCopiesOfWhatThePrimaryDoesNotGet(t *testing.T) {
	for _, from := range []string{"h1", "h2c"} {
		t.Run(from, func(t *testing.T) {
			var taken atomic.Int32
			candidate := newBackend(t, "h1", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { taken.Add(1) }))
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			s := newSession(t, from, "http://"+l.Addr().String(), func(o *Options) {
				o.Candidates, o.Unsafe = []Pool{{Servers: []string{candidate.URL}}}, true
			})
			l.Close()
			c := newClient(t, from, s.Addr().String())
			for _, body := range []string{"", "body"} {
				resp, err := c.Post("http://localhost/", "", strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if resp.StatusCode != http.StatusBadGateway {
					t.Error(resp.Status)
				}
			}
			waitFor(t, func() bool { return s.ledger.Stats().Open == 0 && s.State().Failed["refused"] == 2 }, func() any { return s.State() })
			if a := s.State().Shadows[0].Account; a.Offered != 0 || taken.Load() != 0 {
				t.Errorf("%d copies offered, %d taken", a.Offered, taken.Load())
			}
		})
	}
}

// roundTrip is a primary that is asked without a connection.
type roundTrip func(*http.Request) *http.Response

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

// reader is at its end when it returns.
type reader func()

func (f reader) Read([]byte) (int, error) { f(); return 0, io.EOF }

// An answer that the primary sends when it finds that nobody waits any more may still
// be read, since TLS says goodbye before it closes. It is not an answer to the
// request.
func TestAnswerToNobody(t *testing.T) {
	for _, c := range []struct {
		name, why string
		timeout   time.Duration
		begun     bool // the answer has begun when the client leaves
	}{{name: "gone", why: "client_gone"}, {name: "silent", why: "timed_out", timeout: time.Millisecond}, {name: "gone in the answer", why: "client_gone", begun: true}} {
		t.Run(c.name, func(t *testing.T) {
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			o := valid()
			chooser, err := choose.New(o.chooseOptions())
			if err != nil {
				t.Fatal(err)
			}
			ledger := pair.NewLedger(pair.Options{Service: "s"})
			g := &general{
				to: server{scheme: "https", host: "a", port: "1"}, offers: &offer.Maker{Ledger: ledger, Chooser: chooser}, timeout: c.timeout, now: pair.Steady,
				out: roundTrip(func(r *http.Request) *http.Response {
					if c.begun {
						body := io.MultiReader(strings.NewReader("x"), reader(func() { leave(); <-r.Context().Done() }))
						return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(body), ContentLength: -1}
					}
					if c.timeout == 0 {
						leave()
					}
					<-r.Context().Done()
					return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody}
				}),
			}
			func() {
				defer func() {
					if r := recover(); r != nil && r != http.ErrAbortHandler {
						panic(r)
					}
				}()
				g.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil).WithContext(ctx))
			}()
			if s := ledger.Stats(); s.Open != 0 || len(s.Failed) != 1 || s.Failed[c.why] != 1 {
				t.Errorf("%d open, failed %v, want %s", s.Open, s.Failed, c.why)
			}
		})
	}
}
