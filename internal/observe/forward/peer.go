package forward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tailscope/internal/backoff"
	"tailscope/internal/observe/traces"
)

// peer is another server, and what waits for it.
type peer struct {
	r       *Router
	writer  string
	address atomic.Pointer[string] // base URL

	mu        sync.Mutex // guards the fields below
	open      messages
	openBytes int64
	frames    []frame // oldest first
	bytes     int64   // of all that waits
	closed    bool    // it went

	wake chan struct{}
	stop func() // ends run; does nothing if it does not run

	// Of round alone:
	sealing messages // what was open
	encoder *traces.FrameEncoder
	breaker backoff.Breaker
}

// frame is spans that wait to be sent.
type frame struct {
	bytes []byte
	spans int
	since time.Time
}

// spanBytes is the memory of a span that waits, beside its detail.
const spanBytes = 112

// messages are spans as they came, message by message.
type messages struct {
	spans   []traces.Span
	details []byte
	ends    []int // of messages, in spans
}

func (m *messages) add(spans []traces.Span) (bytes int64) {
	before := len(m.details)
	for i := range spans {
		s := &spans[i]
		at := len(m.details)
		m.details = append(m.details, s.Detail[:min(len(s.Detail), traces.MaxDetail)]...)
		m.spans = append(m.spans, *s)
		m.spans[len(m.spans)-1].Detail = m.details[at:len(m.details):len(m.details)]
	}
	m.ends = append(m.ends, len(m.spans))
	return int64(len(spans)*spanBytes + len(m.details) - before)
}

// each calls do with each message.
func (m *messages) each(do func(spans []traces.Span)) {
	from := 0
	for _, to := range m.ends {
		do(m.spans[from:to])
		from = to
	}
}

// clear drops the messages. Memory that only a burst needs is freed.
func (m *messages) clear() {
	if cap(m.spans) > 4*fullFrame {
		*m = messages{}
		return
	}
	clear(m.spans)
	m.spans, m.details, m.ends = m.spans[:0], m.details[:0], m.ends[:0]
}

// newPeer returns a peer, whose sender runs if the router does. The caller holds r.mu.
func (r *Router) newPeer(writer string) *peer {
	p := &peer{r: r, writer: writer, wake: make(chan struct{}, 1), stop: func() {}}
	if r.running != nil {
		r.start(p)
	}
	return p
}

// start starts a peer's sender. The caller holds r.mu.
func (r *Router) start(p *peer) {
	ctx, cancel := context.WithCancel(r.running)
	done := make(chan struct{})
	p.stop = func() {
		cancel()
		<-done
	}
	r.senders.Go(func() {
		defer close(done)
		p.run(ctx)
	})
}

// Send implements traces.Peer: the spans wait for those of other messages.
func (p *peer) Send(spans []traces.Span) {
	p.mu.Lock()
	if p.closed { // it went just now
		p.mu.Unlock()
		p.r.o.Assembler.Add(spans)
		return
	}
	if p.bytes >= p.r.perPeer() {
		p.mu.Unlock()
		p.r.drop(len(spans))
		return
	}
	n := p.open.add(spans)
	p.openBytes += n
	p.bytes += n
	full := len(p.open.spans) >= fullFrame
	p.mu.Unlock()
	if full {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}

// run sends until ctx is done.
func (p *peer) run(ctx context.Context) {
	t := time.NewTicker(sendEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		case <-p.wake:
		}
		p.round(ctx)
	}
}

// round packs what came and sends what waits, unless the server is given a pause.
func (p *peer) round(ctx context.Context) {
	for sealed := (time.Time{}); ; {
		if now := p.r.o.Now(); now.Sub(sealed) >= sendEvery { // also while a slow server is served
			if err := p.seal(); err != nil { // of a compressor that cannot be made
				p.failed(err, 0)
				return
			}
			p.expire()
			sealed = now
		}
		if ctx.Err() != nil || p.breaker.Wait(p.r.o.Now()) > 0 {
			return
		}
		f, ok := p.front()
		if !ok {
			return
		}
		err := p.post(ctx, f)
		never := (*refusal)(nil)
		switch {
		case err == nil:
			p.pop(1)
			p.breaker.Succeed()
			p.r.count(func(s *Stats) {
				s.Sent, s.Frames, s.Bytes = s.Sent+uint64(f.spans), s.Frames+1, s.Bytes+uint64(len(f.bytes))
			})
		case errors.As(err, &never):
			p.pop(1)
			p.r.drop(f.spans)
			p.failed(err, 0)
		case ctx.Err() == nil:
			after := time.Duration(0)
			if later := (*busy)(nil); errors.As(err, &later) {
				after = later.after
			}
			p.failed(err, after)
		}
	}
}

