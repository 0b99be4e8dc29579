package otlp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"tailscope/internal/agg"
	"tailscope/internal/observe/traces"
	"tailscope/test/payload"
)

// roll is an Assembler that remembers everything in words.
type roll struct {
	epoch  uint32
	names  []traces.Identity
	texts  []string
	spans  []traces.Span // with details of its own
	asked  int           // calls of Name and TextBytes
	adding func()        // if not nil, called by Add
}

func (r *roll) Epoch() uint32 { return r.epoch }

func (r *roll) Name(id *traces.Identity) traces.Name {
	r.asked++
	own := *id
	own.Operation, own.Instance = strings.Clone(id.Operation), strings.Clone(id.Instance) // they may be views of scratch space
	r.names = append(r.names, own)
	return traces.Name(len(r.names))
}

func (r *roll) OfTenant(n traces.Name, tenant string) traces.Name {
	own := r.names[n-1]
	own.Tenant = strings.Clone(tenant)
	r.names = append(r.names, own)
	return traces.Name(len(r.names))
}

func (r *roll) TextBytes(b []byte) traces.Text {
	r.asked++
	r.texts = append(r.texts, string(b))
	return traces.Text(len(r.texts))
}

func (r *roll) Add(spans []traces.Span) {
	if r.adding != nil {
		r.adding()
	}
	for _, s := range spans {
		s.Detail = []byte(string(s.Detail))
		r.spans = append(r.spans, s)
	}
}

// take forgets the spans and says them.
func (r *roll) take() string {
	var out []string
	for _, s := range r.spans {
		id := r.names[s.Name-1]
		line := fmt.Sprintf("%s %s %s %q tenant=%s instance=%s %d-%d", id.Service, id.Kind, id.Component, id.Operation, id.Tenant, id.Instance, s.Start, s.End)
		if s.Parent != [8]byte{} {
			line += " child"
		}
		if s.Weight != 1 {
			line += fmt.Sprintf(" weight=%d", s.Weight)
		}
		if s.Failed {
			line += " failed"
		}
		if s.Queued != 0 {
			line += fmt.Sprintf(" queued=%d", s.Start-s.Queued)
		}
		if s.Text != 0 {
			line += fmt.Sprintf(" text=%q", r.texts[s.Text-1])
		}
		if len(s.Detail) > 0 {
			line += fmt.Sprintf(" detail=%q", s.Detail)
		}
		out = append(out, line)
	}
	r.spans = nil
	return strings.Join(out, "\n")
}

func list(key string, values ...string) *common.KeyValue {
	a := &common.ArrayValue{}
	for _, v := range values {
		a.Values = append(a.Values, &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: v}})
	}
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: a}}}
}

// base is a moment of our days, in nanoseconds.
const base = 1_700_000_000_000_000_000

