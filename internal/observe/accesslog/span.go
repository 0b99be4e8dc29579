package accesslog

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"tailscope/internal/observe/queuetime"
	"tailscope/internal/observe/traces"
	"tailscope/internal/store"
)

// observe adds a line's request, and its attempts at upstreams, to the batch and makes a
// trace of them.
//
// A log has the durations of the attempts, not their starts: they are placed one after
// another from the start of the request. The rest of the time, before or after, is the
// server's own: reading the request, waiting for a slow client, its own files.
func (f *feed) observe(b Batch, op *operation, tenant uint32, offset int64) {
	r := &f.rec
	svc := f.svc
	k := targetKey{op: op, tenant: tenant, version: svc.value(r.version), variant: svc.value(r.variant), failed: r.status >= 500}
	t := f.in.target(svc, k)
	b.Observe(t.span, r.end, r.end-r.start, 1)

	whole := f.in.o.Traces != nil
	var id store.TraceID
	var root uint64
	first := len(f.spans)
	if whole {
		id = f.traceID(offset)
		root = max(xxh3.HashSeed(id[:], f.seed^uint64(offset)), 1)
		s := traces.Span{TraceID: id, Start: r.start, End: r.end, Name: t.name, Detail: f.keep(r.path), Failed: k.failed, Queued: r.queued}
		if d := r.start - r.queued; r.queued != 0 && (d > int64(queuetime.Most) || -d > int64(queuetime.Most)) {
			s.Queued = 0
			f.implausible++
		}
		binary.BigEndian.PutUint64(s.ID[:], root)
		f.spans = append(f.spans, s)
	}
	at := r.start
	for i := range r.attempts {
		a := &r.attempts[i]
		last := i == len(r.attempts)-1
		ck := k
		ck.op = svc.call(r.method, itemAt(r.upName, i), a.addr)
		ck.addr, ck.client = svc.value(a.addr), true
		switch {
		case a.status > 0:
			ck.failed = a.status >= 500
		default: // the next server is only tried when one has failed
			ck.failed = a.retried || last && k.failed
		}
		ct := f.in.target(svc, ck)
		// Each time is rounded to a millisecond by itself, so that the attempts may sum
		// to more than the request.
		end := min(at+a.total, r.end)
		b.Observe(ct.span, end, a.total, 1)
		if whole {
			s := traces.Span{TraceID: id, Start: at, End: end, Name: ct.name, Detail: f.describe(a), Failed: ck.failed}
			binary.BigEndian.PutUint64(s.ID[:], root+uint64(i)+1)
			binary.BigEndian.PutUint64(s.Parent[:], root)
			f.spans = append(f.spans, s)
		}
		at = end
	}
	if whole {
		f.sizes = append(f.sizes, len(f.spans)-first)
	}
}

// itemAt returns item n of a list; the item of a list of one stands for all.
func itemAt(list []byte, n int) []byte {
	if isAbsent(list) {
		return nil
	}
	first, rest := cutItem(list)
	for ; n > 0 && len(rest) > 0; n-- {
		first, rest = cutItem(rest)
	}
	return first
}

// keep copies the detail of a span: values may lie in the parser's arena.
func (f *feed) keep(v []byte) []byte {
	begin := len(f.details)
	f.details = append(f.details, v[:min(len(v), traces.MaxDetail)]...)
	return f.details[begin:len(f.details):len(f.details)]
}

// describe returns the details of an attempt.
func (f *feed) describe(a *attempt) []byte {
	begin := len(f.details)
	d := append(f.details, a.addr[:min(len(a.addr), 128)]...)
	for _, part := range [...]struct {
		name  string
		nanos int64
	}{{"connect", a.connect}, {"header", a.header}} {
		if part.nanos < 0 {
			continue
		}
		if len(d) > begin {
			d = append(d, ", "...)
		}
		d = append(append(d, part.name...), ' ')
		d = appendMillis(d, part.nanos)
	}
	if a.status > 0 {
		if len(d) > begin {
			d = append(d, ", "...)
		}
		d = append(d, "status "...)
		d = appendInt(d, int64(a.status))
	}
	f.details = d
	return d[begin:len(d):len(d)]
}

func appendMillis(d []byte, nanos int64) []byte {
	return append(appendInt(d, nanos/1e6), " ms"...)
}

func appendInt(d []byte, n int64) []byte {
	if n >= 10 {
		d = appendInt(d, n/10)
	}
	return append(d, byte('0'+n%10))
}

// traceID returns the caller's trace id, if the line has it, so that the request is
// found by it in another system too. Otherwise it derives an id from the place of the
// line, which is the same when the line is read again.
func (f *feed) traceID(offset int64) (id store.TraceID) {
	// https://www.w3.org/TR/trace-context/#traceparent-header-field-values
	if p := f.rec.parent; len(p) >= 55 && p[2] == '-' && p[35] == '-' && unhex(&id, p[3:35]) {
		return id
	}
	if r := f.rec.requestID; len(r) > 0 {
		if len(r) == 36 && r[8] == '-' && r[13] == '-' && r[18] == '-' && r[23] == '-' {
			var digits [32]byte
			n := copy(digits[:], r[:8])
			n += copy(digits[n:], r[9:13])
			n += copy(digits[n:], r[14:18])
			n += copy(digits[n:], r[19:23])
			copy(digits[n:], r[24:])
			if unhex(&id, digits[:]) {
				return id
			}
		}
		if len(r) == 32 && unhex(&id, r) {
			return id
		}
		return xxh3.Hash128(r).Bytes()
	}
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(offset))
	return xxh3.Hash128Seed(b[:], f.seed).Bytes()
}

// unhex parses 32 hex digits that are not all zero.
func unhex(id *store.TraceID, b []byte) bool {
	var any byte
	for i := range id {
		hi, lo := hex(b[2*i]), hex(b[2*i+1])
		if hi < 0 || lo < 0 {
			return false
		}
		id[i] = byte(hi<<4 | lo)
		any |= id[i]
	}
	return any != 0
}