// seal packs what came into frames.
func (p *peer) seal() (err error) {
	if p.encoder == nil {
		if p.encoder, err = traces.NewFrameEncoder(p.r.o.Assembler); err != nil {
			return err
		}
	}
	p.mu.Lock()
	p.open, p.sealing = p.sealing, p.open
	raw := p.openBytes
	p.openBytes = 0
	p.mu.Unlock()
	var frames []frame
	flush := func(least int) {
		if n := p.encoder.Spans(); n >= least {
			frames = append(frames, frame{spans: n, bytes: p.encoder.Frame(), since: p.r.o.Now()})
		}
	}
	p.sealing.each(func(spans []traces.Span) {
		flush(max(fullFrame+1-len(spans), 1)) // so that a frame is larger only if one message is
		p.encoder.Add(spans)
		flush(fullFrame)
	})
	flush(1)
	p.sealing.clear()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes -= raw
	for _, f := range frames {
		p.bytes += int64(len(f.bytes))
	}
	p.frames = append(p.frames, frames...)
	return nil
}

// expire drops frames that have waited too long: their traces are closed.
func (p *peer) expire() {
	before := p.r.o.Now().Add(-mostAge)
	p.mu.Lock()
	n, spans := 0, 0
	for n < len(p.frames) && p.frames[n].since.Before(before) {
		spans += p.frames[n].spans
		n++
	}
	p.mu.Unlock()
	p.pop(n)
	p.r.drop(spans)
}

func (p *peer) front() (f frame, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.frames) == 0 {
		return f, false
	}
	return p.frames[0], true
}

// pop removes the first n frames.
func (p *peer) pop(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.frames[:n] {
		p.bytes -= int64(len(f.bytes))
	}
	clear(p.frames[:n])
	p.frames = p.frames[n:]
}

// close ends the sender and returns what waits. What is sent from now on is routed anew.
func (p *peer) close() ([]frame, messages) {
	p.stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	frames, open := p.frames, p.open
	p.closed, p.frames, p.open, p.bytes, p.openBytes = true, nil, messages{}, 0, 0
	return frames, open
}

// refusal is an error that no retry will change.
type refusal struct{ error }

// busy is an answer that asks for another attempt.
type busy struct {
	error
	after time.Duration
}

// post sends one frame.
func (p *peer) post(ctx context.Context, f frame) error {
	ctx, cancel := context.WithTimeout(ctx, p.r.o.Timeout)
	defer cancel()
	to := strings.TrimRight(*p.address.Load(), "/") + Path
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(f.bytes))
	if err != nil {
		return fmt.Errorf("send spans to server %s: %w", p.writer, err)
	}
	req.Header.Set("Content-Type", ContentType)
	req.Header.Set(ToHeader, p.writer)
	res, err := p.r.o.HTTP.Do(req)
	if err != nil {
		return fmt.Errorf("send spans to server %s: %w", p.writer, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil {
		return fmt.Errorf("answer of server %s: %w", p.writer, err)
	}
	if res.StatusCode == http.StatusOK {
		return nil
	}
	err = fmt.Errorf("server %s answers %s: %.200s", p.writer, res.Status, text)
	switch res.StatusCode {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
		return &refusal{err}
	}
	return &busy{err, backoff.RetryAfter(res.Header.Get("Retry-After"))}
}

// fail counts a failure of another server, with a pause of at most longestPause.
func fail(b *backoff.Breaker, now time.Time, after time.Duration, random float64) {
	b.Fail(now, after, random)
	if last := now.Add(longestPause); b.Until.After(last) {
		b.Until = last
	}
}

// failed notes a request that failed.
func (p *peer) failed(err error, after time.Duration) {
	fail(&p.breaker, p.r.o.Now(), after, p.r.o.Random())
	p.r.count(func(s *Stats) { s.Failures, s.LastError = s.Failures+1, err.Error() })
	if b := p.breaker; b.Failures == 1 || b.Failures == backoff.OpenAfter {
		p.r.o.Logger.Warn("spans for another server wait", "server", p.writer, "error", err, "attempts", b.Failures, "next", b.Until)
	}
}