func TestAssembled(t *testing.T) {
	l, a := newLedger(), &roll{}
	r, err := newReceiver(l, a, nil, nil, 24*time.Hour, entriesOf(12<<20))
	if err != nil {
		t.Fatal(err)
	}
	f := func(s *trace.Span, want string) {
		t.Helper()
		s.TraceId, s.SpanId = make([]byte, 16), []byte{1, 2, 3, 4, 5, 6, 7, 8}
		s.TraceId[0] = 7
		if s.StartTimeUnixNano == 0 {
			s.StartTimeUnixNano, s.EndTimeUnixNano = 10, 25
		}
		for range 2 { // the second time all is known
			if _, err := r.ingest(context.Background(), traceSignal, marshal(t, spansOf([]*common.KeyValue{str("service.name", "shop"), str("service.instance.id", "i1")}, s))); err != nil {
				t.Fatal(err)
			}
			if len(a.spans) == 1 && (a.spans[0].TraceID[0] != 7 || a.spans[0].ID != [8]byte(s.SpanId)) {
				t.Errorf("ids %x %x", a.spans[0].TraceID, a.spans[0].ID)
			}
			if got := a.take(); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		}
	}
	server, client := trace.Span_SPAN_KIND_SERVER, trace.Span_SPAN_KIND_CLIENT
	attrs := func(kv ...*common.KeyValue) []*common.KeyValue { return kv }

	// Requests: the path, never the query; a status that is not a success.
	get := func(more ...*common.KeyValue) []*common.KeyValue {
		return append(attrs(str("http.request.method", "GET"), str("http.route", "/cart/{id}")), more...)
	}
	const cart = `shop server app "GET /cart/{id}" tenant= instance=i1 10-25`
	f(&trace.Span{Kind: server, Attributes: get()}, cart)
	f(&trace.Span{Kind: server, Attributes: get(str("url.path", "/cart/7"), integer("http.response.status_code", 200))}, cart+` detail="/cart/7"`)
	f(&trace.Span{Kind: server, Attributes: get(str("http.target", "/cart/7?token=secret"), integer("http.response.status_code", 404))}, cart+` detail="/cart/7 404"`)
	f(&trace.Span{Kind: server, Attributes: get(str("url.path", "/"+strings.Repeat("x", 300)))}, cart+` detail="/`+strings.Repeat("x", traces.MaxDetail-1)+`"`)
	f(&trace.Span{Kind: server, Attributes: get(str("tenant.id", "acme")), ParentSpanId: []byte{8, 7, 6, 5, 4, 3, 2, 1}, TraceState: "ot=th:8"},
		`shop server app "GET /cart/{id}" tenant=acme instance=i1 10-25 child weight=2`)

	// Failures say why.
	exception := &trace.Span_Event{Name: "exception", Attributes: attrs(str("exception.type", "NoStock"), str("exception.message", "none left"), str("exception.stacktrace", "at a"))}
	f(&trace.Span{Kind: server, Attributes: get(str("url.path", "/cart/7"), integer("http.response.status_code", 503))}, cart+` failed detail="/cart/7 503"`)
	f(&trace.Span{Kind: server, Attributes: get(), Status: &trace.Status{Code: trace.Status_STATUS_CODE_ERROR, Message: "no stock"}, Events: []*trace.Span_Event{exception}}, cart+` failed detail="no stock"`)
	f(&trace.Span{Kind: server, Attributes: get(str("url.path", "/cart/7")), Status: &trace.Status{Code: trace.Status_STATUS_CODE_ERROR},
		Events: []*trace.Span_Event{{Name: "retry"}, exception, {Name: "exception", Attributes: attrs(str("exception.type", "Later"))}}},
		cart+` failed detail="/cart/7: NoStock: none left"`)
	f(&trace.Span{Kind: server, Attributes: get(), Events: []*trace.Span_Event{exception}}, cart)

	// gRPC says by its code whose fault it was.
	rpc := func(code *common.KeyValue) []*common.KeyValue {
		return attrs(str("rpc.system", "grpc"), str("rpc.service", "Pay"), str("rpc.method", "Do"), code)
	}
	const served, called = `shop server app "Pay/Do" tenant= instance=i1 10-25`, `shop client external "Pay/Do" tenant= instance= 10-25`
	f(&trace.Span{Kind: server, Attributes: rpc(integer("rpc.grpc.status_code", 5))}, served)
	f(&trace.Span{Kind: server, Attributes: rpc(integer("rpc.grpc.status_code", 13))}, served+" failed")
	f(&trace.Span{Kind: server, Attributes: rpc(str("rpc.response.status_code", "UNAVAILABLE"))}, served+" failed")
	f(&trace.Span{Kind: client, Attributes: rpc(integer("rpc.grpc.status_code", 5))}, called+" failed")
	f(&trace.Span{Kind: client, Attributes: rpc(str("rpc.response.status_code", "OK"))}, called)
	f(&trace.Span{Kind: client, Attributes: rpc(str("rpc.response.status_code", "-32601"))}, called)
	f(&trace.Span{Kind: client, Attributes: rpc(integer("rpc.grpc.status_code", 5)), Status: &trace.Status{Code: trace.Status_STATUS_CODE_OK}}, called)

	// Calls are distinguished by their callee, and carry no literals.
	query := func(text string, more ...*common.KeyValue) []*common.KeyValue {
		return append(attrs(str("db.system.name", "postgresql"), str("db.operation.name", "SELECT"), str("db.collection.name", "carts"), str("db.query.text", text)), more...)
	}
	const selected = `shop client db "SELECT carts" tenant= instance=%s 10-25 text="SELECT * FROM carts WHERE id = ?"`
	f(&trace.Span{Kind: client, Attributes: query("SELECT * FROM carts WHERE id = 7", str("server.address", "pg-1"), integer("server.port", 5432))}, fmt.Sprintf(selected, "pg-1:5432"))
	f(&trace.Span{Kind: client, Attributes: query("SELECT * FROM carts WHERE id = 8 -- note", str("server.address", "pg-2"))}, fmt.Sprintf(selected, "pg-2"))
	f(&trace.Span{Kind: client, Attributes: query("SELECT * FROM carts WHERE id = $1", str("peer.service", "pg"))}, fmt.Sprintf(selected, "pg"))
	f(&trace.Span{Kind: client, Attributes: query(`{"find": "carts", "filter": {"name": "bob"}}`)}, `shop client db "SELECT carts" tenant= instance= 10-25`)
	f(&trace.Span{Kind: client, Attributes: attrs(str("db.system", "redis"), str("db.statement", "SET user:bob secret"))}, `shop client cache "SET" tenant= instance= 10-25`)
	f(&trace.Span{Kind: client, Attributes: attrs(str("http.request.method", "GET"), str("server.address", "pay"), str("url.full", "https://user:pw@pay/v1/do?key=secret"), integer("http.response.status_code", 200))},
		`shop client external "GET pay" tenant= instance=pay 10-25 detail="/v1/do"`)

	// Headers of the queue: the earliest of all counts.
	at := func(kv ...*common.KeyValue) *trace.Span {
		return &trace.Span{Kind: server, StartTimeUnixNano: base, EndTimeUnixNano: base + 5, Attributes: get(kv...)}
	}
	queued := fmt.Sprintf(`shop server app "GET /cart/{id}" tenant= instance=i1 %d-%d`, base, base+5)
	f(at(list("http.request.header.x-request-start", "t=1699999999.990")), queued+" queued=10000000")
	f(at(str("http.request.header.x_queue_start", "1699999999990000")), queued+" queued=10000000")
	f(at(str("x-request-start", "1699999999990"), list("http.request.header.x-queue-start", "t=1699999999.980, t=1699999999.985", "t=1699999999.970")), queued+" queued=30000000")
	f(at(integer("x-queue-start", 1699999999990)), queued+" queued=10000000")
	f(at(&common.KeyValue{Key: "x-request-start", Value: &common.AnyValue{Value: &common.AnyValue_DoubleValue{DoubleValue: 1699999999.5}}}), queued+" queued=500000000")
	f(at(str("x-request-start", "t=1700000000.010")), queued+" queued=-10000000")
	f(at(str("x-request-start", "t=1700007200")), queued+" queued=-7200000000000")
	f(at(str("x-request-start", "yesterday")), queued)
	if r.queueImplausible.Load() != 0 {
		t.Errorf("%d implausible before any was", r.queueImplausible.Load())
	}
	f(at(str("x-request-start", "t=1690000000")), queued)
	f(at(str("x-request-start", "t=1700090000")), queued)
	if n := r.queueImplausible.Load(); n != 4 {
		t.Errorf("%d implausible times of queues, want 4", n)
	}
}

