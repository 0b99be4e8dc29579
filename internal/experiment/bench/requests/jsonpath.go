package requests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// step is one step of a path in JSON: into a member, or an element.
type step struct {
	key   string
	index int // -1 of a member
}

// parsePath reads names with points between them and [n] for the n-th element,
// from 0: hits.docs[0].id. A name with a point stands in quotes: a["b.c"].
// A path from the very top may begin with $. or [.
func parsePath(text string) ([]step, error) {
	rest := strings.TrimPrefix(text, "$.")
	if rest == "" {
		return nil, fmt.Errorf("the path is empty (hint: write one as responseHeader.status or docs[0].id)")
	}
	var steps []step
	for first := true; rest != ""; first = false {
		switch {
		case strings.HasPrefix(rest, `["`):
			name, after, ok := strings.Cut(rest[2:], `"]`)
			if !ok {
				return nil, fmt.Errorf(`%s: the bracket is not closed (hint: write a["b.c"])`, text)
			}
			steps, rest = append(steps, step{name, -1}), after
		case rest[0] == '[':
			number, after, ok := strings.Cut(rest[1:], "]")
			n, err := strconv.Atoi(number)
			if !ok || err != nil || n < 0 {
				return nil, fmt.Errorf("%s: [%s] is not an element (hint: write [0] for the first)", text, number)
			}
			steps, rest = append(steps, step{"", n}), after
		default:
			if rest[0] == '.' && !first {
				rest = rest[1:]
			}
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			if end == 0 {
				return nil, fmt.Errorf("%s: a name is missing (hint: write names with a point between, such as responseHeader.status)", text)
			}
			steps, rest = append(steps, step{rest[:end], -1}), rest[end:]
		}
	}
	return steps, nil
}

// find returns the JSON value at a path, as it is written. It stops reading there, so
// it finds values in a text that is broken later. ok is false if there is no such
// value.
func find(text []byte, steps []step) (value []byte, ok bool) {
	for _, s := range steps {
		if s.index >= 0 {
			text, ok = element(text, s.index)
		} else {
			text, ok = valueOf(text, s.key)
		}
		if !ok {
			return nil, false
		}
	}
	text = space(text)
	rest, ok := skip(text)
	if !ok {
		return nil, false
	}
	return bytes.TrimRight(text[:len(text)-len(rest)], " \t\r\n"), true
}

func space(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\n' || b[0] == '\r' || b[0] == '\t') {
		b = b[1:]
	}
	return b
}

// valueOf returns the text from the value of a key in an object.
func valueOf(b []byte, key string) ([]byte, bool) {
	if b = space(b); len(b) == 0 || b[0] != '{' {
		return nil, false
	}
	b = space(b[1:])
	for len(b) > 0 && b[0] == '"' {
		rest, ok := skipString(b)
		if !ok {
			return nil, false
		}
		found := same(b[:len(b)-len(rest)], key)
		if b = space(rest); len(b) == 0 || b[0] != ':' {
			return nil, false
		}
		if b = b[1:]; found {
			return b, true
		}
		if b, ok = skip(b); !ok {
			return nil, false
		}
		if b = space(b); len(b) == 0 || b[0] != ',' {
			return nil, false
		}
		b = space(b[1:])
	}
	return nil, false
}

// element returns the text from the n-th element of an array.
func element(b []byte, n int) ([]byte, bool) {
	if b = space(b); len(b) == 0 || b[0] != '[' {
		return nil, false
	}
	b = space(b[1:])
	for ; n > 0; n-- {
		var ok bool
		if b, ok = skip(b); !ok {
			return nil, false
		}
		if b = space(b); len(b) == 0 || b[0] != ',' {
			return nil, false
		}
		b = b[1:]
	}
	b = space(b)
	return b, len(b) > 0 && b[0] != ']'
}

// same reports whether a quoted JSON string is a text.
func same(quoted []byte, text string) bool {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner) == text
	}
	var s string
	return json.Unmarshal(quoted, &s) == nil && s == text
}

// skipString returns the text after a string.
func skipString(b []byte) ([]byte, bool) {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return b[i+1:], true
		}
	}
	return nil, false
}

// skip returns the text after a value. It checks only that brackets match in number,
// strings aside.
func skip(b []byte) ([]byte, bool) {
	b = space(b)
	if len(b) == 0 {
		return nil, false
	}
	if b[0] == '"' {
		return skipString(b)
	}
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			rest, ok := skipString(b[i:])
			if !ok {
				return nil, false
			}
			i = len(b) - len(rest) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return b[i:], i > 0
			}
			if depth--; depth == 0 {
				return b[i+1:], true
			}
		case ',':
			if depth == 0 {
				return b[i:], i > 0
			}
		case ' ', '\n', '\r', '\t':
			if depth == 0 {
				return b[i:], true
			}
		}
	}
	return nil, depth == 0 // a number or a word at the end of the text
}
