// Package outbox is the store of an agent: what is put into it goes to a server, by way of
// files that survive a crash.
//
// Put writes a generation's points in the packed form to a file of the spool, synced, and
// then the generation's state to a local store. That second write decides: when a start
// finds a file whose generation the local store does not have, the generation was not put,
// and the file goes; the aggregator puts it again from its journal. Send posts the files in
// order, over one connection, and deletes each when the server has acknowledged it.
//
// Each frame carries the agent's writer and its own generation, so that the server knows a
// frame that it has, also after a lost acknowledgement: what was put counts exactly once.
// When the spool is full Put returns store.ErrFull; the aggregator then keeps what it has,
// and asks senders to retry once its memory is at its bound too. Nothing that was
// acknowledged is dropped. Kept traces may use a quarter of the spool, and are dropped and
// counted beyond it.
package outbox

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/backoff"
	"tailscope/internal/store"
	"tailscope/internal/store/packed"
)

// Options configures a Store. Dir, Writer and To are required; each other field has a
// default for its zero value.
type Options struct {
	Dir     string // of the spool; created if absent
	FS      vfs.FS // default: the machine's file system
	Writer  string // the agent's identity: that of the local store's directory
	Name    string // for people; default Writer
	Version string // of the program

	To   string       // URL of the server
	OTLP bool         // send OTLP metrics, for a receiver that is not Tailscope
	HTTP *http.Client // default: one connection, and no redirects

	MaxBytes    int64         // of the spool, but for one generation that is larger by itself; default 1 GiB
	FrameMemory int           // see packed.NewEncoder
	Timeout     time.Duration // of one request; default 30 s
	Heartbeat   time.Duration // an agent without anything to send says so as often; default 10 s

	Now    func() time.Time
	Random func() float64 // in [0, 1)
	Logger *slog.Logger   // default discards
}

func (o *Options) ensureDefaults() {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Name == "" {
		o.Name = o.Writer
	}
	if o.HTTP == nil {
		o.HTTP = &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxConnsPerHost: 1, IdleConnTimeout: 90 * time.Second, DisableCompression: true},
		}
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 1 << 30
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = 10 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Store is a local store whose points and traces go to a server. Put, PutTraces and Stats
// are safe for concurrent use; Send is for one goroutine at a time.
type Store struct {
	store.Store // the local one: state, records
	o           Options

	putting sync.Mutex // one generation, or one list of traces, at a time; guards encoder
	encoder *packed.Encoder

	mu         sync.Mutex // guards the fields below
	waiting    []*file    // generations, oldest first
	traces     []*file    // lists of traces, oldest first
	nextTraces uint64
	generation uint64 // the last that was put
	bytes      int64  // of waiting and traces
	traceBytes int64
	confirmed  bool // the server has acknowledged this incarnation, and the file says so
	stats      Stats
	wake       chan struct{}

	self packed.Agent

	// Of Send alone:
	otlp    *otlpSender     // nil: frames are sent as they are
	breaker backoff.Breaker // of the server
	reading backoff.Breaker // of the spool
	heard   time.Time       // when the server last answered well
}

// file is one file of the spool.
type file struct {
	path    string
	number  uint64 // generation, or number of a list of traces
	size    int64
	written time.Time
	sent    int64 // bytes of the frames that the server has acknowledged
}

// Stats holds running totals since Open, and present values.
type Stats struct {
	Generations uint64 // that the server has acknowledged
	Frames      uint64 // likewise
	Bytes       uint64 // of acknowledged frames
	Duplicates  uint64 // frames that the server had before
	Attempts    uint64 // requests
	Failures    uint64 // requests that were not acknowledged, and are sent again
	Refused     uint64 // files that the server refused for good, which are set aside
	Damaged     uint64 // files that could not be read, which are set aside, or were missing
	Deleted     uint64 // files that were set aside, deleted for newer ones
	TracesLost  uint64 // lists of traces that the spool had no space for
	Full        uint64 // generations refused because the spool was full, to be put again

	Files      int // of generations and traces, that wait
	SpoolBytes int64
	Oldest     time.Time // when the oldest waiting generation was written; zero for none
	Generation uint64    // the last that was put
	Heard      time.Time // when the server last acknowledged anything; zero for never
	LastError  string    // of the last request; empty if it succeeded
	Down       bool      // several requests in a row have failed
}

