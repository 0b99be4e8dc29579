package agg

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// The journal of a generation is one file, named by its number:
//
//	header  "TSJRNL" 0 2 | generation u64 | crc32c of the 16 bytes before
//	frame   length u32 | crc32c of the payload | payload
//
// all little-endian. A payload begins with its type. Definitions (1) give
// numbers to series and targets:
//
//	1 series  number, family, view, kind, labels
//	2 target  number, full series, marginal series or 0
//	3 tenant  number, marginal series, tenant: the Full series of the
//	          marginal's labels but for the instance, and of the tenant unless
//	          that is empty. Format 1 had none of these.
//
// and entries (2) begin with the time of the commit in milliseconds and a base
// slot, then each is a varint of target<<3|op and what the op needs. A request
// is one frame of entries, in one write, behind the definitions it is the
// first to need. So the same number may be defined again later in the file,
// and then means something else from there on.
const (
	journalMagic  = "TSJRNL\x00\x02"
	journalHeader = 20
	frameHeader   = 8
	maxFrame      = 1 << 30

	frameDefinitions = 1
	frameEntries     = 2

	defineSeries = 1
	defineTarget = 2
	defineTenant = 3

	opObserve      = 0 // slot, nanoseconds
	opWeighted     = 1 // slot, nanoseconds, weight
	opDistribution = 2 // slot, length, histogram
	opNumber       = 3 // milliseconds, float64
	opDeltaNumber  = 4 // stream, milliseconds, float64
	opCumulative   = 5 // stream, resource, start and time in nanoseconds, length, histogram
)

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// journal is the file of the open or a frozen generation.
type journal struct {
	path  string
	f     *os.File
	size  int64
	dirty bool // written since the last sync
	torn  bool // a write failed and could not be undone: no more may follow
}

func journalPath(dir string, generation uint64) string {
	return filepath.Join(dir, fmt.Sprintf("generation-%020d.journal", generation))
}

func createJournal(dir string, generation uint64) (*journal, error) {
	path := journalPath(dir, generation)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	j := &journal{path: path, f: f}
	if err := j.write(appendHeader(nil, generation)); err != nil {
		f.Close()
		os.Remove(path)
		return nil, err
	}
	return j, nil
}

func appendHeader(dst []byte, generation uint64) []byte {
	at := len(dst)
	dst = append(dst, journalMagic...)
	dst = binary.LittleEndian.AppendUint64(dst, generation)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[at:], crcTable))
}

// write appends b whole or, as far as can be done, not at all.
func (j *journal) write(b []byte) error {
	if j.torn {
		return fmt.Errorf("journal %s: an earlier write failed", j.path)
	}
	n, err := j.f.Write(b)
	if err != nil {
		if n > 0 {
			if terr := j.f.Truncate(j.size); terr != nil {
				j.torn = true
				err = errors.Join(err, terr)
			}
		}
		if isNoSpace(err) {
			return fmt.Errorf("journal %s: %w (%v)", j.path, store.ErrFull, err)
		}
		return fmt.Errorf("journal %s: %w", j.path, err)
	}
	j.size += int64(n)
	j.dirty = true
	return nil
}

