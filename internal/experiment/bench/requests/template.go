package requests

import (
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"tailscope/internal/strictyaml"
)

// place is the context of a template, which decides how its values are escaped.
type place uint8

const (
	ofTarget place = iota
	ofHeader
	ofJSON // a body of JSON
	ofForm // a body of application/x-www-form-urlencoded
	ofText // another body
)

// part is a piece of a template: a literal, then a value.
type part struct {
	literal string
	value   value
	column  int // of value fromColumn: in the table
	how     escape
	n, to   int64 // of value random: from n to to, both included
}

type value uint8

const (
	nothing value = iota
	fromColumn
	sequence
	random
	nowSeconds
	nowMillis
	nowRFC3339
	uuid
)

// builtIn are the values that need no data. Columns and variables of the same name
// give way to them.
var builtIn = map[string]value{"seq": sequence, "now": nowSeconds, "now ms": nowMillis, "now rfc3339": nowRFC3339, "uuid": uuid}

// template is text with values to fill in; the last part has no value.
type template struct {
	parts []part
	text  string // as it was written
}

// static reports whether the template is constant.
func (t *template) static() bool { return len(t.parts) == 1 && t.parts[0].value == nothing }

func (t *template) literal() string {
	if t.static() {
		return t.parts[0].literal
	}
	return ""
}

// byData reports whether only data changes the template.
func (t *template) byData() bool {
	for _, p := range t.parts {
		if p.value > fromColumn {
			return false
		}
	}
	return true
}

// raw reports whether a value is written without escapes.
func (t *template) raw() bool {
	for _, p := range t.parts {
		if p.value == fromColumn && p.how == asIs {
			return true
		}
	}
	return false
}

// fault describes a mistake in a template.
type fault struct{ text, hint string }

func (f *fault) Error() string { return f.text }

// scope resolves names in templates: variables, and columns of the query's data,
// which are numbered as they are used.
type scope struct {
	vars    map[string]string
	columns []string // in use, in the order of their numbers
	known   []string // in the data; nil if the query has none
	file    string
}

const example = "write a column of the data, a variable, {{seq}}, {{random 100}}, {{now}} or {{uuid}}"

// parseTemplate reads text with values in double braces. \{{ is two braces.
func parseTemplate(text string, of place, w *scope) (template, *fault) {
	t := template{text: text}
	var literal strings.Builder
	state := placeState{of: of}
	write := func(s string) {
		literal.WriteString(s)
		state.see(s)
	}
	for rest := text; ; {
		at := strings.Index(rest, "{{")
		if at < 0 {
			write(rest)
			break
		}
		if at > 0 && rest[at-1] == '\\' {
			write(rest[:at-1])
			write("{{")
			rest = rest[at+2:]
			continue
		}
		write(rest[:at])
		word, after, closed := strings.Cut(rest[at+2:], "}}")
		if !closed {
			return t, &fault{"{{ is not closed by }}", `write \{{ for two braces that are meant as such`}
		}
		rest = after
		name, filter, filtered := strings.Cut(word, "|")
		name = strings.TrimSpace(name)
		how := state.how()
		if filtered {
			if f := strings.TrimSpace(filter); f != "raw" {
				return t, &fault{"{{" + word + "}}: " + f + " is not known after the bar", "write {{" + name + "|raw}} for a value as it is, without escapes"}
			}
			if how = asIs; of == ofHeader {
				how = inHeader
			}
		}
		p, constant, f := w.resolve(name)
		switch {
		case f != nil:
			return t, f
		case p.value == nothing:
			literal.Write(appendEscaped(nil, constant, how))
		default:
			p.literal, p.how = literal.String(), how
			literal.Reset()
			t.parts = append(t.parts, p)
		}
	}
	t.parts = append(t.parts, part{literal: literal.String()})
	return t, nil
}

// placeState follows a template's text to find where a value stands.
type placeState struct {
	of              place
	quoted, escaped bool // within a string of JSON; after its backslash
}

func (s *placeState) see(text string) {
	if s.of != ofJSON {
		return
	}
	for i := range len(text) {
		switch c := text[i]; {
		case s.escaped:
			s.escaped = false
		case c == '\\':
			s.escaped = s.quoted
		case c == '"':
			s.quoted = !s.quoted
		}
	}
}

