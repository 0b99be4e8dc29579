package requests

import (
	"unicode/utf8"
)

// escape says how a value is written where it stands.
type escape uint8

const (
	asIs       escape = iota
	inURL             // of a path or a query: everything but RFC 3986's unreserved characters as %XX
	inJSON            // within the quotes of a JSON string (RFC 8259, section 7)
	inHeader          // a header field's value: what ends a line is left out
	numEscapes        //
)

const hexDigits = "0123456789ABCDEF"

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

// appendEscaped appends v as it must be written there.
func appendEscaped[T string | []byte](dst []byte, v T, how escape) []byte {
	switch how {
	case inURL:
		for i := range len(v) {
			if c := v[i]; unreserved(c) {
				dst = append(dst, c)
			} else {
				dst = append(dst, '%', hexDigits[c>>4], hexDigits[c&15])
			}
		}
	case inJSON:
		dst = appendJSON(dst, v)
	case inHeader:
		for i := range len(v) {
			if c := v[i]; c >= ' ' && c != 0x7f || c == '\t' {
				dst = append(dst, c)
			}
		}
	default:
		dst = append(dst, v...)
	}
	return dst
}

func appendJSON[T string | []byte](dst []byte, v T) []byte {
	for i := 0; i < len(v); {
		switch c := v[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		case c < utf8.RuneSelf:
			dst = append(dst, c)
		default:
			var rest [utf8.UTFMax]byte
			n := copy(rest[:], v[i:])
			r, size := utf8.DecodeRune(rest[:n])
			dst = utf8.AppendRune(dst, r) // U+FFFD for bytes that are not UTF-8
			i += size
			continue
		}
		i++
	}
	return dst
}
