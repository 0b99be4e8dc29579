package route

import (
	"strings"
	"unsafe"
)

// Template appends s with {id} in place of what looks like the identity of one thing:
// numbers, UUIDs, hashes, addresses. It leaves out the query of a path.
func Template(dst []byte, s string) []byte {
	for i := 0; i < len(s); {
		c := s[i]
		if isBoundary(c) {
			if c == '?' && i > 0 && strings.IndexByte(s[:i], '/') >= 0 {
				// the query of a path: up to the next space
				j := strings.IndexByte(s[i:], ' ')
				if j < 0 {
					break
				}
				i += j
				continue
			}
			dst = append(dst, c)
			i++
			continue
		}
		j := i + 1
		for j < len(s) && !isBoundary(s[j]) {
			j++
		}
		dst = appendWord(dst, s[i:j], i > 0 && s[i-1] == '/')
		i = j
	}
	return dst
}

func isBoundary(c byte) bool {
	switch c {
	case '/', ' ', ',', ';', '=', '(', ')', '[', ']', '?', '&', '|', '"', '\'', '#':
		return true
	}
	return false
}

// appendWords appends one segment of a path as Template does.
func appendWords(dst, segment []byte) []byte {
	s := unsafe.String(unsafe.SliceData(segment), len(segment)) // s is only read, and only here
	for i := 0; i < len(s); {
		j := i
		for j < len(s) && !isBoundary(s[j]) {
			j++
		}
		if j == i {
			dst = append(dst, s[i])
			i++
			continue
		}
		dst = appendWord(dst, s[i:j], i == 0)
		i = j
	}
	return dst
}

// appendWord appends one word, with {id} for it or for its parts.
func appendWord(dst []byte, w string, segment bool) []byte {
	digits, hex, letters := 0, 0, 0
	for i := 0; i < len(w); i++ {
		c := w[i]
		switch {
		case '0' <= c && c <= '9':
			digits++
		case 'a' <= c && c <= 'f', 'A' <= c && c <= 'F':
			hex++
			letters++
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
			letters++
		case c == '{', c == '}', c == '<', c == '*':
			return append(dst, w...) // it is already a template
		case c == '@' && segment && i > 0:
			return append(dst, "{id}"...)
		}
	}
	switch {
	case digits == 0:
		return append(dst, w...)
	case segment && letters == 0,
		digits+hex == len(w) && len(w) >= 8,
		isUUID(w),
		digits+letters == len(w) && len(w) >= 16 && digits >= 3:
		return append(dst, "{id}"...)
	}
	// Numbers of two digits or more among the word's parts.
	for i := 0; i < len(w); {
		j := i
		for j < len(w) && isWordPart(w[j]) {
			j++
		}
		if j == i {
			dst = append(dst, w[i])
			i++
			continue
		}
		if p := w[i:j]; isNumber(p) && len(p) >= 2 || len(p) >= 8 && isHexadecimal(p) {
			dst = append(dst, "{id}"...)
		} else {
			dst = append(dst, p...)
		}
		i = j
	}
	return dst
}

func isWordPart(c byte) bool {
	return c != '-' && c != '_' && c != '.' && c != ':' && c != '~' && c != '+'
}

func isNumber(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// isHexadecimal reports whether s has only hexadecimal digits, at least one of them
// decimal.
func isHexadecimal(s string) bool {
	decimal := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case '0' <= c && c <= '9':
			decimal = true
		case 'a' <= c|0x20 && c|0x20 <= 'f':
		default:
			return false
		}
	}
	return decimal
}

func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f') {
				return false
			}
		}
	}
	return true
}
