package shadow

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tailscope/internal/experiment/mirror/mirrortest"
	"tailscope/internal/experiment/mirror/pair"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ender records the copies of one request.
type ender struct {
	id   string
	keep bool
	all  chan struct{} // a value for every end

	mu      sync.Mutex
	sent    int
	ended   int
	offered int
	legs    []pair.Leg
}

func newEnder(offered int) *ender {
	return &ender{id: "0123456789abcdef", offered: offered, all: make(chan struct{}, 1000)}
}

func (e *ender) AppendID(dst []byte) []byte { return append(dst, e.id...) }
func (e *ender) Keep() bool                 { return e.keep }

func (e *ender) Sent(int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sent++
	if e.sent+e.droppedLocked() > e.offered {
		panic("more copies sent than offered")
	}
}

func (e *ender) droppedLocked() int {
	n := 0
	for _, l := range e.legs {
		if l.Start == 0 {
			n++
		}
	}
	return n
}

func (e *ender) EndCopy(_ int, leg pair.Leg) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended++
	if e.ended > e.offered {
		panic("more copies ended than offered")
	}
	e.legs = append(e.legs, leg)
	if begun := e.ended - e.droppedLocked(); begun > e.sent {
		panic("a copy ended that was begun, and never sent")
	}
	e.all <- struct{}{}
}

// wait waits for all copies and returns how they ended.
func (e *ender) wait(t testing.TB) []pair.Leg {
	t.Helper()
	timeout := time.NewTimer(60 * time.Second)
	defer timeout.Stop()
	for range e.offered {
		select {
		case <-e.all:
		case <-timeout.C:
			buf := make([]byte, 1<<20)
			t.Fatalf("copies have not ended\n%s", buf[:runtime.Stack(buf, true)])
		}
	}
	return e.legs
}

// sender returns a sender to servers that is closed, and checked to hold nothing,
// with the test.
func testSender(t testing.TB, change func(*Options), servers ...*mirrortest.Server) *Sender {
	t.Helper()
	o := Options{Name: "candidate", Role: pair.Candidate, Session: "s1", Timeout: 30 * time.Second}
	for _, s := range servers {
		o.Servers = append(o.Servers, s.URL())
	}
	if change != nil {
		change(&o)
	}
	l, err := NewSender(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		l.Close(ctx)
		if held, _ := l.Buffered(); held != 0 {
			t.Errorf("a closed sender holds %d bytes", held)
		}
	})
	return l
}

// get returns a GET without a body.
func get(target string) *Payload {
	p := NewPayload()
	p.Method = append(p.Method, "GET"...)
	p.Target = append(p.Target, target...)
	p.Host = append(p.Host, "example.com"...)
	p.Fields = append(p.Fields, "Accept: */*\r\nX-Order: b\r\nx-order: a\r\n"...)
	return p
}

func post(body string) *Payload {
	p := get("/post")
	p.Method = append(p.Method[:0], "POST"...)
	p.Body, p.HasBody = append(p.Body, body...), true
	return p
}

func stream(length int64) (*Payload, *Spool) {
	p := get("/upload")
	p.Method = append(p.Method[:0], "PUT"...)
	return p, p.Stream(length)
}

// offer offers a payload, and gives it up.
func offer(l *Sender, p *Payload, copies int) *ender {
	e := newEnder(copies)
	l.Offer(Copy{Payload: p, To: e, Copies: uint8(copies)})
	p.Release()
	return e
}

// one offers one copy, and returns how it ended.
func one(t testing.TB, l *Sender, p *Payload) pair.Leg {
	t.Helper()
	return offer(l, p, 1).wait(t)[0]
}

func checkWhole(t testing.TB, leg pair.Leg, status int, bytes int64) {
	t.Helper()
	if leg.Cause != pair.None || leg.Status != status || leg.Bytes != bytes {
		t.Fatalf("leg %s, want status %d and %d bytes", legText(leg), status, bytes)
	}
	if !(0 < leg.Start && leg.Start <= leg.FirstByte && leg.FirstByte <= leg.End) {
		t.Fatalf("times out of order: %s", legText(leg))
	}
}

func legText(l pair.Leg) string {
	return fmt.Sprintf("cause %d (%s) status %d bytes %d start %d first +%d end +%d",
		l.Cause, causeText[l.Cause], l.Status, l.Bytes, l.Start, l.FirstByte-l.Start, l.End-l.Start)
}

// dialNever returns a network that swallows everything.
func dialNever(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
