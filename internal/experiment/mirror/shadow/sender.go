package shadow

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"tailscope/api"
	"tailscope/internal/experiment/mirror/pair"
)

// Sender sends copies to one shadow. It is safe for concurrent use.
type Sender struct {
	o       Options
	markID  []byte // what comes before a request's id in the mark on copies
	markEnd []byte // and after it, before the copy's number
	budget  *pair.Budget
	amplify amplify
	spread  *spreader
	missed  missed
	paced   atomic.Int64 // until when what was read of long answers is accounted for, by o.Now

	stopping context.Context // done when connections are not to be waited for
	stop     context.CancelFunc
	wg       sync.WaitGroup // connections, streams, sweeper, spreader
	swept    chan struct{}  // closed to end the sweeper

	behind  sync.Mutex // see lockBehind
	mu      sync.Mutex
	servers []*server
	using   int // the first so many
	turn    int // of the servers, where the search for one begins
	queue   queue
	closed  bool
	open    int           // connections, those that are being made included
	empty   chan struct{} // closed when the sender is closed and open has come to 0
}

// NewSender returns a sender that connects to nothing before the first copy. It has
// goroutines until it is closed.
func NewSender(o Options) (*Sender, error) {
	if err := o.ensureDefaults(); err != nil {
		return nil, fmt.Errorf("shadow %s: %w", o.Name, err)
	}
	l := &Sender{
		o:       o,
		markID:  []byte("Tailscope-Mirror: " + o.Session + "/"),
		markEnd: []byte("; variant=" + o.Name + "; copy="),
		budget:  pair.NewBudget(o.Buffer),
		using:   o.Using,
		swept:   make(chan struct{}),
		empty:   make(chan struct{}),
	}
	l.stopping, l.stop = context.WithCancel(context.Background())
	l.amplify.set(o.Amplify)
	for i, s := range o.Servers {
		t, err := parseServer(s)
		if err != nil {
			return nil, fmt.Errorf("shadow %s: %w", o.Name, err)
		}
		l.servers = append(l.servers, &server{target: t, sender: l, index: i})
	}
	l.spread = newSpreader(l)
	l.wg.Go(l.spread.run)
	l.wg.Go(l.sweeps)
	return l, nil
}

// Name returns the sender's label variant.
func (l *Sender) Name() string { return l.o.Name }

// Role returns the role of the sender's servers.
func (l *Sender) Role() pair.Role { return l.o.Role }

// Copies returns the number of copies of the next request, by the factor of
// SetAmplify. A write that gets none has been missed.
func (l *Sender) Copies(write bool) uint8 {
	n := l.amplify.next()
	if n == 0 && write {
		l.missed.mark(l.o.Now(), "a write got no copy, as fewer copies than requests are asked for")
	}
	return uint8(n)
}

// Missed marks the shadow as diverged: a write was not copied to it, for the reason
// why.
func (l *Sender) Missed(why pair.Reason) { l.missed.mark(l.o.Now(), whyNotCopied(why)) }

// Offer sends c's copies at once if that takes no waiting. Otherwise it queues them,
// or ends them with the cause. It never blocks.
func (l *Sender) Offer(c Copy) {
	for k := range int(c.Copies) {
		j := job{p: c.Payload, to: c.To, shadow: c.Shadow, k: k, write: c.Write}
		j.p.Retain()
		if int64(len(j.p.Body)) > l.o.BodyLimit {
			l.drop(&j, pair.BodyLimit)
			continue
		}
		if s := j.p.spool; s != nil {
			if s.length > l.o.BodyLimit {
				l.drop(&j, pair.BodyLimit)
				continue
			}
			if j.r = s.open(l.budget, l.o.BodyLimit); j.r == nil {
				l.drop(&j, pair.BodyBehind)
				continue
			}
		}
		delay := c.Delay + time.Duration(int64(l.o.Spread)*int64(k)/int64(c.Copies))
		if delay > 0 || k > 0 {
			l.later(j, delay)
			continue
		}
		l.send(j)
	}
}

// later queues a copy until its time.
func (l *Sender) later(j job, delay time.Duration) {
	size := j.p.size()
	if !l.budget.Reserve(size) {
		l.drop(&j, pair.BufferFull)
		return
	}
	j.held = size
	j.due = l.o.Now() + int64(delay)
	if cause := l.spread.add(j, j.due); cause != pair.None {
		l.drop(&j, cause)
	}
}

// SetUsing limits the pool to its first n servers. Copies under way to others are
// finished. With 0 every copy is dropped.
func (l *Sender) SetUsing(n int) error {
	if n < 0 || n > len(l.servers) {
		return fmt.Errorf("using %d of %d servers: give 0 to %d", n, len(l.servers), len(l.servers))
	}
	var end []*conn
	var dropped []job
	l.mu.Lock()
	l.using = n
	for _, s := range l.servers[n:] {
		end = s.takeIdle(end)
		s.well()
	}
	if n == 0 {
		dropped = l.queue.takeAll(dropped)
	} else {
		l.connectFor(l.o.Now())
	}
	l.mu.Unlock()
	for _, c := range end {
		c.kill(pair.Stopped)
	}
	for i := range dropped {
		l.drop(&dropped[i], pair.NoServer)
	}
	return nil
}

// SetAmplify sets the mean number of copies of each request, from 0 to 255.
func (l *Sender) SetAmplify(f float64) error {
	if err := checkAmplify(f); err != nil {
		return err
	}
	l.amplify.set(f)
	return nil
}

