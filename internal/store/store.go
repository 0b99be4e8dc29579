// Package store declares what every store promises; package storetest is the suite that
// every store passes.
//
// A store keeps points: the value of one series in one slot. Each point is addressed by
// (series, resolution, slot, writer, generation). Putting the same address again
// replaces it; different addresses of one series and slot add up when read. So every
// write may be retried, several writers may share a store, and late data is simply
// another address. An address becomes final once its slot has been rolled up or
// compacted (Maintain): from then on putting it again changes nothing.
//
// Queries are data, not callbacks, so that a store can do the work where the data lies.
// Once Put has returned, new queries see what was put.
package store

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
)

// Errors that a caller may act on; stores wrap them with the name of the thing.
var (
	// ErrLocked reports that another process has the store open.
	ErrLocked = errors.New("in use by another process")
	// ErrFull reports that the disk or the configured bound leaves no space to write. A
	// later retry may succeed.
	ErrFull = errors.New("no space left")
	// ErrCorrupt reports that stored bytes do not decode or fail their checksum.
	ErrCorrupt = errors.New("corrupt")
	// ErrVersion reports that the store was written in a format that this program does
	// not know.
	ErrVersion = errors.New("unknown format version")
	// ErrTooMany reports that a query would return more than its limit, or more than the
	// store may hold in memory for one answer.
	ErrTooMany = errors.New("too many series")
	// ErrAway reports that a machine which holds a part of the store does not answer. The
	// error names it. A later retry may succeed.
	ErrAway = errors.New("a part of the store is away")
)

// Point is one series in one slot.
type Point struct {
	Series uint32 // index into Batch.Series
	Slot   int64  // start of the slot, Unix seconds, a multiple of the resolution
	Data   []byte // hist binary encoding for distributions, AppendNumber's for numbers
}

// Samples are raw values of one number series in ascending time.
type Samples struct {
	Series  uint32 // index into Batch.Series
	Samples []series.Sample
}

// State is an opaque key and value that a writer keeps with its generation, in the same
// step as its points: what it needs to continue from there. An empty value deletes the
// key. Each writer has its own keys. A value that is written by itself is a Record.
type State struct {
	Key, Value []byte
}

// AgentPrefix begins the writers of agents. What an agent sends may be put by one server after
// another; the other writers are servers, each with a process of its own.
const AgentPrefix = "agent-"

// Batch is what one writer accepted between two flushes. Put stores all of it or
// nothing. The store does not retain it.
type Batch struct {
	Writer     string // non-empty
	Generation uint64 // ascending per writer, from 1; a repeated one replaces
	Resolution series.Resolution
	Series     []series.Series
	IDs        []series.ID // of Series, if the writer knows them; nil: Put computes them
	// Tenants holds the values of the label tenant that Labels lack, each once, and TenantOf by
	// series the index of its value there, so that series that differ in their tenant alone
	// share the memory of their labels. Labels are whole where that value is empty. A batch
	// with TenantOf has IDs; nil: Labels are whole.
	Tenants  []string
	TenantOf []uint32
	Points   []Point   // in any order, a series once per slot; by slot is fastest
	Samples  []Samples // at most one entry per series
	State    []State
	// Families declares kinds and export intervals; the longest interval is kept.
	Families []FamilyInfo
}

// Whole returns series i with all of its labels.
func (b *Batch) Whole(i int) series.Series {
	if b.TenantOf == nil {
		return b.Series[i]
	}
	return b.Series[i].WithTenant(b.Tenants[b.TenantOf[i]])
}

// Restored counts what became of a generation whose points may have been lost.
type Restored struct {
	Back     int // points that were lost and are put back
	Doubtful int // of all points, those that may still be missing, at least in longer slots
}

// Measure selects the part of each point that a query needs.
type Measure uint8

const (
	Buckets Measure = iota // everything
	Moments                // count, sum, min and max only: the histogram comes back without buckets
)

// Query selects points of one family and view, merges them by group and step.
type Query struct {
	Family    string
	View      series.View
	Matchers  []*labels.Matcher // on labels, Prometheus semantics: a missing label is empty
	Start     int64             // Unix seconds, inclusive: slots that start at or after it
	End       int64             // Unix seconds, exclusive
	Step      int64             // seconds; 0 merges the whole range into one point at Start
	By        []string          // group by these labels, in any order; none is one group
	Each      bool              // every series is a group of its own, By is ignored
	Measure   Measure
	Schema    int8   // distributions are reduced to at most this schema; 0 value means schema 0, use hist.DefaultSchema
	TopK      int    // > 0 keeps the k groups with the greatest count over the whole range
	MaxSeries int    // > 0 refuses with ErrTooMany when more series match
	Writer    string // Result.Flushed is that of this writer; empty: of none
}

