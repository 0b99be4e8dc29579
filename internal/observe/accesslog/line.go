package accesslog

import (
	"bytes"
	"unicode/utf8"
)

// Reason is the reason why a line was not used.
type Reason uint8

const (
	Mismatch     Reason = iota // not of the format
	BadTime                    //
	BadDuration                //
	NoDuration                 // the duration is "-" or absent
	BadStatus                  //
	NoRequest                  // neither a request line nor a path
	TooLong                    // longer than MaxLine
	TooOld                     // older than the retention
	TooNew                     // ahead of the server's clock
	Earlier                    // before Import.Since
	LongDuration               // longer than Options.Longest
	reasons
)

var reasonNames = [reasons]string{
	"other_format", "bad_time", "bad_duration", "no_duration", "bad_status", "no_request", "too_long", "too_old", "too_new", "before_since", "long_duration",
}

func (r Reason) String() string { return reasonNames[r] }

// MaxLine bounds the length of a line, in bytes.
const MaxLine = 64 << 10

// problem is a fault of a line, and its place.
type problem struct {
	reason Reason
	column int    // from 1, in bytes
	detail string // static, or a part of the format
}

// parser reads lines of one format. It is not for concurrent use.
type parser struct {
	f       *Format
	values  [numSlots][]byte // of the last line; they point into it or into arena
	problem problem
	arena   []byte // of texts that were unescaped
	key     []byte // path of a JSON field
	clock   clock
}

func (p *parser) fail(r Reason, at int, detail string) bool {
	p.problem = problem{r, at + 1, detail}
	return false
}

// split splits a line into p.values.
func (p *parser) split(line []byte) bool {
	clear(p.values[:])
	p.arena = p.arena[:0]
	if p.f.json != nil {
		return p.splitJSON(line)
	}
	i := 0
	parts := p.f.parts
	for n := range parts {
		v := &parts[n]
		if len(v.literal) > 0 {
			if len(line)-i < len(v.literal) || string(line[i:i+len(v.literal)]) != v.literal {
				return p.fail(Mismatch, i, v.literal)
			}
			i += len(v.literal)
		}
		if v.name == "" {
			break
		}
		next := ""
		if n+1 < len(parts) {
			next = parts[n+1].literal
		}
		end := p.end(line, i, v, next)
		if end < 0 {
			return p.fail(Mismatch, i, next)
		}
		if v.slot != unused {
			p.values[v.slot] = p.unescape(line[i:end])
		}
		i = end
	}
	if i < len(line) {
		return p.fail(Mismatch, i, "")
	}
	return true
}

// end returns the end of the value of v that begins at i, or -1 if next does not follow.
func (p *parser) end(line []byte, i int, v *part, next string) int {
	switch v.as {
	case fixedTime:
		n := len("10/Oct/2000:13:55:36 -0700")
		if v.name == "time_iso8601" {
			n = len("2000-10-10T13:55:36-07:00")
		}
		if len(line)-i < n {
			return -1
		}
		return i + n
	case list:
		return listEnd(line, i, next)
	}
	if next == "" {
		return len(line)
	}
	if p.f.escape == escapeJSON && next[0] == '"' {
		return quoteEnd(line, i, next)
	}
	if len(next) == 1 {
		if j := bytes.IndexByte(line[i:], next[0]); j >= 0 {
			return i + j
		}
		return -1
	}
	for j := i; ; j++ {
		k := bytes.IndexByte(line[j:], next[0])
		if k < 0 {
			return -1
		}
		j += k
		if len(line)-j >= len(next) && string(line[j:j+len(next)]) == next {
			return j
		}
	}
}

// quoteEnd returns the index of next, which begins with a quote, skipping escaped ones.
func quoteEnd(line []byte, i int, next string) int {
	for j := i; j < len(line); j++ {
		switch line[j] {
		case '\\':
			j++
		case '"':
			if len(line)-j >= len(next) && string(line[j:j+len(next)]) == next {
				return j
			}
		}
	}
	return -1
}

// listEnd returns the end of a list of upstreams' values: after an item that neither ",
// " nor " : " follows.
func listEnd(line []byte, i int, next string) int {
	for j := i; j < len(line); j++ {
		c := line[j]
		switch {
		case c == ',' && j+1 < len(line) && line[j+1] == ' ':
			j++
		case c == ' ' && j+2 < len(line) && line[j+1] == ':' && line[j+2] == ' ':
			j += 2
		case next != "" && c == next[0] && len(line)-j >= len(next) && string(line[j:j+len(next)]) == next:
			return j
		}
	}
	if next == "" {
		return len(line)
	}
	return -1
}

// unescape reverses nginx's escaping of a value. It returns one without a backslash
// unchanged.
func (p *parser) unescape(v []byte) []byte {
	if p.f.escape == escapeNone || bytes.IndexByte(v, '\\') < 0 {
		return v
	}
	begin := len(p.arena)
	for i := 0; i < len(v); i++ {
		c := v[i]
		if c != '\\' || i+1 == len(v) {
			p.arena = append(p.arena, c)
			continue
		}
		i++
		switch c = v[i]; c {
		case 'x':
			if i+2 < len(v) && hex(v[i+1]) >= 0 && hex(v[i+2]) >= 0 {
				p.arena = append(p.arena, byte(hex(v[i+1])<<4|hex(v[i+2])))
				i += 2
				continue
			}
			p.arena = append(p.arena, '\\', c)
		case 'u':
			r := rune(-1)
			if i+4 < len(v) {
				r = 0
				for _, h := range v[i+1 : i+5] {
					if hex(h) < 0 {
						r = -1
						break
					}
					r = r<<4 | rune(hex(h))
				}
			}
			if r < 0 {
				p.arena = append(p.arena, '\\', c)
				continue
			}
			p.arena = utf8.AppendRune(p.arena, r)
			i += 4
		case 'n':
			p.arena = append(p.arena, '\n')
		case 't':
			p.arena = append(p.arena, '\t')
		case 'r':
			p.arena = append(p.arena, '\r')
		case 'b':
			p.arena = append(p.arena, '\b')
		case 'f':
			p.arena = append(p.arena, '\f')
		default:
			p.arena = append(p.arena, c)
		}
	}
	return p.arena[begin:]
}

func hex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
