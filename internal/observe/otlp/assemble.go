package otlp

import (
	"math"
	"strconv"
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"tailscope/internal/observe/queuetime"
	"tailscope/internal/observe/semconv"
	"tailscope/internal/observe/sqltext"
	"tailscope/internal/observe/traces"
	"tailscope/internal/route"
)

// Assembler receives accepted spans for the breakdown; see traces.Assembler.
type Assembler interface {
	// Epoch returns a number that changes when names and texts must be resolved anew.
	Epoch() uint32
	// Name returns the number of an identity. It does not retain the identity's strings.
	Name(*traces.Identity) traces.Name
	// OfTenant returns the number of an identity that has a tenant instead of none.
	OfTenant(n traces.Name, tenant string) traces.Name
	TextBytes(statement []byte) traces.Text
	// Add adds spans. It does not retain the slice.
	Add([]traces.Span)
}

// assemble appends the span just read to those of the request.
func (d *decoder) assemble(s *spanFields, weight uint32, message []byte) {
	if len(d.spans) < cap(d.spans) {
		d.spans = d.spans[:len(d.spans)+1]
	} else {
		d.spans = append(d.spans, traces.Span{})
	}
	x := &d.spans[len(d.spans)-1]
	*x = traces.Span{Start: int64(s.start), End: int64(s.end), Weight: weight, Failed: s.failed}
	if len(s.traceID) == len(x.TraceID) {
		x.TraceID = [16]byte(s.traceID)
	}
	if len(s.id) == len(x.ID) {
		x.ID = [8]byte(s.id)
	}
	if len(s.parent) == len(x.Parent) {
		x.Parent = [8]byte(s.parent)
	}
	if d.queued != 0 {
		if queuetime.Plausible(d.queued, x.Start) {
			x.Queued = d.queued
		} else {
			d.implausible++
		}
	}
	if d.present.Has(semconv.DBText) {
		system := ""
		if d.present.Has(semconv.DBSystem) {
			system = d.value(semconv.DBSystem)
		}
		x.Text = d.text(d.value(semconv.DBText), system)
	}
	x.Detail = d.detail(s, message)
}

// name returns the name in the breakdown, without a tenant, of the span just read, whose
// identity as it is counted is in d.id.
func (d *decoder) name(s *spanFields) traces.Name {
	d.identity = traces.Identity{
		Service: d.id.Service, Operation: d.id.Operation, Component: d.id.Component, Kind: d.id.Kind,
		Version: d.id.Version, Variant: d.id.Variant, Instance: d.id.Instance,
		Environment: d.id.Environment, System: d.id.System,
	}
	if s.of == semconv.Client || s.of == semconv.Producer {
		d.identity.Instance = fitLabel(view(d.address))
	}
	return d.r.assembler.Name(&d.identity)
}

// appendAddress appends the callee of a call: the server's address and port, or else the
// name of the peer.
func (d *decoder) appendAddress(dst []byte) []byte {
	switch {
	case d.present.Has(semconv.ServerAddress):
		dst = append(dst, d.value(semconv.ServerAddress)...)
		if d.present.Has(semconv.ServerPort) {
			dst = append(dst, ':')
			dst = append(dst, d.value(semconv.ServerPort)...)
		}
	case d.present.Has(semconv.PeerService):
		dst = append(dst, d.value(semconv.PeerService)...)
	}
	return dst
}

// queueHeader parses a captured header: a string, a number, or a list of them.
func (d *decoder) queueHeader(b []byte, depth int) error {
	var f field
	for i := 0; i < len(b); {
		var err error
		if i, err = f.next(b, i); err != nil {
			return err
		}
		var t int64
		ok := false
		switch {
		case f.number == 1 && f.wire == bytesT:
			t, ok = queuetime.Parse(view(f.data))
		case f.number == 3 && f.wire == varint:
			var text [20]byte
			t, ok = queuetime.Parse(string(strconv.AppendInt(text[:0], int64(f.num), 10)))
		case f.number == 4 && f.wire == fixed64:
			var text [32]byte
			t, ok = queuetime.Parse(string(strconv.AppendFloat(text[:0], math.Float64frombits(f.num), 'f', -1, 64)))
		case f.number == 5 && f.wire == bytesT && depth == 0:
			err = eachBytes(f.data, 1, func(v []byte) error { return d.queueHeader(v, 1) })
		}
		if err != nil {
			return err
		}
		if ok && (d.queued == 0 || t < d.queued) {
			d.queued = t
		}
	}
	return nil
}

// eachBytes calls do with the bytes of every field with that number.
func eachBytes(b []byte, number int32, do func([]byte) error) error {
	var f field
	for i := 0; i < len(b); {
		var err error
		if i, err = f.next(b, i); err != nil {
			return err
		}
		if f.number == number && f.wire == bytesT {
			if err := do(f.data); err != nil {
				return err
			}
		}
	}
	return nil
}