// Result is the answer to a Query. Groups are sorted by labels, or with TopK by falling
// count. Points are sorted by start; empty steps are absent. The caller owns all of it:
// the store keeps no reference to its histograms.
type Result struct {
	// Start and End are the range really covered: the requested one widened to the
	// finest slots still kept. Resolution is that of the coarsest tier read.
	Start, End int64
	Resolution series.Resolution
	Groups     []Group
	Series     int // number of series that matched; over several days without Each, the most on one of them
	PointsRead int // stored points merged
	// Flushed is the highest generation of Query.Writer that the answer holds: all of it and
	// of those before it, and nothing of later ones.
	Flushed uint64
}

// Group is one set of label values and its merged points.
type Group struct {
	Labels labels.Labels
	Kind   series.Kind
	Points []MergedPoint
}

// MergedPoint holds a group's merged points of one step. Hist is nil for numbers.
type MergedPoint struct {
	Start  int64 // Unix seconds: Query.Start plus a multiple of the step
	Hist   *hist.Histogram
	Number series.Number
}

// SampleQuery selects raw samples of number series in [StartMillis, EndMillis].
type SampleQuery struct {
	Family                 string
	Matchers               []*labels.Matcher
	IDs                    []series.ID // if not nil, the series with these identities, in place of Matchers
	StartMillis, EndMillis int64
	MaxSeries              int
	Dropped                bool // the answer lists where samples were dropped
}

// SampleSeries is one number series with its raw samples, ascending in time. It is in an
// answer if it has samples there, or if some were dropped and Dropped was set.
type SampleSeries struct {
	Labels  labels.Labels
	Kind    series.Kind
	Samples []series.Sample
	// Dropped lists, ascending, where samples of the series were dropped and those of
	// others may have been kept.
	Dropped []Span
}

// Span is the time [Start, End), in Unix milliseconds.
type Span struct{ Start, End int64 }

// FamilyInfo describes a stored family.
type FamilyInfo struct {
	Name string
	Kind series.Kind
	// IntervalSeconds is the longest export interval seen, 0 for spans: charts never
	// draw finer.
	IntervalSeconds int64
	// Dropped counts what Maintain dropped since the store was opened. It is for callers
	// that keep samples in memory, and set in answers only.
	Dropped SamplesDropped
}

// SamplesDropped counts how often raw samples of a family were dropped. All of them were
// from before Until, in Unix seconds.
type SamplesDropped struct {
	Times uint64
	Until int64
}

// Store keeps points, samples, records and traces. All methods are safe for concurrent
// use and return ctx's error once it is done.
type Store interface {
	// Put stores a batch durably: when it returns nil the batch survives a crash of the
	// machine.
	Put(ctx context.Context, b *Batch) error
	// Flushed returns the highest generation that this writer has put, or 0.
	Flushed(ctx context.Context, writer string) (uint64, error)
	// Durable returns the highest generation of this writer that survives a loss of the
	// store's log, or 0: it and all before it lie in tables. It is at most Flushed. A
	// writer that keeps the generations above Durable can put them again.
	Durable(ctx context.Context, writer string) (uint64, error)
	// State calls yield with all state of the writer whose key has the prefix, in
	// key order. The slices are valid only during the call.
	State(ctx context.Context, writer string, prefix []byte, yield func(key, value []byte) error) error

	Query(ctx context.Context, q Query) (*Result, error)
	Samples(ctx context.Context, q SampleQuery) ([]SampleSeries, error)
	// Nearest returns, per matching series, the sample whose time is closest
	// to the moment (ties: the earlier), in O(log n) of the stored samples.
	Nearest(ctx context.Context, family string, matchers []*labels.Matcher, timeMillis int64) ([]SampleSeries, error)

	Families(ctx context.Context) ([]FamilyInfo, error)
	// LabelNames and LabelValues list, sorted, what exists on the days (UTC) that
	// [start, end) touches. An empty family stands for all families.
	LabelNames(ctx context.Context, family string, view series.View, matchers []*labels.Matcher, start, end int64) ([]string, error)
	LabelValues(ctx context.Context, family string, view series.View, name string, matchers []*labels.Matcher, start, end int64) ([]string, error)
	// Series lists the series of a family on those days, each once.
	Series(ctx context.Context, family string, view series.View, matchers []*labels.Matcher, start, end int64) ([]series.Series, error)

	Records
	Traces

	// Maintain compacts, rolls up and expires what is due at now. It returns when
	// nothing is due; the caller repeats it.
	Maintain(ctx context.Context, now time.Time) error
	Close() error
}
