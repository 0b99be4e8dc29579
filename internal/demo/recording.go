package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"tailscope/internal/experiment/bench"
)

// A recording keeps the spans that the SDK exports, in place of sending them.
type recording struct {
	mu    sync.Mutex
	spans []*tracepb.ResourceSpans
}

// Start, Stop and UploadTraces implement otlptrace.Client.
func (r *recording) Start(context.Context) error { return nil }
func (r *recording) Stop(context.Context) error  { return nil }
func (r *recording) UploadTraces(_ context.Context, spans []*tracepb.ResourceSpans) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spans = append(r.spans, spans...)
	return nil
}

// recordedServices are the services of a request.
var recordedServices = []string{"shop", "payments", "shoppers"}

// provider returns a service's SDK, which exports to the recording. Its spans are batched
// as those that are sent, for that work is part of what is measured.
func (r *recording) provider(ctx context.Context, service string) (*sdktrace.TracerProvider, error) {
	res, err := describe(service)
	if err != nil {
		return nil, err
	}
	exporter, err := otlptrace.New(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("record %s: %w", service, err)
	}
	return sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithBatcher(exporter, batching...)), nil
}

// request is a shopper's request as it was recorded, in all services.
type request struct {
	operation, tenant string
	spans             []requestSpan
	bank              *requestSpan // the call of the bank among them, or nil
}

// took is how long the request took.
func (q *request) took() (d time.Duration) {
	for _, s := range q.spans {
		if s.parent < 0 {
			d = s.end
		}
	}
	return d
}

// requestSpan is a span without what differs between a request and its copy.
type requestSpan struct {
	service    string
	parent     int           // index in the request's spans; -1 for the root
	start, end time.Duration // since the root began
	same       *tracepb.Span // name, kind, attributes and status
	encoded    []byte        // same, as protobuf
}

// requests returns the whole requests that shoppers began at since or later, in order.
func (r *recording) requests(since time.Time) []request {
	type member struct {
		service string
		span    *tracepb.Span
	}
	members := map[string][]member{}
	var roots []*tracepb.Span
	for _, rs := range r.spans {
		service := text(rs.Resource.Attributes, "service.name")
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				members[string(s.TraceId)] = append(members[string(s.TraceId)], member{service, s})
				if len(s.ParentSpanId) == 0 && service == "shoppers" && s.StartTimeUnixNano >= uint64(since.UnixNano()) {
					roots = append(roots, s)
				}
			}
		}
	}
	slices.SortFunc(roots, func(a, b *tracepb.Span) int { return int(int64(a.StartTimeUnixNano - b.StartTimeUnixNano)) })
	var requests []request
	for _, root := range roots {
		index := map[string]int{"": -1}
		for i, m := range members[string(root.TraceId)] {
			index[string(m.span.SpanId)] = i
		}
		q := request{operation: root.Name, tenant: text(root.Attributes, string(tenantKey))}
		whole := true
		for _, m := range members[string(root.TraceId)] {
			parent, ok := index[string(m.span.ParentSpanId)]
			whole = whole && ok
			q.spans = append(q.spans, requestSpan{
				service: m.service, parent: parent,
				start: time.Duration(m.span.StartTimeUnixNano - root.StartTimeUnixNano),
				end:   time.Duration(m.span.EndTimeUnixNano - root.StartTimeUnixNano),
				same: &tracepb.Span{Name: m.span.Name, Kind: m.span.Kind, Attributes: m.span.Attributes, Status: m.span.Status,
					Flags: m.span.Flags},
			})
		}
		if whole {
			requests = append(requests, q)
		}
	}
	return requests
}

// resource returns what a service said of itself.
func (r *recording) resource(service string) *resourcepb.Resource {
	for _, rs := range r.spans {
		if text(rs.Resource.Attributes, "service.name") == service {
			return rs.Resource
		}
	}
	return nil
}

func text(attributes []*commonpb.KeyValue, key string) string {
	for _, a := range attributes {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// withText returns the attributes with another text under a key that they have.
func withText(attributes []*commonpb.KeyValue, key, value string) []*commonpb.KeyValue {
	attributes = slices.Clone(attributes)
	for i, a := range attributes {
		if a.Key == key {
			attributes[i] = &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: value}}}
		}
	}
	return attributes
}

