package pebblestore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Options configures a Store. Only Dir is required; each other field has a default for
// its zero value.
type Options struct {
	Dir string // created if it does not exist
	FS  vfs.FS // default: the machine's file system
	// DamagedDir receives files that cannot be read; default damaged in Dir. It must be
	// on the same file system as Dir.
	DamagedDir string

	// Retention is how long the slots of each resolution are kept, finest
	// first; defaults 48 h, 35 days, 100 days, 400 days. Each must be at least
	// as long as the one before, and the first at least 2 h.
	Retention [len(series.Resolutions)]time.Duration
	// SampleAge and SampleCount bound the raw samples of each number family; defaults 35
	// days and 15,000 of each series. Samples of a series are dropped by the hour, once
	// it has SampleCount newer ones in later hours that are compacted, and at least half
	// of the family's samples of the hour are to go. So a series may keep more, but all
	// together never more than twice what they must.
	SampleAge   time.Duration
	SampleCount int
	// TraceAge is how long kept traces are kept, default 7 days; TraceBytes bounds their
	// bytes before compression, default 1 GiB and never more than a quarter of MaxBytes.
	// A whole hour is dropped at a time, the oldest first.
	TraceAge   time.Duration
	TraceBytes int64
	// MaxBytes bounds the data directory; 0 is no bound. The finest data is dropped
	// first, oldest first: slots of the finest resolution and raw samples, then coarser
	// slots.
	MaxBytes int64
	// MinFreeBytes is the space that must stay free on the disk: below it Put returns
	// store.ErrFull while reads go on. Default 256 MiB, negative for none.
	MinFreeBytes int64

	CacheBytes    int64 // block cache; default 48 MiB
	MemtableBytes int64 // default 16 MiB
	// IndexBytes bounds the label index and run directories in memory; what the last few
	// Puts wrote to stays in any case. Default 96 MiB.
	IndexBytes int64

	// AnswerBytes bounds the approximate memory of one answer; a larger query is refused
	// with store.ErrTooMany. Default 1 GiB.
	AnswerBytes int64

	// Settle is how long after the end of a partition its points are compacted; default
	// 10 min. Rollup is how long after its end a slot is rolled up; default 20 s.
	Settle, Rollup time.Duration
	// Quiet is how long, by Elapsed, nothing must have been added to a partition before
	// it is compacted, so that what comes in parts is rewritten once. A partition that is
	// added to all the time is compacted after thirty times as long. Default 0.
	Quiet time.Duration

	// LeapWait is how long a clock must stand before Maintain believes it after a leap
	// of more than an hour, against Elapsed or, at a start or after a suspension of more
	// than an hour, against the last believed moment. One call of Maintain counts for a
	// minute at most. Until then Maintain continues from that moment; if there is none,
	// nothing expires by age. Default 0: Maintain uses the moment it is given.
	LeapWait time.Duration
	// Elapsed is a monotonic clock that goes on while the machine is suspended, and
	// Running one that does not; default: the machine's, for Running Elapsed if that
	// is given.
	Elapsed, Running func() time.Duration

	// ID is that of a store that is created; default random. See Store.Writer.
	ID uint64
	// Copy opens the store as a store.CopyTarget.
	Copy bool

	// Parallelism bounds the goroutines of one query; default GOMAXPROCS.
	Parallelism int

	Logger *slog.Logger // default discards
}