// Buffered returns the bytes held for copies not yet sent, and their bound.
func (l *Sender) Buffered() (held, bound int64) {
	return l.budget.Held(), l.budget.Bound()
}

// State returns the sender's state without the account, which the ledger keeps.
func (l *Sender) State() api.MirrorTarget {
	t := api.MirrorTarget{
		Name:     l.o.Name,
		Role:     l.o.Role.String(),
		Amplify:  api.Float(l.amplify.factor()),
		Late:     l.spread.late.Load(),
		Diverged: api.Float(math.NaN()),
	}
	if at, why := l.missed.since(); at != 0 {
		t.Diverged, t.DivergedWhy = api.Float(float64(at)/1e9), why
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t.Using = l.using
	for _, s := range l.servers {
		t.Servers = append(t.Servers, api.MirrorServer{URL: s.url, Connections: len(s.conns), Down: s.down})
	}
	return t
}

// Close ends the sender. Waiting copies are dropped. Those under way may end by
// themselves until ctx is done, and are broken off then. When it returns every copy
// has ended and no goroutine is left. It returns ctx's error if it had to break
// copies off.
func (l *Sender) Close(ctx context.Context) error {
	var end []*conn
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		l.wg.Wait()
		return nil
	}
	l.closed = true
	dropped := l.queue.takeAll(nil)
	for _, s := range l.servers {
		end = s.takeIdle(end)
	}
	if l.open == 0 {
		close(l.empty)
	}
	l.mu.Unlock()
	dropped = l.spread.close(dropped)
	for _, c := range end {
		c.kill(pair.Stopped)
	}
	for i := range dropped {
		l.drop(&dropped[i], pair.Stopped)
	}
	var err error
	select {
	case <-l.empty:
	case <-ctx.Done():
		err = fmt.Errorf("shadow %s: copies were broken off: %w", l.o.Name, ctx.Err())
	}
	l.stop()
	l.mu.Lock()
	var all []*conn
	for _, s := range l.servers {
		all = append(all, s.conns...)
	}
	l.mu.Unlock()
	for _, c := range all {
		c.kill(pair.Stopped)
	}
	close(l.swept)
	l.wg.Wait()
	return err
}

// job is one copy on its way.
type job struct {
	p      *Payload
	to     Ender
	r      *reader // of a streamed body
	shadow int
	k      int // the copy's number among those of its request, from 0
	write  bool
	tries  uint8 // how often it was sent on a connection that the server had given up
	start  int64 // when it was first sent
	since  int64 // when it was queued, or due
	due    int64 // when it was to be sent first; 0: it was at once
	held   int64 // bytes of the payload that are counted in the sender's budget
}

// drop ends a copy that is not sent.
func (l *Sender) drop(j *job, cause pair.Cause) {
	leg := pair.Leg{Cause: cause}
	if j.tries > 0 {
		leg.Start, leg.Cause = j.start, pair.Reset
	}
	l.end(j, leg, false)
}

// end ends a copy. Delivered means that the server has received the whole request.
func (l *Sender) end(j *job, leg pair.Leg, delivered bool) {
	// A request that its client broke off has not reached the primary either, and one
	// that ends with the session is not missed.
	if j.write && j.k == 0 && !delivered && leg.Cause != pair.ClientClosed && leg.Cause != pair.Stopped {
		l.missed.mark(l.o.Now(), whyMissed(j.p, leg))
	}
	if j.held > 0 {
		l.budget.Release(j.held)
		j.held = 0
	}
	if j.r != nil {
		j.r.close()
		j.r = nil
	}
	p := j.p
	j.p = nil
	if leg.Due = j.due; leg.Due == 0 {
		leg.Due = leg.Start
	}
	j.to.EndCopy(j.shadow, leg)
	j.to = nil
	p.Release()
}

// appendRequest appends the copy's request in HTTP/1.1, without a streamed body.
func (l *Sender) appendRequest(b []byte, j *job) []byte {
	p, rw := j.p, &l.o.Rewrite
	b = append(b, p.Method...)
	b = append(b, ' ')
	if rw.Target != nil {
		b = rw.Target(b, p.Target)
	} else {
		b = append(b, p.Target...)
	}
	b = append(b, " HTTP/1.1\r\nHost: "...)
	if rw.Host != nil {
		b = rw.Host(b, p.Host)
	} else {
		b = append(b, p.Host...)
	}
	b = append(b, "\r\n"...)
	if rw.Fields != nil {
		b = rw.Fields(b, p.Fields)
	} else {
		b = append(b, p.Fields...)
	}
	b = append(b, l.markID...)
	b = j.to.AppendID(b)
	b = append(b, l.markEnd...)
	b = strconv.AppendInt(b, int64(j.k), 10)
	switch {
	case p.spool == nil && !p.HasBody:
		return append(b, "\r\n\r\n"...)
	case p.spool == nil:
		b = append(b, "\r\nContent-Length: "...)
		b = strconv.AppendInt(b, int64(len(p.Body)), 10)
		b = append(b, "\r\n\r\n"...)
		return append(b, p.Body...)
	case p.spool.length >= 0:
		b = append(b, "\r\nContent-Length: "...)
		b = strconv.AppendInt(b, p.spool.length, 10)
		return append(b, "\r\n\r\n"...)
	}
	return append(b, "\r\nTransfer-Encoding: chunked\r\n\r\n"...)
}
