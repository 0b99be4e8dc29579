package shadow

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"tailscope/internal/experiment/mirror/mirrortest"
	"tailscope/internal/experiment/mirror/pair"
)

// Copies under way are listed with their age, waiting or sent, and no longer after
// their end.
func TestUnderWay(t *testing.T) {
	hold := make(chan struct{})
	s := mirrortest.Start(t, mirrortest.Func(func(*mirrortest.Request, []byte) (int, string) {
		<-hold
		return 200, ""
	}))
	l := testSender(t, func(o *Options) { o.Connections = 2 }, s)
	ledger := pair.NewLedger(pair.Options{Service: "shop", Shadows: []pair.Shadow{{Name: "candidate", Role: pair.Candidate}}})
	before := pair.Steady()
	for range 5 {
		x := ledger.Begin(pair.Names{Operation: "GET /a"}, []uint8{1}, false)
		p := get("/a")
		l.Offer(Copy{Payload: p, To: x, Copies: 1})
		p.Release()
		x.EndPrimary(pair.Leg{Start: 1, End: 2})
	}
	var under []Under
	eventually(t, func() bool {
		under = l.UnderWay(under[:0])
		waits := 0
		for _, u := range under {
			if u.Waits {
				waits++
			}
		}
		return len(under) == 5 && waits == 3
	}, "two copies sent and three that wait")
	now := pair.Steady()
	for _, u := range under {
		if u.Operation != "GET /a" || u.Due < before || u.Due > now {
			t.Errorf("under way: %+v, offered from %d to %d", u, before, now)
		}
	}
	close(hold)
	eventually(t, func() bool { return len(l.UnderWay(nil)) == 0 }, "all to end")
	if a := ledger.Account(0); a.Answered != 5 {
		t.Errorf("account: %+v", a)
	}
}

// Copies on a connection of HTTP/2 are listed too.
func TestUnderWayOnHTTP2(t *testing.T) {
	hold := make(chan struct{})
	url, _ := netServer(t, "h2c", func(http.ResponseWriter, *http.Request) { <-hold })
	l := testSender(t, func(o *Options) { o.Servers = []string{url} })
	e := offer(l, get("/"), 1)
	eventually(t, func() bool {
		u := l.UnderWay(nil)
		return len(u) == 1 && !u[0].Waits && u[0].Due > 0 && u[0].Due <= pair.Steady()
	}, "a stream")
	close(hold)
	e.wait(t)
	if leg := e.legs[0]; leg.Due == 0 || leg.Due > leg.Start {
		t.Errorf("due %d, sent %d", leg.Due, leg.Start)
	}
}

// A copy that waited was due when it began to wait, or when it was to be sent.
func TestDue(t *testing.T) {
	s := mirrortest.Start(t, mirrortest.Sleep(30*time.Millisecond))
	l := testSender(t, func(o *Options) { o.Connections, o.Spread = 1, 20*time.Millisecond }, s)
	before := pair.Steady()
	legs := offer(l, get("/"), 2).wait(t)
	first, second := legs[0], legs[1]
	if first.Due < before || first.Due > first.Start {
		t.Errorf("the first was due %d after it was offered and %d before it was sent", first.Due-before, first.Start-first.Due)
	}
	if wait := second.Due - before; wait < int64(10*time.Millisecond) || second.Due > second.Start {
		t.Errorf("the second was due %v after the request, %v before it was sent", time.Duration(wait), time.Duration(second.Start-second.Due))
	}
}

// Shedding drops what amplifying has added and leaves the first of each request.
func TestShed(t *testing.T) {
	hold := make(chan struct{})
	s := mirrortest.Start(t, mirrortest.Func(func(*mirrortest.Request, []byte) (int, string) {
		<-hold
		return 200, ""
	}))
	l := testSender(t, func(o *Options) { o.Connections, o.Spread = 1, time.Hour }, s)
	var all []*ender
	for range 3 {
		all = append(all, offer(l, get("/"), 4))
	}
	e := newEnder(3) // copies that are due and wait for the connection
	l.o.Spread = 0
	p := get("/")
	l.Offer(Copy{Payload: p, To: e, Copies: 3})
	p.Release()
	eventually(t, func() bool { return len(l.UnderWay(nil)) == 6 }, "the copies that are due")
	if n := l.Shed(); n != 3*3+2 {
		t.Errorf("%d copies were shed, want 11", n)
	}
	close(hold)
	for _, e := range append(all, e) {
		legs := e.wait(t)
		whole := slices.IndexFunc(legs, func(l pair.Leg) bool { return l.Cause == pair.None })
		if whole < 0 {
			t.Errorf("the first copy was shed too: %v", legs)
			continue
		}
		for _, leg := range slices.Delete(legs, whole, whole+1) {
			if leg.Cause != pair.Stopped || leg.Start != 0 {
				t.Errorf("ended with %s", legText(leg))
			}
		}
	}
	if n := s.Requests(); n != 4 {
		t.Errorf("%d requests were sent, want 4", n)
	}
}
