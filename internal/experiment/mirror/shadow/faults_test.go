package shadow

import (
	"context"
	"slices"
	"testing"
	"time"

	"tailscope/internal/experiment/mirror/mirrortest"
	"tailscope/internal/experiment/mirror/pair"
)

// TestFaults offers copies to servers that misbehave: each ends with its cause,
// nobody waits, and nothing is held afterwards.
func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		name   string
		way    mirrortest.Way
		down   bool
		body   int // streamed; 0: none
		causes []pair.Cause
		change func(*Options)
	}{
		{name: "well", way: mirrortest.Answer(200, "x"), causes: []pair.Cause{pair.None}},
		{name: "slow", way: mirrortest.Sleep(20 * time.Millisecond), causes: []pair.Cause{pair.None}},
		{name: "sleeps too long", way: mirrortest.Sleep(20 * time.Second), causes: []pair.Cause{pair.TimedOut, pair.Expired}},
		{name: "refuses", way: mirrortest.Hang(), down: true, causes: []pair.Cause{pair.Refused}},
		{name: "hangs", way: mirrortest.Hang(), causes: []pair.Cause{pair.TimedOut, pair.Expired}},
		{name: "hangs, body", way: mirrortest.Hang(), body: 8 << 20, causes: []pair.Cause{pair.BodyBehind, pair.BufferFull, pair.TimedOut, pair.Expired},
			change: func(o *Options) { o.Buffer = 4 << 20 }},
		{name: "silent", way: mirrortest.Silent(), causes: []pair.Cause{pair.TimedOut, pair.Expired}},
		{name: "resets at once", way: mirrortest.ResetAtOnce(), causes: []pair.Cause{pair.Reset, pair.Refused}},
		{name: "resets in the request", way: mirrortest.ResetRequest(1 << 10), body: 4 << 20, causes: []pair.Cause{pair.Reset}},
		{name: "resets in the answer", way: mirrortest.ResetAnswer(), causes: []pair.Cause{pair.Reset}},
		{name: "drips", way: mirrortest.Drip(time.Millisecond), causes: []pair.Cause{pair.TimedOut, pair.Expired}},
		{name: "endless", way: mirrortest.Endless(), causes: []pair.Cause{pair.AnswerLimit},
			change: func(o *Options) { o.AnswerLimit = 1 << 20 }},
		{name: "endless, without a limit", way: mirrortest.Endless(), causes: []pair.Cause{pair.TimedOut, pair.Expired}, change: func(o *Options) { o.AnswerLimit = 1 << 50 }},
		{name: "early answers without end", way: mirrortest.Processing(), causes: []pair.Cause{pair.BadAnswer}},
		{name: "garbage", way: mirrortest.Garbage(), causes: []pair.Cause{pair.BadAnswer}},
		{name: "closes", way: mirrortest.CloseAfter(3, false), causes: []pair.Cause{pair.None}},
		{name: "no connection in time", way: mirrortest.Hang(), causes: []pair.Cause{pair.ConnectTime}, change: func(o *Options) {
			o.Connect = 20 * time.Millisecond
			o.Dial = dialNever
		}},
		{name: "no TLS", way: mirrortest.Garbage(), causes: []pair.Cause{pair.Handshake, pair.ConnectTime}, change: func(o *Options) {
			o.Servers = []string{"https" + o.Servers[0][len("http"):]}
			o.Connect = 2 * time.Second // the handshake fails long before
		}},
		{name: "no HTTP/2", way: mirrortest.Garbage(), causes: []pair.Cause{pair.Handshake, pair.ConnectTime}, change: func(o *Options) {
			o.Servers = []string{"h2c" + o.Servers[0][len("http"):]}
			o.Connect = 2 * time.Second // the handshake fails long before
		}},
		{name: "queue", way: mirrortest.Sleep(20 * time.Second), causes: []pair.Cause{pair.QueueFull, pair.TimedOut, pair.Expired},
			change: func(o *Options) { o.Queue, o.Connections = 3, 2 }},
		{name: "buffer", way: mirrortest.Sleep(20 * time.Second), causes: []pair.Cause{pair.BufferFull, pair.TimedOut, pair.Expired},
			change: func(o *Options) { o.Buffer, o.Connections = 200, 2 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := mirrortest.Start(t, tt.way)
			if tt.down {
				s.Down()
			}
			l := testSender(t, func(o *Options) {
				o.Timeout, o.Connections = 30*time.Second, 8
				if slices.Contains(tt.causes, pair.TimedOut) {
					o.Timeout = 150 * time.Millisecond
				}
				if tt.change != nil {
					tt.change(o)
				}
			}, s)
			var longest time.Duration
			seen := map[pair.Cause]int{}
			round := func(copies int) {
				var enders []*ender
				for range copies {
					p := get("/")
					var spool *Spool
					if tt.body > 0 {
						p, spool = stream(int64(tt.body))
					}
					before := time.Now()
					enders = append(enders, offer(l, p, 1))
					if spool != nil {
						part := make([]byte, 64<<10)
						for range tt.body / len(part) {
							spool.Write(part)
						}
						spool.Close(nil)
					}
					longest = max(longest, time.Since(before))
				}
				for _, e := range enders {
					leg := e.wait(t)[0]
					seen[leg.Cause]++
					if !slices.Contains(tt.causes, leg.Cause) {
						t.Errorf("ended with %s", legText(leg))
					}
					if begun := leg.Start != 0; begun && leg.Cause != pair.None && leg.Cause < pair.Stopped {
						t.Errorf("begun, and dropped: %s", legText(leg))
					}
				}
			}
			round(24)
			// On a machine with much else to do connections may have stood too late.
			for try := 0; try < 20 && seen[tt.causes[0]] == 0 && tt.causes[0] != pair.Reset; try++ {
				round(4)
			}
			if seen[tt.causes[0]] == 0 && tt.causes[0] != pair.Reset { // which connect may find, too
				t.Errorf("none ended with %q: %v", causeText[tt.causes[0]], seen)
			}
			// As much as a machine with other things to do may take, and less than
			// anything that the server does.
			if longest > 10*time.Second {
				t.Errorf("offering took %v", longest)
			}
			if held, _ := l.Buffered(); held != 0 {
				t.Errorf("%d bytes are held", held)
			}
		})
	}
}

