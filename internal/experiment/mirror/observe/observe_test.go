package observe

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"tailscope/internal/experiment/mirror/pair"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ms = int64(time.Millisecond)

// A ledger's legs are seen once, by target and operation, from when they were due;
// those that say nothing of a server apart.
func TestObserver(t *testing.T) {
	now := 1000 * ms
	clock := func() int64 { return now }
	b := pair.NewLedger(pair.Options{Service: "shop", Shadows: []pair.Shadow{{Name: "new", Role: pair.Candidate}}, Now: clock, Steady: clock})
	before := b.Begin(pair.Names{Operation: "GET /a"}, nil, false)
	o := New(1, clock)
	b.Observe(o)

	x := b.Begin(pair.Names{Operation: "GET /a"}, []uint8{5}, false)
	y := b.Skip(pair.Names{Operation: "GET /b"}, pair.Share)
	w := b.Skip(pair.Names{Operation: "GET /socket"}, pair.Upgrade)
	before.EndPrimary(pair.Leg{Start: now, End: now + ms, Status: 200})
	now += 30 * ms
	x.EndPrimary(pair.Leg{Start: now - 10*ms, End: now, Status: 200})
	x.Sent(0)
	x.EndCopy(0, pair.Leg{Due: now - 20*ms, Start: now - 5*ms, End: now, Status: 503})
	x.EndCopy(0, pair.Leg{Due: now - 9*ms, Cause: pair.Expired})
	x.Sent(0)
	x.EndCopy(0, pair.Leg{Due: now - 9*ms, Start: now - 9*ms, Cause: pair.TimedOut})
	x.EndCopy(0, pair.Leg{Due: now, Cause: pair.BufferFull})

	got := o.Take()
	if len(got) != 2 {
		t.Fatalf("%d targets", len(got))
	}
	a := got[0].Seen["GET /a"]
	if a == nil || a.Begun != 1 || a.Ended != 1 || a.Errors != 0 || a.Latency.Count != 1 || a.Latency.Max != 0.03 || a.Service.Max != 0.01 {
		t.Errorf("the primary's GET /a: %+v", a)
	}
	if v := got[0].Seen["GET /b"]; v == nil || v.Begun != 1 || v.Ended != 0 {
		t.Errorf("the primary's GET /b: %+v", v)
	}
	if u := got[0].Under; len(u) != 1 || u["GET /b"] != (Under{N: 1, Oldest: 30 * time.Millisecond}) {
		t.Errorf("under way at the primary: %+v", u)
	}
	c := got[1].All()
	if c.Ended != 3 || c.Errors != 3 || c.Refused != 1 || c.Lost != 1 || c.Latency.Max != 0.02 || c.Service.Max != 0.005 || c.Failed.Count != 1 || c.Failed.Max != 0.009 {
		t.Errorf("copies: %+v", c)
	}

	y.EndPrimary(pair.Leg{Start: now, Cause: pair.TimedOut})
	w.EndPrimary(pair.Leg{Start: now, End: now + 1000*ms, Status: 101})
	x.EndCopy(0, pair.Leg{Due: now - 7*ms, Start: now - 7*ms, End: now, Status: 200})
	got = o.Take()
	if p := got[0].All(); p.Begun != 0 || p.Ended != 1 || p.Errors != 1 || p.Latency.Count != 0 || len(got[0].Under) != 0 {
		t.Errorf("the primary later: %+v, %+v", p, got[0].Under)
	}
	if c := got[1].All(); c.Ended != 1 || c.Errors != 0 || c.Latency.Max != 0.007 {
		t.Errorf("copies later: %+v", c)
	}
	b.Observe(nil)
	b.Skip(pair.Names{Operation: "GET /a"}, pair.Share).EndPrimary(pair.Leg{Start: now, End: now, Status: 200})
	if p := o.Take()[0]; len(p.Seen)+len(p.Under) != 0 {
		t.Errorf("nobody looks, and there is %+v", p)
	}
}

// Names come from clients: they do not take memory without bound.
func TestOperationsAreBounded(t *testing.T) {
	b := pair.NewLedger(pair.Options{Service: "shop"})
	o := New(0, nil)
	b.Observe(o)
	const n = 20_000
	for i := range n {
		name := string([]rune{rune('a' + i%1000), rune('a' + i/1000)})
		b.Skip(pair.Names{Operation: name}, pair.Share).EndPrimary(pair.Leg{Start: 1, End: 2, Status: 200})
	}
	got := o.Take()[0]
	if len(got.Seen) > shards*(maxOperations+1) {
		t.Errorf("%d operations", len(got.Seen))
	}
	if all := got.All(); all.Begun != n || all.Ended != n {
		t.Errorf("lost some: %+v", all)
	}
}
