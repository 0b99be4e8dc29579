package pebblestore

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"

	"tailscope/internal/store"
)

// Kept traces lie by partitions of an hour, apart from the points: what expires
// together lies together. A trace's body is in the partition of its latest
// request, so that no request is found whose trace has expired.
const (
	tableTrace      = 0x30 // part(4) id(16) -> requests and data
	tableTraceID    = 0x31 // day(4) id(16) -> part(4) of the body
	tableTraceEntry = 0x32 // part(4) list(8) failed(1) falling duration(8) falling start(8) id(16) span(8) -> names
	tableTracePart  = 0x33 // part(4) -> traces, bytes
	tableTraceEnd   = 0x34
)

const (
	tracePart     = 3600
	traceBodyLen  = 1 + 4 + 16
	traceListLen  = 1 + 4 + 8 + 1
	traceEntryLen = traceListLen + 8 + 8 + 16 + 8
)

func tracePartOf(nanos int64) int64 { return floorTo(floorDiv(nanos, 1e9), tracePart) }

func traceKey(dst []byte, part int64, id store.TraceID) []byte {
	return append(appendTime(append(dst, tableTrace), part), id[:]...)
}

func traceIDKey(dst []byte, day int64, id store.TraceID) []byte {
	return append(appendTime(append(dst, tableTraceID), day), id[:]...)
}

func tracePartKey(dst []byte, part int64) []byte {
	return appendTime(append(dst, tableTracePart), part)
}

// A traceList is one of the lists of requests of an hour: those of an operation of a
// service, of a service, and all. It is a hash of the names, which are in the value too:
// after a collision a reader skips other names.
type traceList uint64

func listOf(service, operation string) traceList {
	h := fnv.New64a()
	h.Write([]byte(service))
	h.Write([]byte{0})
	h.Write([]byte(operation))
	return traceList(h.Sum64())
}

// listsOf returns the lists that a request is in.
func listsOf(e *store.TraceEntry) [3]traceList {
	return [3]traceList{listOf(e.Service, e.Operation), listOf(e.Service, ""), listOf("", "")}
}

// listPrefix appends the prefix of the failed or the other requests of a list.
func listPrefix(dst []byte, part int64, l traceList, failed bool) []byte {
	dst = appendTime(append(dst, tableTraceEntry), part)
	dst = binary.BigEndian.AppendUint64(dst, uint64(l))
	if failed {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// appendFalling appends a number so that greater ones sort first.
func appendFalling(dst []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(dst, ^(uint64(v) ^ 1<<63))
}

func readFalling(b []byte) int64 { return int64(^binary.BigEndian.Uint64(b) ^ 1<<63) }

func traceEntryKey(dst []byte, l traceList, id store.TraceID, e *store.TraceEntry) []byte {
	dst = listPrefix(dst, tracePartOf(e.StartNanos), l, e.Failed)
	dst = appendFalling(dst, e.DurationNanos)
	dst = appendFalling(dst, e.StartNanos)
	dst = append(dst, id[:]...)
	return append(dst, e.Span[:]...)
}

// readTraceEntry fills in the fields that the key of a listed request holds.
func readTraceEntry(hit *store.TraceHit, key []byte) error {
	if len(key) != traceEntryLen {
		return fmt.Errorf("key %x of a kept request: %w", key, store.ErrCorrupt)
	}
	hit.Failed = key[traceListLen-1] == 1
	b := key[traceListLen:]
	hit.DurationNanos, hit.StartNanos = readFalling(b), readFalling(b[8:])
	copy(hit.ID[:], b[16:])
	copy(hit.Span[:], b[32:])
	return nil
}
