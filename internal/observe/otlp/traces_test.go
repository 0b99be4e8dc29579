package otlp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"tailscope/internal/agg"
	"tailscope/internal/observe/semconv"
	"tailscope/internal/observe/traces"
	"tailscope/internal/route"
	"tailscope/test/payload"
)

func str(key, value string) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: value}}}
}

func integer(key string, value int64) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: value}}}
}

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func spansOf(attrs []*common.KeyValue, spans ...*trace.Span) *collectortrace.ExportTraceServiceRequest {
	return &collectortrace.ExportTraceServiceRequest{ResourceSpans: []*trace.ResourceSpans{{
		Resource:   &resourcepb.Resource{Attributes: attrs},
		ScopeSpans: []*trace.ScopeSpans{{Scope: &common.InstrumentationScope{Name: "x"}, Spans: spans}},
	}}}
}

func TestTraces(t *testing.T) {
	l := newLedger()
	r, err := newReceiver(l, nil, nil, []string{"deployment.environment", "region"}, 24*time.Hour, entriesOf(12<<20))
	if err != nil {
		t.Fatal(err)
	}
	shop := []*common.KeyValue{str("service.name", "shop"), str("service.version", "2"), str("host.name", "h1"), str("service.instance.id", "i1"), str("tenant", "everyone"), str("deployment.environment", "prod")}
	f := func(req *collectortrace.ExportTraceServiceRequest, want, message string) {
		t.Helper()
		l.clear()
		p, err := r.ingest(context.Background(), traceSignal, marshal(t, req))
		if err != nil {
			t.Fatal(err)
		}
		if got := l.text(); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		if p.Message != message {
			t.Errorf("message %q, want %q", p.Message, message)
		}
	}
	f(spansOf(shop, &trace.Span{
		Name: "GET /cart/{id}", Kind: trace.Span_SPAN_KIND_SERVER, StartTimeUnixNano: 10, EndTimeUnixNano: 25,
		Attributes: []*common.KeyValue{str("http.request.method", "GET"), str("http.route", "/cart/{id}"), integer("tenant.id", 77), str("region", "eu")},
	}), `service="shop" operation="GET /cart/{id}" component="app" kind="server" status="ok" tenant="77" version="2" instance="i1" environment="prod" deployment_environment="prod" region="eu": 15 at 25 weight 1`, "")
	f(spansOf(shop, &trace.Span{
		Name: "x", StartTimeUnixNano: 10, EndTimeUnixNano: 10, Status: &trace.Status{Code: trace.Status_STATUS_CODE_ERROR, Message: "m"},
		Attributes: []*common.KeyValue{str("variant", "candidate")},
	}), `service="shop" operation="x" component="app" kind="internal" status="error" tenant="everyone" version="2" variant="candidate" instance="i1" environment="prod" deployment_environment="prod": 0 at 10 weight 1`, "")
	f(spansOf(nil, &trace.Span{
		Name: "GET", Kind: trace.Span_SPAN_KIND_SERVER, StartTimeUnixNano: 10, EndTimeUnixNano: 11, TraceState: "a=b, ot=th:8;p:1,c=d",
		TraceId:    make([]byte, 16),
		Attributes: []*common.KeyValue{str("http.method", "GET"), integer("http.status_code", 503)},
	}), `service="unknown_service" operation="GET" component="app" kind="server" status="error": 1 at 11 weight 2`, "")
	f(spansOf(nil,
		&trace.Span{Name: "a", StartTimeUnixNano: 11, EndTimeUnixNano: 10},
		&trace.Span{Name: "b", StartTimeUnixNano: 10},
		&trace.Span{Name: "c", EndTimeUnixNano: 10},
		&trace.Span{Name: "d", StartTimeUnixNano: 9, EndTimeUnixNano: 10, Status: &trace.Status{Code: trace.Status_STATUS_CODE_OK}, Attributes: []*common.KeyValue{integer("http.status_code", 500)}},
		&trace.Span{Name: "e", StartTimeUnixNano: 9, EndTimeUnixNano: 1 << 63},
	), `service="unknown_service" operation="d" component="app" kind="internal" status="ok": 1 at 10 weight 1`,
		"4 of 5 spans refused: 1 without a start time; 1 without an end time: send spans when they have ended; 1 that end before they start: check the clocks of the hosts; 1 too far in the future: check the clocks of the hosts")
	f(&collectortrace.ExportTraceServiceRequest{}, "", "")
}

