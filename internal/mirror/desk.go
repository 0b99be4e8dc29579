package mirror

import (
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"

	"tailscope/internal/http1"
	"tailscope/internal/mirror/choose"
	"tailscope/internal/mirror/pair"
	"tailscope/internal/mirror/shadow"
)

// desk chooses which requests of the general door are copied, and makes the
// copies; the plain door does the same by itself.
type desk struct {
	book      *pair.Book
	chooser   *choose.Chooser
	lanes     []*shadow.Lane
	bodyLimit int64 // 0: no request that has a body is copied
	keep      bool  // answers are compared, or requests recorded
	keepBytes int   // of an answer's body, at most
	// watched is called with what a chosen request asked for; its result is the
	// exchange's Request. Nil: nobody watches.
	watched func(d *choose.Decision, p *shadow.Payload, began int64) any
}

// copies are those of one request, from when they are chosen until the request
// is done with.
type copies struct {
	d       *desk
	x       *pair.Exchange
	payload *shadow.Payload
	body    *shadow.Spool // nil without a body
	counts  []uint8
	write   bool

	mu   sync.Mutex
	done bool // the body was closed or aborted
}

// open begins the exchange of a request that goes to the primary as out, and
// prepares its copies if it is chosen and the primary reached.
func (d *desk) open(r, out *http.Request, reached bool) (*pair.Exchange, *copies) {
	req := choose.FromHTTP(r)
	decision := d.chooser.Choose(&req)
	if decision.Mirror && out.Body != nil && (d.bodyLimit == 0 || r.ContentLength > d.bodyLimit) {
		decision.Mirror, decision.Reason, decision.Missed = false, pair.Length, decision.Write
	}
	if decision.Mirror && !reached {
		return d.book.Begin(decision.Names, nil, false), nil
	}
	if !decision.Mirror {
		if decision.Missed && reached {
			for _, l := range d.lanes {
				l.Missed(decision.Reason)
			}
		}
		return d.book.Skip(decision.Names, decision.Reason), nil
	}
	c := &copies{d: d, counts: make([]uint8, len(d.lanes)), write: decision.Write, payload: shadow.NewPayload()}
	for i, l := range d.lanes {
		c.counts[i] = l.Copies(decision.Write)
	}
	p := c.payload
	p.Method = append(p.Method, req.Method...)
	p.Target = append(p.Target, originForm(r.RequestURI)...)
	p.Host = append(p.Host, req.Host...)
	for _, k := range sortedKeys(out.Header) {
		if k == markField || k == passedField || k == "Expect" || k == "Content-Length" {
			continue
		}
		for _, v := range out.Header[k] {
			p.Fields = http1.AppendField(p.Fields, k, v)
		}
	}
	if len(r.Trailer) > 0 {
		p.Fields = http1.AppendField(p.Fields, "Trailer", strings.Join(slices.Sorted(maps.Keys(r.Trailer)), ", "))
	}
	switch {
	case out.Body != nil:
		c.body = p.Stream(r.ContentLength)
	case r.Header.Get("Content-Length") == "0":
		p.HasBody = true
	}
	c.x = d.book.Begin(decision.Names, c.counts, d.keep)
	if d.watched != nil {
		c.x.Request = d.watched(&decision, p, c.x.Began())
	}
	return c.x, c
}

// originForm is the path and query of a target (RFC 9112, 3.2.1).
func originForm(target string) string {
	if strings.HasPrefix(target, "/") || target == "*" {
		return target
	}
	if _, rest, ok := strings.Cut(target, "://"); ok {
		if i := strings.IndexAny(rest, "/?"); i >= 0 {
			if rest[i] == '?' {
				return "/" + rest[i:]
			}
			return rest[i:]
		}
	}
	return "/"
}

// offer gives the copies to their lanes, in an order that is different each
// time, so that no shadow is always the last.
func (c *copies) offer() {
	n := len(c.d.lanes)
	if n == 0 {
		return
	}
	first := rand.IntN(n)
	step := 1
	if rand.IntN(2) == 0 {
		step = n - 1
	}
	for i := range n {
		k := (first + i*step) % n
		if c.counts[k] == 0 {
			continue
		}
		c.d.lanes[k].Offer(shadow.Copy{Payload: c.payload, To: c.x, Shadow: k, Copies: c.counts[k], Write: c.write})
	}
}

// bodyDone says that the request's body is whole.
func (c *copies) bodyDone(trailer http.Header) {
	c.end(func() {
		var lines []byte
		for _, k := range sortedKeys(trailer) {
			for _, v := range trailer[k] {
				lines = http1.AppendField(lines, k, v)
			}
		}
		c.body.Close(lines)
	})
}

// bodyBroken says that no more of the body comes, unless it is whole.
func (c *copies) bodyBroken(why pair.Cause) {
	c.end(func() { c.body.Abort(why) })
}

func (c *copies) end(how func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.body == nil || c.done {
		return
	}
	c.done = true
	how()
}

// release gives the payload back. Nothing is written to the body after it.
func (c *copies) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done = true
	c.payload.Release()
	c.payload = nil
}

// write adds to the body.
func (c *copies) writeBody(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.body != nil && !c.done {
		c.body.Write(b)
	}
}
