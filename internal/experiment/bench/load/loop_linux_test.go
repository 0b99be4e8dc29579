package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// raw is a target that answers the n-th request on the k-th connection, both from 0,
// as its function says.
type raw struct {
	net.Listener
	wg   sync.WaitGroup
	mu   sync.Mutex
	open map[net.Conn]bool
}

func serveRaw(t *testing.T, do func(c *net.TCPConn, k, n int) bool) *raw {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &raw{Listener: listener, open: map[net.Conn]bool{}}
	r.wg.Go(func() {
		for k := -1; ; k++ { // the first looks only whether it is there
			c, err := listener.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			r.open[c] = true
			r.mu.Unlock()
			r.wg.Go(func() { r.serve(c.(*net.TCPConn), do, k) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		r.mu.Lock()
		for c := range r.open {
			c.Close()
		}
		r.mu.Unlock()
		r.wg.Wait()
	})
	return r
}

func (r *raw) serve(c *net.TCPConn, do func(c *net.TCPConn, k, n int) bool, k int) {
	defer func() {
		c.Close()
		r.mu.Lock()
		delete(r.open, c)
		r.mu.Unlock()
	}()
	request := make([]byte, 64<<10)
	for n := 0; ; n++ {
		for got := 0; ; {
			m, err := c.Read(request[got:])
			if err != nil {
				return
			}
			if got += m; strings.HasSuffix(string(request[:got]), "\r\n\r\n") {
				break
			}
		}
		if !do(c, k, n) {
			return
		}
	}
}

// reset makes closing a connection break it.
func reset(c *net.TCPConn) bool {
	_ = c.SetLinger(0)
	return false
}

func say(c io.Writer, text string) bool {
	_, err := io.WriteString(c, text)
	return err == nil
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// watched is a Recorder that keeps everything; only for one loop.
type watched struct {
	seen []Observation
	lost int
}

func (w *watched) Observe(o *Observation)  { w.seen = append(w.seen, *o) }
func (w *watched) Drop(time.Duration, int) { w.lost++ }

// run runs o with one loop and sees that its account closes.
func run(t *testing.T, ctx context.Context, address string, o Options) (Account, []Observation) {
	t.Helper()
	w := &watched{}
	o.Address, o.Loops = address, 1
	if o.Source == nil {
		o.Source = requests(1<<30, Request{Path: "/"})
	}
	o.Recorder = func(int, int) Recorder { return w }
	if o.Timeout == 0 {
		o.Timeout = patient
	}
	a, err := Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if a.Due != a.Sent+a.Dropped+a.Unsent || a.Sent != uint64(len(w.seen)) || a.Dropped != uint64(w.lost) {
		t.Errorf("the account does not close: %+v, %d observed, %d dropped", a, len(w.seen), w.lost)
	}
	for _, s := range w.seen {
		if s.Sent < s.Due || s.FirstByte < s.Sent || s.End < s.FirstByte || s.Late < 0 || s.Late > s.Sent-s.Due || (s.Status == 0) != (s.Cause != Answered) {
			t.Fatalf("an observation that cannot be: %+v", s)
		}
	}
	return a, w.seen
}

func TestTargetsThatMisbehave(t *testing.T) {
	tests := []struct {
		name        string
		do          func(c *net.TCPConn, k, n int) bool
		method      string
		timeout     time.Duration
		want        string // what becomes of five requests, one after the other
		connections uint64
	}{
		{name: "well", do: func(c *net.TCPConn, k, n int) bool { return say(c, ok) }, want: "200 200 200 200 200", connections: 1},
		{name: "closes at once", do: func(c *net.TCPConn, k, n int) bool { return false }, want: "closed closed closed closed closed", connections: 5},
		{name: "breaks", do: func(c *net.TCPConn, k, n int) bool { return reset(c) }, want: "reset reset reset reset reset", connections: 5},
		{name: "half a head", do: func(c *net.TCPConn, k, n int) bool { return say(c, ok[:20]) && false }, want: "closed closed closed closed closed", connections: 5},
		{name: "half a body", do: func(c *net.TCPConn, k, n int) bool { return say(c, ok[:len(ok)-1]) && false }, want: "closed closed closed closed closed", connections: 5},
		{name: "half a body, then silence", do: func(c *net.TCPConn, k, n int) bool { return say(c, ok[:len(ok)-1]) }, timeout: 100 * time.Millisecond, want: "timeout timeout timeout timeout timeout", connections: 5},
		{name: "silence now and then", do: func(c *net.TCPConn, k, n int) bool { return n == 1 || say(c, ok) }, timeout: 2 * time.Second, want: "200 timeout 200 timeout 200", connections: 3},
		{name: "another protocol", do: func(c *net.TCPConn, k, n int) bool { return say(c, "+PONG\r\n") }, want: "protocol protocol protocol protocol protocol", connections: 5},
		{name: "more than was asked for", do: func(c *net.TCPConn, k, n int) bool { return say(c, ok+ok) }, want: "200 200 200 200 200", connections: 5},
		{name: "says that it closes", do: func(c *net.TCPConn, k, n int) bool {
			return say(c, "HTTP/1.1 500 Oh\r\nConnection: close\r\nContent-Length: 0\r\n\r\n") && false
		}, want: "500 500 500 500 500", connections: 5},
		{name: "the end is the close", do: func(c *net.TCPConn, k, n int) bool { return say(c, "HTTP/1.0 200 OK\r\n\r\nall of it") && false }, want: "200 200 200 200 200", connections: 5},
		{name: "1.0 that stays", do: func(c *net.TCPConn, k, n int) bool {
			return say(c, "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\na")
		}, want: "200 200 200 200 200", connections: 1},
		{name: "byte by byte", do: func(c *net.TCPConn, k, n int) bool {
			for i := range ok {
				if !say(c, ok[i:i+1]) {
					return false
				}
			}
			return true
		}, want: "200 200 200 200 200", connections: 1},
		{name: "chunks, a hint first", do: func(c *net.TCPConn, k, n int) bool {
			return say(c, "HTTP/1.1 103 Early\r\n\r\n") && say(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+chunks(strings.Repeat("x", 100), 7)+"0\r\n\r\n")
		}, want: "200 200 200 200 200", connections: 1},
		{name: "nothing to say", do: func(c *net.TCPConn, k, n int) bool {
			return say(c, "HTTP/1.1 304 Same\r\nContent-Length: 9\r\n\r\n")
		}, want: "304 304 304 304 304", connections: 1},
		{name: "HEAD", method: "HEAD", do: func(c *net.TCPConn, k, n int) bool {
			return say(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")
		}, want: "200 200 200 200 200", connections: 1},
		{name: "a big answer", do: func(c *net.TCPConn, k, n int) bool {
			return say(c, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", 1<<20)) && say(c, strings.Repeat("x", 1<<20))
		}, want: "200 200 200 200 200", connections: 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := serveRaw(t, test.do)
			for _, closed := range []bool{true, false} {
				t.Run(fmt.Sprintf("closed loop %v", closed), func(t *testing.T) {
					t.Parallel()
					o := Options{Connections: 1, Timeout: test.timeout, Drain: time.Minute, Source: requests(5, Request{Path: "/", Method: test.method})}
					if !closed {
						o.Pacer = every(2*time.Millisecond, 5)
					}
					a, seen := run(t, t.Context(), r.Addr().String(), o)
					var got []string
					for _, s := range seen {
						if s.Cause == Answered {
							got = append(got, itoa(s.Status))
						} else {
							got = append(got, s.Cause.String())
						}
					}
					if strings.Join(got, " ") != test.want {
						t.Errorf("%s, not %s", got, test.want)
					}
					if a.Connections != test.connections {
						t.Errorf("%d connections, not %d", a.Connections, test.connections)
					}
				})
			}
		})
	}
}

// A target that serves at once and freezes once for 200 ms: every request that
// falls due meanwhile waits for the rest of the freeze, though but one of them is
// under way. What the target did is known from itself, so that a busy machine
// makes no difference.
func TestFrozenTarget(t *testing.T) {
	t.Parallel()
	const freeze, gap, n = 200 * time.Millisecond, 2 * time.Millisecond, 250
	var mu sync.Mutex
	var before, after []time.Time // of writing each answer
	var frozen, thawed time.Time
	r := serveRaw(t, func(c *net.TCPConn, _, n int) bool {
		if n == 50 {
			frozen = time.Now()
			timer := time.NewTimer(freeze)
			<-timer.C
			thawed = time.Now()
		}
		mu.Lock()
		defer mu.Unlock()
		before = append(before, time.Now())
		ok := say(c, ok)
		after = append(after, time.Now())
		return ok
	})
	a, seen := run(t, t.Context(), r.Addr().String(), Options{Connections: 1, Pacer: every(gap, n)})
	mu.Lock()
	defer mu.Unlock()
	if a.Sent != n || a.Dropped != 0 || a.Unsent != 0 || len(after) != n {
		t.Fatalf("%+v", a)
	}
	from, to := frozen.Sub(a.Started), thawed.Sub(a.Started)
	const clocks = 200 * time.Microsecond // two clocks are compared
	waited, blocked, exact := 0, 0, 0
	for k, s := range seen {
		if s.Due != time.Duration(k)*gap {
			t.Fatalf("request %d was due %v", k, s.Due)
		}
		if s.End < before[k].Sub(a.Started)-clocks {
			t.Errorf("request %d ended %v, before its answer was sent at %v", k, s.End, before[k].Sub(a.Started))
		}
		if s.End <= after[k].Sub(a.Started)+clocks {
			exact++
		}
		if s.Due < from || s.Due > to {
			continue
		}
		waited++
		if s.End-s.Due < to-s.Due-clocks {
			t.Errorf("due %v: latency %v, not %v", s.Due, s.End-s.Due, to-s.Due)
		}
		if s.Sent > to-clocks && s.Sent-s.Due-s.Late >= to-s.Due-clocks {
			blocked++
		}
	}
	if to > n*gap {
		t.Skip("the machine is too busy for the schedule")
	}
	if waited < int(freeze/gap)-1 || blocked < waited-1 {
		t.Errorf("%d waited, %d of them for the connection", waited, blocked)
	}
	if exact < n*8/10 {
		t.Errorf("%d of %d ended as the target's call returned", exact, n)
	}
}

// thinkingSource returns a source of requests. Each request waits for told, and then
// thinks.
func thinkingSource(n int, told <-chan struct{}, r Request) func(int, int) (Source, error) {
	next := requests(n, r)
	return func(i, loops int) (Source, error) {
		source, err := next(i, loops)
		first := true
		return sourceFunc(func(r *Request) bool {
			if !first && told != nil {
				<-told
			}
			ok := source.Next(r)
			if first = false; r.Query == 0 {
				r.Think = 0
			}
			return ok
		}), err
	}
}

// A connection that was closed before it is wanted again is not used.
func TestClosedWhileIdle(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{}, 10)
	r := serveRaw(t, func(c *net.TCPConn, k, n int) bool {
		defer func() { closed <- struct{}{} }()
		_ = say(c, ok) && c.Close() == nil
		return false
	})
	a, seen := run(t, t.Context(), r.Addr().String(), Options{Connections: 1, Source: thinkingSource(4, closed, Request{Path: "/", Think: 50 * time.Millisecond})})
	if a.Connections != 4 || len(seen) != 4 || slices.ContainsFunc(seen, func(o Observation) bool { return o.Cause != Answered }) {
		t.Errorf("%+v, %+v", a, seen)
	}
}

// The target closes an idle connection while the next request is on its way: that is
// not a failure, and the clock runs on.
func TestStaleConnection(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]Cause{"GET": Answered, "POST": Closed} {
		r := serveRaw(t, func(c *net.TCPConn, k, n int) bool { return (k > 0 || n == 0) && say(c, ok) })
		a, seen := run(t, t.Context(), r.Addr().String(), Options{Connections: 1, Source: thinkingSource(2, nil, Request{Method: method, Path: "/", Think: stale + 10*time.Millisecond})})
		if len(seen) != 2 || seen[0].Cause != Answered || seen[1].Cause != want {
			t.Errorf("%s: %+v, %+v", method, a, seen)
		}
	}
}

func TestManyConnectionsAndLoops(t *testing.T) {
	t.Parallel()
	const connections, loops = 500, 4
	var under, most atomic.Int64
	all := make(chan struct{})
	r := serveRaw(t, func(c *net.TCPConn, k, n int) bool {
		if v := under.Add(1); v > most.Load() {
			most.Store(v)
			if v == connections {
				close(all)
			}
		}
		<-all // a target that answers nobody before everybody has asked
		return say(c, ok)
	})
	e := &engine{t: t}
	a, err := Run(t.Context(), Options{
		Address: r.Addr().String(), Connections: connections, Loops: loops, Timeout: 20 * time.Second,
		Source: requests(3*connections, Request{Path: "/"}), Recorder: func(int, int) Recorder { return e },
	})
	if err != nil {
		t.Fatal(err)
	}
	if a.Loops != loops || a.Connections != connections || a.Sent != 3*connections || len(e.seen) != 3*connections || e.causes()[Answered] != 3*connections || !a.Exhausted {
		t.Errorf("%+v, %v", a, e.causes())
	}
}

// At the end of ctx what is under way is cut off, what waits is unsent, and both are
// counted within moments.
func TestCancelled(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 10)
	r := serveRaw(t, func(c *net.TCPConn, k, n int) bool { asked <- struct{}{}; return true })
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		<-asked
		cancel()
	}()
	a, seen := run(t, ctx, r.Addr().String(), Options{Connections: 2, Timeout: time.Minute, Pacer: every(100*time.Microsecond, 1_000_000)})
	if a.Sent != 2 || len(seen) != 2 || seen[0].Cause != CutOff || seen[1].Cause != CutOff || a.Due != 2+a.Unsent || a.Elapsed > 30*time.Second {
		t.Errorf("%+v, %+v", a, seen)
	}
}

// The end of the plan leaves Drain for what is under way.
func TestDrain(t *testing.T) {
	t.Parallel()
	r := serveRaw(t, func(c *net.TCPConn, k, n int) bool { return true })
	a, seen := run(t, t.Context(), r.Addr().String(), Options{Connections: 2, Timeout: time.Minute, Drain: 50 * time.Millisecond, Duration: 20 * time.Millisecond, Pacer: every(time.Millisecond, 1000)})
	if a.Due != 20 || a.Sent != 2 || a.Unsent != 18 || seen[1].Cause != CutOff || a.Elapsed < 70*time.Millisecond || a.Elapsed > 30*time.Second {
		t.Errorf("%+v, %+v", a, seen)
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	source := requests(1, Request{})
	recorder := func(int, int) Recorder { return &watched{} }
	broken := errors.New("no such file")
	tests := []struct {
		name string
		o    Options
		want string
	}{
		{"no source", Options{Address: "127.0.0.1:1"}, "needs a source"},
		{"no address", Options{Source: source, Recorder: recorder}, "hint: host:port"},
		{"no port", Options{Source: source, Recorder: recorder, Address: "localhost"}, "hint: host:port"},
		{"nobody there", Options{Source: source, Recorder: recorder, Address: "127.0.0.1:1"}, "cannot be reached"},
		{"negative", Options{Source: source, Recorder: recorder, Address: "127.0.0.1:1", Connections: -1}, "negative"},
		{"two schedules", Options{Source: source, Recorder: recorder, Address: "127.0.0.1:1", Recorded: true, Pacer: every(1, 1)}, "not both"},
		{"unknown protocol", Options{Source: source, Recorder: recorder, Address: "127.0.0.1:1", Protocol: 9}, "protocol 9"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := Run(t.Context(), test.o); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, not %q", err, test.want)
			}
		})
	}
	r := serveRaw(t, func(c *net.TCPConn, k, n int) bool { return say(c, ok) })
	_, err := Run(t.Context(), Options{Address: r.Addr().String(), Recorder: recorder, Source: func(int, int) (Source, error) { return nil, broken }})
	if !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	_, err = Run(t.Context(), Options{Address: r.Addr().String(), Recorder: recorder, Source: source, Connections: 1 << 30})
	if err == nil || !strings.Contains(err.Error(), "ulimit -n") {
		t.Errorf("%v", err)
	}
}
