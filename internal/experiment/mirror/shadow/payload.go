package shadow

import (
	"sync"
	"sync/atomic"
)

// Payload is one request as its copies need it. Fill it in by appending to its
// slices, which keep their capacity from one use to the next, and do not change it
// once it was offered.
//
//	p := shadow.NewPayload()
//	p.Method = append(p.Method, head.Method...)
//	p.Fields = head.AppendFields(p.Fields, drop)
//	sender.Offer(shadow.Copy{Payload: p, ...})
//	p.Release()
type Payload struct {
	Method, Target, Host []byte
	// Fields are the end-to-end field lines in their order and case, each with
	// its line end, but for Host, Content-Length, Expect and Tailscope-Mirror.
	Fields []byte
	// Body is all of the body, if it had arrived when the copy was offered. HasBody
	// distinguishes an empty body, with Content-Length: 0, from none.
	Body    []byte
	HasBody bool

	spool *Spool // else
	refs  atomic.Int32
}

// keepBytes bounds the memory that a released payload's slices keep.
const keepBytes = 64 << 10

var payloads = sync.Pool{New: func() any { return new(Payload) }}

// NewPayload returns an empty payload with one reference, the caller's.
func NewPayload() *Payload {
	p := payloads.Get().(*Payload)
	p.refs.Store(1)
	return p
}

// Stream gives the payload a body that is still coming in, of length bytes, or -1 if
// that is not known. The spool may be used until it was closed or aborted and the
// caller has released the payload.
func (p *Payload) Stream(length int64) *Spool {
	p.spool = newSpool(length)
	return p.spool
}

// Retain adds a reference.
func (p *Payload) Retain() { p.refs.Add(1) }

// Release gives a reference back. The last one ends the payload's use.
func (p *Payload) Release() {
	n := p.refs.Add(-1)
	if n > 0 {
		return
	}
	if n < 0 {
		panic("shadow: payload released twice")
	}
	p.spool = nil
	p.HasBody = false
	if cap(p.Fields)+cap(p.Body)+cap(p.Target) > keepBytes {
		*p = Payload{}
	}
	p.Method, p.Target, p.Host = p.Method[:0], p.Target[:0], p.Host[:0]
	p.Fields, p.Body = p.Fields[:0], p.Body[:0]
	payloads.Put(p)
}

// size returns the bytes that the payload holds in memory, without the spool's.
func (p *Payload) size() int64 {
	return int64(len(p.Method) + len(p.Target) + len(p.Host) + len(p.Fields) + len(p.Body))
}
