// Package expr is the language in which checks ask their history.
//
// A selector is PromQL's, and what stands in brackets says which of the past:
//
//	x[0]  x[1,3,5]  x[0:9]  x[10:END]          samples by index, 0 is the newest
//	x[-30M]                                    the one closest to 30 minutes ago
//	x[-30M:-120M]  x[-1H:END]                  all between, newest first
//	x[4 days]  x[4 weekdays]  x[4 weeks]       the same time on the last n
//	x[4 weeks, -30M:+30M]                      all around that time, per day
//
// with units S M H D W. x is a name with matchers or without, such as
// span_duration_seconds{service="shop"}, or matchers alone with the value of a
// check, {check="orders"}; a bare word is a variable, never a series. Of a family
// of distributions the same brackets select distributions: p99(x[-60M:-0M]) is
// the quantile of the hour taken together.
package expr

import (
	"context"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
)

// By is how a selector's brackets select.
type By uint8

const (
	ByIndex      By = iota // Indexes
	ByIndexRange           // From..To, inclusive; ToEnd
	ByTime                 // Offset
	ByTimeRange            // Newer..Older before now; ToEnd
	BySameTime             // N of Every, each with Around
)

// Every says which earlier days "the same time" is looked for on.
type Every uint8

const (
	Days Every = iota
	Weekdays
	Weeks
)

// Selector is one look into history. Its address is its identity: who answers
// may keep what it has resolved by *Selector for as long as the program lives.
type Selector struct {
	Text     string // as written
	Offset   int    // of Text in the source, bytes
	Family   string
	Matchers []*labels.Matcher // on labels other than the name
	By       By

	Indexes  []int // ByIndex, 0 is the newest
	From, To int   // ByIndexRange; To is -1 for END

	Ago          time.Duration // ByTime
	Newer, Older time.Duration // ByTimeRange, before now; Older is -1 for END
	N            int           // BySameTime
	Every        Every
	// Before and After widen "the same time" to all of [t-Before, t+After];
	// both 0 is the closest sample, or slot, to t.
	Before, After time.Duration
}

// Sample is one look-up's answer. Null says there is none: nothing close enough,
// no such index, or a null value was stored.
type Sample struct {
	Time  time.Time // of the sample; of the slot's start for a distribution
	Value float64
	Dist  *hist.Histogram // of a family of distributions; shared, not to be changed
	Null  bool
}

// Kind is the kind of values that a family holds.
type Kind uint8

const (
	Missing Kind = iota // no such family yet
	Numbers
	Distributions
)

// History answers selectors at a moment. Implementations are safe for
// concurrent use.
type History interface {
	Kind(ctx context.Context, family string) (Kind, error)
	// Look appends the samples that s selects at the moment at to dst, newest
	// first; for ByIndex in the order asked, for BySameTime one per earlier day
	// (of numbers with Before or After: all of each day's). What is not there is
	// a Null sample where one was asked for by name (index, time), and absent
	// from ranges; an empty range is one Null. After MaxSamples and one more it may
	// stop: they are refused. Several series that match: the
	// distributions of a slot are merged; numbers are an *AmbiguousError.
	Look(ctx context.Context, s *Selector, at time.Time, dst []Sample) ([]Sample, error)
}

// AmbiguousError reports that a selector of numbers matches several series.
type AmbiguousError struct {
	Selector *Selector
	Series   []labels.Labels // the first few
}

// Nulls is how a check's expressions treat missing values.
type Nulls uint8

const (
	Strict Nulls = iota // any null makes the result null
	Skip                // functions of lists leave nulls out; alone a null stays null
	Zero                // a null is 0
)

func (e *AmbiguousError) Error() string {
	return e.Selector.Text + " matches several series; add matchers until one is left"
}

// Program is a parsed expression, safe for concurrent use.
type Program struct {
	source    string
	selectors []*Selector
	root      *node
	old       bool // read with Options.Old
}

// String returns the source.
func (p *Program) String() string { return p.source }

// Calls reports whether the program calls one of the functions named.
func (p *Program) Calls(names ...string) bool { return p.root.calls(names) }

// Selectors returns the selectors of the program, in the order written.
func (p *Program) Selectors() []*Selector { return p.selectors }

// Step is one part of an expression and its value, for people.
type Step struct {
	Text   string  // the part of the source
	Offset int     // of it, bytes
	Depth  int     // 0 is the whole
	Value  string  // 12.3, null, 10 values 3.1 … 4.0, distribution of 1,234
	Number float64 // NaN unless a number
}
