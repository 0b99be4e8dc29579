package accesslog

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"tailscope/internal/agg"
	"tailscope/internal/observe/traces"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Sink receives durations: an aggregator.
type Sink interface {
	// NamedTarget replaces the values of the identity by those that it is counted under.
	NamedTarget(*agg.SpanIdentity) agg.Target
	SeriesTarget(series.Series) agg.Target
	DeclareFamily(store.FamilyInfo)
	NewBatch() Batch
	RetryAfter() time.Duration
}

// Batch collects the observations of a block of lines; see agg.Batch.
type Batch interface {
	Epoch() uint32
	Observe(t agg.Target, endNanos, durationNanos int64, weight uint32)
	DeltaNumber(t agg.Target, id agg.StreamID, timeNanos int64, v float64)
	Commit(context.Context) (agg.Rejects, error)
	Discard()
}

// Into returns an aggregator as a Sink.
func Into(a *agg.Aggregator) Sink { return sink{a} }

type sink struct{ *agg.Aggregator }

func (s sink) NewBatch() Batch { return s.Aggregator.NewBatch() }

// Traces receives whole requests: an assembler.
type Traces interface {
	Name(*traces.Identity) traces.Name
	Epoch() uint32
	AddWhole([]traces.Span)
}

// Options configures an Ingester.
type Options struct {
	Sink      Sink
	Traces    Traces               // nil: no breakdown, and no slow requests
	State     State                // nil: nothing is saved
	Routes    store.Records        // where servers share what they learn of routes; nil: it is saved in State
	Now       func() time.Time     // default time.Now
	Retention time.Duration        // older lines are refused; default 400 days
	Leapt     func() time.Duration // how far Now has leapt ahead, which Retention does not follow; default 0
	Longest   time.Duration        // requests with longer durations are refused; default 24 h
	Logger    *slog.Logger         // default discards
}

// maxAhead is how far ahead of the server's clock a line may be.
const maxAhead = 10 * time.Minute

// Ingester turns lines into observations. It is safe for concurrent use; it works on one
// block of a service at a time.
type Ingester struct {
	o     Options
	stats struct {
		lines, accepted, bytes, attempts, overloads, implausible atomic.Uint64
		refused                                                  [reasons]atomic.Uint64
	}
	declared sync.Once
	mu       sync.Mutex
	services map[string]*service // see maxServices
	asked    uint64              // number of look-ups
	imports  map[string]bool     // those in progress, by key
}

// New returns an Ingester.
func New(o Options) *Ingester {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Retention <= 0 {
		o.Retention = 400 * 24 * time.Hour
	}
	if o.Leapt == nil {
		o.Leapt = func() time.Duration { return 0 }
	}
	if o.Longest <= 0 {
		o.Longest = 24 * time.Hour
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.State == nil {
		o.State = discardState{}
	}
	return &Ingester{o: o, services: map[string]*service{}, imports: map[string]bool{}}
}

// Problem describes a line that was not used.
type Problem struct {
	Line    uint64 // from 1, in the file
	Column  int    // from 1, in bytes
	Reason  Reason
	Message string
	Text    string // the beginning of the line
}

// maxProblems bounds the problems that are kept for display.
const maxProblems = 5

// Tally counts the results of lines.
type Tally struct {
	Lines, Accepted uint64
	Untimed         uint64 // of the accepted: without a duration
	Refused         [reasons]uint64
	Problems        []Problem
	First, Last     int64 // Unix nanoseconds of the accepted lines; 0 without any
	operations      []uint64
	tenants         map[string]uint64
}

// TotalRefused returns the number of lines not used.
func (t *Tally) TotalRefused() uint64 { return t.Lines - t.Accepted }

// maxWait bounds the pause before retrying an overloaded server: reading a file may
// retry more often than a remote sender.
const maxWait = time.Second

// feed reads the lines of one file in order. It is not for concurrent use.
type feed struct {
	in      *Ingester
	src     *Source
	svc     *service
	seed    uint64 // separates this file's trace ids from others'
	since   int64  // Unix nanoseconds; earlier lines are skipped
	tally   Tally
	parser  parser
	rec     record
	entries []entry
	spans   []traces.Span
	sizes   []int // number of spans of each trace
	details []byte
	dry     bool // only parse and name

	holder   string // the file's name to its sequence
	sequence int    // -1 until it is known
	ticks    []tick
	tickAt   map[tickKey]int

	implausible uint64 // times of a queue in the current block that were left out
}

// entry is a line of the current block.
type entry struct {
	op     *operation
	tenant uint32
	end    int64
}

// feed begins to read a file with a fixed format. The holder identifies it among the
// files of the service that are being read.
func (in *Ingester) feed(ctx context.Context, src *Source, seed uint64, holder string) (*feed, error) {
	svc, err := in.service(ctx, src.Service)
	if err != nil {
		return nil, err
	}
	return &feed{in: in, src: src, svc: svc, seed: seed, holder: holder, sequence: -1, tickAt: map[tickKey]int{}, parser: parser{f: src.format}}, nil
}

// learn reads lines without counting them, so that routes are known before the first is
// named.
func (f *feed) learn(b []byte) {
	f.svc.mu.Lock()
	defer f.svc.mu.Unlock()
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		if len(line) > 0 && len(line) <= MaxLine && f.parser.read(line, &f.rec) {
			f.svc.router.operationOf(&f.rec, f.src.rules)
		}
	}
}

