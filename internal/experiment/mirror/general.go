package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tailscope/internal/experiment/mirror/offer"
	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/http1"
)

// general handles requests that are not HTTP/1.1 on both sides. net/http parses them
// and sends them on. general decides which fields are passed on, in what order bytes,
// flushes and trailers follow one another, and when each leg began and ended.
type general struct {
	session string // id
	to      server
	out     http.RoundTripper
	offers  *offer.Maker
	keep    int           // bytes of an answer's body, at most, if answers are kept
	timeout time.Duration // until the primary begins to answer; 0: none
	now     func() int64
	log     *slog.Logger
}

// ServeHTTP passes a request on, and its answer back.
func (g *general) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if passedHere(r.Header, g.session) {
		refuse(w, http.StatusLoopDetected, "this request has passed this mirror before: the primary, or a shadow, leads back here")
		return
	}
	if r.Method == http.MethodConnect {
		refuse(w, http.StatusNotImplemented, "CONNECT is passed on over HTTP/1.1 only")
		return
	}
	if !http1.Token(r.Method) || !http1.Visible(r.RequestURI) {
		// HTTP/2 delimits them whatever they hold, HTTP/1.1 by spaces.
		refuse(w, http.StatusBadRequest, "malformed method or target")
		return
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	p := &passage{g: g, w: w, in: r, inner: true, leg: pair.Leg{Start: g.now()}}
	out := g.outgoing(r, p)
	p.out = out
	if g.timeout > 0 {
		p.silence = time.AfterFunc(g.timeout, func() { cancel(errSilent) })
		defer p.silence.Stop()
	}
	answer, err := g.out.RoundTrip(out.WithContext(httptrace.WithClientTrace(ctx, p.trace())))
	p.headDone()
	p.open(err == nil)
	p.offer()
	if err == nil && ctx.Err() != nil {
		// The primary answers so when it finds that the client has closed the
		// connection.
		answer.Body.Close()
		err = ctx.Err()
	}
	if err == nil && (answer.StatusCode < 200 || answer.StatusCode > 999) {
		// No other protocol was asked for, and net/http passes on nothing else.
		answer.Body.Close()
		err = fmt.Errorf("malformed answer with status %d", answer.StatusCode)
	}
	if err != nil {
		p.failed(ctx, err)
		return
	}
	p.pass(ctx, answer)
}

var errSilent = errors.New("the primary was silent for too long")

// passage is one request on its way.
type passage struct {
	g  *general
	w  http.ResponseWriter
	in *http.Request
	// silence fires when the primary has not begun to answer in time; nil without a
	// limit.
	silence  *time.Timer
	answered atomic.Bool // it has begun

	out     *http.Request // as the primary gets it
	opened  sync.Once
	copies  *copies // nil: none are made
	x       *pair.Exchange
	offered sync.Once

	mu    sync.Mutex
	leg   pair.Leg
	inner bool // RoundTrip has yet to return: callbacks may write to w
}

// extendDeadline restarts the time in which the primary has to begin its answer.
func (p *passage) extendDeadline() {
	if p.silence == nil || p.answered.Load() {
		return
	}
	if p.silence.Reset(p.g.timeout); p.answered.Load() {
		p.silence.Stop() // it has begun meanwhile
	}
}

// open begins the exchange, once: when there is a connection to the primary, or when
// it is known that there will be none, and then without copies.
func (p *passage) open(reached bool) {
	p.opened.Do(func() { p.x, p.copies = p.g.open(p.in, p.out, reached) })
}

// offer gives the copies to their senders, once, after the primary's request was
// written.
func (p *passage) offer() {
	p.offered.Do(func() {
		if p.copies != nil {
			p.copies.offer.Give(p.x, p.copies.payload)
		}
	})
}

// trace records the times of the primary's leg at the same places as the HTTP/1.1
// proxy: before the first byte is written, and when the read that brought the first
// byte of the answer has returned.
func (p *passage) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) {
			p.open(true)
			now := p.g.now()
			p.mu.Lock()
			p.leg.Start, p.leg.FirstByte = now, 0 // again if it was tried again
			p.mu.Unlock()
		},
		WroteRequest: func(httptrace.WroteRequestInfo) { p.offer() },
		GotFirstResponseByte: func() {
			now := p.g.now()
			p.mu.Lock()
			if p.inner {
				p.leg.FirstByte = now
			}
			p.mu.Unlock()
		},
		Got1xxResponse: func(code int, fields textproto.MIMEHeader) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			if !p.inner {
				return nil
			}
			p.extendDeadline()
			p.leg.FirstByte = 0 // that of the final answer is meant
			h := p.w.Header()
			for k, v := range fields {
				if !hopByHop[k] {
					h[k] = v
				}
			}
			p.w.WriteHeader(code)
			clear(h)
			return nil
		},
	}
}

