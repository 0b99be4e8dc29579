package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// engines are the ways to send; every test below holds for each.
var engines = []struct {
	name string
	tls  bool
	http Protocol
	run  func(context.Context, Options) (Account, error)
}{
	{name: "events", run: Run},
	{name: "streams", run: runPlainStreams},
	{name: "streams TLS", tls: true, run: Run},
	{name: "HTTP2 TLS", tls: true, http: HTTP2, run: Run},
	{name: "HTTP2", http: HTTP2, run: Run},
}

// runPlainStreams is runStreams on the systems without an event loop.
func runPlainStreams(ctx context.Context, o Options) (Account, error) {
	if err := o.complete(); err != nil {
		return Account{}, err
	}
	if err := o.reach(ctx); err != nil {
		return Account{}, err
	}
	o.Loops = max(o.Loops, 1)
	return runStreams(ctx, o)
}

func eachEngine(t *testing.T, test func(t *testing.T, e *engine)) {
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			test(t, &engine{t: t, tls: e.tls, protocol: e.http, run: e.run})
		})
	}
}

// patient is long beside what a busy machine takes for a request.
const patient = 30 * time.Second

// engine is one way to send, with a target and what was observed.
type engine struct {
	t        *testing.T
	tls      bool
	protocol Protocol
	run      func(context.Context, Options) (Account, error)
	server   *httptest.Server
	// configure, if set, changes the target's configuration of TLS.
	configure func(*tls.Config)

	mu   sync.Mutex
	seen []Observation
	lost []time.Duration // dropped
}

func (e *engine) serve(h http.HandlerFunc) {
	e.server = httptest.NewUnstartedServer(h)
	p := new(http.Protocols)
	p.SetHTTP1(e.protocol == HTTP1)
	p.SetHTTP2(e.tls && e.protocol == HTTP2)
	p.SetUnencryptedHTTP2(!e.tls && e.protocol == HTTP2)
	e.server.Config.Protocols = p
	e.server.Config.ErrorLog = quiet
	if e.tls {
		e.server.EnableHTTP2 = e.protocol == HTTP2
		e.server.TLS = &tls.Config{}
		if e.configure != nil {
			e.configure(e.server.TLS)
		}
		e.server.StartTLS()
	} else {
		e.server.Start()
	}
	e.t.Cleanup(func() {
		e.server.CloseClientConnections()
		e.server.Close()
	})
}

func (e *engine) Observe(o *Observation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen = append(e.seen, *o)
}

func (e *engine) Drop(due time.Duration, _ int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lost = append(e.lost, due)
}

// load runs o against the target and checks what holds for every account.
func (e *engine) load(ctx context.Context, o Options) Account {
	e.t.Helper()
	o.Address = e.server.Listener.Addr().String()
	o.Protocol = e.protocol
	if e.tls && o.TLS == nil {
		o.TLS = &tls.Config{InsecureSkipVerify: true}
	}
	if o.Source == nil {
		o.Source = requests(math.MaxInt, Request{Path: "/"})
	}
	o.Recorder = func(int, int) Recorder { return e }
	if o.Timeout == 0 {
		o.Timeout = patient
	}
	a, err := e.run(ctx, o)
	if errors.Is(err, errors.ErrUnsupported) {
		e.t.Skip("not built yet")
	}
	if err != nil {
		e.t.Fatal(err)
	}
	if a.Due != a.Sent+a.Dropped+a.Unsent || a.Sent != uint64(len(e.seen)) || a.Dropped != uint64(len(e.lost)) {
		e.t.Errorf("the account does not close: %+v, %d observed, %d dropped", a, len(e.seen), len(e.lost))
	}
	for _, s := range e.seen {
		if s.Due > s.Sent || s.Sent > s.End || s.FirstByte < s.Sent || s.FirstByte > s.End || s.Late < 0 || s.Late > s.Sent-s.Due ||
			(s.Status == 0) != (s.Cause != Answered) || s.Check >= 0 && s.Cause != Answered {
			e.t.Fatalf("an observation that cannot be: %+v", s)
		}
	}
	return a
}

// causes counts what was observed.
func (e *engine) causes() map[Cause]int {
	n := map[Cause]int{}
	for _, s := range e.seen {
		n[s.Cause]++
	}
	return n
}

type sourceFunc func(r *Request) bool

func (f sourceFunc) Next(r *Request) bool { return f(r) }

