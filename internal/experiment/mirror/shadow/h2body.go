package shadow

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/http1"
)

// streamBody is a request's body as net/http reads it. Its goroutine may go on
// reading after the request has ended, but touches nothing after Close.
type streamBody struct {
	trailer http.Header   // filled in at the end, for the names that it has
	cause   atomic.Uint32 // a pair.Cause: why the body is not whole
	whole   atomic.Bool   // all of it was read
	wake    chan struct{}
	waits   func(bool)    // called when a wait for the client begins and ends
	done    chan struct{} // closed by Close

	mu     sync.Mutex
	closed bool
	inline []byte
	r      *reader
	part   []byte // what is left of the last part
	taken  int    // how long that was
}

func newStreamBody(j *job, waits func(bool)) *streamBody {
	b := &streamBody{inline: j.p.Body, r: j.r, waits: waits, done: make(chan struct{})}
	if j.r != nil {
		b.wake = j.r.wake
	}
	return b
}

// Read waits for bytes of a body that is still coming in.
func (b *streamBody) Read(p []byte) (int, error) {
	for {
		n, wait, err := b.read(p)
		if !wait {
			return n, err
		}
		b.waits(true)
		select {
		case <-b.wake:
		case <-b.done:
		}
		b.waits(false)
	}
}

func (b *streamBody) read(p []byte) (n int, wait bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, false, io.ErrClosedPipe
	}
	if b.r == nil {
		n = copy(p, b.inline)
		b.inline = b.inline[n:]
		if n > 0 || len(p) == 0 {
			return n, false, nil
		}
		b.whole.Store(true)
		return 0, false, io.EOF
	}
	if len(b.part) == 0 {
		part, more, cause := b.r.next(b.taken)
		b.part, b.taken = part, len(part)
		switch {
		case len(part) > 0:
		case more:
			return 0, true, nil
		case cause != pair.None:
			b.cause.Store(uint32(cause))
			return 0, false, io.ErrUnexpectedEOF
		default:
			b.endWith(b.r.s.trailer)
			b.whole.Store(true)
			return 0, false, io.EOF
		}
	}
	n = copy(p, b.part)
	b.part = b.part[n:]
	return n, false, nil
}

// endWith sets the trailer. Fields that were not announced cannot be sent.
func (b *streamBody) endWith(lines []byte) {
	fields, err := http1.TrailerFields(nil, lines)
	if err != nil {
		return
	}
	for name := range b.trailer {
		b.trailer[name] = nil
	}
	for _, f := range fields {
		name := http.CanonicalHeaderKey(string(f.Name))
		if have, ok := b.trailer[name]; ok {
			b.trailer[name] = append(have, string(f.Value))
		}
	}
}

func (b *streamBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.closed = true
		close(b.done)
	}
	return nil
}
