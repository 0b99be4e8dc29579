package server

import (
	"fmt"
	"maps"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	oteltrace "go.opentelemetry.io/otel/trace"

	"tailscope/internal/series"
)

// Requests without http.route are counted by learned routes, which survive a restart.
func TestLearnedRoutes(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := start(t, cfg)
	serve := func(from, n int) {
		t.Helper()
		exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpoint(s.OTLPHTTP()), otlptracehttp.WithInsecure())
		if err != nil {
			t.Fatal(err)
		}
		tp := sdk(t, exporter)
		end := time.Now().Add(-time.Second)
		for i := from; i < from+n; i++ {
			for path, status := range map[string]int{
				fmt.Sprintf("/orders/%d", i): 200, "/users/" + word(i): 200, "/app.css": 200, "/admin" + word(i) + ".php": 404,
			} {
				_, span := tp.Tracer("x").Start(t.Context(), "GET", oteltrace.WithSpanKind(oteltrace.SpanKindServer), oteltrace.WithTimestamp(end.Add(-time.Millisecond)),
					oteltrace.WithAttributes(attribute.String("http.request.method", "GET"), attribute.String("url.path", path), attribute.Int("http.response.status_code", status)))
				span.End(oteltrace.WithTimestamp(end))
			}
		}
		if err := tp.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	operations := func() map[string]string { return totals(t, s, series.SpanDuration, "", "operation") }
	serve(0, 500)
	before := operations()
	for _, name := range []string{"GET /orders/{id}", "GET {static}", "GET {not found}"} {
		if before[name] == "" || before[name] != before["GET /orders/{id}"] {
			t.Errorf("of %s: %q", name, before[name])
		}
	}
	if before["GET /users/{name}"] == "" || len(before) > 4+200 {
		t.Errorf("%d operations: %v", len(before), before)
	}
	// As rules and dashboards ask for them.
	for path, want := range map[string]string{
		"label/http_route/values?match[]=" + url.QueryEscape(`http_server_request_duration_seconds_count{job="checkout"}`):                                                                                                 `"/orders/{id}"`,
		fmt.Sprintf("query?time=%d&query=", time.Now().Unix()+12) + url.QueryEscape(`sum by (job) (http_server_request_duration_seconds_count{job=~"check.*",http_route="/orders/{id}",http_response_status_code="200"})`): `{"metric":{"job":"checkout"},"value":`,
		fmt.Sprintf("query?time=%d&query=", time.Now().Unix()+12) + url.QueryEscape(`target_info`):                                                                                                                         `"service_name":"checkout","service_version":"1.2.3"`,
	} {
		if status, body := get(t, "http://"+s.Addr()+"/prometheus/api/v1/"+path); status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s, want %s in it", path, status, body, want)
		}
	}
	stop(t, s)
	s = start(t, cfg)
	serve(500, 100)
	if after := operations(); len(after) != len(before) || after["GET /users/{name}"] == before["GET /users/{name}"] {
		t.Errorf("after a restart %d operations, %d before; among them %v", len(after), len(before), maps.Collect(maps.All(after)))
	}
}

// word writes a number as a word without digits.
func word(i int) string {
	s := "u"
	for ; i > 0; i /= 26 {
		s += string(rune('a' + i%26))
	}
	return s
}
