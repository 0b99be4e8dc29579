// Package agg turns observations into points: it keeps the open slots of every active
// series in memory, journals what it accepts before it is acknowledged, and flushes a
// generation at a time to the store.
//
// A generation is everything accepted between two flushes, whatever slots it fell in.
// Merging a batch twice would count it twice, so exactly-once rests on generations: one
// synced Put stores generation G with the fact that G is stored, G's journal is deleted
// once the store has G in a table, and after a crash the journals above the store's last
// generation are replayed. A batch is wholly in one generation. What is derived from
// accepted observations is part of a generation but of no journal; see NewDerivedBatch.
//
// An observation of a span updates two series: the Full one, with its tenant, and the
// Marginal, without. Total is made from Marginal cells when a generation is flushed. The
// names of each service are bounded; those beyond the bound fold into series.Other and
// are counted, so totals stay complete.
package agg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/seconds"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// ErrOverloaded reports that memory or the journal is at its bound. Nothing of the batch
// was accepted; the sender should retry after Options.RetryAfter.
var ErrOverloaded = errors.New("overloaded")

// ErrClosed reports that the Aggregator is closed.
var ErrClosed = errors.New("aggregator is closed")

// Options configures an Aggregator. Each field has a default for its zero value.
type Options struct {
	Dir           string                   // journal directory; created if absent
	FS            vfs.FS                   // default: the machine's file system
	DamagedDir    string                   // where journals that are damaged are kept; default "damaged" beside Dir
	Writer        string                   // name of this writer in the store; required, and unique among servers
	Shared        bool                     // other servers have the store too, and names are given for all of them
	Servers       func() int               // servers of a shared store that are alive; nil: this one
	FlushInterval time.Duration            // default 10 s: generations are cut just after a base slot ends
	SyncInterval  time.Duration            // default 1 s: interval of journal syncs, which bounds the loss at a power failure
	MemoryBytes   int64                    // bound on open slots and tables, in bytes; default 256 MiB
	MaxTenants    int                      // names of tenants per service; default 20,000
	MaxOperations int                      // names of operations per service; default 2,000
	MaxInstances  int                      // names of instances per service; default 200
	MaxValues     int                      // values of each other label per service; default 200
	MaxFamilies   int                      // families with active series; beyond them incoming metrics of new families are refused; default 5,000
	RetryAfter    time.Duration            // how long senders should wait; default 5 s
	Retention     time.Duration            // how far back observations are accepted; default 48 h
	MaxAhead      time.Duration            // how far ahead of our clock; default 10 min
	CloseTimeout  time.Duration            // how long Close tries to store what is open; default 5 s
	KeptBytes     int64                    // bytes of kept journals beyond which the store must write its tables; default 64 MiB
	IdleAfter     time.Duration            // series idle for so long leave memory; default 10 min
	Remember      func(store.Damage) error // saves what Damage returns for later starts; may be nil
	Now           func() time.Time
	Seconds       *seconds.Ring        // receives every request of a span that is accepted; may be nil
	Leapt         func() time.Duration // how far Now has leapt ahead, which Retention does not follow; default 0
	Logger        *slog.Logger         // for failures of the background work; default discards
}

