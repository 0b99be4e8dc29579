package check

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/agg"
	"tailscope/internal/guard/check/history"
	"tailscope/internal/guard/check/spec"
	"tailscope/internal/query"
	"tailscope/internal/store"
)

// Options of an Engine. Store and Agg are needed; the zero value of each other
// field means its default.
type Options struct {
	Store    store.Store
	Agg      *agg.Aggregator
	Prom     *query.PromEngine // nil: checks by PromQL are UNKNOWN
	Prober   Prober            // nil: checks that measure outside are UNKNOWN
	Notifier Notifier          // nil: nobody is notified
	// Target is the Apdex target of a service in seconds; default query.DefaultApdexT.
	Target func(ctx context.Context, service string) float64
	// Story returns by what the page tells what made a service worse about the moment at which an
	// incident opened; the zero Story if that is nothing, or not known yet. What surely began
	// after until is not told. The environment is empty where the check has none. Default:
	// nothing is told.
	Story func(ctx context.Context, service, environment string, opened, until time.Time) (Story, error)
	// Receivers returns the states of receivers, for the page.
	Receivers func() []api.CheckReceiver
	// Once calls do if this server guards the checks of a store that servers share, and
	// reports whether it did; the context of do ends when another server may. Default: no
	// other server shares the store.
	Once func(ctx context.Context, do func(context.Context) error) (did bool, err error)
	// Server is the name of this one, where servers share the store.
	Server  string
	Records store.Records    // states and incidents, of all servers that share the store; default Store's
	Cache   *history.Cache   // over Store, of who puts and maintains through it; default: each look-up reads
	History *history.History // default: one over Cache
	File    spec.File
	Workers int // runs at once that wait for something outside; default 64
	Now     func() time.Time
	Leapt   func() time.Duration // by how much Now has leapt ahead, where ages are not to follow; default 0
	Logger  *slog.Logger         // default discards
}

// Story tells what made a service worse.
type Story struct {
	Sentence string
	Since    time.Time // the moment of the change that it tells
}

// ListRequest selects checks.
type ListRequest struct {
	State         string            // OK, WARNING, CRITICAL, UNKNOWN, PENDING; bad: all that are neither OK nor PENDING; empty: all
	Match         []*labels.Matcher // on the labels, and on check, the definition's name
	Q             string            // part of the id or the description, in any case
	Offset, Limit int               // Limit 0 means 100
}

// GetRequest asks for one check over a while. Times that are zero mean the last
// day until now, a Step of 0 some 300 of them.
type GetRequest struct {
	ID         string
	Start, End time.Time
	Step       time.Duration
}

// IncidentsRequest selects incidents that overlap [Start, End); times that are
// zero do not bound.
type IncidentsRequest struct {
	Start, End time.Time
	Check      string // id, or name of a definition
	Kind       string // check, marked; empty: both
	Open       bool   // only those that last
	Limit      int    // the newest; 0 means 1,000
}

// Stats are totals since Open, for /metrics.
type Stats struct {
	Checks, Pending        int
	ByState                map[string]int
	Runs, Failures         uint64 // Failures: runs without a value because something failed
	Skipped                uint64 // runs left out because the one before had not ended
	Beyond                 int    // series of Each beyond Most
	Incidents              uint64 // opened
	Refused                uint64 // results that the aggregator did not take
	PersistErrors          uint64
	LagSeconds             float64         // p99 of the last minutes
	Lags                   *hist.Histogram // how late runs began, seconds
	EventsSent, EventsHeld uint64
}
