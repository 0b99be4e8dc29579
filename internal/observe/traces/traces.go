// Package traces assembles spans into traces, computes where each request's time went,
// and keeps the requests worth showing.
//
// A request is a service's entry span: one of kind server or consumer, or the root of
// the trace whatever its kind. Every request of a trace is broken down over its own part
// of the tree, so that an inner service has a breakdown as the outermost one has. Each
// instant of a request is shared equally by its active spans that have no active child,
// so that the parts sum to the request exactly, in nanoseconds; critical-path time is
// computed beside it.
//
// The arithmetic (exclusive.go, critical.go, skew.go) uses no clock, lock or goroutine.
// Assembler owns those: open traces within a bound on memory, a sweep each second that
// closes complete ones, and the results, handed to a Sink (distributions) and a Keeper
// (whole traces).
package traces

import (
	"context"
	"log/slog"
	"time"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Identity identifies a span by the names that its own series have.
type Identity struct {
	Service, Operation, Component string
	Kind                          string // server, client, producer, consumer, internal
	Tenant, Version, Variant      string
	Instance                      string // of the service; for a client span whose callee sends no spans, the address it calls
	Environment                   string // of the service
	System                        string // of a call: mysql, kafka
}

// Name is the number of an Identity within one Assembler; 0 is none. Its upper half numbers
// the tenant, its lower half the rest.
type Name uint64

// Text is the number of a normalised statement within one Assembler; 0 is none.
type Text uint32

// Span is one ended span. Times are Unix nanoseconds, Start <= End.
type Span struct {
	TraceID    store.TraceID
	ID, Parent [8]byte // Parent is zero for a root
	Start, End int64
	Name       Name
	Text       Text   // the statement without its literals
	Detail     []byte // what is worth showing of this one span (URL path, error message); copied, cut at MaxDetail
	Weight     uint32 // number of spans it stands for; 0 means 1
	Failed     bool
	// Queued is when the request was first put into a queue before the span's start
	// (X-Request-Start), Unix nanoseconds; 0 if not known.
	Queued int64
}

// MaxDetail bounds the bytes kept of a span's Detail.
const MaxDetail = 256

// Sink receives the distributions of requests: an aggregator.
type Sink interface {
	NewBatch() Batch
	// SelfGroup resolves what the series of span_self_seconds of all tenants have in common:
	// service, environment, operation, version, variant and kind of a request, its status, and
	// a component that its time was spent in. It is for the next batch.
	SelfGroup(request *Identity, component string, failed bool) Group
	// SeriesTarget resolves a series of another family; its labels are retained.
	SeriesTarget(s series.Series) Target
	// Cohort returns the cohort of a tenant of the service; see series.Cohort.
	Cohort(service, tenant string) string
	// BeforeCut has f called just before what was committed is stored. What f commits is
	// stored with it.
	BeforeCut(f func(context.Context))
}

// Group is what the series of span_self_seconds of tenants have in common.
type Group uint64

// Target is a resolved series, valid while Batch.Epoch is unchanged.
type Target uint64

// Batch is filled and then committed or discarded, once.
type Batch interface {
	Epoch() uint32
	Observe(t Target, endNanos, durationNanos int64, weight uint32)
	// Group adds a group to the batch, and returns its number there.
	Group(g Group) int
	// ObserveMember observes a duration of a tenant in a group of the batch.
	ObserveMember(group int, tenant string, endNanos, durationNanos int64, weight uint32)
	Distribution(t Target, timeNanos int64, h *hist.Histogram)
	Commit(ctx context.Context) error
	Discard()
}

// Keeper keeps whole traces: a store.
type Keeper interface {
	PutTraces(ctx context.Context, traces []store.Trace) error
}

// Options configures an Assembler. Only Sink is required; each other field has a default
// for its zero value.
type Options struct {
	Sink   Sink
	Keeper Keeper // nil: nothing is kept
	// MemoryBytes bounds open traces and tables; default 128 MiB. Near the bound only some of
	// the traces that begin are put together; these count for the others. If the bound is
	// reached all the same, the traces that have waited longest are closed early, those whose
	// root has ended first, and counted as incomplete.
	MemoryBytes int64
	Grace       time.Duration // time after the root, for its unfinished children; default 10 s
	Idle        time.Duration // time after the last span of a trace without a root; default 60 s
	MaxSpans    int           // spans of one trace; others are counted and left out, except the root; default 20,000
	MaxParts    int           // distinct series of the breakdown's parts; others fold into series.Other; default 50,000
	Slots       int64         // seconds of the slots in which the slowest and failed requests are chosen; default 10
	KeepAge     time.Duration // requests that ended longer ago are not kept; 0 is no limit
	Now         func() time.Time
	Leapt       func() time.Duration // how far Now has leapt ahead, which KeepAge does not follow; default 0
	Logger      *slog.Logger
}
