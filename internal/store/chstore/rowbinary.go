package chstore

import (
	"encoding/binary"
	"fmt"
	"math"

	"tailscope/internal/store"
)

// RowBinary: rows one after the other, the columns of each in order, without separators.
// Numbers are little-endian, strings follow their length (uvarint), fixed strings have
// none, arrays follow their number of elements.

func appendString[S string | []byte](dst []byte, s S) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendUint16(dst []byte, v uint16) []byte { return binary.LittleEndian.AppendUint16(dst, v) }
func appendUint32(dst []byte, v uint32) []byte { return binary.LittleEndian.AppendUint32(dst, v) }
func appendUint64(dst []byte, v uint64) []byte { return binary.LittleEndian.AppendUint64(dst, v) }
func appendInt32(dst []byte, v int32) []byte   { return appendUint32(dst, uint32(v)) }
func appendInt64(dst []byte, v int64) []byte   { return appendUint64(dst, uint64(v)) }
func appendFloat64(dst []byte, v float64) []byte {
	return appendUint64(dst, math.Float64bits(v))
}

func appendStrings[S string | []byte](dst []byte, ss []S) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(ss)))
	for _, s := range ss {
		dst = appendString(dst, s)
	}
	return dst
}

func appendUint64s(dst []byte, vs []uint64) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(vs)))
	for _, v := range vs {
		dst = appendUint64(dst, v)
	}
	return dst
}

func appendInt32s(dst []byte, vs []int32) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(vs)))
	for _, v := range vs {
		dst = appendInt32(dst, v)
	}
	return dst
}

// rows reads an answer in RowBinary. After a failure it reads zeros, and err is set.
type rows struct {
	b   []byte
	err error
}

// next reports whether there is another row.
func (r *rows) next() bool { return r.err == nil && len(r.b) > 0 }

func (r *rows) take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.b) {
		if r.err == nil {
			r.err = fmt.Errorf("answer of the database is cut short: %w", store.ErrCorrupt)
		}
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

func (r *rows) uint8() uint8 {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *rows) uint16() uint16 {
	if b := r.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (r *rows) uint32() uint32 {
	if b := r.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *rows) uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *rows) int32() int32     { return int32(r.uint32()) }
func (r *rows) int64() int64     { return int64(r.uint64()) }
func (r *rows) float64() float64 { return math.Float64frombits(r.uint64()) }

// length reads the number of elements that follow, each of at least so many bytes.
func (r *rows) length(least int) int {
	n, k := binary.Uvarint(r.b)
	if r.err != nil || k <= 0 || n > uint64((len(r.b)-k)/least) {
		r.take(-1)
		return 0
	}
	r.b = r.b[k:]
	return int(n)
}

// bytes returns a part of the answer.
func (r *rows) bytes() []byte  { return r.take(r.length(1)) }
func (r *rows) string() string { return string(r.bytes()) }

func (r *rows) strings() []string {
	out := make([]string, r.length(1))
	for i := range out {
		out[i] = r.string()
	}
	return out
}

func (r *rows) uint64s() []uint64 {
	out := make([]uint64, r.length(8))
	for i := range out {
		out[i] = r.uint64()
	}
	return out
}

func appendLength(dst []byte, n int) []byte { return binary.AppendUvarint(dst, uint64(n)) }

func appendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}
