// Package agg turns observations into points: it keeps the open slots of every
// active series in memory, journals what it accepts before it is acknowledged,
// and flushes a generation at a time to the store.
package agg

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// ErrOverloaded says that memory or the journal is at its bound; the sender
// should retry after Options.RetryAfter. Nothing of the batch was accepted.
var ErrOverloaded = errors.New("overloaded")

// Options configures an Aggregator; the zero value of each field means its default.
type Options struct {
	Dir           string        // journal directory
	Writer        string        // name of this writer in the store; default "local"
	FlushInterval time.Duration // default 10 s: generations are cut just after a base slot ends
	SyncInterval  time.Duration // default 1 s: journal fsync; what a power loss may cost
	MemoryBytes   int64         // bound on open slots and tables; default 256 MiB
	MaxTenants    int           // tenants named per service; default 20,000
	MaxOperations int           // operations named per service; default 2,000
	RetryAfter    time.Duration // default 5 s
	Now           func() time.Time
}

// SpanIdentity is what a span is counted under. Strings are not retained
// beyond the call unless they start a new series (then they are copied).
type SpanIdentity struct {
	Service, Operation, Component, Kind, Status, Tenant, Version, Variant, Instance string
	Extra                                                                           []labels.Label // configured extra labels, sorted
}

// Target is what one kind of observation updates (for spans: the full series,
// the marginal, the tenant's weight). It is valid while Epoch is unchanged.
type Target uint64

// Aggregator is safe for concurrent use.
type Aggregator struct{}

// Open replays the journal above the store's flushed generation and starts the flusher.
func Open(ctx context.Context, st store.Store, o Options) (*Aggregator, error) { return nil, nil }

// Close flushes what is open and stops; afterwards nothing is accepted.
func (a *Aggregator) Close(ctx context.Context) error { return nil }

// Flush cuts the generation now and puts it; used by tests, shutdown and imports.
func (a *Aggregator) Flush(ctx context.Context) error { return nil }

// Epoch changes when targets handed out earlier must be resolved anew (the set
// of named tenants changed, or idle series were dropped).
func (a *Aggregator) Epoch() uint32 { return 0 }

// Overloaded says that Commit would refuse now, so that a request can be
// turned away before it is decoded.
func (a *Aggregator) Overloaded() bool { return false }

// SpanTarget resolves a span's identity in family span_duration_seconds.
func (a *Aggregator) SpanTarget(id *SpanIdentity) Target { return 0 }

// SeriesTarget resolves one series of an incoming metric.
func (a *Aggregator) SeriesTarget(s series.Series) Target { return 0 }

// DeclareFamily records a family's kind and export interval.
func (a *Aggregator) DeclareFamily(f store.FamilyInfo) {}

// StreamID identifies a cumulative or delta metric stream before mapping: a
// 128-bit hash of resource, scope, metric name, unit, temporality and attributes.
type StreamID [2]uint64

// Batch collects the observations of one request. Get it from NewBatch, fill
// it, then Commit or Discard it exactly once. Not safe for concurrent use.
type Batch struct{}

// NewBatch takes a batch from a pool, pinned to the current epoch.
func (a *Aggregator) NewBatch() *Batch { return nil }

// Observe adds one duration in nanoseconds that ended at endNanos (Unix), standing
// for weight observations (1 unless sampled). durationNanos must be >= 0.
func (b *Batch) Observe(t Target, endNanos, durationNanos int64, weight uint32) {}

// Distribution adds a histogram of what happened, to the slot that holds timeNanos
// (delta temporality). h is not retained.
func (b *Batch) Distribution(t Target, timeNanos int64, h *hist.Histogram) {}

// Number adds one sample of a gauge, or of a counter that is a running total.
func (b *Batch) Number(t Target, timeNanos int64, v float64) {}

// DeltaNumber adds an increment of a delta-temporality sum; the series' sample is the
// stream's running total.
func (b *Batch) DeltaNumber(t Target, id StreamID, timeNanos int64, v float64) {}

// Cumulative adds a cumulative histogram; what is added is its difference from
// the stream's last (ENGINE 8). resourceFirstSeenNanos is kept by the aggregator per resource hash.
func (b *Batch) Cumulative(t Target, id StreamID, resource uint64, startNanos, timeNanos int64, h *hist.Histogram) {
}

// Rejects counts the observations of one batch that were refused, by reason.
// The others of the batch were accepted.
type Rejects struct {
	TooOld     int // older than what the base slots are kept
	TooNew     int // more than ten minutes ahead of our clock
	OutOfOrder int // a cumulative stream's time did not advance
	Invalid    int // negative duration, not a number, or of another kind than its series
}

// Total is the number of refused observations.
func (r Rejects) Total() int { return r.TooOld + r.TooNew + r.OutOfOrder + r.Invalid }

// Commit journals the batch and applies it. When it returns nil the batch
// survives a crash of the process; Rejects says what of it was refused. It
// returns ErrOverloaded, or the journal's error; then nothing was accepted and
// the request may be retried. The batch must not be used afterwards.
func (b *Batch) Commit(ctx context.Context) (Rejects, error) { return Rejects{}, nil }

// Epoch is the epoch the batch is pinned to: targets resolved in it or later
// are safe to use in the batch.
func (b *Batch) Epoch() uint32 { return 0 }

// Discard gives the batch back without accepting anything.
func (b *Batch) Discard() {}

// Stats are running totals for /metrics and tests.
type Stats struct {
	Observations, Late, DroppedOld, Overloads, Generations, ActiveSeries, JournalBytes, FoldedTenants, FoldedOperations uint64
	MemoryBytes                                                                                                         int64
}

func (a *Aggregator) Stats() Stats { return Stats{} }
