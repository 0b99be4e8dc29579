package server

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
)

const (
	// leastGrowth and mostGrowth are the growth of the heap, in percent of what is alive,
	// after which it is collected. Most of the memory is tables without pointers, which cost
	// the collector little.
	leastGrowth, mostGrowth = 15, 100
	// easyHeap is the size in bytes up to which the heap may grow by more than leastGrowth.
	easyHeap = 160 << 20
)

// PaceCollector has the heap collected as seldom as its size allows: when it has doubled
// while it is small, when it has grown by leastGrowth once it is large. It does nothing if
// GOGC is in the environment. It is for programs that are only a server. The function that
// it returns ends it.
func PaceCollector() (end func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	p := &collectorPace{growth: leastGrowth}
	before := debug.SetGCPercent(leastGrowth)
	p.await()
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ended = true
		debug.SetGCPercent(before)
	}
}

// collectorPace sets the growth after each collection.
type collectorPace struct {
	mu     sync.Mutex
	growth int64
	ended  bool
}

// await has adapt called when the next collection has ended.
func (p *collectorPace) await() {
	// Nothing refers to it, so that the next collection finds it.
	runtime.AddCleanup(new([64]byte), (*collectorPace).adapt, p)
}

func (p *collectorPace) adapt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	if g := heapGrowth(liveHeap()); g != p.growth {
		p.growth = g
		debug.SetGCPercent(int(g))
	}
	p.await()
}

// heapGrowth returns the growth, in percent, of a heap of so many live bytes.
func heapGrowth(live int64) int64 {
	return min(max((easyHeap-live)*100/max(live, 1), leastGrowth), mostGrowth)
}
