package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"tailscope/internal/experiment/mirror/pair"
)

func (w *world) failed() map[string]uint64 {
	// The client may know before the ledger does.
	w.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		s := w.ledger.Stats()
		if s.Open == 0 {
			return s.Failed
		}
		if time.Now().After(end) {
			w.t.Fatalf("%d requests do not end", s.Open)
		}
	}
}

func TestPrimaryFails(t *testing.T) {
	for _, c := range []struct {
		name   string
		serve  func(net.Conn)
		change func(*Options)
		status string
		why    string
		cause  pair.Cause
	}{
		{name: "closes", serve: func(c net.Conn) { c.Read(make([]byte, 1000)) }, status: "502", why: "ended the connection", cause: pair.Reset},
		{name: "resets", serve: func(c net.Conn) { c.Read(make([]byte, 1000)); c.(*net.TCPConn).SetLinger(0) }, status: "502", why: "ended the connection", cause: pair.Reset},
		{name: "talks nonsense", serve: func(c net.Conn) { io.WriteString(c, "220 smtp\r\n"); c.Read(make([]byte, 1000)) }, status: "502", why: "is not HTTP/1.1", cause: pair.BadAnswer},
		{name: "switches unasked", serve: func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 101 Go\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
			c.Read(make([]byte, 1000))
		}, status: "502", why: "is not HTTP/1.1", cause: pair.BadAnswer},
		{name: "says nothing", serve: func(c net.Conn) { io.Copy(io.Discard, c) }, change: func(o *Options) { o.PrimaryTimeout = 60 * time.Millisecond },
			status: "504", why: "no answer within 60ms", cause: pair.TimedOut},
		{name: "does not end its head", serve: func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nX: y\r\n"); io.Copy(io.Discard, c) },
			change: func(o *Options) { o.PrimaryTimeout = 60 * time.Millisecond }, status: "504", why: "no answer within 60ms", cause: pair.TimedOut},
		{name: "is not there", serve: func(net.Conn) {}, change: func(o *Options) {
			o.Dial = func(context.Context, string) (net.Conn, error) {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 80}, Err: syscall.ECONNREFUSED}
			}
		}, status: "502", why: "not reached: 10.0.0.1:80: connection refused", cause: pair.Refused},
		{name: "is not there in time", serve: func(net.Conn) {}, change: func(o *Options) {
			o.DialTimeout = 20 * time.Millisecond
			o.Dial = func(ctx context.Context, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
		}, status: "504", why: "not reached", cause: pair.ConnectTime},
	} {
		t.Run(c.name, func(t *testing.T) {
			change := func(o *Options) {}
			if c.change != nil {
				change = c.change
			}
			w := start(t, c.serve, change)
			nc := w.dial()
			io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			var rest []byte
			raw, body, err := message(nc, &rest, "GET")
			if err != nil || !strings.HasPrefix(string(raw), "HTTP/1.1 "+c.status) || !strings.Contains(string(body), c.why) {
				t.Fatalf("%q, %v", raw, err)
			}
			if f := w.failed(); len(f) != 1 || f[c.cause.String()] != 1 {
				t.Errorf("failed %v, want %v", f, c.cause)
			}
		})
	}
}

