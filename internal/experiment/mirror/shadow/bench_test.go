package shadow

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"tailscope/internal/experiment/mirror/mirrortest"
	"tailscope/internal/experiment/mirror/pair"
)

// quickServer answers every request with the same bytes, for as little as a
// server in Go can.
func quickServer(tb testing.TB, body int) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	answer := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nServer: quick\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", body, strings.Repeat("x", body))
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			wg.Go(func() {
				buf := make([]byte, 64<<10)
				for have := 0; ; {
					n, err := c.Read(buf[have:])
					if err != nil {
						return
					}
					have += n
					end := bytes.Index(buf[:have], []byte("\r\n\r\n"))
					if end < 0 {
						continue
					}
					need := end + 4
					if i := bytes.Index(buf[:end], []byte("Content-Length: ")); i >= 0 {
						var length int
						for _, d := range buf[i+16 : end] {
							if d < 0x30 || d > 0x39 {
								break
							}
							length = 10*length + int(d-0x30)
						}
						need += length
					}
					if have < need {
						continue
					}
					have = 0
					if _, err := c.Write(answer); err != nil {
						return
					}
				}
			})
		}
	})
	tb.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return "http://" + ln.Addr().String()
}

// countingEnder lets so many copies be under way.
type countingEnder struct {
	free  chan struct{}
	mu    sync.Mutex
	wrong int
	cause pair.Cause
}

func (e *countingEnder) AppendID(dst []byte) []byte { return append(dst, "0123456789abcdef"...) }
func (e *countingEnder) Keep() bool                 { return false }
func (e *countingEnder) Sent(int)                   {}

func (e *countingEnder) EndCopy(_ int, l pair.Leg) {
	if l.Cause != pair.None {
		e.mu.Lock()
		e.wrong++
		e.cause = l.Cause
		e.mu.Unlock()
	}
	e.free <- struct{}{}
}

func benchSender(tb testing.TB, url string) *Sender {
	l, err := NewSender(Options{Name: "candidate", Role: pair.Candidate, Session: "20261120-200000-abcdef01", Servers: []string{url}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { l.Close(tb.Context()) })
	return l
}

func realFields() string {
	return "User-Agent: bench/1.0\r\nAccept: */*\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: example.com\r\n"
}

func BenchmarkOffer(b *testing.B) {
	for _, bench := range []struct {
		name     string
		body     int
		underWay int
	}{{"GET/under_way=1", 0, 1}, {"GET/under_way=16", 0, 16}, {"GET/under_way=64", 0, 64}, {"POST/under_way=16", 2048, 16}} {
		b.Run(bench.name, func(b *testing.B) {
			l := benchSender(b, quickServer(b, 1024))
			e := &countingEnder{free: make(chan struct{}, bench.underWay)}
			for range bench.underWay {
				e.free <- struct{}{}
			}
			body := strings.Repeat("x", bench.body)
			var offering time.Duration
			run := func() {
				<-e.free
				p := NewPayload()
				p.Method = append(p.Method, "GET"...)
				p.Target = append(p.Target, "/items/42"...)
				p.Host = append(p.Host, "example.com"...)
				p.Fields = append(p.Fields, realFields()...)
				if body != "" {
					p.Method = append(p.Method[:0], "POST"...)
					p.Body, p.HasBody = append(p.Body, body...), true
				}
				before := time.Now()
				l.Offer(Copy{Payload: p, To: e, Copies: 1, Write: body != ""})
				offering += time.Since(before)
				p.Release()
			}
			for range 1000 {
				run()
			}
			b.ReportAllocs()
			offering = 0
			for b.Loop() {
				run()
			}
			for range bench.underWay {
				<-e.free
			}
			b.ReportMetric(float64(offering.Nanoseconds())/float64(b.N), "ns/offer")
			if e.wrong > 0 {
				b.Errorf("%d copies went wrong, one by %q", e.wrong, causeText[e.cause])
			}
		})
	}
}

// BenchmarkOfferToFaulty measures what offering costs the client's goroutine while
// the shadow fails and copies are dropped. It also reports the longest of all offers,
// which on a busy machine measures the machine.
func BenchmarkOfferToFaulty(b *testing.B) {
	for _, way := range []mirrortest.Way{mirrortest.Silent(), mirrortest.Hang(), mirrortest.ResetAtOnce(), mirrortest.Garbage()} {
		for _, down := range []bool{false, true} {
			name := way.String()
			if down {
				if name != "hang" {
					continue
				}
				name = "refuses"
			}
			b.Run(name, func(b *testing.B) {
				s := mirrortest.Start(b, way)
				if down {
					s.Down()
				}
				l, err := NewSender(Options{Name: "candidate", Role: pair.Candidate, Session: "x", Servers: []string{s.URL()}, Timeout: 200 * time.Millisecond, Queue: 1000})
				if err != nil {
					b.Fatal(err)
				}
				defer func() {
					ctx, cancel := context.WithTimeout(context.Background(), time.Second)
					defer cancel()
					l.Close(ctx)
				}()
				p := get("/")
				defer p.Release()
				e := &dropEnder{}
				var longest, all time.Duration
				n := 0
				b.ReportAllocs()
				for b.Loop() {
					before := time.Now()
					l.Offer(Copy{Payload: p, To: e, Copies: 1})
					took := time.Since(before)
					longest, all, n = max(longest, took), all+took, n+1
				}
				b.ReportMetric(float64(longest.Microseconds()), "longest-us")
				b.ReportMetric(float64(all.Nanoseconds())/float64(n), "ns/offer")
			})
		}
	}
}

// dropEnder takes every end.
type dropEnder struct{}

func (*dropEnder) AppendID(dst []byte) []byte { return append(dst, "0123456789abcdef"...) }
func (*dropEnder) Keep() bool                 { return false }
func (*dropEnder) Sent(int)                   {}
func (*dropEnder) EndCopy(int, pair.Leg)      {}