const (
	batchSuffix = ".batch"
	traceSuffix = ".traces"
	partSuffix  = ".tmp"
	asideDir    = "refused"
)

// Open reads the spool. It drops files of generations that local does not have.
func Open(ctx context.Context, local store.Store, o Options) (*Store, error) {
	o.ensureDefaults()
	if o.Dir == "" || o.Writer == "" || o.To == "" {
		return nil, errors.New("spool: needs a directory, a writer and an address")
	}
	e, err := packed.NewEncoder(o.FrameMemory)
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	s := &Store{Store: local, o: o, encoder: e, wake: make(chan struct{}, 1)}
	s.o.To = strings.TrimRight(o.To, "/") + packed.Path
	if o.OTLP {
		s.o.To = otlpAddress(o.To)
		if s.otlp, err = newOTLPSender(); err != nil {
			return nil, fmt.Errorf("spool: %w", err)
		}
	}
	s.self = packed.Agent{Name: o.Name, Writer: packed.WriterPrefix + o.Writer, Version: o.Version}
	if err := errors.Join(o.FS.MkdirAll(o.Dir, 0o700), s.syncDir(o.FS.PathDir(o.Dir))); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	if s.generation, err = local.Flushed(ctx, o.Writer); err != nil {
		return nil, fmt.Errorf("spool: last generation: %w", err)
	}
	s.self.First = s.generation
	if err := s.load(); err != nil {
		return nil, fmt.Errorf("spool %s: %w", o.Dir, err)
	}
	if err := s.beginIncarnation(); err != nil {
		return nil, fmt.Errorf("spool %s: %w", o.Dir, err)
	}
	return s, nil
}

// load lists the files of the spool.
func (s *Store) load() error {
	names, err := s.o.FS.List(s.o.Dir)
	if err != nil {
		return err
	}
	slices.Sort(names) // numbers have leading zeros
	for _, name := range names {
		path := s.o.FS.PathJoin(s.o.Dir, name)
		if strings.HasSuffix(name, partSuffix) {
			if err := s.o.FS.Remove(path); err != nil {
				return err
			}
			continue
		}
		f := &file{path: path}
		batch, isBatch := strings.CutSuffix(name, batchSuffix)
		trace, isTraces := strings.CutSuffix(name, traceSuffix)
		number := batch
		if isTraces {
			number = trace
		}
		if f.number, err = strconv.ParseUint(number, 10, 64); err != nil || !isBatch && !isTraces {
			continue
		}
		info, err := s.o.FS.Stat(path)
		if err != nil {
			return err
		}
		f.size, f.written = info.Size(), info.ModTime()
		switch {
		case isTraces:
			s.nextTraces = f.number + 1
			s.enqueue(f, true)
		case f.number > s.generation: // written, and not put
			if err := s.o.FS.Remove(path); err != nil {
				return err
			}
		default:
			s.enqueue(f, false)
		}
	}
	return nil
}

// enqueue adds a file to those that wait. The caller holds mu, or nobody knows s yet.
func (s *Store) enqueue(f *file, traces bool) {
	s.bytes += f.size
	if traces {
		s.traceBytes += f.size
		s.traces = append(s.traces, f)
		return
	}
	s.waiting = append(s.waiting, f)
}