func (s *placeState) how() escape {
	switch {
	case s.of == ofTarget || s.of == ofForm:
		return inURL
	case s.of == ofHeader:
		return inHeader
	case s.of == ofJSON && s.quoted:
		return inJSON
	}
	return asIs
}

// resolve finds the meaning of a name: a part with a value, or a constant.
func (w *scope) resolve(name string) (p part, constant string, f *fault) {
	if name == "" {
		return p, "", &fault{"{{}} names nothing", example}
	}
	if v, ok := builtIn[name]; ok {
		return part{value: v}, "", nil
	}
	if n, ok := strings.CutPrefix(name, "random "); ok {
		return parseRandom(name, strings.TrimSpace(n))
	}
	variable, isVariable := w.vars[name]
	isColumn := false
	for _, k := range w.known {
		isColumn = isColumn || k == name
	}
	switch {
	case isColumn && isVariable:
		return p, "", &fault{"{{" + name + "}} is a variable and a column of " + w.file + " too", "rename one of the two"}
	case isVariable:
		return p, variable, nil
	case isColumn:
		return part{value: fromColumn, column: w.column(name)}, "", nil
	}
	known := append([]string{}, w.known...)
	for k := range w.vars {
		known = append(known, k)
	}
	hint := example
	for k := range builtIn {
		known = append(known, k)
	}
	if nearest, ok := strictyaml.Nearest(name, known); ok {
		hint = "did you mean {{" + nearest + "}}?"
	} else if len(w.known) > 0 && len(w.known) <= 12 {
		hint = w.file + " has the columns " + strings.Join(w.known, ", ")
	} else if w.known == nil && name != "random" {
		hint = "no data is given: say data: FILE.csv with a column " + name + ", or set the variable"
	}
	return p, "", &fault{"{{" + name + "}} is neither a column, a variable nor a built-in value", hint}
}

func (w *scope) column(name string) int {
	for i, c := range w.columns {
		if c == name {
			return i
		}
	}
	w.columns = append(w.columns, name)
	return len(w.columns) - 1
}

func parseRandom(name, text string) (part, string, *fault) {
	from, to, span := strings.Cut(text, "..")
	p := part{value: random}
	var err error
	if span {
		if p.n, err = strconv.ParseInt(strings.TrimSpace(from), 10, 64); err == nil {
			p.to, err = strconv.ParseInt(strings.TrimSpace(to), 10, 64)
		}
	} else if p.to, err = strconv.ParseInt(text, 10, 64); err == nil {
		p.to--
	}
	if err != nil || p.to < p.n || uint64(p.to)-uint64(p.n) >= 1<<63 {
		return p, "", &fault{"{{" + name + "}} is not a range", "write {{random 100}} for 0 to 99, or {{random 5..10}}"}
	}
	return p, "", nil
}

// filler holds the values with which a loop fills templates.
type filler struct {
	table *table
	row   int
	k     uint64 // number of the request in the run, from 0
	rng   *rand.Rand
	now   func() time.Time
}

// append renders the template.
func (t *template) append(dst []byte, f *filler) []byte {
	for i := range t.parts {
		p := &t.parts[i]
		dst = append(dst, p.literal...)
		switch p.value {
		case fromColumn:
			dst = appendEscaped(dst, f.table.cell(f.row, p.column), p.how)
		case sequence:
			dst = strconv.AppendUint(dst, f.k+1, 10)
		case random:
			dst = strconv.AppendInt(dst, p.n+int64(f.rng.Uint64N(uint64(p.to-p.n)+1)), 10)
		case nowSeconds:
			dst = strconv.AppendInt(dst, f.now().Unix(), 10)
		case nowMillis:
			dst = strconv.AppendInt(dst, f.now().UnixMilli(), 10)
		case nowRFC3339:
			var space [40]byte
			dst = appendEscaped(dst, f.now().UTC().AppendFormat(space[:0], "2006-01-02T15:04:05.000Z"), p.how)
		case uuid:
			dst = appendUUID(dst, f.rng)
		}
	}
	return dst
}

// appendUUID appends a random UUID, version 4 (RFC 9562, section 5.4).
func appendUUID(dst []byte, rng *rand.Rand) []byte {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], rng.Uint64())
	binary.LittleEndian.PutUint64(b[8:], rng.Uint64())
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	const digits = "0123456789abcdef"
	for i, c := range b {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			dst = append(dst, '-')
		}
		dst = append(dst, digits[c>>4], digits[c&15])
	}
	return dst
}
