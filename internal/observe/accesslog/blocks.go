package accesslog

import (
	"bytes"
	"errors"
	"io"
)

// blockBytes is the size of a block, which is read and committed at a time. A crash right after a
// commit may repeat one block.
const blockBytes = 2 << 20

// blocks cuts the bytes of a reader into blocks of whole lines.
type blocks struct {
	r      io.Reader
	buf    []byte
	n      int   // bytes of buf that are filled
	used   int   // bytes of buf that were returned
	offset int64 // offset of buf[used] in the file
	err    error // the error that ended the reading; io.EOF at the end
}

func newBlocks(r io.Reader, offset int64, size int) *blocks {
	return &blocks{r: r, buf: make([]byte, size), offset: offset}
}

// head returns the beginning of the file, up to n bytes, without consuming it.
func (b *blocks) head(n int) []byte {
	for b.n < n && b.err == nil {
		b.fill()
	}
	return b.buf[:min(n, b.n)]
}

func (b *blocks) fill() {
	m, err := b.r.Read(b.buf[b.n:])
	b.n += m
	b.err = err
}

// next returns the next block of whole lines and its offset in the file. The block is
// valid until the next call. The last block may lack its line end. A line that does not
// fit is returned in pieces, the first of which is longer than MaxLine. ok is false at
// the end; err gives the reason.
func (b *blocks) next() (block []byte, offset int64, ok bool) {
	copy(b.buf, b.buf[b.used:b.n])
	b.n -= b.used
	b.used = 0
	for b.n < len(b.buf) && b.err == nil {
		b.fill()
	}
	end := bytes.LastIndexByte(b.buf[:b.n], '\n') + 1
	if end == 0 && b.n == len(b.buf) || errors.Is(b.err, io.EOF) {
		end = b.n
	}
	if end == 0 {
		return nil, b.offset, false
	}
	offset = b.offset
	b.used = end
	b.offset += int64(end)
	return b.buf[:end], offset, true
}

func lastNewline(b []byte) int { return bytes.LastIndexByte(b, '\n') }
