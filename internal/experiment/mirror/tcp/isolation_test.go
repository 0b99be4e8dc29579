//go:build servers

package tcp

import (
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"testing"
	"time"

	"tailscope/internal/experiment/mirror/pair"
)

// A candidate that is slow, hung or gone changes nothing for a client of Redis:
// interleaved pairs of runs with it and without any candidate, each run with a
// connection of its own for every hundredth command, paused in between as a
// client with some work of its own. Logged are the ratios with their 95 %
// intervals. The median contains what copying costs on a machine that clients and
// servers share, and of the 500 commands of a run the five slowest fall on the
// opening of its connections, so on a machine busy with other tests a p99 moves by
// itself; what fails the test is one whose interval is above 2, where waiting for
// any of these candidates would give a thousand, or a command that fails.
func TestIsolation(t *testing.T) {
	faults := []struct {
		name   string
		handle func(net.Conn, <-chan struct{}) // nil: refuses
	}{
		{"refuses", nil},
		{"never reads", func(_ net.Conn, done <-chan struct{}) { <-done }},
		{"never answers", func(c net.Conn, _ <-chan struct{}) { io.Copy(io.Discard, c) }},
		{"resets in the middle", func(c net.Conn, _ <-chan struct{}) { io.ReadFull(c, make([]byte, 3)); reset(c) }},
		{"never ends", func(c net.Conn, _ <-chan struct{}) {
			b := make([]byte, 64<<10)
			for {
				if _, err := c.Write(b); err != nil {
					return
				}
				time.Sleep(time.Millisecond) // the cores are for those who are timed
			}
		}},
		{"sleeps", func(c net.Conn, done <-chan struct{}) {
			b := make([]byte, 100)
			for {
				if _, err := c.Read(b); err != nil {
					return
				}
				select {
				case <-time.After(time.Second):
				case <-done:
					return
				}
				io.WriteString(c, "+OK\r\n")
			}
		}},
	}
	primary := redis(t)
	alone := start(t, Options{Primary: primary})
	for _, f := range faults {
		addr := "127.0.0.1:1"
		if f.handle != nil {
			addr = serveUntil(t, f.handle).addr()
		}
		w := start(t, Options{Primary: primary, Shadows: []Shadow{{Name: "new", Role: pair.Candidate, Servers: []string{addr}}}, Timeout: time.Second, AnswerLimit: 1 << 20})
		var mid, tail []float64
		for range 10 {
			with := latencies(t, w.addr)
			without := latencies(t, alone.addr)
			mid = append(mid, math.Log(with[len(with)/2]/without[len(without)/2]))
			tail = append(tail, math.Log(with[len(with)*99/100]/without[len(without)*99/100]))
		}
		p50, low50, high50 := interval(mid)
		p99, low99, high99 := interval(tail)
		t.Logf("%-22s p50 × %.3f (%.3f–%.3f), p99 × %.3f (%.3f–%.3f)", f.name, p50, low50, high50, p99, low99, high99)
		if low99 > 2 {
			t.Errorf("%s: it is seen by the clients", f.name)
		}
		w.shutdown()
		if s := w.p.Stats(); len(s.Failed) != 0 {
			t.Errorf("%s: %v", f.name, s.Failed)
		}
		if a := w.p.Shadows()[0].Account; a.Paired == a.Offered {
			t.Errorf("%s: nothing has gone wrong: %+v", f.name, a)
		}
	}
}

// latencies are seconds of commands, sorted.
func latencies(t *testing.T, addr string) []float64 {
	const connections, commands = 5, 100
	out := make([]float64, 0, connections*commands)
	for range connections {
		c := dial(t, addr)
		for i := range commands {
			before := time.Now()
			c.ask(fmt.Sprintf("SET a %d\r\n", i), "+OK")
			out = append(out, time.Since(before).Seconds())
			time.Sleep(200 * time.Microsecond)
		}
		c.Close()
	}
	slices.Sort(out)
	return out
}

// interval returns the geometric mean of ten ratios given by their logarithms, with
// Student's interval.
func interval(logs []float64) (mean, low, high float64) {
	n := float64(len(logs))
	sum, squares := 0.0, 0.0
	for _, v := range logs {
		sum += v
	}
	for _, v := range logs {
		squares += (v - sum/n) * (v - sum/n)
	}
	const t9 = 2.262 // of 9 degrees of freedom
	half := t9 * math.Sqrt(squares/(n-1)/n)
	return math.Exp(sum / n), math.Exp(sum/n - half), math.Exp(sum/n + half)
}
