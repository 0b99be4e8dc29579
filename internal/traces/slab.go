package traces

import (
	"encoding/binary"
	"math"
)

// span is an open span: 48 bytes without pointers, so that the garbage
// collector has nothing to look at.
type span struct {
	id, parent uint64
	start, end int64
	name       Name
	text       Text
	weight     uint32 // the highest bit says that it failed
	extra      uint32 // first of its extras, 0 if there is none
}

const failedBit = 1 << 31

// block is a few spans of one trace. All blocks of a trace but the last are full.
type block struct {
	spans [blockSpans]span
	next  uint32
	_     [12]byte
}

const (
	blockSpans = 5
	blockBytes = 256
)

// extra holds what few spans have: when it was queued (8 bytes) and its detail.
type extra struct {
	next uint32
	n    uint8 // bytes used
	b    [extraRoom]byte
}

const (
	extraRoom  = 59
	extraBytes = 64
)

// slab hands out elements by number and takes them back. Elements do not move,
// so that who holds the list of chunks may read elements of its own while
// others are handed out. 0 is no element.
type slab[T any] struct {
	chunks [][]T
	per    uint // binary logarithm of the elements of a chunk
	next   uint32
	free   []uint32 // who gives elements back appends them
	bytes  int64    // of chunks and free
}

func (s *slab[T]) at(i uint32) *T { return &s.chunks[i>>s.per][i&(1<<s.per-1)] }

// take returns an element, 0 if it would need more than budget new bytes.
// size is that of an element. What an element held before is still in it.
func (s *slab[T]) take(size, budget int64) uint32 {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		return i
	}
	if s.next == 0 {
		s.next = 1
	}
	if int(s.next)>>s.per == len(s.chunks) {
		// The list of free ones is made as long as it can get, so that giving
		// back needs no memory.
		more := (size + 4) << s.per
		if more > budget {
			return 0
		}
		s.chunks = append(s.chunks[:len(s.chunks):len(s.chunks)], make([]T, 1<<s.per))
		free := make([]uint32, len(s.free), len(s.chunks)<<s.per)
		copy(free, s.free)
		s.free = free
		s.bytes += more
	}
	s.next++
	return s.next - 1
}

// putExtra stores when a span was queued and its detail; 0 if there is no room.
func (sh *shard) putExtra(queued int64, detail []byte) uint32 {
	var head [8]byte
	binary.LittleEndian.PutUint64(head[:], uint64(queued))
	detail = detail[:min(len(detail), MaxDetail)]
	first := sh.extras.take(extraBytes, sh.budget())
	if first == 0 {
		return 0
	}
	e := sh.extras.at(first)
	copy(e.b[:], head[:])
	n := copy(e.b[8:], detail)
	e.n, e.next = uint8(8+n), 0
	for detail = detail[n:]; len(detail) > 0; detail = detail[n:] {
		more := sh.extras.take(extraBytes, sh.budget())
		if more == 0 {
			break // the rest of the detail is left out
		}
		e.next = more
		e = sh.extras.at(more)
		n = copy(e.b[:], detail)
		e.n, e.next = uint8(n), 0
	}
	return first
}

// extras reads what putExtra stored.
type extras [][]extra

func (c extras) at(i uint32, per uint) *extra { return &c[i>>per][i&(1<<per-1)] }

func (c extras) queued(i uint32, per uint) int64 {
	if i == 0 {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(c.at(i, per).b[:]))
}

func (c extras) appendDetail(dst []byte, i uint32, per uint) []byte {
	skip := 8
	for i != 0 {
		e := c.at(i, per)
		dst = append(dst, e.b[skip:e.n]...)
		skip, i = 0, e.next
	}
	return dst
}

func clampWeight(w uint32) uint32 { return min(max(w, 1), math.MaxInt32) }