// headDone ends the time in which callbacks may write.
func (p *passage) headDone() {
	now := p.g.now()
	p.mu.Lock()
	p.inner = false
	if p.leg.FirstByte == 0 {
		p.leg.FirstByte = now // after a 1xx there is no callback
	}
	p.mu.Unlock()
	if p.answered.Store(true); p.silence != nil {
		p.silence.Stop()
	}
}

// outgoing returns the request for the primary, with all end-to-end fields.
func (g *general) outgoing(r *http.Request, p *passage) *http.Request {
	out := &http.Request{
		Method:        r.Method,
		URL:           target(g.to, r.RequestURI),
		Host:          r.Host,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        endToEnd(r.Header, 4),
		ContentLength: r.ContentLength,
	}
	forwarded(out.Header, r)
	out.Header[passedField] = append(slices.Clone(out.Header[passedField]), g.session)
	if headerHas(r.Header["Te"], "trailers") {
		out.Header["Te"] = []string{"trailers"}
	}
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = nil // net/http adds none
	}
	if r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0 {
		out.Body = &passedBody{p: p, from: r.Body}
		if len(r.Trailer) > 0 {
			out.Trailer = make(http.Header, len(r.Trailer))
			for k := range r.Trailer {
				out.Trailer[k] = nil // announced; the values follow the body
			}
			out.Body.(*passedBody).trailer = out.Trailer
		}
	}
	return out
}

// target returns the URL for which net/http sends the request's target unchanged.
func target(to server, raw string) *url.URL {
	u := &url.URL{Scheme: to.scheme, Host: to.addr()}
	if to.scheme == "h2c" {
		u.Scheme = "http"
	}
	if strings.HasPrefix(raw, "//") {
		// Opaque would be taken for a host. A parsed path is written as it was if
		// it is a valid encoding.
		path, query, has := strings.Cut(raw, "?")
		if p, err := url.PathUnescape(path); err == nil {
			u.Path, u.RawPath, u.RawQuery, u.ForceQuery = p, path, query, has && query == ""
			return u
		}
	}
	if abs, err := url.Parse(raw); err == nil && abs.Scheme != "" && abs.Host != "" { // absolute form
		u.Path, u.RawPath, u.RawQuery, u.ForceQuery = abs.Path, abs.RawPath, abs.RawQuery, abs.ForceQuery
		return u
	}
	u.Opaque = raw
	return u
}

// passedBody is the client's body on its way to the primary. It copies what it passes
// to the copies' body.
type passedBody struct {
	p       *passage
	from    io.ReadCloser
	trailer http.Header
}

func (b *passedBody) Read(buf []byte) (int, error) {
	n, err := b.from.Read(buf)
	if n > 0 {
		b.p.extendDeadline()
	}
	// The head is before what is read here: the copies may follow.
	b.p.offer()
	if c := b.p.copies; c != nil {
		c.writeBody(buf[:n])
	}
	switch {
	case err == io.EOF:
		for k, v := range b.p.in.Trailer {
			if b.trailer != nil {
				b.trailer[k] = v
			}
		}
		if c := b.p.copies; c != nil {
			c.bodyDone(b.p.in.Trailer)
		}
	case err != nil:
		if c := b.p.copies; c != nil {
			c.bodyBroken(pair.ClientClosed)
		}
	}
	return n, err
}

func (b *passedBody) Close() error { return b.from.Close() }

// pass sends the answer to the client.
func (p *passage) pass(ctx context.Context, answer *http.Response) {
	defer answer.Body.Close()
	h := p.w.Header()
	for k, v := range endToEnd(answer.Header, 4) {
		h[k] = v
	}
	// Without these net/http would add what the primary did not send.
	for _, k := range []string{"Date", "Content-Type"} {
		if _, ok := h[k]; !ok {
			h[k] = nil
		}
	}
	if p.in.ProtoMajor >= 2 {
		if _, ok := h["Content-Length"]; !ok {
			h["Content-Length"] = nil
		}
	}
	announced := make([]string, 0, len(answer.Trailer))
	for k := range answer.Trailer {
		announced = append(announced, k)
	}
	if len(announced) > 0 {
		slices.Sort(announced)
		h["Trailer"] = []string{strings.Join(announced, ", ")}
	}
	kept := p.keep(answer)
	flush := http.NewResponseController(p.w)
	if p.in.ProtoMajor == 1 {
		_ = flush.EnableFullDuplex()
	}
	p.w.WriteHeader(answer.StatusCode)

	err := p.stream(answer, kept, flush)
	end := p.g.now()
	if err == nil && answer.ContentLength < 0 {
		// The client has not closed because it has the whole answer: its end is yet
		// to be sent. The primary may have ended it when it found the client closed.
		err = ctx.Err()
	}
	if err == nil {
		for k, v := range answer.Trailer {
			if !slices.Contains(announced, k) {
				k = http.TrailerPrefix + k
			}
			h[k] = v
		}
	}
	leg := p.ended(end, answer.StatusCode)
	leg.Answer = kept
	leg.Cause = p.cause(ctx, err)
	p.close(leg)
	if err != nil {
		panic(http.ErrAbortHandler) // so that the client sees that the answer is cut
	}
}