func (o *Options) ensureDefaults() error {
	if o.Dir == "" {
		return errors.New("pebblestore: no directory given")
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	o.FS = withOwnerOnly(o.FS)
	if o.DamagedDir == "" {
		o.DamagedDir = o.FS.PathJoin(o.Dir, "damaged")
	}
	defaults := [...]time.Duration{48 * time.Hour, 35 * 24 * time.Hour, 100 * 24 * time.Hour, 400 * 24 * time.Hour}
	for i := range o.Retention {
		if o.Retention[i] == 0 {
			o.Retention[i] = defaults[i]
			if i > 0 {
				o.Retention[i] = max(o.Retention[i], o.Retention[i-1])
			}
		}
		if i == 0 && o.Retention[i] < 2*time.Hour {
			return fmt.Errorf("pebblestore: retention of %v slots is %v, must be at least 2h", series.Resolutions[i], o.Retention[i])
		}
		if i > 0 && o.Retention[i] < o.Retention[i-1] {
			return fmt.Errorf("pebblestore: retention of %d s slots is %v, shorter than that of the finer ones, %v",
				series.Resolutions[i], o.Retention[i], o.Retention[i-1])
		}
	}
	setDefault(&o.SampleAge, 35*24*time.Hour)
	setDefault(&o.SampleCount, 15000)
	setDefault(&o.TraceAge, 7*24*time.Hour)
	setDefault(&o.TraceBytes, 1<<30)
	setDefault(&o.MinFreeBytes, 256<<20)
	setDefault(&o.CacheBytes, 48<<20)
	setDefault(&o.MemtableBytes, 16<<20)
	setDefault(&o.IndexBytes, 96<<20)
	setDefault(&o.AnswerBytes, 1<<30)
	setDefault(&o.Settle, 10*time.Minute)
	setDefault(&o.Rollup, 20*time.Second)
	setDefault(&o.Parallelism, runtime.GOMAXPROCS(0))
	if o.Elapsed == nil {
		begin := time.Now()
		o.Running = func() time.Duration { return time.Since(begin) }
		o.Elapsed = o.Running
		if _, err := sinceBoot(); err == nil {
			o.Elapsed = func() time.Duration { t, _ := sinceBoot(); return t }
		}
	}
	if o.Running == nil {
		o.Running = o.Elapsed
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// Store is a store.Store in a directory.
type Store struct {
	opts   Options
	db     *pebble.DB
	lock   *pebble.Lock
	cache  *pebble.Cache
	closed atomic.Bool
	users  sync.WaitGroup // calls in progress; Close waits for them
	userMu sync.RWMutex

	// write orders Put and the commits of Maintain. maintain keeps Maintain from running
	// twice at once; it is locked before write.
	write, maintain sync.Mutex

	mu       sync.RWMutex // guards the fields below; locked after write
	families map[string]*family
	byNumber []*family
	writers  map[string]*writer
	ready    [numTiers]int64           // watermark: slots before it have been rolled up into this tier
	floor    [numTiers]int64           // slots that start before it have expired
	direct   map[partID]bool           // coarse partitions that were put to directly
	coarse   map[scope]map[partID]bool // those of one scope
	wall     atomic.Int64              // Unix seconds: the clock that Maintain was last given; 0 is none
	dropped  droppedSamples

	traces  keptTraces
	records keptRecords

	units *unitCache
	dirs  *dirCache

	fresh     map[scopeID]*freshState // chunks that are not compacted yet; guarded by write
	freshRead bool                    // fresh includes what existed before Open

	// thinned is the end of the last hour from which samples were dropped, or the far
	// future until that is known. Guarded by write.
	thinned   int64
	boundMore bool // there are more samples to drop; guarded by maintain

	clock    clockLeap                 // guarded by maintain
	believed atomic.Pointer[clockLeap] // a copy that is not changed
	leap     atomic.Pointer[ClockLeap]

	damage  damage
	retry   retry
	own     string // see Writer
	opening bool   // Open has returned, and pebble.Open has not

	stats statCounters

	rollSeries, compactBatch, boundBudget int // tests lower them
}

type family struct {
	number   uint32
	name     string
	kind     series.Kind
	interval int64
}

type writer struct {
	number  uint32
	flushed uint64
	points  bool // it has put points or samples
}

func (w *writer) encode() []byte {
	v := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(w.number)), w.flushed)
	if w.points {
		v = append(v, 1)
	}
	return v
}

func decodeWriter(b []byte) (w writer, err error) {
	r := reader{b: b}
	w.number, w.flushed = uint32(r.uvarint()), r.uvarint()
	w.points = len(r.b) > 0 && r.byte() != 0 // older versions omit it
	return w, r.err
}

type partID struct {
	tier int
	part int64
}

type scopeID struct {
	partID
	scope scope
}

// freshState describes what lies beside the run of a scope.
type freshState struct {
	chunks  int
	bytes   int64
	changes int // any write changes it
	// The last write, and the first of those before it without Options.Quiet between, by
	// Options.Elapsed.
	since, last time.Duration
}

// settling reports whether more may come that should be compacted together with what is
// there.
func (f *freshState) settling(quiet, elapsed time.Duration) bool {
	return elapsed-f.last < quiet && elapsed-f.since < 30*quiet
}

const (
	formatFile    = "FORMAT"
	formatContent = "tailscope pebblestore 1\n"
)

// Open opens the store in o.Dir and creates it if there is none. Errors wrap
// store.ErrLocked, store.ErrVersion, store.ErrFull or store.ErrCorrupt for those causes.
func Open(ctx context.Context, o Options) (_ *Store, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := o.ensureDefaults(); err != nil {
		return nil, err
	}
	if err := o.FS.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("create data directory %s: %w", o.Dir, classify(err))
	}
	lock, err := lockDirectory(&o)
	if err != nil {
		return nil, err
	}
	s := &Store{
		opts: o, lock: lock,
		fresh:      map[scopeID]*freshState{},
		rollSeries: defaultRollSeries, compactBatch: defaultCompactBatch, boundBudget: defaultBoundSamples,
		thinned: math.MaxInt64,
	}
	defer func() {
		if err != nil && !s.opening {
			if s.db != nil {
				s.db.Close()
			}
			if s.cache != nil {
				s.cache.Unref()
			}
			lock.Close()
		}
	}()
	if err := tighten(o.FS, o.Dir); err != nil {
		return nil, err
	}
	s.damage.log = o.Logger
	s.retry = retry{log: o.Logger, end: make(chan struct{}), hopeless: make(chan error, 1)}
	s.damage.aside = keptAside{fs: o.FS, dir: o.DamagedDir}
	found, err := inspect(o.FS, o.Dir, s.damage.aside, &s.damage)
	if err != nil {
		return nil, err
	}
	if err := checkFormat(o.FS, o.Dir, found); err != nil {
		return nil, err
	}
	if !found.fresh {
		if err := s.checkFiles(ctx, &found); err != nil {
			return nil, err
		}
	}
	s.cache = pebble.NewCache(o.CacheBytes)
	for {
		err := s.openDB(ctx, &found)
		if err == nil {
			break
		}
		if s.db == nil || !errors.Is(err, store.ErrCorrupt) {
			return nil, fmt.Errorf("open data directory %s: %w", o.Dir, err)
		}
		// A table that every start reads is damaged: go on without it.
		cerr := s.db.Close()
		s.db = nil
		dropped, derr := s.dropUnreadable()
		if cerr = errors.Join(cerr, derr); cerr != nil || !dropped {
			return nil, fmt.Errorf("open data directory %s: %w", o.Dir, errors.Join(err, cerr))
		}
	}
	return s, nil
}

