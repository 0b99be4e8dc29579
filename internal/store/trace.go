package store

import (
	"context"
	"errors"
)

// ErrNoTrace reports that no trace of the requested id is kept.
var ErrNoTrace = errors.New("no such trace")

// TraceID is a trace's 16 bytes as W3C Trace Context orders them.
type TraceID [16]byte

// Why is the set of reasons why a trace was kept.
type Why uint8

const (
	WhySlow     Why = 1 << iota // the slowest request of its operation and slot
	WhyFailed                   // a failed request
	WhyExemplar                 // stands for its bucket of durations
)

// TraceEntry is one request (a service's entry span) of a kept trace, by which the trace
// is found.
type TraceEntry struct {
	Span                       [8]byte
	Service, Operation, Tenant string
	Failed                     bool
	Why                        Why // 0 if the trace was kept only for another of its requests
	StartNanos, DurationNanos  int64
}

// Trace is a kept trace. Data is opaque to the store (package traces writes it).
type Trace struct {
	ID      TraceID
	Entries []TraceEntry // at least one, at most MaxTraceEntries
	Data    []byte
}

// MaxTraceEntries bounds the requests by which one trace is found.
const MaxTraceEntries = 64

// TraceQuery selects requests of kept traces that *start* in
// [StartNanos, EndNanos) and whose duration lies in [MinNanos, MaxNanos].
type TraceQuery struct {
	Service, Operation, Tenant string // empty: any
	Failed                     *bool  // nil: any
	Why                        Why    // any of these; 0: any
	StartNanos, EndNanos       int64
	MinNanos, MaxNanos         int64 // MaxNanos 0: no bound
	Order                      TraceOrder
	Limit                      int // default 100
}

// TraceOrder is the order of requests, which decides those within the limit.
type TraceOrder uint8

const (
	Slowest TraceOrder = iota
	Newest
)

// TraceHit is one request of a kept trace.
type TraceHit struct {
	ID TraceID
	TraceEntry
}

// Traces is the part of a Store that keeps whole traces, bounded by age and by
// space: the oldest go first, and are counted.
type Traces interface {
	// PutTraces keeps traces, and replaces those with the same id. Unlike Put they need
	// not survive a crash of the machine, only of the process. Of entries of one span
	// the first counts.
	PutTraces(ctx context.Context, traces []Trace) error
	// Traces returns the requests that match, in the requested order, each once. Equally
	// slow ones are sorted newest first, equally new ones slowest first, then by trace
	// and span ids.
	Traces(ctx context.Context, q TraceQuery) ([]TraceHit, error)
	// Trace returns a kept trace, or an error that wraps ErrNoTrace.
	Trace(ctx context.Context, id TraceID) (*Trace, error)
}