// cutLine returns the first line, without its end, and the rest.
func cutLine(b []byte) (line, rest []byte) {
	i := indexNewline(b)
	if i < 0 {
		line, rest = b, nil
	} else {
		line, rest = b[:i], b[i+1:]
	}
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, rest
}

// ingestBlock ingests whole lines, the first of which begins at offset of the file. It waits
// while the server is overloaded, so that its caller reads no further. When it returns
// nil each line was ingested once; on an error none was.
func (f *feed) ingestBlock(ctx context.Context, b []byte, offset int64) error {
	for {
		err := f.try(ctx, b, offset)
		if !errors.Is(err, agg.ErrOverloaded) {
			return err
		}
		f.in.stats.overloads.Add(1)
		wait := time.NewTimer(min(f.in.o.Sink.RetryAfter(), maxWait))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return ctx.Err()
		}
	}
}

func (f *feed) try(ctx context.Context, b []byte, offset int64) error {
	var t Tally
	f.entries, f.spans, f.sizes, f.details = f.entries[:0], f.spans[:0], f.sizes[:0], f.details[:0]
	now := f.in.o.Now().UnixNano()
	oldest, newest := now-int64(f.in.o.Leapt())-int64(f.in.o.Retention), now+int64(maxAhead)

	f.svc.mu.Lock()
	defer f.svc.mu.Unlock()
	var batch Batch
	attempts := 0
	f.implausible = 0
	f.resetTicks()
	if f.dry {
		f.svc.dropTargets(0, nil)
	} else {
		batch = f.in.o.Sink.NewBatch()
		f.svc.dropTargets(batch.Epoch(), f.in.o.Traces)
	}
	for at := 0; at < len(b); {
		line, rest := cutLine(b[at:])
		begin := at
		at = len(b) - len(rest)
		if len(line) == 0 {
			continue
		}
		t.Lines++
		ok := true
		switch {
		case len(line) > MaxLine:
			ok = f.parser.fail(TooLong, MaxLine, "")
		case !f.parser.read(line, &f.rec):
			ok = false
		case f.rec.end < f.since:
			ok = f.parser.fail(Earlier, 0, "")
		case f.rec.end < oldest:
			ok = f.parser.fail(TooOld, 0, "")
		case f.rec.end > newest:
			ok = f.parser.fail(TooNew, 0, "")
		case f.rec.longest() > int64(f.in.o.Longest):
			ok = f.parser.fail(LongDuration, 0, "")
		}
		if !ok {
			f.refuse(&t, line)
			continue
		}
		op := f.svc.router.operationOf(&f.rec, f.src.rules)
		tenant := f.svc.value(f.src.tenant.tenantOf(&f.rec))
		f.entries = append(f.entries, entry{op, tenant, f.rec.end})
		attempts += len(f.rec.attempts)
		switch {
		case f.rec.untimed:
			t.Untimed++
			if !f.dry {
				f.measure(batch, op, tenant)
			}
		case !f.dry:
			f.observe(batch, op, tenant, offset+int64(begin))
		}
	}
	if !f.dry {
		f.addCounts(batch, oldest)
		rejects, err := batch.Commit(ctx)
		if err != nil {
			return err
		}
		f.commitCounts()
		if n := rejects.Total(); n > 0 { // the times of the lines were checked before
			f.in.o.Logger.Warn("the aggregator refused observations of access log lines", "service", f.src.Service, "observations", n)
		}
		if f.in.o.Traces != nil {
			i := 0
			for _, n := range f.sizes {
				f.in.o.Traces.AddWhole(f.spans[i : i+n])
				i += n
			}
		}
	}
	f.addResults(&t, attempts, len(b))
	return nil
}

