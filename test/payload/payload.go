// Package payload makes the OTLP requests that every ingest benchmark sends,
// to Tailscope and to its peers alike: the same bytes for the same seed.
//
// A trace is one server span with four client children (two database calls, a
// cache look-up and a call to another service). Its tenant is one of 10,000,
// drawn by Zipf's law, so that a few tenants make most of the traffic and most
// tenants are rarely seen. A request carries 40 traces, 200 spans, of one
// process of one service. 5,000 requests (a million spans) hold some 146,000
// distinct combinations of service, operation, kind, status and tenant, at
// about 266 bytes a span.
package payload

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

const (
	// TracesPerRequest and SpansPerTrace give the 200 spans of a request.
	TracesPerRequest = 40
	SpansPerTrace    = 5
	SpansPerRequest  = TracesPerRequest * SpansPerTrace

	// Tenants is the number of tenants.
	Tenants = 10_000
	// SpansPerSecond is the rate at which the spans' times advance.
	SpansPerSecond = 20_000

	services        = 3
	instancesOfEach = 3
	routesOfEach    = 8
)

// Wide requests come from WideInstances processes of each of WideServices services, with
// WideRoutes routes, and each tenant is as likely as any other: nearly every request is
// the first of its tenant, route and process.
const (
	WideServices  = 8
	WideRoutes    = 30
	WideInstances = 4
)

// WideAt is TracesAt of wide requests.
func WideAt(seed uint64, n int, start time.Time) [][]byte {
	g := newGenerator(seed, start)
	g.wide = true
	out := make([][]byte, n)
	for i := range out {
		out[i] = marshal(g.request())
	}
	return out
}

// ProbeService is the service of Probe.
const ProbeService = "probe"

// Probe returns a request of one span of ProbeService that ends at a moment.
func Probe(seed uint64, end time.Time) []byte {
	g := newGenerator(seed, end)
	id := append(g.spanID(), g.spanID()...)
	return marshal(&collectortrace.ExportTraceServiceRequest{ResourceSpans: []*trace.ResourceSpans{{
		Resource: &resource.Resource{Attributes: []*common.KeyValue{text("service.name", ProbeService)}},
		ScopeSpans: []*trace.ScopeSpans{{Spans: []*trace.Span{{
			TraceId: id, SpanId: g.spanID(), Name: "GET /probe", Kind: trace.Span_SPAN_KIND_SERVER,
			StartTimeUnixNano: uint64(end.Add(-time.Millisecond).UnixNano()), EndTimeUnixNano: uint64(end.UnixNano()),
		}}}},
	}}})
}

func marshal(r *collectortrace.ExportTraceServiceRequest) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(r)
	if err != nil {
		panic(err) // cannot happen: every string is ASCII
	}
	return b
}

// Start is the moment at which the first span of Traces ends, about.
var Start = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

// Traces returns n marshalled ExportTraceServiceRequest messages whose times
// begin at Start. The same seed gives the same bytes.
func Traces(seed uint64, n int) [][]byte { return TracesAt(seed, n, Start) }

// TracesAt is Traces with times that begin at start.
func TracesAt(seed uint64, n int, start time.Time) [][]byte {
	reqs := Requests(seed, n, start)
	out := make([][]byte, len(reqs))
	for i, r := range reqs {
		out[i] = marshal(r)
	}
	return out
}

// Requests returns what Traces marshals.
func Requests(seed uint64, n int, start time.Time) []*collectortrace.ExportTraceServiceRequest {
	g := newGenerator(seed, start)
	out := make([]*collectortrace.ExportTraceServiceRequest, n)
	for i := range out {
		out[i] = g.request()
	}
	return out
}

type generator struct {
	rng     *rand.Rand
	tenants *rand.Zipf
	now     time.Time
	wide    bool // see WideAt
}

func newGenerator(seed uint64, start time.Time) *generator {
	rng := rand.New(rand.NewPCG(seed, 0x7a11))
	return &generator{
		rng:     rng,
		tenants: rand.NewZipf(rng, 1.33, 8, Tenants-1),
		now:     start,
	}
}

var serviceNames = [services]string{"checkout", "catalog", "accounts"}

// serviceName returns the name of a service.
func serviceName(svc int) string {
	if svc < len(serviceNames) {
		return serviceNames[svc]
	}
	return fmt.Sprintf("service-%d", svc)
}

var (
	nouns  = [...]string{"cart", "orders", "items", "users", "invoices", "returns"}
	verbs  = [...]string{"SELECT", "INSERT", "UPDATE", "DELETE"}
	method = [...]string{"GET", "POST"}
)

