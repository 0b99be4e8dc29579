package otlp

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/zeebo/xxh3"

	"tailscope/internal/agg"
	"tailscope/internal/observe/semconv"
	"tailscope/internal/series"
)

// traces decodes an ExportTraceServiceRequest and adds its spans to the batch.
func (d *decoder) traces(b []byte) error {
	var f field
	for i := 0; i < len(b); {
		var err error
		if i, err = f.next(b, i); err != nil {
			return err
		}
		if f.number == 1 && f.wire == bytesT {
			if err := d.resourceSpans(f.data); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *decoder) resourceSpans(b []byte) error {
	res, err := d.resource(b)
	if err != nil {
		return err
	}
	d.res = res
	d.key = append(d.key[:0], res.key[:]...)
	var f field
	for i := 0; i < len(b); {
		if i, err = f.next(b, i); err != nil {
			return err
		}
		if f.number == 2 && f.wire == bytesT {
			if err := d.scopeSpans(f.data); err != nil {
				return err
			}
		}
	}
	return d.flushPending()
}

func (d *decoder) scopeSpans(b []byte) error {
	var f field
	for i := 0; i < len(b); {
		var err error
		if i, err = f.next(b, i); err != nil {
			return err
		}
		if f.number == 2 && f.wire == bytesT {
			if err := d.span(f.data); err != nil {
				return err
			}
		}
	}
	return nil
}

// pending is a span whose target has not been looked up yet.
type pending struct {
	hash     uint64 // of what decides the target, which has no tenant
	end      int64
	duration int64
	weight   uint32
	span     int32 // index in decoder.spans, or -1
	message  []byte
	tenant   string // of the span's own attributes, as it came
	entry    bool   // see spanFields.entry
	path     uint16 // index in decoder.paths, from 1; 0 if the route is not learned
}

// maxPending bounds the pending spans.
const maxPending = 512

// flushPending looks up the targets of the pending spans, which are of one resource, and
// adds them to the batch with their tenants.
func (d *decoder) flushPending() error {
	if len(d.paths) > 0 {
		d.r.routes.learn(d.res.service(), d.paths)
		for i := range d.pending {
			if p := &d.pending[i]; p.path > 0 {
				p.hash = max(p.hash^d.paths[p.path-1].operation.hash, 1)
			}
		}
	}
	d.targets, d.fetched = d.r.cache.find(d.targets[:0], d.tables, d.pending)
	d.members = d.members[:0]
	for i := range d.pending {
		p := &d.pending[i]
		if d.targets[i].target == 0 {
			var err error
			if d.targets[i], err = d.resolve(p); err != nil {
				return err
			}
		}
		if i == 0 || p.tenant != d.pending[i-1].tenant {
			m := agg.Member{Target: d.targets[i].target, Tenant: fitLabel(p.tenant)}
			if p.tenant == "" {
				m.Tenant = d.res.attrs.Get(semconv.Tenant)
			}
			d.members = append(d.members, m)
		}
	}
	d.r.sink.Fold(d.members)
	member := -1
	for i := range d.pending {
		p, to := &d.pending[i], d.targets[i]
		if i == 0 || p.tenant != d.pending[i-1].tenant {
			member++
		}
		m := &d.members[member]
		d.batch.ObserveTenant(to.target, m.Tenant, m.Folded, p.end, p.duration, p.weight)
		if p.span < 0 {
			continue
		}
		// Only requests have tenants in the breakdown: otherwise there would be as many names
		// as combinations of operation and tenant.
		if p.entry && m.Tenant != "" {
			tenant := m.Tenant
			if m.Folded {
				tenant = series.Other
			}
			to.name = d.r.assembler.OfTenant(to.name, tenant)
		}
		d.spans[p.span].Name = to.name
	}
	clear(d.pending) // of references to the payload
	d.pending = d.pending[:0]
	clear(d.members)
	d.releasePaths()
	return nil
}

// resolve returns the target and the name of a pending span, without a tenant. It adds them
// to the cache, unless a span before it did.
func (d *decoder) resolve(p *pending) (resolved, error) {
	if to, ok := d.r.cache.get(d.tables, p.hash); ok {
		return to, nil
	}
	var s spanFields
	if err := d.read(p.message, &s); err != nil {
		return resolved{}, err
	}
	d.present = d.attrs.Mask
	d.attrs.Mask = semconv.Select(s.of, d.attrs.Mask)
	if d.attrs.HasPath(s.of) {
		d.attrs.TakePath()
	}
	component := semconv.App
	if p.path > 0 {
		d.operation = append(d.operation[:0], d.paths[p.path-1].operation.name...)
	} else {
		d.operation, component = semconv.Operation(d.operation[:0], s.of, &d.attrs)
	}
	d.identify(&s, component)
	to := resolved{target: d.r.sink.NamedTarget(&d.id)}
	if d.r.assembler != nil {
		to.name = d.name(&s)
	}
	d.r.cache.put(d.tables.epoch, p.hash, to)
	return to, nil
}

// span decodes one Span message.
func (d *decoder) span(b []byte) error {
	var s spanFields
	if err := d.read(b, &s); err != nil {
		return err
	}
	d.items++
	switch {
	case s.start == 0:
		d.refuse(NoStart)
		return nil
	case s.end == 0:
		d.refuse(NoEnd)
		return nil
	case s.start > math.MaxInt64 || s.end > math.MaxInt64:
		d.refuse(TooNew)
		return nil
	case s.end < s.start:
		d.refuse(EndsBeforeStart)
		return nil
	case int64(s.end-s.start) > d.r.longest:
		d.refuse(TooLong)
		return nil
	}
	w := uint32(1)
	if len(s.state) > 0 {
		w = sampleWeight(view(s.state), s.traceID)
	}
	d.present = d.attrs.Mask
	at := int32(-1)
	if end := int64(s.end); d.r.assembler != nil && d.from <= end && end <= d.to {
		at = int32(len(d.spans))
		d.assemble(&s, w, b)
	}
	p := pending{end: int64(s.end), duration: int64(s.end - s.start), weight: w, span: at, message: b, entry: s.entry()}
	d.attrs.Mask = semconv.Select(s.of, d.attrs.Mask)
	if d.attrs.HasPath(s.of) {
		d.takePath(&p)
	}
	p.hash = max(d.targetHash(&s), 1) // 0 is an empty slot of the cache
	if p.tenant = d.attrs.Get(semconv.Tenant); len(d.arena) > 0 {
		p.tenant = d.keep(p.tenant)
	}
	d.pending = append(d.pending, p)
	if len(d.pending) >= maxPending {
		return d.flushPending()
	}
	return nil
}

// takePath has the route of a pending request learned if it has no operation of its own.
func (d *decoder) takePath(p *pending) {
	if method, path := d.attrs.TakePath(); path != "" {
		d.paths = append(d.paths, requestPath{path: d.keep(path), method: method, status: d.httpStatus})
		p.path = uint16(len(d.paths))
	}
}

// keep returns a value of the span that outlives it: the next span overwrites the arena.
func (d *decoder) keep(s string) string {
	if s == "" || len(d.arena) == 0 {
		return s
	}
	from := len(d.kept)
	d.kept = append(d.kept, s...)
	return view(d.kept[from:])
}

// spanFields holds the fields of a span beside its attributes.
type spanFields struct {
	start, end     uint64
	traceID, state []byte
	id, parent     []byte
	of             semconv.Kind
	failed         bool
}

// entry reports whether the span is a request; see traces.
func (s *spanFields) entry() bool {
	return s.of == semconv.Server || s.of == semconv.Consumer || len(s.parent) != 8 || [8]byte(s.parent) == [8]byte{}
}

// read decodes a Span message into s, and its attributes into d.attrs.
func (d *decoder) read(b []byte, s *spanFields) error {
	var (
		kind, code uint64
		name       []byte
		f          field
		err        error
	)
	d.attrs.Mask = 0
	d.order.begin()
	d.httpStatus, d.rpcStatus, d.queued = 0, -1, 0
	d.arena = d.arena[:0]
	for i := 0; i < len(b); {
		// The usual forms of a field are read in place: less than 128 bytes, fixed 64 bits,
		// or a number below 128 under a tag of one byte. next reads the others.
		switch tag := b[i]; {
		case tag < 0x80 && tag&7 == bytesT && i+1 < len(b) && int(b[i+1]) < min(0x80, len(b)-i-1):
			n := int(b[i+1])
			f.number, f.wire, f.data = int32(tag>>3), bytesT, b[i+2:i+2+n:i+2+n]
			i += 2 + n
		case tag < 0x80 && tag&7 == fixed64 && len(b)-i > 8:
			f.number, f.wire, f.num = int32(tag>>3), fixed64, binary.LittleEndian.Uint64(b[i+1:])
			i += 9
		case tag == 6<<3|varint && i+1 < len(b) && b[i+1] < 0x80:
			f.number, f.wire, f.num = 6, varint, uint64(b[i+1])
			i += 2
		default:
			if i, err = f.next(b, i); err != nil {
				return err
			}
		}
		switch f.wire {
		case bytesT:
			switch f.number {
			case 1:
				s.traceID = f.data
			case 2:
				s.id = f.data
			case 3:
				s.state = f.data
			case 4:
				s.parent = f.data
			case 5:
				name = f.data
			case 9:
				if err := d.attribute(f.data); err != nil {
					return err
				}
			case 15:
				if code, err = statusCode(f.data, code); err != nil {
					return err
				}
			}
		case fixed64:
			switch f.number {
			case 7:
				s.start = f.num
			case 8:
				s.end = f.num
			}
		case varint:
			if f.number == 6 {
				kind = f.num
			}
		}
	}
	if len(name) > 0 {
		d.attrs.Mask |= 1 << semconv.Name
		d.attrs.V[semconv.Name] = view(name)
	}
	if kind <= uint64(semconv.Consumer) {
		s.of = semconv.Kind(kind)
	}
	s.failed = code == 2 || code == 0 && (d.httpStatus >= 500 || d.rpcStatus > 0 && semconv.RPCFailed(s.of, int(d.rpcStatus)))
	return nil
}

// statusCode reads the code (field 3) of a Status message.
func statusCode(b []byte, code uint64) (uint64, error) {
	var f field
	for i := 0; i < len(b); {
		var err error
		if i, err = f.next(b, i); err != nil {
			return 0, err
		}
		if f.number == 3 && f.wire == varint {
			code = f.num
		}
	}
	return code, nil
}

// targetHash returns the hash of what decides the labels of the span in d.attrs, whose mask
// is selected, except for its tenant and a route that is learned.
func (d *decoder) targetHash(s *spanFields) uint64 {
	a, k := &d.attrs, s.of
	key := d.key[:16]
	flags := byte(k) << 2
	if s.failed {
		flags |= 1
	}
	if s.entry() {
		flags |= 1 << 7
	}
	mask := a.Mask
	if a.Volatile() {
		var component string
		d.operation, component = semconv.Operation(d.operation[:0], k, a)
		key = append(key, flags|2)
		key = append(key, component...)
		key = append(key, 0)
		key = binary.AppendUvarint(key, uint64(len(d.operation)))
		key = append(key, d.operation...)
		mask &= semconv.Always | semconv.Systems
	} else {
		key = append(key, flags)
	}
	for mask &^= 1 << semconv.Tenant; mask != 0; mask &= mask - 1 {
		slot := bits.TrailingZeros64(uint64(mask))
		v := a.V[slot]
		if n := uint(len(v)); n < 0x80 {
			key = append(key, byte(slot), byte(n))
		} else {
			key = append(key, byte(slot))
			key = binary.AppendUvarint(key, uint64(n))
		}
		key = append(key, v...)
	}
	if k == semconv.Client || k == semconv.Producer {
		key = d.appendAddress(append(key, 0xFF))
	}
	d.key = key
	return xxh3.HashSeed(key, d.r.seed)
}

// identify sets d.id to the identity of the span in d.attrs, without a tenant, and
// d.address to the callee of a call. d.operation is the span's operation.
func (d *decoder) identify(s *spanFields, component string) {
	r := d.res
	d.id = agg.SpanIdentity{
		Service:   r.service(),
		Operation: fitLabel(view(d.operation)),
		Component: component,
		Kind:      s.of.String(),
		Status:    "ok",
		Version:   r.attrs.Get(semconv.Version),
		Variant:   d.either(semconv.Variant),
		Instance:  r.attrs.Get(semconv.Instance),

		Environment:  d.place(semconv.Environment),
		Namespace:    d.place(semconv.Namespace),
		K8sNamespace: d.place(semconv.K8sNamespace),
		Workload:     d.place(semconv.Workload),
	}
	if s.failed {
		d.id.Status = "error"
	}
	if component != semconv.App {
		d.id.System = cmp.Or(fitLabel(d.attrs.System()), d.alias(semconv.DBSystem))
	} else {
		d.id.System = d.alias(semconv.DBSystem)
	}
	d.address = d.address[:0]
	if s.of == semconv.Client || s.of == semconv.Producer {
		d.address = d.appendAddress(d.address)
	}
	d.id.Peer = cmp.Or(fitLabel(view(d.address)), d.alias(semconv.ServerAddress))
	d.extra = d.extra[:0]
	for _, i := range d.r.extraOrder {
		if v := d.either(semconv.Extra + semconv.Slot(i)); v != "" {
			d.extra = append(d.extra, labels.Label{Name: d.r.keys.Extras[i], Value: v})
		}
	}
	d.id.Extra = d.extra
}

// place returns a label that says where the sender runs.
func (d *decoder) place(s semconv.Slot) string { return cmp.Or(d.either(s), d.alias(s)) }

// alias returns the value of an operator's label that stands for slot s.
func (d *decoder) alias(s semconv.Slot) string {
	for _, extra := range d.r.keys.Aliases(s) {
		if v := d.either(extra); v != "" {
			return v
		}
	}
	return ""
}

// either returns the value in the span, valid as long as the payload, or else that in
// its resource.
func (d *decoder) either(s semconv.Slot) string {
	if v := d.attrs.Get(s); v != "" {
		return fitLabel(v)
	}
	return d.res.attrs.Get(s)
}