// EnsureDefaults sets zero fields to their defaults.
func (o *Options) EnsureDefaults() {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	count := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.DamagedDir == "" {
		o.DamagedDir = o.FS.PathJoin(o.FS.PathDir(o.Dir), "damaged")
	}
	if o.MemoryBytes == 0 {
		o.MemoryBytes = 256 << 20
	}
	if o.KeptBytes == 0 {
		o.KeptBytes = 64 << 20
	}
	def(&o.FlushInterval, 10*time.Second)
	def(&o.SyncInterval, time.Second)
	def(&o.RetryAfter, 5*time.Second)
	def(&o.Retention, 48*time.Hour)
	def(&o.MaxAhead, 10*time.Minute)
	def(&o.IdleAfter, 10*time.Minute)
	def(&o.CloseTimeout, 5*time.Second)
	count(&o.MaxTenants, 20_000)
	count(&o.MaxOperations, 2_000)
	count(&o.MaxInstances, 200)
	count(&o.MaxValues, 200)
	count(&o.MaxFamilies, 5_000)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Leapt == nil {
		o.Leapt = func() time.Duration { return 0 }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// SpanIdentity is the identity that a span is counted under. The strings are not
// retained after the call; a new series copies them.
type SpanIdentity struct {
	Service, Operation, Component, Kind, Status, Tenant, Version, Variant, Instance string
	Environment, Namespace, K8sNamespace, Workload                                  string
	System, Peer                                                                    string         // the backend that a call went to
	Extra                                                                           []labels.Label // configured extra labels, sorted
}

// Target identifies the series that one kind of observation updates (for spans: the full
// series, the marginal, the tenant's weight). It is valid while Epoch is unchanged, and
// in batches begun before Epoch changed. Zero is not a target: observations on it are
// refused as invalid.
type Target uint64

// Aggregator keeps open slots and flushes them. It is safe for concurrent use.
type Aggregator struct {
	o     Options
	st    store.Store
	slabs slabs

	epoch atomic.Uint32
	full  atomic.Bool // memory is at its bound

	flushError atomic.Pointer[error] // of the last Flush

	mu       sync.Mutex
	reg      *registry
	streams  *streams
	families map[string]store.FamilyInfo
	declared map[string]store.FamilyInfo // since the last cut
	open     *generation
	frozen   []*generation // cut but not stored, oldest first

	beforeCut []func(context.Context) // see BeforeCut
	closed    bool
	newFiles  bool // journals were created since the directory was synced
	ack       *acknowledged
	position  uint64 // number of entries ever journalled
	// lastJournal is the last generation before the open one that had a journal.
	lastJournal uint64
	defs        []byte // frames of definitions
	defsAt      int    // offset of the last of them
	stats       Stats

	damageMu sync.Mutex
	damage   []store.Damage

	pinMu sync.Mutex
	pins  map[uint32]int // batches in progress, by epoch

	putMu  sync.Mutex // serializes Puts; guards the fields below
	build  builder
	built  atomic.Int64 // bytes of build
	hour   int64
	swept  time.Time
	expiry time.Time
	stored time.Time // when the tenants' tables were last stored
	began  []generationTime
	kept   map[uint64]kept // journals of generations that are only in the store's log

	keptBytes int64
	keepAll   bool // the next start needs every journal

	recentEpoch uint32 // of the numbers in seriesRec.recent

	exchange exchange // of names with other servers

	batches sync.Pool
	kick    chan struct{}
	stop    context.CancelFunc // ends the flusher and the syncer
	giveUp  context.CancelFunc // ends the flusher's flush in progress
	done    sync.WaitGroup
}

type generationTime struct {
	number uint32
	at     time.Time
}

// generation is everything accepted between two flushes.
type generation struct {
	number  uint64
	began   time.Time
	cells   *cells
	journal *journal // nil until the first commit
	entries uint64   // that its journal holds
	derived bool     // it also holds what no journal does; see NewDerivedBatch
	records []store.State
	infos   []store.FamilyInfo
	totals  bool   // its Total cells are made
	added   uint64 // registry.added when it was cut
	// addedBefore is added of the generation before it.
	addedBefore uint64
	stored      bool // guarded by Aggregator.mu: its cells are released

	// reading is held while cells of a frozen generation are read for a question, or
	// changed. It is locked before Aggregator.mu.
	reading sync.RWMutex
}

// Open replays the journals above the store's flushed generation and starts the flusher.
// A damaged or missing journal does not prevent the start: it is set aside, logged and
// counted; see Damage.
func Open(ctx context.Context, st store.Store, o Options) (*Aggregator, error) {
	o.EnsureDefaults()
	if o.Dir == "" {
		return nil, errors.New("aggregator needs a journal directory")
	}
	if o.Writer == "" {
		return nil, errors.New("aggregator needs the name of a writer")
	}
	// A power failure must not lose the directory with the files that are synced in it.
	if err := errors.Join(o.FS.MkdirAll(o.Dir, 0o700), syncDir(o.FS, o.FS.PathDir(o.Dir))); err != nil {
		return nil, fmt.Errorf("journal directory: %w", err)
	}
	a := &Aggregator{
		o: o, st: st,
		streams:  newStreams(),
		families: map[string]store.FamilyInfo{},
		declared: map[string]store.FamilyInfo{},
		pins:     map[uint32]int{},
		kick:     make(chan struct{}, 1),
	}
	a.reg = newRegistry(&a.o)
	a.epoch.Store(1)
	a.reg.epoch = 1
	now := a.o.Now()
	a.hour = now.Unix() / 3600
	a.swept, a.expiry, a.stored = now, now, now
	err := a.recover(ctx, now)
	if err == nil && o.Shared {
		err = a.exchangeNames(ctx)
	}
	if err != nil {
		for _, g := range a.frozen {
			g.journal.close()
		}
		if a.ack != nil {
			a.ack.close()
		}
		return nil, err
	}
	run, stop := context.WithCancel(context.Background())
	a.stop = stop
	flushes, giveUp := context.WithCancel(context.Background())
	a.giveUp = giveUp
	a.done.Add(2)
	go func() { defer a.done.Done(); a.runFlusher(run, flushes) }()
	go func() { defer a.done.Done(); a.runSyncer(run) }()
	if o.Shared {
		a.done.Go(func() { a.runExchange(run) })
	}
	return a, nil
}

func (a *Aggregator) openGeneration(number uint64, now time.Time) {
	before := uint64(0)
	if a.open != nil {
		a.open.added, before = a.reg.added, a.reg.added
	}
	a.open = &generation{number: number, began: now, addedBefore: before, cells: newCells(&a.slabs, a.reg.series.n)}
	a.reg.generation = uint32(number)
	a.began = append(a.began, generationTime{uint32(number), now})
}

// release frees the memory of a generation. The caller holds Aggregator.mu.
func (g *generation) release() {
	g.stored = true
	g.cells.release()
}

// Close flushes what is open and stops; nothing is accepted afterwards. What is not
// stored after Options.CloseTimeout, or refused by the store, stays in the journal: the
// next Open replays it.
func (a *Aggregator) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.o.CloseTimeout)
	defer cancel()
	a.collect(ctx)
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return nil
	}
	a.closed = true
	a.mu.Unlock()
	a.stop()
	stopped := context.AfterFunc(ctx, a.giveUp)
	a.done.Wait()
	stopped()
	a.giveUp()
	a.mu.Lock()
	a.saveTenants()
	a.mu.Unlock()
	err := a.Flush(ctx)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		a.o.Logger.Warn("some observations are not stored yet: the next start replays them from the journal", "after", a.o.CloseTimeout, "err", err)
		err = nil
	}
	err = errors.Join(err, a.syncJournals())
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, g := range append(a.frozen, a.open) {
		if j := g.journal; j != nil {
			if j.unsynced {
				err = errors.Join(err, fmt.Errorf("journal %s could not be synced, and the store does not have it yet: it may be lost with the machine's power", j.path))
			}
			j.close()
		}
		g.release()
	}
	a.frozen = nil
	return errors.Join(err, a.ack.close())
}

