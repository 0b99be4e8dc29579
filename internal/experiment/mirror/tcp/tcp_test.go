package tcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"sync"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tailscope/internal/experiment/mirror/pair"
)

func both(control, candidate string) []Shadow {
	return []Shadow{
		{Name: "control", Role: pair.Control, Servers: []string{control}},
		{Name: "new", Role: pair.Candidate, Servers: []string{candidate}},
	}
}

// Whatever comes in whatever pieces, the primary and each shadow get it all, in
// order, and the client what the primary says, while both speak at once.
func TestBytesAreEqual(t *testing.T) {
	var mu sync.Mutex
	got := map[string]*bytes.Buffer{}
	collect := func(name string, echo bool) func(net.Conn) {
		return func(c net.Conn) {
			var all bytes.Buffer
			b := make([]byte, 1000)
			for {
				n, err := c.Read(b)
				all.Write(b[:n])
				if echo {
					for i := range n {
						b[i] ^= 0xff
					}
				}
				if _, werr := c.Write(b[:n]); werr != nil || err != nil {
					break
				}
			}
			mu.Lock()
			got[name] = &all
			mu.Unlock()
		}
	}
	w := start(t, Options{
		Primary:    serve(t, collect("primary", true)).addr(),
		Shadows:    both(serve(t, collect("control", false)).addr(), serve(t, collect("new", false)).addr()),
		ConnBuffer: 64 << 20,
	})
	rapid.Check(t, func(rt *rapid.T) {
		chunks := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 1, 5000), 1, 20).Draw(rt, "chunks")
		repeat := rapid.SampledFrom([]int{1, 1, 30}).Draw(rt, "repeat")
		mu.Lock()
		clear(got)
		mu.Unlock()
		c := w.dial()
		defer c.Close()
		var sent, want bytes.Buffer
		answer := make(chan []byte, 1)
		go func() {
			all, _ := io.ReadAll(c)
			answer <- all
		}()
		for range repeat {
			for _, chunk := range chunks {
				sent.Write(chunk)
				if _, err := c.Write(chunk); err != nil {
					rt.Fatal(err)
				}
			}
		}
		c.CloseWrite()
		for _, b := range sent.Bytes() {
			want.WriteByte(b ^ 0xff)
		}
		if !bytes.Equal(<-answer, want.Bytes()) {
			rt.Fatal("the client got something else than the primary said")
		}
		eventually(t, "all servers have got all", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(got) == 3
		})
		for name, b := range got {
			if !bytes.Equal(b.Bytes(), sent.Bytes()) {
				rt.Fatalf("%s got %d bytes, %d were sent", name, b.Len(), sent.Len())
			}
		}
	})
	w.shutdown()
	for _, s := range w.p.Shadows() {
		if s.Account.Paired != s.Account.Offered || s.DivergedWhy != "" {
			t.Errorf("%s: %+v, %s", s.Name, s.Account, s.DivergedWhy)
		}
	}
}

// A server that answers at the end of the request sees that end.
func TestHalfClose(t *testing.T) {
	atEnd := func(c net.Conn) {
		all, _ := io.ReadAll(c)
		fmt.Fprintf(c, "%d bytes", len(all))
	}
	w := start(t, Options{Primary: serve(t, atEnd).addr(), Shadows: both(serve(t, atEnd).addr(), serve(t, atEnd).addr())})
	c := w.dial()
	defer c.Close()
	c.Write(make([]byte, 100_000))
	c.CloseWrite()
	if got, err := io.ReadAll(c); err != nil || string(got) != "100000 bytes" {
		t.Errorf("%q, %v", got, err)
	}
	w.shutdown()
	for _, s := range w.p.Shadows() {
		if s.Account.Paired != 1 {
			t.Errorf("%s: %+v", s.Name, s.Account)
		}
	}
}

// An answer that takes longer than the timeout is awaited for as long as the
// primary's, also after the client has said all.
func TestLongAnswer(t *testing.T) {
	t.Parallel() // it only waits
	slow := func(c net.Conn) {
		io.ReadAll(c)
		for range 10 {
			time.Sleep(250 * time.Millisecond)
			io.WriteString(c, "x")
		}
	}
	// The primary is the last to end, so that what shadows take beyond it is only
	// what a busy machine takes.
	var shadows sync.WaitGroup
	shadows.Add(2)
	shadow := func(c net.Conn) { defer shadows.Done(); slow(c) }
	primary := func(c net.Conn) { slow(c); shadows.Wait() }
	w := start(t, Options{Primary: serve(t, primary).addr(), Shadows: both(serve(t, shadow).addr(), serve(t, shadow).addr()), Timeout: 2 * time.Second})
	c := w.dial()
	defer c.Close()
	c.CloseWrite()
	if got, err := io.ReadAll(c); err != nil || len(got) != 10 {
		t.Errorf("%q, %v", got, err)
	}
	w.shutdown()
	for _, s := range w.p.Shadows() {
		if s.Account.Paired != 1 {
			t.Errorf("%s: %+v", s.Name, s.Account)
		}
	}
}

