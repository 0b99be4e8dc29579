package choose

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unsafe"

	"github.com/zeebo/xxh3"
	"golang.org/x/net/http/httpguts"

	"tailscope/internal/route"
)

// source is a place in a request.
type source struct {
	kind  sourceKind
	name  string // of a header field, cookie or query parameter
	place route.Place
	memo  *memo[span] // where in the place's text the name lies
}

type sourceKind uint8

const (
	nowhere sourceKind = iota
	fromHeader
	fromCookie
	fromQuery
	fromTenant
	fromAddress
	fromPlace
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
	if err != nil || s.kind == fromPlace {
		return source{}, fmt.Errorf("by: %q is not header:NAME, cookie:NAME, query:NAME, tenant or address", text)
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
		return source{}, fmt.Errorf(`tenant: %q is not header:NAME, cookie:NAME, query:NAME, host, host:REGEX or path:REGEX, such as path:^/t/([^/]+)`, text)
	}
	return source{}, fmt.Errorf("tenant: %q: %w", text, err)
}

var errSource = errors.New("no place in a request")

func parseSource(text string) (source, error) {
	if place, ok, err := route.ParsePlace(text); ok {
		return source{kind: fromPlace, place: place, memo: newMemo[span]()}, err
	}
	kind, name, _ := strings.Cut(text, ":")
	if name = strings.TrimLeft(name, " "); name == "" {
		return source{}, errSource
	}
	switch token := httpguts.ValidHeaderFieldName(name); {
	case kind == "header" && token:
		return source{kind: fromHeader, name: http.CanonicalHeaderKey(name)}, nil
	case kind == "cookie" && token:
		return source{kind: fromCookie, name: name}, nil
	case kind == "query":
		return source{kind: fromQuery, name: name}, nil
	}
	return source{}, errSource
}

// find returns what is there, or nil. It is part of the request.
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
	case fromPlace:
		return s.named(s.place.Text(r.Host, path))
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

// span locates a name in a text.
type span struct {
	from, to int
	ok       bool
}

func (s *source) named(text []byte) []byte {
	at, known := s.memo.get(text)
	if !known {
		at.from, at.to, at.ok = s.place.Find(text)
		s.memo.put(text, at)
	}
	if !at.ok {
		return nil
	}
	return text[at.from:at.to]
}

// hashKey hashes the key that a share is chosen by. The hash is the same in every
// session, so a key that was in stays in.
func hashKey(key []byte) uint64 { return xxh3.Hash(key) }

// hashAddress hashes the client's address. ok is false if it is not known.
func hashAddress(r *Request) (uint64, bool) {
	if !r.Client.IsValid() {
		return 0, false
	}
	a := r.Client.As16() // IPv4 is mapped into IPv6
	return hashKey(a[:]), true
}

// view returns b as a string that changes with it.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
