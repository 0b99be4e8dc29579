// Package session makes one run of load from its parts: the engine sends what the set
// of requests yields when the plan says, every loop keeps its own tally, and once a
// second the tallies are collected, shown, judged by the thresholds that may end the
// run, and sent on to a server. The result is one api.BenchResult and its histograms.
//
// This package alone drives the engine: scenarios and experiments run through it.
package session

import (
	"context"
	"net/url"
	"time"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/experiment/bench"
	"tailscope/internal/experiment/bench/load"
	"tailscope/internal/experiment/bench/tally"
	"tailscope/internal/experiment/bench/threshold"
	"tailscope/internal/series"
)

// Requests is a set of requests; *requests.Set is one. Whoever made it closes it.
type Requests interface {
	Source(loop, loops int) (load.Source, error)
	Checker() load.Checker
	Queries() []string
	Tenants() []string
	Checks() []string
	// Accepts reports whether a status is not an error.
	Accepts(query, status int) bool
	// Enough returns an error if the data does not last for so many requests.
	Enough(requests uint64) error
	// Lasts returns an error if recorded requests do not last for so long.
	Lasts(d time.Duration) error
	// RanOut names the data that ended the run, or returns "".
	RanOut() string
	// Recorded reports whether requests are due when they were recorded.
	Recorded() bool
	// Notes describe, for people, the requests of a recording or a log that are not
	// sent.
	Notes() []string
}

// Sink stores what was measured, as *otlpsink.Sink does.
type Sink interface {
	Put(ctx context.Context, points []series.Point) error
}

// Options configures a run. Target, Set and Plan are required.
type Options struct {
	Name       string // of the run; default the target
	Service    string // label of its series; default the target's host
	Variant    string // label of its series; none if empty
	Experiment string // label of its series: the id of the run, or of the experiment it is a round of; none if empty
	Command    string // that makes such a run again

	Target *url.URL // scheme and host; the path is the requests'
	Set    Requests
	Plan   bench.Plan
	// Load holds the chosen options of the engine: Protocol, TLS, Connections, Loops,
	// Timeout, Drain, Waiting, BodyLimit, NoKeepAlive, Host, Address. Run sets the
	// rest.
	Load load.Options
	// Duration ends the run of a set that has its own times or of a plan without an
	// end; 0 leaves it to them.
	Duration time.Duration
	// WarmUp is the time for which load is sent before anything is measured, at the
	// rate at which the plan begins. Recorded requests have none.
	WarmUp time.Duration

	Thresholds []threshold.Threshold
	// Limits bounds the generator's own error.
	Limits tally.Limits

	// Sink stores the series while the run goes on; nil for none. Labels are added to
	// each of them.
	Sink   Sink
	Labels map[string]string
	// Report sends the state of the run to a server, about once a second and at the
	// end. Its error is in Outcome.Trouble.
	Report func(ctx context.Context, r *api.BenchResult) error
	// Progress is called about once a second and at the end, from one goroutine at a
	// time. It must not change its argument, which does not change either.
	Progress func(Moment)
	// Every is the interval of progress; default 1 s.
	Every time.Duration

	// Environment describes where the run takes place; default this machine.
	Environment *api.Environment
	// Events returns events for the result, beside the run's own. It is called at
	// each Progress.
	Events func() []api.BenchEvent
	// Resources returns readings of processes under test. It is called at each
	// Progress.
	Resources func(answered uint64) []api.BenchResource
	// Loads and Warmed are put in the result: data loaded before, and how the target
	// became steady.
	Loads   []api.BenchLoad
	Warmed  *api.BenchWarmUp
	Version string // of tailscope

	Now func() time.Time // time.Now if nil
}

// Moment is the state of a run at one time.
type Moment struct {
	Result *api.BenchResult // so far; complete at the end, when Ended is set
	Live   tally.Live       // of the last seconds
	// Elapsed is the time since measuring began, negative during the warm-up. Left is
	// the rest of the plan's time, negative if it is not known.
	Elapsed, Left time.Duration
	// Asked is the plan's rate in requests a second over the seconds of Live, NaN if
	// there is none. Behind counts the requests that were due and neither ended nor
	// dropped.
	Asked   float64
	Behind  uint64
	Phase   int // index into Result.Phases
	Ended   bool
	Trouble string // with the server that takes what is measured
}

// Series holds the distributions of one query's requests by one tenant.
type Series struct {
	Query   string
	Tenant  string // empty of requests without one
	Status  string // ok or error
	Latency *hist.Histogram
	// Uncorrected counts from when a request was sent.
	Uncorrected *hist.Histogram
}

// Outcome is the result of a run. The caller owns it.
type Outcome struct {
	Result *api.BenchResult
	Series []Series
	// Latency and Uncorrected cover all requests.
	Latency, Uncorrected *hist.Histogram
	// Missed reports whether a threshold was not met.
	Missed  bool
	Trouble string // with the server that took what was measured, at the end
}
