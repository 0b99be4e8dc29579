package traces

import (
	"encoding/binary"
	"math"
)

// span is an open span: 40 bytes without pointers, which the garbage collector does not
// scan.
type span struct {
	id, parent uint64
	start, end int64
	name       uint32 // without the tenant, which is in the extras; the highest bit marks a failed span
	extra      uint32 // offset of its extras plus one, or 0 if it has none
}

const failedBit = 1 << 31

// block is a few spans of one trace. All blocks of a trace but the last are full.
type block struct {
	spans [blockSpans]span
	next  uint32
	_     [4]byte
}

const (
	blockSpans = 5
	blockBytes = 208
)

// extra is a piece of the extras of a trace's spans, one after another; see beside.
type extra struct {
	next uint32
	b    [extraSize]byte
}

const (
	extraSize  = 60
	extraBytes = 64
)

// slab allocates elements by number and reuses freed ones. Elements do not move, so that
// a holder of the list of chunks may read its own elements while others are allocated. 0
// is not an element.
type slab[T any] struct {
	chunks [][]T
	per    uint // binary logarithm of the elements of a chunk
	next   uint32
	free   []uint32 // freed elements are appended
	bytes  int64    // of chunks and free
}

// used returns the number of elements that are not free.
func (s *slab[T]) used() int64 { return int64(max(s.next, 1)) - 1 - int64(len(s.free)) }

func (s *slab[T]) at(i uint32) *T { return &s.chunks[i>>s.per][i&(1<<s.per-1)] }

// allocate returns an element, or 0 if it would need more than budget new bytes. size is
// that of an element. The element keeps its old content.
func (s *slab[T]) allocate(size, budget int64) uint32 {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		return i
	}
	if s.next == 0 {
		s.next = 1
	}
	if int(s.next)>>s.per == len(s.chunks) {
		// The free list has space for all elements, so that freeing needs no memory. It grows
		// by a quarter, since all of it is allocated anew.
		n := (len(s.chunks) + 1) << s.per
		more, list := size<<s.per, 0
		if n > cap(s.free) {
			list = n + n/4
			more += 4 * int64(list-cap(s.free))
		}
		if more > budget {
			return 0
		}
		s.chunks = append(s.chunks, make([]T, 1<<s.per))
		if list > 0 {
			s.free = make([]uint32, 0, list)
		}
		s.bytes += more
	}
	s.next++
	return s.next - 1
}

// beside holds the fields that few spans have. Its encoding is a byte that marks the
// fields present, the time as 8 bytes, text, tenant and weight as uvarints, and the detail after
// its length as a uvarint.
type beside struct {
	queued int64
	text   Text
	tenant uint32
	weight uint32 // at least 1
	detail []byte
}

const (
	hasQueued = 1 << iota
	hasText
	hasTenant
	hasWeight
)

// putExtra appends to the trace's extras. It returns the offset plus one, or 0 if memory
// is at its bound.
func (sh *shard) putExtra(t *openTrace, x *beside) uint32 {
	var stack [32 + MaxDetail]byte
	e := append(stack[:0], 0)
	if x.queued != 0 {
		e[0] |= hasQueued
		e = binary.LittleEndian.AppendUint64(e, uint64(x.queued))
	}
	if x.text != 0 {
		e[0] |= hasText
		e = binary.AppendUvarint(e, uint64(x.text))
	}
	if x.tenant != 0 {
		e[0] |= hasTenant
		e = binary.AppendUvarint(e, uint64(x.tenant))
	}
	if x.weight != 1 {
		e[0] |= hasWeight
		e = binary.AppendUvarint(e, uint64(x.weight))
	}
	detail := x.detail[:min(len(x.detail), MaxDetail)]
	e = append(binary.AppendUvarint(e, uint64(len(detail))), detail...)
	at := t.extraLen
	for len(e) > 0 {
		from := t.extraLen % extraSize
		if from == 0 {
			i := sh.extras.allocate(extraBytes, sh.budget())
			if i == 0 {
				return 0
			}
			sh.extras.at(i).next = 0
			if t.extraLen == 0 {
				t.extraHead = i
			} else {
				sh.extras.at(t.extraTail).next = i
			}
			t.extraTail = i
		}
		n := copy(sh.extras.at(t.extraTail).b[from:], e)
		e = e[n:]
		t.extraLen += uint32(n)
	}
	if x.queued != 0 {
		t.flags |= queued
	}
	if x.weight != 1 || x.tenant != 0 {
		t.flags |= unlike
	}
	return at + 1
}

// readExtra decodes what putExtra appended; extras holds those of the whole trace.
func readExtra(extras []byte, at uint32) beside {
	x := beside{weight: 1}
	if at == 0 {
		return x
	}
	flags, e := extras[at-1], extras[at:]
	if flags&hasQueued != 0 {
		x.queued = int64(binary.LittleEndian.Uint64(e))
		e = e[8:]
	}
	number := func() uint64 {
		v, n := binary.Uvarint(e)
		e = e[n:]
		return v
	}
	if flags&hasText != 0 {
		x.text = Text(number())
	}
	if flags&hasTenant != 0 {
		x.tenant = uint32(number())
	}
	if flags&hasWeight != 0 {
		x.weight = uint32(number())
	}
	n := number()
	x.detail = e[:n]
	return x
}

func clampWeight(w uint64) uint32 { return uint32(min(max(w, 1), math.MaxInt32)) }
