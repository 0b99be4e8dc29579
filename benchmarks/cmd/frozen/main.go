// Command frozen is a server that answers each request in 1 ms, and freezes for
// a second at the end of every ten: what it has begun goes on after it, what
// arrives meanwhile begins then. Its clock starts with the first request.
//
//	frozen -listen 127.0.0.1:8080
package main

import (
	"bufio"
	"flag"
	"log"
	"net"
	"net/http"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"tailscope/benchmarks/load"
)

func main() {
	addr := flag.String("listen", "", "address")
	flag.Parse()
	l, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	s := &server{freeze: load.Freeze, queue: make(chan answer, 1<<16)}
	go s.answer()
	for {
		c, err := l.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go s.serve(c)
	}
}

type server struct {
	freeze load.Freezes
	queue  chan answer // in the order in which they are due: each takes as long

	mu    sync.Mutex
	start time.Time
}

type answer struct {
	due  time.Time
	conn net.Conn
}

func (s *server) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		_ = req.Body.Close()
		s.mu.Lock()
		now := time.Now()
		if s.start.IsZero() {
			s.start = now
		}
		s.queue <- answer{due: s.start.Add(s.freeze.End(now.Sub(s.start))), conn: c}
		s.mu.Unlock()
	}
}

// answer writes answers when they are due. It sleeps on a thread of its own: the
// runtime's timers are up to a millisecond late.
func (s *server) answer() {
	runtime.LockOSThread()
	// A client of HTTP/1.0, such as ab, needs the field to keep its connection.
	text := []byte("HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok")
	for a := range s.queue {
		if d := time.Until(a.due); d > 0 {
			ts := unix.NsecToTimespec(d.Nanoseconds())
			_ = unix.Nanosleep(&ts, nil)
		}
		_, _ = a.conn.Write(text) // who hung up does not want it
	}
}
