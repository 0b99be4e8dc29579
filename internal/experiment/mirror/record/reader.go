package record

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Reader reads a record from its beginning to its end.
type Reader struct {
	r      io.Reader
	offset int64 // of what is read next
	block  int64 // of the block that entries come from
	zstd   *zstd.Decoder
	header Header
	end    *End
	open   decoder
	err    error
}

// Open reads the head of a record. It returns ErrFormat if the file is not one, and
// ErrTorn or ErrCorrupt if the head cannot be read. The reader needs no Close; the
// caller keeps r.
func Open(r io.Reader) (*Reader, error) {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBlock))
	if err != nil {
		return nil, err
	}
	rd := &Reader{r: r, zstd: z}
	var magic [len(Magic)]byte
	if _, err := io.ReadFull(r, magic[:]); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("read the magic: %w", err)
	}
	rd.offset = int64(len(Magic))
	switch {
	case string(magic[:]) == Magic:
	case string(magic[:len(Magic)-1]) == Magic[:len(Magic)-1]:
		return nil, fmt.Errorf("%w: it is of version %d, and version %d is known here", ErrFormat, magic[len(Magic)-1], Magic[len(Magic)-1])
	default:
		return nil, fmt.Errorf("%w: it does not begin with %q", ErrFormat, Magic[:5])
	}
	kind, data, err := rd.next()
	if err == io.EOF {
		err = errorAt(rd.offset, ErrTorn, "there is no head")
	}
	if err != nil {
		return nil, err
	}
	if kind != kindHead {
		return nil, errorAt(rd.block, ErrCorrupt, "a block of kind %q stands where the head should", kind)
	}
	if err := json.Unmarshal(data, &rd.header); err != nil {
		return nil, errorAt(rd.block, ErrCorrupt, "the head cannot be read (%v)", err)
	}
	return rd, nil
}

// Header returns the facts of the session.
func (r *Reader) Header() Header { return r.header }

// End returns the totals of the record. ok is false before Next has returned io.EOF,
// and for a file without an end.
func (r *Reader) End() (end End, ok bool) {
	if r.end == nil {
		return End{}, false
	}
	return *r.end, true
}

// Next reads the next entry into e. It returns io.EOF after the last, ErrTorn if the
// file has no end, and ErrCorrupt if it is damaged; both name the place, and every
// entry before is good. After an error it returns the same again. The entry's slices
// may be kept and must not be written to.
func (r *Reader) Next(e *Entry) error {
	for r.err == nil && r.open.left == 0 {
		r.err = r.advance()
	}
	if r.err != nil {
		return r.err
	}
	if err := r.open.next(e); err != nil {
		r.err = errorAt(r.block, ErrCorrupt, "%v in the block", err)
	}
	return r.err
}

// advance goes to the next block.
func (r *Reader) advance() error {
	kind, data, err := r.next()
	switch {
	case err == io.EOF:
		return errorAt(r.offset, ErrTorn, "no end was written")
	case err != nil:
		return err
	case kind == kindEntries:
		if err := r.open.open(data); err != nil {
			return errorAt(r.block, ErrCorrupt, "%v in the block", err)
		}
		return nil
	case kind == kindEnd:
		r.end = &End{}
		if err := json.Unmarshal(data, r.end); err != nil {
			r.end = nil
			return errorAt(r.block, ErrCorrupt, "the end cannot be read (%v)", err)
		}
		return io.EOF
	}
	return errorAt(r.block, ErrCorrupt, "a block is of kind %q", kind)
}

// next reads a block and decompresses it into memory of its own. It returns io.EOF if
// there is none.
func (r *Reader) next() (kind byte, data []byte, err error) {
	r.block = r.offset
	var head [headSize]byte
	n, err := io.ReadFull(r.r, head[:])
	switch {
	case err == io.EOF:
		return 0, nil, err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return 0, nil, errorAt(r.block, ErrTorn, "%d bytes of a block's head", n)
	case err != nil:
		return 0, nil, fmt.Errorf("read block at byte %d: %w", r.block, err)
	}
	kind = head[0]
	length, stored := binary.LittleEndian.Uint32(head[1:]), binary.LittleEndian.Uint32(head[5:])
	if length > maxBlock || stored > maxBlock {
		return 0, nil, errorAt(r.block, ErrCorrupt, "a block claims %d bytes, %d stored", length, stored)
	}
	// The buffer grows as it is read, so a false length alone takes no memory.
	data, err = io.ReadAll(io.LimitReader(r.r, int64(stored)))
	if err != nil {
		return 0, nil, fmt.Errorf("read block at byte %d: %w", r.block, err)
	}
	if len(data) < int(stored) {
		return 0, nil, errorAt(r.block, ErrTorn, "%d of %d bytes of a block", len(data), stored)
	}
	r.offset += headSize + int64(stored)
	if crc := crc32.Update(crc32.Checksum(head[:9], castagnoli), castagnoli, data); crc != binary.LittleEndian.Uint32(head[9:]) {
		return 0, nil, errorAt(r.block, ErrCorrupt, "the checksum of a block does not match")
	}
	if kind == kindEntries {
		if data, err = r.zstd.DecodeAll(data, nil); err != nil {
			return 0, nil, errorAt(r.block, ErrCorrupt, "a block cannot be decompressed (%v)", err)
		}
	}
	if len(data) != int(length) {
		return 0, nil, errorAt(r.block, ErrCorrupt, "a block has %d bytes, not %d", len(data), length)
	}
	return kind, data, nil
}