func (p *passage) keep(answer *http.Response) *pair.Answer {
	if !p.x.Keep() {
		return nil
	}
	a := &pair.Answer{Status: answer.StatusCode}
	for _, k := range sortedKeys(answer.Header) {
		for _, v := range answer.Header[k] {
			if !hopByHop[k] {
				a.Header = append(a.Header, pair.Field{Name: k, Value: v})
			}
		}
	}
	return a
}

var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// errClient is the error of a write to the client.
type errClient struct{ error }

func (e errClient) Unwrap() error { return e.error }

// stream passes the answer's body on as it arrives: it flushes what was read before
// it waits for more.
func (p *passage) stream(answer *http.Response, kept *pair.Answer, flush *http.ResponseController) error {
	buf := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buf)
	if answer.Body == http.NoBody || p.in.Method == http.MethodHead {
		return nil
	}
	left := answer.ContentLength
	if left != 0 {
		// The head goes before the first byte of the body is waited for.
		if err := flush.Flush(); err != nil {
			return errClient{err}
		}
	}
	for {
		n, err := answer.Body.Read(buf[:])
		if n > 0 {
			p.leg.Bytes += int64(n)
			if kept != nil {
				kept.Add(buf[:n], p.g.keep)
			}
			if _, werr := p.w.Write(buf[:n]); werr != nil {
				return errClient{werr}
			}
			left -= int64(n)
			if err == nil && left != 0 {
				if werr := flush.Flush(); werr != nil {
					return errClient{werr}
				}
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// ended returns the leg with what is known of it now.
func (p *passage) ended(end int64, status int) pair.Leg {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leg.End, p.leg.Status = end, status
	return p.leg
}

// failed answers a request that the primary did not answer.
func (p *passage) failed(ctx context.Context, err error) {
	leg := p.ended(p.g.now(), 0)
	leg.FirstByte = 0
	leg.Cause = p.cause(ctx, err)
	p.close(leg)
	switch leg.Cause {
	case pair.ClientClosed:
		panic(http.ErrAbortHandler)
	case pair.TimedOut, pair.ConnectTime:
		refuse(p.w, http.StatusGatewayTimeout, fmt.Sprintf("the primary %s gave no answer in time: %v", p.g.to.URL(), reason(ctx, err)))
	default:
		refuse(p.w, http.StatusBadGateway, fmt.Sprintf("the primary %s gave no answer: %v", p.g.to.URL(), reason(ctx, err)))
	}
}

// close ends the primary's leg, and the body of copies if it has not ended: an answer
// may come before the request is whole.
func (p *passage) close(leg pair.Leg) {
	if p.copies != nil {
		p.copies.bodyBroken(pair.ClientClosed)
		p.copies.release()
	}
	p.x.EndPrimary(leg)
}

func reason(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil && cause != ctx.Err() {
		return cause
	}
	return err
}

// cause returns the reason why a leg of the primary is not whole.
func (p *passage) cause(ctx context.Context, err error) pair.Cause {
	var client errClient
	var op *net.OpError
	var timeout interface{ Timeout() bool }
	switch {
	case err == nil:
		return pair.None
	case errors.As(err, &client), p.in.Context().Err() != nil:
		return pair.ClientClosed
	case context.Cause(ctx) == errSilent:
		return pair.TimedOut
	case errors.As(err, &op) && op.Op == "dial":
		if op.Timeout() {
			return pair.ConnectTime
		}
		return pair.Refused
	case errors.As(err, &timeout) && timeout.Timeout():
		return pair.TimedOut
	case strings.Contains(err.Error(), "tls: "), strings.Contains(err.Error(), "x509: "):
		return pair.Handshake
	case strings.Contains(err.Error(), "malformed"):
		return pair.BadAnswer
	}
	return pair.Reset
}

// refuse answers in the primary's place, with a field that says so.
func refuse(w http.ResponseWriter, status int, why string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Tailscope-Reason", why)
	w.WriteHeader(status)
	io.WriteString(w, "tailscope mirror: "+why+"\n")
}