// of returns the request as if it had been a tenant's, ready to be copied.
func (q *request) of(tenant string) (request, error) {
	c := request{operation: q.operation, tenant: tenant, spans: slices.Clone(q.spans)}
	for i := range c.spans {
		s := &c.spans[i]
		if s.same.Name == bankCall {
			c.bank = s
		}
		same := proto.CloneOf(s.same)
		same.Attributes = withText(same.Attributes, string(tenantKey), tenant)
		var err error
		if s.encoded, err = proto.Marshal(same); err != nil {
			return c, fmt.Errorf("encode a recorded span: %w", err)
		}
	}
	return c, nil
}

// enough is the number of recorded requests of an operation that a tenant needs. One that has fewer
// borrows from those next to it in size.
const enough = 8

// pool holds the requests to copy, by operation and then by tenant, the fastest first. An
// operation that nobody asked for while it was recorded has none.
type pool map[string][][]request

func newPool(requests []request, ts []tenant) (pool, error) {
	recorded := map[string]map[string][]request{}
	for _, q := range requests {
		if recorded[q.operation] == nil {
			recorded[q.operation] = map[string][]request{}
		}
		recorded[q.operation][q.tenant] = append(recorded[q.operation][q.tenant], q)
	}
	p := pool{}
	for operation, byTenant := range recorded {
		p[operation] = make([][]request, len(ts))
		for i := range ts {
			nearest := make([]int, len(ts))
			for j := range nearest {
				nearest[j] = j
			}
			slices.SortStableFunc(nearest, func(a, b int) int { return abs(a-i) - abs(b-i) })
			var own []request
			for _, j := range nearest {
				for _, q := range byTenant[ts[j].name] {
					if j != i && len(own) >= enough {
						break
					}
					c, err := q.of(ts[i].name)
					if err != nil {
						return nil, err
					}
					own = append(own, c)
				}
			}
			slices.SortStableFunc(own, func(a, b request) int { return cmp.Compare(a.took(), b.took()) })
			p[operation][i] = own
		}
	}
	return p, nil
}

func abs(n int) int { return max(n, -n) }

// relay is a handler that can be replaced while it serves.
type relay struct{ to atomic.Pointer[http.Handler] }

func (r *relay) ServeHTTP(w http.ResponseWriter, q *http.Request) { (*r.to.Load()).ServeHTTP(w, q) }

// set replaces the handler and returns the one before, which may be nil.
func (r *relay) set(h http.Handler) (before http.Handler) {
	if p := r.to.Swap(&h); p != nil {
		before = *p
	}
	return before
}

// site is where the shop and its payments are served.
type site struct {
	base, bank     string // addresses, http://host:port
	shop, payments relay
}

// record drives the shop as it is for a while, and returns what was exported. Meanwhile its
// handlers take the place of those that send to the server. Carts are filled anew and a seed
// has the same requests each time, so that two recordings of it differ by how long they took.
func (d *demo) record(ctx context.Context, s *site, length time.Duration, seed uint64) (_ *recording, err error) {
	kept := &recording{}
	providers := map[string]*sdktrace.TracerProvider{}
	for _, service := range recordedServices {
		p, failed := kept.provider(ctx, service)
		if failed != nil {
			return nil, failed
		}
		providers[service] = p
		defer func() { err = errors.Join(err, p.Shutdown(context.WithoutCancel(ctx))) }()
	}
	none := metricnoop.NewMeterProvider()
	db, err := openDatabase(d.database(), providers["shop"], none)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := fillCarts(ctx, d.db, d.tenants); err != nil {
		return nil, fmt.Errorf("fill the carts: %w", err)
	}
	cashier := newCashier(s.bank, providers["shop"], none)
	defer cashier.http.CloseIdleConnections()
	shop := newShop(db, d.tenants, cashier, providers["shop"], time.Now)
	defer shop.invoices.Wait()
	before := s.payments.set(payments(providers["payments"], none))
	defer s.payments.set(before)
	before = s.shop.set(shop.handler(providers["shop"], none))
	defer s.shop.set(before)

	schedule, err := bench.NewSchedule(bench.Poisson, d.Rate, seed)
	if err != nil {
		return nil, err
	}
	people := newShoppers(s.base, d.tenants, providers["shoppers"], workers)
	defer people.http.CloseIdleConnections()
	people.seed = seed
	_, err = bench.Run(ctx, bench.Options{Schedule: schedule, Do: people.do, Duration: length, Workers: workers})
	return kept, err
}
