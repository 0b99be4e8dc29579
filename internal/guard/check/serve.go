package check

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"tailscope/api"
	"tailscope/internal/guard/check/expr"
	"tailscope/internal/guard/check/history"
	"tailscope/internal/guard/check/profile"
	"tailscope/internal/guard/check/schedule"
	"tailscope/internal/guard/check/spec"
	"tailscope/internal/guard/check/state"
	"tailscope/internal/judge/refresh"
	"tailscope/internal/query"
)

// Engine runs checks. It is safe for concurrent use.
type Engine struct {
	o            Options
	asker        measurer
	loop         *loop
	sink         sink
	lessons      learnedProfiles
	environments environments
	late         lateStories
	wake         chan struct{} // something has to be stored or sent
	defined      chan struct{} // definitions were replaced
	scratch      sync.Pool     // of *[]sample

	replacing sync.Mutex // one change of definitions at a time; before keeping
	keeping   sync.Mutex // one put at a time; before mu
	// Guarded by keeping, of servers that share a store:
	fence    uint64             // revision of the fence
	turn     []byte             // its value
	lose     func()             // ends the turn of this server; nil: it has none
	decoded  map[string]decoded // records as last read, by key
	followed time.Time          // when that was
	// Requests that cost work are bounded, those that may take long by themselves.
	short, long requests

	mu          sync.Mutex
	page        string
	files       []string
	problem     string
	trouble     string    // why states are not stored or receivers not notified
	unstored    time.Time // since when nothing can be put; zero if it can
	definitions []*definition
	byName      map[string]*definition
	conditions  map[string]*condition // by id
	open        map[string]*condition // those with an incident
	incidents   map[string]*incident
	posted      map[string]api.Maintenance
	profiles    map[string]*profile.Profile
	fixed       []*window // of files
	windows     []*window
	openedAt    int64     // the second that openNow is of
	openNow     []*window // those that are open
	dirty       []*condition
	records     map[string][]byte // to be put; nil: to be deleted
	asked       map[string]uint64 // revisions that records of requests must have to be put
	owed        []*pendingEvents  // events that the notifier has not been handed
	handed      []*pendingEvents  // that it has been, and has not delivered
	guards      bool              // this server runs the checks
	file        spec.File         // the definitions were made of
	guarded     []string          // names of definitions of the server that guards; empty: this one does
	lastRead    time.Time         // when results of another server were read
	lastOwed    uint64
	trimmed     time.Time
	began       time.Time     // when it was opened
	since       time.Time     // when this server began to guard
	resumed     bool          // checks were known then
	said        []state.Event // scratch
	stats       Stats
}

// refill delays checks that ask the store after a restart: until senders are back and
// what they sent can be queried, missing data means nothing.
const refill = 30 * time.Second

