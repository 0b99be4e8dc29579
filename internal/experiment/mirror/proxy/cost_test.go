//go:build !race

// Under the race detector pools throw things away.

package proxy

import (
	"bytes"
	"context"
	"net"
	"testing"

	"tailscope/internal/experiment/mirror/choose"
	"tailscope/internal/experiment/mirror/offer"
	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/experiment/mirror/shadow"
)

var (
	headEnd    = []byte("\r\n\r\n")
	costAnswer = append([]byte("HTTP/1.1 200 OK\r\nServer: test\r\nContent-Type: text/plain\r\nContent-Length: 1024\r\n\r\n"), make([]byte, 1024)...)
	costGet    = []byte("GET /orders/42?page=3 HTTP/1.1\r\nHost: a\r\nUser-Agent: load\r\nAccept: */*\r\n\r\n")
	costPost   = append([]byte("POST /orders/42 HTTP/1.1\r\nHost: a\r\nUser-Agent: load\r\nContent-Length: 2048\r\n\r\n"), make([]byte, 2048)...)
)

// spare returns a server that allocates nothing for a request.
func spare(body int) func(net.Conn) {
	return func(c net.Conn) {
		buf := make([]byte, 16<<10)
		for n := 0; ; {
			m, err := c.Read(buf[n:])
			if err != nil {
				return
			}
			n += m
			if i := bytes.Index(buf[:n], headEnd); i >= 0 && n >= i+4+body {
				n = 0
				if _, err := c.Write(costAnswer); err != nil {
					return
				}
			}
		}
	}
}

// mirrored runs a proxy with a real sender, chooser and ledger, and returns what
// makes one request through it.
func mirrored(t testing.TB, request []byte, body int) func() {
	ch, err := choose.New(choose.Options{Share: 1, Unsafe: true})
	if err != nil {
		t.Fatal(err)
	}
	shadowed := loopback(t)
	go func() {
		for {
			c, err := shadowed.Accept()
			if err != nil {
				return
			}
			go spare(body)(c)
		}
	}()
	l, err := shadow.NewSender(shadow.Options{Name: "candidate", Role: pair.Candidate, Session: "here", Servers: []string{"http://" + shadowed.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	sender := note(l)
	w := start(t, spare(body), func(o *Options) { o.Chooser, o.Senders = ch, []offer.Sender{sender} })
	t.Cleanup(func() {
		_ = l.Close(context.Background())
		shadowed.Close()
	})
	nc := w.dial()
	buf := make([]byte, 16<<10)
	return func() {
		if _, err := nc.Write(request); err != nil {
			t.Fatal(err)
		}
		for n := 0; ; {
			m, err := nc.Read(buf[n:])
			if err != nil {
				t.Fatal(err)
			}
			n += m
			if i := bytes.Index(buf[:n], headEnd); i >= 0 && n >= i+4+1024 {
				break
			}
		}
		if leg := <-sender.ends.ch; leg.Cause != pair.None {
			t.Fatal(leg.Cause)
		}
	}
}

// A mirrored request allocates nothing.
func TestNoAllocations(t *testing.T) {
	for _, c := range []struct {
		request []byte
		body    int
	}{{costGet, 0}, {costPost, 2048}} {
		do := mirrored(t, c.request, c.body)
		for range 100 {
			do()
		}
		if n := testing.AllocsPerRun(300, do); n != 0 {
			t.Errorf("%.20s: %v allocations", c.request, n)
		}
	}
}

func BenchmarkMirrored(b *testing.B) {
	b.Run("request=get", func(b *testing.B) { benchmark(b, costGet, 0) })
	b.Run("request=post", func(b *testing.B) { benchmark(b, costPost, 2048) })
}

func benchmark(b *testing.B, request []byte, body int) {
	do := mirrored(b, request, body)
	b.ReportAllocs()
	for b.Loop() {
		do()
	}
}