// What the aggregator does not take, and what is not acknowledged, is not
// assembled.
func TestAssembledIsWhatWasAccepted(t *testing.T) {
	l, a := newLedger(), &roll{}
	l.from = 1000
	r, err := newReceiver(l, a, nil, nil, 24*time.Hour, entriesOf(12<<20))
	if err != nil {
		t.Fatal(err)
	}
	a.adding = func() {
		if l.len() == 0 {
			t.Error("spans came before they were committed")
		}
	}
	span := func(start, end uint64) *trace.Span {
		return &trace.Span{Name: "x", StartTimeUnixNano: start, EndTimeUnixNano: end}
	}
	send := func() error {
		_, err := r.ingest(context.Background(), traceSignal, marshal(t, spansOf(nil, span(5, 999), span(5, 1000), span(2000, 1000), span(999, 3000))))
		return err
	}
	l.commitErr = agg.ErrOverloaded
	if err := send(); !errors.Is(err, agg.ErrOverloaded) || len(a.spans) != 0 {
		t.Errorf("refused: %v, %d spans", err, len(a.spans))
	}
	l.commitErr = nil
	if err := send(); err != nil {
		t.Fatal(err)
	}
	const x = `unknown_service internal app "x" tenant= instance= `
	if got, want := a.take(), x+"5-1000\n"+x+"999-3000"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	// Names are asked for anew when the assembler's epoch or the batch's changes.
	for i, want := range []int{0, 1, 0, 1, 0} {
		switch i {
		case 1:
			a.epoch++
		case 3:
			l.epoch++
		}
		asked := a.asked
		if err := send(); err != nil {
			t.Fatal(err)
		}
		if got := a.asked - asked; got != want {
			t.Errorf("step %d: %d names asked for, want %d", i, got, want)
		}
	}
}

// Spans already known reach the assembler without garbage.
func TestAssembleAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	r := testReceiver(t, nullSink{})
	r.assembler = &nullAssembler{}
	p := payload.TracesAt(1, 1, time.Now())[0]
	take := func() {
		if _, err := r.ingest(context.Background(), traceSignal, p); err != nil {
			t.Fatal(err)
		}
	}
	take()
	if n := testing.AllocsPerRun(50, take); n > 2 {
		t.Errorf("%v allocations for a request of %d spans", n, payload.SpansPerRequest)
	}
}
