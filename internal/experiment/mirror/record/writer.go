package record

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/klauspost/compress/zstd"

	"tailscope/api"
	"tailscope/internal/experiment/mirror/content"
	"tailscope/internal/experiment/mirror/redact"
)

// Options configures a Writer. The zero value of each field means its default.
type Options struct {
	Header Header
	// Redactor replaces secrets before anything is written; default a Redactor with
	// the default rules.
	Redactor *redact.Redactor
	// BodyLimit bounds the bodies that are kept if Header.Bodies is set; default 1
	// MiB, at most 8 MiB. A longer body is not kept at all: half a body cannot be
	// sent.
	BodyLimit int
	// Queue bounds the bytes of entries that wait to be written; default 16 MiB.
	Queue int64
	// BlockBytes is the size, before compression, at which a block is written, and
	// BlockAge the longest wait before; default 512 KiB and 5 s.
	BlockBytes int
	BlockAge   time.Duration
	// Now is the session's clock; default the system's.
	Now func() time.Time
}

func (o *Options) ensureDefaults() error {
	if o.Redactor == nil {
		r, err := redact.New(nil)
		if err != nil {
			return err
		}
		o.Redactor = r
	}
	if o.BodyLimit <= 0 {
		o.BodyLimit = 1 << 20
	}
	o.BodyLimit = min(o.BodyLimit, maxBody)
	if o.Queue <= 0 {
		o.Queue = 16 << 20
	}
	if o.BlockBytes <= 0 {
		o.BlockBytes = 512 << 10
	}
	o.BlockBytes = min(o.BlockBytes, 8<<20)
	if o.BlockAge <= 0 {
		o.BlockAge = 5 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Header.Start.IsZero() {
		o.Header.Start = o.Now()
	}
	return nil
}

// Writer writes a record. Entries come from any goroutine and are written by one of
// its own; those that exceed its queue are dropped and counted.
type Writer struct {
	o       Options
	path    string
	out     io.WriteCloser
	zstd    *zstd.Encoder
	queue   chan *Entry
	waiting atomic.Int64 // bytes
	entries sync.Pool
	stop    chan struct{}
	done    chan struct{}
	closing sync.Once
	closed  atomic.Bool
	offers  atomic.Int64 // that are being made

	requests, dropped atomic.Uint64
	bytes             atomic.Int64
	failure           atomic.Pointer[error]

	open *block
	memo map[Field]string // fields as they are written
	raw  []byte
	comp []byte
}

// Create begins a record in a new file, and fails with os.ErrExist if the file
// exists. The file is readable by its owner only, because it holds what clients sent.
func Create(path string, o Options) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("record the session: %w", err)
	}
	w, err := NewWriter(f, o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("record the session in %s: %w", path, err), f.Close(), os.Remove(path))
	}
	w.path = path
	return w, nil
}

// NewWriter begins a record. The writer closes out.
func NewWriter(out io.WriteCloser, o Options) (*Writer, error) {
	if err := o.ensureDefaults(); err != nil {
		return nil, err
	}
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return nil, err
	}
	w := &Writer{
		o: o, out: out, zstd: z, open: newBlock(), memo: map[Field]string{},
		queue: make(chan *Entry, 8192), stop: make(chan struct{}), done: make(chan struct{}),
	}
	w.entries.New = func() any { return &Entry{} }
	n, err := io.WriteString(out, Magic)
	w.bytes.Add(int64(n))
	if err == nil {
		err = w.json(kindHead, o.Header)
	}
	if err != nil {
		return nil, err
	}
	go w.run()
	return w, nil
}

// Begin returns an empty entry to fill in and hand to Offer or Discard, or nil if the
// queue is full, which is counted. It never waits.
func (w *Writer) Begin() *Entry {
	if w.waiting.Load() >= w.o.Queue || w.closed.Load() {
		w.dropped.Add(1)
		return nil
	}
	e := w.entries.Get().(*Entry)
	*e = Entry{Fields: e.Fields[:0], Body: e.Body[:0], arena: e.arena[:0], BodyBytes: -1, FirstByte: -1, Total: -1}
	return e
}

// Text copies b and returns it as a string that is valid until the entry is offered
// or discarded.
func (e *Entry) Text(b []byte) string {
	from := len(e.arena)
	e.arena = append(e.arena, b...)
	return unsafe.String(unsafe.SliceData(e.arena[from:]), len(b))
}

// Discard takes back an entry that will not be written.
func (w *Writer) Discard(e *Entry) { w.entries.Put(e) }

// Offer queues an entry of Begin, which the caller must not use any more. It never
// waits. It returns false, and counts the entry, if the queue is full.
func (w *Writer) Offer(e *Entry) bool {
	size := e.size()
	w.offers.Add(1)
	defer w.offers.Add(-1)
	if w.waiting.Add(size) <= w.o.Queue && !w.closed.Load() {
		select {
		case w.queue <- e:
			return true
		default:
		}
	}
	w.waiting.Add(-size)
	w.dropped.Add(1)
	w.entries.Put(e)
	return false
}

// size returns the approximate memory of an entry.
func (e *Entry) size() int64 { return int64(256 + cap(e.arena) + cap(e.Body) + 32*len(e.Fields)) }

// State returns the state of the record.
func (w *Writer) State() api.MirrorRecording {
	s := api.MirrorRecording{Path: w.path, Requests: w.requests.Load(), Dropped: w.dropped.Load(), Bytes: w.bytes.Load()}
	if err := w.failure.Load(); err != nil {
		s.Error = (*err).Error()
	}
	return s
}

