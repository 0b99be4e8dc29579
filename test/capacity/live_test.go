//go:build servers

package capacity_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/experiment/capacity"
	"tailscope/internal/experiment/capacity/objective"
	"tailscope/internal/experiment/capacity/search"
	"tailscope/internal/experiment/mirror"
)

// session mirrors a primary's clients to a pool.
func session(t *testing.T, primary string, pool []string, change func(*mirror.Options)) *mirror.Session {
	t.Helper()
	o := mirror.Default()
	o.Listen, o.Primary, o.Candidates = "127.0.0.1:0", primary, []mirror.Pool{{Servers: pool}}
	if change != nil {
		change(&o)
	}
	s, err := mirror.Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Close(ctx)
	})
	return s
}

// searchLive runs a search.
func searchLive(t *testing.T, o capacity.LiveOptions, s search.Options, text string) *api.Capacity {
	t.Helper()
	var err error
	if o.Objective, err = objective.Parse(text); err != nil {
		t.Fatal(err)
	}
	l, err := capacity.NewLive(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	run := capacity.Options{Search: s}
	l.Options(&run)
	run.Report = func(c *api.Capacity) {
		if n := len(c.Steps); n > 0 {
			t.Logf("%s | %s %.3g: %.4g/s, p99 %.0f ms, errors %.3g, %s %s", c.Progress, c.Steps[n-1].Phase, float64(c.Steps[n-1].X), float64(c.Steps[n-1].Rate),
				1e3*float64(c.Steps[n-1].Latency.Quantiles["0.99"]), float64(c.Steps[n-1].Errors), c.Steps[n-1].Kept, c.Steps[n-1].Stopped)
		}
	}
	c, err := capacity.Run(t.Context(), l, run)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %s", c.Verdict, c.Headline)
	for _, s := range c.Steps {
		t.Logf("%s %.3g: asked %.4g/s, %.4g/s, N %.3g, waited %.1f ms, %s %s after %.3f s %s", s.Phase, float64(s.X), float64(s.Asked), float64(s.Rate), float64(s.Concurrency), 1e3*float64(s.Waited), s.Kept, s.Stopped, float64(s.StoppedAfter), s.Why)
		for _, o := range s.Objectives {
			t.Logf("    %s: %.4g (%.4g–%.4g) %s", o.Text, float64(o.Value), float64(o.Low), float64(o.High), o.Kept)
		}
	}
	for _, w := range c.Warnings {
		t.Logf("warning: %s", w.Text)
	}
	if !c.Restored || c.Failed != "" {
		t.Fatalf("restored %v %s, failed %q", c.Restored, c.RestoreError, c.Failed)
	}
	return c
}

// within checks that the interval of the answer allows for what is known, that what is
// surely borne was not stopped, and that what is surely too much was: chance among live
// clients does not let the answer itself be sharp in so short a time.
func within(t *testing.T, c *api.Capacity, low, high float64) {
	t.Helper()
	for _, w := range c.Warnings {
		if w.Code == "paused" || w.Code == "late" {
			t.Skipf("other programs keep the machine busy, which would be judged: %s", w.Text)
		}
	}
	if c.Answer == nil {
		t.Fatalf("no answer: %s", c.Headline)
	}
	if from, to := float64(c.Answer.Low), float64(c.Answer.High); from > high || to < low {
		t.Errorf("%s: between %v and %v %s, want between %v and %v: %s", c.Verdict, from, to, c.Unit, low, high, c.Headline)
	}
	if c.Unit == capacity.Servers {
		low, high = -high, -low
	}
	for _, s := range c.Steps {
		x := float64(s.X)
		if c.Unit == capacity.Servers {
			x = -x
		}
		switch stopped := s.Stopped != ""; {
		case !stopped && x > 1.3*high && x > 0 || !stopped && x < 0 && x > 0.7*high:
			t.Errorf("%v %s were held to the end: p99 %v s", s.X, c.Unit, s.Latency.Quantiles["0.99"])
		case stopped && float64(s.StoppedAfter) > 1:
			t.Errorf("%v %s were gone %v s after they were too much", s.X, c.Unit, s.StoppedAfter)
		}
	}
}

// Copies of live requests are amplified until the candidate's queue grows. It has 8
// workers of 20 ms: it cannot do more than 400 requests a second; live clients send 100.
func TestAmplifiedCopies(t *testing.T) {
	primary, candidate := newAppServer(t, 64, always(2*time.Millisecond)), newAppServer(t, 8, always(20*time.Millisecond))
	s := session(t, primary.URL, []string{candidate.URL}, nil)
	live := startClients(t, "http://"+s.Addr().String()+"/", 100)
	c := searchLive(t, capacity.LiveOptions{Session: s, Unit: capacity.Copies}, search.Options{Lowest: 1, Highest: 16, Budget: 20 * time.Second, Precision: 0.1},
		"p99 < 120ms and errors < 1% and primary p99 < 100ms")
	within(t, c, 2.5, 4.2)
	if x := s.State().Shadows[0]; x.Amplify != 1 || x.Using != 1 {
		t.Errorf("%v copies and %d servers after the search", x.Amplify, x.Using)
	}
	if n := live.failed.Load(); n > 0 {
		t.Errorf("%d of %d live requests failed", n, live.sent.Load())
	}
}

// The same by rate, which copies follow whatever clients send. Its answers report how
// long requests queued, which is what is too much in the end.
func TestAmplifiedRate(t *testing.T) {
	told := &capacity.AnswerTimings{}
	primary, candidate := newAppServer(t, 64, always(2*time.Millisecond)), newAppServer(t, 8, always(20*time.Millisecond))
	s := session(t, primary.URL, []string{candidate.URL}, func(o *mirror.Options) { o.OnHeader = told.Record })
	startClients(t, "http://"+s.Addr().String()+"/", 100)
	c := searchLive(t, capacity.LiveOptions{Session: s, Unit: capacity.Requests, Timings: told}, search.Options{Lowest: 50, Highest: 1000, Budget: 20 * time.Second, Precision: 0.1},
		"p99 < 120ms and errors < 1%")
	within(t, c, 250, 420)
	for _, step := range c.Steps {
		if float64(step.Latency.Count) < 20 {
			continue
		}
		if q, w := float64(step.Queued), float64(step.Worked); step.QueuedBy != "Server-Timing;queue" || !(q >= 0) || !(w > 0.015) || q+w > 0.1 && w > q {
			t.Errorf("at %v requests/s %v s queued by %q, %v s worked", step.X, q, step.QueuedBy, w)
		}
	}
	if x := s.State().Shadows[0]; x.Amplify != 1 {
		t.Errorf("%v copies after the search", x.Amplify)
	}
}

// A pool is shrunk under the traffic that there is: eleven servers of two workers each
// were thought to be needed.
func TestShrunkPool(t *testing.T) {
	primary := newAppServer(t, 64, always(2*time.Millisecond))
	var pool []string
	for i := range 11 {
		pool = append(pool, newAppServer(t, 2, exponential(20*time.Millisecond, uint64(i))).URL)
	}
	s := session(t, primary.URL, pool, nil)
	live := startClients(t, "http://"+s.Addr().String()+"/", 240)
	c := searchLive(t, capacity.LiveOptions{Session: s, Unit: capacity.Servers}, search.Options{Lowest: 1, Highest: 11, Budget: 25 * time.Second},
		"p95 < 150ms and errors < 1%")
	// 240 requests of 20 ms keep 4.8 workers busy: two servers are too few, and of three
	// with six workers a fifth is left.
	within(t, c, 3, 5)
	if x := s.State().Shadows[0]; x.Using != 11 {
		t.Errorf("%d servers are used after the search", x.Using)
	}
	if n := live.failed.Load(); n > 0 {
		t.Errorf("%d of %d live requests failed", n, live.sent.Load())
	}
}

// stoppedStep returns the one that was ended before its time.
func stoppedStep(t *testing.T, c *api.Capacity) *api.CapacityStep {
	t.Helper()
	i := slices.IndexFunc(c.Steps, func(s api.CapacityStep) bool { return s.Stopped != "" })
	if i < 0 {
		t.Fatalf("no step was stopped: %s", c.Headline)
	}
	return &c.Steps[i]
}

// A candidate that hangs in the middle of a step is found out, and what was added is gone,
// within a second.
func TestStopsWithinASecond(t *testing.T) {
	primary, candidate := newAppServer(t, 64, always(2*time.Millisecond)), newAppServer(t, 64, always(5*time.Millisecond))
	s := session(t, primary.URL, []string{candidate.URL}, func(o *mirror.Options) { o.Timeout = 5 * time.Second })
	startClients(t, "http://"+s.Addr().String()+"/", 50)
	o, err := objective.Parse("p99 < 200ms")
	if err != nil {
		t.Fatal(err)
	}
	l, err := capacity.NewLive(t.Context(), capacity.LiveOptions{Session: s, Unit: capacity.Copies, Objective: o})
	if err != nil {
		t.Fatal(err)
	}
	run := capacity.Options{Search: search.Options{Lowest: 4, Highest: 4.001, Step: 30 * time.Second, Discard: 10 * time.Second, Budget: 31 * time.Second}}
	l.Options(&run)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hung := make(chan time.Time, 1)
	time.AfterFunc(3*time.Second, func() {
		candidate.extra.Store(int64(3 * time.Second))
		hung <- time.Now()
	})
	var stopped time.Time
	run.Report = func(c *api.Capacity) {
		if n := len(c.Steps); n > 0 && c.Steps[n-1].Stopped != "" && stopped.IsZero() {
			stopped = time.Now()
			candidate.extra.Store(0)
			cancel()
		}
	}
	c, err := capacity.Run(ctx, l, run)
	if err != nil {
		t.Fatal(err)
	}
	if stopped.IsZero() {
		t.Fatalf("it was not stopped: %+v", c.Headline)
	}
	at := <-hung
	step := stoppedStep(t, c)
	t.Logf("stopped %v after it began to hang: %s; load gone %.3f s after that was seen", stopped.Sub(at), step.Stopped, float64(step.StoppedAfter))
	// The limit is 200 ms: before that nothing is late.
	if d := stopped.Sub(at); d > 1200*time.Millisecond || !(float64(step.StoppedAfter) < 1) {
		t.Errorf("stopped %v after it began to hang", d)
	}
	if x := s.State().Shadows[0]; x.Amplify != 1 || !c.Restored {
		t.Errorf("%v copies after the search", x.Amplify)
	}
}
