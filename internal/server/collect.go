package server

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
)

const (
	// growPercent is the growth of the heap, in percent, after which it is collected. Most
	// of the memory is tables without pointers, which cost the collector little: it can
	// run often, and leave little to collect.
	growPercent = 15
	// growBytes is the least growth, unless it is more than an eighth of the memory limit.
	// The tables of a server that begins are small: 15 % of them is soon reached, and a
	// collection costs the same wake-ups of all cores.
	growBytes = 32 << 20
)

// PaceCollector makes the garbage collector run when the heap has grown by 15 %, and by at
// least 32 MiB or an eighth of the runtime's memory limit. It does nothing if GOGC is in
// the environment. It is for programs that are only a server, after LimitHeap.
func PaceCollector() {
	if os.Getenv("GOGC") == "" {
		paceOnce.Do(func() {
			debug.SetGCPercent(collectAfter(liveHeap(), debug.SetMemoryLimit(-1)))
			runtime.SetFinalizer(&sentinel{}, (*sentinel).collected)
		})
	}
}

var paceOnce sync.Once

// collectAfter returns the growth in percent of a heap of so many live bytes after which
// it is collected, under a limit of the runtime's memory.
func collectAfter(live, limit int64) int {
	return int(max(growPercent, min(growBytes, limit/8)*100/max(live, 1<<20)))
}

// sentinel is garbage at each collection, and is kept for the next.
type sentinel struct{ percent int }

func (s *sentinel) collected() {
	// Setting it stops all goroutines for a moment, so that small changes are left out.
	if p := collectAfter(liveHeap(), debug.SetMemoryLimit(-1)); p-s.percent > s.percent/8 || s.percent-p > p/8 {
		debug.SetGCPercent(p)
		s.percent = p
	}
	runtime.SetFinalizer(s, (*sentinel).collected)
}