func (j *journal) remove() error {
	err := j.f.Close()
	if rerr := os.Remove(j.path); rerr != nil && !errors.Is(rerr, os.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return err
}

// sealFrame fills in the header of the frame whose payload begins at start+frameHeader.
func sealFrame(b []byte, start int) {
	payload := b[start+frameHeader:]
	binary.LittleEndian.PutUint32(b[start:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(b[start+4:], crc32.Checksum(payload, crcTable))
}

func appendSeriesDefinition(b []byte, number uint32, s *series.Series) []byte {
	b = append(b, defineSeries)
	b = binary.AppendUvarint(b, uint64(number))
	b = appendPart(b, s.Family)
	b = append(b, byte(s.View), byte(s.Kind))
	b = binary.AppendUvarint(b, uint64(s.Labels.Len()))
	s.Labels.Range(func(l labels.Label) {
		b = appendPart(b, l.Name)
		b = appendPart(b, l.Value)
	})
	return b
}

func appendTenantDefinition(b []byte, number, marginal uint32, tenant string) []byte {
	b = append(b, defineTenant)
	b = binary.AppendUvarint(b, uint64(number))
	b = binary.AppendUvarint(b, uint64(marginal))
	return appendPart(b, tenant)
}

func appendTargetDefinition(b []byte, number, full, marginal uint32) []byte {
	b = append(b, defineTarget)
	b = binary.AppendUvarint(b, uint64(number))
	b = binary.AppendUvarint(b, uint64(full))
	return binary.AppendUvarint(b, uint64(marginal))
}

// journalFiles lists the generations with a journal in dir, in order.
func journalFiles(dir string) ([]uint64, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []uint64
	for _, e := range list {
		s, ok := strings.CutPrefix(e.Name(), "generation-")
		s, journal := strings.CutSuffix(s, ".journal")
		if !ok || !journal {
			continue
		}
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil || journalPath(dir, n) != filepath.Join(dir, e.Name()) {
			return nil, fmt.Errorf("journal directory %s holds %s, which is not a journal's name: move it elsewhere", dir, e.Name())
		}
		out = append(out, n)
	}
	slices.Sort(out)
	return out, nil
}

// A DamageError says that a journal does not decode in its middle, so that
// acknowledged observations behind it may be lost.
type DamageError struct {
	Path   string
	Offset int64
	Reason string
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("journal %s is damaged at byte %d: %s; restore the file, or, to start without what it holds from there on, cut it with: truncate -s %d %s",
		e.Path, e.Offset, e.Reason, e.Offset, e.Path)
}

func (e *DamageError) Unwrap() error { return store.ErrCorrupt }

// handler receives a journal's contents in order. Byte slices are valid during the call.
type handler interface {
	defineSeries(number uint32, s series.Series) error
	defineTenant(number, marginal uint32, tenant []byte) error
	defineTarget(number, full, marginal uint32) error
	entries(commitMillis int64, e *entryReader) error
}

// readJournal plays a journal to h. It returns how many bytes are whole and
// how many behind them are a torn tail: the frame that was being written when
// the program died and that nobody was told had been kept.
func readJournal(path string, generation uint64, h handler) (whole, torn int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	whole, err = decodeJournal(bufio.NewReaderSize(f, 1<<20), info.Size(), path, generation, h)
	return whole, info.Size() - whole, err
}

func decodeJournal(r *bufio.Reader, size int64, path string, generation uint64, h handler) (whole int64, err error) {
	damaged := func(reason string) error { return &DamageError{Path: path, Offset: whole, Reason: reason} }
	var head [journalHeader]byte
	if size < journalHeader {
		return 0, nil
	}
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, err
	}
	if v := head[7]; string(head[:7]) != journalMagic[:7] || v != 1 && v != 2 {
		if v <= 2 { // cut short, then lengthened by zeros
			if zeros, err := restIsZero(r); err != nil || zeros {
				return 0, err
			}
		}
		if string(head[:7]) == journalMagic[:7] {
			return 0, fmt.Errorf("journal %s has format %d, this program knows 1 and 2: start the version that wrote it and stop it cleanly: %w", path, head[7], store.ErrVersion)
		}
		return 0, damaged("not a journal")
	}
	if binary.LittleEndian.Uint32(head[16:]) != crc32.Checksum(head[:16], crcTable) {
		if zeros, err := restIsZero(r); err != nil || zeros {
			return 0, err
		}
		return 0, damaged("the header's checksum does not match")
	}
	if g := binary.LittleEndian.Uint64(head[8:]); g != generation {
		return 0, damaged(fmt.Sprintf("the header says generation %d, the name %d", g, generation))
	}
	whole = journalHeader
	var frame [frameHeader]byte
	var payload []byte
	var entry entryReader
	for whole < size {
		left := size - whole
		if left < frameHeader {
			return whole, nil
		}
		if _, err := io.ReadFull(r, frame[:]); err != nil {
			return whole, err
		}
		n := int64(binary.LittleEndian.Uint32(frame[:]))
		if n == 0 {
			// A file system may lengthen a file before its data is there.
			if zeros, err := restIsZero(r); err != nil || zeros {
				return whole, err
			}
			return whole, damaged("an empty frame")
		}
		if n > left-frameHeader {
			return whole, nil
		}
		if n > maxFrame {
			return whole, damaged(fmt.Sprintf("a frame of %d bytes", n))
		}
		payload = slices.Grow(payload[:0], int(n))[:n]
		if _, err := io.ReadFull(r, payload); err != nil {
			return whole, err
		}
		if crc32.Checksum(payload, crcTable) != binary.LittleEndian.Uint32(frame[4:]) {
			if n == left-frameHeader {
				return whole, nil
			}
			if zeros, err := restIsZero(r); err != nil || zeros {
				return whole, err
			}
			return whole, damaged("a frame's checksum does not match")
		}
		if err := decodeFrame(payload, h, &entry); err != nil {
			return whole, fmt.Errorf("%w: %w", damaged("a frame does not decode"), err)
		}
		whole += frameHeader + n
	}
	return whole, nil
}

func restIsZero(r *bufio.Reader) (bool, error) {
	for {
		c, err := r.ReadByte()
		if err == io.EOF {
			return true, nil
		}
		if err != nil || c != 0 {
			return false, err
		}
	}
}

var errFrame = errors.New("malformed frame")

func decodeFrame(p []byte, h handler, e *entryReader) error {
	d := reader{b: p}
	switch d.byte() {
	case frameDefinitions:
		for len(d.b) > 0 && !d.bad {
			switch d.byte() {
			case defineSeries:
				number := d.number()
				s := series.Series{Family: string(d.part())}
				s.View, s.Kind = series.View(d.byte()), series.Kind(d.byte())
				n := d.uvarint()
				if n > uint64(len(d.b)) || s.View > series.Total || s.Kind > series.Counter {
					return errFrame
				}
				build := labels.NewScratchBuilder(int(n))
				for range n {
					name, value := d.part(), d.part()
					build.Add(string(name), string(value))
				}
				if d.bad {
					return errFrame
				}
				s.Labels = build.Labels()
				if err := h.defineSeries(number, s); err != nil {
					return err
				}
			case defineTenant:
				number, marginal, tenant := d.number(), d.number(), d.part()
				if d.bad {
					return errFrame
				}
				if err := h.defineTenant(number, marginal, tenant); err != nil {
					return err
				}
			case defineTarget:
				number, full, marginal := d.number(), d.number(), d.number()
				if d.bad {
					return errFrame
				}
				if err := h.defineTarget(number, full, marginal); err != nil {
					return err
				}
			default:
				return errFrame
			}
		}
		if d.bad {
			return errFrame
		}
		return nil
	case frameEntries:
		commit := int64(d.uvarint())
		*e = entryReader{r: d}
		e.slot = e.r.varint()
		if e.r.bad {
			return errFrame
		}
		return h.entries(commit, e)
	}
	return errFrame
}

// entryReader walks the entries of one frame.
type entryReader struct {
	r    reader
	slot int64

	op          uint32
	target      uint32
	entrySlot   int64 // slot number: Unix seconds / 10
	nanos       int64 // of a duration
	weight      uint32
	millis      int64
	value       float64
	stream      StreamID
	resource    uint64
	start, time int64
	hist        []byte
}

// next reads one entry; false at the end or when it is malformed, see err.
func (e *entryReader) next() bool {
	r := &e.r
	if len(r.b) == 0 || r.bad {
		return false
	}
	h := r.uvarint()
	e.op, e.target = uint32(h&7), uint32(h>>3)
	if h>>3 > math.MaxUint32 {
		r.bad = true
	}
	switch e.op {
	case opObserve, opWeighted:
		e.entrySlot = e.slot + r.varint()
		e.nanos, e.weight = int64(r.uvarint()), 1
		if e.op == opWeighted {
			w := r.uvarint()
			if w == 0 || w > math.MaxUint32 {
				r.bad = true
			}
			e.weight = uint32(w)
		}
		if e.nanos < 0 || e.entrySlot < 0 {
			r.bad = true
		}
	case opDistribution:
		e.entrySlot = e.slot + r.varint()
		e.hist = r.part()
		if e.entrySlot < 0 {
			r.bad = true
		}
	case opNumber:
		e.millis, e.value = r.varint(), r.float()
	case opDeltaNumber:
		e.stream = StreamID{r.uint64(), r.uint64()}
		e.millis, e.value = r.varint(), r.float()
	case opCumulative:
		e.stream = StreamID{r.uint64(), r.uint64()}
		e.resource = r.uint64()
		e.start, e.time = r.varint(), r.varint()
		e.hist = r.part()
	default:
		r.bad = true
	}
	return !r.bad
}

func (e *entryReader) err() error {
	if e.r.bad {
		return errFrame
	}
	return nil
}

// reader takes values off a byte string; bad stays set after the first that is missing.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) number() uint32 {
	v := r.uvarint()
	if v > math.MaxUint32 {
		r.bad = true
	}
	return uint32(v)
}

func (r *reader) part() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}

func (r *reader) uint64() uint64 {
	if len(r.b) < 8 {
		r.bad, r.b = true, nil
		return 0
	}
	v := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

func (r *reader) float() float64 { return math.Float64frombits(r.uint64()) }
