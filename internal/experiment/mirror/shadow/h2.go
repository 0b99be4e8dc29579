package shadow

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/net/http2"

	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/http1"
)

// speakHTTP2 begins HTTP/2 on a connection, and waits until the server has shown
// that it speaks it too.
func (c *conn) speakHTTP2(ctx context.Context) error {
	c.ended = make(chan struct{})
	t := &http2.Transport{DisableCompression: true, AllowHTTP: true}
	h2, err := t.NewClientConn(&notifyingConn{Conn: c.nc, closed: c.ended})
	if err != nil {
		return err
	}
	if err := h2.Ping(ctx); err != nil {
		h2.Close()
		return err
	}
	c.h2, c.under = h2, map[*exchange]struct{}{}
	return nil
}

// notifyingConn closes a channel when it is closed.
type notifyingConn struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (t *notifyingConn) Close() error {
	err := t.Conn.Close()
	t.once.Do(func() { close(t.closed) })
	return err
}

// startStream is start for HTTP/2. It does not wait for the stream, which may wait
// for locks that are held while something is written.
func (c *conn) startStream(j job) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return false
	}
	c.l.wg.Go(func() { c.stream(j) })
	return true
}

// fate is the outcome of a copy on a connection of HTTP/2.
type fate uint8

const (
	sent    fate = iota // its leg says how that ended
	dropped             // it was not sent, for the leg's cause
	refused             // the connection did not take it
	unseen              // it was sent, and the server has not seen it
)

// stream sends one copy and reads its answer.
func (c *conn) stream(j job) {
	l := c.l
	leg, delivered, fate := c.roundTrip(&j)
	switch fate {
	case sent:
		l.end(&j, leg, delivered && leg.Status != 0)
	case dropped:
		l.drop(&j, leg.Cause)
	case refused:
		// The server allows fewer at a time than this side, or none. The connection
		// is used again when one of its copies has ended.
		l.refused(c)
		l.send(j)
		return
	}
	s := c.h2.State()
	c.mu.Lock()
	if s.Closed || s.Closing || fate == unseen {
		c.dead = true
	}
	dead := c.dead
	c.mu.Unlock()
	l.done(c, dead)
	if fate == unseen {
		j.tries++
		j.start = leg.Start
		if j.due == 0 {
			j.due = j.start
		}
		l.send(j)
	}
}

// exchange is a copy under way, for the sweeper.
type exchange struct {
	deadline atomic.Int64
	cancel   context.CancelFunc
	under    Under
}

// wait puts the deadline off while the copy waits for the client.
func (x *exchange) wait(l *Sender, waiting bool) {
	if waiting {
		x.deadline.Store(math.MaxInt64)
	} else {
		x.deadline.Store(l.o.Now() + int64(l.o.Timeout))
	}
}

// expireStreams is expire for HTTP/2.
func (c *conn) expireStreams(now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for x := range c.under {
		if x.deadline.Load() <= now {
			x.cancel()
		}
	}
}

// roundTrip sends one request and reads its answer.
func (c *conn) roundTrip(j *job) (leg pair.Leg, delivered bool, _ fate) {
	l := c.l
	if j.r != nil {
		if cause := j.r.begin(); cause != pair.None {
			return pair.Leg{Cause: cause}, false, dropped
		}
	}
	x := &exchange{}
	x.deadline.Store(l.o.Now() + int64(l.o.Timeout))
	ctx, cancel := context.WithCancel(context.Background())
	x.cancel = cancel
	x.under = underOf(j, l.o.Now())
	c.mu.Lock()
	c.under[x] = struct{}{}
	c.mu.Unlock()
	defer func() {
		cancel()
		c.mu.Lock()
		delete(c.under, x)
		c.mu.Unlock()
	}()
	var first atomic.Int64
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotFirstResponseByte: func() { first.Store(l.o.Now()) },
		Got1xxResponse: func(int, textproto.MIMEHeader) error {
			first.Store(0)
			return nil
		},
	})
	body := newStreamBody(j, func(waiting bool) { x.wait(l, waiting) })
	defer body.Close()
	req, err := c.request(ctx, j, body)
	if err != nil {
		return pair.Leg{Cause: pair.Handshake}, false, dropped
	}
	if !c.h2.ReserveNewRequest() {
		return leg, false, refused
	}
	keep := j.k == 0 && j.to.Keep()
	if j.tries == 0 {
		j.to.Sent(j.shadow)
	}
	leg.Start = l.o.Now()
	fail := func(err error) (pair.Leg, bool, fate) {
		leg.Cause = c.causeOf(ctx, body, err)
		return leg, body.whole.Load(), sent
	}
	resp, err := c.h2.RoundTrip(req)
	if err != nil {
		leg, delivered, _ := fail(err)
		if leg.Cause == pair.Reset && c.mayRetry(j, err) {
			return leg, false, unseen
		}
		return leg, delivered, sent
	}
	c.answers.Add(1)
	defer resp.Body.Close()
	if leg.FirstByte = first.Load(); leg.FirstByte == 0 {
		leg.FirstByte = l.o.Now()
	}
	leg.Status = resp.StatusCode
	if l.o.OnHeader != nil {
		l.o.OnHeader(fieldsOf(resp.Header))
	}
	if keep {
		leg.Answer = &pair.Answer{Status: resp.StatusCode, Header: fieldsOf(resp.Header)}
	}
	buf := buffers.Get().(*[readBytes]byte)
	defer buffers.Put(buf)
	for {
		n, err := resp.Body.Read(buf[:])
		leg.Bytes += int64(n)
		if leg.Answer != nil {
			leg.Answer.Add(buf[:n], l.o.KeepLimit)
		}
		if leg.Bytes > l.o.AnswerLimit {
			leg.Cause = pair.AnswerLimit
			return leg, body.whole.Load(), sent
		}
		if err == io.EOF {
			leg.End = l.o.Now()
			return leg, body.whole.Load(), sent
		}
		if err != nil {
			return fail(err)
		}
		if leg.Bytes > freeBytes {
			l.pace(n)
		}
	}
}

