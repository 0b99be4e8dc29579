package agg

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"tailscope/hist"
	"tailscope/internal/store"
)

// StreamID identifies a cumulative or delta metric stream before mapping: a
// 128-bit hash of resource, scope, metric name, unit, temporality and attributes.
type StreamID [2]uint64

// streams remembers the last value of each incoming stream, from which the next value's
// increase is computed (ENGINE 8). It is part of what a generation stores, and a journal
// replays into it by the same path, so that a crash neither repeats nor loses a
// difference. Guarded by Aggregator.mu.
type streams struct {
	byID      map[StreamID]*stream
	resources map[uint64]*resource
	dirty     []StreamID // changed since the last cut
	seen      []uint64   // resources changed since the last cut
	expired   [][]byte   // keys to delete with the next cut
	size      int64
	resets    uint64

	current, last hist.Histogram // scratch
	out           []byte
}

type stream struct {
	start, time int64 // Unix nanoseconds, by the sender's clock
	seen        int64 // Unix milliseconds, by the server's clock
	total       float64
	last        []byte // the last cumulative histogram; nil for numbers
	changed     bool
	idle        uint8 // hours of running since it was last seen
}

type resource struct {
	first, seen int64 // Unix milliseconds, by the server's clock
	changed     bool
	idle        uint8 // see stream
}

// expireAfter is the number of idle hours after which a stream is forgotten. They are
// hours of running, not of the clock: a clock that leaps ahead makes nothing idle.
const expireAfter = 24

// idleHours returns the idle hours, at a start, of a stream that was last seen at a
// moment. One that has been idle for too long gets another hour of running.
func idleHours(seen, nowMillis int64) uint8 {
	return uint8(min(max((nowMillis-seen)/time.Hour.Milliseconds(), 0), expireAfter))
}

// isAhead reports whether a moment recorded by the server's clock is more than an hour
// ahead of it: the clock had leapt ahead, and is back.
func isAhead(millis, nowMillis int64) bool { return millis-nowMillis > time.Hour.Milliseconds() }

// firstWithin is the longest stretch that the first value of a stream may be of to be
// counted whole: a few of the intervals at which SDKs send. One of a longer stretch was
// sent elsewhere before, or could not be sent; it would be a peak that never was.
const firstWithin = 5 * time.Minute

// isWhole reports whether all of the first value of a stream that began at start and is of
// the moment at is to be counted: the stream began after its resource was first seen, or so
// short before that the value is of that stretch alone. It was not counted before, since a
// stream is remembered for longer. A start that is the moment itself is not known
// (https://opentelemetry.io/docs/specs/otel/metrics/data-model/#cumulative-streams-handling-unknown-start-time).
func isWhole(start, at, firstSight int64) bool {
	return start != 0 && (start > firstSight || start < at && at-start <= firstWithin.Nanoseconds())
}

const streamBytes = 136 // of a stream without its histogram, with its map entry

func newStreams() *streams {
	return &streams{byID: map[StreamID]*stream{}, resources: map[uint64]*resource{}}
}

func (s *streams) touch(id StreamID, v *stream, nowMillis int64) {
	if v.idle = 0; isAhead(v.seen, nowMillis) {
		v.seen = nowMillis
	}
	v.seen = max(v.seen, nowMillis)
	if !v.changed {
		v.changed = true
		s.dirty = append(s.dirty, id)
	}
}

// firstSight returns when the resource was first seen, which may be now.
func (s *streams) firstSight(id uint64, nowMillis int64) int64 {
	r, ok := s.resources[id]
	if !ok {
		r = &resource{first: nowMillis}
		s.resources[id] = r
		s.size += 72
	}
	if r.idle = 0; isAhead(r.first, nowMillis) {
		r.first = nowMillis
	}
	if nowMillis-r.seen > time.Hour.Milliseconds() || isAhead(r.seen, nowMillis) || !ok {
		r.seen = nowMillis
		if !r.changed {
			r.changed = true
			s.seen = append(s.seen, id)
		}
	}
	return r.first
}

type verdict uint8

const (
	countDelta verdict = iota
	nothing            // a baseline, or nothing happened since
	outOfOrder
	malformed
)

