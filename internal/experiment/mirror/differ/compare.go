package differ

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"tailscope/internal/experiment/mirror/content"
	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/experiment/mirror/redact"
)

// maxFound bounds the differing places of one answer.
const maxFound = 100

// found is one place at which two answers differ. The values are rendered only for
// examples.
type found struct {
	place     string
	reference func(*redact.Redactor) string
	shadow    func(*redact.Redactor) string
}

// result is the outcome of comparing two answers.
type result struct {
	reference, shadow *answer
	places            []found
	seen              map[string]bool
	body              bool   // bodies were compared
	skipped           string // why not, if they were meant to be
}

// parts selects the parts of answers that are compared.
type parts struct {
	status, headers, body, json bool
	bare                        bool // there is no control
	ignore                      []string
}

// answer is an answer whose body is decoded at most once.
type answer struct {
	*pair.Answer
	d       *Differ
	header  []header
	decoded bool
	plain   []byte
	err     error
	parsed  bool
	value   any
	isJSON  bool
}

type header struct{ name, value string }

func (d *Differ) answer(a *pair.Answer) *answer {
	if a == nil {
		return nil
	}
	return &answer{Answer: a, d: d}
}

// compare returns nil if there is nothing to compare.
func (p *parts) compare(reference, shadow *answer) *result {
	if reference == nil || shadow == nil {
		return nil
	}
	r := &result{reference: reference, shadow: shadow, seen: map[string]bool{}}
	if p.status && reference.Status != shadow.Status {
		// An answer of another kind: its header and body add nothing.
		p.found(r, "status", plain(strconv.Itoa(reference.Status)), plain(strconv.Itoa(shadow.Status)))
		return r
	}
	if p.headers {
		p.compareHeaders(r)
	}
	if p.body {
		p.compareBodies(r)
	}
	return r
}

func plain(s string) func(*redact.Redactor) string {
	return func(*redact.Redactor) string { return s }
}

// found notes a place, the first of its name.
func (p *parts) found(r *result, place string, reference, shadow func(*redact.Redactor) string) {
	if r.seen[place] || len(r.places) == maxFound {
		return
	}
	for _, ignored := range p.ignore {
		if rest, ok := strings.CutPrefix(place, ignored); ok && (rest == "" || strings.ContainsRune(". [{", rune(rest[0]))) {
			return
		}
	}
	r.seen[place] = true
	r.places = append(r.places, found{place, reference, shadow})
}

// differing lists headers that differ by their nature. Without a control nothing else
// shows that they do.
var differing = []string{
	"age", "cf-ray", "date", "expires", "server-timing", "traceparent", "tracestate", "via", "x-amz-cf-id",
	"x-amzn-trace-id", "x-b3-traceid", "x-cache", "x-correlation-id", "x-request-id", "x-response-time",
	"x-runtime", "x-trace-id", "x-envoy-upstream-service-time",
}

func (p *parts) compareHeaders(r *result) {
	a, b := r.reference.sorted(), r.shadow.sorted()
	note := func(name, what string, reference, shadow header) {
		if p.bare && slices.Contains(differing, name) {
			return
		}
		// The second in which an answer was written depends on how long it took. That
		// difference says nothing of the answer, and noise does not explain it if the
		// shadow is slower.
		if name == "date" && what == "" {
			return
		}
		show := func(h header) func(*redact.Redactor) string {
			return func(x *redact.Redactor) string {
				if h.name == "" {
					return ""
				}
				return x.Header(h.name, h.value)
			}
		}
		p.found(r, "header "+clip(name, 80)+what, show(reference), show(shadow))
	}
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].name < b[0].name:
			note(a[0].name, " missing", a[0], header{})
			a = a[1:]
		case len(a) == 0 || b[0].name < a[0].name:
			note(b[0].name, " extra", header{}, b[0])
			b = b[1:]
		default:
			if a[0].value != b[0].value {
				note(a[0].name, "", a[0], b[0])
			}
			a, b = a[1:], b[1:]
		}
	}
}

// sorted returns the header fields by name, in lower case, those of one name together
// (RFC 9110, section 5.3).
func (a *answer) sorted() []header {
	if a.header != nil || len(a.Header) == 0 {
		return a.header
	}
	all := make([]header, len(a.Header))
	for i, f := range a.Header {
		all[i] = header{strings.ToLower(f.Name), f.Value}
	}
	slices.SortStableFunc(all, func(a, b header) int { return cmp.Compare(a.name, b.name) })
	out := all[:0]
	for _, h := range all {
		if n := len(out); n > 0 && out[n-1].name == h.name {
			out[n-1].value += ", " + h.value
		} else {
			out = append(out, h)
		}
	}
	a.header = out
	return out
}

func (a *answer) field(name string) string {
	h := a.sorted()
	if i, ok := slices.BinarySearchFunc(h, name, func(h header, name string) int { return cmp.Compare(h.name, name) }); ok {
		return h[i].value
	}
	return ""
}

func (p *parts) compareBodies(r *result) {
	a, b := r.reference, r.shadow
	if a.Cut || b.Cut {
		r.skipped = "too_long"
		return
	}
	if bytes.Equal(a.Body, b.Body) && a.field("content-encoding") == b.field("content-encoding") {
		r.body = true
		return
	}
	for _, err := range []error{a.decode(), b.decode()} {
		switch {
		case errors.Is(err, content.ErrTooLong):
			r.skipped = "too_long"
			return
		case err != nil:
			r.skipped = "undecodable"
			return
		}
	}
	if bytes.Equal(a.plain, b.plain) {
		r.body = true
		return
	}
	if p.json && (a.values() > maxValues || b.values() > maxValues) {
		r.skipped = "too_long"
		return
	}
	r.body = true
	if p.json && a.json() && b.json() {
		w := walk{p: p, r: r, place: []byte("body "), d: a.d}
		w.compare(a.value, b.value)
		return
	}
	p.found(r, "body",
		func(x *redact.Redactor) string { return excerpt(x, a, b) },
		func(x *redact.Redactor) string { return excerpt(x, b, a) })
}

// decode decodes the body.
func (a *answer) decode() error {
	if !a.decoded {
		a.decoded = true
		a.plain, a.err = content.Decode(a.field("content-encoding"), a.Body, a.d.o.BodyLimit)
	}
	return a.err
}

// maxValues bounds the fields and elements of a body that is compared by field: each
// takes some hundred bytes of memory, however short it is.
const maxValues = 1 << 18

// values returns an upper bound of the fields and elements of a body that may be
// JSON.
func (a *answer) values() int {
	if first := bytes.TrimLeft(a.plain, " \t\r\n"); len(first) == 0 || first[0] != '{' && first[0] != '[' {
		return 0
	}
	return bytes.Count(a.plain, comma) + bytes.Count(a.plain, brace) + bytes.Count(a.plain, bracket)
}

var comma, brace, bracket = []byte{','}, []byte{'{'}, []byte{'['}

// json parses a body that is one JSON value.
func (a *answer) json() bool {
	if !a.parsed {
		a.parsed = true
		dec := json.NewDecoder(bytes.NewReader(a.plain))
		dec.UseNumber()
		if dec.Decode(&a.value) == nil {
			_, err := dec.Token()
			a.isJSON = err == io.EOF
		}
	}
	return a.isJSON
}
