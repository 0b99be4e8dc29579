package sqltext

import "strings"

type kind uint8

const (
	end     kind = iota
	word         // keyword or bare name
	name         // a name in backquotes or brackets
	quoted       // in double quotes, where a name is expected
	literal      // string, number, parameter
	punct
)

type token struct {
	kind  kind
	char  byte // of punct, else 0
	space bool // something separated it from the token before
	text  string
}

// is reports whether t is the bare word keyword, which is in upper case.
func (t token) is(keyword string) bool {
	return t.kind == word && len(t.text) == len(keyword) && strings.EqualFold(t.text, keyword)
}

// lexer cuts SQL into tokens. It reads each byte a bounded number of times.
type lexer struct {
	src       string
	at        int
	backslash bool // \' inside a string does not end it
	torn      bool // the text contradicts the reading
	prev      token
}

func (l *lexer) next() token {
	space := l.skip()
	t := l.token(space)
	t.space = space
	l.prev = t
	return t
}

// skip skips white space and comments.
func (l *lexer) skip() bool {
	start := l.at
	for l.at < len(l.src) {
		c := l.src[l.at]
		switch {
		case c <= ' ':
			l.at++
		case c == '-' && l.byteAt(1) == '-':
			l.line()
		case c == '#' && l.byteAt(1) != '>' && l.byteAt(1) != '-':
			l.line()
		case c == '/' && l.byteAt(1) == '*':
			depth := 1
			for l.at += 2; l.at < len(l.src) && depth > 0; {
				switch {
				case l.src[l.at] == '*' && l.byteAt(1) == '/':
					depth--
					l.at += 2
				case l.src[l.at] == '/' && l.byteAt(1) == '*':
					depth++
					l.at += 2
				default:
					l.at++
				}
			}
		default:
			return l.at > start
		}
	}
	return l.at > start
}

func (l *lexer) line() {
	if i := strings.IndexByte(l.src[l.at:], '\n'); i >= 0 {
		l.at += i + 1
	} else {
		l.at = len(l.src)
	}
}

func (l *lexer) byteAt(i int) byte {
	if l.at+i < len(l.src) {
		return l.src[l.at+i]
	}
	return 0
}

func (l *lexer) token(space bool) token {
	if l.at >= len(l.src) {
		return token{kind: end}
	}
	start := l.at
	c := l.src[l.at]
	switch {
	case isLetter(c):
		for l.at < len(l.src) && (isLetter(l.src[l.at]) || isDigit(l.src[l.at]) || l.src[l.at] == '$') {
			l.at++
		}
		w := l.src[start:l.at]
		if l.byteAt(0) == '\'' && len(w) <= 2 || l.byteAt(0) == '\'' && w[0] == '_' {
			// N'..' E'..' B'..' X'..' r'..' q'[..]' _utf8'..'
			if w[len(w)-1]|0x20 == 'q' {
				l.alternative()
			} else {
				l.str('\'', l.backslash || w[len(w)-1]|0x20 == 'e')
			}
			return token{kind: literal}
		}
		if l.byteAt(0) == '&' && l.byteAt(1) == '\'' && len(w) == 1 && w[0]|0x20 == 'u' {
			l.at++
			l.str('\'', false)
			return token{kind: literal}
		}
		if l.byteAt(0) == '\'' {
			l.torn = true // a word cannot touch a string
		}
		return token{kind: word, text: w}
	case isDigit(c), c == '.' && isDigit(l.byteAt(1)) && l.prev.kind != word && l.prev.kind != name && l.prev.kind != quoted:
		l.number()
		return token{kind: literal}
	case c == '\'':
		l.str('\'', l.backslash)
		return token{kind: literal}
	case c == '"':
		l.str('"', l.backslash)
		if l.nameExpected() {
			return token{kind: quoted, text: l.src[start:l.at]}
		}
		return token{kind: literal}
	case c == '`':
		return l.enclosed('`')
	case c == '[' && (space || l.prev.char == '.' || l.prev.char == '(' || l.prev.char == ',') && l.bracketed():
		return l.enclosed(']')
	case c == '$':
		if isDigit(l.byteAt(1)) {
			l.at++
			l.number()
			return token{kind: literal}
		}
		i := l.at + 1
		for i < len(l.src) && (isLetter(l.src[i]) || isDigit(l.src[i])) {
			i++
		}
		if i < len(l.src) && l.src[i] == '$' {
			tag := l.src[l.at : i+1]
			if j := strings.Index(l.src[i+1:], tag); j >= 0 {
				l.at = i + 1 + j + len(tag)
			} else {
				l.at = len(l.src)
			}
			return token{kind: literal}
		}
		l.at = i
		return token{kind: literal} // $name
	case c == ':' && isLetter(l.byteAt(1)) && !l.prevChar(':'), c == '@' && isLetter(l.byteAt(1)):
		l.at++
		for l.at < len(l.src) && (isLetter(l.src[l.at]) || isDigit(l.src[l.at])) {
			l.at++
		}
		return token{kind: literal}
	case c == '%' && (l.byteAt(1) == 's' || l.byteAt(1) == 'd') && !isLetter(l.byteAt(2)):
		l.at += 2
		return token{kind: literal}
	case c == '%' && l.byteAt(1) == '(':
		i := 2
		for isLetter(l.byteAt(i)) || isDigit(l.byteAt(i)) {
			i++
		}
		if l.byteAt(i) == ')' && (l.byteAt(i+1) == 's' || l.byteAt(i+1) == 'd') {
			l.at += i + 2
			return token{kind: literal}
		}
		l.at++
	case c == '?':
		l.at++
		for isDigit(l.byteAt(0)) {
			l.at++
		}
		return token{kind: literal}
	default:
		if c == '\\' {
			l.torn = true // it has no meaning outside a string
		}
		l.at++
	}
	return token{kind: punct, char: c, text: l.src[start:l.at]}
}