// Where a service runs and what it calls are labels, by old and new names.
func TestPlaceAndBackend(t *testing.T) {
	l := newLedger()
	r, err := newReceiver(l, nil, nil, []string{"stage=environment", "shard=peer"}, 24*time.Hour, entriesOf(12<<20))
	if err != nil {
		t.Fatal(err)
	}
	at := []*common.KeyValue{str("service.name", "cart"), str("service.namespace", "shop"), str("k8s.namespace.name", "web"), str("k8s.statefulset.name", "cart-0")}
	place := ` service_namespace="shop" k8s_namespace="web" k8s_workload="cart-0"`
	f := func(resource []*common.KeyValue, kind trace.Span_SpanKind, want string, attributes ...*common.KeyValue) {
		t.Helper()
		l.clear()
		if _, err := r.ingest(context.Background(), traceSignal, marshal(t, spansOf(append(slices.Clone(at), resource...), &trace.Span{
			Name: "x", Kind: kind, StartTimeUnixNano: 10, EndTimeUnixNano: 25, Attributes: attributes,
		}))); err != nil {
			t.Fatal(err)
		}
		if got := l.text(); got != want+": 15 at 25 weight 1" {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	server, client, producer := trace.Span_SPAN_KIND_SERVER, trace.Span_SPAN_KIND_CLIENT, trace.Span_SPAN_KIND_PRODUCER
	f([]*common.KeyValue{str("deployment.environment", "old"), str("deployment.environment.name", "production")}, server,
		`service="cart" operation="x" component="app" kind="server" status="ok" environment="production"`+place)
	f([]*common.KeyValue{str("stage", "staging")}, server,
		`service="cart" operation="x" component="app" kind="server" status="ok" environment="staging"`+place+` environment="staging"`)
	get := str("db.operation", "get")
	f(nil, client, `service="cart" operation="get x" component="db" kind="client" status="ok"`+place+` system="riak" peer="10.0.0.7:8087"`,
		str("db.system", "riak"), get, str("db.collection.name", "x"), str("net.peer.name", "10.0.0.7"), integer("net.peer.port", 8087))
	f(nil, client, `service="cart" operation="get x" component="db" kind="client" status="ok"`+place+` system="mysql" peer="orders-db"`,
		str("db.system.name", "mysql"), get, str("db.collection.name", "x"), str("peer.service", "orders-db"))
	for _, node := range []string{"a", "b"} { // with a statement of its own, and so known by the operation
		f(nil, client, `service="cart" operation="SELECT t" component="db" kind="client" status="ok"`+place+` system="mysql" peer="`+node+`"`,
			str("db.system", "mysql"), str("db.statement", "SELECT * FROM t WHERE id = 17"), str("server.address", node))
	}
	f(nil, producer, `service="cart" operation="publish orders" component="messaging" kind="producer" status="ok"`+place+` system="kafka" peer="broker"`,
		str("messaging.system", "kafka"), str("messaging.destination", "orders"), str("server.address", "broker"))
	f(nil, client, `service="cart" operation="GET api" component="external" kind="client" status="ok"`+place+` peer="api"`,
		str("http.request.method", "GET"), str("server.address", "api"))
	f(nil, server, `service="cart" operation="x" component="app" kind="server" status="ok"`+place+` peer="s1" peer="s1"`,
		str("db.system", "mysql"), str("server.address", "own"), str("shard", "s1"))
}

// A span whose start is 1970, or nearly, would be a duration of half a century.
func TestLongestSpan(t *testing.T) {
	l := newLedger()
	r := testReceiver(t, l)
	const now, day = uint64(1772366370e9), uint64(24 * time.Hour)
	p, err := r.ingest(context.Background(), traceSignal, marshal(t, spansOf(nil,
		&trace.Span{Name: "since 1970", StartTimeUnixNano: 1, EndTimeUnixNano: now},
		&trace.Span{Name: "since 1970 in seconds", StartTimeUnixNano: now / 1e9, EndTimeUnixNano: now},
		&trace.Span{Name: "at 1970", EndTimeUnixNano: now},
		&trace.Span{Name: "a day and a bit", StartTimeUnixNano: now - day - 1, EndTimeUnixNano: now},
		&trace.Span{Name: "a day", StartTimeUnixNano: now - day, EndTimeUnixNano: now},
	)))
	if err != nil {
		t.Fatal(err)
	}
	const want = "4 of 5 spans refused: 1 without a start time; 3 longer than limits.longest_span: check that their start times are set"
	if p.Items != 5 || p.Rejected != 4 || p.Message != want {
		t.Errorf("got %+v, want 4 of 5 and %q", p, want)
	}
	if got, want := l.text(), fmt.Sprintf("service=\"unknown_service\" operation=\"a day\" component=\"app\" kind=\"internal\" status=\"ok\": %d at %d weight 1", day, now); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if n := r.rejected[traceSignal][TooLong].Load(); n != 3 {
		t.Errorf("%d counted as too_long, want 3", n)
	}
}

// reference maps a request through the generated objects, naively.
func reference(t testing.TB, keys *semconv.Keys, b []byte) []string {
	var req collectortrace.ExportTraceServiceRequest
	if err := proto.Unmarshal(b, &req); err != nil {
		t.Fatal(err)
	}
	var out []string
	set := func(a *semconv.Attrs, rank *[semconv.NumSlots]uint8, kv *common.KeyValue) int {
		s, r := keys.Find(kv.Key)
		if r == 0 {
			return 0
		}
		var v string
		switch x := kv.Value.GetValue().(type) {
		case *common.AnyValue_StringValue:
			v = x.StringValue
		case *common.AnyValue_IntValue:
			v = fmt.Sprint(x.IntValue)
		case *common.AnyValue_BoolValue:
			v = fmt.Sprint(x.BoolValue)
		case *common.AnyValue_DoubleValue:
			v = fmt.Sprint(x.DoubleValue)
		}
		if s == semconv.HTTPStatus {
			n, _ := strconv.Atoi(v) // 0, which is not a status, for what is not a whole number
			return n
		}
		if v != "" && (!a.Mask.Has(s) || rank[s] >= r) {
			a.Mask |= 1 << s
			a.V[s], rank[s] = v, r
		}
		return 0
	}
	for _, rs := range req.ResourceSpans {
		var res semconv.Attrs
		var rank [semconv.NumSlots]uint8
		for _, kv := range rs.Resource.GetAttributes() {
			set(&res, &rank, kv)
		}
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				if s.StartTimeUnixNano == 0 || s.EndTimeUnixNano < s.StartTimeUnixNano {
					continue
				}
				var a semconv.Attrs
				var rank [semconv.NumSlots]uint8
				code := 0
				for _, kv := range s.Attributes {
					if n := set(&a, &rank, kv); n != 0 {
						code = n
					}
				}
				if s.Name != "" {
					a.Mask |= 1
					a.V[semconv.Name] = s.Name
				}
				k := semconv.Kind(s.Kind)
				id := agg.SpanIdentity{Service: res.Get(semconv.Service), Version: res.Get(semconv.Version), Instance: res.Get(semconv.Instance), Kind: k.String(), Status: "ok"}
				if id.Service == "" {
					id.Service = "unknown_service"
				}
				id.Tenant, id.Variant = a.Get(semconv.Tenant), a.Get(semconv.Variant)
				if id.Tenant == "" {
					id.Tenant = res.Get(semconv.Tenant)
				}
				if id.Variant == "" {
					id.Variant = res.Get(semconv.Variant)
				}
				if s.Status.GetCode() == 2 || s.Status.GetCode() == 0 && code >= 500 {
					id.Status = "error"
				}
				if id.Environment = a.Get(semconv.Environment); id.Environment == "" {
					id.Environment = res.Get(semconv.Environment)
				}
				if k == semconv.Client || k == semconv.Producer {
					if id.Peer = a.Get(semconv.ServerAddress); id.Peer == "" {
						id.Peer = a.Get(semconv.PeerService)
					} else if port := a.Get(semconv.ServerPort); port != "" {
						id.Peer += ":" + port
					}
				}
				a.Mask = semconv.Select(k, a.Mask)
				m, path := 0, ""
				if a.Mask.HasPath(k) {
					m, path = a.TakePath()
				}
				if path != "" {
					id.Operation, id.Component = route.Methods[m]+" "+cmp.Or(route.NewTree[int]().Place([]byte(path), true).Path, "/"), semconv.App
					if code == 404 && path != "/" {
						id.Operation = route.Methods[m] + " " + route.NotFound
					}
				} else {
					op, component := semconv.Operation(nil, k, &a)
					id.Operation, id.Component = string(op), component
				}
				component := id.Component
				if component != "app" {
					if id.System = a.Get(semconv.DBSystem); id.System == "" {
						id.System = a.Get(semconv.MessagingSystem)
					}
				}
				out = append(out, fmt.Sprintf("%s: %d at %d weight 1", spanText(&id), s.EndTimeUnixNano-s.StartTimeUnixNano, s.EndTimeUnixNano))
			}
		}
	}
	return out
}