// TestUnannouncedClose: a server that closes without a word is found out before
// a write is sent, and a read is sent again.
func TestUnannouncedClose(t *testing.T) {
	s := mirrortest.Start(t, mirrortest.CloseAfter(1, true))
	l := testSender(t, nil, s)
	for i := range 50 {
		if i%2 == 0 {
			checkWhole(t, one(t, l, get("/")), 200, 2)
			continue
		}
		// A write that is sent while the server closes is lost, and nobody can
		// know that it may be sent again.
		eventually(t, func() bool { return s.Connections() == 0 }, "closing")
		e := newEnder(1)
		p := post("x")
		l.Offer(Copy{Payload: p, To: e, Copies: 1, Write: true})
		p.Release()
		checkWhole(t, e.wait(t)[0], 200, 2)
	}
}

func TestBodyLimit(t *testing.T) {
	s := mirrortest.Start(t, mirrortest.Answer(200, ""))
	l := testSender(t, func(o *Options) { o.BodyLimit = 1000 }, s)
	p, spool := stream(1001)
	if leg := offer(l, p, 1).wait(t)[0]; leg.Cause != pair.BodyLimit || leg.Start != 0 {
		t.Errorf("said to be too long: %s", legText(leg))
	}
	spool.Close(nil)
	p, spool = stream(-1)
	e := offer(l, p, 1)
	spool.Write(make([]byte, 600))
	time.Sleep(10 * time.Millisecond) // so that it is being sent
	spool.Write(make([]byte, 600))
	if leg := e.wait(t)[0]; leg.Cause != pair.BodyLimit {
		t.Errorf("too long: %s", legText(leg))
	}
}

