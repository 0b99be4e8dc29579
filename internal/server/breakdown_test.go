package server

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/config"
	"tailscope/internal/observe/traces"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// shop sends traces of two services: web, which asks a database and then pay,
// which asks a cache. It waited 5 ms in a queue.
//
//	0       10   20   30   40   50   60   70   80   90   100 ms
//	web GET /cart ########################################
//	         SELECT ####      call pay #####################
//	                          pay GET /pay ###############
//	                                  GET ###
func shop(t *testing.T, s *Server, start time.Time, n int) {
	t.Helper()
	shopOn(t, s, s, start, n)
}

// shopOn is shop with services that send to different servers.
func shopOn(t *testing.T, toWeb, toPay *Server, start time.Time, n int) {
	t.Helper()
	tracer := func(service string, s *Server) (*sdktrace.TracerProvider, trace.Tracer) {
		exporter, err := otlptracegrpc.New(t.Context(), otlptracegrpc.WithEndpoint(s.OTLPGRPC()), otlptracegrpc.WithInsecure())
		if err != nil {
			t.Fatal(err)
		}
		tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(resource.NewSchemaless(semconv.ServiceName(service))))
		return tp, tp.Tracer("test")
	}
	webProvider, web := tracer("web", toWeb)
	payProvider, pay := tracer("pay", toPay)
	for range n {
		at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
		span := func(ctx context.Context, by trace.Tracer, name string, kind trace.SpanKind, from, to int, attrs ...attribute.KeyValue) context.Context {
			ctx, x := by.Start(ctx, name, trace.WithSpanKind(kind), trace.WithTimestamp(at(from)), trace.WithAttributes(append(attrs, attribute.String("tenant.id", "acme"))...))
			x.End(trace.WithTimestamp(at(to)))
			return ctx
		}
		root := span(t.Context(), web, "GET /cart", trace.SpanKindServer, 0, 100, semconv.HTTPRequestMethodGet, semconv.HTTPRoute("/cart"),
			semconv.URLPath("/cart"), attribute.StringSlice("http.request.header.x-request-start", []string{fmt.Sprintf("t=%d", at(-5).UnixMilli())}))
		span(root, web, "SELECT carts", trace.SpanKindClient, 10, 30, semconv.DBSystemNamePostgreSQL, semconv.DBOperationName("SELECT"), semconv.DBCollectionName("carts"),
			semconv.DBQueryText("SELECT * FROM carts WHERE owner = 'bob'"))
		call := span(root, web, "GET", trace.SpanKindClient, 40, 90, semconv.HTTPRequestMethodGet, semconv.ServerAddress("pay"))
		inner := span(call, pay, "GET /pay", trace.SpanKindServer, 45, 85, semconv.HTTPRequestMethodGet, semconv.HTTPRoute("/pay"))
		span(inner, pay, "GET", trace.SpanKindClient, 50, 60, semconv.DBSystemNameRedis, semconv.DBOperationName("GET"))
	}
	for _, tp := range []*sdktrace.TracerProvider{webProvider, payProvider} {
		if err := tp.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// totals asks a family for count and sum by labels.
func totals(t *testing.T, s *Server, family, match string, by ...string) map[string]string {
	t.Helper()
	c := &client.Client{Address: s.Addr()}
	d, err := c.Distribution(t.Context(), api.DistributionRequest{
		Selection: api.Selection{Family: family, Match: match, Start: "now-1h", End: "now+10m"}, By: by,
	})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, g := range d.Groups {
		var names []string
		for _, l := range by {
			names = append(names, g.Labels[l])
		}
		out[strings.Join(names, " ")] = fmt.Sprintf("%d, %.6f s", g.Count, float64(g.Sum))
	}
	return out
}

func checkShop(t *testing.T, s *Server, n int) {
	t.Helper()
	checkParts(t, s, n)
	sum := func(ms int) string { return fmt.Sprintf("%d, %.6f s", n, float64(n*ms)/1000) }
	want := map[string]string{"web GET /cart very large": sum(100), "pay GET /pay very large": sum(40)}
	if got := totals(t, s, series.BreakdownRequests, "", "service", "operation", "cohort"); !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// checkParts is checkShop without cohorts.
func checkParts(t *testing.T, s *Server, n int) {
	t.Helper()
	f := func(got, want map[string]string) {
		t.Helper()
		if !maps.Equal(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
	}
	sum := func(ms int) string { return fmt.Sprintf("%d, %.6f s", n, float64(n*ms)/1000) }
	// Of the time of web's requests some was spent in pay.
	f(totals(t, s, series.SpanSelf, `{tenant="acme"}`, "service", "operation", "component"), map[string]string{
		"web GET /cart app": sum(60), "web GET /cart db": sum(20), "web GET /cart external": sum(10), "web GET /cart cache": sum(10),
		"web GET /cart queue": sum(5),
		"pay GET /pay app":    sum(30), "pay GET /pay cache": sum(10),
	})
	// The views agree.
	f(totals(t, s, series.SpanSelf, `{service="web"}`, "component"), map[string]string{
		"app": sum(60), "db": sum(20), "external": sum(10), "cache": sum(10), "queue": sum(5),
	})
	// Distributions over the requests' durations, counting microseconds and calls.
	micros := func(ms, duration int) string {
		return fmt.Sprintf("%d, %.6f s", n*ms*1000, float64(n)*float64(ms*1000)*float64(duration)/1000)
	}
	f(totals(t, s, series.BreakdownSelf, "", "service", "part_service", "component", "part_operation"), map[string]string{
		"web web app GET /cart": micros(30, 100), "web web db SELECT carts": micros(20, 100), "web web external GET pay": micros(10, 100),
		"web pay app GET /pay": micros(30, 100), "web pay cache GET": micros(10, 100), "web web queue queue": micros(5, 100),
		"pay pay app GET /pay": micros(30, 40), "pay pay cache GET": micros(10, 40),
	})
}

// Spans of two services in, the breakdown out, exactly, the same after a
// restart; what was under way when the server stopped is in it.
func TestBreakdown(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.Traces.Link = "https://jaeger.example/trace/{trace_id}"
	s := start(t, cfg)
	shop(t, s, time.Now().Add(-time.Minute).Truncate(time.Millisecond), 40)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkShop(t, s, 40)
	for name, want := range map[string]float64{
		"tailscope_trace_spans_total":       200,
		"tailscope_traces_closed_total":     40,
		"tailscope_traces_incomplete_total": 0,
		"tailscope_trace_requests_total":    80,
		"tailscope_traces_open":             0,
	} {
		if got := metric(t, s, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	shop(t, s, time.Now().Add(-time.Minute).Truncate(time.Millisecond), 20)
	stop(t, s)

	s = start(t, cfg)
	checkShop(t, s, 60)
	c := &client.Client{Address: s.Addr()}
	list, err := c.Traces(t.Context(), api.TracesRequest{Requests: api.Requests{Match: `{service="web"}`, Start: "now-1h", End: "now+10m"}})
	if err != nil || len(list.Traces) == 0 || list.Link != cfg.Traces.Link {
		t.Fatalf("kept traces of web: %+v, %v", list, err)
	}
	b, err := hex.DecodeString(list.Traces[0].TraceID)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := s.store.Trace(t.Context(), store.TraceID(b))
	if err != nil {
		t.Fatal(err)
	}
	kept, err := traces.Decode(raw.Data)
	if err != nil {
		t.Fatal(err)
	}
	var texts, details []string
	for _, x := range kept.Spans {
		texts, details = append(texts, x.Text), append(details, x.Detail)
	}
	if len(kept.Spans) != 5 || !slices.Contains(texts, "SELECT * FROM carts WHERE owner = ?") || !slices.Contains(details, "/cart") {
		t.Errorf("trace of %d spans, statements %q, details %q", len(kept.Spans), texts, details)
	}
}

func TestNoBreakdown(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.Traces = config.Traces{Keep: cfg.Traces.Keep, MaxBytes: cfg.Traces.MaxBytes}
	s := start(t, cfg)
	shop(t, s, time.Now().Add(-time.Minute).Truncate(time.Millisecond), 1)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := totals(t, s, series.SpanDuration, "", "service"); len(got) != 2 {
		t.Errorf("spans %v, want those of two services", got)
	}
	if status, body := get(t, "http://"+s.Addr()+"/metrics"); status != 200 || strings.Contains(body, "tailscope_traces_open") {
		t.Error("traces are counted though none are put together")
	}
}