var someKeys = []string{"http.request.method", "http.method", "http.route", "http.status_code", "http.response.status_code", "db.system", "db.statement", "db.operation", "db.sql.table", "db.collection.name", "messaging.system", "messaging.destination.name", "rpc.system", "rpc.method", "peer.service", "server.address", "server.port", "deployment.environment", "deployment.environment.name", "tenant", "tenant.id", "variant", "service.name", "service.version", "host.name", "thread.id", "url.full", "url.path", "http.target", "user_agent.original"}

func genKV(t *rapid.T) *common.KeyValue {
	key := rapid.SampledFrom(someKeys).Draw(t, "key")
	switch rapid.IntRange(0, 8).Draw(t, "type") {
	case 5:
		if rapid.Bool().Draw(t, "empty") {
			return &common.KeyValue{}
		}
	case 0:
		return integer(key, rapid.Int64Range(-3, 600).Draw(t, "int"))
	case 1:
		return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_BoolValue{BoolValue: rapid.Bool().Draw(t, "bool")}}}
	case 2:
		return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_DoubleValue{DoubleValue: 1.5}}}
	case 3:
		return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: &common.ArrayValue{Values: []*common.AnyValue{{Value: &common.AnyValue_StringValue{StringValue: "a"}}}}}}}
	case 4:
		return &common.KeyValue{Key: key}
	}
	return str(key, rapid.SampledFrom([]string{"", "a", "GET", "post", "/x/{id}", "redis", "postgresql", "SELECT * FROM orders WHERE a = 'x'", "kafka", "503", "pg:1", strings.Repeat("long", 40)}).Draw(t, "value"))
}

