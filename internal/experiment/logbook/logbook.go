// Package logbook keeps what was tried and its results.
//
// What is tried is a session: a mirror, a run of load, an experiment, a search for
// capacity or a simulation (kinds.go). The program that runs it reports its state
// every second or so, and is answered with the changes that its users want. Its
// measurements are series like any others, with the label experiment. A Registry is
// the log book. It keeps the reports in the store beside the series, so that they
// outlive a restart of the server (records.go). The parts that are listed and
// searched are kept apart from the rest, except for mirrors, whose reports are short
// (details.go). A report brings its verdict along; that of a mirror is made by
// internal/judge/legs when it is asked for.
package logbook

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"tailscope/api"
	"tailscope/internal/judge/refresh"
	"tailscope/internal/query"
	"tailscope/internal/store"
)

// Kinds and states of sessions.
const (
	KindMirror     = "mirror"
	KindBench      = "bench"
	KindExperiment = "experiment"
	KindCapacity   = "capacity"
	KindSimulation = "simulation"

	Running = api.Running
	Ended   = api.Ended
	Lost    = api.Lost
)

// Options configures a Registry. Store is required; the zero value of every
// other field means its default.
type Options struct {
	Store  store.Store
	Now    func() time.Time // default time.Now
	Logger *slog.Logger     // default discards
	// Lost is the silence after which a session counts as lost; default 15 s.
	Lost time.Duration
	// Save is the interval at which the state of a running session is written, by
	// which it may be behind after a crash; default 10 s, a slot. Beginnings, ends
	// and changes are written at once.
	Save time.Duration
	// Most bounds the sessions that are kept, MostBytes the JSON of their reports in
	// memory, and MostDetails that in the store beside them. Beyond a bound the
	// session that ended first is forgotten. Defaults 10,000, 32 MiB and 256 MiB.
	Most, MostBytes, MostDetails int
	// Every is the interval at which Run looks for verdicts that are due; default 10
	// s, a slot.
	Every time.Duration
}

func (o *Options) ensureDefaults() {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Lost <= 0 {
		o.Lost = 15 * time.Second
	}
	if o.Save <= 0 {
		o.Save = 10 * time.Second
	}
	if o.Most <= 0 {
		o.Most = 10_000
	}
	if o.MostBytes <= 0 {
		o.MostBytes = 32 << 20
	}
	if o.MostDetails <= 0 {
		o.MostDetails = 256 << 20
	}
	if o.Every <= 0 {
		o.Every = 10 * time.Second
	}
}

// Registry keeps sessions. Its methods are safe for concurrent use.
type Registry struct {
	o       Options
	writing sync.Mutex // held while the store is written, so that what is newer is not replaced by what is older
	judging sync.Mutex // held by Round
	answers refresh.Cache[api.MirrorVerdictResponse]

	mu     sync.Mutex
	loaded bool
	known  map[string]*session
	bytes  int // of all reports, as far as they are in memory
	stats  Stats
}

// session is a session as this server knows it. What it points to is replaced, never
// changed, so that an answer needs no copy.
type session struct {
	record
	// The revisions at which the record and the details were last seen; guarded by
	// Registry.writing, like saved.
	revision, detailed uint64

	bytes   int       // of Report as JSON
	saved   time.Time // when it was last written
	judged  time.Time // when its headline was last made
	took    time.Duration
	failing bool   // the last write, or verdict, failed
	text    string // that is searched; empty until it is

	// The whole report of a running session whose reports are long, and its length as
	// JSON; Report is then the brief one.
	whole      *api.SessionReport
	wholeBytes int
}

// Stats are running totals, and the number of sessions.
type Stats struct {
	Reports, Refused, Changes, Verdicts, Failures uint64
	Running, Kept                                 int
	Bytes                                         int // of the reports that are kept, wherever
}

// New returns a registry that has read nothing yet: Load does, or the first call that
// needs it.
func New(o Options) *Registry {
	o.ensureDefaults()
	return &Registry{
		o: o, known: map[string]*session{},
		// A verdict is good for a slot: the range moves on then while a session runs, and
		// late data come in for a while after. One that took long is good for longer, lest
		// its readers keep the server busy.
		answers: refresh.Cache[api.MirrorVerdictResponse]{Size: 32, Fresh: 10 * time.Second, Times: 10, Alone: true},
	}
}

// Stats returns the totals so far.
func (r *Registry) Stats() Stats {
	now := r.o.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.Kept, s.Bytes = len(r.known), r.bytes
	for _, e := range r.known {
		s.Bytes += max(0, e.Details-e.wholeBytes)
		if r.state(e, now) == Running {
			s.Running++
		}
	}
	return s
}

// ListRequest selects the sessions that overlap [Start, End), have the Kind and
// State, and contain all words of Search. Empty fields select all.
type ListRequest struct {
	Kind, State, Search string
	Start, End          time.Time
	Limit               int // 0 is 1,000
}

const (
	maxSearch    = 256
	defaultList  = 1000
	mostListed   = 10_000
	kindsExample = "write mirror, bench, experiment, capacity or simulation, or leave it out"
)

