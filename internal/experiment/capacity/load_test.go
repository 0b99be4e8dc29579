package capacity

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/experiment/bench/requests"
	"tailscope/internal/experiment/capacity/objective"
	"tailscope/internal/experiment/capacity/search"
)

// queueServer serves one request at a time, in the order of their arrival, for a
// time each; it says how long each queued.
type queueServer struct {
	*httptest.Server
	mu      sync.Mutex
	free    time.Time
	service time.Duration
	hang    func() bool
}

func newQueueServer(t *testing.T, service time.Duration) *queueServer {
	q := &queueServer{service: service}
	q.Server = httptest.NewServer(http.HandlerFunc(q.serve))
	t.Cleanup(func() {
		q.CloseClientConnections()
		q.Close()
	})
	return q
}

func (q *queueServer) serve(w http.ResponseWriter, r *http.Request) {
	q.mu.Lock()
	now := time.Now()
	begin := now
	if q.free.After(now) {
		begin = q.free
	}
	q.free = begin.Add(q.service)
	end, hang := q.free, q.hang != nil && q.hang()
	q.mu.Unlock()
	if hang {
		<-r.Context().Done()
		return
	}
	select {
	case <-time.After(time.Until(end)):
	case <-r.Context().Done():
	}
	w.Header().Set("Server-Timing", "cache;desc=miss, queue;dur="+(begin.Sub(now)).String())
	_, _ = w.Write([]byte("ok"))
}

// stalls returns a function that reports for how long this test has not run although
// it was ready: measured times may be off by as much.
func stalls(t *testing.T) func() time.Duration {
	var ns atomic.Int64
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for last := time.Now(); ; {
			select {
			case <-end:
				return
			case <-time.After(5 * time.Millisecond):
			}
			now := time.Now()
			if d := now.Sub(last); d > 50*time.Millisecond {
				ns.Add(int64(d))
			}
			last = now
		}
	}()
	t.Cleanup(func() { close(end); <-ended })
	return func() time.Duration { return time.Duration(ns.Load()) }
}

