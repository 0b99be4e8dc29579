// Command faulty is a server that misbehaves in one way:
//
//	sleep      answers after five seconds
//	refuse     listens to nobody
//	hang       reads requests and never answers
//	reset      resets the connection in the middle of its answer's body
//	reset-at-once  resets each connection at once
//	reset-request  resets the connection in the middle of a request
//	slowloris  answers a byte every 100 ms
//	endless    has answers without end, 64 KB/s each
//	early      has early answers (1xx) without end
//	closes     closes each connection after three answers
//	garbage    answers what is not HTTP
//	flap       well, sleep, hang, reset and refuse in turn, two seconds each
package main

import (
	"flag"
	"fmt"
	"log"
	"strings"
	"time"

	"tailscope/internal/experiment/mirror/mirrortest"
)

var (
	well = mirrortest.Answer(200, strings.Repeat("b", 1024))
	ways = map[string]mirrortest.Way{
		"sleep":     mirrortest.Sleep(5 * time.Second),
		"hang":      mirrortest.Silent(),
		"reset":     mirrortest.ResetAnswer(),
		"slowloris": mirrortest.Drip(100 * time.Millisecond),
		// Without end is bad enough without taking the whole machine.
		"endless":       mirrortest.Pour(500 * time.Millisecond),
		"reset-at-once": mirrortest.ResetAtOnce(),
		"reset-request": mirrortest.ResetRequest(16),
		"early":         mirrortest.Processing(),
		"closes":        mirrortest.CloseAfter(3, false),
		"garbage":       mirrortest.Garbage(),
		"flap":          well,
	}
)

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
	way, ok := ways[fault]
	if !ok {
		return fmt.Errorf("-fault %q is none of those that there are", fault)
	}
	s, err := mirrortest.Listen(addr, way)
	if err != nil {
		return err
	}
	defer s.Close()
	if fault != "flap" {
		select {}
	}
	const each = 2 * time.Second
	for {
		for _, w := range []mirrortest.Way{well, ways["sleep"], ways["hang"], ways["reset"]} {
			s.Set(w)
			time.Sleep(each)
		}
		s.Down()
		time.Sleep(each)
		if err := s.Up(); err != nil {
			return err
		}
	}
}
