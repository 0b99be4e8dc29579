package choose

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"unsafe"

	"github.com/zeebo/xxh3"
	"golang.org/x/net/http/httpguts"
)

// source is where in a request something is read.
type source struct {
	kind sourceKind
	name string         // of a header field, cookie or query parameter
	re   *regexp.Regexp // of path and host
	memo *memo[span]    // where its first group lies
}

type sourceKind uint8

const (
	nowhere sourceKind = iota
	fromHeader
	fromCookie
	fromQuery
	fromTenant
	fromAddress
	fromPath
	fromHost
)

func parseKey(text string) (source, error) {
	switch text {
	case "":
		return source{}, nil
	case "tenant":
		return source{kind: fromTenant}, nil
	case "address":
		return source{kind: fromAddress}, nil
	}
	s, err := parseSource(text)
	if err != nil || s.re != nil {
		return source{}, fmt.Errorf("by %q is not header:NAME, cookie:NAME, query:NAME, tenant or address", text)
	}
	return s, nil
}

func parseTenant(text string) (source, error) {
	if text == "" {
		return source{}, nil
	}
	s, err := parseSource(text)
	if err == nil {
		return s, nil
	}
	if errors.Is(err, errSource) {
		return source{}, fmt.Errorf(`tenant %q is not header:NAME, cookie:NAME, query:NAME, path:REGEX or host:REGEX, such as path:^/t/([^/]+)`, text)
	}
	return source{}, fmt.Errorf("tenant %q: %w", text, err)
}

var errSource = errors.New("no place in a request")

func parseSource(text string) (source, error) {
	kind, what, _ := strings.Cut(text, ":")
	if what = strings.TrimLeft(what, " "); what == "" {
		return source{}, errSource
	}
	switch kind {
	case "header", "cookie":
		if !httpguts.ValidHeaderFieldName(what) {
			return source{}, errSource
		}
		if kind == "cookie" {
			return source{kind: fromCookie, name: what}, nil
		}
		return source{kind: fromHeader, name: http.CanonicalHeaderKey(what)}, nil
	case "query":
		return source{kind: fromQuery, name: what}, nil
	case "path", "host":
		re, err := regexp.Compile(what)
		if err != nil {
			return source{}, err
		}
		s := source{kind: fromPath, re: re}
		if kind == "host" {
			s.kind = fromHost
		}
		if re.NumSubexp() > 0 {
			s.memo = newMemo[span]()
		}
		return s, nil
	}
	return source{}, errSource
}

// find returns what is there, nil if nothing is. It is part of the request.
func (s *source) find(r *Request, path, query []byte) []byte {
	switch s.kind {
	case fromHeader:
		value, _ := r.Header.Lookup(s.name, 0)
		return value
	case fromCookie:
		for i := 0; ; i++ {
			line, ok := r.Header.Lookup("Cookie", i)
			if !ok {
				return nil
			}
			if value, ok := parameter(line, ';', s.name); ok {
				return value
			}
		}
	case fromQuery:
		if len(query) > 0 {
			value, _ := parameter(query[1:], '&', s.name)
			return value
		}
	case fromPath:
		return s.group(path)
	case fromHost:
		return s.group(r.Host)
	}
	return nil
}

// parameter finds NAME=VALUE in a list.
func parameter(list []byte, separator byte, name string) (value []byte, ok bool) {
	for len(list) > 0 {
		item := list
		if i := bytes.IndexByte(list, separator); i >= 0 {
			item, list = list[:i], list[i+1:]
		} else {
			list = nil
		}
		if separator == ';' {
			item = bytes.TrimLeft(item, " \t")
		}
		if len(item) > len(name) && item[len(name)] == '=' && string(item[:len(name)]) == name {
			return item[len(name)+1:], true
		}
	}
	return nil, false
}

// span is a part of what was matched; to < 0 if nothing matched.
type span struct{ from, to int }

// group returns the first group that matched, or all of the match if the
// expression has no group.
func (s *source) group(in []byte) []byte {
	if s.memo == nil {
		return s.re.Find(in)
	}
	at, ok := s.memo.get(in)
	if !ok {
		at = span{0, -1}
		match := s.re.FindSubmatchIndex(in)
		for i := 2; i+1 < len(match); i += 2 {
			if match[i] >= 0 {
				at = span{match[i], match[i+1]}
				break
			}
		}
		s.memo.put(in, at)
	}
	if at.to < 0 {
		return nil
	}
	return in[at.from:at.to]
}

// hashKey hashes what a share is chosen by. The hash is the same in every
// session, so that who was in stays in.
func hashKey(key []byte) uint64 { return xxh3.Hash(key) }

// hashAddress hashes who connected; false if that is not known.
func hashAddress(r *Request) (uint64, bool) {
	if !r.Client.IsValid() {
		return 0, false
	}
	a := r.Client.As16() // IPv4 is mapped into IPv6
	return hashKey(a[:]), true
}

// view is b as a string, for as long as b does not change.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
