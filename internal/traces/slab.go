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
	extra      uint32 // one more than where its extras begin, 0 if it has none
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

// extra is a piece of what some spans of a trace have beside: when they were
// queued and their details, one after another, see shard.putExtra.
type extra struct {
	next uint32
	b    [extraRoom]byte
}

const (
	extraRoom  = 124
	extraBytes = 128
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

// putExtra appends to the trace's extras when a span was queued (one byte that
// says whether it was, then 8) and its detail (its length as a uvarint, and its
// bytes). It returns one more than where that begins, 0 if there is no room.
func (sh *shard) putExtra(t *openTrace, queued int64, detail []byte) uint32 {
	var stack [16 + MaxDetail]byte
	e := append(stack[:0], 0)
	if queued != 0 {
		e[0] = 1
		e = binary.LittleEndian.AppendUint64(e, uint64(queued))
		t.queued = true
	}
	detail = detail[:min(len(detail), MaxDetail)]
	e = append(binary.AppendUvarint(e, uint64(len(detail))), detail...)
	at := t.extraLen
	for len(e) > 0 {
		from := t.extraLen % extraRoom
		if from == 0 {
			i := sh.extras.take(extraBytes, sh.budget())
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
	return at + 1
}

// readExtra reads what putExtra appended: extras are those of the whole trace.
func readExtra(extras []byte, at uint32) (queued int64, detail []byte) {
	if at == 0 {
		return 0, nil
	}
	e := extras[at-1:]
	if e[0] != 0 {
		queued = int64(binary.LittleEndian.Uint64(e[1:]))
		e = e[8:]
	}
	n, used := binary.Uvarint(e[1:])
	return queued, e[1+used:][:n]
}

func clampWeight(w uint32) uint32 { return min(max(w, 1), math.MaxInt32) }