// Put puts a generation: its points and samples into the spool, its state into the local
// store. The error wraps store.ErrFull while the spool is full.
func (s *Store) Put(ctx context.Context, b *store.Batch) error {
	if b.Writer != s.o.Writer {
		return fmt.Errorf("put generation %d of %s into the spool of %s", b.Generation, b.Writer, s.o.Writer)
	}
	s.putting.Lock()
	defer s.putting.Unlock()
	s.mu.Lock()
	queued := slices.ContainsFunc(s.waiting, func(f *file) bool { return f.number == b.Generation })
	s.mu.Unlock()
	if queued { // a Put that returned nil: agg does not repeat it, and its file may be on its way
		return nil
	}
	f := &file{path: s.o.FS.PathJoin(s.o.Dir, fmt.Sprintf("%020d%s", b.Generation, batchSuffix)), number: b.Generation, written: s.o.Now()}
	sent := *b
	sent.Writer = s.self.Writer
	err := s.write(f, true, s.o.MaxBytes, func(yield func([]byte) error) error { return s.encoder.Batch(&sent, yield) })
	if err != nil {
		return fmt.Errorf("put generation %d into the spool: %w", b.Generation, err)
	}
	// From here on the file stays: if this write fails it may have been made all the same,
	// and another Put of the generation replaces the file.
	if err := s.Store.Put(ctx, &store.Batch{Writer: b.Writer, Generation: b.Generation, State: b.State}); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation = max(s.generation, b.Generation)
	if f.size > 0 {
		s.enqueue(f, false)
	}
	s.nudge()
	return nil
}

// PutTraces puts traces into the spool. The error wraps store.ErrFull if traces take a
// quarter of it already.
func (s *Store) PutTraces(_ context.Context, list []store.Trace) error {
	if len(list) == 0 || s.o.OTLP { // another receiver has no use for them
		return nil
	}
	s.putting.Lock()
	defer s.putting.Unlock()
	s.mu.Lock()
	full := s.traceBytes > s.o.MaxBytes/4
	number := s.nextTraces
	s.nextTraces++
	s.mu.Unlock()
	f := &file{path: s.o.FS.PathJoin(s.o.Dir, fmt.Sprintf("%020d%s", number, traceSuffix)), number: number, written: s.o.Now()}
	err := fmt.Errorf("traces: %w: the spool %s holds its share of them", store.ErrFull, s.o.Dir)
	if !full {
		err = s.write(f, false, s.o.MaxBytes, func(yield func([]byte) error) error { return s.encoder.Traces(list, yield) })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.stats.TracesLost++
		return fmt.Errorf("put traces into the spool: %w", err)
	}
	s.enqueue(f, true)
	s.nudge()
	return nil
}

// write writes a file of frames, each after its length, under a name that only whole files
// have. Nothing is written for no frames. It sets f.size.
func (s *Store) write(f *file, sync bool, limit int64, frames func(yield func([]byte) error) error) (err error) {
	s.mu.Lock()
	free := limit - s.bytes
	s.mu.Unlock()
	part := f.path + partSuffix
	var out vfs.File
	defer func() {
		if out != nil {
			err = errors.Join(err, out.Close(), s.o.FS.Remove(part))
		}
	}()
	err = frames(func(frame []byte) error {
		if out == nil {
			var err error
			if out, err = s.o.FS.Create(part, vfs.WriteCategoryUnspecified); err != nil {
				return err
			}
		}
		f.size += 4 + int64(len(frame))
		if f.size > free && free < limit { // an empty spool takes what is larger than it, or nobody would
			s.mu.Lock()
			s.stats.Full++
			s.mu.Unlock()
			return fmt.Errorf("%w: %s holds %d MiB of at most %d MiB that wait for %s (make the server answer again, or raise agent.spool)", store.ErrFull, s.o.Dir, (limit-free)>>20, limit>>20, s.o.To)
		}
		var length [4]byte
		binary.LittleEndian.PutUint32(length[:], uint32(len(frame)))
		if _, err := out.Write(length[:]); err != nil {
			return err
		}
		_, err := out.Write(frame)
		return err
	})
	if err != nil || out == nil {
		f.size = 0
		return err
	}
	if sync {
		if err := out.Sync(); err != nil {
			return err
		}
	}
	err = out.Close()
	out = nil
	if err == nil {
		err = s.o.FS.Rename(part, f.path)
	}
	if err == nil && sync {
		err = s.syncDir(s.o.Dir)
	}
	return err
}

