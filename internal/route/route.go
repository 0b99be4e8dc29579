// Package route turns what clients asked for into names that are few: paths
// without the ids in them, by rule or by their looks. Whatever reads requests
// (spans, access logs, live traffic) calls them the same through it.
package route

import (
	"fmt"
	"regexp"
	"strings"
)

// Rule names the requests that match.
type Rule struct {
	re   *regexp.Regexp
	name []byte
	expr bool // name refers to groups
}

// ParseRule reads REGEX=NAME; the last = parts them. In NAME $1 stands for a
// group. Example is shown to who wrote something else.
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

// Append appends the name that the rule gives to s. It is false, and dst as it
// was, if the rule does not match.
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

// Methods are told apart; others are counted together as the last, for anybody
// may send whatever they like.
var Methods = [...]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE",
	"PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "REPORT", "SEARCH", "PURGE", "_OTHER"}

// NumMethods is len(Methods).
const NumMethods = len(Methods)

// Method returns the index in Methods.
func Method(b []byte) int {
	for i, m := range Methods {
		if string(b) == m {
			return i
		}
	}
	return NumMethods - 1
}

// StaticFiles is the route of all files of the page.
const StaticFiles = "{static}"

var staticTypes = func() map[string]bool {
	m := map[string]bool{}
	for ext := range strings.FieldsSeq("css js mjs map png jpg jpeg gif svg ico webp avif bmp woff woff2 ttf otf eot mp3 mp4 webm ogg wasm txt webmanifest") {
		m[ext] = true
	}
	return m
}()

// IsStatic says whether a path ends in the name of a file of the page.
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

// MaxSegments is how deep a path is looked at; what is deeper is cut off.
const MaxSegments = 10

// Next returns the first segment of path that is not empty, and what follows
// it. The segment is empty at the end of the path.
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

// AppendPath appends a path without its ids: {id} stands for a segment that
// IsID, and for such parts of others as Template replaces. Empty segments are
// left out, and those beyond MaxSegments. The root is /.
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