func startLoad(t *testing.T, address, what string, change func(*LoadOptions)) (*Load, objective.Objective) {
	t.Helper()
	o, err := objective.Parse(what)
	if err != nil {
		t.Fatal(err)
	}
	set, err := requests.Compile(requests.Spec{Base: address, Queries: []requests.Query{{Request: "GET /"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { set.Close() })
	target, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	lo := LoadOptions{Target: target, Set: set, Objective: o, Bounds: DefaultBounds(), Highest: 1000, Seed: 1}
	lo.Load.Timeout = 30 * time.Second
	lo.Limits.Late, lo.Limits.Share, lo.Limits.Host = 30*time.Second, 10, 2 // on a machine that does other things
	if change != nil {
		change(&lo)
	}
	l, err := StartLoad(context.Background(), lo)
	if err != nil {
		t.Fatal(err)
	}
	return l, o
}

func TestSearchOfAServer(t *testing.T) {
	t.Parallel()
	stalled := stalls(t)
	q := newQueueServer(t, 4*time.Millisecond) // 250 a second at most
	l, o := startLoad(t, q.URL, "p90 < 60ms", nil)
	var report []*api.Capacity
	c, err := Run(context.Background(), l, Options{
		Mode: "rate", Bounds: DefaultBounds(), Report: func(c *api.Capacity) { report = append(report, c) },
		Search: search.Options{Objective: o, Lowest: 100, Highest: 1000, Factor: 4, Precision: 0.9, Step: 4 * time.Second, Discard: 200 * time.Millisecond, Budget: 30 * time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !c.Restored || c.Failed != "" || c.Answer == nil || c.Mode != "rate" || c.Unit != "requests/s" || !(c.End > c.Start) {
		t.Fatalf("%+v", c)
	}
	gone := stalled().Seconds()
	broken := 0
	for _, s := range c.Steps {
		in, slow := uint64(0), uint64(0)
		for _, slot := range s.Slots {
			for i, n := range slot.Counts {
				in += n
				if c.Bounds[i+1] > 0.06 {
					slow += n
				}
			}
			if len(slot.Counts) != len(c.Bounds)-1 {
				t.Fatalf("a slot of %d counts, %d bounds", len(slot.Counts), len(c.Bounds))
			}
		}
		if in < s.Latency.Count || s.Latency.Count == 0 && s.Stopped == "" {
			t.Errorf("%d in slots, %d measured", in, s.Latency.Count)
		}
		if got := float64(s.Waited + s.Queued + s.Worked); math.Abs(got-float64(s.Latency.Mean)) > 0.1*float64(s.Latency.Mean)+1e-3 || s.Latency.Count > 0 && s.QueuedBy != "Server-Timing;queue" {
			t.Errorf("waited %v, queued %v by %q, worked %v of %v", s.Waited, s.Queued, s.QueuedBy, s.Worked, s.Latency.Mean)
		}
		if s.Stopped != "" {
			// Of a machine that stalls less may be broken, but nothing that is not slow.
			if broken++; s.Kept != search.Broken || !(float64(s.StoppedAfter) < 0.5+gone) || slow < 3 {
				t.Errorf("stopped at %v: %q after %v, %s, %d requests were slow", s.X, s.Stopped, s.StoppedAfter, s.Kept, slow)
			}
		} else if s.X > 400 {
			t.Errorf("%v was borne to the end", s.X)
		}
	}
	if broken == 0 {
		t.Error("no step was stopped")
	}
	answered(t, c.Steps[0], 100, gone)
	if last := report[len(report)-1]; len(report) < len(c.Steps) || last.Headline != c.Headline || last.Progress != "" {
		t.Errorf("told %d times, in the end %q", len(report), last.Headline)
	}
}

// answered fails unless the step answered what was asked, within a factor of two, with
// so many seconds of it in which nothing ran.
func answered(t *testing.T, s api.CapacityStep, asked, gone float64) {
	t.Helper()
	took, n := float64(s.End-s.Start), float64(s.Latency.Count)
	if float64(s.Asked) != asked || n < asked*(took-gone)/2-10 || n > asked*(took+gone)*2+10 {
		t.Errorf("of %v requests/s, asked for %v, %v were answered in %v s; %v s were lost", asked, s.Asked, n, took, gone)
	}
	if s.Errors == 0 && math.Abs(float64(s.Rate)*took-n) > 1e-3*n {
		t.Errorf("%v requests in %v s are not %v a second", n, took, s.Rate)
	}
}

// A target that does not answer any more is left alone within a second.
func TestHangingTargetIsLeftAlone(t *testing.T) {
	t.Parallel()
	stalled := stalls(t)
	q := newQueueServer(t, time.Millisecond)
	began := time.Now()
	var mu sync.Mutex
	var seen []time.Duration // when requests came
	hung := 500 * time.Millisecond
	q.mu.Lock()
	q.hang = func() bool {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, time.Since(began))
		return time.Since(began) > hung
	}
	q.mu.Unlock()
	l, o := startLoad(t, q.URL, "p99 < 100ms and errors < 1%", nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := search.New(search.Options{Objective: o, Lowest: 200, Highest: 1000, Step: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	st, _ := s.Next()
	st.For = 4 * time.Second
	step, _, err := l.Hold(ctx, st, s.Watch(), nil)
	if err != nil {
		t.Fatal(err)
	}
	soon, cancelSoon := context.WithTimeout(ctx, 50*time.Millisecond) // not to wait for what hangs
	defer cancelSoon()
	if err := l.Restore(soon); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	after, gone := seen[len(seen)-1]-hung, stalled()
	if step.Stopped == "" || step.Kept != "broken" || after > time.Second+gone || !(step.StoppedAfter >= 0 && float64(step.StoppedAfter) < 0.5+gone.Seconds()) {
		t.Errorf("%q, %s: the last request came %s after the target hung, %v s after that was seen", step.Stopped, step.Kept, after, step.StoppedAfter)
	}
	if !strings.Contains(step.Stopped, "broken") {
		t.Errorf("stopped %q", step.Stopped)
	}
}

// Over a list of servers the rate stays the same however few there are.
func TestServersAreTakenAway(t *testing.T) {
	t.Parallel()
	stalled := stalls(t)
	var list ListPool
	var servers []*queueServer
	for range 3 {
		q := newQueueServer(t, time.Millisecond)
		servers, list = append(servers, q), append(list, strings.TrimPrefix(q.URL, "http://"))
	}
	l, o := startLoad(t, servers[0].URL, "errors < 20%", func(lo *LoadOptions) { lo.Pool, lo.Highest = list, 150 })
	c, err := Run(context.Background(), l, Options{
		Mode: "servers", Bounds: DefaultBounds(),
		Search: search.Options{Objective: o, Lowest: 1, Highest: 3, Integer: true, Falling: true, Step: 4 * time.Second, Discard: 100 * time.Millisecond, Budget: time.Minute},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range c.Steps {
		if answered(t, s, 150, stalled().Seconds()); i == 0 && s.X != 3 {
			t.Errorf("began with %v servers", s.X)
		}
	}
	if n := len(c.Steps); n < 2 || c.Steps[n-1].X >= 3 || c.Unit != "servers" || c.Law != nil {
		t.Errorf("%d steps in %s", n, c.Unit)
	}
}

func TestPoolByCommand(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "servers")
	p := &CommandPool{Apply: "echo {{servers}} >> " + file, Before: 3}
	q := newQueueServer(t, time.Millisecond)
	l, o := startLoad(t, q.URL, "errors < 20%", func(lo *LoadOptions) { lo.Pool, lo.Highest = p, 100 })
	ctx, cancel := context.WithCancelCause(context.Background())
	c, err := Run(ctx, l, Options{
		Mode: "servers", Bounds: DefaultBounds(),
		Search: search.Options{Objective: o, Lowest: 1, Highest: 3, Integer: true, Falling: true, Step: 4 * time.Second, Discard: 100 * time.Millisecond},
		Report: func(c *api.Capacity) {
			if len(c.Steps) == 2 {
				cancel(errors.New("enough of it"))
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if got := string(b); err != nil || got != "3\n2\n3\n" {
		t.Errorf("the pool had %q, %v", got, err)
	}
	for _, s := range c.Steps[:2] {
		if s.Latency.Count == 0 {
			t.Errorf("nothing was sent to %v servers", s.X)
		}
	}
	if !c.Restored || c.Failed != "enough of it" {
		t.Errorf("restored %v, failed %q", c.Restored, c.Failed)
	}
	for _, wrong := range []struct{ apply, want string }{
		{"exit 3 # {{servers}}", "exit status 3"},
		{"echo it is full >&2; false {{servers}}", "it is full"},
	} {
		if err := (&CommandPool{Apply: wrong.apply}).Set(context.Background(), 2); err == nil || !strings.Contains(err.Error(), wrong.want) {
			t.Errorf("%s: %v", wrong.apply, err)
		}
	}
	if err := (&CommandPool{Apply: "./scale.sh"}).Check(); err == nil || !strings.Contains(err.Error(), "{{servers}}") {
		t.Error(err)
	}
}

// A target that ends in the middle is not taken for one that bears nothing.
func TestTargetThatEnds(t *testing.T) {
	t.Parallel()
	q := newQueueServer(t, time.Millisecond)
	l, o := startLoad(t, q.URL, "errors < 5%", nil)
	var once sync.Once
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	c, err := Run(ctx, l, Options{
		Mode: "rate", Bounds: DefaultBounds(),
		Search: search.Options{Objective: o, Lowest: 50, Highest: 800, Step: 4 * time.Second, Discard: 100 * time.Millisecond},
		Report: func(c *api.Capacity) {
			if len(c.Steps) == 2 {
				once.Do(func() {
					q.CloseClientConnections()
					q.Listener.Close()
					l.reachWithin = 300 * time.Millisecond
				})
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(c.Failed, "the target is not there any more: ") || c.Verdict == "below" || !c.Restored {
		t.Errorf("verdict %q, failed %q, restored %v, %d steps", c.Verdict, c.Failed, c.Restored, len(c.Steps))
	}
}

// A command that is ended leaves nothing behind that changes the pool later.
func TestPoolIsNotChangedLate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, fifo := filepath.Join(dir, "servers"), filepath.Join(dir, "runs")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	runs, err := os.OpenFile(fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer runs.Close()
	// What runs has the other end of the pipe open.
	p := &CommandPool{Apply: "[ {{servers}} = 3 ] || sh -c 'exec >" + fifo + "; sleep 60' && echo {{servers}} >> " + file, Before: 3, Timeout: 300 * time.Millisecond}
	if err := p.Set(context.Background(), 1); err == nil || !strings.Contains(err.Error(), "longer than 300ms") {
		t.Fatal(err)
	}
	if err := runs.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(runs); err != nil {
		t.Errorf("the command goes on: %v", err)
	}
	p.Timeout = 0
	if err := p.Restore(context.Background()); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "3\n" {
		t.Errorf("the pool had %q, %v", b, err)
	}
}

// A pool is restored although the program that shrank it is killed, while a command
// runs or between two.
func TestPoolOfAKilledSearch(t *testing.T) {
	t.Parallel()
	for _, running := range []bool{false, true} {
		file := filepath.Join(t.TempDir(), "servers")
		p := &CommandPool{Apply: `[ {{servers}} = 2 ] && sleep 60; echo {{servers}}/$SERVERS >> ` + file, Before: 3}
		if err := p.Set(context.Background(), 1); err != nil {
			t.Fatal(err)
		}
		g, ended := p.guard, make(chan error, 1)
		pipe := g.pipe
		if running {
			// The guard's input is passed on, so that the test learns of the command.
			report, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer report.Close()
			defer write.Close()
			g.pipe = write
			go func() { ended <- p.Set(context.Background(), 2) }()
			group, err := bufio.NewReader(report).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(pipe, group); err != nil {
				t.Fatal(err)
			}
		}
		pipe.Close() // as the kernel does
		if err := g.shell.Wait(); err != nil {
			t.Error(err)
		}
		if running {
			if err := <-ended; err == nil {
				t.Error("what ran was not ended")
			}
		}
		if b, err := os.ReadFile(file); err != nil || string(b) != "1/1\n3/3\n" {
			t.Errorf("the pool had %q, %v", b, err)
		}
	}
}

func TestLoadThatCannotBe(t *testing.T) {
	t.Parallel()
	q := newQueueServer(t, time.Millisecond)
	set, err := requests.Compile(requests.Spec{Base: q.URL, Queries: []requests.Query{{Name: "home", Request: "GET /"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	target, _ := url.Parse(q.URL)
	gone, _ := url.Parse("http://127.0.0.1:1")
	for _, test := range []struct {
		what   string
		target *url.URL
		want   string
	}{
		{"primary p99 < 1s", target, "no live clients"},
		{"p99{hme} < 1s", target, "home"},
		{"p99 < 1s", gone, "cannot be reached"},
	} {
		o, err := objective.Parse(test.what)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := StartLoad(context.Background(), LoadOptions{Target: test.target, Set: set, Objective: o, Highest: 10}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s at %s: %v", test.what, test.target, err)
		}
	}
}
