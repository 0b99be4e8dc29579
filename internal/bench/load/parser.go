package load

import (
	"bytes"
	"errors"
	"unsafe"
)

// parser reads one answer of HTTP/1.1 from pieces as they arrive (RFC 9112). It
// takes what it is given without keeping it, but for a line that is not whole yet
// and for what a check wants to see, and allocates only until its buffers have
// grown. A loop over many connections reads into one buffer and hands each piece
// to the parser of its connection.
type parser struct {
	status int
	size   int64 // bytes taken, head and framing included
	done   bool  // the answer is whole
	keep   bool  // the connection may carry another request
	body   []byte

	state   parserState
	head    bool // the request was HEAD: no body follows
	wantHdr bool
	wantBdy bool
	chunked bool
	coding  bool  // Transfer-Encoding is present
	length  int64 // Content-Length, -1 without
	left    int64 // of the body or the chunk
	limit   int   // of body
	heads   int   // bytes of heads and trailers so far
	line    []byte
	text    []byte // head, if it is wanted
	spans   []span // of its fields, in text
	fields  []Field
}

// span is where a field's name and value are in parser.text.
type span struct{ name, colon, value, end int32 }

type parserState uint8

const (
	inStatus parserState = iota
	inHeader
	inLength     // a body of known length
	inChunkSize  // the line of a chunk's size
	inChunk      // a chunk's data
	inChunkEnd   // the end of line after it
	inTrailer    // fields after the last chunk
	inUntilClose // a body that the end of the connection ends
)

// maxHead bounds a head with its interim answers, and the lines of chunks.
const maxHead = 256 << 10

var (
	errNotHTTP  = errors.New("not an answer of HTTP/1.1")
	errLongHead = errors.New("the head of the answer is longer than 256 KiB")
	errFraming  = errors.New("the answer does not say where it ends")
)

// begin makes the parser ready for the answer to a request: head says that it is
// one to HEAD; limit is how much of a body that is wanted is kept.
func (p *parser) begin(head, wantHeader, wantBody bool, limit int) {
	p.status, p.size, p.done, p.keep = 0, 0, false, false
	p.state, p.head, p.wantHdr, p.wantBdy, p.limit = inStatus, head, wantHeader, wantBody, limit
	p.heads = 0
	p.body, p.line = p.body[:0], p.line[:0]
	p.startHead()
}

func (p *parser) startHead() {
	p.state, p.chunked, p.coding, p.length, p.left = inStatus, false, false, -1, 0
	p.text, p.spans = p.text[:0], p.spans[:0]
}

