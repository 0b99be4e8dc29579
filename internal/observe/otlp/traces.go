package otlp

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

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
		if b[i] == 2<<3|bytesT {
			if size, at := shortLength(b[i:]); at > 0 {
				at += i
				i = at + size
				if err := d.span(b[at:i:i]); err != nil {
					return err
				}
				continue
			}
		}
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

// pending is a span whose target has not been looked up yet. It has no pointers, which the
// garbage collector would follow.
type pending struct {
	hash     uint64 // of what decides the target, which has no tenant
	end      int64
	duration int64
	weight   uint32
	span     int32 // index in decoder.spans, or -1
	message  rawValue
	member   uint16 // index in decoder.members
	path     uint16 // index in decoder.paths, from 1; 0 if the route is not learned
	entry    bool   // see spanFields.entry
}

// maxPending bounds the pending spans.
const maxPending = 512

// flushPending looks up the targets of the pending spans, which are of one resource, and
// adds them to the batch with their tenants.
func (d *decoder) flushPending() error {
	if len(d.pending) == 0 {
		return nil
	}
	if len(d.paths) > 0 {
		d.r.routes.learn(d.res.service(), d.paths)
		for i := range d.pending {
			if p := &d.pending[i]; p.path > 0 {
				p.hash = max(p.hash^d.paths[p.path-1].operation.hash, 1)
			}
		}
	}
	known := d.r.cache.latest(d.tables)
	d.fetched = known.fetch(d.pending)
	for i := range d.pending {
		p := &d.pending[i]
		to, ok := d.r.cache.find(known, p.hash)
		if !ok {
			var err error
			if to, err = d.resolve(p); err != nil {
				return err
			}
		}
		if i == 0 {
			d.foldTenants(to.target)
		}
		m := &d.members[p.member]
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
	d.pending = d.pending[:0]
	clear(d.members) // of references to the payload
	d.members = d.members[:0]
	d.releasePaths()
	return nil
}

// member returns the index in d.members of the tenant of the span just read. Spans of one
// tenant in a row share it.
func (d *decoder) member() uint16 {
	tenant := d.res.attrs.Get(semconv.Tenant)
	if d.present.Has(semconv.Tenant) {
		tenant = d.value(semconv.Tenant)
	}
	n := len(d.members)
	if n == 0 || d.members[n-1].Tenant != tenant {
		d.members = append(d.members, agg.Member{Tenant: d.keep(tenant)})
		n++
	}
	return uint16(n - 1)
}

// foldTenants decides which of d.members are folded. The target is one of their service.
func (d *decoder) foldTenants(t agg.Target) {
	for i := range d.members {
		m := &d.members[i]
		m.Target, m.Tenant = t, fitLabel(m.Tenant)
	}
	d.r.sink.Fold(d.members)
}

// resolve returns the target and the name of a pending span, without a tenant. It adds them
// to the cache, unless a span before it did.
func (d *decoder) resolve(p *pending) (resolved, error) {
	if to, ok := d.r.cache.get(d.tables, p.hash); ok {
		return to, nil
	}
	var s spanFields
	if err := d.read(d.bytes(p.message), &s); err != nil {
		return resolved{}, err
	}
	d.readTexts(semconv.Select(s.of, d.present))
	if d.attrs.Mask.HasPath(s.of) {
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
	if len(d.pending) == cap(d.pending) {
		d.pending = slices.Grow(d.pending, 64)
	}
	d.pending = d.pending[:len(d.pending)+1]
	p := &d.pending[len(d.pending)-1]
	*p = pending{}
	p.end, p.duration, p.weight, p.span, p.message, p.entry = int64(s.end), int64(s.end-s.start), w, -1, d.rawOf(b), s.entry()
	if d.r.assembler != nil && d.from <= p.end && p.end <= d.to {
		p.span = int32(len(d.spans))
		d.assemble(&s, w, b)
	}
	p.member = d.member()
	p.hash = max(d.targetHash(&s, p), 1) // 0 is an empty slot of the cache
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

// read decodes a Span message into s, and where its attributes' values are into d.raw.
func (d *decoder) read(b []byte, s *spanFields) error {
	var kind, code uint64
	d.beginAttributes()
	d.httpStatus, d.rpcStatus, d.queued = 0, -1, 0
	i, alike := 0, uint32(0) // alike begins with the name
	// Nearly all encoders write fields in the order of their numbers, and those of fixed
	// size first: each is read where it is expected, and the loop reads what is left.
	if len(b) > 64 {
		if b[0] == 1<<3|bytesT && b[1] == 16 {
			s.traceID, i = b[2:18], 18
		}
		if b[i] == 2<<3|bytesT && b[i+1] == 8 {
			s.id, i = b[i+2:i+10], i+10
		}
		if b[i] == 4<<3|bytesT && b[i+1] == 8 {
			s.parent, i = b[i+2:i+10], i+10
		}
		if b[i] == 5<<3|bytesT {
			if size := int(b[i+1]); size < 0x80 && i+2+size+20 < len(b) { // and what is read next
				d.setName(b[i:i+2+size], size)
				alike = binary.LittleEndian.Uint32(b[i+2:])
				i += 2 + size
			}
		}
		if b[i] == 6<<3|varint && b[i+1] < 0x80 {
			kind, i = uint64(b[i+1]), i+2
		}
		if b[i] == 7<<3|fixed64 && b[i+9] == 8<<3|fixed64 {
			s.start, s.end = binary.LittleEndian.Uint64(b[i+1:]), binary.LittleEndian.Uint64(b[i+10:])
			i += 18
		}
	}
	d.order.begin((alike ^ uint32(kind)) * 0x9E3779B1 >> 16)
	i, err := d.attributes(b, i)
	if err != nil {
		return err
	}
	for i < len(b) {
		switch b[i] {
		case 9<<3 | bytesT:
			if size, at := shortLength(b[i:]); at > 0 {
				at += i
				i = at + size
				if err := d.attribute(b[at:i:i]); err != nil {
					return err
				}
				continue
			}
		case 15<<3 | bytesT:
			if len(b)-i >= 2 && b[i+1] == 0 { // a status that says nothing
				i += 2
				continue
			}
		case 0x85: // field 16 in 32 bits: flags
			if len(b)-i >= 6 && b[i+1] == 1 {
				i += 6
				continue
			}
		}
		var f field
		begin := i
		if i, err = f.next(b, i); err != nil {
			return err
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
				d.setName(b[begin:i], len(f.data))
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
	if kind <= uint64(semconv.Consumer) {
		s.of = semconv.Kind(kind)
	}
	s.failed = code == 2 || code == 0 && (d.httpStatus >= 500 || d.rpcStatus > 0 && semconv.RPCFailed(s.of, int(d.rpcStatus)))
	return nil
}

// attributes reads attributes from b[i:] on as long as they are short and have values in their
// usual form. It returns the index after them.
func (d *decoder) attributes(b []byte, i int) (int, error) {
	p := &d.order
	n := &p.nodes[p.at%orderNodes]
	base := d.rawOf(b).at
	for i+2 < len(b) && b[i] == 9<<3|bytesT && b[i+1] < 0x80 {
		size := uint(b[i+1])
		begin := i + 2
		if size > uint(len(b)-begin) {
			break
		}
		i = begin + int(size)
		kv := b[begin:i:i]
		at := n.next[0] % orderNodes
		n = &p.nodes[at]
		// What attribute does, without its calls. A root, whose size is 0, is not expected.
		w, key := &n.words, uint(n.size)
		if key == 0 || key >= size || word(kv, 0)^w[0]|word(kv, uint(n.second))^w[1]|word(kv, uint(n.third))^w[2]|word(kv, uint(n.last))^w[3] != 0 ||
			key > 32 || uint(kv[key]) != size-key-1 {
			if err := d.attribute(kv); err != nil {
				return i, err
			}
			n = &p.nodes[p.at%orderNodes]
			continue
		}
		p.at = at
		if n.rank == 0 {
			continue
		}
		v := kv[key+1:]
		if s := n.slot; len(v) > 2 && v[0] == 1<<3|bytesT && int(v[1]) == len(v)-2 && !(d.present | unlabelled).Has(s) {
			d.present |= 1 << s
			d.raw[s] = rawValue{base + uint32(i-len(v)), uint32(len(v))}
			d.rank[s] = n.rank
		} else if err := d.setValue(s, n.rank, v); err != nil {
			return i, err
		}
	}
	return i, nil
}

// shortLength returns the length of the field of bytes that b begins with, and where they
// begin. at is 0 if they are not all in b, or the length has more than two bytes.
func shortLength(b []byte) (size, at int) {
	if len(b) < 2 {
		return 0, 0
	}
	size, at = int(b[1]), 2
	if size >= 0x80 {
		if len(b) < 3 || b[2] >= 0x80 {
			return 0, 0
		}
		size, at = size&0x7F|int(b[2])<<7, 3
	}
	if size > len(b)-at {
		return 0, 0
	}
	return size, at
}

// setName keeps the span's name, whose field and size are given.
func (d *decoder) setName(b []byte, size int) {
	d.present &^= 1 << semconv.Name
	if size > 0 {
		d.present |= 1 << semconv.Name
		d.raw[semconv.Name] = d.rawOf(b)
	}
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

// targetHash returns the hash of what decides the labels of the span just read, except for its
// tenant and a route that is learned. It is that of values as they came: those of one text in
// two forms give one target two hashes.
func (d *decoder) targetHash(s *spanFields, p *pending) uint64 {
	k := s.of
	flags := uint64(k) << 2
	if s.failed {
		flags |= 1
	}
	if p.entry {
		flags |= 1 << 7
	}
	secret := d.r.seed
	h := d.res.hash
	mask := semconv.Select(k, d.present)
	if mask.HasPath(k) {
		d.readTexts(mask)
		d.takePath(p)
		mask = d.attrs.Mask
	}
	if d.volatile(mask) {
		d.readTexts(mask)
		var component string
		d.operation, component = semconv.Operation(d.operation[:0], k, &d.attrs)
		flags |= 2
		h = mixBytes(mixBytes(h, secret, bytesOf(component)), secret, d.operation)
		mask &= semconv.Always | semconv.Systems
	}
	mask &^= 1 << semconv.Tenant
	callee := semconv.Mask(0)
	if k == semconv.Client || k == semconv.Producer {
		callee = semconv.Callee(d.present)
	}
	h = mix(h^uint64(mask), secret^uint64(callee)^flags<<56)
	for mask |= callee; mask != 0; mask &= mask - 1 {
		h = mixBytes(h, secret, d.bytes(d.raw[bits.TrailingZeros64(uint64(mask))%semconv.NumSlots]))
	}
	return h
}

// volatile reports whether the values of the selected slots are a poor key.
func (d *decoder) volatile(selected semconv.Mask) bool {
	return selected.Volatile() || selected.Has(semconv.Name) && semconv.VolatileName(d.value(semconv.Name))
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