// requests returns a source of n requests in all, the given ones in turn, each with
// its number as query.
func requests(n int, these ...Request) func(int, int) (Source, error) {
	var k atomic.Int64
	return func(int, int) (Source, error) {
		return sourceFunc(func(r *Request) bool {
			i := int(k.Add(1)) - 1
			if i >= n {
				return false
			}
			*r = these[i%len(these)]
			r.Query = i
			return true
		}), nil
	}
}

type pacerFunc func() (time.Duration, int, bool)

func (f pacerFunc) Next() (time.Duration, int, bool) { return f() }

// every is n requests in all, one each gap.
func every(gap time.Duration, n int) func(int, int) (Pacer, error) {
	return func(loop, loops int) (Pacer, error) {
		k := loop
		return pacerFunc(func() (time.Duration, int, bool) {
			due := time.Duration(k) * gap
			phase := k % 3
			k += loops
			return due, phase, k-loops < n
		}), nil
	}
}

func TestOpenLoop(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engine) {
		e.serve(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, strings.Repeat("a", 1000)) })
		a := e.load(t.Context(), Options{Pacer: every(time.Millisecond, 200), Connections: 8, Loops: 2})
		if a.Due != 200 || a.Sent != 200 || e.causes()[Answered] != 200 || a.Exhausted || a.Elapsed < 199*time.Millisecond {
			t.Fatalf("%+v, %v", a, e.causes())
		}
		if a.Connections < 1 || a.Connections > 8 || a.CPU <= 0 || a.Started.IsZero() {
			t.Errorf("%+v", a)
		}
		due := map[time.Duration]bool{}
		for _, s := range e.seen {
			if s.Status != 200 || s.Bytes < 1000 || s.Phase != int(s.Due/time.Millisecond)%3 || s.Due%time.Millisecond != 0 {
				t.Fatalf("%+v", s)
			}
			due[s.Due] = true
		}
		if len(due) != 200 {
			t.Errorf("%d due times", len(due))
		}
	})
}

// What waits for a connection is sent when one is free, and has waited; what
// cannot wait is dropped.
func TestWaitingAndDropping(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engine) {
		e.serve(func(w http.ResponseWriter, r *http.Request) { time.Sleep(50 * time.Millisecond) })
		a := e.load(t.Context(), Options{Pacer: every(time.Millisecond, 20), Connections: 1, Waiting: 4})
		if a.Due != 20 || a.Sent < 5 || a.Sent > 7 || a.Unsent != 0 || a.Connections != 1 {
			t.Fatalf("%+v", a)
		}
		slices.SortFunc(e.seen, func(a, b Observation) int { return int(a.Due - b.Due) })
		last := e.seen[len(e.seen)-1]
		blocked := last.Sent - last.Due - last.Late
		if blocked < 100*time.Millisecond || last.End-last.Sent < 50*time.Millisecond {
			t.Errorf("the last was blocked for %s, late by %s: %+v", blocked, last.Late, last)
		}
		for i, s := range e.seen[1:] {
			if s.Sent < e.seen[i].End {
				t.Errorf("two requests at once: %+v, %+v", e.seen[i], s)
			}
		}
	})
}

func TestClosedLoop(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engine) {
		var under, most atomic.Int64
		e.serve(func(w http.ResponseWriter, r *http.Request) {
			n := under.Add(1)
			defer under.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(5 * time.Millisecond)
		})
		const end = time.Second
		a := e.load(t.Context(), Options{Connections: 4, Duration: end})
		if most.Load() > 4 || most.Load() < 4 && a.Sent > 100 || a.Sent < 4 || a.Due != a.Sent || e.causes()[Answered] != int(a.Sent) {
			t.Errorf("%d at once: %+v, %v", most.Load(), a, e.causes())
		}
		for _, s := range e.seen {
			if s.Due >= end {
				t.Errorf("%+v after the end", s)
			}
		}
	})
}

func TestThinking(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engine) {
		e.serve(func(http.ResponseWriter, *http.Request) {})
		a := e.load(t.Context(), Options{Connections: 1, Source: requests(4, Request{Path: "/", Think: 20 * time.Millisecond})})
		if a.Sent != 4 || !a.Exhausted {
			t.Fatalf("%+v", a)
		}
		before := time.Duration(0)
		for _, s := range e.seen {
			if s.Due < before+20*time.Millisecond {
				t.Errorf("due at %s, after an answer at %s", s.Due, before)
			}
			before = s.End
		}
	})
}

