package mirror

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"tailscope/internal/experiment/mirror/choose"
	"tailscope/internal/experiment/mirror/offer"
	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/experiment/mirror/shadow"
	"tailscope/internal/http1"
)

// copies are the copies of one request of general, from the choice to the end of the
// request.
type copies struct {
	offer   offer.Offer
	x       *pair.Exchange
	payload *shadow.Payload
	body    *shadow.Spool // nil without a body

	mu   sync.Mutex
	done bool // the body was closed or aborted
}

// open begins the exchange of a request that goes to the primary as out, and
// prepares its copies if it is chosen and the primary reached.
func (g *general) open(r, out *http.Request, reached bool) (*pair.Exchange, *copies) {
	req := choose.FromHTTP(r)
	decision := g.offers.Chooser.Choose(&req)
	g.offers.Bound(&decision, out.Body != nil, r.ContentLength)
	if !reached {
		return g.offers.Unreached(&decision), nil
	}
	c := new(copies)
	x, wanted := c.offer.Begin(g.offers, &decision)
	if !wanted {
		return x, nil
	}
	p := shadow.NewPayload()
	c.x, c.payload = x, p
	p.Method = append(p.Method, req.Method...)
	p.Target = append(p.Target, http1.OriginForm([]byte(r.RequestURI))...)
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
	if g.offers.Watched != nil {
		x.Request = g.offers.Watched(&decision, p, x.Began())
	}
	return x, c
}

// bodyDone ends the copies' body: the request's is whole.
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

// bodyBroken aborts the copies' body if it is not whole.
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

// writeBody adds b to the copies' body.
func (c *copies) writeBody(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.body != nil && !c.done {
		c.body.Write(b)
	}
}
