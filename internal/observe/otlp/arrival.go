package otlp

import (
	"errors"
	"io"
	"net/http"
	"sync"

	"tailscope/internal/agg"
	"tailscope/internal/listen"
)

// errSlow reports that a body was cut off because it came too slowly.
var errSlow = errors.New("the body came too slowly: nothing of the request was accepted; send smaller batches")

// patience bounds the bytes that are read of a request that is too large, in sizes of
// the largest request: many clients read no answer before they have sent everything.
const patience = 4

// arrival is the body of a request over HTTP, and the memory reserved for it. A buffer's
// bytes are reserved before it is allocated, and buffers grow as bytes come: a claimed
// length takes no memory.
type arrival struct {
	limit    *limiter
	reserved int // bytes reserved of limit
	first    *[]byte
	packed   *[]byte
	unpacked *[]byte
}

// firstBytes is the first buffer of a body. A full buffer grows by at most a factor of
// growth.
const (
	firstBytes = 16 << 10
	growth     = 16
)

var firstBuffers = sync.Pool{New: func() any { b := make([]byte, 0, firstBytes); return &b }}

// reserve raises the reservation to n bytes.
func (a *arrival) reserve(n int) bool {
	if n > a.reserved {
		if !a.limit.hold(n - a.reserved) {
			return false
		}
		a.reserved = n
	}
	return true
}

// free releases the reservation and the buffers.
func (a *arrival) free() {
	if a.first != nil {
		firstBuffers.Put(a.first)
	}
	if a.packed != nil {
		putBuffer(a.packed)
	}
	if a.unpacked != nil {
		putBuffer(a.unpacked)
	}
	a.limit.release(a.reserved)
	*a = arrival{}
}

// read reads a body of at most limit bytes. Meanwhile it is one of the arriving bodies,
// which are bounded, and may be cut off for others.
func (a *arrival) read(w http.ResponseWriter, r *http.Request, of *listen.Bodies, limit int) ([]byte, error) {
	if r.ContentLength == 0 {
		return nil, nil
	}
	body := of.Begin(listen.Interrupt(w))
	if body == nil {
		return nil, agg.ErrOverloaded
	}
	b, err := a.fill(r, body, limit)
	if errors.Is(err, errTooLarge) {
		// Many clients send everything before they read the answer. A client that is cut
		// off would send the same again.
		drain(r.Body, body, patience*limit, b[:cap(b)])
	}
	switch why := body.End(); {
	case err == nil || why == listen.NotCut:
		return b, err
	case why == listen.TooSlow:
		return nil, errSlow
	}
	return nil, agg.ErrOverloaded
}

func (a *arrival) fill(r *http.Request, body *listen.Body, limit int) ([]byte, error) {
	if !body.Hold(firstBytes) || !a.reserve(firstBytes) {
		return nil, agg.ErrOverloaded
	}
	a.first = firstBuffers.Get().(*[]byte)
	b := (*a.first)[:0]
	if r.ContentLength > int64(limit) {
		return b, errTooLarge
	}
	for {
		if len(b) == cap(b) {
			n := min(growth*cap(b), limit+1)
			if claimed := int(r.ContentLength) + 1; claimed > cap(b) { // and one to see the end
				n = min(n, claimed)
			}
			if !body.Hold(int64(n)) || !a.reserve(n) {
				return b, agg.ErrOverloaded
			}
			larger := getBuffer(n)
			*larger = append(*larger, b...)
			if a.packed != nil {
				putBuffer(a.packed)
			}
			a.packed = larger
			b = *larger
		}
		n, err := r.Body.Read(b[len(b):min(cap(b), limit+1)])
		b = b[:len(b)+n]
		body.Came(n)
		switch {
		case len(b) > limit:
			return b, errTooLarge
		case err == io.EOF:
			return b, nil
		case err != nil:
			return b, &brokenError{err}
		}
	}
}

// drain reads and drops at most n more bytes.
func drain(r io.Reader, body *listen.Body, n int, scratch []byte) {
	for n > 0 {
		m, err := r.Read(scratch)
		body.Came(m)
		n -= m
		if err != nil {
			return
		}
	}
}

// unpack returns b decompressed.
func (a *arrival) unpack(d *decompressor, b []byte, limit int) ([]byte, error) {
	packed := a.reserved
	guess := min(8*len(b), limit+1)
	if !a.reserve(packed + guess) {
		return nil, agg.ErrOverloaded
	}
	a.unpacked = getBuffer(guess)
	var err error
	*a.unpacked, err = d.unpack(*a.unpacked, b, limit, func(n int) bool { return a.reserve(packed + n) })
	return *a.unpacked, err
}