func TestRecordedTimes(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engine) {
		var got sync.Map
		e.serve(func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			got.Store(r.URL.Path+" "+string(b), true)
			time.Sleep(10 * time.Millisecond)
		})
		k := 0
		var body [1]byte
		a := e.load(t.Context(), Options{Connections: 1, Recorded: true, Source: func(int, int) (Source, error) {
			return sourceFunc(func(r *Request) bool {
				if k++; k > 5 {
					return false
				}
				body[0] = '0' + byte(k) // only valid until the next
				*r = Request{Method: "POST", Path: fmt.Sprintf("/%d", k), Body: body[:], Due: time.Duration(k) * time.Millisecond}
				return true
			}), nil
		}})
		if a.Sent != 5 || !a.Exhausted || e.causes()[Answered] != 5 {
			t.Fatalf("%+v %v", a, e.causes())
		}
		for i, s := range e.seen {
			if s.Due != time.Duration(i+1)*time.Millisecond {
				t.Errorf("%+v", s)
			}
			if _, ok := got.Load(fmt.Sprintf("/%d %d", i+1, i+1)); !ok {
				t.Errorf("request %d did not arrive as it was", i+1)
			}
		}
	})
}

func TestRequestsArriveWhole(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engine) {
		large := []byte(strings.Repeat("0123456789", 30_000)) // beyond any first window
		e.serve(func(w http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(r.Body)
			if err != nil || r.Host != "shop.example" || r.Header.Get("X-Kind") != "test" || r.URL.RawQuery != "q=1" {
				w.WriteHeader(400)
				return
			}
			w.Header().Set("X-Method", r.Method)
			_, _ = w.Write(b)
		})
		header := []Field{{"X-Kind", "test"}}
		check := &checkFunc{func(query, status int, header []Field, body []byte) int {
			want := [][]byte{nil, nil, []byte("short"), large}[query%4]
			method := []string{"GET", "HEAD", "POST", "PUT"}[query%4]
			if status != 200 || string(body) != string(want) {
				return 0
			}
			if !slices.ContainsFunc(header, func(f Field) bool { return strings.EqualFold(f.Name, "X-Method") && f.Value == method }) {
				return 1
			}
			return -1
		}}
		a := e.load(t.Context(), Options{Host: "shop.example", Connections: 3, Checker: check, Source: requests(40,
			Request{Path: "/a?q=1", Header: header},
			Request{Path: "/a?q=1", Header: header, Method: "HEAD"},
			Request{Path: "/a?q=1", Header: header, Method: "POST", Body: []byte("short")},
			Request{Path: "/a?q=1", Header: header, Method: "PUT", Body: large},
		)})
		if a.Sent != 40 || !a.Exhausted {
			t.Errorf("%+v", a)
		}
		for _, s := range e.seen {
			if s.Status != 200 || s.Check != -1 {
				t.Fatalf("%+v", s)
			}
			if s.Query%4 == 3 && s.Bytes < int64(len(large)) {
				t.Errorf("%d bytes", s.Bytes)
			}
		}
	})
}

type checkFunc struct {
	check func(query, status int, header []Field, body []byte) int
}

func (c *checkFunc) Wants(int) (header, body bool) { return true, true }
func (c *checkFunc) Check(query, status int, header []Field, body []byte) int {
	return c.check(query, status, header, body)
}

func TestTimeout(t *testing.T) {
	const timeout = 3 * time.Second // in which a busy machine answers what is answered at once
	eachEngine(t, func(t *testing.T, e *engine) {
		e.serve(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				<-r.Context().Done()
			}
		})
		a := e.load(t.Context(), Options{Connections: 2, Timeout: timeout, Drain: time.Minute, Pacer: every(20*time.Millisecond, 4),
			Source: requests(4, Request{Path: "/slow"}, Request{Path: "/"})})
		if n := e.causes(); a.Sent != 4 || n[Timeout] != 2 || n[Answered] != 2 {
			t.Fatalf("%+v %v", a, n)
		}
		for _, s := range e.seen {
			if took := s.End - s.Sent; s.Cause == Timeout && (took < timeout || took > 10*timeout) {
				t.Errorf("timed out after %s", took)
			}
		}
	})
}

// A broken connection fails the request that is under way, and the next one has
// another.
func TestBrokenConnections(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engine) {
		var n atomic.Int64
		e.serve(func(w http.ResponseWriter, r *http.Request) {
			if n.Add(1)%2 == 0 {
				panic(http.ErrAbortHandler)
			}
		})
		a := e.load(t.Context(), Options{Connections: 1, Source: requests(10, Request{Path: "/"})})
		idle := 0 // requests on a connection that was not used for so long that it may be taken for stale
		for i, s := range e.seen[1:] {
			if s.Sent-e.seen[i].End >= 500*time.Millisecond {
				idle++
			}
		}
		again := int(n.Load()) - 10 // sent once more, of which none is a failure
		if c := e.causes(); a.Sent != 10 || again < 0 || again > idle || c[Closed]+c[Reset] != (10+again)/2-again || c[Answered]+c[Closed]+c[Reset] != 10 {
			t.Fatalf("%+v %v, %d sent again, %d after a pause", a, c, again, idle)
		}
	})
}

