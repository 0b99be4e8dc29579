package otlp

import (
	"errors"
	"sync"
	"sync/atomic"
)

// errTooLarge reports that a payload exceeds the limit, compressed or not.
var errTooLarge = errors.New("too large")

// limiter bounds the requests in progress and their bytes.
type limiter struct {
	maxRequests, maxBytes int64
	requests, bytes       atomic.Int64
}

// enter admits one more request, or returns false.
func (l *limiter) enter() bool {
	if l.requests.Add(1) > l.maxRequests {
		l.requests.Add(-1)
		return false
	}
	return true
}

func (l *limiter) leave() { l.requests.Add(-1) }

// hold admits n more bytes, or returns false.
func (l *limiter) hold(n int) bool {
	if l.bytes.Add(int64(n)) > l.maxBytes {
		l.bytes.Add(-int64(n))
		return false
	}
	return true
}

func (l *limiter) release(n int) { l.bytes.Add(-int64(n)) }

// buffers are reused between requests; those that grew large are not kept.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 64<<10); return &b }}

const largestKept = 1 << 20

func getBuffer(n int) *[]byte {
	b := buffers.Get().(*[]byte)
	if cap(*b) < n {
		*b = make([]byte, 0, max(n, 2*cap(*b)))
	}
	*b = (*b)[:0]
	return b
}

func putBuffer(b *[]byte) {
	if cap(*b) <= largestKept {
		buffers.Put(b)
	}
}
