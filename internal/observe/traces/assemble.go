package traces

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"tailscope/internal/store"
)

// Assembler assembles spans into traces. It is safe for concurrent use.
type Assembler struct {
	o      Options
	names  *names
	seed   [2]uint64
	shards []*shard
	shift  uint // of a hash, to get the number of its shard
	maxAge int64
	groups sync.Pool // *group
	rows   targets
	router Router // nil: no trace goes to another server

	stop   context.CancelFunc // ends the sweeps
	giveUp context.CancelFunc // ends the current sweep
	done   chan struct{}

	closer  closer        // of sweeps
	workers []*closer     // of callers of Add
	turn    atomic.Uint32 // of the worker to wait for when all are busy
	keep    keep
	full    chan struct{} // receives when keep is
}

// EnsureDefaults sets zero fields to their defaults.
func (o *Options) EnsureDefaults() {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	if o.MemoryBytes <= 0 {
		o.MemoryBytes = 128 << 20
	}
	def(&o.Grace, 10*time.Second)
	def(&o.Idle, 60*time.Second)
	if o.MaxSpans <= 0 {
		o.MaxSpans = 20000
	}
	if o.MaxParts <= 0 {
		o.MaxParts = 50000
	}
	if o.Slots <= 0 {
		o.Slots = 10
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
}

// New starts an Assembler. The caller must close it.
func New(o Options) (*Assembler, error) {
	if o.Sink == nil {
		return nil, errors.New("traces: no sink given")
	}
	o.EnsureDefaults()
	a := &Assembler{
		o: o, names: newNames(o.MemoryBytes / 32 * 3), seed: [2]uint64{rand.Uint64(), rand.Uint64()},
		maxAge: int64(10 * max(o.Idle, time.Minute)), done: make(chan struct{}), full: make(chan struct{}, 1),
	}
	a.groups.New = func() any { return new(group) }
	n := 1
	for n < 4*runtime.GOMAXPROCS(0) && n < 64 && o.MemoryBytes/int64(2*n) >= 1<<20 {
		n *= 2
	}
	a.shift = uint(64 - bits.Len(uint(n-1)))
	for range n {
		a.shards = append(a.shards, newShard(o.MemoryBytes, n))
	}
	a.rows.init(o.Sink, min(o.MaxParts, int(o.MemoryBytes/32*3/8*3/rowBytes)), o.Now().Unix())
	a.closer.init(a)
	a.keep.init(a, o.MemoryBytes/32)
	a.addWorkers()
	sweeps, giveUp := context.WithCancel(context.Background())
	ctx, cancel := context.WithCancel(sweeps)
	a.stop, a.giveUp = cancel, giveUp
	o.Sink.BeforeCut(func(ctx context.Context) {
		_ = a.handOver(ctx) // counted, and logged where it causes a loss
	})
	go a.run(ctx, sweeps)
	return a, nil
}

// newShard returns a shard with its part of the memory: eleven sixteenths of it for open
// traces, a sixteenth to remember those closed or left out.
func newShard(memory int64, shards int) *shard {
	sh := &shard{bound: memory / 32 * 22 / int64(shards), gone: newRecent(memory / 16 / int64(shards)), oneIn: 1}
	per := func(size int64) uint {
		n := uint(4)
		for n < 8 && size<<(n+1) < sh.bound/32 {
			n++
		}
		return n
	}
	sh.traces.per, sh.blocks.per, sh.extras.per = per(openTraceBytes), per(blockBytes), per(extraBytes)
	return sh
}

// Name returns the number of an identity. It is valid while Epoch is what it was before
// the call, and must be resolved anew when Epoch has changed.
func (a *Assembler) Name(id *Identity) Name { return a.names.name(id, a.o.Now) }

// OfTenant returns the number of an identity that is like n, which has no tenant, but for the
// tenant. It is valid as long as n is.
func (a *Assembler) OfTenant(n Name, tenant string) Name {
	return a.names.ofTenant(n, tenant, a.o.Now)
}

// Text returns the number of a normalised statement, or 0 for the empty one and for lack
// of memory. It is valid as long as a Name is.
func (a *Assembler) Text(statement string) Text { return a.names.text(statement, a.o.Now().Unix()) }

// TextBytes is Text for bytes that are not retained.
func (a *Assembler) TextBytes(statement []byte) Text {
	return a.names.textBytes(statement, a.o.Now().Unix())
}

// Epoch changes when earlier Names and Texts must be resolved anew; they stay valid for
// some more minutes.
func (a *Assembler) Epoch() uint32 { return a.names.epoch.Load() }

// Add adds ended spans of any traces, in any order. It retains neither the slice nor the
// details. It does not fail: it counts what it cannot accept. Near the bound on memory
// it leaves out new traces; at the bound it closes the oldest itself. Traces that came whole it
// breaks down itself, and hands over the results now and then: so it may wait for the sink.
func (a *Assembler) Add(spans []Span) { a.add(spans, a.router) }

// add adds spans that go where router says, or stay without one.
func (a *Assembler) add(spans []Span, router Router) {
	if len(spans) == 0 {
		return
	}
	now := a.o.Now().UnixNano()
	g := a.groups.Get().(*group)
	g.router = router
	g.sort(a, spans)
	g.findWhole(a, spans, now)
	for n, sh := range a.shards {
		if from, to := g.from[n], g.from[n+1]; from < to {
			a.addTo(sh, spans, g, g.order[from:to], now)
		}
	}
	if g.invalid > 0 {
		sh := a.shards[0]
		sh.mu.Lock()
		sh.stats.Spans += uint64(g.invalid)
		sh.stats.Invalid += uint64(g.invalid)
		sh.mu.Unlock()
	}
	if len(g.once) > 0 {
		a.closeAtOnce(spans, g)
	}
	if len(g.away) > 0 {
		g.send(spans)
	}
	g.infos, g.router = nil, nil
	a.groups.Put(g)
}

// valid reports whether a span's times can be computed with.
func (s *Span) valid() bool {
	return s.Start >= 0 && s.End >= s.Start && s.End <= maxTime && s.TraceID != store.TraceID{}
}

// AddWhole adds the spans of one whole trace, which the next sweep closes without
// waiting for others.
func (a *Assembler) AddWhole(spans []Span) {
	if len(spans) == 0 {
		return
	}
	now := a.o.Now().UnixNano()
	sh := a.shards[a.mix(&spans[0].TraceID).Lo>>a.shift]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.stats.Spans += uint64(len(spans))
	var open uint32
	tries := 0
	for at := 0; at < len(spans); at++ {
		s := &spans[at]
		if !s.valid() {
			sh.stats.Invalid++
			continue
		}
		if open == 0 {
			open = sh.newTrace(&s.TraceID, ready, now)
		}
		switch {
		case open != 0 && sh.add(a, s, open, now):
		case tries == 3:
			sh.stats.NoSpace++
			if open != 0 {
				sh.traces.at(open).left++
			}
		default:
			tries++
			if open != 0 {
				// The spans so far must not be closed without the rest.
				sh.unlink(sh.traces.at(open))
			}
			sh.mu.Unlock()
			a.closeEarly(sh)
			sh.mu.Lock()
			if open != 0 {
				sh.push(open, sh.traces.at(open))
			}
			at--
		}
	}
}

// Flush closes every open trace, whatever its age, and hands over all results. It is for
// tests and for the end: later spans of these traces are late. It returns the errors of
// the sink and the keeper; the next sweep tries again what could not be handed over.
func (a *Assembler) Flush(ctx context.Context) error {
	return a.sweep(ctx, a.o.Now(), true)
}

// Close flushes and stops. When ctx is done it stops early: the breakdown of the traces
// still open then is dropped, and the error wraps that of ctx. The Assembler must not be
// used afterwards.
func (a *Assembler) Close(ctx context.Context) error {
	a.stop()
	defer context.AfterFunc(ctx, a.giveUp)()
	defer a.giveUp()
	<-a.done
	err := a.Flush(ctx)
	if ctx.Err() == nil {
		return err
	}
	s := a.Stats()
	return fmt.Errorf("the breakdown of %d open traces is dropped: %w", s.OpenTraces, ctx.Err())
}

// Stats returns the counts so far.
func (a *Assembler) Stats() Stats {
	a.keep.mu.Lock()
	s := a.keep.stats
	s.MemoryBytes = a.rows.bytes() + a.keep.held + a.keep.marks + int64(len(a.keep.last))*choiceCost
	a.keep.mu.Unlock()
	for _, c := range append(a.workers[:len(a.workers):len(a.workers)], &a.closer) {
		c.mu.Lock()
		s.addClosed(&c.stats)
		s.MemoryBytes += c.bytes()
		c.mu.Unlock()
	}
	now := a.o.Now().UnixNano()
	for _, sh := range a.shards {
		sh.mu.Lock()
		s.Spans += sh.stats.Spans
		s.Late += sh.stats.Late
		s.TooMany += sh.stats.TooMany
		s.Invalid += sh.stats.Invalid
		s.NoSpace += sh.stats.NoSpace
		s.LeftOutTraces += sh.stats.LeftOutTraces
		s.LeftOutSpans += sh.stats.LeftOutSpans
		sh.adapt(a, now)
		s.OneIn = max(s.OneIn, int(sh.oneIn))
		s.OpenTraces += sh.open
		s.OpenSpans += sh.spans
		s.MemoryBytes += sh.bytes() + sh.gone.bytes()
		sh.mu.Unlock()
	}
	s.MemoryBytes += a.names.size()
	s.FoldedNames = a.names.folded.Load()
	s.LeftOutTexts = a.names.textless.Load()
	return s
}

// maxTime is the latest end of a valid span: far in the future, and sums of a few times
// do not overflow.
const maxTime = 1 << 61