// A server that speaks first and closes first is passed on as it is.
func TestServerFirst(t *testing.T) {
	greet := func(c net.Conn) {
		io.WriteString(c, "220 ready\r\n")
		b := make([]byte, 100)
		c.Read(b)
		io.WriteString(c, "221 bye\r\n")
	}
	w := start(t, Options{Primary: serve(t, greet).addr(), Shadows: both(serve(t, greet).addr(), serve(t, greet).addr())})
	c := w.dial()
	defer c.Close()
	b := make([]byte, 11)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "220 ready\r\n" {
		t.Fatalf("%q, %v", b, err)
	}
	io.WriteString(c, "QUIT\r\n")
	if rest, err := io.ReadAll(c); err != nil || string(rest) != "221 bye\r\n" {
		t.Fatalf("%q, %v", rest, err)
	}
	c.Close()
	w.shutdown()
	for _, s := range w.p.Shadows() {
		if s.Account.Paired != 1 {
			t.Errorf("%s: %+v", s.Name, s.Account)
		}
	}
	if n := w.sink.counts["mirror_duration_seconds turn control"]; n != 1 {
		t.Errorf("%d turns of the control", n)
	}
}

func TestMeasured(t *testing.T) {
	// Clients do not wait for the shadows, whose turns are all timed if they may
	// wait for as long as a busy machine takes.
	w := start(t, Options{
		Primary: serve(t, lines("primary")).addr(), Shadows: both(serve(t, lines("control, longer")).addr(), serve(t, lines("new")).addr()),
		hold: 20 * time.Second,
	})
	const connections, turns = 10, 50
	var wg sync.WaitGroup
	for range connections {
		wg.Go(func() {
			if err := w.talk(turns); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	w.shutdown()
	const all = connections * turns
	want := map[string]uint64{
		"mirror_requests_total  mirrored":              connections,
		"mirror_copies_total control answered":         connections,
		"mirror_copies_total new answered":             connections,
		"mirror_ratio turn control/primary":            all,
		"mirror_ratio turn new/control":                all,
		"mirror_ratio turn new/primary":                all,
		"mirror_answer_bytes connection primary":       connections,
		"mirror_answer_bytes connection control":       connections,
		"mirror_answer_bytes connection new":           connections,
		"mirror_connect_seconds connection primary":    connections,
		"mirror_connect_seconds connection control":    connections,
		"mirror_connect_seconds connection new":        connections,
		"mirror_first_byte_seconds connection primary": connections,
		"mirror_first_byte_seconds connection control": connections,
		"mirror_first_byte_seconds connection new":     connections,
		"mirror_duration_seconds turn primary":         all,
		"mirror_duration_seconds turn control":         all,
		"mirror_duration_seconds turn new":             all,
	}
	if !reflect.DeepEqual(w.sink.counts, want) {
		t.Errorf("measured\n%v\nwant\n%v", w.sink.counts, want)
	}
	if s := w.p.Stats(); s.Requests != connections || len(s.Failed) != 0 {
		t.Errorf("%+v", s)
	}
}

// The primary's client notices nothing of what is wrong with a shadow, and it is
// counted by its cause.
func TestFaults(t *testing.T) {
	until := func(do func(net.Conn)) func(net.Conn, <-chan struct{}) {
		return func(c net.Conn, _ <-chan struct{}) { do(c) }
	}
	cases := []struct {
		name            string
		shadow          func(net.Conn, <-chan struct{}) // nil: it refuses
		turns, size     int
		dropped, failed string
	}{
		{"refuses", nil, 20, 10, "refused", ""},
		{"resets at once", until(func(c net.Conn) { io.ReadFull(c, make([]byte, 1)); reset(c) }), 20, 10, "", "reset"},
		{"closes at once", until(func(c net.Conn) { c.Close() }), 20, 10, "", "reset"},
		{"resets in the middle", until(func(c net.Conn) {
			for range 5 {
				io.ReadFull(c, make([]byte, 11))
				io.WriteString(c, "x")
			}
			reset(c)
		}), 50, 10, "", "reset"},
		{"never answers", until(func(c net.Conn) { io.Copy(io.Discard, c) }), 5, 10, "", "timed_out"},
		{"never reads", func(_ net.Conn, done <-chan struct{}) { <-done }, 60, 100_000, "", "body_behind"},
		{"never ends", until(func(c net.Conn) {
			b := make([]byte, 64<<10)
			for {
				if _, err := c.Write(b); err != nil {
					return
				}
			}
		}), 20, 10, "", "answer_limit"},
		{"never closes", func(c net.Conn, done <-chan struct{}) { lines("new")(c); <-done }, 5, 10, "", "timed_out"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var addr string
			if c.shadow != nil {
				addr = serveUntil(t, c.shadow).addr()
			} else {
				ln, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				addr = ln.Addr().String()
				ln.Close()
			}
			timeout := time.Minute // lest a busy machine be the cause
			if c.failed == "timed_out" {
				timeout = 2 * time.Second // which the control needs nothing of
			}
			w := start(t, Options{
				Primary: serve(t, lines("primary")).addr(), Shadows: both(serve(t, lines("control")).addr(), addr),
				Timeout: timeout, AnswerLimit: 1 << 20, hold: time.Minute,
			})
			client := w.dial()
			defer client.Close()
			line := append(bytes.Repeat([]byte("x"), c.size), '\n')
			want := append([]byte("primary "), line...)
			got := make([]byte, len(want))
			for i := range c.turns {
				if _, err := client.Write(line); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(client, got); err != nil || !bytes.Equal(got, want) {
					t.Fatalf("turn %d: %q, %v", i, got, err)
				}
				// The control is not as fast as a client that never thinks.
				eventually(t, "the control has answered", func() bool {
					_, turns := w.p.Turns()
					return turns[0].Answered > uint64(i)
				})
				if i == 10 && (c.name == "never ends" || c.name == "closes at once") {
					// Until its end has been seen.
					eventually(t, c.name, func() bool {
						client.Write(line)
						io.ReadFull(client, got)
						return w.p.Shadows()[1].DivergedWhy != ""
					})
				}
			}
			client.CloseWrite()
			if rest, err := io.ReadAll(client); err != nil || len(rest) > 0 {
				t.Fatalf("then %q, %v", rest, err)
			}
			w.shutdown()
			shadows := w.p.Shadows()
			if a := shadows[0].Account; a.Paired != 1 {
				t.Errorf("control: %+v", a)
			}
			a := shadows[1].Account
			if c.dropped != "" && a.Dropped[c.dropped] != 1 || c.failed != "" && a.Failed[c.failed] != 1 {
				t.Errorf("%+v, want 1 dropped %q or failed %q", a, c.dropped, c.failed)
			}
			if shadows[1].DivergedWhy == "" {
				t.Error("what missed bytes is not diverged")
			}
			if s := w.p.Stats(); len(s.Failed) != 0 {
				t.Errorf("the primary has failed: %v", s.Failed)
			}
		})
	}
}

func TestPrimaryClosed(t *testing.T) {
	t.Run("refuses", func(t *testing.T) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := ln.Addr().String()
		ln.Close()
		shadow := serve(t, lines("new"))
		w := start(t, Options{Primary: addr, Shadows: both(shadow.addr(), shadow.addr())})
		c, err := net.Dial("tcp", w.addr)
		if err == nil { // else the reset came first
			_, err = io.ReadAll(c)
			c.Close()
		}
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
		w.shutdown()
		if s := w.p.Stats(); s.Failed["refused"] != 1 || s.Requests != 1 || shadow.total.Load() != 0 {
			t.Errorf("%+v, %d connections to shadows", s, shadow.total.Load())
		}
	})
	t.Run("resets", func(t *testing.T) {
		primary := serve(t, func(c net.Conn) { io.ReadFull(c, make([]byte, 5)); reset(c) })
		w := start(t, Options{Primary: primary.addr(), Shadows: both(serve(t, lines("a")).addr(), serve(t, lines("b")).addr())})
		c := w.dial()
		defer c.Close()
		io.WriteString(c, "hello\n")
		if _, err := io.ReadAll(c); !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
		w.shutdown()
		if s := w.p.Stats(); s.Failed["reset"] != 1 {
			t.Errorf("%+v", s)
		}
		for _, s := range w.p.Shadows() {
			if s.Account.Unpaired != 1 {
				t.Errorf("%+v", s.Account)
			}
		}
	})
}

func TestClientResets(t *testing.T) {
	seen := make(chan error, 3)
	watch := func(c net.Conn) {
		io.ReadFull(c, make([]byte, 6))
		io.WriteString(c, "x")
		_, err := io.ReadAll(c)
		seen <- err
	}
	w := start(t, Options{Primary: serve(t, watch).addr(), Shadows: both(serve(t, watch).addr(), serve(t, watch).addr())})
	c := w.dial()
	io.WriteString(c, "hello\n")
	io.ReadFull(c, make([]byte, 1))
	eventually(t, "the shadows have answered", func() bool {
		_, turns := w.p.Turns()
		return turns[0].Answered == 1 && turns[1].Answered == 1
	})
	reset(c)
	for range 3 {
		if err := <-seen; !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a server saw %v", err)
		}
	}
	w.shutdown()
	if s := w.p.Stats(); s.Failed["client_gone"] != 1 {
		t.Errorf("%+v", s)
	}
	for _, s := range w.p.Shadows() {
		if s.Account.Failed["client_gone"] != 1 {
			t.Errorf("%+v", s.Account)
		}
	}
}

