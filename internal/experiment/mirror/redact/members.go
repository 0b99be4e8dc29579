package redact

import "strings"

// maxMember bounds the names that are searched in a text.
const maxMember = 64

// members replaces the values of secret fields in JSON within a text: in events, in a
// page's script, after a prefix, cut short, or escaped any number of times. A string
// ends at a quote that is escaped as often as the one that opens it. Everything after
// the secret name of an object or array is replaced. If the end of a value is in
// doubt, more is replaced rather than less.
func (r *Redactor) members(s string) string {
	if !strings.Contains(s, `"`) || !strings.Contains(s, ":") {
		return s
	}
	var b strings.Builder
	last := 0
	for i := strings.IndexByte(s, '"'); i >= 0; {
		name, value, ok := member(s, i)
		if ok && r.field.has(name) {
			from, to := extent(s, value)
			if from < to {
				b.WriteString(s[last:from])
				b.WriteString(r.Mark(s[from:to]))
				last = to
			}
			value = max(value, to)
		}
		next := i + 1
		if ok {
			next = value
		}
		if n := strings.IndexByte(s[next:], '"'); n >= 0 {
			i = next + n
		} else {
			i = -1
		}
	}
	if last == 0 {
		return s
	}
	b.WriteString(s[last:])
	return b.String()
}

// member returns the name that the quote at i opens, and where its value begins.
func member(s string, i int) (name string, value int, ok bool) {
	rest := s[i+1:]
	n := strings.IndexByte(rest[:min(len(rest), maxMember+8)], '"')
	if n <= 0 {
		return "", 0, false
	}
	name = strings.TrimRight(rest[:n], `\`)
	after := strings.TrimLeft(rest[n+1:], " \t\r\n")
	if name == "" || !strings.HasPrefix(after, ":") {
		return "", 0, false
	}
	return name, len(s) - len(strings.TrimLeft(after[1:], " \t\r\n")), true
}

// extent returns the part of the value at from that is replaced; it is empty for
// null, true and false.
func extent(s string, from int) (begin, end int) {
	rest := s[from:]
	escapes := len(rest) - len(strings.TrimLeft(rest, `\`))
	switch {
	case escapes == len(rest):
		return from, from
	case rest[escapes] == '"':
		begin = from + escapes + 1
		for i := begin; i < len(s); i++ {
			if s[i] != '"' {
				continue
			}
			before := s[begin:i]
			if trimmed := strings.TrimRight(before, `\`); len(before)-len(trimmed) == escapes {
				return begin, begin + len(trimmed)
			}
		}
		return begin, len(s)
	case rest[0] == '{' || rest[0] == '[':
		return from, len(s)
	}
	n := strings.IndexAny(rest, ",}] \t\r\n\\\"'<)")
	if n < 0 {
		n = len(rest)
	}
	switch rest[:n] {
	case "null", "true", "false":
		return from, from
	}
	return from, from + n
}