// bracketed reports whether a name in brackets begins at l.at, rather than an array or
// an index.
func (l *lexer) bracketed() bool {
	if c := l.byteAt(1); !isLetter(c) && c != '#' {
		return false
	}
	for i := 1; ; i++ {
		switch c := l.byteAt(i); {
		case c == ']':
			return true
		case !isLetter(c) && !isDigit(c) && c != ' ' && c != '#' && c != '$' && c != '.' && c != '-' || i > 128:
			return false
		}
	}
}

func (l *lexer) prevChar(c byte) bool { return l.at > 0 && l.src[l.at-1] == c }

// nameExpected reports whether "x" is a name: after a keyword that takes one or beside a
// dot. Otherwise it is a string (MySQL).
func (l *lexer) nameExpected() bool {
	p := l.prev
	return p.char == '.' || l.byteAt(0) == '.' ||
		p.is("FROM") || p.is("JOIN") || p.is("INTO") || p.is("UPDATE") || p.is("TABLE") || p.is("ONLY") || p.is("EXISTS") || p.is("WITH")
}

// str skips a string. A doubled quote is part of it.
func (l *lexer) str(quote byte, backslash bool) {
	for l.at++; l.at < len(l.src); l.at++ {
		switch c := l.src[l.at]; {
		case c == '\\' && backslash:
			l.at++
		case c == quote:
			l.at++
			if l.byteAt(0) != quote {
				if n := l.byteAt(0); isLetter(n) || isDigit(n) {
					l.torn = true // a string cannot touch a word
				}
				return
			}
		}
	}
	l.at = len(l.src)
	l.torn = true
}

// alternative skips Oracle's q'[..]'; l.at is at the quote.
func (l *lexer) alternative() {
	c := l.byteAt(1)
	switch c {
	case '[':
		c = ']'
	case '(':
		c = ')'
	case '{':
		c = '}'
	case '<':
		c = '>'
	}
	for l.at += 2; l.at < len(l.src); l.at++ {
		if l.src[l.at] == c && l.byteAt(1) == '\'' {
			l.at += 2
			return
		}
	}
	l.at = len(l.src)
	l.torn = true
}

func (l *lexer) enclosed(closing byte) token {
	start := l.at
	if i := strings.IndexByte(l.src[l.at+1:], closing); i >= 0 {
		l.at += i + 2
		return token{kind: name, text: l.src[start:l.at]}
	}
	l.at = len(l.src)
	return token{kind: literal}
}

// number skips digits, fractions, exponents and hexadecimal.
func (l *lexer) number() {
	for l.at < len(l.src) {
		c := l.src[l.at]
		switch {
		case isDigit(c), c == '.', isLetter(c):
		case (c == '+' || c == '-') && l.src[l.at-1]|0x20 == 'e' && isDigit(l.byteAt(1)):
		default:
			return
		}
		l.at++
	}
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isLetter(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c >= 0x80
}
