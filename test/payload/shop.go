package payload

import (
	"cmp"
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

// The traces of a shop, for what puts traces together. Each crosses three
// services and is exported by three processes:
//
//	web       |======================= POST /api/{noun}/{id} =======================|
//	            |== GET accounts ==|  |===== GET catalog =====|
//	accounts     |== GET /session ==|   |== POST provider (external, parallel) =====|
//	               |redis| |SELECT|                                       |INSERT|
//	catalog                            |=== GET /stock ===|
//	                                     |== SELECT ==|
//
// ten spans, three of them requests. A process exports when it has 200 spans,
// so that the spans of a trace arrive in three requests and seldom together.
const (
	ShopSpansPerTrace    = 10
	ShopRequestsPerTrace = 3 // spans of kind server
	exportSpans          = 200
)

// Shop makes traces of a shop.
type Shop struct {
	// Headless leaves the roots out: the traces do not end.
	Headless bool
	// Endless, if it is not 0, puts all spans into so many traces.
	Endless int
	// Every is the time from one trace to the next; default as SpansPerSecond has it.
	Every time.Duration
	// Tenant is the tenant of all traces; default one of Tenants for each.
	Tenant string

	rng     *rand.Rand
	tenants *rand.Zipf
	now     time.Time
	made    int
	open    map[string][]*trace.Span // by process, not exported yet
	ready   [][]byte
}

// NewShop returns a source of traces that begin at start and follow each other
// at SpansPerSecond. The same seed gives the same bytes.
func NewShop(seed uint64, start time.Time) *Shop {
	rng := rand.New(rand.NewPCG(seed, 0x5409))
	return &Shop{rng: rng, tenants: rand.NewZipf(rng, 1.33, 8, Tenants-1), now: start, open: map[string][]*trace.Span{}}
}

// Requests makes n traces and returns the marshalled exports that became full,
// in the order of their last spans; with the last call all.
func (s *Shop) Requests(n int, last bool) [][]byte {
	s.ready = nil
	for range n {
		s.trace()
		s.now = s.now.Add(cmp.Or(s.Every, ShopSpansPerTrace*time.Second/SpansPerSecond))
	}
	if last {
		for _, service := range shopServices {
			for i := range instancesOfEach {
				s.export(service, i)
			}
		}
	}
	return s.ready
}

var shopServices = [...]string{"web", "accounts", "catalog"}

func process(service string, instance int) string { return fmt.Sprintf("%s-%d", service, instance) }

func (s *Shop) add(service string, instance int, span *trace.Span) {
	p := process(service, instance)
	s.open[p] = append(s.open[p], span)
	if len(s.open[p]) == exportSpans {
		s.export(service, instance)
	}
}

func (s *Shop) export(service string, instance int) {
	p := process(service, instance)
	spans := s.open[p]
	if len(spans) == 0 {
		return
	}
	s.open[p] = nil
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(&collectortrace.ExportTraceServiceRequest{ResourceSpans: []*trace.ResourceSpans{{
		Resource: &resource.Resource{Attributes: []*common.KeyValue{
			text("service.name", service), text("service.version", "2.0.3"), text("service.instance.id", p),
			text("telemetry.sdk.language", "go"), text("telemetry.sdk.name", "opentelemetry"), text("telemetry.sdk.version", "1.38.0"),
		}},
		ScopeSpans: []*trace.ScopeSpans{{
			Scope: &common.InstrumentationScope{Name: "go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp", Version: "0.63.0"},
			Spans: spans,
		}},
		SchemaUrl: "https://opentelemetry.io/schemas/1.37.0",
	}}})
	if err != nil {
		panic(err) // cannot happen: every string is ASCII
	}
	s.ready = append(s.ready, b)
}

func (s *Shop) spanID() []byte { return binary.BigEndian.AppendUint64(nil, s.rng.Uint64()|1) }

// lasting returns a log-normal duration around a median, in nanoseconds.
func (s *Shop) lasting(median time.Duration) int64 {
	return int64(float64(median) * math.Exp(0.7*s.rng.NormFloat64()))
}

// shopTrace is one trace while it is made.
type shopTrace struct {
	*Shop
	id     []byte
	tenant *common.KeyValue
}

func (t *shopTrace) span(service string, instance int, kind trace.Span_SpanKind, name string, id, parent []byte, start, end int64, attrs ...*common.KeyValue) {
	t.add(service, instance, &trace.Span{TraceId: t.id, SpanId: id, ParentSpanId: parent, Name: name, Kind: kind, Flags: 0x101,
		StartTimeUnixNano: uint64(start), EndTimeUnixNano: uint64(end), Attributes: append(attrs, t.tenant)})
}

// query returns a call of a database; it returns when it ended.
func (t *shopTrace) query(service string, instance int, parent []byte, at int64, verb, table string, median time.Duration) int64 {
	end := at + t.lasting(median)
	query := "SELECT * FROM " + table + " WHERE id = $1 AND tenant = $2"
	if verb == "INSERT" {
		query = "INSERT INTO " + table + " (id, tenant, body) VALUES ($1, $2, $3)"
	}
	t.span(service, instance, trace.Span_SPAN_KIND_CLIENT, verb+" "+table, t.spanID(), parent, at, end,
		text("db.system.name", "postgresql"), text("db.operation.name", verb), text("db.collection.name", table),
		text("db.query.text", query), text("server.address", "pg-primary"))
	return end
}

// call returns a call of another service, whose work makes its spans and returns
// when it ended.
func (t *shopTrace) call(from string, instance int, parent []byte, at int64, to, route string, work func(instance int, id []byte, at int64) int64) int64 {
	client, server, callee := t.spanID(), t.spanID(), t.rng.IntN(instancesOfEach)
	begin := at + 150_000 // the way there, and back
	end := work(callee, server, begin+50_000) + 80_000
	t.span(to, callee, trace.Span_SPAN_KIND_SERVER, "GET "+route, server, client, begin, end,
		text("http.request.method", "GET"), text("http.route", route), text("url.path", route), text("url.scheme", "http"), number("http.response.status_code", 200))
	t.span(from, instance, trace.Span_SPAN_KIND_CLIENT, "GET", client, parent, at, end+150_000,
		text("http.request.method", "GET"), text("server.address", to), text("url.full", "http://"+to+":8080"+route), number("http.response.status_code", 200))
	return end + 150_000
}

func (s *Shop) trace() {
	tenant := s.Tenant
	if tenant == "" {
		tenant = fmt.Sprintf("tenant-%05d", s.tenants.Uint64())
	}
	t := &shopTrace{Shop: s, id: make([]byte, 16), tenant: text("tenant.id", tenant)}
	binary.BigEndian.PutUint64(t.id, s.rng.Uint64())
	binary.BigEndian.PutUint64(t.id[8:], s.rng.Uint64())
	if s.Endless > 0 {
		copy(t.id, "endless ")
		binary.BigEndian.PutUint64(t.id[8:], uint64(s.made%s.Endless))
	}
	s.made++
	web, root := s.rng.IntN(instancesOfEach), s.spanID()
	route := min(s.rng.IntN(routesOfEach), s.rng.IntN(routesOfEach))
	noun, m := nouns[route%len(nouns)], method[route/len(nouns)]
	start := s.now.UnixNano()

	at := t.call("web", web, root, start+200_000, "accounts", "/session", func(instance int, id []byte, at int64) int64 {
		end := at + s.lasting(400*time.Microsecond)
		t.span("accounts", instance, trace.Span_SPAN_KIND_CLIENT, "GET", s.spanID(), id, at, end,
			text("db.system.name", "redis"), text("db.operation.name", "GET"), text("server.address", "redis-0"))
		return t.query("accounts", instance, id, end+20_000, "SELECT", "sessions", 2*time.Millisecond)
	})
	at += 50_000
	// The stock and the payment provider at once; the request waits for both.
	stocked := t.call("web", web, root, at, "catalog", "/stock/{id}", func(instance int, id []byte, at int64) int64 {
		return t.query("catalog", instance, id, at+30_000, "SELECT", noun, 4*time.Millisecond)
	})
	paid := at + s.lasting(8*time.Millisecond)
	t.span("web", web, trace.Span_SPAN_KIND_CLIENT, "POST", s.spanID(), root, at, paid,
		text("http.request.method", "POST"), text("server.address", "api.provider.example"),
		text("url.full", fmt.Sprintf("https://api.provider.example/v1/charges/%d", s.rng.IntN(1e6))), number("http.response.status_code", 200))
	at = t.query("web", web, root, max(stocked, paid)+20_000, "INSERT", noun, 3*time.Millisecond)
	if s.Headless {
		return
	}
	code, status := int64(200), &trace.Status{}
	if s.rng.IntN(100) == 0 {
		code, status = 503, &trace.Status{Code: trace.Status_STATUS_CODE_ERROR}
	}
	path := "/api/" + noun
	s.add("web", web, &trace.Span{TraceId: t.id, SpanId: root, Name: m + " " + path + "/{id}", Kind: trace.Span_SPAN_KIND_SERVER, Flags: 0x101,
		StartTimeUnixNano: uint64(start), EndTimeUnixNano: uint64(at + 100_000), Status: status,
		Attributes: []*common.KeyValue{
			text("http.request.method", m), text("http.route", path+"/{id}"), text("url.path", fmt.Sprintf("%s/%d", path, s.rng.IntN(1e6))),
			text("url.scheme", "http"), text("network.protocol.version", "1.1"),
			text("user_agent.original", "Mozilla/5.0 (X11; Linux x86_64; rv:131.0) Gecko/20100101 Firefox/131.0 (web)"),
			number("http.response.status_code", code), t.tenant,
		}})
}