// openDB opens the database and loads what stays in memory.
func (s *Store) openDB(ctx context.Context, found *start) error {
	s.retry.begin()
	po := pebbleOptions(&s.opts, s.lock, s.cache, &s.damage)
	po.ErrorIfNotExists = !found.fresh
	po.FS = pacedFS{s.opts.FS, &s.retry}
	po.EventListener.WALCreated = s.listLogs(found.names)
	po.EventListener.BackgroundError = s.retry.failed
	po.EventListener.FlushEnd = func(i pebble.FlushInfo) {
		if i.Err == nil {
			s.retry.succeeded()
		}
	}
	po.EventListener.CompactionEnd = func(i pebble.CompactionInfo) {
		if i.Err == nil {
			s.retry.succeeded()
		}
	}
	db, err := s.openPebble(ctx, po)
	if err != nil {
		return classify(err)
	}
	s.db, found.fresh = db, false
	s.families, s.byNumber, s.writers = map[string]*family{}, nil, map[string]*writer{}
	s.direct, s.coarse = map[partID]bool{}, map[scope]map[partID]bool{}
	s.units = newUnitCache(s, s.opts.IndexBytes*3/4)
	s.dirs = newDirCache(s.opts.IndexBytes / 4)
	if err := s.load(); err != nil {
		return err
	}
	if err := s.mendIfOwed(ctx); err != nil {
		return err
	}
	if err := s.identify(found.identity); err != nil {
		return err
	}
	return s.moveRecords()
}

