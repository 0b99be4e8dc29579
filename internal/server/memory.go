package server

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"tailscope/internal/config"
)

const (
	// mappedBytes is the memory of a process outside its heap and the store's own
	// memory: the pages of the program that are in use, 60 to 68 MiB after a quarter of an
	// hour, stacks of threads, the allocator of C.
	mappedBytes = 72 << 20
	// easyMemory is the bound from which nothing is left out under a usual load: 40,000
	// spans a second of 10,000 tenants, broken down.
	easyMemory = 512 << 20
)

// LimitHeap makes the garbage collector keep the heap within the bound on the memory of
// the whole program. It does nothing if GOMEMLIMIT is in the environment. It is for
// programs that are only a server.
func LimitHeap(cfg config.Config, log *slog.Logger) {
	bound := cfg.MemoryBound(os.DirFS("/"))
	shares := cfg.MemoryShares(bound.Bytes)
	limit := heapLimit(bound.Bytes, &shares)
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit)
	} else {
		limit = debug.SetMemoryLimit(-1)
	}
	args := []any{"bound", roundMiB(bound.Bytes), "from", bound.From, "heap", roundMiB(limit)}
	for _, s := range shares.List() {
		args = append(args, s.Part, roundMiB(s.Bytes))
	}
	log.Info("memory", args...)
}

// heapLimit returns the part of a bound that the Go runtime may use.
func heapLimit(bound int64, s *config.Shares) int64 {
	rest := bound - mappedBytes
	if storeOutside {
		rest -= s.StoreCache + s.Memtables()
	}
	return max(rest, bound/2)
}

func roundMiB(n int64) string {
	if n == math.MaxInt64 {
		return "unbounded"
	}
	return strconv.FormatInt((n+1<<19)>>20, 10) + "MiB"
}

// memoryReason explains what is held back for lack of memory, in a line and in full.
type memoryReason struct{ summary, text string }

// memoryReasons returns what is held back for lack of memory now, or nil.
func (s *Server) memoryReasons() []memoryReason {
	var reasons []memoryReason
	if s.bound.Bytes < easyMemory {
		reasons = append(reasons, memoryReason{"Memory is small: busy minutes may lose detail. Raise limits.memory.", fmt.Sprintf("memory is bounded by %d MiB (%s): open traces take at most %d MiB, what is not flushed %d MiB, a question %d MiB; %d MiB are enough for all",
			s.bound.Bytes>>20, s.bound.From, s.shares.Traces>>20, s.shares.OpenSlots>>20, s.shares.Question>>20, int64(easyMemory)>>20)})
	}
	if s.agg != nil && s.agg.Overloaded() {
		reasons = append(reasons, memoryReason{"Memory is full: senders are asked to retry. Raise limits.memory.", "what is not flushed is at its bound: senders are asked to retry"})
	}
	return reasons
}

// memoryPart is the memory of one part of the server.
type memoryPart struct {
	name  string
	bytes int64
	limit int64 // 0 if it is within that of the part before it
	c     bool  // memory of C, which the garbage collector does not see
}

// memoryParts lists the parts that hold memory. All but those of C add up to about the
// live heap: see the test.
func (s *Server) memoryParts() []memoryPart {
	a, st := s.agg.Stats(), s.data.sizes()
	parts := []memoryPart{
		{name: "open_slots", bytes: a.SlotBytes, limit: s.shares.OpenSlots},
		{name: "series", bytes: a.SeriesBytes},
		{name: "streams", bytes: a.StreamBytes},
		{name: "flush", bytes: a.KeptBytes},
		{name: "store_cache", bytes: st.cache, limit: s.shares.StoreCache, c: storeOutside},
		{name: "memtables", bytes: st.memtables, limit: s.shares.Memtables(), c: storeOutside},
		{name: "index", bytes: st.index, limit: s.shares.Index},
		{name: "samples", bytes: s.samples.Bytes(), limit: s.shares.Samples},
		{name: "seconds", bytes: s.seconds.Stats().Bytes, limit: s.shares.Seconds},
		{name: "questions", bytes: s.questions.Used(), limit: s.shares.Questions},
		{name: "program", bytes: s.program.Load()},
	}
	if s.traces != nil {
		p := memoryPart{name: "traces", bytes: s.traces.Stats().MemoryBytes, limit: s.shares.Traces}
		if s.forward != nil {
			p.bytes += s.forward.Stats().QueueBytes
		}
		parts = append(parts, p)
	}
	if s.otlp != nil {
		d := s.otlp.Stats()
		parts = append(parts, memoryPart{name: "targets", bytes: d.TargetBytes, limit: s.shares.Targets},
			memoryPart{name: "ingest", bytes: d.InFlightBytes, limit: s.shares.Ingest})
	}
	return parts
}

// weighProgram measures the memory of the program before its first work.
func (s *Server) weighProgram() {
	runtime.GC()
	rest := liveHeap()
	for _, p := range s.memoryParts() {
		if !p.c && p.name != "program" {
			rest -= p.bytes
		}
	}
	s.program.Store(max(rest, 0))
}

// leastIdle is the least idle heap, in bytes, that is worth a collection.
const leastIdle = 32 << 20

// releaseMemory returns free memory to the system: the idle Go heap when it is more than an
// eighth of the live one, since a rollup leaves much and the runtime keeps it for
// minutes; and what the store's cache freed.
func releaseMemory() {
	trimOutside()
	m := []runtimemetrics.Sample{{Name: "/memory/classes/heap/free:bytes"}}
	runtimemetrics.Read(m)
	if int64(m[0].Value.Uint64()) > max(liveHeap()/8, leastIdle) {
		debug.FreeOSMemory()
	}
}

// liveHeap returns the bytes that the last garbage collection found alive.
func liveHeap() int64 {
	m := []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}}
	runtimemetrics.Read(m)
	return int64(m[0].Value.Uint64())
}

var (
	memoryBytes = prometheus.NewDesc("tailscope_memory_bytes",
		"Memory by the part that holds it. Those with heap=\"go\" come to tailscope_live_heap_bytes, about.", []string{"part", "heap"}, nil)
	memoryLimit = prometheus.NewDesc("tailscope_memory_limit_bytes",
		"What a part may hold; part=\"all\" is limits.memory, part=\"go\" what the Go runtime keeps within.", []string{"part"}, nil)
	liveHeapBytes = prometheus.NewDesc("tailscope_live_heap_bytes",
		"Bytes of the heap that the last garbage collection found alive.", nil, nil)
)

// memoryCollector collects the memory of each part.
type memoryCollector struct{ s *Server }

func (c memoryCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- memoryBytes
	ch <- memoryLimit
	ch <- liveHeapBytes
}

func (c memoryCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, level, float64(v), labels...)
	}
	for _, p := range c.s.memoryParts() {
		heap := "go"
		if p.c {
			heap = "c"
		}
		gauge(memoryBytes, p.bytes, p.name, heap)
		if p.limit > 0 {
			gauge(memoryLimit, p.limit, p.name)
		}
	}
	gauge(memoryLimit, c.s.bound.Bytes, "all")
	gauge(memoryLimit, debug.SetMemoryLimit(-1), "go")
	gauge(liveHeapBytes, liveHeap())
}
