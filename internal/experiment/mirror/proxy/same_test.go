package proxy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tailscope/internal/experiment/mirror/offer"
	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/experiment/mirror/shadow"
	"tailscope/internal/http1"
)

// told is a server that notes its requests, and answers as the query says.
type told struct {
	mu   sync.Mutex
	seen []string
}

func (s *told) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var fields []string
	for k, v := range r.Header {
		// A short body in chunks goes to shadows with its length.
		if !strings.HasPrefix(k, "X-Forwarded-") && !strings.HasPrefix(k, "Tailscope-") && k != "Content-Length" {
			fields = append(fields, fmt.Sprint(k, v))
		}
	}
	slices.Sort(fields)
	s.mu.Lock()
	s.seen = append(s.seen, fmt.Sprint(r.Method, r.RequestURI, r.Host, fields, len(body), sha256.Sum256(body), r.Trailer, err))
	s.mu.Unlock()
	h := w.Header()
	h["Date"] = nil
	h["x-CASE"] = []string{"as it is"}
	q := r.URL.Query()
	size, _ := strconv.Atoi(q.Get("size"))
	if q.Get("how") == "length" {
		h.Set("Content-Length", q.Get("size"))
	}
	if q.Get("how") == "trailers" {
		h.Set("Trailer", "X-Sum")
	}
	status, _ := strconv.Atoi(q.Get("status"))
	w.WriteHeader(status)
	if status == 204 || status == 304 {
		return
	}
	answer := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
	for len(answer) > 0 {
		n := min(len(answer), 1+size/3)
		_, _ = w.Write(answer[:n])
		if answer = answer[n:]; q.Get("how") == "flush" {
			w.(http.Flusher).Flush()
		}
	}
	if q.Get("how") == "trailers" {
		h.Set("X-Sum", "42")
	}
}

func (s *told) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen
	s.seen = nil
	return seen
}

// ends reports when copies have ended, of one request at a time.
type ends struct {
	shadow.Ender
	ch chan pair.Leg
}

func (e *ends) EndCopy(i int, l pair.Leg) { e.Ender.EndCopy(i, l); e.ch <- l }

// noting is a sender of which it is known when copies end.
type noting struct {
	*shadow.Sender
	ends *ends
}

func note(l *shadow.Sender) noting { return noting{l, &ends{ch: make(chan pair.Leg, 10)}} }

func (n noting) Offer(c shadow.Copy) {
	n.ends.Ender = c.To
	c.To = n.ends
	n.Sender.Offer(c)
}

// Whatever is asked and answered, the client gets through the proxy what it gets
// without, the primary is asked the same, and so is the shadow.
func TestSame(t *testing.T) {
	primary, candidate := &told{}, &told{}
	ps, cs := httptest.NewServer(primary), httptest.NewServer(candidate)
	defer ps.Close()
	defer cs.Close()
	l, err := shadow.NewSender(shadow.Options{Name: "candidate", Role: pair.Candidate, Session: "here", Servers: []string{cs.URL}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(context.Background())
	sender := note(l)
	w := start(t, func(net.Conn) {}, func(o *Options) {
		o.Addresses = []string{ps.Listener.Addr().String()}
		o.Senders = []offer.Sender{sender}
	})
	// Connections are kept over requests.
	direct, err := net.Dial("tcp", ps.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	through := w.dial()
	var restD, restT []byte
	rapid.Check(t, func(t *rapid.T) {
		method := rapid.SampledFrom([]string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "ODD"}).Draw(t, "method")
		size := rapid.SampledFrom([]int{0, 1, 100, 5000, 70_000, 300_000}).Draw(t, "answer")
		how := rapid.SampledFrom([]string{"plain", "length", "flush", "trailers"}).Draw(t, "how")
		status := rapid.SampledFrom([]int{200, 201, 204, 304, 404, 500}).Draw(t, "status")
		req := fmt.Appendf(nil, "%s /x?size=%d&how=%s&status=%d HTTP/1.1\r\nHost: a\r\nX-Rand: %d\r\n", method, size, how, status, rapid.Int().Draw(t, "x"))
		body := make([]byte, rapid.SampledFrom([]int{0, 1, 2048, 20_000, 150_000}).Draw(t, "body"))
		for i := range body {
			body[i] = byte(i * 7)
		}
		switch rapid.SampledFrom([]string{"none", "length", "chunked"}).Draw(t, "framing") {
		case "none":
			req = append(req, "\r\n"...)
		case "length":
			req = append(fmt.Appendf(req, "Content-Length: %d\r\n\r\n", len(body)), body...)
		case "chunked":
			trailer := rapid.SampledFrom([]string{"", "X-T: v\r\n"}).Draw(t, "trailer")
			if trailer != "" {
				req = append(req, "Trailer: X-T\r\n"...)
			}
			req = append(req, "Transfer-Encoding: chunked\r\n\r\n"...)
			for len(body) > 0 {
				n := rapid.IntRange(1, len(body)).Draw(t, "chunk")
				req, body = http1.AppendChunk(req, body[:n]), body[n:]
			}
			req = http1.AppendEnd(req, []byte(trailer))
		}
		exchange := func(c net.Conn, rest *[]byte, cut int) []byte {
			go func() {
				_, _ = c.Write(req[:cut])
				if cut < len(req) {
					time.Sleep(time.Millisecond)
					_, _ = c.Write(req[cut:])
				}
			}()
			raw, _, err := message(c, rest, method)
			if err != nil {
				t.Fatalf("%.200q: %v: %.200q", req, err, raw)
			}
			return raw
		}
		want := exchange(direct, &restD, len(req))
		got := exchange(through, &restT, rapid.IntRange(1, len(req)).Draw(t, "cut"))
		if !bytes.Equal(got, want) {
			t.Fatalf("the client got\n%.300q\nwant\n%.300q", got, want)
		}
		if leg := <-sender.ends.ch; leg.Cause != pair.None {
			t.Fatalf("the copy: %v", leg.Cause)
		}
		asked, copies := primary.take(), candidate.take()
		if len(asked) != 2 || asked[0] != asked[1] || len(copies) != 1 {
			t.Fatalf("the primary was asked\n%s\nthe candidate\n%s", strings.Join(asked, "\n"), copies)
		}
		if copies[0] != asked[0] {
			t.Fatalf("the candidate was asked\n%s\nwant\n%s", copies[0], asked[0])
		}
	})
	if f := w.failed(); len(f) != 0 {
		t.Error(f)
	}
}

// Large bodies flow both ways at once, on many connections.
func TestBothWays(t *testing.T) {
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		w.WriteHeader(200)
		_, _ = io.Copy(flushing{w}, r.Body)
	}))
	defer echo.Close()
	w := start(t, func(net.Conn) {}, func(o *Options) { o.Addresses = []string{echo.Listener.Addr().String()} })
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for range 8 {
		nc := w.dial()
		wg.Go(func() {
			var rest []byte
			for range 4 {
				body := make([]byte, rand.IntN(2_000_000))
				for i := range body {
					body[i] = byte(i*31 + i>>8)
				}
				go func() {
					_, _ = fmt.Fprintf(nc, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", len(body))
					_, _ = nc.Write(body)
				}()
				if _, got, err := message(nc, &rest, "GET"); err != nil || !bytes.Equal(got, body) {
					errs <- errors.Join(fmt.Errorf("%d bytes of %d", len(got), len(body)), err)
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
}

type flushing struct{ http.ResponseWriter }

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.ResponseWriter.Write(p)
	f.ResponseWriter.(http.Flusher).Flush()
	return n, err
}
