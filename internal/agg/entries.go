package agg

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
)

// handler receives a journal's contents in order. Byte slices are valid during the call.
// entries returns how many it has applied: the others lack the definition of their
// target, or follow an entry that does not decode.
type handler interface {
	defineSeries(number uint32, s series.Series) error
	defineTenant(number, marginal uint32, tenant []byte) error
	defineTarget(number, full, marginal uint32) error
	entries(commitMillis int64, e *entryReader) (applied uint64, err error)
}

var errFrame = errors.New("malformed frame")

// decodePayload passes the payload of one frame to h. It skips a definition that
// contradicts an earlier one: the entries that need it are not applied.
func decodePayload(p []byte, h handler, e *entryReader) (applied uint64, err error) {
	d := reader{b: p}
	switch d.byte() {
	case frameDefinitions:
		for len(d.b) > 0 && err == nil {
			err = decodeDefinition(&d, h)
		}
		return 0, err
	case frameEntries:
		commit := int64(d.uvarint())
		*e = entryReader{r: d}
		e.slot = e.r.varint()
		if e.r.bad {
			return 0, errFrame
		}
		return h.entries(commit, e)
	}
	return 0, errFrame
}

func decodeDefinition(d *reader, h handler) error {
	switch d.byte() {
	case defineSeries:
		number := d.number()
		s := series.Series{Family: string(d.part())}
		s.View, s.Kind = series.View(d.byte()), series.Kind(d.byte())
		n := d.uvarint()
		if n > uint64(len(d.b)) || s.View > series.Total || s.Kind > series.Counter {
			return errFrame
		}
		build := labels.NewScratchBuilder(int(n))
		for range n {
			name, value := d.part(), d.part()
			build.Add(string(name), string(value))
		}
		if d.bad {
			return errFrame
		}
		s.Labels = build.Labels()
		return h.defineSeries(number, s)
	case defineTenant:
		number, marginal, tenant := d.number(), d.number(), d.part()
		if d.bad {
			return errFrame
		}
		return h.defineTenant(number, marginal, tenant)
	case defineTarget:
		number, full, marginal := d.number(), d.number(), d.number()
		if d.bad {
			return errFrame
		}
		return h.defineTarget(number, full, marginal)
	}
	return errFrame
}

// entryReader reads the entries of one frame.
type entryReader struct {
	r    reader
	slot int64

	tenant      []byte // of the entries that follow, on targets without one
	op          uint32
	target      uint32
	entrySlot   int64 // slot number: Unix seconds / 10
	nanos       int64 // of a duration
	weight      uint32
	millis      int64
	value       float64
	stream      StreamID
	resource    uint64
	start, time int64
	hist        []byte
}

// next reads one entry. It returns false at the end, or if the entry is malformed; see
// err.
func (e *entryReader) next() bool {
	r := &e.r
	if len(r.b) == 0 || r.bad {
		return false
	}
	h := r.uvarint()
	for h&7 == opTenant {
		if h>>3 > uint64(len(r.b)) {
			r.bad = true
			return false
		}
		e.tenant, r.b = r.b[:h>>3], r.b[h>>3:]
		h = r.uvarint()
	}
	e.op, e.target = uint32(h&7), uint32(h>>3)
	if h>>3 > math.MaxUint32 {
		r.bad = true
	}
	switch e.op {
	case opObserve, opWeighted:
		e.entrySlot = e.slot + r.varint()
		e.nanos, e.weight = int64(r.uvarint()), 1
		if e.op == opWeighted {
			w := r.uvarint()
			if w == 0 || w > math.MaxUint32 {
				r.bad = true
			}
			e.weight = uint32(w)
		}
		if e.nanos < 0 || e.entrySlot < 0 {
			r.bad = true
		}
	case opDistribution:
		e.entrySlot = e.slot + r.varint()
		e.hist = r.part()
		if e.entrySlot < 0 {
			r.bad = true
		}
	case opNumber:
		e.millis, e.value = r.varint(), r.float()
	case opDeltaNumber:
		e.stream = StreamID{r.uint64(), r.uint64()}
		e.millis, e.value = r.varint(), r.float()
	case opCumulative:
		e.stream = StreamID{r.uint64(), r.uint64()}
		e.resource = r.uint64()
		e.start, e.time = r.varint(), r.varint()
		e.hist = r.part()
	default:
		r.bad = true
	}
	return !r.bad
}

func (e *entryReader) err() error {
	if e.r.bad {
		return errFrame
	}
	return nil
}

// reader reads values from a byte string; bad stays set once one is missing.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) number() uint32 {
	v := r.uvarint()
	if v > math.MaxUint32 {
		r.bad = true
	}
	return uint32(v)
}

func (r *reader) part() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}

func (r *reader) uint64() uint64 {
	if len(r.b) < 8 {
		r.bad, r.b = true, nil
		return 0
	}
	v := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

func (r *reader) float() float64 { return math.Float64frombits(r.uint64()) }
