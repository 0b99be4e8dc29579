package listen

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Bodies bounds the bodies of requests that are arriving: their number, their memory,
// and how slowly they may come. At a bound the body that has been arriving for longest
// is cut off for a new one, once it has had Patience. So a sender that sends at once
// gets through among any number of slow ones. Each field has a default for its zero
// value.
type Bodies struct {
	Max      int           // bodies arriving at once; default 1,024
	MaxBytes int64         // bytes that they hold together; default 32 MiB
	Grace    time.Duration // time before Rate is required; default 5 s
	Rate     int64         // least bytes a second of a body; default 8 KiB
	Patience time.Duration // time that each body has even at a bound; default 1 s
	Now      func() time.Time

	mu             sync.Mutex
	oldest, newest *Body
	n              int
	bytes          int64
	usual          float64 // bytes of a complete body: an average in which recent ones weigh most

	slow, crowded atomic.Uint64
}

func (b *Bodies) max() int                { return or(b.Max, 1024) }
func (b *Bodies) maxBytes() int64         { return or(b.MaxBytes, 32<<20) }
func (b *Bodies) grace() time.Duration    { return or(b.Grace, 5*time.Second) }
func (b *Bodies) rate() int64             { return or(b.Rate, 8<<10) }
func (b *Bodies) patience() time.Duration { return or(b.Patience, time.Second) }

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

func (b *Bodies) now() time.Time {
	if b.Now != nil {
		return b.Now()
	}
	return time.Now()
}

// BodyStats are counts of Bodies.
type BodyStats struct {
	Arriving int
	Bytes    int64
	Slow     uint64 // cut off because they were too slow
	Crowded  uint64 // cut off for others, at a bound
}

// Stats returns the counts so far.
func (b *Bodies) Stats() BodyStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return BodyStats{b.n, b.bytes, b.slow.Load(), b.crowded.Load()}
}

// Cut is the reason why a body was cut off.
type Cut uint8

// The values of Cut.
const (
	NotCut  Cut = iota
	TooSlow     // slower than Bodies.Rate
	Crowded     // for others, at a bound
)

// Body is a body that is arriving. Its reader owns it; otherwise only Bodies uses it.
type Body struct {
	of         *Bodies
	begun      time.Time // moved later by the time that its reader was away
	grown      time.Time // when it last grew, or began
	away       time.Time // since when its reader does not wait for bytes; zero while it waits
	held       int64     // bytes in memory, counted in Bodies.bytes
	came       atomic.Int64
	cut        Cut
	arrived    bool // complete, and removed from the list
	done       bool // ended, and holds nothing
	off        func()
	prev, next *Body // sorted by begun
}

// Begin enters a body, or returns nil at the bound. Bodies calls off at most once, and
// not after End, to make the reader give up; off must not block, nor call Bodies.
func (b *Bodies) Begin(off func()) *Body {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.n >= b.max() {
		if !b.cutOldest(now) {
			return nil
		}
	}
	x := &Body{of: b, begun: now, grown: now, off: off, prev: b.newest}
	if b.newest != nil {
		b.newest.next = x
	} else {
		b.oldest = x
	}
	b.newest = x
	b.n++
	return x
}

// Expects reports whether the arriving bodies are likely to need more memory than there
// is. A body that grew within Patience counts with the usual length; others can be cut
// off. A request that has just begun can then be refused in order, before one must be
// cut off at the bound.
func (b *Bodies) Expects() bool {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	space := float64(b.maxBytes() * 3 / 4)
	if float64(b.bytes)+float64(b.n)*b.usual <= space {
		return false
	}
	for x := b.newest; x != nil; x = x.prev {
		if now.Sub(x.grown) < b.patience() {
			space -= max(b.usual, float64(x.held))
		}
	}
	return space < 0
}

// cutOldest cuts off the body that has been arriving for longest, if it has had its
// Patience.
func (b *Bodies) cutOldest(now time.Time) bool {
	x := b.oldest
	if x == nil || now.Sub(x.begun) < b.patience() {
		return false
	}
	b.crowded.Add(1)
	b.cutOff(x, Crowded)
	return true
}

func (b *Bodies) cutOff(x *Body, why Cut) {
	x.cut = why
	b.remove(x)
	x.off()
}

func (b *Bodies) remove(x *Body) {
	if x.done {
		return
	}
	x.done = true
	b.unlink(x)
	b.bytes -= x.held
}

func (b *Bodies) unlink(x *Body) {
	if x.arrived {
		return
	}
	x.arrived = true
	if x.prev != nil {
		x.prev.next = x.next
	} else {
		b.oldest = x.next
	}
	if x.next != nil {
		x.next.prev = x.prev
	} else {
		b.newest = x.prev
	}
	x.prev, x.next = nil, nil
	b.n--
}

// Hold raises the memory of the body to n bytes, and reports whether it may.
func (x *Body) Hold(n int64) bool {
	b := x.of
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reserve(x, n-x.held, true) && !x.done
}

