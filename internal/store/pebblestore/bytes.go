package pebblestore

import (
	"encoding/binary"
	"fmt"

	"tailscope/internal/store"
)

func appendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// reader reads varints and strings from stored bytes. After the first error it returns
// zeros and keeps err.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail() {
	if r.err == nil {
		r.err = fmt.Errorf("truncated value: %w", store.ErrCorrupt)
	}
	r.b = nil
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) uvarint() uint64 {
	v, k := binary.Uvarint(r.b)
	if k <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[k:]
	return v
}

func (r *reader) varint() int64 {
	v, k := binary.Varint(r.b)
	if k <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[k:]
	return v
}

// count reads the number of items that follow, each of at least size bytes, so that a
// corrupt count cannot make the caller allocate more than the value holds.
func (r *reader) count(size int) int {
	n := r.uvarint()
	if n > 1<<31 || size > 0 && n > uint64(len(r.b)/size) {
		r.fail()
		return 0
	}
	return int(n)
}

// atMost returns n, or fails if fewer than n bytes are left.
func (r *reader) atMost(n int) int {
	if n > len(r.b) {
		r.fail()
		return 0
	}
	return n
}

func (r *reader) bytes(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.fail()
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) string() string { return string(r.bytes(r.count(1))) }
