package otlp

import (
	"encoding/binary"
	"strconv"
	"strings"
	"sync"

	"github.com/zeebo/xxh3"

	"tailscope/internal/observe/semconv"
)

// resource is the sender of a group of spans or metrics. It owns its strings.
type resource struct {
	raw   xxh3.Uint128 // hash of all attributes, in any order: part of a stream's identity
	hash  uint64       // of those that become labels: part of a span's
	kept  xxh3.Uint128 // of the same, in every run of the program
	attrs semconv.Attrs
}

func (r *resource) service() string {
	if s := r.attrs.Get(semconv.Service); s != "" {
		return s
	}
	return "unknown_service" // the default of the specification
}

// resources caches parsed resources by the hash of their bytes.
type resources struct {
	mu    sync.RWMutex
	known map[xxh3.Uint128]*resource
}

const maxResources = 1 << 13

func (rs *resources) get(h xxh3.Uint128) *resource {
	rs.mu.RLock()
	defer rs.mu.RUnlock()
	return rs.known[h]
}

func (rs *resources) put(h xxh3.Uint128, r *resource) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.known == nil || len(rs.known) >= maxResources {
		rs.known = make(map[xxh3.Uint128]*resource)
	}
	rs.known[h] = r
}

// resource returns the Resource among the fields of a ResourceSpans or ResourceMetrics
// message, in both of which it is field 1.
func (d *decoder) resource(b []byte) (*resource, error) {
	var f field
	var found [][]byte // nearly always one; protobuf merges repeated ones
	var one [1][]byte
	found = one[:0]
	for i := 0; i < len(b); {
		var err error
		if i, err = f.next(b, i); err != nil {
			return nil, err
		}
		if f.number == 1 && f.wire == bytesT {
			found = append(found, f.data)
		}
	}
	var h xxh3.Uint128
	for _, m := range found {
		x := xxh3.Hash128Seed(m, d.r.seed)
		h.Hi = h.Hi*31 + x.Hi
		h.Lo = h.Lo*31 + x.Lo
	}
	if r := d.r.resources.get(h); r != nil {
		return r, nil
	}
	r, err := d.parseResource(found)
	if err != nil {
		return nil, err
	}
	d.r.resources.put(h, r)
	return r, nil
}

func (d *decoder) parseResource(messages [][]byte) (*resource, error) {
	r := &resource{}
	d.beginAttributes()
	var f field
	for _, b := range messages {
		for i := 0; i < len(b); {
			var err error
			if i, err = f.next(b, i); err != nil {
				return nil, err
			}
			if f.number == 1 && f.wire == bytesT {
				r.raw = addHashes(r.raw, xxh3.Hash128(f.data))
				if err := d.attribute(f.data); err != nil {
					return nil, err
				}
			}
		}
	}
	d.readTexts(d.present & semconv.Resource)
	r.attrs.Mask = d.attrs.Mask
	key := d.key[:0]
	for s := range semconv.Slot(semconv.NumSlots) {
		if r.attrs.Mask.Has(s) {
			r.attrs.V[s] = cloneLabel(d.attrs.V[s])
			key = append(key, byte(s))
			key = binary.AppendUvarint(key, uint64(len(r.attrs.V[s])))
			key = append(key, r.attrs.V[s]...)
		}
	}
	r.hash, r.kept = xxh3.HashSeed(key, d.r.seed), xxh3.Hash128(key)
	d.key = key
	return r, nil
}

// cloneLabel returns a copy of a value that is fit for a label: valid UTF-8 of bounded
// length.
func cloneLabel(s string) string { return strings.Clone(fitLabel(s)) }