// mayRetry reports whether a copy without an answer may be sent again, by the rules
// of HTTP/1.1 or because the server did not process it (RFC 9113 section 8.7).
func (c *conn) mayRetry(j *job, err error) bool {
	if j.r != nil || j.tries >= maxTries {
		return false
	}
	var stream http2.StreamError
	if errors.As(err, &stream) && stream.Code == http2.ErrCodeRefusedStream {
		return true
	}
	return !j.write && c.answers.Load() > 0 && !errors.As(err, &stream)
}

// causeOf returns the cause of a request that failed on HTTP/2.
func (c *conn) causeOf(ctx context.Context, body *streamBody, err error) pair.Cause {
	c.mu.Lock()
	killed := c.killed
	c.mu.Unlock()
	if cause := pair.Cause(body.cause.Load()); cause != pair.None {
		return cause
	}
	if killed != pair.None {
		return killed
	}
	if ctx.Err() != nil {
		return pair.TimedOut
	}
	var wrong http2.ConnectionError
	if errors.As(err, &wrong) {
		return pair.BadAnswer
	}
	return pair.Reset
}

// request returns a copy's request for net/http.
func (c *conn) request(ctx context.Context, j *job, body *streamBody) (*http.Request, error) {
	raw := c.l.appendRequest(nil, j)
	var h http1.Head
	if _, err := h.ParseRequest(raw); err != nil {
		return nil, err
	}
	host := string(h.Host)
	if host == "" {
		host = c.s.address
	}
	scheme := "http"
	if c.s.scheme == "https" {
		scheme = "https"
	}
	req := &http.Request{
		Method:     string(h.Method),
		URL:        &url.URL{Scheme: scheme, Host: host, Opaque: string(h.Target)},
		Host:       host,
		Header:     make(http.Header, len(h.Fields)),
		Proto:      "HTTP/2.0",
		ProtoMajor: 2,
	}
	if bytes.HasPrefix(h.Target, []byte("//")) {
		u, err := url.ParseRequestURI(scheme + "://" + host + string(h.Target))
		if err != nil {
			return nil, err
		}
		req.URL = u
	}
	for _, f := range h.Fields {
		switch f.Known {
		case http1.Host, http1.ContentLength, http1.TransferEncoding, http1.Connection:
			continue
		case http1.Trailer:
			req.Trailer = http.Header{}
			for name := range bytes.SplitSeq(f.Value, []byte(",")) {
				req.Trailer.Set(string(bytes.TrimSpace(name)), "")
			}
			continue
		}
		req.Header.Add(string(f.Name), string(f.Value))
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header["User-Agent"] = []string{""} // none, not net/http's
	}
	body.trailer = req.Trailer
	switch p := j.p; {
	case p.spool != nil:
		req.Body, req.ContentLength = body, p.spool.length
	case len(p.Body) > 0:
		req.Body, req.ContentLength = body, int64(len(p.Body))
	default:
		body.whole.Store(true)
	}
	return req.WithContext(ctx), nil
}

// fieldsOf returns an answer's fields sorted by name, since net/http has lost their
// order.
func fieldsOf(h http.Header) []pair.Field {
	var fields []pair.Field
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, v := range h[name] {
			fields = append(fields, pair.Field{Name: name, Value: v})
		}
	}
	return fields
}