func (s *Store) syncDir(dir string) error {
	d, err := s.o.FS.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// nudge has Run send what waits. The caller holds mu.
func (s *Store) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Stats returns the totals since Open.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Files, st.SpoolBytes, st.Generation = len(s.waiting)+len(s.traces), s.bytes, s.generation
	if len(s.waiting) > 0 {
		st.Oldest = s.waiting[0].written
	}
	return st
}

// Room returns an error that wraps store.ErrFull while Put would refuse for lack of space in
// the spool.
func (s *Store) Room() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes < s.o.MaxBytes {
		return nil
	}
	return fmt.Errorf("%w: the spool %s is at its bound of %d MiB", store.ErrFull, s.o.Dir, s.o.MaxBytes>>20)
}

// frame reads the frame at an offset of a file.
func (s *Store) frame(f *file, at int64) ([]byte, error) {
	in, err := s.o.FS.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	read := func(b []byte, at int64) error {
		n, err := in.ReadAt(b, at)
		switch {
		case n == len(b):
			return nil
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%w: %w", packed.ErrCorrupt, err)
		}
		return err
	}
	var length [4]byte
	if err := read(length[:], at); err != nil {
		return nil, err
	}
	n := int64(binary.LittleEndian.Uint32(length[:]))
	if n > f.size-at-4 {
		return nil, fmt.Errorf("%w: a frame of %d bytes where %d follow", packed.ErrCorrupt, n, f.size-at-4)
	}
	b := make([]byte, n)
	if err := read(b, at+4); err != nil {
		return nil, err
	}
	return b, packed.Verify(b)
}

// setAside moves a file that will never be acknowledged out of the way. It stays for people,
// the oldest until those set aside take a quarter of the spool's bound.
func (s *Store) setAside(f *file, why error) error {
	dir := s.o.FS.PathJoin(s.o.Dir, asideDir)
	to := s.o.FS.PathJoin(dir, s.o.FS.PathBase(f.path))
	err := s.o.FS.MkdirAll(dir, 0o700)
	if err == nil {
		err = s.o.FS.Rename(f.path, to)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("set %s aside: %w", f.path, err)
	}
	s.o.Logger.Error("a file of the spool cannot be delivered and is set aside; what it holds is missing at the server", "file", to, "why", why)
	if err := s.boundAside(dir); err != nil {
		s.o.Logger.Warn("files that were set aside are not deleted; it is tried again with the next one", "dir", dir, "err", err)
	}
	return nil
}

// boundAside deletes the oldest files that were set aside beyond their bound. The newest
// stays whatever it takes.
func (s *Store) boundAside(dir string) error {
	names, err := s.o.FS.List(dir)
	if err != nil {
		return err
	}
	slices.Sort(names)
	var all []file
	sum := int64(0)
	for _, name := range names {
		path := s.o.FS.PathJoin(dir, name)
		info, err := s.o.FS.Stat(path)
		if err != nil {
			return err
		}
		all = append(all, file{path: path, size: info.Size(), written: info.ModTime()})
		sum += info.Size()
	}
	slices.SortStableFunc(all, func(a, b file) int { return a.written.Compare(b.written) })
	for len(all) > 1 && sum > s.o.MaxBytes/4 {
		if err := s.o.FS.Remove(all[0].path); err != nil {
			return err
		}
		sum -= all[0].size
		all = all[1:]
		s.mu.Lock()
		s.stats.Deleted++
		s.mu.Unlock()
	}
	return nil
}
