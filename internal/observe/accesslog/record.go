package accesslog

import (
	"bytes"

	"tailscope/internal/observe/queuetime"
)

// record holds the values of a line. Slices point into the line or into the parser.
type record struct {
	start, end int64 // Unix nanoseconds
	status     int
	untimed    bool  // the line lacks the duration: end is known, and start equals it
	bytes      int64 // of the response; -1 if not known
	method     []byte
	path       []byte // without query; empty if the request could not be parsed
	target     []byte // with the query, if the line has it
	host       []byte
	tenant     []byte // of the configured field
	version    []byte
	variant    []byte
	queued     int64 // 0 if not known
	requestID  []byte
	parent     []byte // traceparent
	upName     []byte
	attempts   []attempt
}

// longest returns the longest duration in the line, in nanoseconds.
func (r *record) longest() int64 {
	d := r.end - r.start
	for i := range r.attempts {
		d = max(d, r.attempts[i].total)
	}
	return d
}

// longestRequest is the longest duration that is not taken for a mistake, in nanoseconds.
const longestRequest = 1e9 * 86400 * 366

// read parses a line into r, whose attempts are reused.
func (p *parser) read(line []byte, r *record) bool {
	if !p.split(line) {
		return false
	}
	v := &p.values
	*r = record{attempts: r.attempts[:0]}

	duration, ok := int64(0), true
	switch r.untimed = isAbsent(v[slotDuration]); {
	case p.f.spans():
		start, ok1 := p.clock.parse(v[slotStart])
		end, ok2 := p.clock.parse(v[slotTime])
		if !ok1 || !ok2 {
			return p.fail(BadTime, p.at(line, slotStart), "")
		}
		if r.untimed, duration = false, end-start; duration < 0 || duration > longestRequest {
			return p.fail(BadDuration, p.at(line, slotTime), "")
		}
	case !r.untimed:
		if duration, ok = parseDecimal(v[slotDuration], p.f.unit); !ok || duration > longestRequest {
			return p.fail(BadDuration, p.at(line, slotDuration), "")
		}
	case !p.f.untimed:
		return p.fail(NoDuration, 0, "")
	}
	when := slotEpoch
	if isAbsent(v[when]) {
		if when = slotTime; isAbsent(v[slotTime]) || !isAbsent(v[slotStart]) {
			when = slotStart
		}
	}
	t, ok := p.clock.parse(v[when])
	if !ok {
		return p.fail(BadTime, p.at(line, when), "")
	}
	r.start, r.end = t-duration, t
	if when == slotStart {
		r.start, r.end = t, t+duration
	}
	if r.start <= 0 {
		return p.fail(BadTime, p.at(line, when), "")
	}
	if r.status, ok = parseNumber(v[slotStatus]); !ok || r.status > 999 {
		return p.fail(BadStatus, p.at(line, slotStatus), "")
	}
	if r.bytes, ok = parseDecimal(v[slotBytes], 1); !ok {
		r.bytes = -1
	}
	if !p.request(r) {
		return p.fail(NoRequest, 0, "")
	}
	if !isAbsent(v[slotHost]) {
		r.host = v[slotHost]
	} else if r.host == nil && !isAbsent(v[slotServer]) {
		r.host = v[slotServer]
	}
	r.tenant, r.version, r.variant = p.named(p.f.tenant), p.named(p.f.version), p.named(p.f.variant)
	for _, s := range [...]slot{slotQueued, slotQueued2} {
		if !isAbsent(v[s]) {
			if q, ok := queuetime.Parse(view(v[s])); ok && (r.queued == 0 || q < r.queued) {
				r.queued = q
			}
		}
	}
	if !isAbsent(v[slotRequestID]) {
		r.requestID = v[slotRequestID]
	}
	if !isAbsent(v[slotParent]) {
		r.parent = v[slotParent]
	}
	r.upName = v[slotUpName]
	if !r.untimed { // otherwise they are not used
		r.attempts = p.attempts(r.attempts)
	}
	return true
}

func (p *parser) named(s slot) []byte {
	if s == unused || isAbsent(p.values[s]) {
		return nil
	}
	return p.values[s]
}

// at returns the offset of a slot's value in the line, or 0 if it was unescaped.
func (p *parser) at(line []byte, s slot) int {
	if v := p.values[s]; len(v) > 0 {
		if i := bytes.Index(line, v); i >= 0 {
			return i
		}
	}
	return 0
}

// request parses method and path. A malformed request line (a port scan, TLS on a plain
// port) leaves both empty, and is not a fault of the line.
func (p *parser) request(r *record) bool {
	v := &p.values
	r.method = v[slotMethod]
	target := v[slotURI]
	if isAbsent(target) {
		target = nil
	}
	if line := v[slotRequest]; target == nil && len(line) > 0 {
		first := bytes.IndexByte(line, ' ')
		last := bytes.LastIndexByte(line, ' ')
		if first > 0 && last > first && bytes.HasPrefix(line[last+1:], []byte("HTTP/")) {
			r.method, target = line[:first], line[first+1:last]
		}
	} else if isAbsent(r.method) && len(line) > 0 {
		if i := bytes.IndexByte(line, ' '); i > 0 {
			r.method = line[:i]
		}
	}
	if target == nil && !isAbsent(v[slotPath]) {
		target = v[slotPath]
	}
	if len(target) == 0 {
		return v[slotRequest] != nil || v[slotURI] != nil || v[slotPath] != nil
	}
	if target[0] != '/' { // the absolute form, which proxies receive
		if i := bytes.Index(target, []byte("://")); i > 0 && i < 8 {
			rest := target[i+3:]
			slash := bytes.IndexByte(rest, '/')
			if slash < 0 {
				slash = len(rest)
			}
			r.host, target = rest[:slash], rest[slash:]
		}
	}
	r.target = target
	if i := bytes.IndexAny(target, "?#;"); i >= 0 {
		target = target[:i]
	}
	if len(target) == 0 {
		target = slash
	}
	if len(r.target) == 0 {
		r.target = slash
	}
	r.path = target
	return true
}

var slash = []byte("/")