// TestTracesAsReference: walking the bytes gives what the generated objects give.
func TestTracesAsReference(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		req := &collectortrace.ExportTraceServiceRequest{}
		for range rapid.IntRange(0, 3).Draw(rt, "resources") {
			rs := &trace.ResourceSpans{}
			if rapid.Bool().Draw(rt, "resource") {
				rs.Resource = &resourcepb.Resource{Attributes: rapid.SliceOfN(rapid.Custom(genKV), 0, 4).Draw(rt, "attributes")}
			}
			for range rapid.IntRange(0, 2).Draw(rt, "scopes") {
				ss := &trace.ScopeSpans{}
				for range rapid.IntRange(0, 4).Draw(rt, "spans") {
					start := rapid.Uint64Range(0, 3).Draw(rt, "start")
					ss.Spans = append(ss.Spans, &trace.Span{
						Name: rapid.SampledFrom([]string{"", "GET /x", "op", "call 123", "SELECT 1"}).Draw(rt, "name"), TraceId: make([]byte, 16), SpanId: make([]byte, 8),
						Kind: trace.Span_SpanKind(rapid.IntRange(0, 5).Draw(rt, "kind")), StartTimeUnixNano: start, EndTimeUnixNano: start + rapid.Uint64Range(0, 2).Draw(rt, "duration"),
						Attributes: rapid.SliceOfN(rapid.Custom(genKV), 0, 6).Draw(rt, "attributes"),
						Status:     &trace.Status{Code: trace.Status_StatusCode(rapid.IntRange(0, 2).Draw(rt, "code"))},
						Events:     []*trace.Span_Event{{Name: "e", Attributes: []*common.KeyValue{str("tenant", "not this")}}},
						Flags:      0x101, DroppedAttributesCount: 300,
					})
				}
				rs.ScopeSpans = append(rs.ScopeSpans, ss)
			}
			req.ResourceSpans = append(req.ResourceSpans, rs)
		}
		l := newLedger()
		r := testReceiver(t, l)
		b := marshal(t, req)
		var want []string
		for range 2 { // cold, then from the cache
			want = append(want, reference(t, r.keys, b)...)
			if _, err := r.ingest(context.Background(), traceSignal, b); err != nil {
				rt.Fatal(err)
			}
		}
		got := strings.Split(l.text(), "\n")
		if l.text() == "" {
			got = nil
		}
		sortStrings(want)
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			rt.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// TestPayload: the benchmarks' requests give as many series as they say.
func TestPayload(t *testing.T) {
	l := newLedger()
	r := testReceiver(t, l)
	var want []string
	for _, b := range payload.Traces(3, 20) {
		if _, err := r.ingest(context.Background(), traceSignal, b); err != nil {
			t.Fatal(err)
		}
		want = append(want, reference(t, r.keys, b)...)
	}
	sortStrings(want)
	if got := l.text(); got != strings.Join(want, "\n") {
		t.Errorf("differs from the reference")
	}
}

// TestTruncated: a payload cut anywhere is refused whole, or was whole there.
func TestTruncated(t *testing.T) {
	b := payload.Traces(1, 1)[0]
	l := newLedger()
	r := testReceiver(t, l)
	for n := range len(b) {
		if n > 3000 && n < len(b)-3000 {
			continue
		}
		_, err := r.ingest(context.Background(), traceSignal, b[:n])
		var bad *MalformedError
		if n > 0 && !errors.As(err, &bad) {
			t.Fatalf("cut to %d of %d bytes: %v", n, len(b), err)
		}
	}
	if l.len() != 0 {
		t.Errorf("%d observations of truncated requests", l.len())
	}
	if l.discarded == 0 {
		t.Error("no batch was discarded")
	}
}

// TestEpoch: targets are resolved anew when the epoch changes, and only then.
func TestEpoch(t *testing.T) {
	b := payload.Traces(1, 1)[0]
	l := newLedger()
	r := testReceiver(t, l)
	take := func() int {
		before := l.resolved
		if _, err := r.ingest(context.Background(), traceSignal, b); err != nil {
			t.Fatal(err)
		}
		return l.resolved - before
	}
	want := take()
	if n := take(); want == 0 || n != 0 {
		t.Errorf("%d resolved, and %d again", want, n)
	}
	l.epoch++
	if n := take(); n != want {
		t.Errorf("%d resolved in a new epoch, want %d", n, want)
	}
}

// The text of a tenant that is not a string lies where the next span's is written: spans of
// one group keep their own tenants.
func TestTenantsOfAGroup(t *testing.T) {
	l := newLedger()
	r, err := newReceiver(l, nil, []string{"tenant"}, nil, 24*time.Hour, entriesOf(12<<20))
	if err != nil {
		t.Fatal(err)
	}
	var spans []*trace.Span
	want := map[string]int{}
	for i := range 20 {
		tenant, text := integer("tenant", int64(i%7)), fmt.Sprint(i%7)
		switch i % 5 {
		case 3:
			tenant, text = str("tenant", "acme"), "acme"
		case 4:
			tenant, text = str("other", "x"), ""
		}
		want[text]++
		spans = append(spans, &trace.Span{Name: "x", StartTimeUnixNano: 1, EndTimeUnixNano: 2, Attributes: []*common.KeyValue{tenant, integer("http.response.status_code", 200)}})
	}
	for range 2 {
		clear(l.entries)
		l.entries = l.entries[:0]
		if _, err := r.ingest(context.Background(), traceSignal, marshal(t, spansOf(nil, spans...))); err != nil {
			t.Fatal(err)
		}
		got := map[string]int{}
		for _, e := range l.entries {
			_, tenant, _ := strings.Cut(e.series, "tenant=")
			got[strings.Trim(tenant, `"`)]++
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got tenants %v, want %v", got, want)
		}
	}
}

// TestNoAllocation guards the warm path.
func TestNoAllocation(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	b := payload.Traces(1, 1)[0]
	r := testReceiver(t, nullSink{})
	take := func() {
		if _, err := r.ingest(context.Background(), traceSignal, b); err != nil {
			t.Fatal(err)
		}
	}
	take()
	if n := testing.AllocsPerRun(50, take); n > 2 {
		t.Errorf("%v allocations for %d spans", n, payload.SpansPerRequest)
	}
}

// nullSink takes everything and keeps nothing.
type nullSink struct{ *ledger }

func (nullSink) Overloaded() bool                            { return false }
func (nullSink) NamedTarget(id *agg.SpanIdentity) agg.Target { return agg.Target(len(id.Operation)) }
func (nullSink) Fold([]agg.Member)                           {}
func (nullSink) NewBatch() Batch                             { return nullBatch{} }

type nullBatch struct{ *ledgerBatch }

func (nullBatch) Epoch() uint32                                                { return 0 }
func (nullBatch) Accepts() (int64, int64)                                      { return 0, math.MaxInt64 }
func (nullBatch) ObserveTenant(agg.Target, string, bool, int64, int64, uint32) {}
func (nullBatch) Commit(context.Context) (agg.Rejects, error)                  { return agg.Rejects{}, nil }
func (nullBatch) Discard()                                                     {}

func TestWeight(t *testing.T) {
	id := func(r uint64) []byte {
		return binary.BigEndian.AppendUint64(make([]byte, 8), r)
	}
	f := func(state string, r uint64, want uint32) {
		t.Helper()
		if got := sampleWeight(state, id(r)); got != want {
			t.Errorf("weight(%q, %x) = %d, want %d", state, r, got, want)
		}
	}
	f("", 0, 1)
	f("ot=th:0", 0, 1)
	f("ot=th:8", 1<<55, 2)
	f("ot=th:c", 3<<54, 4)
	f("ot=th:ff", 255<<48, 256)
	f("a=b,ot=rv:fffffffffffffe;th:8", 0, 2)
	f("ot=th:x", 0, 1)
	f("ot=th:", 0, 1)
	f("ot=th:123456789012345", 0, 1)
	f("other=th:8", 0, 1)
	f("ot=th:ffffffffffffff", whole-1, math.MaxUint32)
	f("ot=rv:zz", 0, 1)
	if got := sampleWeight("ot=th:8", []byte{1}); got != 1 {
		t.Errorf("without randomness: %d", got)
	}
}

// TestWeightUnbiased: the weights of sampled traces add up to the traces there were.
func TestWeightUnbiased(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, p := range []float64{0.9, 0.7, 0.3, 0.0617} {
		threshold := uint64((1 - p) * whole)
		state := fmt.Sprintf("ot=th:%014x", threshold)
		const n = 200_000
		total := 0.0
		for range n {
			r := rng.Uint64() & (whole - 1)
			if r >= threshold {
				total += float64(sampleWeight(state, binary.BigEndian.AppendUint64(make([]byte, 8), r)))
			}
		}
		if sigma := 5 * math.Sqrt(n/p); math.Abs(total-n) > sigma {
			t.Errorf("p=%v: %v counted of %d", p, total, n)
		}
	}
}

// FuzzTraces: what the reference can read, we can, with as many spans; what we
// take leaves nothing half done.
func FuzzTraces(f *testing.F) {
	b := payload.Traces(1, 1)[0]
	f.Add(b[:0])
	f.Add(marshal(f, spansOf([]*common.KeyValue{str("service.name", "a")}, &trace.Span{Name: "x", StartTimeUnixNano: 1, EndTimeUnixNano: 2, TraceState: "ot=th:8", Attributes: []*common.KeyValue{integer("tenant", 4)}})))
	f.Add([]byte{0x0a, 0x02, 0x0b, 0x0c})
	f.Add(emptyAttributeThenKey(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		l := newLedger()
		r := testReceiver(t, l)
		p, err := r.ingest(context.Background(), traceSignal, b)
		if err != nil && l.len() != 0 {
			t.Fatalf("%v, but %d observations", err, l.len())
		}
		var req collectortrace.ExportTraceServiceRequest
		if refErr := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, &req); refErr == nil {
			if err != nil {
				t.Fatalf("refused: %v", err)
			}
			n := 0
			for _, rs := range req.ResourceSpans {
				for _, ss := range rs.ScopeSpans {
					n += len(ss.Spans)
				}
			}
			if p.Items != int64(n) || l.len() != n-int(p.Rejected) {
				t.Fatalf("%d spans, %d rejected, %d observed; the reference has %d", p.Items, p.Rejected, l.len(), n)
			}
		}
	})
}

