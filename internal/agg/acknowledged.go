package agg

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// acknowledged is a small file beside the journals that holds the position up to which
// requests were acknowledged, and its generation. It is written after each request's
// frame, before the answer: so a journal that was cut or removed differs from one that
// has just begun, and what it held is counted. A mark is one small write into the
// system's cache, which survives a kill of the process. (The file is not mapped: a page
// that cannot be read or that somebody cuts off would kill the process.) Two records are
// written in turn, so that one is whole at any time:
//
//	generation u64 | position u64 | crc32c of the 16 bytes before
//
// little-endian, the second at byte 64.
type acknowledged struct {
	f     vfs.File
	turn  int
	dirty bool // written since the last sync
	buf   [ackRecord]byte
}

const (
	ackFile   = "acknowledged"
	ackRecord = 20
	ackStride = 64
	ackSize   = 4096
)

// mark is a position in a generation.
type mark struct{ generation, position uint64 }

// unreadableError reports that the file of acknowledgements exists and cannot be read.
type unreadableError struct{ err error }

func (e *unreadableError) Error() string { return "it cannot be read: " + e.err.Error() }
func (e *unreadableError) Unwrap() error { return e.err }

// openAcknowledged opens or creates the file, and returns the last mark in it; marked
// reports whether there is one.
func openAcknowledged(fsys vfs.FS, dir string) (_ *acknowledged, last mark, marked bool, err error) {
	path := fsys.PathJoin(dir, ackFile)
	if err := checkRegular(fsys, path); err != nil {
		return nil, mark{}, false, err
	}
	f, err := fsys.OpenReadWrite(path, category)
	if err != nil {
		return nil, mark{}, false, wrapNoSpace(err)
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if err := ownerOnly(f); err != nil {
		return nil, mark{}, false, err
	}
	page, n, err := readMarks(f)
	if err != nil {
		return nil, mark{}, false, err
	}
	if n < len(page) { // the whole page, so that later marks need no space
		if _, err := f.WriteAt(page[n:], int64(n)); err != nil {
			return nil, mark{}, false, wrapNoSpace(err)
		}
	}
	a := &acknowledged{f: f}
	last, a.turn, marked = lastMark(page)
	return a, last, marked, nil
}

// checkRegular returns an error if the path exists and is not a regular file: opening it
// might block for ever.
func checkRegular(fsys vfs.FS, path string) error {
	if info, err := fsys.Stat(path); err == nil && !info.Mode().IsRegular() {
		return &unreadableError{errors.New("not a file")}
	}
	return nil
}

// readAcknowledged returns the last mark in the file, which it does not change.
func readAcknowledged(fsys vfs.FS, dir string) (last mark, marked bool, err error) {
	path := fsys.PathJoin(dir, ackFile)
	if err := checkRegular(fsys, path); err != nil {
		return mark{}, false, err
	}
	f, err := fsys.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return mark{}, false, nil
	}
	if err != nil {
		return mark{}, false, err
	}
	defer f.Close()
	page, _, err := readMarks(f)
	last, _, marked = lastMark(page)
	return last, marked, err
}

func readMarks(f vfs.File) (page []byte, n int, err error) {
	page = make([]byte, ackSize)
	if n, err = f.ReadAt(page, 0); err != nil && err != io.EOF {
		return page, n, &unreadableError{err}
	}
	return page, n, nil
}

// lastMark returns the later mark, and the turn of the next write.
func lastMark(page []byte) (last mark, turn int, found bool) {
	for i := range 2 {
		b := page[i*ackStride:][:ackRecord]
		if binary.LittleEndian.Uint32(b[16:]) != crc32.Checksum(b[:16], crcTable) {
			continue
		}
		m := mark{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])}
		if !found || m.position >= last.position {
			last, turn, found = m, 1-i, true
		}
	}
	return last, turn, found
}

// begin writes the first mark, and syncs it to disk.
func (a *acknowledged) begin(m mark) error {
	if err := a.set(m); err != nil {
		return err
	}
	return a.f.Sync()
}

// set writes a mark.
func (a *acknowledged) set(m mark) error {
	b := a.buf[:]
	binary.LittleEndian.PutUint64(b, m.generation)
	binary.LittleEndian.PutUint64(b[8:], m.position)
	binary.LittleEndian.PutUint32(b[16:], crc32.Checksum(b[:16], crcTable))
	if _, err := a.f.WriteAt(b, int64(a.turn*ackStride)); err != nil {
		return err
	}
	a.turn, a.dirty = 1-a.turn, true
	return nil
}

// close closes the file without a sync.
func (a *acknowledged) close() error { return a.f.Close() }