func (q *ListRequest) check() error {
	states := []string{Running, Ended, Lost}
	switch {
	case q.Kind != "" && kinds[q.Kind] == nil:
		return query.Invalid("kind", "there is no kind %q of sessions; %s", q.Kind, kindsExample)
	case q.State != "" && !slices.Contains(states, q.State):
		return query.Invalid("state", "there is no state %q; %s", q.State, query.Suggest(q.State, states))
	case !q.End.After(q.Start):
		return query.Invalid("end", "end is not after start; write a later end or an earlier start")
	case len(q.Search) > maxSearch:
		return query.Invalid("q", "what is searched for is longer than %d bytes; a few words do", maxSearch)
	case q.Limit < 0 || q.Limit > mostListed:
		return query.Invalid("limit", "limit %d is not between 1 and %d", q.Limit, mostListed)
	}
	if q.Limit == 0 {
		q.Limit = defaultList
	}
	return nil
}

// List returns the sessions of the range, without their long parts: those that run
// first, then the latest.
func (r *Registry) List(ctx context.Context, q ListRequest) (*api.SessionsResponse, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	if err := r.Load(ctx); err != nil {
		return nil, err
	}
	now := r.o.Now()
	out := &api.SessionsResponse{Range: api.Range{Start: q.Start.Unix(), End: q.End.Unix()}, Sessions: []api.Session{}}
	from, to := api.UnixTime(q.Start), api.UnixTime(q.End) // NaN: unbounded
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.known {
		x := r.answer(e, now)
		last := x.End
		if math.IsNaN(float64(last)) {
			last = api.UnixTime(now)
		}
		if (q.State == "" || q.State == x.State) && (q.Kind == "" || q.Kind == x.Kind) && !(x.Start >= to) && !(last < from) && e.matches(q.Search) {
			if x.Mirror != nil { // what was found in the answers is many times as long as the rest
				brief := *x.Mirror
				brief.Differences = nil
				x.Mirror = &brief
			}
			out.Sessions = append(out.Sessions, x)
		}
	}
	over := func(x *api.Session) int {
		if x.State == Running {
			return 0
		}
		return 1
	}
	slices.SortFunc(out.Sessions, func(x, y api.Session) int {
		return cmp.Or(cmp.Compare(over(&x), over(&y)), cmp.Compare(y.Start, x.Start), cmp.Compare(x.ID, y.ID))
	})
	out.Total = len(out.Sessions)
	out.Sessions = first(out.Sessions, q.Limit)
	return out, nil
}

// Get returns one session with its last report.
func (r *Registry) Get(ctx context.Context, id string) (*api.Session, error) {
	if err := r.Load(ctx); err != nil {
		return nil, err
	}
	if err := r.refresh(ctx, id); err != nil {
		return nil, err
	}
	now := r.o.Now()
	r.mu.Lock()
	e := r.known[id]
	if e == nil {
		r.mu.Unlock()
		return nil, unknown(id)
	}
	x, whole := r.answer(e, now), e.whole
	r.mu.Unlock()
	if x.Kind == KindMirror {
		return &x, nil
	}
	if whole == nil {
		var err error
		if whole, err = r.details(ctx, id); err != nil {
			return nil, err
		}
	}
	if whole == nil { // forgotten meanwhile, or its end was not written
		x.Cut = append(slices.Clone(x.Cut), "all but what the list shows")
		return &x, nil
	}
	x.Bench, x.Experiment, x.Capacity, x.Simulation = whole.Bench, whole.Experiment, whole.Capacity, whole.Simulation
	return &x, nil
}

func unknown(id string) error {
	if len(id) > maxID {
		id = id[:maxID] + "…"
	}
	return &query.Error{Code: query.CodeNotFound, Field: "id", Message: fmt.Sprintf("there is no session %q; /api/v1/sessions and tailscope session list show those there are", id)}
}

// Forget drops a session that no longer runs. Its series stay until they are too old.
func (r *Registry) Forget(ctx context.Context, id string) error {
	if err := r.Load(ctx); err != nil {
		return err
	}
	r.writing.Lock()
	defer r.writing.Unlock()
	if err := r.catchUp(ctx, id); err != nil {
		return err
	}
	r.mu.Lock()
	e := r.known[id]
	running := e != nil && r.state(e, r.o.Now()) == Running
	r.mu.Unlock()
	switch {
	case e == nil:
		return unknown(id)
	case running:
		return query.Invalid("id", `session %q is running; stop it first: PATCH {"stop": true}, or tailscope session stop %s`, id, id)
	}
	if err := r.erase(ctx, e); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(id)
	return nil
}

// drop is called with mu held.
func (r *Registry) drop(id string) {
	if e := r.known[id]; e != nil {
		r.bytes -= e.bytes + e.wholeBytes
		delete(r.known, id)
	}
}

func (r *Registry) state(e *session, now time.Time) string {
	switch {
	case e.Report.Ended:
		return Ended
	case now.Sub(e.Updated) > r.o.Lost:
		return Lost
	}
	return Running
}

// answer returns a session for the API. A lost one counts as ended with its last
// report.
func (r *Registry) answer(e *session, now time.Time) api.Session {
	x := api.Session{
		ID: e.ID, Kind: e.Report.Kind, Name: e.Report.Name, Service: e.Report.Service, Start: e.Report.Start,
		End: api.Float(math.NaN()), Updated: api.UnixTime(e.Updated), State: r.state(e, now), Headline: e.Headline,
		Mirror: e.Report.Mirror, Bench: e.Report.Bench, Experiment: e.Report.Experiment, Capacity: e.Report.Capacity, Simulation: e.Report.Simulation, Change: e.Change, Cut: e.Cut,
	}
	if x.State != Running {
		x.End = api.UnixTime(e.Updated)
		if end := kinds[e.Report.Kind].end(&e.Report); !math.IsNaN(float64(end)) {
			x.End = end
		}
	}
	return x
}