// Epoch returns the current epoch. It changes when earlier targets must be resolved
// anew: the set of named tenants changed, or idle series were dropped.
func (a *Aggregator) Epoch() uint32 { return a.epoch.Load() }

// Overloaded reports whether Commit would refuse now, so that a request can be refused
// before it is decoded.
func (a *Aggregator) Overloaded() bool { return a.full.Load() }

// RetryAfter returns how long a refused sender should wait.
func (a *Aggregator) RetryAfter() time.Duration { return a.o.RetryAfter }

// SpanTarget resolves a span's identity in family span_duration_seconds.
func (a *Aggregator) SpanTarget(id *SpanIdentity) Target {
	return a.spanTarget(series.SpanDuration, id)
}

func (a *Aggregator) spanTarget(family string, id *SpanIdentity) Target {
	key := keyOf(family, id)
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.reg.span(family, id, &key, a.pressed())
	return makeTarget(n, a.reg.targets.at(n).incarnation, series.Distribution)
}

// pressed reports whether memory is so short that new tenants are folded. The caller holds mu.
func (a *Aggregator) pressed() bool { return a.memory() > a.o.MemoryBytes*3/4 }

// NamedTarget is SpanTarget, and replaces the values of id by those that it is counted
// under: series.Other for values beyond a bound. A span of a folded tenant keeps its
// operation, though the tenants' common series has none.
func (a *Aggregator) NamedTarget(id *SpanIdentity) Target {
	key := keyOf(series.SpanDuration, id)
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.reg.span(series.SpanDuration, id, &key, a.pressed())
	a.reg.rename(n, id, &key)
	return makeTarget(n, a.reg.targets.at(n).incarnation, series.Distribution)
}

