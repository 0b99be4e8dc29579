// Package mirrortest runs servers that misbehave, for tests of their clients.
//
// A Server speaks HTTP/1.1 on a port of its own and changes its ways while it
// runs:
//
//	s := mirrortest.Start(t, mirrortest.Answer(200, "hello"))
//	s.Set(mirrortest.Hang())
package mirrortest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Way is a server's treatment of one request, of which the head was read. It returns
// false to close the connection.
type Way struct {
	name string
	do   func(s *Server, x *Request) bool
	// atOnce is called with a new connection before anything is read from it.
	atOnce func(s *Server, c net.Conn)
}

func (w Way) String() string { return w.name }

// Request is a request that has arrived.
type Request struct {
	*http.Request
	Conn   net.Conn
	Number int // of its connection, from 1
}

// Server is a server that misbehaves.
type Server struct {
	// Addr is its host:port, which it keeps while it refuses.
	Addr string

	requests atomic.Int64
	accepted atomic.Int64
	whole    atomic.Int64
	bytes    atomic.Int64

	stop chan struct{}
	wg   sync.WaitGroup

	mu       sync.Mutex
	way      Way
	listener net.Listener
	conns    map[net.Conn]bool
	seen     func(*http.Request, []byte)
}

// Start starts a server on a free port of 127.0.0.1, which ends with the test.
func Start(tb testing.TB, way Way) *Server {
	tb.Helper()
	s, err := Listen("127.0.0.1:0", way)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

// Listen starts a server on an address, until Close.
func Listen(addr string, way Way) (*Server, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	s := &Server{Addr: ln.Addr().String(), way: way, stop: make(chan struct{}), conns: map[net.Conn]bool{}}
	s.serve(ln)
	return s, nil
}

// URL returns the server's address for HTTP.
func (s *Server) URL() string { return "http://" + s.Addr }

// Set changes the server's way from the next request on.
func (s *Server) Set(w Way) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.way = w
}

// OnRequest calls f with every whole request and its body, on any goroutine, in the
// ways that read bodies.
func (s *Server) OnRequest(f func(*http.Request, []byte)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = f
}

// Requests counts the requests whose head was read, Whole those that were read to
// their end, Accepted the connections.
func (s *Server) Requests() int { return int(s.requests.Load()) }
func (s *Server) Whole() int    { return int(s.whole.Load()) }
func (s *Server) Accepted() int { return int(s.accepted.Load()) }

// Connections returns the number of open connections.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Down makes the server refuse connections, and breaks the open ones.
func (s *Server) Down() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		s.listener.Close()
		s.listener = nil
	}
	for c := range s.conns {
		reset(c)
	}
}

// Up makes the server accept connections again, on the same port.
func (s *Server) Up() error {
	s.mu.Lock()
	up := s.listener != nil
	s.mu.Unlock()
	if up {
		return nil
	}
	ln, err := net.Listen("tcp", s.Addr)
	if err != nil {
		return fmt.Errorf("listen again: %w", err)
	}
	s.serve(ln)
	return nil
}

// Close ends the server and waits until it has ended.
func (s *Server) Close() {
	s.mu.Lock()
	select {
	case <-s.stop:
	default:
		close(s.stop)
	}
	if s.listener != nil {
		s.listener.Close()
		s.listener = nil
	}
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *Server) serve(ln net.Listener) {
	s.mu.Lock()
	s.listener = ln
	s.mu.Unlock()
	s.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				if errors.Is(err, net.ErrClosed) {
					return
				}
				continue
			}
			s.accepted.Add(1)
			s.mu.Lock()
			if s.listener != ln {
				s.mu.Unlock()
				c.Close()
				continue
			}
			s.conns[c] = true
			s.wg.Go(func() { s.handle(c) })
			s.mu.Unlock()
		}
	})
}

func (s *Server) now() Way {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.way
}

func (s *Server) handle(c net.Conn) {
	defer func() {
		c.Close()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
	if w := s.now(); w.atOnce != nil {
		w.atOnce(s, c)
		return
	}
	in := bufio.NewReader(c)
	for n := 1; ; n++ {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		s.requests.Add(1)
		if w := s.now(); !w.do(s, &Request{r, c, n}) {
			return
		}
	}
}

// sleep waits, or returns false because the server is being closed.
func (s *Server) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.stop:
		return false
	}
}

// readBody reads a request's body to its end.
func (s *Server) readBody(x *Request) bool {
	body, err := io.ReadAll(x.Body)
	if err != nil {
		return false
	}
	s.whole.Add(1)
	s.bytes.Add(int64(len(body)))
	s.mu.Lock()
	seen := s.seen
	s.mu.Unlock()
	if seen != nil {
		seen(x.Request, body)
	}
	return true
}

// reset closes a connection so that its other side finds it broken.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		t.SetLinger(0)
	}
	c.Close()
}

func answer(c net.Conn, status int, body, fields string) bool {
	_, err := fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Length: %d\r\n%s\r\n%s",
		status, http.StatusText(status), len(body), fields, body)
	return err == nil
}