func TestEndOfTheRun(t *testing.T) {
	for _, how := range []string{"drain", "cancel"} {
		t.Run(how, func(t *testing.T) {
			eachEngine(t, func(t *testing.T, e *engine) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				o := Options{Pacer: every(time.Millisecond, 10), Connections: 2, Drain: 300 * time.Millisecond, Timeout: time.Minute}
				var under atomic.Int64
				e.serve(func(w http.ResponseWriter, r *http.Request) {
					if under.Add(1) == 2 && how == "cancel" {
						time.AfterFunc(50*time.Millisecond, cancel)
					}
					<-r.Context().Done()
				})
				if how == "cancel" {
					o.Drain = time.Minute
				}
				a := e.load(ctx, o)
				if n := e.causes(); a.Due != 10 || a.Sent != 2 || a.Unsent != 8 || n[CutOff] != 2 || a.Elapsed > 10*time.Second {
					t.Errorf("%+v %v", a, n)
				}
			})
		})
	}
}

// A target that cannot keep up does not lengthen the run: what waits at the end stays
// unsent and is counted, and only what is under way may take its time. This target answers
// nothing until the end is over, and then at once.
func TestRunEndsOnTimeUnderOverload(t *testing.T) {
	const length, after = 400 * time.Millisecond, 500 * time.Millisecond
	eachEngine(t, func(t *testing.T, e *engine) {
		answer := make(chan struct{})
		e.serve(func(http.ResponseWriter, *http.Request) { <-answer })
		begun := func(start time.Time) {
			time.AfterFunc(time.Until(start)+length+after, func() { close(answer) })
		}
		a := e.load(t.Context(), Options{Pacer: every(time.Millisecond, 1000), Connections: 2, Duration: length, Timeout: time.Minute, Begun: begun})
		if n := e.causes(); a.Due != 400 || a.Sent != 2 || a.Unsent != 398 || n[Answered] != 2 {
			t.Errorf("%+v %v", a, n)
		}
		if a.Elapsed < length || a.Elapsed > 5*time.Second {
			t.Errorf("it took %s", a.Elapsed)
		}
	})
}

func TestEndOfTheRequests(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engine) {
		e.serve(func(w http.ResponseWriter, r *http.Request) { time.Sleep(10 * time.Millisecond) })
		a := e.load(t.Context(), Options{Pacer: every(100*time.Microsecond, 1000), Connections: 2, Source: requests(7, Request{Path: "/"})})
		if a.Due != 7 || a.Sent != 7 || !a.Exhausted {
			t.Errorf("%+v", a)
		}
	})
}

// A target that goes away while the run goes on fails requests for want of a
// connection.
func TestTargetGoesAway(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engine) {
		var asked atomic.Int64
		away := make(chan struct{})
		e.serve(func(http.ResponseWriter, *http.Request) {
			switch n := asked.Add(1); { // of at most 4 at once: 6 have their answers
			case n == 10:
				go func() {
					defer close(away)
					_ = e.server.Listener.Close()
					e.server.CloseClientConnections()
				}()
			case n > 10:
				<-away // a busy machine may take its time to get there
			}
		})
		a := e.load(t.Context(), Options{Pacer: every(5*time.Millisecond, 60), Connections: 4})
		<-away
		n := e.causes()
		if a.Due != 60 || n[Answered] < 5 || n[Connect] < 5 || n[Answered]+n[Connect]+n[Closed]+n[Reset]+n[TLS] != 60 {
			t.Errorf("%+v %v", a, n)
		}
	})
}

func TestUnreachable(t *testing.T) {
	const address = "127.0.0.1:1"
	eachEngine(t, func(t *testing.T, e *engine) {
		o := Options{Address: address, Protocol: e.protocol, Source: requests(1, Request{}), Recorder: func(int, int) Recorder { return e }}
		if e.tls {
			o.TLS = &tls.Config{InsecureSkipVerify: true}
		}
		if _, err := e.run(t.Context(), o); err == nil || !strings.Contains(err.Error(), address) || !strings.Contains(err.Error(), "hint: ") || len(e.seen) > 0 {
			t.Errorf("error %v", err)
		}
	})
}

var quiet = log.New(io.Discard, "", 0)
