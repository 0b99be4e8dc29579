package agg

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/hist"
	"tailscope/internal/seconds"
)

// The ring of seconds has the requests that were accepted: not other spans, not their
// parts, none that was refused or is older than it. Several goroutines may commit while
// it is folded and read.
func TestRequestsComeIntoSeconds(t *testing.T) {
	now := time.Unix(1_767_225_600, 0)
	var lapsed atomic.Int64 // nanoseconds: the flusher asks for the time too
	clock := func() time.Time { return now.Add(time.Duration(lapsed.Load())) }
	ring := seconds.New(seconds.Options{Now: clock})
	a, err := Open(t.Context(), &nullStore{}, Options{Writer: "local", Dir: "data/journal", FS: vfs.NewMem(), Now: clock, FlushInterval: time.Hour, SyncInterval: time.Hour, Seconds: ring})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close(context.Background())
	target := func(kind, status, tenant string) Target {
		return a.SpanTarget(&SpanIdentity{Service: "shop", Operation: "GET /", Component: "app", Kind: kind, Status: status, Tenant: tenant})
	}
	var work sync.WaitGroup
	const workers, batches, each = 4, 20, 5
	for w := range workers {
		work.Go(func() {
			for range batches {
				b := a.NewBatch()
				for i := range each {
					end := now.Add(-time.Duration(i) * time.Second).UnixNano()
					b.Observe(target("server", "ok", fmt.Sprint("t", w)), end, 1e6, 1)
					b.Observe(target("consumer", "error", ""), end, 2e6, 8)
					b.Observe(target("client", "ok", ""), end, 3e6, 1)
					b.Observe(selfTarget(a, &SpanIdentity{Service: "shop", Operation: "GET /", Component: "app", Kind: "server"}), end, 4e6, 1)
					b.Observe(target("server", "ok", ""), now.Add(-time.Hour).UnixNano(), 5e6, 1)
					b.Observe(target("server", "ok", ""), end, -1, 1)
				}
				if _, err := b.Commit(context.Background()); err != nil {
					t.Error(err)
				}
				refused := a.NewBatch()
				refused.Observe(target("server", "ok", ""), now.UnixNano(), 6e6, 1)
				refused.Discard()
			}
		})
	}
	for range 50 {
		ring.Fold()
		if _, err := ring.Read("shop", nil, now.Unix()-10, now.Unix(), 1); err != nil {
			t.Error(err)
		}
	}
	work.Wait()
	lapsed.Add(int64(20 * time.Second))
	ring.Fold()
	groups, err := ring.Read("shop", nil, clock().Unix()-60, clock().Unix(), 60)
	if err != nil || len(groups) != 1 {
		t.Fatalf("%v, %d operations", err, len(groups))
	}
	for name, h := range map[string]*hist.Histogram{"good": groups[0].Good[0], "failed": groups[0].Failed[0]} {
		weight, seconds := uint64(1), 1e-3
		if name == "failed" {
			weight, seconds = 8, 2e-3
		}
		if h == nil || h.Count != workers*batches*each*weight || h.Min != seconds || h.Max != seconds || h.Weighted != (weight > 1) {
			t.Errorf("%s: %+v", name, h)
		}
	}
	if s := ring.Stats(); s.Observations != workers*batches*each*2 || s.Series != 2 {
		t.Errorf("%+v", s)
	}
}

// Spans that are not requests wait a minute for a server's span of their service, as their
// children come first after a start. A service that served an hour ago serves no more.
func TestOthersComeIntoSeconds(t *testing.T) {
	var lapsed atomic.Int64 // nanoseconds: the flusher asks for the time too
	clock := func() time.Time { return time.Unix(1_767_225_600, lapsed.Load()) }
	ring := seconds.New(seconds.Options{Now: clock})
	a, err := Open(t.Context(), &nullStore{}, Options{Writer: "local", Dir: "data/journal", FS: vfs.NewMem(), Now: clock, FlushInterval: 24 * time.Hour, SyncInterval: 24 * time.Hour, Seconds: ring})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close(context.Background())
	send := func(kinds ...string) (came uint64) {
		t.Helper()
		before := ring.Stats().Observations
		b := a.NewBatch()
		for _, kind := range kinds {
			b.Observe(a.SpanTarget(&SpanIdentity{Service: "shop", Operation: "GET /", Component: "app", Kind: kind, Status: "ok"}), clock().UnixNano(), 1e6, 1)
		}
		if _, err := b.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := a.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		lapsed.Add(int64(10 * time.Second))
		ring.Fold()
		return ring.Stats().Observations - before
	}
	for i := range graceGenerations {
		if n := send("client"); n != 0 {
			t.Fatalf("after %d generations %d came", i, n)
		}
	}
	if since, ok := ring.Since("shop"); !ok || since < clock().Unix()-20 {
		t.Errorf("complete since %d s ago, %v: nothing was counted so far", clock().Unix()-since, ok)
	}
	if n := send("client"); n != 1 {
		t.Errorf("of a service that serves nobody %d came, want 1", n)
	}
	if n := send("server", "client"); n != 1 {
		t.Errorf("of a service that serves %d came, want its request", n)
	}
	for range hourOfGenerations + 2 {
		send("producer")
	}
	a.mu.Lock()
	a.reg.turn()
	a.mu.Unlock()
	if n := send("client"); n != 1 {
		t.Errorf("of a service that served an hour ago %d came, want 1", n)
	}
}
