package faults

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/agg"
	"tailscope/internal/store/pebblestore"
)

// Disturbances, endings and damage are what a stretch of a virtual round is
// made of: something goes wrong while requests are sent, or nothing; the
// process ends; something happens to its files before the next one starts.
const (
	nothing    = ""
	diskFull   = "disk full"
	writeError = "write error"
	clockSet   = "clock set"

	kill       = "kill -9"
	killInCall = "kill -9 in a call"
	power      = "power loss"
	powerCall  = "power loss in a call"
	stop       = "SIGTERM"
)

var (
	disturbances = []string{nothing, nothing, nothing, diskFull, writeError, clockSet}
	endings      = []string{kill, killInCall, killInCall, power, powerCall, stop}
)

// Options of virtual rounds.
type Options struct {
	Seed   uint64 // of the first round; each next one has the next
	Rounds int
	Damage bool                             // damage a file too, once in each round, at its end
	Logf   func(format string, args ...any) // called with each failure at once; may be nil
}

// Failure is a round in which a promise was broken.
type Failure struct {
	Seed uint64
	Text string
}

func (f Failure) String() string { return fmt.Sprintf("seed %d: %s", f.Seed, f.Text) }

// Result is the result of rounds.
type Result struct {
	Rounds, Restarts int
	Counts           Counts
	Met              map[string]int // how often each fault was met
	Damage           map[string]*Outcome
	Failures         []Failure

	Lost, Doubled         uint64 // observations, of the last comparison of each round
	Incidents, Deliveries int    // what the receiver of checks was told
}

