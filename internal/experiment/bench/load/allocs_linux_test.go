package load

import (
	"net"
	"runtime"
	"strings"
	"testing"
	"time"
)

// quick answers each request that it reads, whatever it is, without allocation.
func quick(tb testing.TB) string {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		open := make([]net.Conn, 0, 64)
		ended := make(chan struct{}, 64)
		for {
			c, err := listener.Accept()
			if err != nil {
				break
			}
			open = append(open, c)
			go func() {
				defer func() { ended <- struct{}{} }()
				in, out := make([]byte, 4096), []byte("HTTP/1.1 200 OK\r\nServer: quick\r\nContent-Length: 100\r\n\r\n"+strings.Repeat("x", 100))
				for {
					if _, err := c.Read(in); err != nil {
						return
					}
					if _, err := c.Write(out); err != nil {
						return
					}
				}
			}()
		}
		for _, c := range open {
			c.Close()
		}
		for range open {
			<-ended
		}
	}()
	tb.Cleanup(func() {
		listener.Close()
		<-done
	})
	return listener.Addr().String()
}

// counted is a Source of one rendered request, a Recorder that counts, and a
// Checker that looks at everything.
type counted struct {
	wire  []byte
	seen  int
	cause [Causes]int
}

func (c *counted) Next(r *Request) bool { r.Wire = c.wire; return true }
func (c *counted) Observe(o *Observation) {
	c.seen++
	c.cause[o.Cause]++
}
func (c *counted) Drop(time.Duration, int) {}
func (c *counted) Wants(int) (bool, bool)  { return true, true }
func (c *counted) Check(_, _ int, h []Field, b []byte) int {
	if len(h) != 2 || len(b) != 100 {
		return 0
	}
	return -1
}

func (c *counted) options(address string) Options {
	c.wire = AppendHTTP1(nil, &Request{Path: "/"}, address)
	return Options{
		Address: address, Loops: 1, Connections: 8, Checker: c,
		Source:   func(int, int) (Source, error) { return c, nil },
		Recorder: func(int, int) Recorder { return c },
	}
}

type even struct{ k, gap time.Duration }

func (e *even) Next() (time.Duration, int, bool) {
	e.k++
	return (e.k - 1) * e.gap, 0, true
}

// A loop allocates everything before it begins: ten times the requests make no more
// allocations.
func TestLoopAllocatesNothing(t *testing.T) {
	address := quick(t)
	for _, open := range []bool{false, true} {
		allocations := func(d time.Duration) (n uint64, requests int) {
			c := &counted{}
			o := c.options(address)
			o.Duration = d
			if open {
				o.Pacer = func(int, int) (Pacer, error) { return &even{gap: 50 * time.Microsecond}, nil }
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			a, err := Run(t.Context(), o)
			runtime.ReadMemStats(&after)
			if err != nil || c.cause[Answered] != c.seen || a.Sent != uint64(c.seen) {
				t.Fatalf("%v, %+v, %v", err, a, c.cause)
			}
			return after.Mallocs - before.Mallocs, c.seen
		}
		_, few := allocations(20 * time.Millisecond)
		n, many := allocations(200 * time.Millisecond)
		if few < 10 || many < 200 {
			t.Skipf("%d and %d requests: the machine is too busy to tell", few, many)
		}
		// Connections are opened, each with its buffers; requests are many more.
		if limit := uint64(300); n > limit || n > uint64(many) {
			t.Errorf("open loop %v: %d allocations for %d requests", open, n, many)
		}
	}
}

// BenchmarkLoop measures what a request costs the generator: its thread's CPU time is
// the metric, the time per operation depends on the target.
func BenchmarkLoop(b *testing.B) {
	address := quick(b)
	for _, test := range []struct {
		name string
		gap  time.Duration
	}{{"closed", 0}, {"open 5000", 200 * time.Microsecond}} {
		b.Run(test.name, func(b *testing.B) {
			c := &counted{}
			o := c.options(address)
			next, k := c.Next, 0
			o.Source = func(int, int) (Source, error) {
				return sourceFunc(func(r *Request) bool { k++; return k <= b.N && next(r) }), nil
			}
			if test.gap > 0 {
				o.Pacer = func(int, int) (Pacer, error) { return &even{gap: test.gap}, nil }
			}
			b.ReportAllocs()
			a, err := Run(b.Context(), o)
			if err != nil || c.seen != b.N {
				b.Fatalf("%v, %d seen", err, c.seen)
			}
			b.ReportMetric(float64(a.CPU.Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
}