// fitLabel is label without the copy.
func fitLabel(s string) string {
	if len(s) > semconv.MaxValue {
		s = s[:semconv.MaxValue]
		for i := 1; i < 4; i++ { // not in the middle of a character
			if c := s[len(s)-i]; c >= 0xC0 {
				s = s[:len(s)-i]
				break
			} else if c < 0x80 {
				break
			}
		}
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func addHashes(a, b xxh3.Uint128) xxh3.Uint128 {
	return xxh3.Uint128{Hi: a.Hi + b.Hi, Lo: a.Lo + b.Lo}
}

// beginAttributes begins the attributes of a span or a resource, or of a point.
func (d *decoder) beginAttributes() {
	d.present = 0
	d.order.begin(0)
	d.arena = d.arena[:0]
}

// attribute decodes one KeyValue message and, if a slot has that name, keeps its value.
func (d *decoder) attribute(b []byte) error {
	p := &d.order
	i := p.nodes[p.at].next[0]
	n := &p.nodes[i]
	if n.begins(b) {
		p.at = i
	} else if n = p.predictOther(b); n == nil {
		return d.unpredicted(b)
	}
	v := usualValue(b[n.size:])
	if v == nil {
		return d.unpredicted(b)
	}
	if n.rank == 0 {
		return nil
	}
	return d.setValue(n.slot, n.rank, v)
}

// usualValue returns the value that ends a KeyValue, given what follows its tag, or nil if it
// does not.
func usualValue(b []byte) []byte {
	switch {
	case len(b) > 1 && int(b[0]) == len(b)-1 && b[0] < 0x80:
		return b[1:]
	case len(b) > 2 && b[0] >= 0x80 && b[1] < 0x80 && int(b[0]&0x7F)|int(b[1])<<7 == len(b)-2:
		return b[2:]
	}
	return nil
}

// unpredicted is attribute for a key that was not expected, and for unusual forms.
func (d *decoder) unpredicted(b []byte) error {
	key, value, err := keyValue(b)
	if err != nil {
		return err
	}
	var s semconv.Slot
	var rank uint8
	// The usual form: key, then value, of which the key is shorter than 128 bytes.
	if n := len(key) + keyFrame; 0 < len(key) && len(key) < 0x80 && n < len(b) && b[0] == 1<<3|bytesT && int(b[1]) == len(key) && b[n-1] == 2<<3|bytesT && usualValue(b[n:]) != nil {
		s, rank = d.order.find(d.r.keys, b[:n])
	} else {
		s, rank = d.r.keys.Find(view(key))
	}
	if rank == 0 {
		return nil
	}
	return d.setValue(s, rank, value)
}

func keyValue(b []byte) (key, value []byte, err error) {
	var f field
	for i := 0; i < len(b); {
		if i, err = f.next(b, i); err != nil {
			return nil, nil, err
		}
		if f.wire == bytesT {
			switch f.number {
			case 1:
				key = f.data
			case 2:
				value = f.data
			}
		}
	}
	return key, value, nil
}

// unlabelled holds the slots whose values are numbers of the span rather than texts.
const unlabelled semconv.Mask = 1<<semconv.HTTPStatus | 1<<semconv.RPCStatus | 1<<semconv.Queued

// setValue keeps the AnyValue message b in slot s, unless the slot has the value of a
// preferred name.
func (d *decoder) setValue(s semconv.Slot, rank uint8, b []byte) error {
	if unlabelled.Has(s) {
		return d.setNumber(s, b)
	}
	if d.present.Has(s) && d.rank[s] < rank {
		return nil
	}
	if _, ok := isText(b); !ok {
		v, err := scalar(b)
		if err != nil || v.number == 0 || v.number == 1 && len(v.data) == 0 {
			return err
		}
	}
	d.present |= 1 << s
	d.raw[s], d.rank[s] = d.rawOf(b), rank
	return nil
}

// setNumber is setValue of an unlabelled slot.
func (d *decoder) setNumber(s semconv.Slot, b []byte) error {
	switch s {
	case semconv.Queued:
		return d.queueHeader(b, 0)
	case semconv.RPCStatus:
		text, err := d.scalarText(b)
		if text != "" {
			d.rpcStatus = int8(semconv.RPCCode(text))
		}
		return err
	}
	if len(b) == 3 && b[0] == 3<<3|varint && b[1] >= 0x80 && 0 < b[2] && b[2] < 0x80 { // 128 to 16,383
		d.httpStatus = int(b[1]&0x7F) | int(b[2])<<7
		return nil
	}
	text, err := d.scalarText(b)
	if n, bad := strconv.Atoi(text); bad == nil && n != 0 { // with 0 there was no answer
		d.httpStatus = n
	}
	return err
}

// scalar returns the field of an AnyValue that holds a string (1), bool (2),
// int (3) or double (4); number is 0 if it holds none of these.
func scalar(b []byte) (field, error) {
	if len(b) > 1 && b[0] == 3<<3|varint {
		if n, k := binary.Uvarint(b[1:]); k == len(b)-1 {
			return field{number: 3, wire: varint, num: n}, nil
		}
	}
	var f, found field
	for i := 0; i < len(b); {
		var err error
		if i, err = f.next(b, i); err != nil {
			return found, err
		}
		switch {
		case f.number == 1 && f.wire == bytesT, f.number == 2 && f.wire == varint,
			f.number == 3 && f.wire == varint, f.number == 4 && f.wire == fixed64:
			found = f
		case f.number >= 5 && f.number <= 7 && f.wire == bytesT:
			found = field{}
		}
	}
	return found, nil
}
