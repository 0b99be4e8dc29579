package check

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tailscope/api"
)

// Everything that may happen at once does: what is wrong with it the race
// detector says, and that nobody waits for ever the bubble.
func TestAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, two+perOperation[indexOf(perOperation, "  slow:"):])
		file, fewer := w.o.File, w.o.File
		fewer.Checks = fewer.Checks[1:]
		w.probe.set("parent:80", 0.1)
		w.probe.set("child:80", 5)
		ctx, cancel := context.WithCancel(context.Background())
		var all sync.WaitGroup
		again := func(every time.Duration, f func()) {
			all.Go(func() {
				for ctx.Err() == nil {
					f()
					time.Sleep(every)
				}
			})
		}
		again(700*time.Millisecond, func() { _, _ = w.List(ctx, ListRequest{}) })
		again(1100*time.Millisecond, func() { _, _ = w.Get(ctx, GetRequest{ID: "child"}) })
		again(1300*time.Millisecond, func() { _, _ = w.RunNow(ctx, "child") })
		again(1700*time.Millisecond, func() { _, _ = w.RunNow(ctx, `slow{operation="GET /a"}`) })
		again(3*time.Second, func() { _, _ = w.Acknowledge(ctx, "child", api.Ack{User: "eva"}) })
		again(7*time.Second, func() { _, _ = w.Unacknowledge(ctx, "child", "eva") })
		again(5*time.Second, func() {
			m, err := w.AddMaintenance(ctx, api.Maintenance{Name: "m", End: api.UnixTime(time.Now().Add(2 * time.Second))})
			if err == nil {
				_ = w.EndMaintenance(ctx, m.ID)
			}
		})
		again(11*time.Second, func() { _ = w.Replace(ctx, fewer) })
		again(13*time.Second, func() { _ = w.Replace(ctx, file) })
		again(time.Second, func() { w.Stats() })
		again(9*time.Second, func() {
			_, _ = w.Backtest(ctx, api.CheckBacktest{Check: "calls", Start: api.UnixTime(time.Now().Add(-10 * time.Minute))})
		})
		w.traffic(2*time.Minute, map[string]float64{"GET /a": 0.1, "GET /b": 2})
		if err := w.Replace(ctx, file); err != nil {
			t.Error(err)
		}
		cancel()
		all.Wait()
		time.Sleep(30 * time.Second)
		w.expect(w.list(`check="parent"`), "parent OK 0.1")
		w.stop()
	})
}
