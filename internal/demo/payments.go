package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// payments returns a service of its own that the shop asks before it takes an
// order. It in turn waits for a bank, which is the demo's one stand-in: it
// answers after 18 ms, give or take, and one time in fifty after ten times that.
func payments(tp trace.TracerProvider, mp metric.MeterProvider) http.Handler {
	tracer := tp.Tracer("tailscope/demo/payments")
	mux := http.NewServeMux()
	mux.HandleFunc("POST /authorisations", func(w http.ResponseWriter, r *http.Request) {
		span := trace.SpanFromContext(r.Context())
		span.SetName("POST /authorisations")
		span.SetAttributes(routeKey.String("/authorisations"), tenantKey.String(r.Header.Get(tenantHeader)))
		_, bank := tracer.Start(r.Context(), bankCall, trace.WithSpanKind(trace.SpanKindClient),
			trace.WithAttributes(peerKey.String("bank")))
		select {
		case <-time.After(bankDelay(rand.New(rand.NewPCG(rand.Uint64(), 0)))):
		case <-r.Context().Done():
		}
		bank.End()
		w.WriteHeader(http.StatusCreated)
	})
	return otelhttp.NewHandler(mux, "payments",
		otelhttp.WithTracerProvider(tp), otelhttp.WithMeterProvider(mp), otelhttp.WithPropagators(propagation.TraceContext{}))
}

// bankCall is the name of the span that waits for the bank.
const bankCall = "authorise"

// bankDelay draws how long the bank takes.
func bankDelay(rng *rand.Rand) time.Duration {
	wait := 0.018 * math.Exp(0.25*rng.NormFloat64())
	if rng.IntN(50) == 0 {
		wait *= 10
	}
	return time.Duration(wait * float64(time.Second))
}

// cashier is the shop's side of it.
type cashier struct {
	base      string // http://host:port of the payments
	http      *http.Client
	transport *http.Transport
}

func newCashier(base string, tp trace.TracerProvider, mp metric.MeterProvider) *cashier {
	t := &http.Transport{MaxIdleConnsPerHost: workers}
	return &cashier{base: base, transport: t, http: &http.Client{
		Timeout: 10 * time.Second,
		Transport: otelhttp.NewTransport(t,
			otelhttp.WithTracerProvider(tp), otelhttp.WithMeterProvider(mp), otelhttp.WithPropagators(propagation.TraceContext{}),
			otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return r.Method + " " + r.URL.Path })),
	}}
}

func (c *cashier) authorise(ctx context.Context, tenant string, cents int64) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/authorisations?cents="+strconv.FormatInt(cents, 10), nil)
	if err != nil {
		return err
	}
	r.Header.Set(tenantHeader, tenant)
	resp, err := c.http.Do(r)
	if err != nil {
		return fmt.Errorf("authorise a payment: %w", err)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return fmt.Errorf("authorise a payment: %w", err)
	}
	if resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("authorise a payment: %s", resp.Status)
	}
	return nil
}