// otherFormat matches the format files of other versions.
var otherFormat = regexp.MustCompile(`^tailscope pebblestore [0-9]+\n$`)

// checkFormat checks the format file, or creates it in an empty directory.
func checkFormat(fsys vfs.FS, dir string, found start) error {
	path := fsys.PathJoin(dir, formatFile)
	b, err := readWhole(fsys, path)
	switch {
	case err == nil && string(b) == formatContent:
		return nil
	case err == nil && (found.identity == nil || otherFormat.Match(b)):
		return fmt.Errorf("%s says %q, this program writes %q: %w (use the tailscope that wrote it, or another directory)",
			path, strings.TrimSpace(string(b)), strings.TrimSpace(formatContent), store.ErrVersion)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read %s: %w", path, classify(err))
	case err != nil && found.identity == nil && !found.fresh:
		return fmt.Errorf("data directory %s holds a database without a %s file: %w (give an empty directory)", dir, formatFile, store.ErrVersion)
	}
	// The identity holds the same, with a checksum: this file is damaged.
	return writeWhole(fsys, path, []byte(formatContent))
}

func pebbleOptions(o *Options, lock *pebble.Lock, cache *pebble.Cache, damage *damage) *pebble.Options {
	po := &pebble.Options{
		FS:                 o.FS,
		Lock:               lock,
		Cache:              cache,
		FormatMajorVersion: pebble.FormatNewest,
		MemTableSize:       uint64(o.MemtableBytes),
		// Put waits when this many memtables are full, which bounds their memory.
		MemTableStopWritesThreshold: 3,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       24,
		LBaseMaxBytes:               64 << 20,
		MaxOpenFiles:                512,
		Logger:                      pebbleLogger{o.Logger},
		EventListener:               &pebble.EventListener{DataCorruption: damage.found},
		// A lost write to the WAL must not be taken for its end.
		WALBytesPerSync: 0,
	}
	po.CompactionConcurrencyRange = func() (int, int) { return 1, 2 }
	// Points are compact already; only the index and the keys compress. zstd on the
	// lower levels costs little because compacted points move there once.
	po.ApplyCompressionSettings(func() pebble.DBCompressionSettings {
		cs := pebble.UniformDBCompressionSettings(block.FastCompression)
		for i := 4; i < len(cs.Levels); i++ {
			cs.Levels[i] = block.BalancedCompression
		}
		cs.Name = "tailscope"
		return cs
	})
	for i := range po.Levels {
		po.Levels[i].BlockSize = 32 << 10
		po.Levels[i].IndexBlockSize = 64 << 10
		po.TargetFileSizes[i] = 8 << 20 << min(i, 3)
	}
	po.EnsureDefaults()
	return po
}

// classify wraps an error of Pebble or the file system with the store's error.
func classify(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	case pebble.IsCorruptionError(err):
		if info := pebble.ExtractDataCorruptionInfo(err); info != nil {
			return &store.DamagedError{File: info.Path, Reason: oneLine("%v", []any{info.Details}), Holds: keyRange{info.Bounds.Start, info.Bounds.End.Key}.String()}
		}
		return fmt.Errorf("%w: %s", store.ErrCorrupt, oneLine("%v", []any{err}))
	case strings.Contains(err.Error(), "format major version"):
		return fmt.Errorf("%w: %w", store.ErrVersion, err)
	}
	return err
}

