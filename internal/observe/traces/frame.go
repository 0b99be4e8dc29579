package traces

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
)

// A frame holds spans on their way to the server that puts their traces together. Nothing in
// it refers to another frame.
//
//	magic       "TSSP"
//	version     1 (one byte)
//	spans       their number, a uvarint
//	unpacked    bytes of the body, a uvarint
//	body        one zstd frame with a checksum
//
// The body is messages to its end. A message is the number of its traces, each of which is
//
//	trace id    16 bytes
//	spans       their number, at least 1, then each as in a kept trace (codec.go)
//
// Strings and identities are numbered through the frame, parents and times within the trace
// and message. Messages stay apart, as which spans came together says what else may come.
const (
	frameMagic   = "TSSP"
	frameVersion = 1
	// leastSpan is the least number of bytes of a span, and mostUnpacked the most of a body.
	leastSpan    = 12
	mostUnpacked = 1 << 28
)

// ErrVersion reports a frame of a version that is not known.
var ErrVersion = errors.New("unknown version of a frame of spans")

// FrameEncoder writes frames of spans with names of one Assembler. It is not safe for
// concurrent use.
type FrameEncoder struct {
	a       *Assembler
	e       encoder
	z       *zstd.Encoder
	numbers map[Name]uint64 // of identities in the frame
	spans   int
}

// NewFrameEncoder returns an encoder for spans with names of a.
func NewFrameEncoder(a *Assembler) (*FrameEncoder, error) {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(true))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	f := &FrameEncoder{a: a, z: z, numbers: map[Name]uint64{}}
	f.e.reset()
	return f, nil
}

// Spans returns the number of spans in the frame so far.
func (f *FrameEncoder) Spans() int { return f.spans }

// Add adds valid spans of one message to the frame. Those of one trace follow each other.
func (f *FrameEncoder) Add(spans []Span) {
	names, e := f.a.names, &f.e
	names.mu.RLock()
	list, tenants, texts := names.list, names.tenants, names.texts
	names.mu.RUnlock()
	now := f.a.o.Now().Unix() // names on their way are in use
	ends := func(from int) int {
		to := from + 1
		for to < len(spans) && spans[to].TraceID == spans[from].TraceID {
			to++
		}
		return to
	}
	n := 0
	for at := 0; at < len(spans); at = ends(at) {
		n++
	}
	e.uint(uint64(n))
	for at := 0; at < len(spans); {
		to := ends(at)
		e.beginSpans()
		e.b = append(e.b, spans[at].TraceID[:]...)
		e.uint(uint64(to - at))
		for ; at < to; at++ {
			x := &spans[at]
			s := TraceSpan{ID: x.ID, Parent: x.Parent, Start: x.Start, End: x.End, Queued: x.Queued, Failed: x.Failed, Weight: clampWeight(uint64(x.Weight))}
			number, ok := f.numbers[x.Name]
			if !ok {
				number = uint64(len(f.numbers))
				f.numbers[x.Name] = number
				common, tenant := x.Name.common(), x.Name.tenant()
				if int(common) >= len(list) {
					common = 0
				}
				if int(tenant) >= len(tenants) {
					tenant = 0
				}
				list[common].used.Store(now)
				tenants[tenant].used.Store(now)
				s.Identity = list[common].identity(tenants[tenant])
			}
			if x.Text != 0 && int(x.Text) < len(texts) {
				texts[x.Text].used.Store(now)
				s.Text = texts[x.Text].s
			}
			e.numbered(&s, number, !ok, x.Detail[:min(len(x.Detail), MaxDetail)])
		}
	}
	f.spans += len(spans)
}

// Frame returns the frame, which the caller owns, and begins another.
func (f *FrameEncoder) Frame() []byte {
	b := append(make([]byte, 0, len(f.e.b)/2+64), frameMagic...)
	b = append(b, frameVersion)
	b = binary.AppendUvarint(b, uint64(f.spans))
	b = binary.AppendUvarint(b, uint64(len(f.e.b)))
	b = f.z.EncodeAll(f.e.b, b)
	f.e.reset()
	clear(f.numbers)
	f.spans = 0
	return b
}

// FrameHead is what a frame says of itself before it is unpacked.
type FrameHead struct {
	Spans    int
	Unpacked int // bytes of the body
}

// Memory bounds the bytes that decoding the frame takes.
func (h FrameHead) Memory() int { return 2*h.Unpacked + h.Spans*spanMemory }

// spanMemory is the approximate memory of a Span and a TraceSpan.
const spanMemory = 384

// PeekFrame returns the head of a frame. The error wraps ErrCorrupt or ErrVersion.
func PeekFrame(frame []byte) (FrameHead, error) {
	h, _, err := peekFrame(frame)
	return h, err
}