// reserve reserves n more bytes for x. If cut is true it cuts off others at the bound.
func (b *Bodies) reserve(x *Body, n int64, cut bool) bool {
	if n <= 0 {
		return true
	}
	for !x.done && b.bytes+n > b.maxBytes() {
		if !cut || !b.cutOldest(b.now()) {
			return false
		}
	}
	if !x.done {
		b.bytes += n
		x.held += n
	}
	return true
}

// Came records that n more bytes of the body have arrived.
func (x *Body) Came(n int) { x.came.Add(int64(n)) }

// Grow records that n more bytes have arrived and are held, or returns false at the
// bound. It returns true for a body that was cut off: its reader learns that by an
// error.
func (x *Body) Grow(n int) bool { return x.grow(n, true) }

// Fit is Grow without cutting off others.
func (x *Body) Fit(n int) bool { return x.grow(n, false) }

func (x *Body) grow(n int, cut bool) bool {
	b := x.of
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.reserve(x, int64(n), cut) {
		return false
	}
	x.came.Add(int64(n))
	if !x.done {
		x.grown = b.now()
	}
	return true
}

// Arrived records that the body is complete: it is not cut off any more, but holds its
// memory until End.
func (x *Body) Arrived() {
	x.of.mu.Lock()
	x.whole()
	x.of.unlink(x)
	x.of.mu.Unlock()
}

// whole records that the body was not cut off. The caller holds b.mu.
func (x *Body) whole() {
	if !x.arrived {
		x.of.usual += (float64(x.came.Load()) - x.of.usual) / 16
	}
}

// wait records that the reader of a stream waits for more. It returns false if the body
// was cut off.
func (x *Body) wait() bool {
	b := x.of
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !x.away.IsZero() {
		x.begun = x.begun.Add(now.Sub(x.away))
		x.away = time.Time{}
	}
	return !x.done
}

// waited records that n more bytes have arrived, and that the reader is busy with them.
func (x *Body) waited(n int) {
	b := x.of
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	x.away = now
	// A fast beginning earns no credit for later slowness.
	x.came.Store(min(x.came.Load()+int64(n), int64(b.due(now.Sub(x.begun)))))
}

// End records that no more of the body arrives, and returns why it was cut off, if it
// was. Calling it again returns the same.
func (x *Body) End() Cut {
	b := x.of
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove(x)
	return x.cut
}

// Sweep cuts off the bodies that are too slow.
func (b *Bodies) Sweep() {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for x := b.oldest; x != nil; {
		next := x.next
		if x.away.IsZero() && float64(x.came.Load()) < b.due(now.Sub(x.begun)-b.grace()) {
			b.slow.Add(1)
			b.cutOff(x, TooSlow)
		}
		x = next
	}
}

// due returns how many bytes must arrive within d.
func (b *Bodies) due(d time.Duration) float64 { return d.Seconds() * float64(b.rate()) }

// sweepEvery is how long a slow body may stay unnoticed.
const sweepEvery = time.Second

// Run sweeps until done is closed.
func (b *Bodies) Run(done <-chan struct{}) {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			b.Sweep()
		case <-done:
			return
		}
	}
}

// ErrCutOff is the error of reading a body that was cut off.
var ErrCutOff = errors.New("it came too slowly, or too much is arriving: try again in a moment")

// Handler returns next, with the bodies of its requests bounded by b. The bytes of a
// body count until the request is answered. Handler calls refuse in place of next at the
// bound.
func (b *Bodies) Handler(next http.Handler, refuse func(w http.ResponseWriter, r *http.Request, status int, message string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		x := b.Begin(Interrupt(w))
		if x == nil {
			refuse(w, r, http.StatusServiceUnavailable, "too many requests are arriving; try again in a moment")
			return
		}
		defer x.End()
		r.Body = struct {
			io.Reader
			io.Closer
		}{x.Reader(r.Body), r.Body}
		next.ServeHTTP(w, r)
	})
}

// Interrupt returns a function that ends the current read of the request's body and all
// later ones.
func Interrupt(w http.ResponseWriter) func() {
	return func() { _ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) }
}

// Reader returns r as the body x, which holds everything that is read.
func (x *Body) Reader(r io.Reader) io.Reader { return &heldBody{r, x} }

type heldBody struct {
	r io.Reader
	x *Body
}

func (b *heldBody) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if !b.x.Grow(n) {
		return 0, ErrCutOff
	}
	switch {
	case err == io.EOF:
		b.x.Arrived()
	case err != nil && b.x.End() != NotCut:
		err = ErrCutOff
	}
	return n, err
}

// Stream returns r as the body x, for a reader that processes it while it arrives,
// however long it is. It holds nothing, and the sender need not be faster than the
// reader: only the time in which a Read waits counts.
func (x *Body) Stream(r io.Reader) io.Reader { return &streamedBody{r, x} }

type streamedBody struct {
	r io.Reader
	x *Body
}

func (b *streamedBody) Read(p []byte) (int, error) {
	if !b.x.wait() {
		return 0, ErrCutOff
	}
	n, err := b.r.Read(p)
	b.x.waited(n)
	if err != nil && err != io.EOF && b.x.End() != NotCut {
		err = ErrCutOff
	}
	return n, err
}