func TestChoosing(t *testing.T) {
	a, b := serve(t, lines("a")), serve(t, lines("b"))
	w := start(t, Options{
		Primary: serve(t, lines("primary")).addr(),
		Shadows: []Shadow{{Name: "pool", Role: pair.Candidate, Servers: []string{a.addr(), b.addr()}}},
	})
	talk := func(n int) {
		t.Helper()
		for range n {
			if err := w.talk(1); err != nil {
				t.Fatal(err)
			}
		}
	}
	talk(4)
	w.p.SetUsing(0, 1)
	talk(4)
	w.p.SetUsing(0, 0)
	talk(1)
	w.p.SetUsing(0, 9)
	w.p.SetPaused(true)
	talk(2)
	w.p.SetPaused(false)
	w.p.SetShare(0)
	talk(3)
	w.shutdown()
	if a.total.Load() != 6 || b.total.Load() != 2 {
		t.Errorf("%d and %d connections", a.total.Load(), b.total.Load())
	}
	s := w.p.Stats()
	if s.Requests != 14 || s.Skipped["paused"] != 2 || s.Skipped["share"] != 3 {
		t.Errorf("%+v", s)
	}
	target := w.p.Shadows()[0]
	if target.Using != 2 || target.Account.Offered != 9 || target.Account.Dropped["no_server"] != 1 || target.Account.Paired != 8 {
		t.Errorf("%+v %+v", target, target.Account)
	}
}

