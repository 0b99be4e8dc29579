// Command faulty is a server that misbehaves in one way:
//
//	sleep      answers after five seconds
//	refuse     listens to nobody
//	hang       accepts and never answers
//	reset      resets the connection in the middle of its answer's body
//	slowloris  answers a byte every 100 ms
//	endless    has an answer without end, 8 MB/s in all
//	garbage    answers what is not HTTP
//	flap       well, sleep, hang, reset and refuse in turn, two seconds each
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	whole   = "HTTP/1.1 200 OK\r\nContent-Length: 1024\r\n\r\n"
	endless = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	nap     = 5 * time.Second
	each    = 2 * time.Second // of flap
)

var (
	body  = strings.Repeat("b", 1024)
	chunk = fmt.Sprintf("%x\r\n%s\r\n", 8<<10, strings.Repeat("e", 8<<10))
)

// answers write the answer to one request; false ends the connection.
var answers = map[string]func(*net.TCPConn) bool{
	"well": func(c *net.TCPConn) bool { return write(c, whole+body) },
	"sleep": func(c *net.TCPConn) bool {
		time.Sleep(nap)
		return write(c, whole+body)
	},
	"hang": func(c *net.TCPConn) bool {
		_, _ = io.Copy(io.Discard, c) // until the other side has had enough
		return false
	},
	"reset": func(c *net.TCPConn) bool {
		write(c, whole+body[:100])
		_ = c.SetLinger(0)
		return false
	},
	"slowloris": func(c *net.TCPConn) bool {
		for _, b := range []byte(whole + body) {
			if !write(c, string(b)) {
				return false
			}
			time.Sleep(100 * time.Millisecond)
		}
		return true
	},
	"endless": func(c *net.TCPConn) bool {
		if !write(c, endless) {
			return false
		}
		for write(c, chunk) {
			pace()
		}
		return false
	},
	"garbage": func(c *net.TCPConn) bool { return write(c, "these are not the bytes you are looking for\r\n\r\n") },
}

func write(c *net.TCPConn, s string) bool {
	_, err := io.WriteString(c, s)
	return err == nil
}

// pace lets a thousand chunks a second go, whoever sends them: without end is
// bad enough without taking the whole machine.
var pace = sync.OnceValue(func() func() {
	tick := time.NewTicker(time.Millisecond)
	return func() { <-tick.C }
})()

var turns = []string{"well", "sleep", "hang", "reset", "refuse"}

func main() {
	fault := flag.String("fault", "", "what to do, see the package comment")
	addr := flag.String("listen", "", "address")
	flag.Parse()
	if err := run(*fault, *addr); err != nil {
		log.Fatal(err)
	}
}

func run(fault, addr string) error {
	if fault == "refuse" {
		select {} // the address was free a moment ago
	}
	if fault != "flap" && answers[fault] == nil {
		return fmt.Errorf("-fault %q is none of those that there are", fault)
	}
	if fault != "flap" {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return err
		}
		return serve(l, func() string { return fault })
	}
	start := time.Now()
	now := func() string { return turns[int(time.Since(start)/each)%len(turns)] }
	for {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return err
		}
		time.AfterFunc(each*time.Duration(len(turns)-1)-time.Since(start)%(each*time.Duration(len(turns))), func() { _ = l.Close() })
		if err := serve(l, now); err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
		time.Sleep(each + 50*time.Millisecond)
	}
}

// serve ends with its listener, and then closes the connections.
func serve(l net.Listener, fault func() string) error {
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	defer func() {
		mu.Lock()
		defer mu.Unlock()
		for c := range open {
			_ = c.Close()
		}
	}()
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		mu.Lock()
		open[c] = true
		mu.Unlock()
		go func() {
			answerAll(c.(*net.TCPConn), fault)
			_ = c.Close()
			mu.Lock()
			delete(open, c)
			mu.Unlock()
		}()
	}
}

func answerAll(c *net.TCPConn, fault func() string) {
	r := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		answer := answers[fault()]
		if answer == nil || !answer(c) {
			return
		}
	}
}
