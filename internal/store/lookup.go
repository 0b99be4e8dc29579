package store

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
)

// Lookups is the part of a Store that finds single raw samples of number series
// again and again: what is resolved once, a Lookup, then answers from memory
// most of the time, and sees every Put that has returned.
type Lookups interface {
	// NumberSeries returns the number series of a family, nil while there are none.
	NumberSeries(ctx context.Context, family string) (SeriesSet, error)
}

// SeriesSet holds the number series of a family that had points or samples
// since raw samples are kept, in the order they came. It is safe for concurrent
// use, like the Lookups it gives out; both are of no use after the store's Close.
type SeriesSet interface {
	// Len is how many there are. It only grows, until it is -1: then the set has
	// been replaced, and NumberSeries gives the new one.
	Len() int
	// Match returns those that the matchers select, without the first from of the
	// set, and how many the set held: from of the next call.
	Match(matchers []*labels.Matcher, from int) (found []Lookup, n int)
	// Whole is how many of the newest samples of a series are there without a gap,
	// if it has that many within the age that is kept.
	Whole() int
}

// Lookup finds raw samples of one series. Times are Unix milliseconds.
type Lookup interface {
	Labels() labels.Labels
	Kind() series.Kind
	// Nearest returns the sample closest to the moment t (ties: the earlier)
	// in [t-within, t+within].
	Nearest(ctx context.Context, t, within int64) (v series.Sample, ok bool, err error)
	// Latest appends the samples at or before until, newest first, without the
	// first skip, at most n of them.
	Latest(ctx context.Context, dst []series.Sample, until int64, skip, n int) ([]series.Sample, error)
	// Kept says whether all raw samples of the series in [start, end] are still
	// there: then there were no others. Beyond what was kept points remain. To know
	// whether an answer is complete ask after it: what is no longer kept stays so,
	// and an answer from before may hold it in part.
	Kept(start, end int64) bool
	// Range appends the samples in [start, end], ascending.
	Range(ctx context.Context, dst []series.Sample, start, end int64) ([]series.Sample, error)
}
