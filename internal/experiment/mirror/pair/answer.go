package pair

import (
	"strings"

	"tailscope/internal/http1"
)

// Answer is a copy of an answer. Body is cut at the session's limit; Cut reports
// that.
type Answer struct {
	Status int
	Header []Field // in order, end-to-end fields only
	Body   []byte
	Cut    bool
}

// Field is one header or trailer field line, name as it came.
type Field struct{ Name, Value string }

// AnswerOf copies the head of an HTTP/1.1 answer, with capacity for the announced
// length of its body, at most limit bytes. Nothing in it points into h.
func AnswerOf(h *http1.Head, limit int) *Answer {
	passes := func(f *http1.Field) bool { return !f.Named && !http1.HopByHop.Has(f.Known) }
	n, size := 0, 0
	for i := range h.Fields {
		if f := &h.Fields[i]; passes(f) {
			n++
			size += len(f.Name) + len(f.Value)
		}
	}
	a := &Answer{Status: h.Status, Header: make([]Field, 0, n)}
	if h.Framing == http1.Length && h.Length > 0 {
		a.Body = make([]byte, 0, min(h.Length, int64(limit)))
	}
	// All strings are parts of one, so that they take one allocation.
	var b strings.Builder
	b.Grow(size)
	for i := range h.Fields {
		if f := &h.Fields[i]; passes(f) {
			b.Write(f.Name)
			b.Write(f.Value)
		}
	}
	text := b.String()
	for i := range h.Fields {
		if f := &h.Fields[i]; passes(f) {
			name, rest := text[:len(f.Name)], text[len(f.Name):]
			a.Header = append(a.Header, Field{Name: name, Value: rest[:len(f.Value)]})
			text = rest[len(f.Value):]
		}
	}
	return a
}

// Add keeps what is within the limit of a part of the body.
func (a *Answer) Add(part []byte, limit int) {
	if budget := limit - len(a.Body); len(part) > budget {
		part = part[:budget]
		a.Cut = true
	}
	a.Body = append(a.Body, part...)
}
