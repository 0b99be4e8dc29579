package shadow

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"tailscope/internal/experiment/mirror/mirrortest"
	"tailscope/internal/experiment/mirror/pair"
)

func TestCopyIsSentAsItCame(t *testing.T) {
	var mu sync.Mutex
	var heads []string
	s := mirrortest.Start(t, mirrortest.Func(func(x *mirrortest.Request, body []byte) (int, string) {
		mu.Lock()
		defer mu.Unlock()
		heads = append(heads, fmt.Sprint(x.Method, " ", x.RequestURI, " ", x.Host, " ", x.Header["X-Order"],
			" ", x.Header.Get("Tailscope-Mirror"), " ", x.ContentLength, " ", string(body)))
		return 200, "hello"
	}))
	l := testSender(t, nil, s)
	checkWhole(t, one(t, l, get("/a?b=c")), 200, 5)
	checkWhole(t, one(t, l, post("body")), 200, 5)
	checkWhole(t, one(t, l, post("")), 200, 5)
	want := []string{
		"GET /a?b=c example.com [b a] s1/0123456789abcdef; variant=candidate; copy=0 0 ",
		"POST /post example.com [b a] s1/0123456789abcdef; variant=candidate; copy=0 4 body",
		"POST /post example.com [b a] s1/0123456789abcdef; variant=candidate; copy=0 0 ",
	}
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(heads, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if n := s.Accepted(); n != 1 {
		t.Errorf("%d connections for requests one after the other", n)
	}
}

func TestRewrite(t *testing.T) {
	var got string
	s := mirrortest.Start(t, mirrortest.Func(func(x *mirrortest.Request, _ []byte) (int, string) {
		got = fmt.Sprint(x.RequestURI, " ", x.Host, " ", x.Header.Get("Accept"))
		return 200, ""
	}))
	l := testSender(t, func(o *Options) {
		o.Rewrite = Rewrite{
			Target: func(dst, target []byte) []byte { return append(append(dst, "/v2"...), target...) },
			Host:   func(dst, _ []byte) []byte { return append(dst, "other"...) },
			Fields: func(dst, _ []byte) []byte { return append(dst, "Accept: none\r\n"...) },
		}
	}, s)
	checkWhole(t, one(t, l, get("/a")), 200, 0)
	if want := "/v2/a other none"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAnswers(t *testing.T) {
	for _, tt := range []struct {
		name, answer string
		close        bool
		method       string
		status       int
		bytes        int64
		cause        pair.Cause
	}{
		{name: "length", answer: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", status: 200, bytes: 3},
		{name: "chunked", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nX: y\r\n\r\n", status: 200, bytes: 5},
		{name: "until close", answer: "HTTP/1.1 200 OK\r\n\r\nabcd", close: true, status: 200, bytes: 4},
		{name: "1.0", answer: "HTTP/1.0 500 No\r\nContent-Length: 1\r\n\r\nx", close: true, status: 500, bytes: 1},
		{name: "1xx", answer: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", status: 204},
		{name: "not modified", answer: "HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n", status: 304},
		{name: "head", method: "HEAD", answer: "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", status: 200},
		{name: "cut off", answer: "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", close: true, status: 200, bytes: 3, cause: pair.Reset},
		{name: "cut off in the head", answer: "HTTP/1.1 200 OK\r\nConte", close: true, cause: pair.Reset},
		{name: "nothing", answer: "", close: true, cause: pair.Reset},
		{name: "no HTTP", answer: "SSH-2.0-OpenSSH\r\n\r\n", cause: pair.BadAnswer},
		{name: "bad chunk", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", status: 200, cause: pair.BadAnswer},
		{name: "switched", answer: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", cause: pair.BadAnswer},
		{name: "too long", answer: "HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n" + strings.Repeat("x", 2000), status: 200, bytes: 2000, cause: pair.AnswerLimit},
		{name: "long head", answer: "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 40<<10) + "\r\n\r\n", cause: pair.BadAnswer},
	} {
		t.Run(tt.name, func(t *testing.T) {
			way := mirrortest.Raw(tt.answer)
			if tt.close {
				way = mirrortest.RawThenClose(tt.answer)
			}
			s := mirrortest.Start(t, way)
			l := testSender(t, func(o *Options) { o.AnswerLimit = 1000 }, s)
			for range 2 { // what came before is no matter
				p := get("/")
				if tt.method != "" {
					p.Method = append(p.Method[:0], tt.method...)
				}
				leg := one(t, l, p)
				if leg.Cause != tt.cause || leg.Status != tt.status || leg.Bytes != tt.bytes {
					t.Fatalf("got %s", legText(leg))
				}
				if (leg.End != 0) != (tt.cause == pair.None) {
					t.Errorf("end is %d", leg.End)
				}
			}
		})
	}
}

func TestKeptAnswer(t *testing.T) {
	s := mirrortest.Start(t, mirrortest.Raw("HTTP/1.1 200 OK\r\nContent-Length: 6\r\nB: 1\r\nA: 2\r\nConnection: keep-alive, C\r\nC: 3\r\n\r\nabcdef"))
	l := testSender(t, func(o *Options) { o.KeepLimit = 4 }, s)
	for range 2 {
		e := newEnder(2)
		e.keep = true
		p := get("/")
		l.Offer(Copy{Payload: p, To: e, Copies: 2})
		p.Release()
		kept := 0
		for _, leg := range e.wait(t) {
			checkWhole(t, leg, 200, 6)
			if leg.Answer == nil {
				continue
			}
			kept++
			a := leg.Answer
			if got := fmt.Sprintf("%d %v %s %v", a.Status, a.Header, a.Body, a.Cut); got != "200 [{Content-Length 6} {B 1} {A 2}] abcd true" {
				t.Errorf("kept %s", got)
			}
		}
		if kept != 1 {
			t.Errorf("%d answers are kept, of two copies", kept)
		}
	}
}

// TestStreamed sends bodies that come in while they are sent, and compares what
// arrives.
func TestStreamed(t *testing.T) {
	var mu sync.Mutex
	var got []string
	var trailer string
	s := mirrortest.Start(t, mirrortest.Answer(200, "ok"))
	s.OnRequest(func(r *http.Request, body []byte) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, fmt.Sprint(r.ContentLength, " ", r.TransferEncoding, " ", string(body)))
		trailer = r.Trailer.Get("X-Sum")
	})
	l := testSender(t, nil, s)
	part := strings.Repeat("0123456789abcdef", 1000)
	for _, chunked := range []bool{false, true} {
		length := int64(-1)
		if !chunked {
			length = int64(20 * len(part))
		}
		p, spool := stream(length)
		if chunked {
			p.Fields = append(p.Fields, "Trailer: X-Sum\r\n"...)
		}
		e := offer(l, p, 3)
		for range 20 {
			spool.Write([]byte(part))
		}
		if chunked {
			spool.Close([]byte("X-Sum: 42\r\n"))
		} else {
			spool.Close(nil)
		}
		for _, leg := range e.wait(t) {
			checkWhole(t, leg, 200, 2)
		}
		want := fmt.Sprint(length, " [] ", strings.Repeat(part, 20))
		if chunked {
			want = fmt.Sprint(-1, " [chunked] ", strings.Repeat(part, 20))
		}
		mu.Lock()
		for _, g := range got {
			if g != want {
				t.Errorf("chunked %v: got %d bytes %.60q, want %d", chunked, len(g), g, len(want))
			}
		}
		if len(got) != 3 {
			t.Errorf("%d requests arrived", len(got))
		}
		got = nil
		if chunked && trailer != "42" {
			t.Errorf("trailer %q", trailer)
		}
		mu.Unlock()
	}
	if held, _ := l.Buffered(); held != 0 {
		t.Errorf("%d bytes are held after all", held)
	}
}

// TestBiggerThanTheSocket sends a body that was there in whole, and that no
// socket takes at once.
func TestBiggerThanTheSocket(t *testing.T) {
	s := mirrortest.Start(t, mirrortest.Func(func(x *mirrortest.Request, body []byte) (int, string) {
		return 200, fmt.Sprint(len(body))
	}))
	l := testSender(t, nil, s)
	body := strings.Repeat("x", 12<<20)
	for range 3 {
		checkWhole(t, one(t, l, post(body)), 200, int64(len("12582912")))
	}
}

func TestEarlyAnswer(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		read   bool
	}{{"refused", 413, false}, {"refused and read", 413, true}, {"in time", 200, true}} {
		t.Run(tt.name, func(t *testing.T) {
			s := mirrortest.Start(t, mirrortest.Early(tt.status, tt.read))
			l := testSender(t, nil, s)
			p, spool := stream(1 << 20)
			e := offer(l, p, 1)
			spool.Write(make([]byte, 1000))
			if tt.status == 413 {
				// It ends although the client goes on and on.
				checkWhole(t, e.wait(t)[0], tt.status, 5)
				spool.Write(make([]byte, 1<<20-1000))
				spool.Close(nil)
			} else {
				spool.Write(make([]byte, 1<<20-1000))
				spool.Close(nil)
				checkWhole(t, e.wait(t)[0], tt.status, 5)
			}
			s.Set(mirrortest.Answer(200, "next"))
			checkWhole(t, one(t, l, get("/")), 200, 4)
		})
	}
}

// TestSlowClient: a copy whose client takes its time has its time limit from
// when there was something to send.
func TestSlowClient(t *testing.T) {
	for _, way := range []string{"plain", "h2c"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel() // it waits for most of its time
			l := netSender(t, way, func(o *Options) { o.Timeout = 2 * time.Second }, func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				io.WriteString(w, "ok")
			})
			p, spool := stream(-1)
			e := offer(l, p, 1)
			for range 5 {
				spool.Write([]byte("some"))
				time.Sleep(500 * time.Millisecond)
			}
			spool.Close(nil)
			checkWhole(t, e.wait(t)[0], 200, 2)
		})
	}
}
