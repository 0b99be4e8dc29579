package pebblestore

import (
	"encoding/binary"
	"fmt"

	"tailscope/internal/store"
)

// A chunk holds the points of about a hundred series in one slot, of one writer
// and generation, in order of series number. The key names the first number.
//
//	format byte | last-first uvarint | count uvarint
//	count × (number - previous uvarint, length uvarint)
//	the points' bytes, one after the other
//
// Pebble checksums every block, so values carry none of their own.
const (
	chunkFormat    = 1
	chunkMaxPoints = 128
	chunkMaxBytes  = 16 << 10
)

// entry is one point to be written into a chunk or a run.
type entry struct {
	number uint32
	data   []byte
}

// appendChunk encodes entries, which are not empty and ascend by number.
func appendChunk(dst []byte, entries []entry) []byte {
	first, last := entries[0].number, entries[len(entries)-1].number
	dst = append(dst, chunkFormat)
	dst = binary.AppendUvarint(dst, uint64(last-first))
	dst = binary.AppendUvarint(dst, uint64(len(entries)))
	prev := first
	for i := range entries {
		dst = binary.AppendUvarint(dst, uint64(entries[i].number-prev))
		dst = binary.AppendUvarint(dst, uint64(len(entries[i].data)))
		prev = entries[i].number
	}
	for i := range entries {
		dst = append(dst, entries[i].data...)
	}
	return dst
}

// chunkLen returns how many of the entries go into the next chunk.
func chunkLen(entries []entry) int {
	n, bytes := 0, 0
	for n < len(entries) && n < chunkMaxPoints && (n == 0 || bytes+len(entries[n].data) <= chunkMaxBytes) {
		bytes += len(entries[n].data)
		n++
	}
	return n
}

// chunk decodes what appendChunk encoded.
type chunk struct {
	number uint32 // of the point that next returned
	last   uint32
	left   int
	head   []byte // numbers and lengths not read yet
	body   []byte // points not read yet
}

var errChunk = fmt.Errorf("chunk: %w", store.ErrCorrupt)

// openChunk checks the whole frame of a chunk, so that next cannot fail.
func openChunk(value []byte, first uint32) (c chunk, err error) {
	if len(value) == 0 || value[0] != chunkFormat {
		return c, fmt.Errorf("chunk format: %w", store.ErrCorrupt)
	}
	b := value[1:]
	span, k := binary.Uvarint(b)
	if k <= 0 || span > uint64(^uint32(0)-first) {
		return c, errChunk
	}
	b = b[k:]
	n, k := binary.Uvarint(b)
	if k <= 0 || n == 0 || n > uint64(len(b)) {
		return c, errChunk
	}
	b = b[k:]
	c.number, c.last, c.left = first, first+uint32(span), int(n)
	pos, number, total := 0, uint64(first), uint64(0)
	for i := range int(n) {
		delta, size := uint64(0), uint64(0)
		if pos+1 < len(b) && b[pos] < 0x80 && b[pos+1] < 0x80 {
			delta, size = uint64(b[pos]), uint64(b[pos+1])
			pos += 2
		} else {
			if delta, k = binary.Uvarint(b[pos:]); k <= 0 {
				return c, errChunk
			}
			pos += k
			if size, k = binary.Uvarint(b[pos:]); k <= 0 {
				return c, errChunk
			}
			pos += k
		}
		if (delta == 0) != (i == 0) || delta > span || size > uint64(len(b)) {
			return c, errChunk
		}
		number += delta
		total += size
	}
	if number != uint64(c.last) || total != uint64(len(b)-pos) {
		return c, errChunk
	}
	c.head, c.body = b[:pos], b[pos:]
	return c, nil
}

// next returns the next point; ok is false after the last. data aliases the value.
func (c *chunk) next() (number uint32, data []byte, ok bool) {
	if c.left == 0 {
		return 0, nil, false
	}
	c.left--
	delta, k := binary.Uvarint(c.head)
	size, l := binary.Uvarint(c.head[k:])
	c.head = c.head[k+l:]
	c.number += uint32(delta)
	data = c.body[:size:size]
	c.body = c.body[size:]
	return c.number, data, true
}