// emptyAttributeThenKey is a request whose second span has an attribute of no bytes, and a trace
// id that looks like the attribute that is expected.
func emptyAttributeThenKey(t testing.TB) []byte {
	key := "http.status_code"
	first := &trace.Span{Name: "op", TraceId: bytes.Repeat([]byte{1}, 16), SpanId: make([]byte, 8), StartTimeUnixNano: 1, EndTimeUnixNano: 2, Attributes: []*common.KeyValue{str(key, "abcdefg")}}
	second := &trace.Span{Name: "op", TraceId: []byte(key), SpanId: make([]byte, 8), StartTimeUnixNano: 1, EndTimeUnixNano: 2, Attributes: []*common.KeyValue{{}, str(key, "abcdefg")}}
	return marshal(t, spansOf([]*common.KeyValue{str("service.name", "shop")}, first, second))
}

func TestEmptyAttribute(t *testing.T) {
	l := newLedger()
	if _, err := testReceiver(t, l).ingest(context.Background(), traceSignal, emptyAttributeThenKey(t)); err != nil || l.len() != 2 {
		t.Errorf("%d spans of 2, %v", l.len(), err)
	}
}

// faultySink fails in the way that nobody expects.
type faultySink struct{ Sink }

func (faultySink) Fold([]agg.Member) { panic("a fault") }

