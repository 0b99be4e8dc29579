package demo

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"

	"tailscope/internal/experiment/bench"
)

// shoppers make the requests. What they wait is measured from the moment each
// request was due, and sent as the spans of a service of their own: beside
// the shop's view of itself lies the view of those who use it.
type shoppers struct {
	base    atomic.Pointer[string] // http://host:port of the shop
	http    *http.Client
	tenants []tenant
	seed    uint64
	tracer  trace.Tracer
}

// errand is something that shoppers do.
type errand struct {
	weight        int
	method, route string
	fill          func(*tenant, *rand.Rand) (path string, query url.Values)
}

func (e *errand) operation() string { return e.method + " " + e.route }

// placeOrder is the errand that needs a payment.
const placeOrder = "POST /orders"

// mix lists the shoppers' requests, by weight.
var mix = []errand{
	{26, "GET", "/products", func(t *tenant, r *rand.Rand) (string, url.Values) {
		return "/products", url.Values{"category": {strconv.Itoa(r.IntN(categories))}}
	}},
	{23, "GET", "/products/{id}", func(t *tenant, r *rand.Rand) (string, url.Values) {
		return "/products/" + strconv.Itoa(productID(t, r.IntN(t.products+t.products/100))), nil // one in a hundred is gone
	}},
	{6, "GET", "/search", func(t *tenant, r *rand.Rand) (string, url.Values) {
		return "/search", url.Values{"q": {adjectives[r.IntN(len(adjectives))] + " " + nouns[r.IntN(len(nouns))]}}
	}},
	{20, "GET", "/orders", func(t *tenant, r *rand.Rand) (string, url.Values) {
		return "/orders", customer(t, r)
	}},
	{5, "GET", "/cart", func(t *tenant, r *rand.Rand) (string, url.Values) {
		return "/cart", customer(t, r)
	}},
	{13, "PUT", "/cart/{id}", func(t *tenant, r *rand.Rand) (string, url.Values) {
		return "/cart/" + strconv.Itoa(productID(t, r.IntN(t.products))), customer(t, r)
	}},
	{7, "POST", "/orders", func(t *tenant, r *rand.Rand) (string, url.Values) {
		return "/orders", customer(t, r)
	}},
}

// errandAt returns the n-th in a hundred errands.
func errandAt(n int) *errand {
	i := 0
	for ; n >= mix[i].weight; i++ {
		n -= mix[i].weight
	}
	return &mix[i]
}

// customer is one of the tenant's; a few come far more often than the rest.
func customer(t *tenant, r *rand.Rand) url.Values {
	u := r.Float64()
	return url.Values{"customer": {strconv.Itoa(int(u * u * u * float64(t.customers)))}}
}

func newShoppers(base string, ts []tenant, tp trace.TracerProvider, workers int) *shoppers {
	s := &shoppers{
		tenants: ts, seed: 1,
		http: &http.Client{
			Timeout:   30 * time.Second,
			Transport: &http.Transport{MaxIdleConnsPerHost: workers, MaxConnsPerHost: workers},
		},
		tracer: tp.Tracer("tailscope/demo/shoppers"),
	}
	s.moveTo(base)
	return s
}

// moveTo has further requests sent to another address.
func (s *shoppers) moveTo(base string) { s.base.Store(&base) }

// do makes the k-th request, which is a function of k and the seed alone.
func (s *shoppers) do(ctx context.Context, req bench.Request) error {
	rng := rand.New(rand.NewPCG(s.seed, uint64(req.K)))
	t, m := pick(s.tenants, rng.Float64()), errandAt(rng.IntN(100))
	path, query := m.fill(t, rng)

	ctx, span := s.tracer.Start(ctx, m.operation(), trace.WithTimestamp(req.Due), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(tenantKey.String(t.name), semconv.HTTPRequestMethodKey.String(m.method), semconv.URLTemplate(m.route),
			semconv.ServerAddress("shop")))
	status, err := s.send(ctx, m.method, *s.base.Load()+path+"?"+query.Encode(), t)
	if ctx.Err() != nil {
		return ctx.Err() // the demo ends; the span never does, since nothing was measured
	}
	defer span.End()
	span.SetAttributes(semconv.HTTPResponseStatusCode(status))
	if err == nil && status >= 500 {
		err = fmt.Errorf("%s: %d", m.operation(), status)
	}
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	return err
}

func (s *shoppers) send(ctx context.Context, method, target string, t *tenant) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, method, target, nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set(tenantHeader, t.name)
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(r.Header))
	resp, err := s.http.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}