// cumulative records a stream's next value and returns the histogram to add, in its
// binary form, valid until the next call. The value comes encoded and, if current is not
// nil, also decoded by assignFields; current is not retained, but overwritten.
func (s *streams) cumulative(id StreamID, res uint64, start, at int64, encoded []byte, current *hist.Histogram, nowMillis int64) ([]byte, verdict) {
	first := s.firstSight(res, nowMillis)
	v, known := s.byID[id]
	back := known && isAhead(v.time/1e6, nowMillis)
	if !known {
		v = &stream{}
		s.byID[id] = v
		s.size += streamBytes
	} else if at <= v.time && !back {
		return nil, outOfOrder
	}
	whole, anew := false, false
	if known && start != 0 && start < v.start {
		// The value is from an incarnation that has ended, or from a second sender under
		// the same identity. If the newer one is silent, a clock was set back: begin
		// anew.
		if nowMillis-v.seen < (5*time.Minute).Milliseconds() && !back {
			return nil, outOfOrder
		}
		anew = true
		s.resets++
	}
	switch {
	case anew:
	case !known:
		whole = isWhole(start, at, first*1e6)
	case v.last == nil || (start != 0 && v.start != 0 && start != v.start):
		whole = v.last != nil
		s.resets++
	}
	var out []byte
	result := nothing
	switch {
	case whole:
		out = encoded
	case known && !anew && v.last != nil && !bytes.Equal(encoded, v.last):
		var reset bool
		var err error
		out, reset, err = s.difference(v, encoded, current)
		if err != nil {
			return nil, malformed
		}
		if reset {
			s.resets++
			out = encoded
		}
	}
	if len(out) > 0 {
		if m, err := hist.Moments(out); err != nil {
			return nil, malformed
		} else if m.Count > 0 {
			result = countDelta
		}
	}
	s.size += int64(len(encoded) - len(v.last))
	v.last = append(v.last[:0], encoded...)
	v.start, v.time = start, at
	s.touch(id, v, nowMillis)
	return out, result
}

// difference returns the new value minus the last of v; reset reports that the new value
// does not contain the last. The schema may have become coarser or finer in between.
func (s *streams) difference(v *stream, encoded []byte, current *hist.Histogram) (out []byte, reset bool, err error) {
	c, l := current, &s.last
	if c == nil {
		c = &s.current
		if err := c.UnmarshalBinary(encoded); err != nil {
			return nil, false, err
		}
		assignFields(c, c)
	}
	l.Bounds = c.Bounds // nearly always the same: none are made anew
	if err := l.UnmarshalBinary(v.last); err != nil {
		return nil, false, err
	}
	assignFields(l, l)
	if (c.Schema == hist.Explicit) != (l.Schema == hist.Explicit) || !slices.Equal(c.Bounds, l.Bounds) || c.Count < l.Count {
		return nil, true, nil
	}
	if err := c.Subtract(l); err != nil { // at the coarser schema of the two
		return nil, true, nil
	}
	s.out, err = c.AppendBinary(s.out[:0])
	return s.out, false, err
}

// assignFields copies the fields of from into to, reusing to's memory. It leaves out the
// precision of the sum beyond Sum, so that a difference is the same whether its parts
// were decoded or handed over.
func assignFields(to, from *hist.Histogram) {
	positive := append(to.Positive.Counts[:0], from.Positive.Counts...)
	negative := append(to.Negative.Counts[:0], from.Negative.Counts...)
	*to = hist.Histogram{
		Schema: from.Schema, ZeroThreshold: from.ZeroThreshold, ZeroCount: from.ZeroCount,
		Positive: hist.Buckets{Offset: from.Positive.Offset, Counts: positive},
		Negative: hist.Buckets{Offset: from.Negative.Offset, Counts: negative},
		Bounds:   from.Bounds, Count: from.Count, Sum: from.Sum, Min: from.Min, Max: from.Max,
		Weighted: from.Weighted, Squares: from.Squares, Error: from.Error,
	}
}