// A panic while one request is decoded is an answer to it, and others are taken.
func TestFaultOfADecoder(t *testing.T) {
	l := newLedger()
	r := testReceiver(t, l)
	whole := r.sink
	r.sink = faultySink{whole}
	b := payload.Traces(1, 1)[0]
	var fault *faultError
	if _, err := r.ingest(context.Background(), traceSignal, b); !errors.As(err, &fault) || len(fault.stack) == 0 {
		t.Fatalf("got %v, want the fault with its stack", err)
	}
	r.sink = whole
	if _, err := r.ingest(context.Background(), traceSignal, b); err != nil || l.len() != payload.SpansPerRequest {
		t.Errorf("the next request: %d spans of %d, %v", l.len(), payload.SpansPerRequest, err)
	}
}

type detailAssembler struct {
	nullAssembler
	details []string
}

func (a *detailAssembler) Add(spans []traces.Span) {
	for i := range spans {
		a.details = append(a.details, string(spans[i].Detail))
	}
}

// A path that is not a text stays that of its own span.
func TestDetailsOfNumbers(t *testing.T) {
	r, a := testReceiver(t, newLedger()), &detailAssembler{}
	r.assembler = a
	of := func(path int64) *trace.Span {
		return &trace.Span{Name: "op", Kind: trace.Span_SPAN_KIND_SERVER, TraceId: bytes.Repeat([]byte{1}, 16), SpanId: bytes.Repeat([]byte{byte(path)}, 8), StartTimeUnixNano: 1, EndTimeUnixNano: 2,
			Attributes: []*common.KeyValue{integer("url.path", path), str("http.route", "/x"), str("http.request.method", "GET")}}
	}
	if _, err := r.ingest(context.Background(), traceSignal, marshal(t, spansOf(nil, of(111), of(222)))); err != nil {
		t.Fatal(err)
	}
	if want := []string{"111", "222"}; !slices.Equal(a.details, want) {
		t.Errorf("details %q, want %q", a.details, want)
	}
}