func TestClientClosed(t *testing.T) {
	s := mirrortest.Start(t, mirrortest.Answer(200, ""))
	l := testSender(t, nil, s)
	p, spool := stream(1000)
	e := offer(l, p, 2)
	spool.Write(make([]byte, 600))
	spool.Abort(pair.ClientClosed)
	for _, leg := range e.wait(t) {
		if leg.Cause != pair.ClientClosed {
			t.Errorf("ended with %s", legText(leg))
		}
	}
	if s.Whole() != 0 {
		t.Error("the server has a whole request of a client that broke off")
	}
	checkWhole(t, one(t, l, get("/")), 200, 0)
}

func TestBackoff(t *testing.T) {
	s := mirrortest.Start(t, mirrortest.Answer(200, ""))
	s.Down()
	l := testSender(t, nil, s)
	if leg := one(t, l, get("/")); leg.Cause != pair.Refused {
		t.Fatalf("ended with %s", legText(leg))
	}
	if down := l.State().Servers[0].Down; down != "dial: connect: connection refused" {
		t.Errorf("down: %q", down)
	}
	if err := s.Up(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for one(t, l, get("/")).Cause != pair.None {
		if time.Now().After(deadline) {
			t.Fatal("the server is up, and not reached")
		}
		time.Sleep(5 * time.Millisecond)
	}
	if down := l.State().Servers[0].Down; down != "" {
		t.Errorf("up, and down: %q", down)
	}
}

func TestClose(t *testing.T) {
	s := mirrortest.Start(t, mirrortest.Silent())
	l := testSender(t, func(o *Options) { o.Connections, o.Spread = 2, time.Hour }, s)
	e := offer(l, get("/"), 10)
	f := newEnder(5)
	p := get("/")
	for range 5 {
		l.Offer(Copy{Payload: p, To: f, Copies: 1})
	}
	p.Release()
	for s.Requests() < 2 {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if err := l.Close(ctx); err == nil {
		t.Error("closing had to break copies off, and said nothing")
	}
	for _, leg := range append(e.wait(t), f.wait(t)...) {
		if leg.Cause != pair.Stopped {
			t.Errorf("ended with %s", legText(leg))
		}
	}
	if leg := one(t, l, get("/")); leg.Cause != pair.Stopped {
		t.Errorf("after the end: %s", legText(leg))
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestCloseWaits: copies under way may end.
func TestCloseWaits(t *testing.T) {
	s := mirrortest.Start(t, mirrortest.Sleep(50*time.Millisecond))
	l := testSender(t, nil, s)
	e := offer(l, get("/"), 3)
	for s.Requests() < 3 {
		time.Sleep(time.Millisecond)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for _, leg := range e.wait(t) {
		checkWhole(t, leg, 200, 4)
	}
}

// TestBreakingServerIsLeftAlone: a server that breaks every connection gets a few
// of them, not one for each copy, and all of them again once it is well.
func TestBreakingServerIsLeftAlone(t *testing.T) {
	s := mirrortest.Start(t, mirrortest.ResetAnswer())
	l := testSender(t, nil, s)
	const copies = 400
	seen := map[pair.Cause]int{}
	for range copies {
		seen[offer(l, get("/"), 1).wait(t)[0].Cause]++
	}
	if seen[pair.Reset] != copies {
		t.Errorf("got %v, want %d resets", seen, copies)
	}
	if n := s.Accepted(); n >= copies/4 {
		t.Errorf("%d connections were made for %d copies", n, copies)
	}
	if down := l.State().Servers[0].Down; down == "" {
		t.Error("nothing is said of a server that breaks every connection")
	}
	s.Set(mirrortest.Answer(200, "ok"))
	eventually(t, func() bool { return offer(l, get("/"), 1).wait(t)[0].Cause == pair.None }, "an answer")
	eventually(t, func() bool {
		offer(l, get("/"), 1).wait(t)
		return l.State().Servers[0].Down == ""
	}, "a server that is well")
}
