package tcp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tailscope/api"
	"tailscope/internal/experiment/mirror/pair"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// backend is a server whose connections are handled by a function. It ends with
// the test.
type backend struct {
	net.Listener
	mu    sync.Mutex
	conns map[net.Conn]bool
	total atomic.Int64
}

func serve(t testing.TB, handle func(net.Conn)) *backend {
	t.Helper()
	return serveUntil(t, func(c net.Conn, _ <-chan struct{}) { handle(c) })
}

// serveUntil closes the function's channel at the end of the test.
func serveUntil(t testing.TB, handle func(net.Conn, <-chan struct{})) *backend {
	t.Helper()
	done := make(chan struct{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &backend{Listener: ln, conns: map[net.Conn]bool{}}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			b.mu.Lock()
			b.conns[c] = true
			b.mu.Unlock()
			b.total.Add(1)
			wg.Go(func() {
				defer c.Close()
				handle(c, done)
				b.mu.Lock()
				delete(b.conns, c)
				b.mu.Unlock()
			})
		}
	})
	t.Cleanup(func() {
		close(done)
		ln.Close()
		b.mu.Lock()
		for c := range b.conns {
			c.Close()
		}
		b.mu.Unlock()
		wg.Wait()
	})
	return b
}

func (b *backend) addr() string { return b.Addr().String() }

// lines answers each line with its own name and the line.
func lines(name string) func(net.Conn) {
	return func(c net.Conn) {
		r := bufio.NewReader(c)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if _, err := fmt.Fprintf(c, "%s %s", name, line); err != nil {
				return
			}
		}
	}
}

// world is a proxy with its listener.
type world struct {
	t     testing.TB
	p     *Proxy
	addr  string
	sink  *memory
	ended bool
}

func start(t testing.TB, o Options) *world {
	t.Helper()
	w := &world{t: t, sink: &memory{counts: map[string]uint64{}}}
	o.Service, o.Experiment, o.Sink, o.Log = "cache", "x", w.sink, slog.New(slog.DiscardHandler)
	if o.Share == 0 {
		o.Share = 1
	}
	if o.Timeout == 0 {
		o.Timeout = 20 * time.Second
	}
	var err error
	if w.p, err = New(o); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.addr = ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- w.p.Serve(ln) }()
	t.Cleanup(func() {
		w.shutdown()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return w
}

// shutdown ends the proxy; what its clients have closed is not cut.
func (w *world) shutdown() {
	w.t.Helper()
	if w.ended {
		return
	}
	w.ended = true
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	if err := w.p.Shutdown(ctx); err != nil {
		w.t.Error(err)
	}
	for _, s := range w.p.Shadows() {
		a := s.Account
		if a.Queued != 0 || a.Waiting != 0 || a.Pairing != 0 || a.Buffered != 0 {
			w.t.Errorf("%s is not at rest: %+v", s.Name, a)
		}
		closes(w.t, *a)
	}
	if open := w.p.Stats().Open; open != 0 {
		w.t.Errorf("%d exchanges are open", open)
	}
	for _, b := range []*pair.Ledger{w.p.conns, w.p.turns, w.p.connects} {
		if s := b.Stats(); s.Strays != 0 || s.Open != 0 {
			w.t.Errorf("%d strays, %d open", s.Strays, s.Open)
		}
	}
	for _, l := range w.p.senders {
		for _, s := range l.servers {
			if n := s.count.Load(); n != 0 {
				w.t.Errorf("%d connections are counted at %s", n, s.addr)
			}
		}
		if n := l.count.Load(); n != 0 {
			w.t.Errorf("%d connections are counted", n)
		}
	}
}

// closes checks the identities of an account.
func closes(t testing.TB, a api.MirrorAccount) {
	t.Helper()
	sum := func(m map[string]uint64) (n uint64) {
		for _, v := range m {
			n += v
		}
		return n
	}
	if a.Offered != a.Queued+sum(a.Dropped)+a.Mirrored || a.Mirrored != a.Waiting+sum(a.Failed)+a.Answered || a.Answered != a.Pairing+a.Paired+a.Unpaired {
		t.Errorf("the account does not close: %+v", a)
	}
}

func (w *world) dial() *net.TCPConn {
	w.t.Helper()
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

// talk has a client say lines, and checks the answers.
func (w *world) talk(turns int) error {
	c := w.dial()
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	r := bufio.NewReader(c)
	for i := range turns {
		fmt.Fprintf(c, "line %d\n", i)
		got, err := r.ReadString('\n')
		if want := fmt.Sprintf("primary line %d\n", i); err != nil || got != want {
			return fmt.Errorf("answer %q, %v; want %q", got, err, want)
		}
	}
	_ = c.CloseWrite()
	rest, err := io.ReadAll(r)
	if err != nil || len(rest) > 0 {
		return fmt.Errorf("then %q, %v", rest, err)
	}
	return nil
}

// eventually waits for something that other goroutines do.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// memory is a sink that counts observations by family, operation and variant.
type memory struct {
	mu     sync.Mutex
	counts map[string]uint64
}

func (m *memory) Put(_ context.Context, points []pair.Point) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range points {
		if p.Hist != nil {
			key := p.Family + " " + p.Labels.Get("operation") + " " + p.Labels.Get("variant")
			if against := p.Labels.Get(pair.LabelAgainst); against != "" {
				key += "/" + against
			}
			m.counts[key] += p.Hist.Count
		} else {
			m.counts[p.Family+" "+p.Labels.Get("variant")+" "+p.Labels.Get(pair.LabelOutcome)] += uint64(p.Value)
		}
	}
	return nil
}
