package pair

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

const durationsOfNew = `mirror_duration_seconds{experiment="e1", operation="op", service="shop", status="ok", variant="new"}`

const mirrored = `mirror_requests_total{experiment="e1", outcome="mirrored", service="shop"}`

// one makes a request that is copied and answered.
func one(b *Ledger, c *clock, operation string) {
	x := b.Begin(Names{Operation: operation}, []uint8{0, 1}, false)
	x.EndPrimary(answer(c, 200, 10))
	x.Sent(1)
	x.EndCopy(1, answer(c, 200, 20))
}

// What a sink refuses is put later, in its own slot and once.
func TestRefusedIsPutLater(t *testing.T) {
	b, m, c := testLedger(t, Options{})
	m.setRefuse(true)
	for range 30 { // 60 s
		one(b, c, "op")
		if err := b.Flush(context.Background()); !errors.Is(err, errFull) {
			t.Fatalf("error %v, want the sink's", err)
		}
		c.nanos += 2 * second
	}
	s := b.Stats()
	if s.Refused != 30 || s.Lost != 0 || !errors.Is(s.Err, errFull) {
		t.Errorf("stats %+v", s)
	}
	if want := 6 * 7; s.Held != want {
		t.Errorf("%d distributions held, want %d: those of a slot are put together", s.Held, want)
	}
	m.setRefuse(false)
	one(b, c, "op")
	flush(t, b)
	for _, at := range []int64{1_000_000, 1_000_010, 1_000_050} {
		if n := m.dists[memoryKey{durationsOfNew, at}].Count; n != 5 {
			t.Errorf("%d requests at %d, want 5", n, at)
		}
	}
	if n := m.count(mirrored); n != 31 {
		t.Errorf("%v requests counted, want 31", n)
	}
	if n := m.total(durationsOfNew).Count; n != 31 {
		t.Errorf("%d requests, want 31", n)
	}
	if s := b.Stats(); s.Held != 0 || s.Err != nil {
		t.Errorf("stats %+v", s)
	}
}

// While a sink refuses, the oldest goes once too much is held, and is counted.
func TestHeldIsBounded(t *testing.T) {
	b, m, c := testLedger(t, Options{MaxHeld: 21})
	m.setRefuse(true)
	for range 5 {
		one(b, c, "op")
		_ = b.Flush(context.Background())
		c.nanos += 10 * second
	}
	if s := b.Stats(); s.Held != 21 || s.Lost != 2*7 {
		t.Errorf("%d held and %d lost, want 21 and 14", s.Held, s.Lost)
	}
	m.setRefuse(false)
	flush(t, b)
	if n := m.total(durationsOfNew).Count; n != 3 {
		t.Errorf("%d requests, want the latest 3", n)
	}
	if m.dists[memoryKey{durationsOfNew, 1_000_000}] != nil {
		t.Error("the oldest was kept")
	}
	if n := m.count(mirrored); n != 5 {
		t.Errorf("%v requests counted, want 5: counters are not given up", n)
	}
}

// Many names are put in parts, and what was taken before a refusal is not put
// again.
func TestPutInParts(t *testing.T) {
	b, m, c := testLedger(t, Options{})
	for i := range 1000 {
		one(b, c, fmt.Sprint("op", i))
	}
	flush(t, b)
	if want := 1000 * 7 / (pointsAPut - b.records.width); m.puts < want || m.puts > want+2 {
		t.Errorf("%d puts, want some %d", m.puts, want)
	}
	if len(m.dists) != 7000 {
		t.Errorf("%d distributions, want 7000", len(m.dists))
	}
}

func TestNamesAreBounded(t *testing.T) {
	b, m, c := testLedger(t, Options{MaxNames: 4})
	for i := range 20 {
		x := b.Skip(Names{fmt.Sprint("op", i%4), fmt.Sprint("t", i)}, Share)
		x.EndPrimary(answer(c, 200, 1))
	}
	for i := range 20 {
		x := b.Skip(Names{fmt.Sprint("x", i), "t"}, Share)
		x.EndPrimary(answer(c, 200, 1))
	}
	flush(t, b)
	if s := b.Stats(); s.Folded != 36 || s.Names > 2*4+1 {
		t.Errorf("%d folded into %d names, want 36 into at most 9", s.Folded, s.Names)
	}
	const of = `mirror_duration_seconds{experiment="e1", mirrored="no", operation="%s", service="shop", status="ok", tenant="%s", variant="primary"}`
	for _, f := range []struct {
		operation, tenant string
		want              uint64
	}{{"op0", "t0", 1}, {"op0", "_other", 4}, {"_other", "_other", 20}} {
		if n := m.total(fmt.Sprintf(of, f.operation, f.tenant)).Count; n != f.want {
			t.Errorf("%d requests of %s and %s, want %d", n, f.operation, f.tenant, f.want)
		}
	}
}

// Names that are not seen for long leave memory, unless an exchange is open.
func TestIdleNamesAreDropped(t *testing.T) {
	b, m, c := testLedger(t, Options{})
	open := b.Begin(Names{Operation: "open"}, []uint8{0, 1}, false)
	open.EndPrimary(answer(c, 200, 10))
	one(b, c, "idle")
	flush(t, b)
	c.nanos += int64(11 * time.Minute)
	one(b, c, "op")
	flush(t, b)
	if n := b.Stats().Names; n != 2 {
		t.Errorf("%d names in memory, want open and op", n)
	}
	open.EndCopy(1, answer(c, 200, 20))
	flush(t, b)
	if n := m.total(`mirror_ratio{against="primary", experiment="e1", operation="open", service="shop", status="ok", variant="new"}`).Count; n != 1 {
		t.Errorf("%d ratios of an exchange that was open for long, want 1", n)
	}
	c.nanos += int64(20 * time.Minute)
	flush(t, b)
	if n := b.Stats().Names; n != 0 {
		t.Errorf("%d names in memory, want none", n)
	}
}

// Run puts every two seconds, just after they are over, and once more when it
// is ended. A Put that hangs delays nothing but puts.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := func() int64 { return time.Now().UnixNano() }
		b, m, _ := testLedger(t, Options{Now: now})
		m.wait = make(chan struct{})
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- b.Run(ctx) }()
		for range 25 { // 25 s; the first Put hangs for ten
			one(b, &clock{now()}, "op")
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if s := b.Stats(); s.Refused != 2 || !errors.Is(s.Err, context.DeadlineExceeded) {
			t.Errorf("stats %+v, want two puts that took too long", s)
		}
		close(m.wait)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := m.total(durationsOfNew).Count; n != 25 {
			t.Errorf("%d requests put, want 25", n)
		}
		one(b, &clock{now()}, "op")
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if n := m.total(durationsOfNew).Count; n != 26 {
			t.Errorf("%d requests put in the end, want 26", n)
		}
		slots := map[int64]uint64{}
		for key, h := range m.dists {
			if key.series == durationsOfNew {
				slots[key.at%1000] = h.Count
			}
			if key.at%10 != 0 {
				t.Errorf("a point at %d s, which begins no slot", key.at)
			}
		}
		if len(slots) != 4 {
			t.Errorf("slots %v", slots)
		}
	})
}

// What the last Put does not take is lost, counted, and Run's error.
func TestRunEndsWithARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, m, c := testLedger(t, Options{})
		m.setRefuse(true)
		one(b, c, "op")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := b.Run(ctx); !errors.Is(err, errFull) {
			t.Errorf("error %v, want the sink's", err)
		}
		if s := b.Stats(); s.Lost != 7 || s.Held != 0 {
			t.Errorf("stats %+v, want 7 lost", s)
		}
	})
}
