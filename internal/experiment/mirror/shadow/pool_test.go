package shadow

import (
	"math"
	"sync"
	"testing"
	"time"

	"tailscope/internal/experiment/mirror/mirrortest"
	"tailscope/internal/experiment/mirror/pair"
)

// burst has n copies under way at a time, rounds times.
func burst(t *testing.T, l *Sender, n, rounds int) (causes map[pair.Cause]int) {
	t.Helper()
	causes = map[pair.Cause]int{}
	for range rounds {
		var enders []*ender
		for range n {
			enders = append(enders, offer(l, get("/"), 1))
		}
		for _, e := range enders {
			causes[e.wait(t)[0].Cause]++
		}
	}
	return causes
}

func TestPoolChangesItsSize(t *testing.T) {
	var servers []*mirrortest.Server
	for range 4 {
		servers = append(servers, mirrortest.Start(t, mirrortest.Answer(200, "ok")))
	}
	l := testSender(t, nil, servers...)
	requests := func() (all []int) {
		for _, s := range servers {
			all = append(all, s.Requests())
		}
		return all
	}
	for _, using := range []int{4, 1, 2, 0, 3, 4} {
		if err := l.SetUsing(using); err != nil {
			t.Fatal(err)
		}
		// Connections are being made while the first copies go out: how they are
		// shared out is seen once they stand.
		for try := 1; ; try++ {
			before := requests()
			causes := burst(t, l, 8, 20)
			after := requests()
			if using == 0 {
				if causes[pair.NoServer] != 160 {
					t.Errorf("using none: %v", causes)
				}
				break
			}
			if causes[pair.None] != 160 {
				t.Errorf("using %d: %v", using, causes)
			}
			even := true
			for i := range servers {
				got := after[i] - before[i]
				if i >= using && got > 0 {
					t.Errorf("using %d: %d requests to server %d", using, got, i)
				}
				part := 160 / using // about
				even = even && (i >= using || got >= part/2 && got <= part*2)
			}
			if even {
				break
			}
			if try == 50 {
				t.Fatalf("using %d: %v to %v", using, before, after)
			}
		}
	}
	if err := l.SetUsing(1); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		n := 0
		for _, s := range servers[1:] {
			n += s.Connections()
		}
		return n == 0
	}, "connections to servers no longer used")
	if l.SetUsing(5) == nil || l.SetUsing(-1) == nil {
		t.Error("a pool of 4 is set to use 5, or -1")
	}
}

// TestPoolShrinksUnderWay: copies under way to a server that is taken out of the
// pool are finished.
func TestPoolShrinksUnderWay(t *testing.T) {
	a := mirrortest.Start(t, mirrortest.Sleep(60*time.Millisecond))
	b := mirrortest.Start(t, mirrortest.Sleep(60*time.Millisecond))
	l := testSender(t, nil, a, b)
	var enders []*ender
	for range 10 {
		enders = append(enders, offer(l, get("/"), 1))
	}
	eventually(t, func() bool { return a.Whole()+b.Whole() == 10 }, "requests")
	if a.Whole() == 0 || b.Whole() == 0 {
		t.Fatalf("%d and %d requests", a.Whole(), b.Whole())
	}
	if err := l.SetUsing(1); err != nil {
		t.Fatal(err)
	}
	for _, e := range enders {
		checkWhole(t, e.wait(t)[0], 200, 4)
	}
	eventually(t, func() bool { return b.Connections() == 0 }, "connections")
}

// TestOneOfThePoolIsDown: the others take what it would have had.
func TestOneOfThePoolIsDown(t *testing.T) {
	a := mirrortest.Start(t, mirrortest.Answer(200, "ok"))
	b := mirrortest.Start(t, mirrortest.Answer(200, "ok"))
	b.Down()
	l := testSender(t, nil, a, b)
	if causes := burst(t, l, 8, 20); causes[pair.None] != 160 {
		t.Errorf("one of two is down: %v", causes)
	}
	st := l.State()
	if st.Servers[0].Down != "" || st.Servers[1].Down == "" {
		t.Errorf("state: %+v", st.Servers)
	}
	if err := b.Up(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		burst(t, l, 8, 1)
		return b.Requests() > 0
	}, "the server that is up again")
}

func eventually(t *testing.T, ok func() bool, what string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not in time", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestDiverged(t *testing.T) {
	t.Parallel() // it waits for most of its time
	s := mirrortest.Start(t, mirrortest.Answer(503, "no"))
	l := testSender(t, func(o *Options) { o.Timeout = 2 * time.Second }, s)
	write := func() {
		e := newEnder(1)
		p := post("x")
		p.Target = append(p.Target, "?token=secret"...)
		l.Offer(Copy{Payload: p, To: e, Copies: 1, Write: true})
		p.Release()
		e.wait(t)
	}
	write()
	if st := l.State(); !math.IsNaN(float64(st.Diverged)) {
		t.Errorf("diverged although the write was delivered: %s", st.DivergedWhy)
	}
	s.Set(mirrortest.Silent())
	one(t, l, get("/"))
	if st := l.State(); !math.IsNaN(float64(st.Diverged)) {
		t.Errorf("diverged by a read: %s", st.DivergedWhy)
	}
	write()
	st := l.State()
	if math.Abs(float64(st.Diverged)-float64(time.Now().UnixNano())/1e9) > 10 ||
		st.DivergedWhy != "POST /post did not arrive whole: no answer within the time limit" {
		t.Errorf("diverged at %v: %q", st.Diverged, st.DivergedWhy)
	}
	s.Down()
	write()
	if again := l.State(); again.Diverged != st.Diverged || again.DivergedWhy != st.DivergedWhy {
		t.Error("the first write that was missed is what counts")
	}
}

