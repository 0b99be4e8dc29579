package http1

import "encoding/binary"

// token marks the characters of a token (RFC 9110 section 5.6.2).
var token = func() (t [256]bool) {
	for c := '0'; c <= '9'; c++ {
		t[c] = true
	}
	for c := 'a'; c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = true, true
	}
	for _, c := range "!#$%&'*+-.^_`|~" {
		t[c] = true
	}
	return t
}()

// hasControl reports whether p holds a control character other than a tab.
func hasControl(p []byte) bool {
	const low, high, del = 0x2020202020202020, 0x8080808080808080, 0x7f7f7f7f7f7f7f7f
	for len(p) >= 8 {
		x := binary.LittleEndian.Uint64(p)
		d := x ^ del
		if ((x-low)&^x|(d-0x0101010101010101)&^d)&high != 0 && controlIn(p[:8]) {
			return true
		}
		p = p[8:]
	}
	return controlIn(p)
}

func controlIn(p []byte) bool {
	for _, c := range p {
		if c < ' ' && c != '\t' || c == 0x7f {
			return true
		}
	}
	return false
}

// Token reports whether p is a token, as methods and field names are.
func Token[P []byte | string](p P) bool {
	for i := range len(p) {
		if !token[p[i]] {
			return false
		}
	}
	return len(p) > 0
}

// Visible reports whether p has neither space nor control characters.
func Visible[P []byte | string](p P) bool {
	for i := range len(p) {
		if c := p[i]; c <= ' ' || c == 0x7f {
			return false
		}
	}
	return true
}

func trim(p []byte) []byte {
	for len(p) > 0 && (p[0] == ' ' || p[0] == '\t') {
		p = p[1:]
	}
	for len(p) > 0 && (p[len(p)-1] == ' ' || p[len(p)-1] == '\t') {
		p = p[:len(p)-1]
	}
	return p
}

// equalFold reports whether p is word, in any case. The word is in lower case.
func equalFold(p []byte, word string) bool {
	if len(p) != len(word) {
		return false
	}
	for i, c := range p {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != word[i] {
			return false
		}
	}
	return true
}

// Is reports whether p is name, in any case.
func Is[N []byte | string](p []byte, name N) bool {
	if len(p) != len(name) {
		return false
	}
	for i, c := range p {
		d := name[i]
		if c != d && (c|0x20 != d|0x20 || c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return true
}

// lookUpField returns the Known of a field name, by its length first.
func lookUpField(name []byte) Known {
	k := Other
	switch len(name) {
	case 2:
		k = TE
	case 4:
		k = Host
	case 6:
		k = Expect
	case 7:
		if k = Upgrade; name[0]|0x20 == 't' {
			k = Trailer
		}
	case 10:
		if k = Connection; name[0]|0x20 == 'k' {
			k = KeepAlive
		}
	case 14:
		k = ContentLength
	case 15:
		k = XForwardedFor
	case 16:
		switch name[0] | 0x20 {
		case 'p':
			k = ProxyConnection
		case 't':
			if k = Mark; name[10]|0x20 == 'p' {
				k = Passed
			}
		default:
			k = XForwardedHost
		}
	case 17:
		if k = TransferEncoding; name[0]|0x20 == 'x' {
			k = XForwardedProto
		}
	}
	if k != Other && !equalFold(name, names[k]) {
		return Other
	}
	return k
}

// cutElement returns the first element of a comma-separated list, and the rest.
func cutElement(list []byte) (element, rest []byte) {
	for i, c := range list {
		if c == ',' {
			return trim(list[:i]), list[i+1:]
		}
	}
	return trim(list), nil
}

// parseRepeatedNumber parses a list that repeats one number (RFC 9112 section 6.3).
func parseRepeatedNumber(list []byte) (n int64, ok bool) {
	for first := true; first || len(list) > 0; first = false {
		var one []byte
		one, list = cutElement(list)
		v, ok := parseNumber(one)
		if !ok || !first && v != n {
			return 0, false
		}
		n = v
	}
	return n, true
}

// parseNumber parses decimal digits. It returns false for an empty p, any other character,
// and a number that overflows.
func parseNumber(p []byte) (n int64, ok bool) {
	if len(p) == 0 || len(p) > 18 {
		return 0, false
	}
	for _, c := range p {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}
