package traces

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"tailscope/internal/store"
)

// ErrCorrupt reports that the data of a kept trace do not decode.
var ErrCorrupt = errors.New("corrupt trace")

// Trace is a kept trace as received: times are by the senders' clocks.
type Trace struct {
	ID store.TraceID
	// Complete reports that the root arrived, nothing was cut short, and no span is
	// missing.
	Complete bool
	LeftOut  int // spans of the trace that are not in Spans
	Spans    []TraceSpan
}

// TraceSpan is one span of a kept trace.
type TraceSpan struct {
	ID, Parent         [8]byte
	Start, End, Queued int64 // Unix nanoseconds; Queued is 0 if not known
	Identity
	Failed       bool
	Weight       uint32 // at least 1
	Text, Detail string
}

// The encoded form. Integers are uvarints, "zigzag" marks signed varints.
//
//	version     2 (one byte)
//	trace id    16 bytes
//	flags       1 complete
//	left out    spans
//	spans       their number, then each:
//	  flags     1 failed, 2 queued, 4 text, 8 detail, 16 weight, 32 parent is
//	            an earlier span, 64 parent is not here
//	  id        8 bytes
//	  parent    how many spans before this one, or 8 bytes; a root has none
//	  start     zigzag nanoseconds after the parent's start, or else the
//	            first span's, or else 1970
//	  length    nanoseconds
//	  identity  its number; if it is new, its ten strings follow; eight in version 1
//	  queued    zigzag nanoseconds before the start
//	  weight    less 1
//	  text      string
//	  detail    its length and bytes
//	crc         CRC-32C of all before it, little-endian
//
// A string is its number, 0 for the empty one; if it is new, its length and
// bytes follow. Strings and identities are numbered as they come.
const codecVersion = 2

const (
	spanFailed = 1 << iota
	spanQueued
	spanText
	spanDetail
	spanWeight
	spanParent
	spanOrphan
	spanFlags // all are below

	traceComplete = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode encodes a trace. It writes weights of 0 as 1.
func Encode(t *Trace) []byte {
	var e encoder
	e.begin(t.ID, t.Complete, t.LeftOut, len(t.Spans))
	for i := range t.Spans {
		e.span(&t.Spans[i], []byte(t.Spans[i].Detail))
	}
	return e.end()
}

// encoder is reused from trace to trace.
type encoder struct {
	b          []byte
	strings    map[string]uint64
	identities map[Identity]uint64
	ids        map[[8]byte]int
	starts     []int64
}

func (e *encoder) begin(id store.TraceID, complete bool, leftOut, spans int) {
	e.reset()
	e.beginSpans()
	e.b = append(append(e.b, codecVersion), id[:]...)
	flags := byte(0)
	if complete {
		flags |= traceComplete
	}
	e.b = append(e.b, flags)
	e.uint(uint64(leftOut))
	e.uint(uint64(spans))
}

// reset forgets all bytes, strings and identities.
func (e *encoder) reset() {
	if e.strings == nil {
		e.strings, e.identities, e.ids = map[string]uint64{}, map[Identity]uint64{}, map[[8]byte]int{}
	}
	clear(e.strings)
	clear(e.identities)
	e.strings[""] = 0
	e.b = e.b[:0]
}

// beginSpans forgets the spans of the trace before.
func (e *encoder) beginSpans() {
	if len(e.ids) > 1<<10 { // clearing a map takes as long as it once was large
		e.ids = map[[8]byte]int{}
	}
	clear(e.ids)
	e.starts = e.starts[:0]
}

func (e *encoder) uint(n uint64) { e.b = binary.AppendUvarint(e.b, n) }
func (e *encoder) int(n int64)   { e.b = binary.AppendVarint(e.b, n) }

func (e *encoder) string(s string) {
	n, ok := e.strings[s]
	if !ok {
		n = uint64(len(e.strings))
		e.strings[s] = n
	}
	e.uint(n)
	if !ok {
		e.uint(uint64(len(s)))
		e.b = append(e.b, s...)
	}
}

// span encodes one span with detail in place of s.Detail.
func (e *encoder) span(s *TraceSpan, detail []byte) {
	n, ok := e.identities[s.Identity]
	if !ok {
		n = uint64(len(e.identities))
		e.identities[s.Identity] = n
	}
	e.numbered(s, n, !ok, detail)
}

// numbered encodes one span whose identity has the number n, and writes the identity out if
// it is new.
func (e *encoder) numbered(s *TraceSpan, n uint64, isNew bool, detail []byte) {
	flags := byte(0)
	set := func(is bool, f byte) {
		if is {
			flags |= f
		}
	}
	parent, here := e.ids[s.Parent]
	here = here && s.Parent != [8]byte{}
	set(s.Failed, spanFailed)
	set(s.Queued != 0, spanQueued)
	set(s.Text != "", spanText)
	set(len(detail) > 0, spanDetail)
	set(s.Weight > 1, spanWeight)
	set(here, spanParent)
	set(!here && s.Parent != [8]byte{}, spanOrphan)
	e.b = append(append(e.b, flags), s.ID[:]...)
	at := len(e.starts)
	from := int64(0)
	if at > 0 {
		from = e.starts[0]
	}
	if here {
		e.uint(uint64(at - parent))
		from = e.starts[parent]
	} else if flags&spanOrphan != 0 {
		e.b = append(e.b, s.Parent[:]...)
	}
	e.ids[s.ID] = at
	e.starts = append(e.starts, s.Start)
	e.int(s.Start - from)
	e.uint(uint64(s.End - s.Start))
	e.uint(n)
	if isNew {
		for _, v := range s.Identity.strings() {
			e.string(*v)
		}
	}
	if flags&spanQueued != 0 {
		e.int(s.Start - s.Queued)
	}
	if flags&spanWeight != 0 {
		e.uint(uint64(s.Weight) - 1)
	}
	if flags&spanText != 0 {
		e.string(s.Text)
	}
	if flags&spanDetail != 0 {
		e.uint(uint64(len(detail)))
		e.b = append(e.b, detail...)
	}
}

// strings lists the strings of an identity as they are encoded. Version 1 had the first
// eight.
func (id *Identity) strings() [10]*string {
	return [...]*string{&id.Service, &id.Operation, &id.Component, &id.Kind, &id.Tenant, &id.Version, &id.Variant, &id.Instance, &id.Environment, &id.System}
}

// end returns a copy of the encoded bytes.
func (e *encoder) end() []byte {
	out := make([]byte, len(e.b), len(e.b)+4)
	copy(out, e.b)
	return binary.LittleEndian.AppendUint32(out, crc32.Checksum(out, castagnoli))
}

// Decode decodes store.Trace.Data. The error wraps ErrCorrupt. Data is not retained.
func Decode(data []byte) (*Trace, error) {
	if len(data) < 5 {
		return nil, fmt.Errorf("%d bytes: %w", len(data), ErrCorrupt)
	}
	body, sum := data[:len(data)-4], binary.LittleEndian.Uint32(data[len(data)-4:])
	if body[0] < 1 || body[0] > codecVersion {
		return nil, fmt.Errorf("version %d, only those up to %d are known: %w", body[0], codecVersion, ErrCorrupt)
	}
	if crc32.Checksum(body, castagnoli) != sum {
		return nil, fmt.Errorf("checksum mismatch: %w", ErrCorrupt)
	}
	d := decoder{b: body[1:], strings: []string{""}, old: body[0] == 1}
	t := d.trace()
	if d.err == nil && len(d.b) > 0 {
		d.fail("bytes after the end")
	}
	if d.err != nil {
		return nil, d.err
	}
	return t, nil
}

// decoder reads values; after the first failure it reads zeros.
type decoder struct {
	b          []byte
	err        error
	strings    []string
	identities []Identity
	old        bool // version 1

	// Of the last span:
	number uint64 // of its identity
	detail []byte // within b
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%s: %w", what, ErrCorrupt)
	}
	d.b = nil
}