func (f *feed) refuse(t *Tally, line []byte) {
	p := f.parser.problem
	t.Refused[p.reason]++
	if len(t.Problems)+len(f.tally.Problems) < maxProblems && p.reason != Earlier {
		t.Problems = append(t.Problems, Problem{
			Line: f.tally.Lines + t.Lines, Column: p.column, Reason: p.reason, Message: explainProblem(p), Text: shorten(line),
		})
	}
}

// explainProblem describes what was expected where a line was wrong.
func explainProblem(p problem) string {
	switch p.reason {
	case Mismatch:
		switch p.detail {
		case "":
			return "the line goes on after the format's end"
		case "JSON":
			return "this is not a JSON object"
		}
		return "expected " + p.detail
	case BadTime:
		return "this is not a time"
	case BadDuration:
		return "this is not a duration"
	case NoDuration:
		return "the line says no duration"
	case BadStatus:
		return "this is not a status"
	case NoRequest:
		return "neither a request line nor a path"
	case TooLong:
		return "the line is longer than 64 KiB"
	case TooOld:
		return "older than what is kept"
	case TooNew:
		return "in the future"
	case LongDuration:
		return "a duration longer than limits.longest_span"
	}
	return p.reason.String()
}

// addResults adds the results of a block that was ingested.
func (f *feed) addResults(t *Tally, attempts, size int) {
	st := &f.in.stats
	sum := &f.tally
	sum.Lines += t.Lines
	for r, n := range t.Refused {
		if n > 0 {
			sum.Refused[r] += n
			if !f.dry {
				st.refused[r].Add(n)
			}
		}
	}
	sum.Problems = append(sum.Problems, t.Problems...)
	sum.Accepted += uint64(len(f.entries))
	sum.Untimed += t.Untimed
	for i := range f.entries {
		e := &f.entries[i]
		sum.operations = increment(sum.operations, e.op.number)
		if e.tenant != 0 {
			sum.tenant(f.svc.texts[e.tenant])
		}
		e.op.count++
		if sum.First == 0 || e.end < sum.First {
			sum.First = e.end
		}
		sum.Last = max(sum.Last, e.end)
	}
	if f.dry {
		return
	}
	st.lines.Add(t.Lines)
	st.accepted.Add(uint64(len(f.entries)))
	st.bytes.Add(uint64(size))
	st.attempts.Add(uint64(attempts))
	st.implausible.Add(f.implausible)
}

// maxTallied bounds the tenants that a tally names.
const maxTallied = 10_000

func (t *Tally) tenant(name string) {
	if t.tenants == nil {
		t.tenants = map[string]uint64{}
	}
	if _, ok := t.tenants[name]; !ok && len(t.tenants) >= maxTallied {
		name = series.Other
	}
	t.tenants[name]++
}

func increment(to []uint64, i uint32) []uint64 {
	for int(i) >= len(to) {
		to = append(to, 0)
	}
	to[i]++
	return to
}