// Virtual runs rounds, a few at a time since they wait as much as they work,
// until all are done or ctx is.
func Virtual(ctx context.Context, o Options) *Result {
	const atOnce = 4
	res := &Result{Met: map[string]int{}, Damage: map[string]*Outcome{}}
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := o.Seed
	for range min(atOnce, o.Rounds) {
		wg.Go(func() {
			for {
				mu.Lock()
				seed := next
				next++
				mu.Unlock()
				if seed >= o.Seed+uint64(o.Rounds) || ctx.Err() != nil {
					return
				}
				w := newWorld(seed, o.Damage)
				err := w.round(ctx)
				if err != nil && ctx.Err() != nil {
					return
				}
				mu.Lock()
				res.add(w, err, o.Logf)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return res
}

func (r *Result) add(w *world, err error, logf func(string, ...any)) {
	r.Rounds++
	r.Restarts += w.restarts
	for _, name := range w.met {
		r.Met[name]++
	}
	r.Counts.add(w.ledger.Counts())
	if w.hurt != "" {
		o := r.Damage[w.hurt]
		if o == nil {
			o = &Outcome{}
			r.Damage[w.hurt] = o
		}
		o.add(w.outcome)
	}
	if err == nil {
		return
	}
	f := Failure{w.seed, fmt.Sprintf("after %s: %v\nlog:\n%s", strings.Join(w.met, "; "), err, w.log.tail())}
	r.Failures = append(r.Failures, f)
	if logf != nil {
		logf("%v", f)
	}
}

const (
	dataDir    = "data"
	journalDir = "journal"
)

// world is a data directory on a disk that goes wrong, the process that has it
// open, and those who send to it.
type world struct {
	seed   uint64
	rng    *rand.Rand // of the operations; one goroutine
	damage bool
	ledger *Ledger
	log    *logTail
	now    atomic.Int64 // Unix nanoseconds
	ahead  atomic.Int64 // nanoseconds that the clock has leapt ahead of now
	passed atomic.Int64 // nanoseconds that have passed, however the clock was set
	begin  int64        // Unix seconds

	memtable int64
	mem      *vfs.MemFS
	disk     *disk
	st       *pebblestore.Store
	a        *agg.Aggregator
	senders  senders
	plain    bool // only spans that stand for themselves
	lenient  bool // views may differ: some of one is lost
	hurt     string
	outcome  Outcome
	faulty   bool // something disturbs: refusals and failures are to be expected

	mu      sync.Mutex
	durable Moment // what was acknowledged until then survives a loss of power
	entered map[string]bool
	crash   *crash
	life    int           // processes so far
	dead    chan struct{} // closed when the process ended by itself
	power   int           // percent of what is not synced that a crash leaves; 100 for one of the process

	restarts int
	met      []string
}

// crash holds what a process leaves behind: the disk, and the ledger's moments.
type crash struct {
	fs          *vfs.MemFS
	kept, begun Moment
}

func newWorld(seed uint64, damage bool) *world {
	w := &world{
		seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), damage: damage,
		ledger: NewLedger(), log: &logTail{}, mem: vfs.NewCrashableMem(),
	}
	w.begin = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).Unix() + int64(w.rng.IntN(86400))
	w.now.Store(w.begin * 1e9)
	w.memtable = 64 << 10 << w.rng.IntN(5)
	return w
}

func (w *world) clock() time.Time { return time.Unix(0, w.now.Load()+w.ahead.Load()) }

// round puts a data directory through several faults.
func (w *world) round(ctx context.Context) error {
	w.prepare(0)
	if err := w.open(ctx); err != nil {
		return fmt.Errorf("first start: %w", err)
	}
	faults := 1 + w.rng.IntN(6)
	if w.damage {
		faults = w.rng.IntN(3)
	}
	for range faults {
		disturbance, ending := disturbances[w.rng.IntN(len(disturbances))], endings[w.rng.IntN(len(endings))]
		name := strings.TrimPrefix(disturbance+", "+ending, ", ")
		w.met = append(w.met, name)
		c, err := w.stretch(ctx, disturbance, ending)
		if err != nil {
			return err
		}
		if err := w.restart(ctx, c); err != nil {
			return err
		}
	}
	if w.damage {
		return w.damageRound(ctx)
	}
	_, err := w.end(ctx, stop)
	return err
}

// prepare makes the disk and the moments of a new process, which may crash in a
// call while it starts.
func (w *world) prepare(crashAt int64) {
	w.disk = newDisk(w.mem, rand.New(rand.NewPCG(w.seed, 2+uint64(w.restarts))))
	// What has crashed may run on for a while; it is not to be heard any more.
	w.mu.Lock()
	w.life++
	life := w.life
	w.mu.Unlock()
	stale := func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.life != life
	}
	w.disk.crash = func() { w.takeCrash(life) }
	w.disk.syncs = func(path string) func() {
		if stale() {
			return func() {}
		}
		done := w.syncs(path)
		return func() {
			if !stale() {
				done()
			}
		}
	}
	w.disk.fatal = func() { w.fatal(life) }
	w.disk.plan.crashAt = crashAt
	w.ahead.Store(0) // the process may have died in a leap
	w.mu.Lock()
	defer w.mu.Unlock()
	w.durable, w.entered, w.crash, w.dead = w.ledger.Mark(), map[string]bool{}, nil, make(chan struct{})
}

func (w *world) logger() *slog.Logger { return slog.New(&logHandler{w.log, w.disk.fatal, nil}) }

func (w *world) storeOptions() pebblestore.Options {
	return pebblestore.Options{
		Dir: dataDir, FS: w.disk, MemtableBytes: w.memtable, CacheBytes: 1 << 20, MinFreeBytes: 16 << 10, Logger: w.logger(), Parallelism: 1,
		LeapWait: time.Hour, Elapsed: func() time.Duration { return time.Duration(w.passed.Load()) },
	}
}

// open starts the product on what lies on the disk. A start that was left to
// itself, since its process ended, changes nothing of a later life.
func (w *world) open(ctx context.Context) error {
	w.mu.Lock()
	life, log := w.life, w.logger()
	w.mu.Unlock()
	st, err := pebblestore.Open(ctx, w.storeOptions())
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	a, err := agg.Open(ctx, st, agg.Options{
		Dir: journalDir, Writer: st.Writer(), FS: w.disk, FlushInterval: time.Hour, SyncInterval: 2 * time.Millisecond, Now: w.clock, Logger: log,
	})
	if err != nil {
		return errors.Join(fmt.Errorf("aggregator: %w", err), st.Close())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.life == life {
		w.st, w.a = st, a
	}
	return nil
}

// takeCrash keeps what the disk would hold if everything ended now, if a process
// of that number is the one that runs.
func (w *world) takeCrash(life int) {
	w.mu.Lock()
	if w.crash != nil || w.life != life {
		w.mu.Unlock()
		return
	}
	c := &crash{}
	w.crash = c
	percent := w.power
	c.kept = w.durable
	w.mu.Unlock()
	if percent == 100 {
		c.kept = w.ledger.Mark()
	}
	if percent > 0 {
		// File systems keep the order in which directories change: those changes
		// survive all, or (at 0 %) only what was synced.
		for _, dir := range []string{"/", dataDir, journalDir} {
			if f, err := w.mem.OpenDir(dir); err == nil {
				_ = errors.Join(f.Sync(), f.Close())
			}
		}
	}
	c.fs = w.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(w.seed, 1000+uint64(w.restarts)))})
	c.begun = w.ledger.Mark()
}

