package otlp

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/zeebo/xxh3"

	"tailscope/internal/observe/semconv"
)

// resource is the sender of a group of spans or metrics. It owns its strings.
type resource struct {
	raw   xxh3.Uint128 // hash of all attributes, in any order: part of a stream's identity
	key   [16]byte     // hash of those that become labels: part of a span's
	kept  xxh3.Uint128 // the same, in every run of the program
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
	d.attrs.Mask = 0
	d.order.begin()
	d.arena = d.arena[:0]
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
	r.attrs.Mask = d.attrs.Mask & semconv.Resource
	key := d.key[:0]
	for s := range semconv.Slot(semconv.NumSlots) {
		if r.attrs.Mask.Has(s) {
			r.attrs.V[s] = cloneLabel(d.attrs.V[s])
			key = append(key, byte(s))
			key = binary.AppendUvarint(key, uint64(len(r.attrs.V[s])))
			key = append(key, r.attrs.V[s]...)
		}
	}
	r.key, r.kept = xxh3.Hash128Seed(key, d.r.seed).Bytes(), xxh3.Hash128(key)
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

// attribute decodes one KeyValue message and, if a slot has that name, keeps its value
// in d.attrs.
func (d *decoder) attribute(b []byte) error {
	// The usual form: key, then value, both shorter than 128 bytes.
	if len(b) >= 4 && b[0] == 1<<3|bytesT && b[1] < 0x80 {
		n := int(b[1])
		if rest := len(b) - 2 - n; rest >= 2 && b[2+n] == 2<<3|bytesT && b[3+n] < 0x80 && int(b[3+n]) == rest-2 {
			s, rank := d.order.find(d.r.keys, b[2:2+n])
			if rank == 0 {
				return nil
			}
			return d.value(s, rank, b[4+n:])
		}
	}
	key, value, err := keyValue(b)
	if err != nil {
		return err
	}
	if s, rank := d.r.keys.Find(view(key)); rank != 0 {
		return d.value(s, rank, value)
	}
	return nil
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

// value keeps the AnyValue message b in slot s, unless the slot has the value of a
// preferred name.
func (d *decoder) value(s semconv.Slot, rank uint8, b []byte) error {
	if d.attrs.Mask.Has(s) && d.rank[s] < rank {
		return nil
	}
	if s == semconv.Queued {
		return d.queueHeader(b, 0)
	}
	var text string
	if len(b) >= 2 && b[0] == 1<<3|bytesT && int(b[1]) == len(b)-2 && b[1] < 0x80 {
		text = view(b[2:])
	} else {
		v, err := scalar(b)
		if err != nil {
			return err
		}
		if s == semconv.HTTPStatus && v.wire == varint && v.number == 3 {
			if v.num != 0 { // there was no answer
				d.httpStatus = int(int64(v.num))
			}
			return nil
		}
		at := len(d.arena)
		switch v.number {
		case 1:
			text = view(v.data)
		case 2:
			text = "false"
			if v.num != 0 {
				text = "true"
			}
		case 3:
			d.arena = strconv.AppendInt(d.arena, int64(v.num), 10)
			text = view(d.arena[at:])
		case 4:
			d.arena = strconv.AppendFloat(d.arena, math.Float64frombits(v.num), 'g', -1, 64)
			text = view(d.arena[at:])
		default:
			return nil
		}
	}
	if text == "" {
		return nil
	}
	if s == semconv.RPCStatus {
		d.rpcStatus = int8(semconv.RPCCode(text))
		return nil
	}
	if s == semconv.HTTPStatus {
		if n, err := strconv.Atoi(text); err == nil && n != 0 {
			d.httpStatus = n
		}
		return nil
	}
	d.attrs.Mask |= 1 << s
	d.attrs.V[s], d.rank[s] = text, rank
	return nil
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
