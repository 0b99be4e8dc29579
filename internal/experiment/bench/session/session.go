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
	// Accepts reports whether a status is none of an error.
	Accepts(query, status int) bool
	// Enough reports whether the data lasts for so many requests.
	Enough(requests uint64) error
	// Lasts reports whether recorded requests last for so long.
	Lasts(d time.Duration) error
	// RanOut says which data ended the run; empty if none did.
	RanOut() string
	// Recorded reports whether requests are due when they were recorded.
	Recorded() bool
	// Notes say, for people, what of a recording or a log is not sent.
	Notes() []string
}

// Sink takes what was measured, as *otlpsink.Sink does.
type Sink interface {
	Put(ctx context.Context, points []series.Point) error
}

// Options describe a run. Target, Set and Plan are needed.
type Options struct {
	Name       string // of the run; default the target
	Service    string // label of its series; default the target's host
	Variant    string // label of its series; none if empty
	Experiment string // label of its series: the id of the run, or of the experiment it is a round of; none if empty
	Command    string // that makes such a run again

	Target *url.URL // scheme and host; the path is the requests'
	Set    Requests
	Plan   bench.Plan
	// Load is what of the engine's options is chosen: Protocol, TLS, Connections,
	// Loops, Timeout, Drain, Waiting, BodyLimit, NoKeepAlive, Host, Address. The
	// rest is set here.
	Load load.Options
	// Duration ends the run of a set that has its own times or a plan without an
	// end; 0 leaves it to them.
	Duration time.Duration
	// WarmUp is how long the load runs before it is measured, at the rate at which
	// the plan begins; what happens then is in no figure. Recorded requests have none.
	WarmUp time.Duration

	Thresholds []threshold.Threshold
	// Limits are those of the generator's own error; the zero value is the default.
	Limits tally.Limits

	// Sink takes the series while the run goes, nil for none. Labels are added to
	// each of them.
	Sink   Sink
	Labels map[string]string
	// Report sends a server the state of the run, about once a second and at the end;
	// what it fails with is in Outcome.Trouble.
	Report func(ctx context.Context, r *api.BenchResult) error
	// Progress is called about once a second and at the end, from one goroutine at a
	// time. What it is given must not be changed, and does not change.
	Progress func(Moment)
	// Every is how often; 1 s if 0.
	Every time.Duration

	// Environment is where the run takes place; default this machine.
	Environment *api.Environment
	// Events are put into the result beside those of the run itself; called at each
	// Progress.
	Events func() []api.BenchEvent
	// Resources are readings of processes under test; called likewise.
	Resources func(answered uint64) []api.BenchResource
	// Loads and Warmed are put in the result: data loaded before, and how the target
	// became steady.
	Loads   []api.BenchLoad
	Warmed  *api.BenchWarmUp
	Version string // of tailscope

	Now func() time.Time // time.Now if nil
}

// Moment is how far a run has come.
type Moment struct {
	Result *api.BenchResult // so far; complete at the end, when Ended is set
	Live   tally.Live       // of the last seconds
	// Elapsed is since what is measured began, negative during the warm-up; Left is
	// how much of the plan's time is left, negative if nobody knows.
	Elapsed, Left time.Duration
	// Asked is how many requests a second the plan asked for in the seconds that Live
	// is of, NaN if it does not say; Behind how many were due by it and neither ended
	// nor dropped.
	Asked   float64
	Behind  uint64
	Phase   int // index into Result.Phases
	Ended   bool
	Trouble string // with the server that takes what is measured
}

// Series is the distributions of one query's requests by one tenant.
type Series struct {
	Query   string
	Tenant  string // empty of requests without one
	Status  string // ok or error
	Latency *hist.Histogram
	// Uncorrected is from when a request was sent.
	Uncorrected *hist.Histogram
}

// Outcome is what a run came to. It is whoever's that asked for the run.
type Outcome struct {
	Result *api.BenchResult
	Series []Series
	// Latency and Uncorrected are of everything together.
	Latency, Uncorrected *hist.Histogram
	// Missed reports whether a threshold was not met.
	Missed  bool
	Trouble string // with the server that took what was measured, at the end
}
