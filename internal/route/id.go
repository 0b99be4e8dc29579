package route

// IsID reports whether a segment of a path looks like a key rather than a word: digits,
// a UUID, hex, base 64, an address, or mostly digits.
func IsID(s []byte) bool {
	if len(s) > 64 {
		return true
	}
	if i := lastDot(s); i > 0 { // 4711.pdf
		s = s[:i]
	}
	var digits, hexes, upper, lower, dashes int
	for i, c := range s {
		switch {
		case c >= '0' && c <= '9':
			digits++
			hexes++
		case c >= 'a' && c <= 'f':
			lower++
			hexes++
		case c >= 'A' && c <= 'F':
			upper++
			hexes++
		case c >= 'a' && c <= 'z':
			lower++
		case c >= 'A' && c <= 'Z':
			upper++
		case c == '-':
			dashes++
		case c == '@', c == '%' && i+2 < len(s) && s[i+1] == '4' && s[i+2] == '0':
			return true
		}
	}
	n := len(s)
	switch {
	case n == 0:
		return false
	case digits == n:
		return true
	case n >= 5 && 2*digits >= n:
		return true
	case hexes+dashes == n && hexes >= 8 && digits > 0 && (dashes == 0 || hexes >= 16):
		return true
	case hexes == n && n >= 16:
		return true
	case n >= 16 && digits >= 2 && upper >= 2 && lower >= 2 && dashes < 3:
		return true
	}
	return n >= 20 && digits >= 5 && dashes < 3
}

// lastDot returns the index of the dot before an extension of at most five letters, or
// -1.
func lastDot(s []byte) int {
	for i := len(s) - 1; i >= 0 && len(s)-i <= 6; i-- {
		c := s[i]
		if c == '.' {
			return i
		}
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9') {
			return -1
		}
	}
	return -1
}
