package pebblestore

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// withoutLabels is a store with the labels of the tenants of generations 1 and 2
// in a table each, points of the second in the log, and the table of the second damaged.
func withoutLabels(t *testing.T) vfs.FS {
	t.Helper()
	ctx, fs := context.Background(), vfs.NewMem()
	s := open(t, Options{FS: fs})
	put := func(g uint64) { check(t, s.Put(ctx, batch(g, t0+int64(g)*300, 5))) }
	put(1)
	check(t, s.db.Flush())
	check(t, s.Compact(ctx))
	put(2)
	check(t, s.db.Flush())
	tables := files(t, fs, "data", "", ".sst")
	put(7)
	check(t, s.Close())
	logs := files(t, fs, "data", "", ".log")
	for _, n := range logs[:len(logs)-1] { // Pebble keeps some to use them again
		check(t, fs.Remove("data/"+n))
	}
	change(t, fs, "data/"+tables[len(tables)-1], flipAt(func(n int) int { return n - 20 }))
	return fs
}

// labelsAreLost checks that points whose labels are lost count on, and that a
// new series is not given them.
func labelsAreLost(t *testing.T, fs vfs.FS) {
	t.Helper()
	s := open(t, Options{FS: fs})
	defer s.Close()
	of := func(name, value string) uint64 {
		m := labels.MustNewMatcher(labels.MatchEqual, name, value)
		return count(t, s, store.Query{Start: t0, End: t0 + 86400, Matchers: []*labels.Matcher{m}})
	}
	if n := of("service", lostLabels); n != 10 {
		t.Errorf("%d observations under %s, want 10", n, lostLabels)
	}
	check(t, s.Put(context.Background(), batch(8, t0+8*300, 5)))
	if n := of("tenant", "t3"); n != 10 {
		t.Errorf("the next series has %d observations, want its own 10", n)
	}
	if owed, err := findMarker(fs, "data", mendMarker); err != nil || owed != "" {
		t.Errorf("still owed: %s %v", owed, err)
	}
}

// What a repair has not got back the labels of is not given to others.
func TestRepairKeepsPointsWithoutLabels(t *testing.T) {
	fs := withoutLabels(t)
	r, err := Repair(context.Background(), Options{Dir: "data", FS: fs, MemtableBytes: 1 << 20})
	check(t, err)
	if len(r.Findings) != 0 {
		t.Errorf("after the repair: %+v", r.Findings)
	}
	labelsAreLost(t, fs)
}

// A start that is killed at any write after it has left a table out is made up
// for by the next, and the table is still known to be lost.
func TestStartKilledBeforeMend(t *testing.T) {
	killed, now := 0, 0
	for at := 0; at == killed; at++ {
		fs := withoutLabels(t)
		var mu sync.Mutex
		dropped, seen := false, 0
		var left vfs.FS
		watched := errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
				return nil
			}
			if dropped && seen == at {
				left = clone(t, fs)
			}
			if dropped {
				seen++
			}
			dropped = dropped || strings.Contains(op.Path, "marker.manifest")
			return nil
		}))
		s, err := Open(context.Background(), Options{Dir: "data", FS: watched, MemtableBytes: 1 << 20})
		check(t, err)
		check(t, s.Close())
		if fs = left; fs == nil {
			break // the start has no more writes
		}
		killed++
		if owed, err := findMarker(fs, "data", mendMarker); err == nil && owed != "" {
			now++
		}
		known, err := KnownDamage(Options{Dir: "data", FS: fs})
		check(t, err)
		if len(known) != 1 || !strings.Contains(known[0].Lost, "labels") {
			t.Fatalf("killed at %d: known damage %+v", at, known)
		}
		labelsAreLost(t, fs)
		if t.Failed() {
			t.Fatalf("killed at write %d", at)
		}
	}
	if killed < 10 || now < 5 {
		t.Errorf("killed at %d writes, mending was owed at %d", killed, now)
	}
}

// endingContext is done once it has been asked for its error often enough.
type endingContext struct {
	context.Context
	left int
}

func (e *endingContext) Err() error {
	if e.left--; e.left < 0 {
		return context.Canceled
	}
	return nil
}

// A start that is stopped while it mends, or anywhere else, is made up for by the next.
func TestStartIsStoppedWhileMending(t *testing.T) {
	owed := 0
	for after := 0; ; after++ {
		fs := withoutLabels(t)
		s, err := Open(&endingContext{context.Background(), after}, Options{Dir: "data", FS: fs, MemtableBytes: 1 << 20})
		if err == nil {
			check(t, s.Close())
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("after %d: got %v, want the start to be stopped", after, err)
		}
		if m, err := findMarker(fs, "data", mendMarker); err == nil && m != "" {
			owed++
		}
		labelsAreLost(t, fs)
	}
	if owed == 0 {
		t.Error("no start was stopped while mending was owed")
	}
}

// The kind of a family whose name is lost is derived from its points.
func TestKindOf(t *testing.T) {
	for count := range uint64(2000) {
		n := series.Number{Count: count, Sum: 1.5 * float64(count), Min: 1.5, Max: 1.5, Last: 1.5, LastTimeMillis: 1_772_325_300_000}
		if got := kindOf(store.AppendNumber(nil, n)); got != series.Gauge {
			t.Errorf("a number of %d samples is taken for kind %d", count, got)
		}
	}
	h := hist.New(hist.DefaultSchema)
	for i := range 2000 {
		h.Record(float64(i) * 0.001)
		b, err := h.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := kindOf(b); got != series.Distribution {
			t.Errorf("a histogram of %d is taken for kind %d", i+1, got)
		}
	}
}