// An answer that the primary does not finish is never whole for the client.
func TestBroken(t *testing.T) {
	for _, c := range []struct{ name, version, answer string }{
		{"length", "1.1", "HTTP/1.1 200 OK|Content-Length: 10||abc"},
		{"chunked", "1.1", "HTTP/1.1 200 OK|Transfer-Encoding: chunked||3|abc|"},
		{"last chunk without end", "1.1", "HTTP/1.1 200 OK|Transfer-Encoding: chunked||3|abc|0|"},
		{"chunk malformed", "1.1", "HTTP/1.1 200 OK|Transfer-Encoding: chunked||3|abc|zz|"},
		{"until close", "1.1", "HTTP/1.1 200 OK|||abc"},
		{"chunked for 1.0", "1.0", "HTTP/1.1 200 OK|Transfer-Encoding: chunked||3|abc|"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := start(t, func(nc net.Conn) {
				var rest []byte
				if _, _, err := message(nc, &rest, ""); err == nil {
					io.WriteString(nc, crlf(c.answer))
					time.Sleep(20 * time.Millisecond) // the client has got that
					nc.(*net.TCPConn).SetLinger(0)
				}
			})
			nc := w.dial()
			io.WriteString(nc, "GET / HTTP/"+c.version+"\r\nHost: a\r\n\r\n")
			var rest []byte
			raw, body, err := message(nc, &rest, "GET")
			if err == nil || !bytes.HasPrefix(raw, []byte("HTTP/1.1 200 OK")) {
				t.Fatalf("whole: %q, %q", raw, body)
			}
			if f := w.failed(); f["reset"]+f["bad_answer"] != 1 {
				t.Errorf("failed %v", f)
			}
		})
	}
}

// A connection that the primary has closed while it was not in use costs no
// request.
func TestStale(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		w := start(t, answering(nil, "HTTP/1.1 200 OK|Content-Length: 1||x", true))
		nc := w.dial()
		var rest []byte
		for i := range 20 {
			io.WriteString(nc, method+" / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\ny")
			if raw, _, err := message(nc, &rest, "GET"); err != nil || !strings.HasPrefix(string(raw), "HTTP/1.1 200") {
				t.Fatalf("%s %d: %q, %v", method, i, raw, err)
			}
			if method == "POST" {
				<-w.ended // what cannot be sent twice is lost if the primary closes later
			}
			time.Sleep(time.Millisecond)
		}
		if f := w.failed(); len(f) != 0 {
			t.Errorf("%s: %v", method, f)
		}
	}
}