// Beyond its bound a server gets no more connections.
func TestConnectionsAreBounded(t *testing.T) {
	shadow := serve(t, lines("new"))
	w := start(t, Options{
		Primary: serve(t, lines("primary")).addr(), Connections: 3,
		Shadows: []Shadow{{Name: "new", Role: pair.Candidate, Servers: []string{shadow.addr()}}},
	})
	var clients []net.Conn
	for range 5 {
		c := w.dial()
		io.WriteString(c, "x\n")
		io.ReadFull(c, make([]byte, 10))
		clients = append(clients, c)
	}
	for _, c := range clients {
		c.Close()
	}
	w.shutdown()
	if a := w.p.Shadows()[0].Account; a.Dropped["queue_full"] != 2 || a.Paired != 3 || shadow.total.Load() != 3 {
		t.Errorf("%+v, %d connections", a, shadow.total.Load())
	}
}

// A shadow's bytes in the buffer are bounded, whatever the clients send.
func TestBuffersAreBounded(t *testing.T) {
	primary := serve(t, func(c net.Conn) { io.Copy(io.Discard, c) })
	w := start(t, Options{
		Primary: primary.addr(), Buffer: 300_000, ConnBuffer: 200_000,
		Shadows: []Shadow{{Name: "new", Role: pair.Candidate, Servers: []string{serveUntil(t, func(_ net.Conn, done <-chan struct{}) { <-done }).addr()}}},
	})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			c := w.dial()
			defer c.Close()
			for range 100 {
				if _, err := c.Write(make([]byte, 100_000)); err != nil {
					t.Error(err)
					return
				}
				if n := w.p.senders[0].budget.Held(); n > 300_000 {
					t.Errorf("%d bytes", n)
				}
			}
		})
	}
	wg.Wait()
	w.shutdown()
	a := w.p.Shadows()[0].Account
	if n := a.Failed["body_behind"] + a.Failed["buffer_full"] + a.Dropped["body_behind"] + a.Dropped["buffer_full"]; n != 8 {
		t.Errorf("%+v", a)
	}
}

// What still runs at the end is cut, and counted.
func TestShutdownCuts(t *testing.T) {
	w := start(t, Options{Primary: serve(t, lines("primary")).addr(), Shadows: both(serve(t, lines("a")).addr(), serve(t, lines("b")).addr())})
	c := w.dial()
	defer c.Close()
	io.WriteString(c, "x\n")
	io.ReadFull(c, make([]byte, 10))
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.ReadAll(c)
	}()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := w.p.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	<-done
	w.shutdown()
	if s := w.p.Stats(); s.Failed["stopped"] != 1 {
		t.Errorf("%+v", s)
	}
	for _, s := range w.p.Shadows() {
		if s.Account.Failed["stopped"]+s.Account.Dropped["stopped"] != 1 {
			t.Errorf("%+v", s.Account)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{}, {Primary: "a:1", Shadows: []Shadow{{Name: "x", Role: pair.Candidate}}}, {Primary: "a:1", Shadows: []Shadow{{Name: "primary", Role: pair.Candidate, Servers: []string{"b:1"}}}}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
