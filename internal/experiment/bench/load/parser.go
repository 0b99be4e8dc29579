package load

import (
	"bytes"
	"errors"
	"unsafe"

	"tailscope/internal/http1"
)

// parser reads one answer of HTTP/1.1 from pieces as they arrive. It keeps only an
// incomplete head and what a check needs, and stops allocating once its buffers have
// grown. A loop over many connections reads into one buffer and hands each piece to
// the parser of its connection.
type parser struct {
	status int
	size   int64 // bytes taken, head and framing included
	done   bool  // the answer is whole
	keep   bool  // the connection may carry another request
	body   []byte

	inBody  bool
	toHEAD  bool
	wantHdr bool
	wantBdy bool
	limit   int         // of body
	heads   int         // bytes of heads so far
	head    *http1.Head // its fields point into what was fed or into part; parsers may share one
	rest    http1.Body
	part    []byte // head, as far as it is there
	text    []byte // names and values of fields, if they are wanted
	spans   []span
	fields  []Field
}

// span locates a field's name and value in parser.text.
type span struct{ name, value, end int32 }

// maxHead bounds a head with its interim answers.
const maxHead = 256 << 10

var (
	errNotHTTP  = errors.New("not an answer of HTTP/1.1")
	errLongHead = errors.New("the head of the answer is longer than 256 KiB")

	methodHEAD = []byte("HEAD")
)

// begin prepares the parser for the answer to a request, to HEAD if head is set.
// limit bounds the kept part of a wanted body.
func (p *parser) begin(head, wantHeader, wantBody bool, limit int) {
	p.status, p.size, p.done, p.keep = 0, 0, false, false
	p.wantHdr, p.wantBdy, p.limit = wantHeader, wantBody, limit
	p.inBody, p.heads, p.toHEAD = false, 0, head
	p.body, p.part, p.text, p.spans = p.body[:0], p.part[:0], p.text[:0], p.spans[:0]
	if p.head == nil {
		p.head = new(http1.Head)
	}
}

// feed parses b and returns the number of bytes that belong to the answer: less than
// len(b) only when it is complete. It returns an error if this is not an answer of
// HTTP/1.1.
func (p *parser) feed(b []byte) (n int, err error) {
	for n < len(b) && !p.done {
		var took int
		if p.inBody {
			took, err = p.feedBody(b[n:])
		} else {
			took, err = p.feedHead(b[n:])
		}
		n += took
		p.size += int64(took)
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// eof handles the end of the connection, and reports whether it made the answer
// whole.
func (p *parser) eof() bool {
	p.keep = false
	if p.inBody && p.rest.AtEOF() {
		p.done = true
	}
	return p.done
}

func (p *parser) feedBody(b []byte) (n int, err error) {
	n, data, err := p.rest.Next(b)
	if p.wantBdy && len(p.body) < p.limit {
		p.body = append(p.body, data[:min(len(data), p.limit-len(p.body))]...)
	}
	p.done = p.rest.Done()
	return n, err
}

// feedHead parses a head, or the part of one that has arrived.
func (p *parser) feedHead(b []byte) (n int, err error) {
	if len(p.part) == 0 {
		if !startsHTTP(b) {
			return len(b), errNotHTTP
		}
		n, err = p.skim(b)
		switch {
		case n > 0:
			return n, p.endHead(n)
		case err != nil && http1.Ends(b, 0):
			return len(b), err
		}
	}
	for n < len(b) {
		i := bytes.IndexByte(b[n:], '\n') + 1
		if i == 0 {
			i = len(b) - n
		}
		seen := len(p.part)
		p.part = append(p.part, b[n:n+i]...)
		n += i
		if !startsHTTP(p.part) {
			return n, errNotHTTP
		}
		if p.heads+len(p.part) > maxHead {
			return n, errLongHead
		}
		if http1.Ends(p.part, seen) {
			whole, err := p.skim(p.part)
			if err == nil {
				err = p.endHead(whole)
			}
			p.part = p.part[:0]
			return n, err
		}
	}
	return n, nil
}

func (p *parser) skim(b []byte) (n int, err error) {
	if p.toHEAD {
		return p.head.Skim(b, methodHEAD, p.wantHdr)
	}
	return p.head.Skim(b, nil, p.wantHdr)
}

const version = "HTTP/1."

func startsHTTP(b []byte) bool {
	n := min(len(b), len(version))
	return string(b[:n]) == version[:n]
}

// endHead continues after a head of n bytes.
func (p *parser) endHead(n int) error {
	h := p.head
	p.status = h.Status
	if p.heads += n; p.heads > maxHead {
		return errLongHead
	}
	if h.Status < 200 && h.Status != 101 {
		return nil // an interim answer; the final one follows
	}
	if p.wantHdr {
		for i := range h.Fields {
			f := &h.Fields[i]
			at := int32(len(p.text))
			p.text = append(append(p.text, f.Name...), f.Value...)
			p.spans = append(p.spans, span{at, at + int32(len(f.Name)), int32(len(p.text))})
		}
	}
	p.inBody = true
	p.rest.ResetLax(h)
	tunnel := h.Framing == http1.Tunnel // another protocol follows
	p.done, p.keep = tunnel || p.rest.Done(), !tunnel && !h.Close
	return nil
}

// header returns the answer's fields if they were wanted. They are valid until begin.
func (p *parser) header() []Field {
	p.fields = p.fields[:0]
	for _, s := range p.spans {
		p.fields = append(p.fields, Field{Name: view(p.text[s.name:s.value]), Value: view(p.text[s.value:s.end])})
	}
	return p.fields
}

// view returns b as a string that changes with it.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
