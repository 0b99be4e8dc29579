package server

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestHeapGrowth(t *testing.T) {
	for _, c := range []struct{ live, want int64 }{
		{0, mostGrowth},
		{easyHeap / 2, mostGrowth},
		{easyHeap / 4 * 3, 33},
		{easyHeap, leastGrowth},
		{8 * easyHeap, leastGrowth},
	} {
		if got := heapGrowth(c.live); got != c.want {
			t.Errorf("live %d MiB: growth %d %%, want %d %%", c.live>>20, got, c.want)
		}
	}
}

// After a collection the growth is that of the live heap, and at the end what it was before.
func TestPaceCollector(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(77)
	defer debug.SetGCPercent(before)
	end := PaceCollector()
	growth := func() int { g := debug.SetGCPercent(50); debug.SetGCPercent(g); return g }
	if g := growth(); g != leastGrowth {
		t.Errorf("growth %d %% before the first collection, want %d %%", g, leastGrowth)
	}
	runtime.GC()
	for until := time.Now().Add(10 * time.Second); growth() == leastGrowth && time.Now().Before(until); {
		runtime.Gosched()
	}
	if g := growth(); g <= leastGrowth {
		t.Errorf("growth %d %% of a small heap after a collection", g)
	}
	end()
	runtime.GC()
	if g := growth(); g != 77 {
		t.Errorf("growth %d %% after the end, want 77 %%", g)
	}
}