// detail returns what is worth showing of this one span: the path of its URL, a status
// that is not a success, and why it failed. It is a view into the payload or into
// d.details.
func (d *decoder) detail(s *spanFields, message []byte) []byte {
	path := ""
	switch {
	case s.of == semconv.Server && d.present.Has(semconv.URLPath):
		path = d.value(semconv.URLPath)
	case d.present.Has(semconv.URL):
		path = d.value(semconv.URL)
	}
	if path != "" {
		path = route.PathOf(d.keep(path))
		path = path[:min(len(path), traces.MaxDetail)]
	}
	if !s.failed && d.httpStatus < 300 {
		return bytesOf(path)
	}
	at := len(d.details)
	d.details = append(d.details, path...)
	if d.httpStatus >= 300 {
		d.separate(at, ' ')
		d.details = strconv.AppendInt(d.details, int64(d.httpStatus), 10)
	}
	if s.failed {
		d.appendReason(at, message)
	}
	return d.details[at:len(d.details):len(d.details)]
}

func (d *decoder) separate(at int, c byte) {
	if len(d.details) > at {
		d.details = append(d.details, c)
	}
}

// appendReason appends the status' message, or else the type and message of the first
// exception. It ignores what is malformed there.
func (d *decoder) appendReason(at int, span []byte) {
	var reason, kind, text []byte
	_ = eachBytes(span, 15, func(status []byte) error {
		return eachBytes(status, 2, func(m []byte) error { reason = m; return nil })
	})
	if len(reason) == 0 {
		_ = eachBytes(span, 11, func(event []byte) error {
			if len(kind)+len(text) > 0 {
				return nil
			}
			return eachBytes(event, 3, func(attribute []byte) error {
				key, value, err := keyValue(attribute)
				if err != nil {
					return err
				}
				switch view(key) {
				case "exception.type":
					return eachBytes(value, 1, func(v []byte) error { kind = v; return nil })
				case "exception.message":
					return eachBytes(value, 1, func(v []byte) error { text = v; return nil })
				}
				return nil
			})
		})
	}
	for _, part := range [][]byte{reason, kind, text} {
		if len(part) > 0 {
			if len(part) > traces.MaxDetail {
				part = part[:traces.MaxDetail]
			}
			if len(d.details) > at {
				d.details = append(d.details, ": "...)
			}
			d.details = append(d.details, part...)
		}
	}
}

// releaseSpans drops references to the payload, and memory that only a giant request
// needs.
func (d *decoder) releaseSpans() {
	clear(d.spans)
	d.spans, d.details, d.implausible = d.spans[:0], d.details[:0], 0
	if cap(d.spans) > 1<<14 {
		d.spans = nil
	}
	if cap(d.details) > 1<<18 {
		d.details = nil
	}
}

// texts caches the numbers of statements by their hashes, as received and without
// literals: most programs send the same ones over and over. An entry holds 32 bits of
// the hash and the number, and is overwritten by the next that belongs there, so that
// statements with ever new literals do no harm.
type texts struct{ now atomic.Pointer[textTable] }

type textTable struct {
	epoch uint32
	place [1 << 13]atomic.Uint64
}

func (t *texts) at(epoch uint32) *textTable {
	now := t.now.Load()
	if now == nil || now.epoch != epoch {
		now = &textTable{epoch: epoch}
		t.now.Store(now)
	}
	return now
}

func (t *textTable) find(h uint64) traces.Text {
	if v := t.place[h%uint64(len(t.place))].Load(); uint32(v>>32) == uint32(h>>32) {
		return traces.Text(v)
	}
	return 0
}

func (t *textTable) put(h uint64, n traces.Text) {
	t.place[h%uint64(len(t.place))].Store(h>>32<<32 | uint64(n))
}

// text returns the number of a statement without its literals. It returns 0 for a
// cache's commands, which are mostly keys, and for what does not begin like SQL.
func (d *decoder) text(statement, system string) traces.Text {
	table := d.r.texts.at(d.r.assembler.Epoch())
	raw := xxh3.HashStringSeed(statement, d.r.seed)
	if t := table.find(raw); t != 0 {
		return t
	}
	if semconv.IsCache(system) || !sqltext.IsStatement(statement) {
		return 0
	}
	d.statement = sqltext.Append(d.statement[:0], statement)
	h := xxh3.HashSeed(d.statement, d.r.seed)
	t := table.find(h)
	if t == 0 {
		if t = d.r.assembler.TextBytes(d.statement); t == 0 {
			return 0
		}
		table.put(h, t)
	}
	if raw != h {
		table.put(raw, t)
	}
	return t
}
