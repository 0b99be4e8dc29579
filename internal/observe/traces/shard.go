package traces

import (
	"encoding/binary"
	"math/bits"
	"sync"
	"sync/atomic"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// shard holds the open traces of a part of all trace ids.
type shard struct {
	mu     sync.Mutex
	bound  int64 // bytes
	table  series.Table
	keys   []series.ID // by trace
	traces slab[openTrace]
	blocks slab[block]
	extras slab[extra]

	ready    list // added whole, in order of arrival
	rooted   list // with a root, in order of its arrival
	rootless list // without a root, in order of their last spans
	spans    int
	open     int

	pressed atomic.Bool // more than half of bound is taken

	oneIn   uint16 // of so many traces that begin one is put together
	adapted int64  // Unix nanoseconds: when oneIn last changed, or could have
	demand  int64  // spans of all traces but those added whole, each times its trace's oneIn

	gone  recent
	stats Stats
	_     [64]byte // another shard's lock is on another cache line
}

// openTrace is a trace that waits for its last spans.
type openTrace struct {
	id         store.TraceID
	since      int64  // Unix nanoseconds: when the root arrived, or else the last span
	head, tail uint32 // blocks
	n          uint32 // spans
	left       uint32 // spans beyond MaxSpans
	prev, next uint32
	born       uint32 // Unix seconds

	extraHead, extraTail uint32
	extraLen             uint32 // bytes

	state traceState
	flags traceFlags
	oneIn uint16 // the number of traces that it counts for
	first uint8  // spans of the message that it began with, at most 255
}

const openTraceBytes = 72

type traceState uint8

const (
	rootless traceState = iota
	rooted
	ready
)

type traceFlags uint8

const (
	early  traceFlags = 1 << iota // closed for lack of memory
	queued                        // some span has a time in a queue
	unlike                        // some span stands for several, or has a tenant
	whole                         // it came whole, and nothing has followed
)

// list is a list of traces, oldest first.
type list struct{ first, last uint32 }

func (sh *shard) list(s traceState) *list {
	switch s {
	case rooted:
		return &sh.rooted
	case ready:
		return &sh.ready
	}
	return &sh.rootless
}

func (sh *shard) push(i uint32, t *openTrace) {
	l := sh.list(t.state)
	t.prev, t.next = l.last, 0
	if l.last != 0 {
		sh.traces.at(l.last).next = i
	} else {
		l.first = i
	}
	l.last = i
}

func (sh *shard) unlink(t *openTrace) {
	l := sh.list(t.state)
	if t.prev != 0 {
		sh.traces.at(t.prev).next = t.next
	} else {
		l.first = t.next
	}
	if t.next != 0 {
		sh.traces.at(t.next).prev = t.prev
	} else {
		l.last = t.prev
	}
}

// budget returns how many more bytes the shard may allocate.
func (sh *shard) budget() int64 { return sh.bound - sh.bytes() }

func (sh *shard) bytes() int64 {
	return sh.traces.bytes + sh.blocks.bytes + sh.extras.bytes + sh.table.Bytes() + int64(cap(sh.keys))*16
}

// mix hashes a trace id with a seed, so that nobody can make two collide on purpose.
func (a *Assembler) mix(id *store.TraceID) series.ID {
	lo, hi := binary.LittleEndian.Uint64(id[:8]), binary.LittleEndian.Uint64(id[8:])
	h, l := bits.Mul64(lo^a.seed[0], hi^a.seed[1])
	return series.ID{Hi: hi, Lo: h ^ l}
}

// lookup finds an open trace, or opens one. It returns 0 if memory is at its bound, or else
// the fate of a trace that is closed or left out. A trace that is left out stays so.
func (sh *shard) lookup(a *Assembler, id *store.TraceID, key series.ID, now int64) (i uint32, f fate) {
	if i := sh.table.Find(sh.keys, key); i != 0 {
		return i, 0
	}
	if f = sh.gone.find(key.Lo); f != 0 {
		return 0, f
	}
	if sh.adapt(a, now); !chosen(key.Lo, sh.oneIn) {
		sh.gone.add(key.Lo, key.Lo, leftOutTrace)
		sh.stats.LeftOutTraces++
		return 0, leftOutTrace
	}
	if i = sh.newTrace(id, rootless, now); i == 0 {
		return 0, 0
	}
	if int(i) >= len(sh.keys) {
		keys := make([]series.ID, max(int(i)+int(i)/2, 256))
		copy(keys, sh.keys)
		sh.keys = keys
	}
	sh.keys[i] = key
	sh.table.Add(key, i)
	return i, 0
}

func (sh *shard) newTrace(id *store.TraceID, s traceState, now int64) uint32 {
	// The table doubles: its new size has to fit too.
	if n := int64(sh.table.Len()); s != ready && 3*n >= sh.table.Bytes()/8*2 && sh.budget() < max(sh.table.Bytes(), 8<<10) {
		return 0
	}
	i := sh.traces.allocate(openTraceBytes, sh.budget())
	if i == 0 {
		return 0
	}
	t := sh.traces.at(i)
	*t = openTrace{id: *id, since: now, born: uint32(now / 1e9), state: s, oneIn: 1}
	if s != ready {
		t.oneIn = sh.oneIn
	}
	sh.push(i, t)
	sh.open++
	return i
}

// append appends a span to an open trace. It returns false if memory is at its bound.
func (sh *shard) append(t *openTrace, s *Span) bool {
	extra := uint32(0)
	weight := clampWeight(uint64(s.Weight))
	if s.Queued != 0 || s.Text != 0 || s.Name.tenant() != 0 || weight != 1 || len(s.Detail) > 0 {
		extra = sh.putExtra(t, &beside{s.Queued, s.Text, s.Name.tenant(), weight, s.Detail})
		if extra == 0 && (weight != 1 || s.Name.tenant() != 0) {
			return false
		}
	}
	at := t.n % blockSpans
	if at == 0 {
		i := sh.blocks.allocate(blockBytes, sh.budget())
		if i == 0 {
			return false
		}
		sh.blocks.at(i).next = 0
		if t.n == 0 {
			t.head = i
		} else {
			sh.blocks.at(t.tail).next = i
		}
		t.tail = i
	}
	o := &sh.blocks.at(t.tail).spans[at]
	o.id, o.parent = binary.LittleEndian.Uint64(s.ID[:]), binary.LittleEndian.Uint64(s.Parent[:])
	o.start, o.end = s.Start, s.End
	o.name, o.extra = s.Name.common(), extra
	if s.Failed {
		o.name |= failedBit
	}
	t.n++
	sh.spans++
	if t.state != ready {
		sh.demand += int64(t.oneIn)
	}
	return true
}

// add adds one span. It returns false if memory is at its bound. The root is sent last,
// and nothing is broken down without it: it is accepted however many came before.
func (sh *shard) add(a *Assembler, s *Span, i uint32, now int64) bool {
	t := sh.traces.at(i)
	root := s.Parent == [8]byte{} && t.state == rootless
	if int(t.n) >= a.o.MaxSpans && !root {
		t.left++
		sh.stats.TooMany++
		return true
	}
	if !sh.append(t, s) {
		return false
	}
	switch {
	case t.state != rootless:
	case root:
		sh.unlink(t)
		t.state, t.since = rooted, now
		sh.push(i, t)
	case now-t.since >= 1e9 && now-int64(t.born)*1e9 < a.maxAge:
		sh.unlink(t)
		t.since = now
		sh.push(i, t)
	}
	return true
}

// detach moves at most max traces from the list to out, while due returns true. The
// caller owns their records and blocks until release.
func (sh *shard) detach(out []uint32, s traceState, max int, hurry bool, due func(t *openTrace) bool) []uint32 {
	for i := sh.list(s).first; i != 0 && max > 0; max-- {
		t := sh.traces.at(i)
		if !due(t) {
			break
		}
		next := t.next
		sh.unlink(t)
		if s != ready {
			key := sh.keys[i]
			sh.table.Delete(key, i)
			sh.gone.add(key.Lo, key.Lo, closedTrace)
			if hurry {
				t.flags |= early
			}
			sh.demand -= int64(t.n) * int64(t.oneIn)
		}
		sh.open--
		sh.spans -= int(t.n)
		out = append(out, i)
		i = next
	}
	return out
}

// idleBytes is the memory that a shard without open traces keeps for the next ones.
const idleBytes = 256 << 10

// release frees detached traces, with their blocks and extras. After a flood, once no trace
// is open, it returns their memory.
func (sh *shard) release(traces, blocks, extras []uint32) {
	if sh.open == 0 && sh.bytes() > idleBytes {
		sh.table, sh.keys = series.Table{}, nil
		sh.traces, sh.blocks, sh.extras = slab[openTrace]{per: sh.traces.per}, slab[block]{per: sh.blocks.per}, slab[extra]{per: sh.extras.per}
		return
	}
	sh.traces.free = append(sh.traces.free, traces...)
	sh.blocks.free = append(sh.blocks.free, blocks...)
	sh.extras.free = append(sh.extras.free, extras...)
}

// fate is what became of a trace; 0 if it is open or unknown.
type fate uint8

const (
	closedTrace fate = 1 + iota
	leftOutTrace
	onceTrace // closed at once
	fateBits  = 3
)

// recent remembers the fateBits of about the last traces by their hashes: each line, of as many
// as the processor loads at once, holds the last eight that belong in it. The lowest two bits
// of a hash give way to the fate, and those of rootBits to the name of the root of a trace that
// was closed at once.
type recent struct{ lines [][8]uint64 }

func newRecent(bytes int64) recent {
	size := int64(16)
	for size*2*64 <= bytes {
		size *= 2
	}
	return recent{make([][8]uint64, size)}
}

func (r *recent) bytes() int64 { return int64(len(r.lines)) * 64 }

func (r *recent) line(h uint64) *[8]uint64 { return &r.lines[h>>20&uint64(len(r.lines)-1)] }

func (r *recent) find(h uint64) fate {
	for _, x := range r.line(h) {
		if (x^h)&^(fateBits|rootBits) == 0 && x != 0 {
			return fate(x & fateBits)
		}
	}
	return 0
}

// rootBits are the bits of the names of roots: they choose the line, all but the highest.
const (
	rootShift = 20
	rootBits  = (1<<22 - 1) << rootShift
)

// root returns the lowest bits of the name of the root of a trace that was closed at once.
func (r *recent) root(h uint64) uint32 {
	for _, x := range r.line(h) {
		if (x^h)&^(fateBits|rootBits) == 0 {
			return uint32(x & rootBits >> rootShift)
		}
	}
	return 0
}

// addRoot adds a trace that was closed at once.
func (r *recent) addRoot(h uint64, name uint32) {
	r.add(h&^rootBits|uint64(name)<<rootShift&rootBits, h, onceTrace)
}

// add adds the fate of the trace with the hash h, as x.
func (r *recent) add(x, h uint64, f fate) {
	l := r.line(h)
	copy(l[1:], l[:7])
	l[0] = x&^fateBits | uint64(f)
}