// Cohort returns the cohort of a tenant by its share of the service's requests, or of
// its spans if it serves none; see series.Cohort. It changes each hour, and more often
// while a service is new. Folded tenants are small. It returns "" for an empty tenant.
func (a *Aggregator) Cohort(service, tenant string) string {
	if tenant == "" {
		return ""
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.reg.serviceOf[service]
	if n == 0 {
		return series.Small
	}
	t := a.reg.services[n].tenants
	if t.cohorts == nil {
		a.reg.updateSketches()
	}
	return t.cohort(tenantHash(tenant))
}

// SeriesTarget resolves one series of Tailscope's own families; its labels are retained.
// It returns 0 if the series is in use with another kind.
func (a *Aggregator) SeriesTarget(s series.Series) Target {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.target(a.reg.metric(s, false))
}

// MetricTarget is SeriesTarget for incoming metrics: it also returns 0 if the family is
// refused; see RefusesFamily.
func (a *Aggregator) MetricTarget(s series.Series) Target {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.target(a.reg.metric(s, true))
}

// RefusesFamily reports whether a family has no active series and Options.MaxFamilies
// others have.
func (a *Aggregator) RefusesFamily(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reg.refuses(name)
}

func (a *Aggregator) target(n uint32) Target {
	if n == 0 {
		return 0
	}
	t := a.reg.targets.at(n)
	return makeTarget(n, t.incarnation, a.reg.meta.at(t.full).Kind)
}

// DeclareFamily records a family's kind and export interval.
func (a *Aggregator) DeclareFamily(f store.FamilyInfo) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if old, ok := a.families[f.Name]; ok && old.Kind == f.Kind && old.IntervalSeconds >= f.IntervalSeconds {
		return
	}
	a.families[f.Name] = f
	a.declared[f.Name] = f
}

// memory returns the bytes that the bound applies to. The caller holds mu.
func (a *Aggregator) memory() int64 {
	return a.slabs.used.Load() + a.reg.bytes() + a.streams.size
}

// saveTenants adds changed tables of named tenants to the open generation. The caller
// holds mu.
func (a *Aggregator) saveTenants() {
	a.reg.countWeights()
	for _, s := range a.reg.services[1:] {
		if s.tenants.dirty {
			s.tenants.dirty = false
			key := append([]byte{keyTenants}, s.name...)
			for i, r := range a.open.records {
				if bytes.Equal(r.Key, key) {
					a.open.records = append(a.open.records[:i], a.open.records[i+1:]...)
					break
				}
			}
			a.open.records = append(a.open.records, store.State{Key: key, Value: s.tenants.appendBinary(nil)})
		}
	}
}