func TestCopiesByFactor(t *testing.T) {
	s := mirrortest.Start(t, mirrortest.Answer(200, ""))
	l := testSender(t, nil, s)
	for _, tt := range []struct {
		factor float64
		want   []uint8
	}{
		{1, []uint8{1, 1, 1, 1}},
		{2.5, []uint8{2, 3, 2, 3, 2, 3}},
		{0, []uint8{0, 0, 0}},
		{0.25, []uint8{0, 0, 0, 1, 0, 0, 0, 1}},
		{0.1, []uint8{0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0}},
		{255, []uint8{255, 255}},
	} {
		if err := l.SetAmplify(tt.factor); err != nil {
			t.Fatal(err)
		}
		for i, want := range tt.want {
			if got := l.Copies(false); got != want {
				t.Errorf("factor %v: request %d gets %d copies, want %d", tt.factor, i, got, want)
			}
		}
		if got := float64(l.State().Amplify); got != tt.factor {
			t.Errorf("state: %v", got)
		}
	}
	if l.SetAmplify(-1) == nil || l.SetAmplify(256) == nil || l.SetAmplify(math.NaN()) == nil {
		t.Error("a factor out of range is taken")
	}
	if err := l.SetAmplify(0.5); err != nil {
		t.Fatal(err)
	}
	l.Copies(true)
	if why := l.State().DivergedWhy; why == "" {
		t.Error("a write without a copy, and not diverged")
	}
}

// TestSpread sends copies of one request over some time.
func TestSpread(t *testing.T) {
	var mu sync.Mutex
	var at []time.Time
	s := mirrortest.Start(t, mirrortest.Func(func(x *mirrortest.Request, _ []byte) (int, string) {
		mu.Lock()
		defer mu.Unlock()
		at = append(at, time.Now())
		return 200, ""
	}))
	l := testSender(t, func(o *Options) { o.Spread = 200 * time.Millisecond }, s)
	begin := time.Now()
	e := offer(l, get("/"), 4)
	for _, leg := range e.wait(t) {
		checkWhole(t, leg, 200, 0)
	}
	mu.Lock()
	defer mu.Unlock()
	for i, a := range at {
		// Never early; how late depends on the machine.
		if want := time.Duration(i) * 50 * time.Millisecond; a.Sub(begin) < want {
			t.Errorf("copy %d came after %v, want %v", i, a.Sub(begin), want)
		}
	}
	if held, _ := l.Buffered(); held != 0 {
		t.Errorf("%d bytes are held", held)
	}
}

// TestSpreaderInOrder drives the spreader by a clock of its own.
func TestSpreaderInOrder(t *testing.T) {
	l := &Sender{}
	s := newSpreader(l)
	for i := range 100 {
		if cause := s.add(job{k: i}, int64(i*37%100)); cause != pair.None {
			t.Fatal(causeText[cause])
		}
	}
	var due []job
	seen := 0
	for now := int64(0); now < 100; now += 10 {
		var wait time.Duration
		due, wait = s.takeDue(due[:0], now)
		for _, j := range due {
			if want := int64(j.k * 37 % 100); j.since != want || want > now {
				t.Errorf("at %d came copy %d, due at %d", now, j.k, want)
			}
			seen++
		}
		if now < 90 && wait != 1 {
			t.Errorf("at %d: %d to wait", now, wait)
		}
	}
	due, wait := s.takeDue(due[:0], 99)
	if seen+len(due) != 100 || wait >= 0 {
		t.Errorf("%d copies, then %d to wait", seen+len(due), wait)
	}
	if len(s.close(nil)) != 0 || s.add(job{}, 0) != pair.Stopped {
		t.Error("closed, and not empty")
	}
}

// TestLate counts copies that were sent behind their time.
func TestLate(t *testing.T) {
	s := mirrortest.Start(t, mirrortest.Answer(200, ""))
	l := testSender(t, nil, s)
	checkWhole(t, offer(l, get("/"), 1).wait(t)[0], 200, 0)
	if late := l.State().Late; late != 0 {
		t.Errorf("%d late of one copy that was sent at once", late)
	}
	e := newEnder(1)
	if cause := l.spread.add(job{p: get("/"), to: e}, time.Now().Add(-time.Second).UnixNano()); cause != pair.None {
		t.Fatal(causeText[cause])
	}
	checkWhole(t, e.wait(t)[0], 200, 0)
	if late := l.State().Late; late != 1 {
		t.Errorf("%d late of one copy that was", late)
	}
}

// TestUnusedConnections are closed after a while.
func TestUnusedConnections(t *testing.T) {
	s := mirrortest.Start(t, mirrortest.Answer(200, ""))
	l := testSender(t, func(o *Options) { o.Idle = 20 * time.Millisecond }, s)
	for range 2 {
		checkWhole(t, one(t, l, get("/")), 200, 0)
		eventually(t, func() bool { return s.Connections() == 0 && l.State().Servers[0].Connections == 0 }, "closing what is not used")
	}
}