// request makes one export of one process.
func (g *generator) request() *collectortrace.ExportTraceServiceRequest {
	svc, instance := g.rng.IntN(services), g.rng.IntN(instancesOfEach)
	if g.wide {
		svc, instance = g.rng.IntN(WideServices), g.rng.IntN(WideInstances)
	}
	service := serviceName(svc)
	spans := make([]*trace.Span, 0, SpansPerRequest)
	for range TracesPerRequest {
		spans = g.trace(spans)
		g.now = g.now.Add(SpansPerTrace * time.Second / SpansPerSecond)
	}
	return &collectortrace.ExportTraceServiceRequest{ResourceSpans: []*trace.ResourceSpans{{
		Resource: &resource.Resource{Attributes: []*common.KeyValue{
			text("service.name", service),
			text("service.version", "1.4.2"),
			text("service.instance.id", fmt.Sprintf("%s-%d", service, instance)),
			text("telemetry.sdk.language", "go"),
			text("telemetry.sdk.name", "opentelemetry"),
			text("telemetry.sdk.version", "1.38.0"),
		}},
		ScopeSpans: []*trace.ScopeSpans{{
			Scope: &common.InstrumentationScope{Name: "go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp", Version: "0.63.0"},
			Spans: spans,
		}},
		SchemaUrl: "https://opentelemetry.io/schemas/1.37.0",
	}}}
}

// trace appends one server span and its four children, children first, as
// exporters send them in order of their ends.
func (g *generator) trace(spans []*trace.Span) []*trace.Span {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], g.rng.Uint64())
	binary.BigEndian.PutUint64(id[8:], g.rng.Uint64())
	root := g.spanID()
	var tenantNumber uint64
	var route int
	if g.wide {
		tenantNumber, route = g.rng.Uint64N(Tenants), g.rng.IntN(WideRoutes)
	} else {
		tenantNumber = g.tenants.Uint64()
		route = min(g.rng.IntN(routesOfEach), g.rng.IntN(routesOfEach))
	}
	tenant := text("tenant.id", fmt.Sprintf("tenant-%05d", tenantNumber))
	noun := nouns[route%len(nouns)]
	m := method[route/len(nouns)%len(method)]
	failed := g.rng.IntN(100) == 0

	// Log-normal work in each child, one after the other.
	start := g.now.UnixNano()
	at := start + 200_000 + g.rng.Int64N(200_000)
	child := func(median time.Duration, name string, attrs ...*common.KeyValue) {
		d := int64(float64(median) * math.Exp(0.7*g.rng.NormFloat64()))
		spans = append(spans, &trace.Span{
			TraceId: id[:], SpanId: g.spanID(), ParentSpanId: root,
			Name: name, Kind: trace.Span_SPAN_KIND_CLIENT, Flags: 0x101,
			StartTimeUnixNano: uint64(at), EndTimeUnixNano: uint64(at + d),
			Attributes: append(attrs, tenant),
		})
		at += d + 20_000
	}
	for k := range 2 {
		verb := verbs[(route+3*k)%len(verbs)]
		child(3*time.Millisecond, verb+" "+noun,
			text("db.system.name", "postgresql"),
			text("db.operation.name", verb),
			text("db.collection.name", noun),
			text("server.address", "pg-primary"),
		)
	}
	child(400*time.Microsecond, "GET",
		text("db.system.name", "redis"),
		text("db.operation.name", "GET"),
		text("server.address", "redis-0"),
	)
	child(8*time.Millisecond, m,
		text("http.request.method", m),
		text("server.address", "payments"),
		text("url.full", fmt.Sprintf("http://payments:8080/v1/%s/%d", noun, g.rng.IntN(1e6))),
		number("http.response.status_code", 200),
	)
	code, status := int64(200), &trace.Status{}
	if failed {
		code, status = 503, &trace.Status{Code: trace.Status_STATUS_CODE_ERROR}
	}
	path := fmt.Sprintf("/api/%s", noun)
	if g.wide {
		path = fmt.Sprintf("/api/v%d/%s", route/len(nouns)/len(method), noun)
	}
	return append(spans, &trace.Span{
		TraceId: id[:], SpanId: root,
		Name: m + " " + path + "/{id}", Kind: trace.Span_SPAN_KIND_SERVER, Flags: 0x101,
		StartTimeUnixNano: uint64(start), EndTimeUnixNano: uint64(at + 100_000),
		Attributes: []*common.KeyValue{
			text("http.request.method", m),
			text("http.route", path+"/{id}"),
			text("url.path", fmt.Sprintf("%s/%d", path, g.rng.IntN(1e6))),
			text("url.scheme", "http"),
			text("network.protocol.version", "1.1"),
			text("user_agent.original", "Mozilla/5.0 (X11; Linux x86_64; rv:131.0) Gecko/20100101 Firefox/131.0 (checkout-web)"),
			number("http.response.status_code", code),
			tenant,
		},
		Status: status,
	})
}

func (g *generator) spanID() []byte {
	return binary.BigEndian.AppendUint64(nil, g.rng.Uint64()|1)
}

func text(key, value string) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: value}}}
}

func number(key string, value int64) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: value}}}
}
