package pebblestore

import (
	"encoding/binary"
	"fmt"

	"tailscope/internal/store"
)

// traceFormat is the first byte of a trace's body and of a listed request.
const traceFormat = 1

const (
	flagFailed = 1 << 7
	whyMask    = flagFailed - 1
)

// appendNames appends the value of a listed request: the format, why it was
// kept, and its service, operation and tenant, each after its length.
func appendNames(dst []byte, e *store.TraceEntry) []byte {
	dst = append(dst, traceFormat, byte(e.Why))
	dst = appendString(dst, e.Service)
	dst = appendString(dst, e.Operation)
	return appendString(dst, e.Tenant)
}

// names is a listed request's value, in place.
type names struct {
	why                        store.Why
	service, operation, tenant []byte
}

func readNames(b []byte) (names, error) {
	r := reader{b: b}
	if f := r.byte(); r.err == nil && f != traceFormat {
		return names{}, fmt.Errorf("kept request of format %d: %w", f, store.ErrCorrupt)
	}
	n := names{why: store.Why(r.byte())}
	n.service, n.operation, n.tenant = r.bytes(r.count(1)), r.bytes(r.count(1)), r.bytes(r.count(1))
	if len(r.b) > 0 {
		r.fail()
	}
	return n, r.err
}

// appendTrace appends the body of a trace: the format, its requests, and its
// data after its length.
func appendTrace(dst []byte, t *store.Trace, entries []store.TraceEntry) []byte {
	dst = append(dst, traceFormat)
	dst = binary.AppendUvarint(dst, uint64(len(entries)))
	for i := range entries {
		e := &entries[i]
		dst = append(dst, e.Span[:]...)
		flags := byte(e.Why)
		if e.Failed {
			flags |= flagFailed
		}
		dst = append(dst, flags)
		dst = binary.AppendVarint(dst, e.StartNanos)
		dst = binary.AppendUvarint(dst, uint64(e.DurationNanos))
		dst = appendString(dst, e.Service)
		dst = appendString(dst, e.Operation)
		dst = appendString(dst, e.Tenant)
	}
	dst = binary.AppendUvarint(dst, uint64(len(t.Data)))
	return append(dst, t.Data...)
}

// decodeTrace decodes a body; its Data aliases b.
func decodeTrace(b []byte) (store.Trace, error) {
	var t store.Trace
	r := reader{b: b}
	if f := r.byte(); r.err == nil && f != traceFormat {
		return t, fmt.Errorf("kept trace of format %d: %w", f, store.ErrCorrupt)
	}
	const least = 8 + 1 + 1 + 1 + 3
	n := r.count(least)
	if n == 0 || n > store.MaxTraceEntries {
		r.fail()
		return t, r.err
	}
	t.Entries = make([]store.TraceEntry, n)
	for i := range t.Entries {
		e := &t.Entries[i]
		copy(e.Span[:], r.bytes(8))
		flags := r.byte()
		e.Why, e.Failed = store.Why(flags&whyMask), flags&flagFailed != 0
		e.StartNanos, e.DurationNanos = r.varint(), int64(r.uvarint())
		if e.DurationNanos < 0 {
			r.fail()
		}
		e.Service, e.Operation, e.Tenant = r.string(), r.string(), r.string()
	}
	t.Data = r.bytes(r.count(1))
	if len(r.b) > 0 {
		r.fail()
	}
	if r.err != nil {
		return store.Trace{}, r.err
	}
	return t, nil
}
