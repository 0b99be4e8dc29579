package accesslog

import (
	"errors"
	"fmt"
	"strings"
)

// fieldNames maps the fields of a JSON log to slots. A nested field is named by its
// path: request.uri.
type fieldNames struct {
	slots  map[string]slot
	inside map[string]bool // paths of objects that hold such fields
}

// knownFields holds the names in other servers' logs; each of them also accepts nginx's
// variables.
var knownFields = map[string]struct {
	unit, unitUp int64 // length of one unit, in nanoseconds
	names        map[string]slot
}{
	"json": {1e9, 1e9, map[string]slot{
		"time": slotTime, "timestamp": slotTime, "@timestamp": slotTime, "ts": slotTime,
		"method": slotMethod, "path": slotURI, "url": slotURI,
		"traceparent": slotParent, "x_request_start": slotQueued,
	}},
	// https://caddyserver.com/docs/logging
	"caddy": {1e9, 1e9, map[string]slot{
		"ts": slotTime, "duration": slotDuration, "size": slotBytes, "request.method": slotMethod, "request.uri": slotURI, "request.host": slotHost,
		"request.headers.X-Request-Start": slotQueued, "request.headers.X-Queue-Start": slotQueued2,
		"request.headers.X-Request-Id": slotRequestID, "request.headers.Traceparent": slotParent,
	}},
	// https://doc.traefik.io/traefik/observability/access-logs/#available-fields
	"traefik": {1, 1, map[string]slot{
		"time": slotTime, "StartUTC": slotStart, "Duration": slotDuration, "DownstreamStatus": slotStatus, "DownstreamContentSize": slotBytes,
		"RequestMethod": slotMethod, "RequestPath": slotURI, "RequestHost": slotHost,
		"OriginDuration": slotUpTime, "OriginStatus": slotUpStatus, "ServiceAddr": slotUpAddr, "ServiceName": slotUpName,
		"request_X-Request-Start": slotQueued, "request_X-Queue-Start": slotQueued2, "request_X-Request-Id": slotRequestID, "request_Traceparent": slotParent,
	}},
	// https://www.envoyproxy.io/docs/envoy/latest/configuration/observability/access_log/usage
	"envoy": {1e6, 1e6, map[string]slot{
		"start_time": slotStart, "duration": slotDuration, "response_code": slotStatus, "bytes_sent": slotBytes, "method": slotMethod, "path": slotURI,
		"authority": slotHost, ":authority": slotHost, "upstream_host": slotUpAddr, "upstream_service_time": slotUpTime,
		"upstream_cluster": slotUpName, "x_request_start": slotQueued, "request_id": slotRequestID, "x_request_id": slotRequestID, "traceparent": slotParent,
	}},
}

// configurable holds the words of json:WORD=FIELD.
var configurable = map[string]slot{
	"time": slotTime, "start": slotStart, "duration": slotDuration, "status": slotStatus, "method": slotMethod, "path": slotURI, "request": slotRequest,
	"bytes": slotBytes, "host": slotHost, "upstream": slotUpAddr, "upstream_time": slotUpTime, "upstream_name": slotUpName, "queued": slotQueued,
	"request_id": slotRequestID, "traceparent": slotParent,
}

