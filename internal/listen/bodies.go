package listen

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Bodies bounds the bodies of requests that are arriving: how many there are,
// what they hold in memory, and how slowly they may come. At a bound the body
// that has been arriving for longest is cut off for a new one, once it has had
// Patience, so that a sender who sends in one go gets through among any number
// who do not. The zero value of each field means its default.
type Bodies struct {
	Max      int           // bodies that may be arriving; default 1,024
	MaxBytes int64         // what they may hold together; default 32 MiB
	Grace    time.Duration // before Rate is asked for; default 5 s
	Rate     int64         // bytes a second that a body comes with at least; default 8 KiB
	Patience time.Duration // what each is given also at a bound; default 1 s
	Now      func() time.Time

	mu             sync.Mutex
	oldest, newest *Body
	n              int
	bytes          int64
	usual          float64 // bytes of a body that has arrived: the last count most

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
	Slow     uint64 // cut off because they came too slowly
	Crowded  uint64 // cut off for others
}

// Stats returns the counts so far.
func (b *Bodies) Stats() BodyStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return BodyStats{b.n, b.bytes, b.slow.Load(), b.crowded.Load()}
}

// Cut is why a body was cut off.
type Cut uint8

// NotCut, TooSlow and Crowded are what a Cut can be.
const (
	NotCut  Cut = iota
	TooSlow     // slower than Bodies.Rate
	Crowded     // for others, at a bound
)

// Body is one that is arriving. It is its reader's: only Bodies calls it
// otherwise.
type Body struct {
	of         *Bodies
	begun      time.Time // later by as long as its reader was away
	grown      time.Time // when it last grew, or began
	away       time.Time // since when its reader does not wait for it; zero: it does
	held       int64     // in memory, counted in Bodies.bytes
	came       atomic.Int64
	cut        Cut
	arrived    bool // it is not in the list
	done       bool // and holds nothing
	off        func()
	prev, next *Body // by begun
}

// Begin counts a body in, or returns nil at the bound. Off is called, at most
// once and not after End, to make the reader give up; it must not block, nor
// call Bodies.
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

// Expects reports whether what is arriving is likely to need more than there is: a
// body of which something came within Patience is taken to become as long as others
// were; others give way. A body that has just begun can be refused then, in order;
// at the bound one would have to be cut off.
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

// cutOldest cuts the body off that has been arriving for longest, if it has had
// its patience.
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

// Hold raises what the body holds to n bytes, and reports whether it may.
func (x *Body) Hold(n int64) bool {
	b := x.of
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reserve(x, n-x.held, true) && !x.done
}

// reserve makes room for n more bytes of x, if need be by cutting others off.
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

// Came says that n more bytes of the body have come.
func (x *Body) Came(n int) { x.came.Add(int64(n)) }

// Grow says that n more bytes have come and are held, or returns false if there
// is no room for them. Of a body that was cut off it returns true: its reader
// learns so by itself.
func (x *Body) Grow(n int) bool { return x.grow(n, true) }

// Fit is Grow that cuts nobody off.
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

// Arrived says that all of the body has come: it is not cut off any more, but
// goes on holding what it holds until End.
func (x *Body) Arrived() {
	x.of.mu.Lock()
	x.whole()
	x.of.unlink(x)
	x.of.mu.Unlock()
}

// whole says that the body was not cut off. It needs b.mu.
func (x *Body) whole() {
	if !x.arrived {
		x.of.usual += (float64(x.came.Load()) - x.of.usual) / 16
	}
}

// wait says that the reader of a stream waits for more, and reports whether it
// may: the body was not cut off.
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

// waited says that n more bytes have come, with which the reader is busy now.
func (x *Body) waited(n int) {
	b := x.of
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	x.away = now
	// A fast beginning is no credit for dripping all day.
	x.came.Store(min(x.came.Load()+int64(n), int64(b.due(now.Sub(x.begun)))))
}

// End says that the body arrived, or will not, and returns whether it was cut
// off. Ending again returns the same.
func (x *Body) End() Cut {
	b := x.of
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove(x)
	return x.cut
}

// Sweep cuts off the bodies that come too slowly.
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

// due returns how many bytes are to come within d.
func (b *Bodies) due(d time.Duration) float64 { return d.Seconds() * float64(b.rate()) }

// sweepEvery is how long a body that is too slow may go unnoticed.
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

// ErrCutOff is what is read of a body that was cut off.
var ErrCutOff = errors.New("it came too slowly, or too much is arriving: try again in a moment")

// Handler returns next for requests whose bodies are bounded by b. What has come
// of a body counts until the request is answered. Refuse answers in place of
// next.
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

// Interrupt returns what ends a read of the request's body, and all further ones.
func Interrupt(w http.ResponseWriter) func() {
	return func() { _ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) }
}

// Reader returns r as the body x, of which everything that was read is held.
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

// Stream returns r as the body x, which is worked on while it arrives, however
// long it is: nothing of it is held, and its sender need not be faster than its
// reader. Only the time for which a Read waits counts.
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