// Open reads what is kept of earlier runs. Nothing runs before Run.
func Open(ctx context.Context, o Options) (*Engine, error) {
	if o.Store == nil || o.Agg == nil {
		return nil, errors.New("checks need a store and an aggregator")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Leapt == nil {
		o.Leapt = func() time.Duration { return 0 }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Workers <= 0 {
		o.Workers = 64
	}
	if o.Records == nil {
		o.Records = o.Store
	}
	if o.Cache == nil {
		o.Cache = history.NewCache(o.Store, history.CacheOptions{Refresh: -1, Now: o.Now})
	}
	if o.History == nil {
		o.History = history.New(history.Options{Cache: o.Cache, Now: o.Now, Lag: query.Whole})
	}
	if o.Target == nil {
		o.Target = func(context.Context, string) float64 { return query.DefaultApdexT }
	}
	e := &Engine{
		o: o, asker: measurer{o.Store, o.Target}, loop: newLoop(o.Now), wake: make(chan struct{}, 1), defined: make(chan struct{}, 1),
		byName: map[string]*definition{}, conditions: map[string]*condition{}, open: map[string]*condition{}, incidents: map[string]*incident{},
		posted: map[string]api.Maintenance{}, records: map[string][]byte{}, asked: map[string]uint64{}, short: make(requests, 8), long: make(requests, 2),
	}
	e.began = o.Now()
	e.since, e.guards = e.began, o.Once == nil
	e.scratch.New = func() any { return new([]sample) }
	e.lessons.kept, e.lessons.compiled = map[string]*profile.Learned{}, map[string]*profile.Profile{}
	e.sink.agg, e.sink.more = o.Agg, make(chan struct{}, 1)
	e.loop.run = func(ctx context.Context, t *task, _ time.Time) { e.runTask(ctx, t) }
	if _, err := e.read(ctx); err != nil {
		return nil, fmt.Errorf("read the state of checks: %w", err)
	}
	e.install()
	if e.guards { // what it has is newer from here on
		e.decoded = nil
	}
	e.resumed = len(e.conditions) > 0
	if err := e.Replace(ctx, o.File); err != nil {
		return nil, err
	}
	return e, nil
}

// Run runs checks until ctx is done, ends runs under way and stores their
// states. Of servers that share a store one does so, and the others read what it finds.
func (e *Engine) Run(ctx context.Context) {
	if e.o.Once == nil {
		if err := e.endSharing(ctx); err != nil {
			e.o.Logger.Error("receivers may be told of incidents again, or not of their end", "error", err)
		}
		e.guard(ctx)
		return
	}
	refresh.Run(ctx, lookEvery, e.o.Logger, "share checks with other servers; tried again until it works", e.round)
}

// guard does what Run says until ctx is done.
func (e *Engine) guard(ctx context.Context) {
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	var last sync.WaitGroup
	last.Go(func() { e.runKeeper(keeping) })
	last.Go(func() { e.sink.serve(keeping) })
	var all sync.WaitGroup
	all.Go(func() { e.discover(ctx) })
	all.Go(func() { e.learn(ctx) })
	if e.o.Once != nil {
		all.Go(func() {
			refresh.Run(ctx, lookEvery, e.o.Logger, "answer other servers; tried again until it works", e.answerRequests)
		})
	}
	e.loop.serve(ctx, e.o.Workers)
	all.Wait()
	stop()
	last.Wait()
}

// Tick does at once what Run does in time: it runs what is due, stores the states and notifies
// receivers. It is for an engine that nobody runs.
func (e *Engine) Tick(ctx context.Context) error {
	e.loop.dispatch()
	for _, queue := range []*taskQueue{&e.loop.store, &e.loop.outside} {
		for s, ok := queue.pop(); ok; s, ok = queue.pop() {
			e.loop.run(ctx, s.t, s.due)
			e.loop.finish(s.t)
		}
	}
	e.sink.flush(ctx)
	e.tickIncidents()
	return e.keepOnce(ctx)
}

// Replace changes the definitions. Checks that are the same go on as they were;
// the incident of one that is gone is resolved. On an error nothing has changed.
func (e *Engine) Replace(ctx context.Context, f spec.File) error {
	e.replacing.Lock()
	defer e.replacing.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := e.replace(f); err != nil {
		return err
	}
	e.SetProblem("")
	return nil
}

// replace does what Replace says. Needs replacing.
func (e *Engine) replace(f spec.File) error {
	cals := map[string]*profile.Calendar{}
	for name, c := range f.Calendars {
		cal, err := profile.NewCalendar(c)
		if err != nil {
			return fmt.Errorf("calendar %s: %w", name, err)
		}
		cals[name] = cal
	}
	profiles := map[string]*profile.Profile{}
	for name, p := range f.Profiles {
		made, err := compile(name, p, cals[p.Calendar])
		if err != nil {
			return fmt.Errorf("profile %s: %w", name, err)
		}
		profiles[name] = made
	}
	var defs []*definition
	for i := range f.Checks {
		c := &f.Checks[i]
		if c.Inactive {
			continue
		}
		d, err := e.define(c, profiles)
		if err != nil {
			return err
		}
		defs = append(defs, d)
	}
	var fixed []*window
	for i := range f.Maintenance {
		w, err := fileWindow(&f.Maintenance[i])
		if err != nil {
			return err
		}
		fixed = append(fixed, w)
	}
	slices.SortFunc(defs, func(a, b *definition) int { return strings.Compare(a.c.Name, b.c.Name) })
	e.mu.Lock()
	for _, d := range e.definitions {
		for _, t := range d.tasks {
			e.loop.remove(t)
		}
	}
	now := e.o.Now()
	e.lessons.replaceCalendars(e.profiles, profiles)
	e.file = f
	e.page, e.files, e.fixed, e.profiles = f.Page, f.Files, fixed, profiles
	if e.files == nil {
		e.files = []string{}
	}
	e.definitions, e.byName = defs, map[string]*definition{}
	for _, d := range defs {
		e.byName[d.c.Name] = d
	}
	for _, c := range e.conditions {
		c.in = nil
	}
	// Those that are known of go on; what else Each finds comes with discovery.
	for _, d := range defs {
		if d.c.Each == nil {
			e.enter(d, nil, now)
		} else if d.store {
			e.start(d, nil, now)
		}
	}
	e.enterKnown()
	if !e.guards {
		e.lessons.install(e.lessons.kept, profiles)
	}
	for _, id := range sortedKeys(e.conditions) {
		if c := e.conditions[id]; c.in == nil && e.guards {
			e.leave(c, now, "its definition is gone")
		}
	}
	e.rebuildWindows()
	if e.o.Once != nil && e.guards {
		e.putRecord(namesKey, e.names())
	}
	e.mu.Unlock()
	select {
	case e.defined <- struct{}{}:
	default:
	}
	return nil
}

// enterKnown applies each Each to the series that it is known to be applied to. Needs mu.
func (e *Engine) enterKnown() {
	for _, id := range sortedKeys(e.conditions) {
		c := e.conditions[id]
		if d := e.byName[c.key.Check]; c.in == nil && d != nil && d.c.Each != nil && len(c.each) == len(d.by) && hasAll(c.each, d.by) {
			e.enter(d, c.each, c.seen)
		}
	}
}

func hasAll(m map[string]string, names []string) bool {
	return !slices.ContainsFunc(names, func(n string) bool { _, ok := m[n]; return !ok })
}

// enter adds an instance to a definition. Needs mu.
func (e *Engine) enter(d *definition, each map[string]string, seen time.Time) {
	in, err := d.instanceOf(each, e.conditions)
	if err != nil {
		e.o.Logger.Error("apply a check to a series", "check", d.c.Name, "error", err)
		return
	}
	c := in.condition
	e.conditions[c.id] = c
	c.in, c.seen, c.receivers = in, seen, in.c.Receivers
	if c.machine.Incident != nil && e.guards {
		e.open[c.id] = c
	}
	d.instances = append(d.instances, in) // beyond what runs under way read
	d.byKey[c.key.Labels] = in
	if d.c.Each == nil || !d.store {
		e.start(d, in, seen)
	}
}

// start schedules a definition, or one instance of it, if this server guards. Needs mu.
func (e *Engine) start(d *definition, only *instance, now time.Time) {
	if !e.guards {
		return
	}
	t := &task{d: d, only: only, at: -1}
	d.tasks = append(d.tasks, t)
	if only != nil {
		only.task = t
		if d.c.Each != nil && d.c.Schedule.Interval > 0 { // each at a moment of its own
			if s, err := schedule.Parse(d.c.Schedule, only.id); err == nil {
				t.own = &s
			}
		}
	}
	from := e.o.Now()
	if ready := e.began.Add(refill); e.resumed && d.store && ready.After(from) {
		from = ready
	}
	e.loop.add(t, from)
}

// leave ends a condition: its incident is resolved, and it is forgotten. Needs mu.
func (e *Engine) leave(c *condition, now time.Time, why string) {
	if c.in == nil { // words need an instance
		d := &definition{c: &spec.Check{Name: c.key.Check, Receivers: c.receivers}}
		c.in = &instance{d: d, c: d.c, condition: c}
		if c.labels.IsEmpty() {
			c.labels = newCondition(d.c, c.each).labels
		}
	} else {
		e.detach(c)
	}
	e.said = c.machine.Close(now, why, e.said[:0])
	e.recordTransition(c.in, e.said)
	for _, t := range c.transitions {
		e.putRecord(transitionKey(c.id, t.At), nil)
	}
	c.removed, c.transitions = true, nil
	delete(e.conditions, c.id)
	delete(e.open, c.id)
	e.putRecord("c"+c.id, nil)
}

// detach takes a condition from its definition. Needs mu.
func (e *Engine) detach(c *condition) {
	d := c.in.d
	if d.byKey[c.key.Labels] != c.in {
		return
	}
	delete(d.byKey, c.key.Labels)
	d.instances = slices.DeleteFunc(slices.Clone(d.instances), func(in *instance) bool { return in == c.in })
	if t := c.in.task; t != nil {
		e.loop.remove(t)
		d.tasks = slices.DeleteFunc(d.tasks, func(o *task) bool { return o == t })
	}
}

// compile makes a profile.
func compile(name string, p spec.Profile, cal *profile.Calendar) (*profile.Profile, error) {
	return profile.Compile(name, p, cal, func(src string, _ int) (*expr.Program, error) {
		return parseThreshold(src)
	})
}

// parseThreshold reads an expression that may hold the value.
func parseThreshold(src string) (*expr.Program, error) {
	return expr.Parse(src, expr.Options{Variables: []string{"value"}})
}

func historyOptions(c *spec.Check, s schedule.Schedule, zone *time.Location, holiday func(time.Time) bool) history.ForOptions {
	tolerance := c.Tolerance
	if tolerance <= 0 {
		tolerance = max(2*s.Interval(), time.Minute)
	}
	return history.ForOptions{Tolerance: tolerance, Location: zone, Holidays: holiday}
}

// SetProblem sets why the definitions on disk are not those that run; empty: they are.
func (e *Engine) SetProblem(problem string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.problem = problem
}

// Stats returns the totals since Open.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stats
	s.Checks, s.ByState = len(e.conditions), map[string]int{}
	for _, c := range e.conditions {
		s.ByState[c.state()]++
	}
	s.Pending = s.ByState[pending]
	for _, d := range e.definitions {
		s.Beyond += d.beyond
	}
	s.Skipped = e.loop.skipped.Load()
	s.Refused = e.sink.refused.Load()
	s.Lags = e.loop.lag.total()
	s.LagSeconds = e.loop.lag.p99(e.o.Now())
	return s
}