// feed takes from b what belongs to the answer and says how much that was: less
// than all of b once done. An error says that this is not an answer of HTTP/1.1.
func (p *parser) feed(b []byte) (n int, err error) {
	for n < len(b) && !p.done {
		took := 0
		switch p.state {
		case inLength, inChunk:
			took = int(min(p.left, int64(len(b)-n)))
			p.see(b[n : n+took])
			if p.left -= int64(took); p.left == 0 {
				if p.done = p.state == inLength; !p.done {
					p.state = inChunkEnd
				}
			}
		case inUntilClose:
			took = len(b) - n
			p.see(b[n:])
		default:
			took, err = p.feedLine(b[n:])
		}
		n += took
		p.size += int64(took)
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// eof says that the connection has ended, and reports whether that made the
// answer whole.
func (p *parser) eof() bool {
	p.keep = false
	if p.state == inUntilClose {
		p.done = true
	}
	return p.done
}

// see keeps of a body what is wanted.
func (p *parser) see(b []byte) {
	if p.wantBdy && len(p.body) < p.limit {
		p.body = append(p.body, b[:min(len(b), p.limit-len(p.body))]...)
	}
}

// feedLine takes a line, or the part of one that is there. Lines end with CR LF or
// with LF alone (RFC 9112, section 2.2).
func (p *parser) feedLine(b []byte) (n int, err error) {
	i := bytes.IndexByte(b, '\n')
	if n = i + 1; i < 0 {
		n = len(b)
	}
	if p.heads += n; p.heads > maxHead {
		return n, errLongHead
	}
	line := b[:n]
	if i < 0 || len(p.line) > 0 {
		p.line = append(p.line, line...)
		line = p.line
	}
	if i < 0 {
		if p.state == inStatus && !startsHTTP(line) {
			return n, errNotHTTP
		}
		return n, nil
	}
	p.line = p.line[:0]
	line = line[:len(line)-1]
	if k := len(line); k > 0 && line[k-1] == '\r' {
		line = line[:k-1]
	}
	switch p.state {
	case inStatus:
		err = p.statusLine(line)
	case inHeader:
		if len(line) > 0 {
			err = p.field(line)
		} else {
			err = p.endHead()
		}
	case inChunkSize:
		err = p.chunkSize(line)
	case inChunkEnd:
		if len(line) > 0 {
			err = errFraming
		}
		p.state, p.heads = inChunkSize, 0
	case inTrailer:
		p.done = len(line) == 0
	}
	return n, err
}

const version = "HTTP/1."

func startsHTTP(b []byte) bool {
	n := min(len(b), len(version))
	return string(b[:n]) == version[:n]
}

// statusLine reads HTTP/1.1 200 OK (RFC 9112, section 4).
func (p *parser) statusLine(b []byte) error {
	if len(b) < 12 || !startsHTTP(b) || b[7]-'0' > 9 || b[8] != ' ' || len(b) > 12 && b[12] != ' ' {
		return errNotHTTP
	}
	p.status = 0
	for _, c := range b[9:12] {
		if c-'0' > 9 {
			return errNotHTTP
		}
		p.status = 10*p.status + int(c-'0')
	}
	if p.status < 100 {
		return errNotHTTP
	}
	p.keep = b[7] >= '1'
	p.state = inHeader
	return nil
}

// field reads a field of the header (RFC 9112, section 5).
func (p *parser) field(b []byte) error {
	if b[0] == ' ' || b[0] == '\t' {
		return nil // a folded line (section 5.2); none of the fields that matter here is
	}
	colon := bytes.IndexByte(b, ':')
	if colon <= 0 {
		return errNotHTTP
	}
	name, value := b[:colon], trim(b[colon+1:])
	if p.wantHdr {
		at := int32(len(p.text))
		p.text = append(append(p.text, name...), value...)
		p.spans = append(p.spans, span{at, at + int32(colon), at + int32(colon), int32(len(p.text))})
	}
	switch len(name) {
	case len("Connection"):
		if fold(name, "connection") {
			switch {
			case hasToken(value, "close"):
				p.keep = false
			case hasToken(value, "keep-alive"):
				p.keep = true
			}
		}
	case len("Content-Length"):
		if fold(name, "content-length") {
			return p.contentLength(value)
		}
	case len("Transfer-Encoding"):
		if fold(name, "transfer-encoding") {
			p.coding = true
			p.chunked = lastToken(value, "chunked")
		}
	}
	return nil
}

// contentLength reads a length or a list of the same one (RFC 9112, section 6.3).
func (p *parser) contentLength(b []byte) error {
	for first := true; first || len(b) > 0; first = false {
		item := b
		if i := bytes.IndexByte(b, ','); i >= 0 {
			item, b = b[:i], b[i+1:]
		} else {
			b = nil
		}
		item = trim(item)
		if len(item) == 0 || len(item) > 18 {
			return errFraming
		}
		var n int64
		for _, c := range item {
			if c-'0' > 9 {
				return errFraming
			}
			n = 10*n + int64(c-'0')
		}
		if p.length >= 0 && p.length != n {
			return errFraming
		}
		p.length = n
	}
	return nil
}

// endHead finds how long the body is (RFC 9112, section 6.3).
func (p *parser) endHead() error {
	switch {
	case p.status == 101:
		p.keep, p.done = false, true
	case p.status < 200:
		p.startHead() // an interim answer; the final one follows
	case p.head || p.status == 204 || p.status == 304:
		p.done = true
	case p.chunked:
		p.state, p.heads = inChunkSize, 0
	case !p.coding && p.length >= 0:
		p.state, p.left = inLength, p.length
		p.done = p.length == 0
	default:
		p.state, p.keep = inUntilClose, false
	}
	return nil
}

// chunkSize reads a size in hexadecimal; extensions do not matter (RFC 9112,
// section 7.1).
func (p *parser) chunkSize(b []byte) error {
	if i := bytes.IndexByte(b, ';'); i >= 0 {
		b = b[:i]
	}
	b = trim(b)
	if len(b) == 0 || len(b) > 15 {
		return errFraming
	}
	p.left = 0
	for _, c := range b {
		switch {
		case c-'0' <= 9:
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return errFraming
		}
		p.left = p.left<<4 | int64(c)
	}
	if p.state = inChunk; p.left == 0 {
		p.state = inTrailer
	}
	return nil
}

// header returns the fields of the answer if they were wanted, until begin.
func (p *parser) header() []Field {
	p.fields = p.fields[:0]
	for _, s := range p.spans {
		p.fields = append(p.fields, Field{Name: view(p.text[s.name:s.colon]), Value: view(p.text[s.value:s.end])})
	}
	return p.fields
}

// view is b as a string that changes with it.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// fold reports whether b is lower but for the case of its letters; both have the
// same length.
func fold(b []byte, lower string) bool {
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// hasToken reports whether a list separated by commas has an item.
func hasToken(list []byte, lower string) bool {
	for len(list) > 0 {
		item := list
		if i := bytes.IndexByte(list, ','); i >= 0 {
			item, list = list[:i], list[i+1:]
		} else {
			list = nil
		}
		if item = trim(item); len(item) == len(lower) && fold(item, lower) {
			return true
		}
	}
	return false
}

// lastToken reports whether the last item of a list is.
func lastToken(list []byte, lower string) bool {
	item := trim(list[bytes.LastIndexByte(list, ',')+1:])
	return len(item) == len(lower) && fold(item, lower)
}
