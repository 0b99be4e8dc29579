package expr

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

type token struct {
	kind       kind
	text       string // as written; of a word in the old notation, the whole of it
	start, end int    // bytes
}

type kind uint8

const (
	tEnd kind = iota
	tNumber
	tWord
	tString
	tBracket // [ to ], the whole
	tOld     // host-service-item, up to the bracket
	tSign    // operators and punctuation
)

// lexer cuts a source into tokens, one at a time.
type lexer struct {
	src string
	pos int
	// operand says that a value may begin here, and old how long it is if it is in
	// the old notation, else 0.
	operand bool
	old     func(rest string) int
}

// signs, longest first.
var signs = []string{"==", "!=", "<=", ">=", "=~", "!~", "&&", "||",
	"+", "-", "*", "/", "%", "^", "<", ">", "=", "!", "(", ")", "{", "}", ","}

func (l *lexer) next() (token, error) {
	l.blank()
	start := l.pos
	if start == len(l.src) {
		return token{kind: tEnd, start: start, end: start}, nil
	}
	if l.operand {
		if n := l.old(l.src[start:]); n > 0 {
			return l.token(tOld, n), nil
		}
	}
	c := l.src[start]
	switch {
	case digit(c) || c == '.' && start+1 < len(l.src) && digit(l.src[start+1]):
		return l.token(tNumber, numberLength(l.src[start:])), nil
	case letter(c):
		return l.token(tWord, wordLength(l.src[start:])), nil
	case c == '"' || c == '\'' || c == '`':
		n := stringLength(l.src[start:])
		if n < 0 {
			return token{}, l.fail(start, "this string does not end", "close it with "+string(c))
		}
		return l.token(tString, n), nil
	case c == '[':
		n := strings.IndexByte(l.src[start:], ']')
		if n < 0 {
			return token{}, l.fail(start, "this bracket does not end", "close it with ]")
		}
		return l.token(tBracket, n+1), nil
	}
	for _, s := range signs {
		if strings.HasPrefix(l.src[start:], s) {
			return l.token(tSign, len(s)), nil
		}
	}
	r, _ := utf8.DecodeRuneInString(l.src[start:])
	switch r {
	case '$':
		return token{}, l.fail(start, "$ has no meaning here", "$label works in a check with each, $$HOSTNAME$$ where a check names its host")
	case ']':
		return token{}, l.fail(start, "this bracket was not opened", "")
	case utf8.RuneError:
		return token{}, l.fail(start, "this is not UTF-8", "")
	}
	return token{}, l.fail(start, fmt.Sprintf("%q has no meaning here", r), "")
}

// token makes a token of the next n bytes.
func (l *lexer) token(k kind, n int) token {
	t := token{kind: k, text: l.src[l.pos : l.pos+n], start: l.pos, end: l.pos + n}
	l.pos += n
	return t
}

// blank skips spaces and comments, from # to the end of the line.
func (l *lexer) blank() {
	for l.pos < len(l.src) {
		switch l.src[l.pos] {
		case ' ', '\t', '\n', '\r':
			l.pos++
		case '#':
			n := strings.IndexByte(l.src[l.pos:], '\n')
			if n < 0 {
				n = len(l.src) - l.pos
			}
			l.pos += n
		default:
			return
		}
	}
}

func (l *lexer) fail(offset int, message, hint string) error {
	return newError(l.src, offset, message, hint)
}

// newError places a mistake in src.
func newError(src string, offset int, message, hint string) *Error {
	before := src[:min(offset, len(src))]
	line := before[strings.LastIndexByte(before, '\n')+1:]
	return &Error{Offset: offset, Line: 1 + strings.Count(before, "\n"),
		Column: 1 + utf8.RuneCountInString(line), Message: message, Hint: hint}
}

func digit(c byte) bool  { return '0' <= c && c <= '9' }
func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_' || c == ':' }

func digits(s string) int {
	n := 0
	for n < len(s) && digit(s[n]) {
		n++
	}
	return n
}

// numberLength is that of 12, 1.5, .5, 1e-3 at the beginning of s.
func numberLength(s string) int {
	n := digits(s)
	if n < len(s) && s[n] == '.' {
		n += 1 + digits(s[n+1:])
	}
	if n < len(s) && s[n]|0x20 == 'e' {
		m := n + 1
		if m < len(s) && (s[m] == '+' || s[m] == '-') {
			m++
		}
		if d := digits(s[m:]); d > 0 {
			n = m + d
		}
	}
	return n
}

// wordLength is that of a name at the beginning of s; p99.9 is one.
func wordLength(s string) int {
	n := 1
	for n < len(s) && (letter(s[n]) || digit(s[n])) {
		n++
	}
	if s[0]|0x20 == 'p' && n > 1 && digits(s[1:n]) == n-1 && n+1 < len(s) && s[n] == '.' && digit(s[n+1]) {
		n += 1 + digits(s[n+1:])
	}
	return n
}

// stringLength is that of the quoted string s begins with, -1 if it does not end.
func stringLength(s string) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == s[0]:
			return i + 1
		case s[i] == '\\' && s[0] != '`':
			i++
		}
	}
	return -1
}
