package check

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tailscope/internal/store/storetest"
)

// A clock that is set back by hours does not stop checks for so long.
func TestTheClockIsSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Int64
		w := &world{t: t, store: &mortal{Store: storetest.NewTwin()}, probe: newProbes(), notes: &notes{}}
		// Without the monotonic reading, as between a sleep and the next.
		w.o.Now = func() time.Time { return time.Now().Round(0).Add(-time.Duration(back.Load())) }
		w.open(two + `
  after: {after: parent, delay: 30s, value: {tcp: {address: "after:80"}}}
`)
		w.probe.set("parent:80", 0.1)
		w.probe.set("child:80", 0.1)
		time.Sleep(time.Minute)
		back.Store(int64(2 * time.Hour))
		before, after := w.probe.ran("parent:80"), w.probe.ran("after:80")
		w.probe.set("parent:80", 5)
		time.Sleep(75 * time.Second)
		if n := w.probe.ran("parent:80") - before; n < 6 || n > 8 {
			t.Errorf("%d runs in 75 seconds", n)
		}
		if n := w.probe.ran("after:80") - after; n < 1 || n > 3 {
			t.Errorf("%d runs after it in 75 seconds", n)
		}
		w.expect(w.notes.take(), "parent opened 1 OK>CRITICAL: parent is CRITICAL: 5 is above 1")
		w.stop()
	})
}

// A machine that slept for hours does not make up for the runs, and one whose clock
// jumps runs each check once.
func TestTheMachineSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var forth atomic.Int64
		w := &world{t: t, store: &mortal{Store: storetest.NewTwin()}, probe: newProbes(), notes: &notes{}}
		w.o.Now = func() time.Time { return time.Now().Round(0).Add(time.Duration(forth.Load())) }
		w.open(two)
		w.probe.set("parent:80", 0.1)
		time.Sleep(time.Minute)
		before := w.probe.ran("parent:80")
		forth.Store(int64(5 * time.Hour))
		time.Sleep(15 * time.Second)
		if n := w.probe.ran("parent:80") - before; n < 1 || n > 3 {
			t.Errorf("%d runs in 15 seconds", n)
		}
		if s := w.Stats(); s.Skipped > 0 {
			t.Errorf("%+v", s)
		}
		w.stop()
	})
}

const followed = `
checks:
  each:
    every: 1m
    each: {series: 'span_duration_seconds{service="shop"}', by: [operation]}
    value: {tcp: {address: "each:80"}}
  after: {after: each, value: {tcp: {address: "after:80"}}}
  same:
    after: each
    each: {series: 'span_duration_seconds{service="shop"}', by: [operation]}
    value: {tcp: {address: "same:80"}}
`

// What runs after all instances of an Each runs once for all, and what has the same
// labels once after its own.
func TestAfterEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, followed)
		for _, name := range []string{"each:80", "after:80", "same:80"} {
			w.probe.set(name, 1)
		}
		ops := map[string]float64{}
		for i := range 20 {
			ops[fmt.Sprintf("GET /%d", i)] = 0.1
		}
		w.traffic(time.Minute, ops)
		time.Sleep(5 * time.Minute)
		ran := func() [3]int { return [3]int{w.probe.ran("each:80"), w.probe.ran("after:80"), w.probe.ran("same:80")} }
		before := ran()
		time.Sleep(10 * time.Minute)
		now := ran()
		each, after, same := now[0]-before[0], now[1]-before[1], now[2]-before[2]
		if each < 190 || each > 210 || after < 9 || after > 11 || same < each-20 || same > each+20 {
			t.Errorf("each ran %d times, what follows all %d, what follows one %d", each, after, same)
		}
		w.stop()
	})
}