var units = map[string]int64{"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1}

// compileJSON compiles spec if it names a JSON format.
func compileJSON(spec string, names map[string]slot, w wanted) (*Format, bool, error) {
	base, custom, more := strings.Cut(spec, ":")
	known, ok := knownFields[base]
	if !ok || more && base != "json" || strings.ContainsAny(base, " $") {
		return nil, false, nil
	}
	f := &Format{name: spec, escape: escapeJSON, untimed: true, unit: known.unit, unitUp: known.unitUp}
	for name, s := range known.names {
		names[name] = s
	}
	if more {
		for pair := range strings.SplitSeq(custom, ",") {
			word, field, ok := strings.Cut(strings.TrimSpace(pair), "=")
			s, is := configurable[word]
			if !ok || !is || field == "" {
				return nil, true, fmt.Errorf("%q is not WORD=FIELD, where WORD is one of time, start, duration, status, method, path, request, bytes, host, upstream, upstream_time, upstream_name, queued, request_id, traceparent", pair)
			}
			if name, unit, ok := strings.Cut(field, "/"); ok && (s == slotDuration || s == slotUpTime) {
				n, is := units[unit]
				if !is {
					return nil, true, fmt.Errorf("%q: the unit of a duration is one of s, ms, us, ns", pair)
				}
				if field = name; s == slotDuration {
					f.unit = n
				} else {
					f.unitUp = n
				}
			}
			for name, other := range names { // only this field has the meaning now
				if other == s {
					delete(names, name)
				}
			}
			names[field] = s
		}
	}
	f.bind(w, names)
	f.json = &fieldNames{slots: names, inside: map[string]bool{}}
	for name := range names {
		if len(name) > maxKey {
			return nil, true, errors.New("a field's name of more than 256 bytes")
		}
		for i, c := range name {
			if c == '.' {
				f.json.inside[name[:i]] = true
			}
		}
	}
	return f, true, nil
}

const (
	maxKey   = 256
	maxDepth = 16
)

// splitJSON parses one object. The first of several values for a slot counts.
func (p *parser) splitJSON(line []byte) bool {
	s := scanner{b: line}
	s.blank()
	p.key = p.key[:0]
	if !p.object(&s, 0, true) {
		return p.fail(Mismatch, s.i, "JSON")
	}
	s.blank()
	if s.i < len(line) {
		return p.fail(Mismatch, s.i, "")
	}
	return true
}

// scanner scans JSON; see RFC 8259.
type scanner struct {
	b []byte
	i int
}

func (s *scanner) blank() {
	for s.i < len(s.b) && (s.b[s.i] == ' ' || s.b[s.i] == '\t' || s.b[s.i] == '\r' || s.b[s.i] == '\n') {
		s.i++
	}
}

func (s *scanner) take(c byte) bool {
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

// text scans a string and returns the text between the quotes.
func (s *scanner) text() ([]byte, bool) {
	if !s.take('"') {
		return nil, false
	}
	begin := s.i
	for ; s.i < len(s.b); s.i++ {
		switch s.b[s.i] {
		case '\\':
			s.i++
		case '"':
			s.i++
			return s.b[begin : s.i-1], true
		}
	}
	s.i = begin - 1
	return nil, false
}

// object scans an object whose path is p.key; wanted reports whether the format may use
// fields of it.
func (p *parser) object(s *scanner, depth int, wanted bool) bool {
	if depth > maxDepth || !s.take('{') {
		return false
	}
	s.blank()
	if s.take('}') {
		return true
	}
	base := len(p.key)
	for {
		s.blank()
		name, ok := s.text()
		if !ok {
			return false
		}
		s.blank()
		if !s.take(':') {
			return false
		}
		s.blank()
		meant, inside := unused, false
		if wanted && base+1+len(name) <= maxKey {
			if base > 0 {
				p.key = append(p.key, '.')
			}
			p.key = append(p.key, name...)
			meant, inside = p.f.json.slots[string(p.key)], p.f.json.inside[string(p.key)]
		}
		ok = p.value(s, depth, meant, inside)
		p.key = p.key[:base]
		if !ok {
			return false
		}
		s.blank()
		if s.take('}') {
			return true
		}
		if !s.take(',') {
			return false
		}
	}
}

func (p *parser) value(s *scanner, depth int, meant slot, inside bool) bool {
	if s.i == len(s.b) {
		return false
	}
	var v []byte
	switch s.b[s.i] {
	case '"':
		text, ok := s.text()
		if !ok {
			return false
		}
		v = text
		if meant != unused {
			v = p.unescape(text)
		}
	case '{':
		return p.object(s, depth+1, inside)
	case '[':
		if depth >= maxDepth {
			return false
		}
		s.i++
		s.blank()
		if s.take(']') {
			return true
		}
		for { // the first of a list counts: headers are lists
			s.blank()
			if !p.value(s, depth+1, meant, false) {
				return false
			}
			meant = unused
			s.blank()
			if s.take(']') {
				return true
			}
			if !s.take(',') {
				return false
			}
		}
	default:
		begin := s.i
		for s.i < len(s.b) {
			c := s.b[s.i]
			if c == ',' || c == '}' || c == ']' || c == ' ' || c == '\t' || c == '\n' || c == '\r' {
				break
			}
			s.i++
		}
		if v = s.b[begin:s.i]; len(v) == 0 {
			return false
		}
		switch c := v[0]; {
		case c == '-' || c >= '0' && c <= '9':
		case string(v) == "null":
			v = nil
		case string(v) == "true", string(v) == "false":
		default:
			return false
		}
	}
	if meant != unused && p.values[meant] == nil {
		p.values[meant] = v
	}
	return true
}