// fatal is called when the store of a process says that it cannot go on: the
// process ends, and all that was written stays.
func (w *world) fatal(life int) {
	w.mu.Lock()
	dead := w.dead
	stale := w.life != life
	if !stale {
		w.power = 100
	}
	w.mu.Unlock()
	if !stale {
		w.takeCrash(life)
		w.mu.Lock()
		select {
		case <-dead:
		default:
			close(dead)
		}
		w.mu.Unlock()
	}
	select {} // what holds locks must not run on, nor can it be ended
}

func (w *world) crashed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.crash != nil
}

// keep says that what was acknowledged until m survives a loss of power.
func (w *world) keep(m Moment) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.durable = max(w.durable, m)
}

// syncs learns from the disk's own calls what a loss of power leaves of the
// journal: what was acknowledged before it was synced, if it is the only
// journal and its directory has been synced with it.
func (w *world) syncs(path string) func() {
	if !strings.Contains(path, journalDir) {
		return func() {}
	}
	names, err := w.mem.List(journalDir)
	if err != nil {
		return func() {}
	}
	var journals []string
	for _, n := range names {
		if strings.HasSuffix(n, ".journal") {
			journals = append(journals, n)
		}
	}
	m := w.ledger.Mark()
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !strings.HasSuffix(path, ".journal") {
			for _, n := range journals {
				w.entered[n] = true
			}
			return
		}
		if len(journals) == 1 && strings.HasSuffix(path, journals[0]) && w.entered[journals[0]] {
			w.durable = max(w.durable, m)
		}
	}
}

// stretch sends, disturbed, and ends the process.
func (w *world) stretch(ctx context.Context, disturbance, ending string) (*crash, error) {
	w.mu.Lock()
	w.power = 100
	if ending == power || ending == powerCall {
		w.power = max(w.rng.IntN(150)-50, 0)
	}
	w.mu.Unlock()
	w.faulty = disturbance == diskFull || disturbance == writeError
	p := plan{room: -1}
	if ending == killInCall || ending == powerCall {
		p.crashAt = 1 + w.rng.Int64N(1<<w.rng.IntN(11))
	}
	switch disturbance {
	case diskFull:
		p.room = w.rng.Int64N(64 << 10)
	case writeError:
		p.failAt, p.failFor = 1+w.rng.Int64N(1<<w.rng.IntN(9)), w.rng.Int64N(1<<w.rng.IntN(6))
	case clockSet:
		w.now.Add(int64(w.rng.IntN(6*3600)-3*3600) * 1e9)
	}
	w.disk.set(p)
	if err := w.operate(ctx, 2+w.rng.IntN(30)); err != nil {
		return nil, err
	}
	if w.faulty && w.rng.IntN(2) == 0 && !w.crashed() { // and all is well again
		p.failAt, p.room = 0, -1
		w.disk.set(p)
		if err := w.operate(ctx, 1+w.rng.IntN(10)); err != nil {
			return nil, err
		}
	}
	return w.end(ctx, ending)
}

// operate runs operations until the process has ended, or all are done.
func (w *world) operate(ctx context.Context, n int) error {
	return w.within(func() error {
		for range n {
			if w.crashed() {
				return nil
			}
			if err := w.operation(ctx); err != nil && !w.crashed() {
				return err
			}
		}
		return nil
	})
}

