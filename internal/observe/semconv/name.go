package semconv

import (
	"strings"

	"tailscope/internal/observe/sqltext"
	"tailscope/internal/route"
)

// appendSpanName appends a span's name in a form that names an operation rather than one call:
// SQL without its literals, paths and words without numbers.
func appendSpanName(dst []byte, name string) []byte {
	if len(name) > 4*MaxValue {
		name = name[:4*MaxValue]
	}
	if verb, table := sqltext.Summary(name); verb != "" && sqltext.Looks(name) {
		dst = append(dst, verb...)
		if table != "" {
			dst = append(dst, ' ')
			dst = append(dst, table...)
		}
		return dst
	}
	return route.Template(dst, name)
}

// appendPath appends the path of a URL without its query, its segments as templates.
func appendPath(dst []byte, s string) []byte {
	if _, rest, found := strings.Cut(s, "://"); found {
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			s = rest[i:]
		} else {
			s = "/"
		}
	}
	return route.Template(dst, s)
}
