package sqltext

import "strings"

// MaxText bounds the bytes that Append appends. A longer text ends in " ...".
const MaxText = 2048

// maxInput bounds the bytes that are read of a statement: the rest is mostly the rows of
// an insert.
const maxInput = 16 << 10

const ellipsis = " ..."

// Append appends q without comments and literals: strings, numbers and bound parameters
// become ?, a list of them a single ?, runs of space one space. So statements that
// differ in nothing else give the same text, and Append leaves its own result unchanged.
// From the first ambiguity on it drops the text. It allocates nothing beyond dst, unless
// the text's quotes do not match.
func Append(dst []byte, q string) []byte {
	whole := len(q) <= maxInput
	if !whole {
		q = q[:maxInput]
	}
	escapes := strings.IndexByte(q, '\\') >= 0
	out, ok := appendStripped(dst, q, true)
	if !ok && escapes && whole {
		out, ok = appendStripped(dst, q, false)
	}
	// A string that the cut left open is not evidence against a reading, if there is only
	// one.
	if !ok && (whole || escapes) {
		// Neither reading holds: keep what came before the first quote.
		i := max(0, strings.IndexAny(q, "'\"$`\\"))
		out, _ = appendStripped(dst, q[:i]+" ?", true)
	}
	if !whole && !strings.HasSuffix(string(out[max(len(dst), len(out)-len(ellipsis)):]), ellipsis) {
		out = shorten(out, len(dst))
	}
	return out
}

// shorten marks what was appended since start as cut off.
func shorten(dst []byte, start int) []byte {
	if len(dst) == start {
		return append(dst, ellipsis[1:]...)
	}
	return append(dst, ellipsis...)
}

// Strip returns the text that Append appends.
func Strip(q string) string { return string(Append(make([]byte, 0, min(len(q), MaxText)+8), q)) }

// mark is a token that was written.
type mark struct {
	kind  kind
	char  byte
	space bool
	at    int32 // length of dst before the token and its space
}

// marks is a ring of the last tokens that were written.
type marks struct {
	ring [32]mark
	n    int // number of tokens written
	low  int // the first that the ring still holds
}

// back returns the i-th from the end, or the zero mark if the ring lacks it.
func (m *marks) back(i int) mark {
	if i = m.n - 1 - i; i < m.low {
		return mark{}
	}
	return m.ring[i%len(m.ring)]
}

func (m *marks) push(x mark) {
	m.ring[m.n%len(m.ring)] = x
	m.n++
	m.low = max(m.low, m.n-len(m.ring))
}

// drop removes the last n and returns the length of dst before them.
func (m *marks) drop(n int) int {
	at := m.back(n - 1).at
	m.n -= n
	return int(at)
}

// appendStripped appends the stripped text. It returns false if the reading of backslashes cannot
// be right: a string without end, or one that touches a word.
func appendStripped(dst []byte, q string, backslash bool) ([]byte, bool) {
	l := lexer{src: q, backslash: backslash}
	var written marks
	start := len(dst)
	for {
		t := l.next()
		if t.kind == end {
			return dst, !l.torn
		}
		if t.kind == literal {
			// "- 5" after an operator is a literal too.
			for {
				m, p := written.back(0), written.back(1)
				if m.char != '-' || p.kind != punct || p.char == ')' || p.char == ']' || p.char == '#' {
					break
				}
				t.space = m.space
				dst = dst[:written.drop(1)]
			}
			// "?, ?" is "?".
			if written.back(0).char == ',' && written.back(1).kind == literal {
				dst = dst[:written.drop(1)]
				continue
			}
		}
		if t.char == ')' && written.back(0).kind == literal && written.back(1).char == '(' && written.back(2).char == ',' &&
			written.back(3).char == ')' && written.back(4).kind == literal && written.back(5).char == '(' {
			// "(?), (?)" is "(?)".
			dst = dst[:written.drop(3)]
			continue
		}
		if len(dst)-start+1+len(t.text) > MaxText-len(ellipsis) {
			for written.n > written.low && written.back(0).kind == quoted { // a name only by what followed it
				dst = dst[:written.drop(1)]
			}
			return shorten(dst, start), !l.torn
		}
		written.push(mark{t.kind, t.char, t.space, int32(len(dst))})
		if len(dst) > start && t.space && t.char != ',' && t.char != ')' && dst[len(dst)-1] != '(' {
			dst = append(dst, ' ')
		}
		if t.kind == literal {
			dst = append(dst, '?')
		} else {
			dst = append(dst, t.text...)
		}
	}
}