// patience is the time after which the disturbance of a call is ended; thirty times
// that is a hang.
const patience = time.Second

// errHangs says that a call has not come back.
var errHangs = errors.New("a call does not come back")

// within runs what calls the product in a goroutine of its own, which is left
// to itself when the process has ended meanwhile.
func (w *world) within(do func() error) error {
	ended := make(chan error, 1)
	go func() {
		ended <- do()
	}()
	patience := time.NewTicker(patience)
	defer patience.Stop()
	for range 30 {
		select {
		case err := <-ended:
			return err
		case <-w.dead:
			select {
			case <-ended:
			case <-time.After(100 * time.Millisecond): // it waits for one that is gone
			}
			return nil
		case <-patience.C:
			// On a full disk the store may wait for room. Somebody makes some.
			w.disk.set(plan{room: -1})
		}
	}
	buf := make([]byte, 1<<20)
	return fmt.Errorf("%w:\n%s", errHangs, buf[:runtime.Stack(buf, true)])
}

// end ends the process and returns what is left of it.
func (w *world) end(ctx context.Context, ending string) (*crash, error) {
	if ending == kill || ending == power {
		w.takeCrash(w.life)
	}
	// SIGTERM, and how what has crashed already gives its memory back. A crash
	// may still come while it closes.
	err := w.within(func() error {
		m := w.ledger.Mark()
		aerr := w.a.Close(ctx)
		if aerr == nil {
			w.keep(m)
		}
		return errors.Join(aerr, w.st.Close())
	})
	if errors.Is(err, errHangs) {
		return nil, err
	}
	if err != nil && !w.faulty && !w.crashed() {
		return nil, fmt.Errorf("close: %w", err)
	}
	w.mu.Lock()
	w.power = 100
	w.mu.Unlock()
	w.takeCrash(w.life)
	return w.crash, nil
}

// restart starts on what is left, perhaps to crash at once and start again, and
// holds what is stored against the ledger.
func (w *world) restart(ctx context.Context, c *crash) error {
	bounds, kept := w.ledger.Bounds(c.kept, c.begun), c.kept
	again := 0
	if w.rng.IntN(5) == 0 {
		again = 1 + w.rng.IntN(2)
	}
	w.faulty = false
	for {
		w.restarts++
		w.mem = c.fs
		crashAt := int64(0)
		if again > 0 {
			again--
			crashAt = 1 + w.rng.Int64N(60)
		}
		w.mu.Lock()
		w.power = 100
		if crashAt > 0 && w.rng.IntN(2) == 0 {
			w.power = max(w.rng.IntN(150)-50, 0)
		}
		w.mu.Unlock()
		w.prepare(crashAt)
		err := w.within(func() error { return w.open(ctx) })
		if err == nil && crashAt == 0 {
			break
		}
		if err != nil && !w.crashed() {
			return fmt.Errorf("restart: %w", err)
		}
		if err == nil {
			if c, err = w.end(ctx, kill); err != nil {
				return err
			}
		} else {
			c = w.crash
		}
	}
	stored, err := w.stored(ctx)
	if err != nil {
		return err
	}
	if d := Compare(bounds, stored); !d.Ok() {
		return errors.New(d.String())
	}
	w.ledger.Settle(stored)
	w.senders.restarted(kept)
	return nil
}

// logTail keeps the last lines that the product logged.
type logTail struct {
	mu    sync.Mutex
	lines []string
}

func (l *logTail) add(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, s)
	if len(l.lines) > 30 {
		l.lines = l.lines[1:]
	}
}

func (l *logTail) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// logHandler keeps warnings, and calls fatal when the store ends the process.
type logHandler struct {
	log   *logTail
	fatal func()
	attrs []slog.Attr
}

func (h *logHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", r.Level, r.Message)
	r.Attrs(func(a slog.Attr) bool { fmt.Fprintf(&b, " %s=%v", a.Key, a.Value); return true })
	h.log.add(b.String())
	if strings.Contains(r.Message, "the store cannot go on") {
		h.fatal()
	}
	return nil
}

func (h *logHandler) WithAttrs(a []slog.Attr) slog.Handler { return h }
func (h *logHandler) WithGroup(string) slog.Handler        { return h }