// Stats holds running totals since Open, and present sizes.
type Stats struct {
	Observations, Late, DroppedOld, Overloads, Generations, ActiveSeries, JournalBytes, FoldedTenants, FoldedOperations uint64

	DroppedNew  uint64 // too far ahead of the server's clock
	OutOfOrder  uint64 // cumulative points whose time did not advance
	Invalid     uint64 // other refused observations
	Unmergeable uint64 // histograms of one series and slot with incompatible bounds, left out
	Resets      uint64 // of cumulative streams
	// FoldedObservations counts observations of a named tenant that were counted under
	// tenant="_other". The other Folded fields count resolutions, not observations.
	FoldedObservations uint64
	FoldedValues       uint64 // of services and all other labels
	FlushErrors        uint64 // Puts that failed, to be retried
	SyncErrors         uint64
	TornTails          uint64    // journals that ended in an unacknowledged request
	Replayed           uint64    // entries replayed from journals
	Recovered          uint64    // of those, entries that the store's log had lost
	Lost               uint64    // acknowledged entries that were lost with damaged or missing journals
	JournalKeptBytes   int64     // of journals whose generation is only in the store's log
	Streams            uint64    // cumulative and delta streams that are remembered
	Pending            uint64    // generations cut and not yet stored
	Oldest             time.Time // when the oldest of these began; zero for none
	MemoryBytes        int64     // bounded by Options.MemoryBytes: the sum of the next three

	SlotBytes   int64 // observations of open and frozen generations
	SeriesBytes int64 // tables of series, targets and tenants
	StreamBytes int64
	KeptBytes   int64 // free memory, kept for the next generation
}

// Stats returns the totals since Open.
func (a *Aggregator) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.stats
	s.ActiveSeries = uint64(a.reg.byID.Len())
	s.FoldedTenants, s.FoldedOperations, s.FoldedValues = a.reg.foldedTens, a.reg.foldedOps, a.reg.foldedVals
	s.Resets = a.streams.resets
	s.Streams = uint64(len(a.streams.byID))
	if s.Pending = uint64(len(a.frozen)); s.Pending > 0 {
		s.Oldest = a.frozen[0].began
	}
	s.MemoryBytes = a.memory()
	s.SlotBytes, s.SeriesBytes, s.StreamBytes = a.slabs.used.Load(), a.reg.bytes(), a.streams.size
	s.KeptBytes = a.slabs.kept() + a.built.Load()
	return s
}

// Damage returns the journals found damaged or missing since Open, oldest first.
func (a *Aggregator) Damage() []store.Damage {
	a.damageMu.Lock()
	defer a.damageMu.Unlock()
	return slices.Clone(a.damage)
}

// pin pins the current epoch for a batch and returns it.
func (a *Aggregator) pin() uint32 {
	a.pinMu.Lock()
	defer a.pinMu.Unlock()
	e := a.epoch.Load()
	a.pins[e]++
	return e
}

func (a *Aggregator) unpin(e uint32) {
	a.pinMu.Lock()
	defer a.pinMu.Unlock()
	if a.pins[e]--; a.pins[e] == 0 {
		delete(a.pins, e)
	}
}

// advance begins a new epoch. The caller holds mu.
func (a *Aggregator) advance() {
	a.pinMu.Lock()
	defer a.pinMu.Unlock()
	a.reg.epoch++
	a.epoch.Store(a.reg.epoch)
}

// oldestPin returns the oldest epoch that a batch is pinned to, or the current one.
func (a *Aggregator) oldestPin() uint32 {
	a.pinMu.Lock()
	defer a.pinMu.Unlock()
	oldest := a.epoch.Load()
	for e := range a.pins {
		oldest = min(oldest, e)
	}
	return oldest
}