// delta adds an increment to a stream's running total and returns the total with the
// time of its sample, which goes backwards only with the server's clock.
func (s *streams) delta(id StreamID, millis int64, inc float64, nowMillis int64) (int64, float64) {
	v, ok := s.byID[id]
	if !ok {
		v = &stream{}
		s.byID[id] = v
		s.size += streamBytes
	}
	v.total += inc
	if isAhead(v.time/1e6, nowMillis) {
		v.time = 0
	}
	v.time = max(v.time, millis*1e6)
	s.touch(id, v, nowMillis)
	return v.time / 1e6, v.total
}

// expire forgets streams and resources that have been idle for too long. It runs each
// hour.
func (s *streams) expire() {
	for id, v := range s.byID {
		if v.idle++; v.idle > expireAfter {
			s.expired = append(s.expired, streamKey(id))
			s.size -= streamBytes + int64(len(v.last))
			delete(s.byID, id)
		}
	}
	for id, r := range s.resources {
		if r.idle++; r.idle > expireAfter {
			s.expired = append(s.expired, resourceKey(id))
			s.size -= 72
			delete(s.resources, id)
		}
	}
}

// Keys of a writer's records.
const (
	keyStream   = 's'
	keyResource = 'r'
	keyTenants  = 't'
)

func streamKey(id StreamID) []byte {
	k := binary.BigEndian.AppendUint64([]byte{keyStream}, id[0])
	return binary.BigEndian.AppendUint64(k, id[1])
}

func resourceKey(id uint64) []byte { return binary.BigEndian.AppendUint64([]byte{keyResource}, id) }

// cut returns the records that changed since the last cut.
func (s *streams) cut() []store.State {
	n := len(s.dirty) + len(s.seen) + len(s.expired)
	if n == 0 {
		return nil
	}
	out := make([]store.State, 0, n)
	for _, k := range s.expired {
		if !s.known(k) { // it may have come back
			out = append(out, store.State{Key: k})
		}
	}
	for _, id := range s.dirty {
		if v, ok := s.byID[id]; ok {
			v.changed = false
			out = append(out, store.State{Key: streamKey(id), Value: v.append(make([]byte, 0, 40+len(v.last)))})
		}
	}
	for _, id := range s.seen {
		if r, ok := s.resources[id]; ok {
			r.changed = false
			b := binary.AppendVarint([]byte{1}, r.first)
			out = append(out, store.State{Key: resourceKey(id), Value: binary.AppendVarint(b, r.seen)})
		}
	}
	s.dirty, s.seen, s.expired = s.dirty[:0], s.seen[:0], nil
	return out
}

func (s *streams) known(key []byte) (ok bool) {
	if key[0] == keyResource {
		_, ok = s.resources[binary.BigEndian.Uint64(key[1:])]
		return ok
	}
	_, ok = s.byID[streamID(key)]
	return ok
}

func streamID(key []byte) StreamID {
	return StreamID{binary.BigEndian.Uint64(key[1:]), binary.BigEndian.Uint64(key[9:])}
}

func (v *stream) append(b []byte) []byte {
	b = append(b, 1)
	b = binary.AppendVarint(b, v.start)
	b = binary.AppendVarint(b, v.time)
	b = binary.AppendVarint(b, v.seen)
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v.total))
	return append(b, v.last...)
}

var errRecord = errors.New("malformed record")

// restore reads a record that cut returned.
func (s *streams) restore(key, value []byte, nowMillis int64) error {
	r := reader{b: value}
	if r.byte() != 1 {
		return fmt.Errorf("record %x: %w", key, store.ErrVersion)
	}
	switch {
	case len(key) == 17 && key[0] == keyStream:
		v := &stream{start: r.varint(), time: r.varint(), seen: r.varint(), total: r.float()}
		if len(r.b) > 0 {
			v.last = append([]byte(nil), r.b...)
		}
		v.idle = idleHours(v.seen, nowMillis)
		s.byID[streamID(key)] = v
		s.size += streamBytes + int64(len(v.last))
	case len(key) == 9 && key[0] == keyResource:
		v := &resource{first: r.varint(), seen: r.varint()}
		v.idle = idleHours(v.seen, nowMillis)
		s.resources[binary.BigEndian.Uint64(key[1:])] = v
		s.size += 72
	default:
		r.bad = true
	}
	if r.bad {
		return fmt.Errorf("record %x: %w: %w", key, errRecord, store.ErrCorrupt)
	}
	return nil
}
