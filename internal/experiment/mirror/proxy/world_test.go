package proxy

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tailscope/internal/experiment/mirror/choose"
	"tailscope/internal/experiment/mirror/offer"
	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/experiment/mirror/shadow"
	"tailscope/internal/http1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// all chooses every request.
type all struct{}

func (all) Choose(r *choose.Request) choose.Decision {
	return choose.Decision{Mirror: true, Names: pair.Names{Operation: "all"}, Write: string(r.Method) == "POST"}
}

// fakeSender takes one copy of everything and ends it with what it is.
type fakeSender struct {
	mu     sync.Mutex
	copies []string // method, target, fields and body
}

func (l *fakeSender) Copies(bool) uint8 { return 1 }

func (l *fakeSender) Missed(pair.Reason) {}

func (l *fakeSender) Offer(c shadow.Copy) {
	p := c.Payload
	l.mu.Lock()
	text := string(p.Method) + " " + string(p.Target) + " " + string(p.Host) + "|" + strings.ReplaceAll(string(p.Fields), "\r\n", "|")
	if p.HasBody {
		text += string(p.Body)
	}
	l.copies = append(l.copies, text)
	l.mu.Unlock()
	c.To.Sent(c.Shadow)
	c.To.EndCopy(c.Shadow, pair.Leg{Start: 1, FirstByte: 2, End: 3, Status: 200})
}

func (l *fakeSender) seen() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.copies...)
}

// world is a proxy in front of a primary that a test plays.
type world struct {
	t      testing.TB
	p      *Proxy
	ledger *pair.Ledger
	addr   string
	sender *fakeSender
	ended  chan struct{} // a value for each connection that the primary has closed
}

// start runs a proxy whose primary answers each connection by serve.
func start(t testing.TB, serve func(net.Conn), change ...func(*Options)) *world {
	back := loopback(t)
	w := &world{t: t, sender: &fakeSender{}, ended: make(chan struct{}, 1000), ledger: pair.NewLedger(pair.Options{Service: "s", Experiment: "e",
		Shadows: []pair.Shadow{{Name: "candidate", Role: pair.Candidate}}})}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	wg.Go(func() {
		for {
			c, err := back.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			wg.Go(func() {
				serve(c)
				c.Close()
				select {
				case w.ended <- struct{}{}:
				default: // nobody looks
				}
			})
		}
	})
	o := Options{Addresses: []string{back.Addr().String()}, Maker: &offer.Maker{Ledger: w.ledger, Chooser: all{}, Senders: []offer.Sender{w.sender}}, Session: "here"}
	for _, f := range change {
		f(&o)
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	front := loopback(t)
	w.p, w.addr = p, front.Addr().String()
	wg.Go(func() { _ = p.Serve(front) })
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		_ = p.Shutdown(ctx)
		if n := p.Connections(); n != 0 {
			t.Errorf("%d connections to the primary are counted after the end", n)
		}
		back.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return w
}

func loopback(t testing.TB) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (w *world) dial() net.Conn {
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

// crlf writes | for line ends, so that messages can be read in tables.
func crlf(s string) string { return strings.ReplaceAll(s, "|", "\r\n") }
func bars(b []byte) string { return strings.ReplaceAll(string(b), "\r\n", "|") }

// message reads one request or answer from c, with the bytes that came after the
// one before in rest, and returns it as it came, and its body.
func message(c io.Reader, rest *[]byte, method string) (raw, body []byte, err error) {
	var h http1.Head
	var b http1.Body
	in, n := *rest, 0
	tmp := make([]byte, 64<<10)
	for {
		if method == "" {
			n, err = h.ParseRequest(in)
		} else {
			n, err = h.ParseResponse(in, []byte(method))
		}
		if err != nil {
			return in, nil, err
		}
		if n > 0 {
			break
		}
		m, err := c.Read(tmp)
		if in = append(in, tmp[:m]...); m == 0 && err != nil {
			return in, nil, err
		}
	}
	b.Reset(&h)
	for at := n; ; {
		for at < len(in) && !b.Done() && h.Framing != http1.Tunnel {
			k, data, err := b.Next(in[at:])
			if body = append(body, data...); err != nil {
				return in, body, err
			}
			at += k
		}
		if b.Done() || h.Framing == http1.Tunnel {
			*rest = bytes.Clone(in[at:])
			return in[:at], body, nil
		}
		m, err := c.Read(tmp)
		if in = append(in, tmp[:m]...); m == 0 && err != nil {
			if err == io.EOF && b.AtEOF() {
				*rest = nil
				return in, body, nil
			}
			return in, body, io.ErrUnexpectedEOF
		}
	}
}

// answering returns a primary that writes the same to each request, notes what it got
// and ends the connection if last.
func answering(got *[]string, answer string, last bool) func(net.Conn) {
	var mu sync.Mutex
	return func(c net.Conn) {
		var rest []byte
		for {
			raw, _, err := message(c, &rest, "")
			if err != nil {
				return
			}
			mu.Lock()
			if got != nil {
				*got = append(*got, bars(raw))
			}
			mu.Unlock()
			if _, err := io.WriteString(c, crlf(answer)); err != nil || last {
				return
			}
		}
	}
}
