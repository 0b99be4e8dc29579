// Package mirror drives what stands between clients and a primary, in the same
// way whoever it is: the same requests over kept connections, every answer read
// whole and checked.
package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"tailscope/hist"
	"tailscope/internal/experiment/bench"
)

// Request is the request of every client of a load, and the expected answer.
type Request struct {
	Name   string
	Method string
	Body   int // bytes sent
	Answer int // bytes of the answer's body
}

// The requests that are measured.
var (
	Get  = Request{"GET, 1 KB answer", "GET", 0, 1024}
	Post = Request{"POST 2 KB, 1 KB answer", "POST", 2048, 1024}
)

func (r Request) bytes(host string) []byte {
	b := fmt.Appendf(nil, "%s /orders/42?page=3 HTTP/1.1\r\nHost: %s\r\nUser-Agent: load\r\nAccept: */*\r\nX-Tenant: acme\r\n", r.Method, host)
	if r.Body > 0 {
		b = fmt.Appendf(b, "Content-Type: application/octet-stream\r\nContent-Length: %d\r\n", r.Body)
	}
	b = append(b, "\r\n"...)
	return append(b, bytes.Repeat([]byte("x"), r.Body)...)
}

// Result is the account of a load: each request is among Latency, or an error.
type Result struct {
	Elapsed time.Duration
	Errors  uint64
	Why     map[string]uint64 // of errors
	// Latency of good answers, in seconds: of an open load from the time at
	// which each request was due.
	Latency *hist.Histogram
}

// NewResult returns the account of nothing yet.
func NewResult() *Result {
	return &Result{Latency: hist.New(schema), Why: map[string]uint64{}}
}

// Add puts another load to this one.
func (r *Result) Add(o Result) {
	r.Elapsed += o.Elapsed
	r.Errors += o.Errors
	for k, n := range o.Why {
		r.Why[k] += n
	}
	_ = r.Latency.Merge(o.Latency) // the same schema
}

// Requests returns how many were answered well.
func (r *Result) Requests() uint64 { return r.Latency.Count }

// schema is fine enough for quantiles within 0.55 %.
const schema = 7

// patience bounds a client's wait for an answer.
const patience = 3 * time.Second

// caller is one kept connection, opened anew after an error.
type caller struct {
	addr    string
	request []byte
	expect  Request
	conn    net.Conn
	buf     []byte
}

func newCaller(addr string, r Request) *caller {
	return &caller{addr: addr, request: r.bytes(addr), expect: r, buf: make([]byte, 16<<10)}
}

func (c *caller) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

var (
	headEnd = []byte("\r\n\r\n")
	good    = []byte("HTTP/1.1 200 ")
	length  = []byte("\r\nContent-Length: ")
)

// do sends the request and reads its answer whole.
func (c *caller) do() (err error) {
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	now := time.Now()
	if c.conn == nil {
		if c.conn, err = net.DialTimeout("tcp", c.addr, patience); err != nil {
			return err
		}
	}
	if err = c.conn.SetDeadline(now.Add(patience)); err != nil {
		return err
	}
	if _, err = c.conn.Write(c.request); err != nil {
		return err
	}
	n, want := 0, -1
	for want < 0 || n < want {
		if n == len(c.buf) {
			return errors.New("answer too long")
		}
		m, err := c.conn.Read(c.buf[n:])
		n += m
		if err != nil {
			return err
		}
		if want < 0 {
			if want, err = answerLength(c.buf[:n], c.expect.Answer); err != nil {
				return err
			}
		}
	}
	if n != want {
		return errors.New("more than one answer")
	}
	return nil
}

// answerLength returns the length of head and body, -1 while the head is not whole.
func answerLength(b []byte, body int) (int, error) {
	end := bytes.Index(b, headEnd)
	if end < 0 {
		return -1, nil
	}
	if !bytes.HasPrefix(b, good) {
		line, _, _ := bytes.Cut(b, []byte("\r\n"))
		return 0, fmt.Errorf("answered %s", line)
	}
	_, rest, ok := bytes.Cut(b[:end+2], length)
	digits, _, _ := bytes.Cut(rest, []byte("\r"))
	n, err := strconv.Atoi(string(digits))
	if !ok || err != nil || n != body {
		return 0, fmt.Errorf("answer's length is %q, want %d", digits, body)
	}
	return end + len(headEnd) + n, nil
}

// Closed sends requests on so many connections for a time, each as soon as the
// one before is answered.
func Closed(ctx context.Context, addr string, r Request, connections int, d time.Duration) Result {
	out := NewResult()
	var mu sync.Mutex
	var wg sync.WaitGroup
	start := time.Now()
	for range connections {
		wg.Go(func() {
			c := newCaller(addr, r)
			defer c.close()
			mine := NewResult()
			for last := start; last.Sub(start) < d && ctx.Err() == nil; {
				err := c.do()
				now := time.Now()
				if err != nil {
					mine.fail(err)
				} else {
					_ = mine.Latency.RecordNanos(int64(now.Sub(last)), 1) // is not negative
				}
				last = now
			}
			mu.Lock()
			defer mu.Unlock()
			out.Add(*mine)
		})
	}
	wg.Wait()
	out.Elapsed = time.Since(start)
	return *out
}

func (r *Result) fail(err error) {
	r.Errors++
	r.Why[reason(err)]++
}

// Clients are connections to one address that outlive a load, so that opening
// them is not a part of what is measured.
type Clients struct {
	mu   sync.Mutex
	free []*caller // the one used last is used next
}

// NewClients opens so many connections, each with a request that is not counted.
func NewClients(addr string, r Request, connections int) (*Clients, error) {
	c := &Clients{}
	for range connections {
		one := newCaller(addr, r)
		c.free = append(c.free, one)
		if err := one.do(); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// Open returns a load by connections that are opened when they are first used.
func Open(ctx context.Context, addr string, r Request, connections int, rate float64, d time.Duration) (Result, error) {
	c := &Clients{}
	for range connections {
		c.free = append(c.free, newCaller(addr, r))
	}
	defer c.Close()
	return c.Open(ctx, rate, d, 1)
}

// Close closes the connections.
func (c *Clients) Close() {
	for _, one := range c.free {
		one.close()
	}
}

func (c *Clients) do(context.Context, bench.Request) error {
	c.mu.Lock()
	one := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	c.mu.Unlock()
	err := one.do()
	c.mu.Lock()
	c.free = append(c.free, one)
	c.mu.Unlock()
	return err
}

// Open sends requests at a rate, whether or not they are answered.
func (c *Clients) Open(ctx context.Context, rate float64, d time.Duration, seed uint64) (Result, error) {
	schedule, err := bench.NewSchedule(bench.Even, rate, seed)
	if err != nil {
		return Result{}, err
	}
	out := NewResult()
	var mu sync.Mutex
	start := time.Now()
	_, err = bench.Run(ctx, bench.Options{
		Schedule: schedule, Duration: d, Workers: len(c.free), Queue: int(rate * patience.Seconds()), Do: c.do,
		Done: func(r bench.Result) {
			mu.Lock()
			defer mu.Unlock()
			if r.Err != nil {
				out.fail(r.Err)
				return
			}
			_ = out.Latency.RecordNanos(int64(r.Latency()), 1)
		},
	})
	out.Elapsed = time.Since(start)
	return *out, err
}

// reason returns an error without addresses.
func reason(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		if op.Timeout() {
			return "timeout"
		}
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}