// load loads what stays in memory.
func (s *Store) load() error {
	for t := range s.floor {
		s.floor[t], s.ready[t] = math.MinInt64/4, math.MinInt64/4
	}
	s.traces.floor = math.MinInt64 / 4
	moment := int64(farPast)
	err := s.each([]byte{tableMeta}, func(k, v []byte) error {
		if len(k) != 3 || len(v) != 8 || int(k[2]) >= numTiers {
			return fmt.Errorf("meta key %x: %w", k, store.ErrCorrupt)
		}
		t := int64(binary.BigEndian.Uint64(v))
		switch k[1] {
		case metaReady:
			s.ready[k[2]] = t
		case metaFloor:
			s.floor[k[2]] = t
		case metaTraces:
			s.traces.floor = t
		case metaClock:
			moment = t
		case metaRevision:
			s.records.revision = uint64(t)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.clock.start(moment, s.monotonic())
	s.publishClock()
	err = s.each([]byte{tableFamily}, func(k, v []byte) error {
		r := reader{b: v}
		f := &family{name: string(k[1:]), number: uint32(r.uvarint()), kind: series.Kind(r.byte()), interval: r.varint()}
		if r.err != nil {
			return fmt.Errorf("family %s: %w", k[1:], r.err)
		}
		s.addFamily(f)
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.loadWriters(); err != nil {
		return err
	}
	if err := s.loadTraces(); err != nil {
		return err
	}
	if err := s.loadCoarse(); err != nil {
		return err
	}
	return s.each([]byte{tableDirect}, func(k, v []byte) error {
		if len(k) != 6 {
			return fmt.Errorf("key %x: %w", k, store.ErrCorrupt)
		}
		s.direct[partID{int(k[1]), readTime(k[2:])}] = true
		return nil
	})
}

func (s *Store) loadWriters() error {
	return s.each([]byte{tableWriter}, func(k, v []byte) error {
		w, err := decodeWriter(v)
		if err != nil {
			return fmt.Errorf("writer %s: %w", k[1:], err)
		}
		s.writers[string(k[1:])] = &w
		return nil
	})
}

func (s *Store) addFamily(f *family) {
	s.families[f.name] = f
	for len(s.byNumber) <= int(f.number) {
		s.byNumber = append(s.byNumber, nil)
	}
	s.byNumber[f.number] = f
}

const (
	metaReady  = 'r'
	metaFloor  = 'f'
	metaTraces = 't' // the floor of kept traces
	metaClock  = 'c' // the moment that maintenance believes

	metaRevision = 'v' // the last revision of records
)

func metaKey(what byte, tier int) []byte { return []byte{tableMeta, what, byte(tier)} }
func metaTime(t int64) []byte            { return binary.BigEndian.AppendUint64(nil, uint64(t)) }

// each calls fn for every key with the prefix, in order.
func (s *Store) each(prefix []byte, fn func(k, v []byte) error) error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: prefixEnd(prefix)})
	if err != nil {
		return classify(err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return classify(err)
		}
		if err := fn(it.Key(), v); err != nil {
			return err
		}
	}
	return classify(it.Error())
}

var errClosed = errors.New("pebblestore: store is closed")

// enter begins a call; the returned function ends it.
func (s *Store) enter(ctx context.Context) (func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.userMu.RLock()
	defer s.userMu.RUnlock()
	if s.closed.Load() {
		return nil, errClosed
	}
	s.users.Add(1)
	return s.users.Done, nil
}

// Close waits for the calls in progress and closes the store. Later calls fail.
func (s *Store) Close() error {
	s.userMu.Lock()
	was := s.closed.Swap(true)
	s.userMu.Unlock()
	if was {
		return nil
	}
	s.users.Wait()
	close(s.retry.end)
	err := s.db.Close()
	s.cache.Unref()
	err = errors.Join(err, s.lock.Close())
	if err != nil {
		return fmt.Errorf("close data directory %s: %w", s.opts.Dir, classify(err))
	}
	return nil
}