func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail("ends early")
		return nil
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) byte() byte {
	if b := d.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail("number")
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail("number")
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) string() string {
	n := d.uint()
	if n < uint64(len(d.strings)) {
		return d.strings[n]
	}
	if n > uint64(len(d.strings)) {
		d.fail("string number")
		return ""
	}
	s := string(d.bytes(d.uint()))
	d.strings = append(d.strings, s)
	return s
}

func (d *decoder) trace() *Trace {
	t := &Trace{}
	copy(t.ID[:], d.bytes(16))
	flags := d.byte()
	if flags&^traceComplete != 0 {
		d.fail("flags")
	}
	t.Complete = flags&traceComplete != 0
	left := d.uint()
	n := d.uint()
	if n > uint64(len(d.b))/12 || left > 1<<40 { // a span is at least 12 bytes
		d.fail("number of spans")
		return nil
	}
	t.LeftOut = int(left)
	t.Spans = make([]TraceSpan, n)
	for i := range t.Spans {
		d.span(t.Spans, i)
		t.Spans[i].Detail = string(d.detail)
	}
	return t
}

// span decodes span i, all but its Detail.
func (d *decoder) span(spans []TraceSpan, i int) {
	s := &spans[i]
	flags := d.byte()
	if flags >= spanFlags || flags&spanParent != 0 && flags&spanOrphan != 0 {
		d.fail("span flags")
	}
	s.Failed = flags&spanFailed != 0
	copy(s.ID[:], d.bytes(8))
	from := spans[0].Start // 0 while the first span is read
	switch {
	case flags&spanParent != 0:
		back := d.uint()
		if back == 0 || back > uint64(i) {
			d.fail("parent")
			return
		}
		p := &spans[i-int(back)]
		s.Parent, from = p.ID, p.Start
	case flags&spanOrphan != 0:
		copy(s.Parent[:], d.bytes(8))
	}
	start, length := d.int(), d.uint()
	if start < -maxTime || start > maxTime || length > maxTime {
		d.fail("span times")
		return
	}
	s.Start = from + start
	s.End = s.Start + int64(length)
	if s.Start < 0 || s.End > maxTime {
		d.fail("span times")
		return
	}
	switch d.number = d.uint(); {
	case d.number < uint64(len(d.identities)):
		s.Identity = d.identities[d.number]
	case d.number == uint64(len(d.identities)):
		all := s.Identity.strings()
		known := all[:]
		if d.old {
			known = all[:8]
		}
		for _, v := range known {
			*v = d.string()
		}
		d.identities = append(d.identities, s.Identity)
	default:
		d.fail("identity number")
	}
	if flags&spanQueued != 0 {
		before := d.int()
		if before < -maxTime || before > maxTime {
			d.fail("queued")
		}
		s.Queued = s.Start - before
	}
	s.Weight = 1
	if flags&spanWeight != 0 {
		w := d.uint()
		if w >= 1<<31 {
			d.fail("weight")
		}
		s.Weight = uint32(w) + 1
	}
	if flags&spanText != 0 {
		s.Text = d.string()
	}
	d.detail = nil
	if flags&spanDetail != 0 {
		d.detail = d.bytes(d.uint())
	}
}