func peekFrame(b []byte) (h FrameHead, body []byte, err error) {
	if len(b) < len(frameMagic)+1 || string(b[:len(frameMagic)]) != frameMagic {
		return h, nil, fmt.Errorf("it does not begin with %s: %w", frameMagic, ErrCorrupt)
	}
	if v := b[len(frameMagic)]; v != frameVersion {
		return h, nil, fmt.Errorf("version %d, %d is known: %w", v, frameVersion, ErrVersion)
	}
	b = b[len(frameMagic)+1:]
	for _, n := range []*int{&h.Spans, &h.Unpacked} {
		u, k := binary.Uvarint(b)
		if k <= 0 || u > mostUnpacked {
			return h, nil, fmt.Errorf("head: %w", ErrCorrupt)
		}
		*n, b = int(u), b[k:]
	}
	if h.Spans > h.Unpacked/leastSpan {
		return h, nil, fmt.Errorf("%d spans in %d bytes: %w", h.Spans, h.Unpacked, ErrCorrupt)
	}
	return h, b, nil
}

// FrameDecoder reads frames into spans with names of one Assembler. It is not safe for
// concurrent use.
type FrameDecoder struct {
	a     *Assembler
	z     *zstd.Decoder
	d     decoder
	body  []byte
	names []Name // by the number of an identity
	trace []TraceSpan
	spans []Span
}

// NewFrameDecoder returns a decoder into names of a.
func NewFrameDecoder(a *Assembler) (*FrameDecoder, error) {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	return &FrameDecoder{a: a, z: z}, nil
}

// Decode calls yield with the spans of each message, which are valid during the call. After
// an error, which wraps ErrCorrupt or ErrVersion, some messages may have been yielded.
func (f *FrameDecoder) Decode(frame []byte, yield func(spans []Span)) error {
	h, packed, err := peekFrame(frame)
	if err != nil {
		return err
	}
	defer f.shrink()
	if cap(f.body) < h.Unpacked {
		f.body = make([]byte, 0, h.Unpacked)
	}
	body, err := f.z.DecodeAll(packed, f.body[:0:h.Unpacked])
	if err != nil || len(body) != h.Unpacked {
		return fmt.Errorf("the body does not unpack to %d bytes (%v): %w", h.Unpacked, err, ErrCorrupt)
	}
	f.d = decoder{b: body, strings: append(f.d.strings[:0], ""), identities: f.d.identities[:0]}
	f.names = f.names[:0]
	left := h.Spans
	for d := &f.d; len(d.b) > 0; {
		f.spans = f.spans[:0]
		traces := d.uint()
		if traces == 0 {
			d.fail("a message without traces")
		}
		for ; traces > 0 && d.err == nil; traces-- {
			f.decodeTrace(&left)
		}
		if d.err != nil {
			return d.err
		}
		yield(f.spans)
	}
	if left != 0 {
		return fmt.Errorf("%d spans are missing: %w", left, ErrCorrupt)
	}
	return nil
}

// decodeTrace appends the spans of one trace, at most left.
func (f *FrameDecoder) decodeTrace(left *int) {
	d := &f.d
	x := Span{}
	copy(x.TraceID[:], d.bytes(16))
	n := d.uint()
	if n == 0 || n > uint64(*left) {
		d.fail("number of spans")
		return
	}
	*left -= int(n)
	if uint64(cap(f.trace)) < n {
		f.trace = make([]TraceSpan, n)
	}
	f.trace = f.trace[:n]
	clear(f.trace)
	for i := range f.trace {
		s := &f.trace[i]
		if d.span(f.trace, i); d.err != nil {
			return
		}
		if int(d.number) == len(f.names) {
			for _, text := range s.Identity.strings() {
				if len(*text) > maxText || !utf8.ValidString(*text) {
					d.fail("name")
					return
				}
			}
			f.names = append(f.names, f.a.Name(&s.Identity))
		}
		x.ID, x.Parent, x.Start, x.End, x.Queued = s.ID, s.Parent, s.Start, s.End, s.Queued
		x.Name, x.Text, x.Weight, x.Failed, x.Detail = f.names[d.number], f.a.Text(s.Text), clampWeight(uint64(s.Weight)), s.Failed, d.detail
		f.spans = append(f.spans, x)
	}
}

// shrink drops what the frame has left, and memory that only a giant one needs.
func (f *FrameDecoder) shrink() {
	f.d.b, f.d.detail = nil, nil
	clear(f.d.strings)
	clear(f.d.identities)
	clear(f.spans)
	if cap(f.spans) > 1<<14 || cap(f.trace) > 1<<14 || cap(f.body) > 4<<20 || cap(f.d.strings) > 1<<14 {
		f.spans, f.trace, f.body, f.d = nil, nil, nil, decoder{}
	}
}
