package capacity

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/bench/requests"
	"tailscope/internal/capacity/objective"
	"tailscope/internal/capacity/search"
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
	lo.Load.Timeout = 5 * time.Second
	lo.Limits.Late, lo.Limits.Share, lo.Limits.Host = time.Second, 10, 2 // on a machine that does other things
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
	q := newQueueServer(t, 4*time.Millisecond) // 250 a second at most
	l, o := startLoad(t, q.URL, "p90 < 60ms", nil)
	var told []*api.Capacity
	c, err := Run(context.Background(), l, Options{
		Mode: "rate", Bounds: DefaultBounds(), Tell: func(c *api.Capacity) { told = append(told, c) },
		Search: search.Options{Objective: o, Lowest: 50, Highest: 1000, Factor: 4, Precision: 0.5, Step: 900 * time.Millisecond, Discard: 200 * time.Millisecond, Budget: 3 * time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !c.Restored || c.Failed != "" || c.Answer == nil || c.Mode != "rate" || c.Unit != "requests/s" || !(c.End > c.Start) {
		t.Fatalf("%+v", c)
	}
	broken := 0
	for _, s := range c.Steps {
		in := uint64(0)
		for _, slot := range s.Slots {
			for _, n := range slot.Counts {
				in += n
			}
			if len(slot.Counts) != len(c.Bounds)-1 {
				t.Fatalf("a slot of %d counts, %d bounds", len(slot.Counts), len(c.Bounds))
			}
		}
		if in < s.Latency.Count || s.Latency.Count == 0 {
			t.Errorf("%d in slots, %d measured", in, s.Latency.Count)
		}
		if got := float64(s.Waited + s.Queued + s.Worked); math.Abs(got-float64(s.Latency.Mean)) > 0.1*float64(s.Latency.Mean)+1e-3 || s.QueuedBy != "Server-Timing;queue" {
			t.Errorf("waited %v, queued %v by %q, worked %v of %v", s.Waited, s.Queued, s.QueuedBy, s.Worked, s.Latency.Mean)
		}
		if s.Stopped != "" {
			if broken++; s.Kept != search.Broken || !(s.StoppedAfter < 0.5) || s.X < 100 {
				t.Errorf("stopped at %v: %q after %v, %s", s.X, s.Stopped, s.StoppedAfter, s.Kept)
			}
		}
	}
	if broken == 0 || float64(c.Steps[0].Rate) < 25 || float64(c.Steps[0].Rate) > 100 {
		t.Errorf("%d steps were stopped; the first answered %v", broken, c.Steps[0].Rate)
	}
	if last := told[len(told)-1]; len(told) < len(c.Steps) || last.Headline != c.Headline || last.Progress != "" {
		t.Errorf("told %d times, in the end %q", len(told), last.Headline)
	}
}

// A target that does not answer any more is left alone within a second.
func TestHangingTargetIsLeftAlone(t *testing.T) {
	t.Parallel()
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
	after := seen[len(seen)-1] - hung
	if step.Stopped == "" || step.Kept != "broken" || after > time.Second || !(step.StoppedAfter >= 0 && step.StoppedAfter < 0.5) {
		t.Errorf("%q, %s: the last request came %s after the target hung, %v s after that was seen", step.Stopped, step.Kept, after, step.StoppedAfter)
	}
	if !strings.Contains(step.Stopped, "broken") {
		t.Errorf("stopped %q", step.Stopped)
	}
}

// Over a list of servers the rate stays the same however few there are.
func TestServersAreTakenAway(t *testing.T) {
	t.Parallel()
	var list ListPool
	var servers []*queueServer
	for range 3 {
		q := newQueueServer(t, time.Millisecond)
		servers, list = append(servers, q), append(list, strings.TrimPrefix(q.URL, "http://"))
	}
	l, o := startLoad(t, servers[0].URL, "p90 < 200ms", func(lo *LoadOptions) { lo.Pool, lo.Highest = list, 150 })
	c, err := Run(context.Background(), l, Options{
		Mode: "servers", Bounds: DefaultBounds(),
		Search: search.Options{Objective: o, Lowest: 1, Highest: 3, Integer: true, Falling: true, Step: 700 * time.Millisecond, Discard: 100 * time.Millisecond, Budget: 2100 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range c.Steps {
		if s.Asked != 150 || !(s.Rate > 30 && s.Rate < 400) || i == 0 && s.X != 3 {
			t.Errorf("%v servers: asked %v, answered %v", s.X, s.Asked, s.Rate)
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
	l, o := startLoad(t, q.URL, "p90 < 200ms", func(lo *LoadOptions) { lo.Pool, lo.Highest = p, 100 })
	ctx, cancel := context.WithCancelCause(context.Background())
	c, err := Run(ctx, l, Options{
		Mode: "servers", Bounds: DefaultBounds(),
		Search: search.Options{Objective: o, Lowest: 1, Highest: 3, Integer: true, Falling: true, Step: 500 * time.Millisecond, Discard: 100 * time.Millisecond},
		Tell: func(c *api.Capacity) {
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
	l, o := startLoad(t, q.URL, "p90 < 300ms and errors < 5%", nil)
	var once sync.Once
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	c, err := Run(ctx, l, Options{
		Mode: "rate", Bounds: DefaultBounds(),
		Search: search.Options{Objective: o, Lowest: 50, Highest: 800, Step: 500 * time.Millisecond, Discard: 100 * time.Millisecond},
		Tell: func(c *api.Capacity) {
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
	file := filepath.Join(t.TempDir(), "servers")
	p := &CommandPool{Apply: "sh -c 'sleep 0.5; echo {{servers}} >> " + file + "' && true", Before: 3, Timeout: 100 * time.Millisecond}
	if err := p.Set(context.Background(), 1); err == nil || !strings.Contains(err.Error(), "longer than 100ms") {
		t.Fatal(err)
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
		p := &CommandPool{Apply: `[ {{servers}} = 2 ] && sleep 5; echo {{servers}}/$SERVERS >> ` + file, Before: 3}
		if err := p.Set(context.Background(), 1); err != nil {
			t.Fatal(err)
		}
		g, ended := p.guard, make(chan error, 1)
		if running {
			go func() { ended <- p.Set(context.Background(), 2) }()
			time.Sleep(100 * time.Millisecond) // until it runs; the test holds if it does not yet
		}
		g.pipe.Close() // as the kernel does
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
