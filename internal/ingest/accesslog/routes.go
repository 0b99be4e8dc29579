package accesslog

import (
	"fmt"
	"regexp"
	"strings"
)

// rule names the requests whose path matches.
type rule struct {
	re   *regexp.Regexp
	name string
	expr bool // name refers to groups
}

// parseRule reads REGEX=NAME; the last = parts them.
func parseRule(text string) (rule, error) {
	i := strings.LastIndexByte(text, '=')
	if i <= 0 || i+1 == len(text) {
		return rule{}, fmt.Errorf("%q is not REGEX=NAME, such as ^/shop/[a-z]+/$=/shop/{name}", text)
	}
	re, err := regexp.Compile(text[:i])
	if err != nil {
		return rule{}, err
	}
	return rule{re, text[i+1:], re.NumSubexp() > 0 && strings.Contains(text[i+1:], "$")}, nil
}

// methods are told apart; others are counted together, for anybody may send
// whatever they like.
var methods = [...]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE",
	"PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "REPORT", "SEARCH", "PURGE", "_OTHER"}

const otherMethod = len(methods) - 1

func methodOf(b []byte) int {
	for i, m := range methods {
		if string(b) == m {
			return i
		}
	}
	return otherMethod
}

// Operations that are no route.
const (
	invalidRequest = "invalid request" // not HTTP at all
	staticFiles    = "{static}"
	notFound       = "{not found}" // 404 where nothing is known to be
)

var staticTypes = func() map[string]bool {
	m := map[string]bool{}
	for ext := range strings.FieldsSeq("css js mjs map png jpg jpeg gif svg ico webp avif bmp woff woff2 ttf otf eot mp3 mp4 webm ogg wasm txt webmanifest") {
		m[ext] = true
	}
	return m
}()

// isStatic says whether a path ends in the name of a file of the page.
func isStatic(path []byte) bool {
	for i := len(path) - 1; i > 0 && len(path)-i <= 12; i-- {
		switch path[i] {
		case '.':
			return staticTypes[string(path[i+1:])]
		case '/':
			return false
		}
	}
	return false
}

// isID says whether a segment of a path looks like a key rather than a word:
// digits, a UUID, hex, base 64, an address, or mostly digits.
func isID(s []byte) bool {
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

// lastDot is where an extension of at most five letters begins, -1 without.
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
