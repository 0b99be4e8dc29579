package shadow

import (
	"sync"

	"tailscope/internal/experiment/mirror/pair"
)

// segmentBytes is the size of one piece of a streamed body.
const segmentBytes = 16 << 10

// Spool is a body that is read by several copies while it is still written. What it
// holds is a chain of segments; each reader has its own place in it, and a segment
// that all readers have passed is used again. Writing never waits: a reader whose
// sender has no budget left is cut off.
type Spool struct {
	length int64 // -1 if unknown

	mu      sync.Mutex
	readers []*reader
	tail    *segment // nil before the first Write, and while nobody reads
	written int64
	closed  bool
	cause   pair.Cause // why the body is not whole
	trailer []byte
	capture *BodyCapture
}

// segment is a part of a body. Its bytes up to used are written once, under the
// spool's lock. refs counts, under the same lock, readers that have not passed it.
type segment struct {
	next *segment
	used int
	refs int
	b    [segmentBytes]byte
}

var segments = sync.Pool{New: func() any { return new(segment) }}

// reader is one copy's place in a spool, and its share of the sender's bound.
type reader struct {
	s      *Spool
	budget *pair.Budget
	limit  int64 // on the whole body

	// Under s.mu.
	seg  *segment // nil before the first byte
	off  int      // within seg
	held int64    // bytes written and not yet taken
	cut  pair.Cause
	left bool
	// began reports whether a byte of the copy was sent. A reader that is cut off
	// afterwards fell behind; before, the body did not fit.
	began bool
	wake  chan struct{} // capacity 1
}

func newSpool(length int64) *Spool { return &Spool{length: length} }

// Length returns the body's announced length, or -1.
func (s *Spool) Length() int64 { return s.length }

// Write appends a copy of p. It does not wait and cannot fail. After Close or Abort
// it does nothing.
func (s *Spool) Write(p []byte) {
	if len(p) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.written += int64(len(p))
	if s.capture != nil {
		s.capture.add(p)
	}
	live := s.readers[:0]
	for _, r := range s.readers {
		switch {
		case s.written > r.limit:
			r.cutOff(pair.BodyLimit)
		case !r.budget.Reserve(int64(len(p))):
			if r.began {
				r.cutOff(pair.BodyBehind)
			} else {
				r.cutOff(pair.BufferFull)
			}
		default:
			r.held += int64(len(p))
			live = append(live, r)
		}
	}
	clear(s.readers[len(live):])
	s.readers = live
	if len(live) == 0 {
		s.tail = nil
		return
	}
	for len(p) > 0 {
		if s.tail == nil || s.tail.used == segmentBytes {
			s.grow()
		}
		n := copy(s.tail.b[s.tail.used:], p)
		s.tail.used += n
		p = p[n:]
	}
	for _, r := range live {
		r.poke()
	}
}

// grow adds a segment that all readers have yet to pass.
func (s *Spool) grow() {
	g := segments.Get().(*segment)
	g.next, g.used, g.refs = nil, 0, len(s.readers)
	if s.tail != nil {
		s.tail.next = g
	}
	s.tail = g
	for _, r := range s.readers {
		if r.seg == nil {
			r.seg, r.off = g, 0
		}
	}
}

// Close marks the body as whole. Trailer holds field lines with their line ends,
// which are copied, and may be empty.
func (s *Spool) Close(trailer []byte) {
	s.end(pair.None, trailer)
}

// Abort marks the body as broken off, with the cause: pair.ClientClosed if the client
// broke it off. Closing after it does nothing, nor does aborting after Close.
func (s *Spool) Abort(cause pair.Cause) {
	s.end(cause, nil)
}

func (s *Spool) end(cause pair.Cause, trailer []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed, s.cause = true, cause
	s.trailer = append(s.trailer, trailer...)
	for _, r := range s.readers {
		r.poke()
	}
}

// open returns a reader at the body's beginning, or nil if the beginning is no longer
// held.
func (s *Spool) open(budget *pair.Budget, limit int64) *reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.written > 0 {
		return nil
	}
	r := &reader{s: s, budget: budget, limit: limit, wake: make(chan struct{}, 1)}
	s.readers = append(s.readers, r)
	return r
}

// next returns the bytes that follow, which are valid until the next call, and gives
// back what it returned before to the sender's budget. Without bytes, more reports
// that others may come, for which the caller waits on wake; else the body has ended,
// whole if cause is None.
func (r *reader) next(taken int) (p []byte, more bool, cause pair.Cause) {
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.cut != pair.None {
		return nil, false, r.cut
	}
	r.off += taken
	r.held -= int64(taken)
	r.budget.Release(int64(taken))
	for r.seg != nil && r.off == r.seg.used && r.seg.next != nil {
		g := r.seg
		r.seg, r.off = g.next, 0
		g.drop()
	}
	if r.seg != nil && r.off < r.seg.used {
		return r.seg.b[r.off:r.seg.used], true, pair.None
	}
	if !s.closed {
		return nil, true, pair.None
	}
	return nil, false, s.cause
}

// begin marks that the copy's first byte is about to be sent. It returns the cause if
// the reader was cut off before that, or the body broken off.
func (r *reader) begin() pair.Cause {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if r.cut != pair.None {
		return r.cut
	}
	if r.s.closed && r.s.cause != pair.None {
		return r.s.cause
	}
	r.began = true
	return pair.None
}

// broken returns the cause why no whole body can come any more, or None.
func (r *reader) broken() pair.Cause {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if r.cut != pair.None {
		return r.cut
	}
	return r.s.cause
}

// close ends the reading and gives back what is held. It may be called twice.
func (r *reader) close() {
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	r.leave()
	for i, o := range s.readers {
		if o == r {
			s.readers = append(s.readers[:i], s.readers[i+1:]...)
			break
		}
	}
	if len(s.readers) == 0 {
		s.tail = nil
	}
}

// cutOff ends a reader from the writer's side. The caller removes it from the spool's
// readers. The segment that the reader may be sending from is kept until it closes.
func (r *reader) cutOff(cause pair.Cause) {
	r.cut = cause
	r.budget.Release(r.held)
	r.held = 0
	if r.seg != nil {
		dropAll(r.seg.next)
	}
	r.poke()
}

// leave gives back bytes and segments, once.
func (r *reader) leave() {
	if r.left {
		return
	}
	r.left = true
	r.budget.Release(r.held)
	r.held = 0
	if r.seg == nil {
		return
	}
	if r.cut == pair.None {
		dropAll(r.seg.next)
	}
	r.seg.drop()
	r.seg = nil
}

func (r *reader) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (g *segment) drop() {
	g.refs--
	if g.refs == 0 {
		g.next = nil
		segments.Put(g)
	}
}

// dropAll drops g and what follows it.
func dropAll(g *segment) {
	for g != nil {
		next := g.next
		g.drop()
		g = next
	}
}
