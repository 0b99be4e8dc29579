// Package route turns requested paths into few names: paths without ids, by the
// operator's rules or by what the segments look like. Spans, access logs and live
// traffic use the same functions, so that a request has one name wherever it is read.
package route

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
)

// Rule gives the requests that match a regular expression a name.
type Rule struct {
	re   *regexp.Regexp
	name []byte
	expr bool // the name refers to groups
}

// ParseRule parses REGEX=NAME; the last = separates the two. $1 in NAME stands for a
// group. The error shows example.
func ParseRule(text, example string) (Rule, error) {
	i := strings.LastIndexByte(text, '=')
	if i <= 0 || i+1 == len(text) {
		return Rule{}, fmt.Errorf("%q is not REGEX=NAME, such as %s", text, example)
	}
	re, err := regexp.Compile(text[:i])
	if err != nil {
		return Rule{}, err
	}
	return Rule{re, []byte(text[i+1:]), re.NumSubexp() > 0 && strings.Contains(text[i+1:], "$")}, nil
}

// Append appends the name that the rule gives to s. It returns false, and dst unchanged,
// if the rule does not match.
func (r *Rule) Append(dst, s []byte) ([]byte, bool) {
	if r.expr {
		match := r.re.FindSubmatchIndex(s)
		if match == nil {
			return dst, false
		}
		return r.re.Expand(dst, r.name, s, match), true
	}
	if !r.re.Match(s) {
		return dst, false
	}
	return append(dst, r.name...), true
}

// Methods lists the methods that are counted apart. Any other counts as the last, since
// a client may send any word.
var Methods = [...]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE",
	"PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "REPORT", "SEARCH", "PURGE", "QUERY", "_OTHER"}

// NumMethods is len(Methods).
const NumMethods = len(Methods)

// PathOf returns the path of a request's target or URL: without scheme and host, and
// without parameters, query and fragment.
func PathOf(target string) string {
	if target != "" && target[0] != '/' {
		if i := strings.Index(target, "://"); i > 0 && i < 8 {
			target = target[i+3:]
			if i = strings.IndexAny(target, "/?#"); i < 0 {
				return "/"
			}
			target = target[i:]
		}
	}
	for i := range len(target) {
		if c := target[i]; c == '?' || c == '#' || c == ';' {
			target = target[:i]
			break
		}
	}
	return cmp.Or(target, "/")
}

// Method returns the index of b in Methods.
func Method(b []byte) int {
	for i, m := range Methods {
		if string(b) == m {
			return i
		}
	}
	return NumMethods - 1
}

// StaticFiles is the route of all static files of a page.
const StaticFiles = "{static}"

var staticTypes = func() map[string]bool {
	m := map[string]bool{}
	for ext := range strings.FieldsSeq("css js mjs map png jpg jpeg gif svg ico webp avif bmp woff woff2 ttf otf eot mp3 mp4 webm ogg wasm txt webmanifest") {
		m[ext] = true
	}
	return m
}()

// IsStatic reports whether a path ends in the name of a static file of a page.
func IsStatic(path []byte) bool {
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

// MaxSegments bounds the segments of a path that are read; deeper ones are cut off.
const MaxSegments = 10

// Next returns the first segment of path that is not empty, and the rest after it. The
// segment is empty at the end of the path.
func Next(path []byte) (segment, rest []byte) {
	i := 0
	for i < len(path) && path[i] == '/' {
		i++
	}
	j := i
	for j < len(path) && path[j] != '/' {
		j++
	}
	return path[i:j], path[j:]
}

// AppendPath appends a path without its ids: {id} replaces each segment that IsID
// accepts, and the parts of others that Template replaces. Empty segments and those
// beyond MaxSegments are left out. The root is /.
func AppendPath(dst, path []byte) []byte {
	begin := len(dst)
	for range MaxSegments {
		var segment []byte
		if segment, path = Next(path); len(segment) == 0 {
			break
		}
		dst = append(dst, '/')
		if IsID(segment) {
			dst = append(dst, "{id}"...)
		} else {
			dst = appendWords(dst, segment)
		}
	}
	if len(dst) == begin {
		dst = append(dst, '/')
	}
	return dst
}