// Close writes what has been offered, and the end. It returns the first error of the
// record.
func (w *Writer) Close() error {
	w.closing.Do(func() {
		w.closed.Store(true)
		close(w.stop)
	})
	<-w.done
	if err := w.failure.Load(); err != nil {
		return *err
	}
	return nil
}

func (w *Writer) run() {
	defer close(w.done)
	old := time.NewTicker(w.o.BlockAge)
	defer old.Stop()
	for {
		select {
		case e := <-w.queue:
			w.addEntry(e)
		case <-old.C:
			w.flush()
		case <-w.stop:
			w.drain()
			w.flush()
			if w.failure.Load() == nil {
				w.fail(w.json(kindEnd, End{w.requests.Load(), w.dropped.Load(), w.o.Now()}))
			}
			w.fail(w.out.Close())
			w.zstd.Close()
			return
		}
	}
}

// drain writes what is queued. Nothing is added any more.
func (w *Writer) drain() {
	for w.offers.Load() > 0 || len(w.queue) > 0 {
		select {
		case e := <-w.queue:
			w.addEntry(e)
		default:
			runtime.Gosched() // an offer is about to end
		}
	}
}

// addEntry redacts an entry and adds it to the open block. After the first failure all
// entries are dropped.
func (w *Writer) addEntry(e *Entry) {
	size := e.size()
	if w.failure.Load() != nil {
		w.dropped.Add(1)
	} else {
		w.redact(e)
		w.open.add(e)
		if w.open.size() >= w.o.BlockBytes {
			w.flush()
		}
	}
	w.waiting.Add(-size)
	w.entries.Put(e)
}

// maxBody bounds a body that is written, so that a block stays below maxBlock.
const maxBody = 8 << 20

// redact replaces the secrets of an entry. A body that cannot be parsed is not kept.
func (w *Writer) redact(e *Entry) {
	r := w.o.Redactor
	e.Target, e.Host = r.Target(e.Target), r.Text(e.Host)
	e.Operation, e.Tenant = r.Text(e.Operation), r.Text(e.Tenant)
	media, coding := "", ""
	for i, f := range e.Fields {
		switch {
		case strings.EqualFold(f.Name, "content-type"):
			media = f.Value
		case strings.EqualFold(f.Name, "content-encoding"):
			if coding != "" {
				coding += ","
			}
			coding += f.Value
		}
		e.Fields[i].Value = w.header(f)
	}
	if !w.o.Header.Bodies || len(e.Body) > w.o.BodyLimit || int64(len(e.Body)) < e.BodyBytes {
		e.Body = e.Body[:0]
	}
	if len(e.Body) == 0 {
		return
	}
	plain, err := content.Decode(coding, e.Body, 4*w.o.BodyLimit)
	if err != nil {
		e.Body = e.Body[:0]
		return
	}
	clean := r.Body(media, plain)
	if len(clean) == len(plain) && unsafe.SliceData(clean) == unsafe.SliceData(plain) {
		return // as it came, in its coding
	}
	if len(clean) > maxBody { // once decoded, or by its markers
		e.Body = e.Body[:0]
		return
	}
	e.Body, e.BodyBytes = clean, int64(len(clean))
	fields := e.Fields[:0]
	for _, f := range e.Fields {
		switch {
		case strings.EqualFold(f.Name, "content-encoding"):
			continue
		case strings.EqualFold(f.Name, "content-length"):
			f.Value = fmt.Sprint(len(clean))
		}
		fields = append(fields, f)
	}
	e.Fields = fields
}

// Most fields repeat earlier requests, so their redacted values are cached, up to
// maxMemo of at most maxMemoValue bytes.
const maxMemo, maxMemoValue = 4096, 256

func (w *Writer) header(f Field) string {
	if len(f.Value) > maxMemoValue {
		return w.o.Redactor.Header(f.Name, f.Value)
	}
	out, ok := w.memo[f]
	if !ok {
		if len(w.memo) >= maxMemo {
			clear(w.memo)
		}
		f = Field{strings.Clone(f.Name), strings.Clone(f.Value)} // of an arena
		out = w.o.Redactor.Header(f.Name, f.Value)
		w.memo[f] = out
	}
	return out
}

// flush writes the open block.
func (w *Writer) flush() {
	n := w.open.count
	if n == 0 {
		return
	}
	w.raw = w.open.encode(w.raw[:0])
	w.comp = w.zstd.EncodeAll(w.raw, w.comp[:0])
	if err := w.write(kindEntries, len(w.raw), w.comp); err != nil {
		w.fail(err)
		w.dropped.Add(uint64(n))
		return
	}
	w.requests.Add(uint64(n))
}

func (w *Writer) json(kind byte, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.write(kind, len(data), data)
}

// write writes one block in one call.
func (w *Writer) write(kind byte, length int, stored []byte) error {
	out := make([]byte, 0, headSize+len(stored))
	out = append(out, kind)
	out = binary.LittleEndian.AppendUint32(out, uint32(length))
	out = binary.LittleEndian.AppendUint32(out, uint32(len(stored)))
	crc := crc32.Update(crc32.Checksum(out, castagnoli), castagnoli, stored)
	out = binary.LittleEndian.AppendUint32(out, crc)
	n, err := w.out.Write(append(out, stored...))
	w.bytes.Add(int64(n))
	return err
}

func (w *Writer) fail(err error) {
	if err != nil {
		err = fmt.Errorf("record the session: %w", err)
		w.failure.CompareAndSwap(nil, &err)
	}
}