func TestContinue(t *testing.T) {
	for _, agree := range []bool{true, false} {
		w := start(t, func(c net.Conn) {
			var in []byte
			buf := make([]byte, 1000)
			for !bytes.Contains(in, []byte("\r\n\r\n")) {
				n, err := c.Read(buf)
				if in = append(in, buf[:n]...); err != nil {
					return
				}
			}
			if !strings.Contains(string(in), "Expect: 100-continue\r\n") {
				return
			}
			if !agree {
				io.WriteString(c, "HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n")
				c.Read(buf)
				return
			}
			io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Go on\r\n\r\n")
			_, rest, _ := bytes.Cut(in, []byte("\r\n\r\n"))
			for len(rest) < 5 {
				n, err := c.Read(buf)
				if rest = append(rest, buf[:n]...); err != nil {
					return
				}
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"+string(rest))
		})
		nc := w.dial()
		io.WriteString(nc, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
		var rest []byte
		var got []string
		for _, send := range []string{"", "hello", ""} {
			io.WriteString(nc, send)
			raw, _, err := message(nc, &rest, "GET")
			if err != nil {
				break
			}
			got = append(got, bars(raw))
		}
		want := "HTTP/1.1 417 No|Content-Length: 0|Connection: close||"
		if agree {
			want = "HTTP/1.1 103 Early Hints|Link: x|| HTTP/1.1 100 Go on|| HTTP/1.1 200 OK|Content-Length: 5||hello"
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("agree %v:\n got %s\nwant %s", agree, s, want)
		}
	}
}

// An answer that comes before the request is whole reaches the client at once,
// and the rest of the body still reaches the primary.
func TestEarlyAnswer(t *testing.T) {
	whole := make(chan string, 1)
	w := start(t, func(c net.Conn) {
		io.ReadFull(c, make([]byte, 1))
		io.WriteString(c, "HTTP/1.1 200 Early\r\nContent-Length: 2\r\n\r\nhi")
		var rest []byte
		_, body, err := message(io.MultiReader(strings.NewReader("P"), c), &rest, "")
		if err != nil {
			return
		}
		whole <- string(body)
		_, _, _ = message(c, &rest, "")
		io.WriteString(c, "HTTP/1.1 201 Next\r\nContent-Length: 0\r\n\r\n")
	})
	nc := w.dial()
	io.WriteString(nc, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n01234")
	var rest []byte
	if raw, _, err := message(nc, &rest, "GET"); err != nil || bars(raw) != "HTTP/1.1 200 Early|Content-Length: 2||hi" {
		t.Fatal(string(raw), err)
	}
	io.WriteString(nc, "56789GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if got := <-whole; got != "0123456789" {
		t.Errorf("the primary got %q", got)
	}
	if raw, _, err := message(nc, &rest, "GET"); err != nil || !strings.HasPrefix(string(raw), "HTTP/1.1 201 Next") {
		t.Fatal(string(raw), err)
	}
}

// A primary that refuses a body and closes: the client gets the refusal, however
// much it is still sending.
func TestEarlyRefusal(t *testing.T) {
	w := start(t, func(c net.Conn) {
		c.Read(make([]byte, 1000))
		io.WriteString(c, "HTTP/1.1 413 Too Much\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
		c.(*net.TCPConn).CloseWrite()
		time.Sleep(5 * time.Millisecond)
	})
	nc := w.dial()
	go func() {
		io.WriteString(nc, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000000\r\n\r\n")
		nc.Write(make([]byte, 5000000))
	}()
	var rest []byte
	raw, body, err := message(nc, &rest, "GET")
	if err != nil || !strings.HasPrefix(string(raw), "HTTP/1.1 413 Too Much") || string(body) != "no" {
		t.Fatalf("%q, %v", raw, err)
	}
}

func TestClientClosed(t *testing.T) {
	t.Run("in its body", func(t *testing.T) {
		ended := make(chan error, 1)
		w := start(t, func(c net.Conn) {
			var rest []byte
			_, _, err := message(c, &rest, "")
			ended <- err
		})
		nc := w.dial()
		io.WriteString(nc, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n01234")
		nc.Close()
		if err := <-ended; err == nil {
			t.Error("the primary got a whole request")
		}
		if f := w.failed(); f["client_gone"] != 1 {
			t.Error(f)
		}
	})
	t.Run("in its answer", func(t *testing.T) {
		ended := make(chan error, 1)
		w := start(t, func(c net.Conn) {
			var rest []byte
			_, _, _ = message(c, &rest, "")
			io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
			for {
				if _, err := c.Write(make([]byte, 100_000)); err != nil {
					ended <- err
					return
				}
			}
		})
		nc := w.dial()
		io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		io.ReadFull(nc, make([]byte, 1000))
		nc.Close()
		<-ended
		if f := w.failed(); f["client_gone"] != 1 {
			t.Error(f)
		}
	})
	t.Run("while it waits", func(t *testing.T) {
		asked, ended := make(chan struct{}), make(chan struct{})
		w := start(t, func(c net.Conn) {
			var rest []byte
			_, _, _ = message(c, &rest, "")
			close(asked)
			io.Copy(io.Discard, c)
			close(ended)
		})
		nc := w.dial()
		io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		<-asked
		nc.(*net.TCPConn).SetLinger(0)
		nc.Close()
		<-ended
		if f := w.failed(); f["client_gone"] != 1 {
			t.Error(f)
		}
	})
}

func TestTimeLimits(t *testing.T) {
	t.Parallel() // it waits for most of its time
	primary := answering(nil, "HTTP/1.1 200 OK|Content-Length: 1||x", false)
	// Each limit alone, so that a client that is late itself does not meet another.
	heads := start(t, primary, func(o *Options) { o.HeadTimeout = 60 * time.Millisecond })
	slow := heads.dial()
	io.WriteString(slow, "GET / HTTP/1.1\r\nHo")
	var rest []byte
	if raw, _, err := message(slow, &rest, "GET"); err != nil || !strings.HasPrefix(string(raw), "HTTP/1.1 408 ") {
		t.Errorf("%q, %v", raw, err)
	}
	w := start(t, primary, func(o *Options) { o.IdleTimeout = 2 * time.Second })
	idle, body := w.dial(), w.dial()
	io.WriteString(body, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n01234")
	for _, nc := range []net.Conn{idle, body} {
		if n, err := nc.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("%d, %v", n, err)
		}
	}
	if f := w.failed(); f["client_gone"] != 1 {
		t.Error(f)
	}
}

func TestShutdown(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	w := start(t, func(c net.Conn) {
		var rest []byte
		for {
			if _, _, err := message(c, &rest, ""); err != nil {
				return
			}
			asked <- struct{}{}
			<-answer
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")
		}
	})
	idle, busy := w.dial(), w.dial()
	io.WriteString(busy, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-asked
	done := make(chan error)
	go func() { done <- w.p.Shutdown(context.Background()) }()
	if n, err := idle.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("idle: %d, %v", n, err)
	}
	close(answer)
	var rest []byte
	if raw, _, err := message(busy, &rest, "GET"); err != nil || bars(raw) != "HTTP/1.1 200 OK|Content-Length: 1|Connection: close||x" {
		t.Errorf("%q, %v", raw, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestShutdownBreaksOff(t *testing.T) {
	asked := make(chan struct{})
	w := start(t, func(c net.Conn) { c.Read(make([]byte, 1000)); close(asked); io.Copy(io.Discard, c) })
	nc := w.dial()
	io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-asked
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := w.p.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestTunnel(t *testing.T) {
	for _, c := range []struct{ request, answer, client string }{
		{"GET /ws HTTP/1.1|Host: a|Connection: Upgrade|Upgrade: websocket|Sec-WebSocket-Key: k||",
			"HTTP/1.1 101 Switching Protocols|Upgrade: websocket|Connection: Upgrade||first",
			"HTTP/1.1 101 Switching Protocols|Upgrade: websocket|Connection: Upgrade||"},
		{"CONNECT b:443 HTTP/1.1|Host: b:443||", "HTTP/1.1 200 OK||first", "HTTP/1.1 200 OK||"},
	} {
		w := start(t, func(nc net.Conn) {
			var rest []byte
			raw, _, err := message(nc, &rest, "")
			if err != nil || strings.Contains(c.request, "Upgrade") && !strings.Contains(bars(raw), "|Upgrade: websocket|Connection: Upgrade||") {
				return
			}
			io.WriteString(nc, crlf(c.answer))
			nc.Write(rest)
			io.Copy(nc, nc)
			io.WriteString(nc, "bye")
		})
		nc := w.dial()
		io.WriteString(nc, crlf(c.request)+"early")
		var rest []byte
		method, _, _ := strings.Cut(c.request, " ")
		raw, _, err := message(nc, &rest, method)
		if err != nil || bars(raw) != c.client {
			t.Fatalf("%q, %v", raw, err)
		}
		big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
		go func() {
			nc.Write(big)
			nc.(*net.TCPConn).CloseWrite()
		}()
		got, err := io.ReadAll(nc)
		if want := "firstearly" + string(big) + "bye"; err != nil || string(rest)+string(got) != want {
			t.Fatalf("%d bytes and %d, %v", len(rest), len(got), err)
		}
		if s := w.ledger.Stats(); s.Skipped["upgrade"]+s.Skipped["connect"] != 1 {
			t.Error(s.Skipped)
		}
		if len(w.sender.seen()) != 0 {
			t.Error("it was copied")
		}
	}
}

// Events reach the client as they come.
func TestEvents(t *testing.T) {
	next := make(chan string)
	w := start(t, func(c net.Conn) {
		var rest []byte
		_, _, _ = message(c, &rest, "")
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
		for s := range next {
			io.WriteString(c, s)
		}
	})
	nc := w.dial()
	io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	want := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
	buf := make([]byte, 1000)
	for _, event := range []string{"", "data: 1\n\n", "data: 2\n\n"} {
		if event != "" {
			next <- event
			want = event
		}
		if _, err := io.ReadFull(nc, buf[:len(want)]); err != nil || string(buf[:len(want)]) != want {
			t.Fatalf("%q, %v, want %q", buf[:len(want)], err, want)
		}
	}
	close(next)
	if n, err := nc.Read(buf); n != 0 || err != io.EOF {
		t.Error(n, err)
	}
}