// Raw answers with bytes as they are, and keeps the connection.
func Raw(text string) Way {
	return Way{name: "raw", do: func(s *Server, x *Request) bool {
		if !s.readBody(x) {
			return false
		}
		_, err := io.WriteString(x.Conn, text)
		return err == nil
	}}
}

// RawThenClose answers with bytes as they are, and closes the connection.
func RawThenClose(text string) Way {
	return Way{name: "raw, then close", do: func(s *Server, x *Request) bool {
		if s.readBody(x) {
			io.WriteString(x.Conn, text)
		}
		return false
	}}
}

// Answer serves as it should.
func Answer(status int, body string) Way {
	return Way{name: "answer", do: func(s *Server, x *Request) bool {
		return s.readBody(x) && answer(x.Conn, status, body, "")
	}}
}

// Sleep answers after some time.
func Sleep(d time.Duration) Way {
	return Way{name: "sleep", do: func(s *Server, x *Request) bool {
		return s.readBody(x) && s.sleep(d) && answer(x.Conn, 200, "late", "")
	}}
}

// Hang accepts connections and reads nothing of them.
func Hang() Way {
	silent := func(s *Server) { <-s.stop }
	return Way{name: "hang",
		atOnce: func(s *Server, _ net.Conn) { silent(s) },
		do:     func(s *Server, _ *Request) bool { silent(s); return false },
	}
}

// Silent reads requests and never answers. It ends with its client.
func Silent() Way {
	return Way{name: "silent", do: func(s *Server, x *Request) bool {
		s.readBody(x)
		io.Copy(io.Discard, x.Conn)
		return false
	}}
}

// ResetAtOnce breaks every connection as soon as it is open.
func ResetAtOnce() Way {
	return Way{name: "reset at once",
		atOnce: func(_ *Server, c net.Conn) { reset(c) },
		do:     func(_ *Server, x *Request) bool { reset(x.Conn); return false },
	}
}

// ResetRequest breaks the connection after that many bytes of the request's body.
func ResetRequest(after int64) Way {
	return Way{name: "reset in the request", do: func(_ *Server, x *Request) bool {
		io.CopyN(io.Discard, x.Body, after)
		reset(x.Conn)
		return false
	}}
}

// ResetAnswer breaks the connection in the middle of the answer's body.
func ResetAnswer() Way {
	return Way{name: "reset in the answer", do: func(s *Server, x *Request) bool {
		s.readBody(x)
		io.WriteString(x.Conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of it")
		s.sleep(5 * time.Millisecond) // so that what was written is not lost, too
		reset(x.Conn)
		return false
	}}
}

// Drip answers one byte at a time.
func Drip(every time.Duration) Way {
	return Way{name: "drip", do: func(s *Server, x *Request) bool {
		s.readBody(x)
		text := "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 100000)
		for i := range len(text) {
			if _, err := io.WriteString(x.Conn, text[i:i+1]); err != nil || !s.sleep(every) {
				return false
			}
		}
		return true
	}}
}

// Endless answers with a body that does not end, as fast as it is taken.
func Endless() Way { return Pour(0) }

// Pour answers with a body that does not end, 32 KB at a time with a pause.
func Pour(every time.Duration) Way {
	return Way{name: "endless", do: func(s *Server, x *Request) bool {
		s.readBody(x)
		io.WriteString(x.Conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		chunk := "8000\r\n" + strings.Repeat("x", 0x8000) + "\r\n"
		for {
			if _, err := io.WriteString(x.Conn, chunk); err != nil || !s.sleep(every) {
				return false
			}
		}
	}}
}

// Processing answers with early answers that do not end, as fast as they are taken.
func Processing() Way {
	return Way{name: "processing", do: func(s *Server, x *Request) bool {
		s.readBody(x)
		many := strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 1000)
		for {
			if _, err := io.WriteString(x.Conn, many); err != nil {
				return false
			}
		}
	}}
}

// Garbage answers with bytes that are not HTTP.
func Garbage() Way {
	w := Raw("\x00\x01 this is not HTTP\r\n\r\n")
	w.name = "garbage"
	return w
}

// CloseAfter answers n requests on a connection and then closes it; if unsaid,
// without announcing it in the last answer.
func CloseAfter(n int, unsaid bool) Way {
	return Way{name: "close after a few", do: func(s *Server, x *Request) bool {
		if !s.readBody(x) {
			return false
		}
		fields := ""
		if x.Number >= n && !unsaid {
			fields = "Connection: close\r\n"
		}
		return answer(x.Conn, 200, "ok", fields) && x.Number < n
	}}
}

// Early answers with a status before it has read the body. Then it reads the body, or
// closes the connection.
func Early(status int, read bool) Way {
	return Way{name: "early answer", do: func(s *Server, x *Request) bool {
		fields := ""
		if !read {
			fields = "Connection: close\r\n"
		}
		return answer(x.Conn, status, "early", fields) && read && s.readBody(x)
	}}
}

// Func answers by a function, after reading the body.
func Func(f func(*Request, []byte) (status int, body string)) Way {
	return Way{name: "func", do: func(s *Server, x *Request) bool {
		body, err := io.ReadAll(x.Body)
		if err != nil {
			return false
		}
		s.whole.Add(1)
		status, text := f(x, body)
		return answer(x.Conn, status, text, "")
	}}
}
