package agg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
)

// The journal of a generation is one file, named by its number:
//
//	header  "TSJRNL" 0 4 | generation u64 | previous u64 | before u64 | crc32c of the 32 bytes before
//	frame   length u32 | number u32 | before u64 | entries u32 | crc32c of the payload |
//	        crc32c of the generation and the 24 bytes before | payload
//
// all little-endian. Frames are numbered from 1. before is a position: how many
// entries this writer had ever journalled before this point. previous is the last
// generation before this one that had a journal. A header has a checksum of its own,
// which distinguishes a damaged length from a write that was cut short. The positions
// give the number of entries missing between any two whole frames or journals.
// (Formats 1 and 2 had a header of magic, generation and checksum, and frames of
// length, the payload's checksum and payload.)
//
// A payload begins with its type. Definitions (1) number series and targets:
//
//	1 series  number, family, view, kind, labels
//	2 target  number, full series, marginal series or 0
//	3 tenant  number, marginal series, tenant: the Full series of the
//	          marginal's labels but for instance and peer, and of the tenant unless
//	          that is empty. Format 1 had none of these.
//
// Entries (2) begin with the time of the commit in milliseconds and a base slot; then
// each is a varint of target<<3|op and the op's operands. Op 6 is not an entry: it says of
// which tenant the durations that follow in the frame are, on targets without one. Format 3
// had no such op. A request is one frame of
// entries, in one write, after the definitions that it is the first to need. These are
// in frames of their own of a few KiB, so that damage to one costs the entries of a few
// targets only. A number keeps its meaning within a journal: entries are not attributed
// to another target when a definition is lost.
const (
	journalMagic  = "TSJRNL\x00\x04"
	journalFormat = 4
	journalHeader = 36
	frameHeader   = 28
	maxFrame      = 1 << 30
	definitions   = 4 << 10 // target size in bytes of a frame of definitions

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
	opTenant       = 6 // name, whose length is in place of the target
)

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// journal is the file of the open or a frozen generation.
type journal struct {
	fs    vfs.FS
	path  string
	mu    sync.Mutex // guards sync and close
	f     vfs.File   // nil if it was replayed, or is closed
	seed  uint32     // see frameSeed
	size  int64      // of the whole frames: the next write begins here
	frame uint32     // number of the last frame
	dirty bool       // written since the last successful sync
	// unsynced reports that a sync failed. The system may have dropped what it could not
	// write, and a later sync would succeed without it: only the store can still make
	// the generation durable, from memory.
	unsynced bool
	torn     bool // a write failed and may still be whole on disk: nothing may follow it
}

func journalPath(dir string, generation uint64) string {
	return vfs.Default.PathJoin(dir, fmt.Sprintf("generation-%020d.journal", generation))
}

// storedPath returns the path of the journal once its generation has been put.
func storedPath(dir string, generation uint64) string {
	return vfs.Default.PathJoin(dir, fmt.Sprintf("generation-%020d.stored", generation))
}

// header is the header of a journal.
type header struct {
	generation, previous, before uint64
}

func createJournal(fsys vfs.FS, dir string, h header) (*journal, error) {
	path := journalPath(dir, h.generation)
	f, err := createFile(fsys, path)
	if err != nil {
		return nil, wrapNoSpace(err)
	}
	j := &journal{fs: fsys, path: path, f: f, seed: frameSeed(h.generation)}
	if err := j.write(h.append(nil)); err != nil {
		return nil, errors.Join(err, f.Close(), fsys.Remove(path))
	}
	return j, nil
}

func (h header) append(dst []byte) []byte {
	at := len(dst)
	dst = append(dst, journalMagic...)
	for _, v := range [...]uint64{h.generation, h.previous, h.before} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[at:], crcTable))
}

// write appends b whole or not at all: the next write overwrites what a failed one left
// behind.
func (j *journal) write(b []byte) error {
	if j.torn {
		return fmt.Errorf("journal %s: an earlier write failed", j.path)
	}
	n, err := j.f.WriteAt(b, j.size)
	if err != nil {
		j.torn = n == len(b)
		return fmt.Errorf("journal %s: %w", j.path, wrapNoSpace(err))
	}
	j.size += int64(n)
	j.dirty = true
	return nil
}

func (j *journal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.f == nil {
		return nil
	}
	err := j.f.Close()
	j.f = nil
	return err
}

// sync syncs the journal to disk, unless it is closed.
func (j *journal) sync() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.f == nil {
		return nil
	}
	return j.f.Sync()
}

// remove closes and deletes the journal.
func (j *journal) remove() error {
	err := j.close()
	if rerr := j.fs.Remove(j.path); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return err
}

// rename closes the journal and renames it to path.
func (j *journal) rename(path string) error {
	err := j.close()
	if path != j.path {
		if rerr := j.fs.Rename(j.path, path); rerr != nil {
			return errors.Join(err, rerr)
		}
		j.path = path
	}
	return err
}

// frame is the header of a frame.
type frame struct {
	length  uint32 // of the payload
	number  uint32
	before  uint64 // position of its first entry
	entries uint32
	sum     uint32 // of the payload
}

// frameSeed returns the seed that binds the checksums of frames' headers to one
// generation.
func frameSeed(generation uint64) uint32 {
	return crc32.Checksum(binary.LittleEndian.AppendUint64(nil, generation), crcTable)
}

// sealFrame fills in the length, entries and checksum in the header of the frame that
// begins at start and ends with b.
func sealFrame(b []byte, start, entries int) {
	h, payload := b[start:start+frameHeader], b[start+frameHeader:]
	binary.LittleEndian.PutUint32(h, uint32(len(payload)))
	binary.LittleEndian.PutUint32(h[16:], uint32(entries))
	binary.LittleEndian.PutUint32(h[20:], crc32.Checksum(payload, crcTable))
}

// placeFrame completes the header of a sealed frame.
func placeFrame(h []byte, seed, number uint32, before uint64) {
	binary.LittleEndian.PutUint32(h[4:], number)
	binary.LittleEndian.PutUint64(h[8:], before)
	binary.LittleEndian.PutUint32(h[24:], crc32.Update(seed, crcTable, h[:24]))
}

// parseFrame parses a frame's header; ok reports whether its checksum matches.
func parseFrame(h []byte, seed uint32) (f frame, ok bool) {
	f = frame{
		length: binary.LittleEndian.Uint32(h), number: binary.LittleEndian.Uint32(h[4:]), before: binary.LittleEndian.Uint64(h[8:]),
		entries: binary.LittleEndian.Uint32(h[16:]), sum: binary.LittleEndian.Uint32(h[20:]),
	}
	return f, binary.LittleEndian.Uint32(h[24:]) == crc32.Update(seed, crcTable, h[:24])
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
