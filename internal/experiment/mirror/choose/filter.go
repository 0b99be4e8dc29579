package choose

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"tailscope/internal/experiment/mirror/pair"
)

// filters are conditions on a request that come before the share.
type filters struct {
	methods []string
	paths   []*regexp.Regexp
	headers []headerRule
	unsafe  bool
}

type headerRule struct {
	name string
	re   *regexp.Regexp
}

func (f *filters) compile(o *Options) error {
	var errs []error
	f.unsafe = o.Unsafe
	for _, m := range o.Methods {
		switch m = strings.TrimSpace(m); {
		case m == "CONNECT":
			errs = append(errs, errors.New("method: CONNECT is of tunnels, which cannot be copied"))
		case !httpguts.ValidHeaderFieldName(m): // a token, as methods are
			errs = append(errs, fmt.Errorf("method: %q is none: write one such as GET", m))
		case m != strings.ToUpper(m):
			errs = append(errs, fmt.Errorf("method: %q: methods are case-sensitive, write %s", m, strings.ToUpper(m)))
		case !safe([]byte(m)) && !o.Unsafe:
			errs = append(errs, fmt.Errorf("method: %s may change something on the shadows: add --unsafe if they can bear it", m))
		}
		f.methods = append(f.methods, m)
	}
	for _, text := range o.Paths {
		re, err := regexp.Compile(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("path: %q: %w", text, err))
		}
		f.paths = append(f.paths, re)
	}
	for _, text := range o.Headers {
		name, pattern, found := strings.Cut(text, ":")
		if !found || !httpguts.ValidHeaderFieldName(name) {
			errs = append(errs, fmt.Errorf("header: %q is not NAME: REGEX, such as X-Beta: ^(on|yes)$", text))
			continue
		}
		re, err := regexp.Compile(strings.TrimLeft(pattern, " \t"))
		if err != nil {
			errs = append(errs, fmt.Errorf("header: %q: %w", text, err))
		}
		f.headers = append(f.headers, headerRule{http.CanonicalHeaderKey(name), re})
	}
	return errors.Join(errs...)
}

// pass returns the reason why the request is not copied, or Chosen.
func (f *filters) pass(r *Request, path []byte, write bool) pair.Reason {
	switch {
	case string(r.Method) == "CONNECT":
		return pair.Connect
	case len(f.methods) > 0 && !slices.ContainsFunc(f.methods, func(m string) bool { return m == string(r.Method) }):
		return pair.Method
	case write && !f.unsafe:
		return pair.Unsafe
	case len(f.paths) > 0 && !slices.ContainsFunc(f.paths, func(re *regexp.Regexp) bool { return re.Match(path) }):
		return pair.Path
	}
	for i := range f.headers {
		if !f.headers[i].pass(r.Header) {
			return pair.Header
		}
	}
	return pair.Chosen
}

func (h *headerRule) pass(header Header) bool {
	for i := 0; ; i++ {
		value, ok := header.Lookup(h.name, i)
		if !ok {
			return false
		}
		if h.re.Match(value) {
			return true
		}
	}
}

// safe reports whether a method is defined to change nothing (RFC 9110 9.2.1).
func safe(method []byte) bool {
	switch string(method) {
	case "GET", "HEAD", "OPTIONS", "TRACE":
		return true
	}
	return false
}

// split splits a target into the part before the path, the path, and the query with
// its question mark.
func split(target []byte) (prefix, path, query []byte) {
	path = target
	if len(path) > 0 && path[0] != '/' {
		if i := strings.Index(view(path), "://"); i > 0 {
			j := strings.IndexAny(view(path[i+3:]), "/?")
			if j < 0 {
				return path, nil, nil
			}
			prefix, path = path[:i+3+j], path[i+3+j:]
		}
	}
	for i, c := range path {
		if c == '?' {
			return prefix, path[:i], path[i:]
		}
	}
	return prefix, path, nil
}

// cutRule splits REGEX=REPLACEMENT at the last =.
func cutRule(text string) (pattern, replacement string, err error) {
	i := strings.LastIndexByte(text, '=')
	if i <= 0 {
		return "", "", errors.New("no rule")
	}
	return text[:i], text[i+1:], nil
}
