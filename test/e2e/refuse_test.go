//go:build servers

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"

	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"tailscope/api"
	"tailscope/test/program"
	"tailscope/test/sender"
)

// TestBadQuestions asks what cannot be answered, and expects a hint what to ask
// instead.
func TestBadQuestions(t *testing.T) {
	t.Parallel()
	s := start(t)
	send(t, s, crashPayload(t, "shop", 20, 2))
	s.awaitCount("span_duration_seconds", `{service="shop"}`, 20)
	for _, c := range []struct {
		name, path, field string
		params            map[string]string
		says              string // a part of the message
	}{
		{"unknown label", "/api/v1/distribution", "match", map[string]string{"match": `{colour="red"}`}, "colour"},
		{"no selection", "/api/v1/heatmap", "match", map[string]string{"match": `{service=}`}, "matchers"},
		{"bad regular expression", "/api/v1/distribution", "match", map[string]string{"match": `{service=~"("}`}, "service"},
		{"end before start", "/api/v1/heatmap", "", map[string]string{"start": "2000", "end": "1000"}, ""},
		{"no time", "/api/v1/timeline", "start", map[string]string{"start": "yesterday"}, "RFC 3339"},
		{"milliseconds for seconds", "/api/v1/timeline", "start", map[string]string{"start": "1778313600000"}, "milliseconds"},
		{"quantile above one", "/api/v1/distribution", "q", map[string]string{"q": "1.5"}, ""},
		{"negative width", "/api/v1/heatmap", "width", map[string]string{"width": "-4"}, ""},
		{"unknown grouping", "/api/v1/distribution", "by", map[string]string{"by": "colour"}, "colour"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.params["start"] == "" {
				c.params["start"], c.params["end"] = "now-1h", "now"
			}
			before := s.metric("tailscope_http_requests_total", "code", "400")
			code, _, body, err := s.fetch(c.path, c.params)
			if err != nil {
				t.Fatal(err)
			}
			var e api.Error
			if err := json.Unmarshal(body, &e); err != nil {
				t.Fatalf("status %d, no error document: %v: %s", code, err, body)
			}
			t.Logf("%d %s", code, bytes.TrimSpace(body))
			if code != http.StatusBadRequest || e.Error.Code != "invalid" {
				t.Errorf("status %d, code %q; want 400, invalid", code, e.Error.Code)
			}
			if c.field != "" && e.Error.Field != c.field {
				t.Errorf("field %q, want %q", e.Error.Field, c.field)
			}
			if !strings.Contains(e.Error.Message, c.says) {
				t.Errorf("message %q does not mention %q", e.Error.Message, c.says)
			}
			if after := s.metric("tailscope_http_requests_total", "code", "400"); after != before+1 {
				t.Errorf("/metrics counts %v answers of 400, %v before", after, before)
			}
		})
	}
}

// send posts one request by gRPC.
func send(t *testing.T, s *server, payload []byte) {
	t.Helper()
	snd, err := sender.GRPC(s.OTLPGRPC, sender.Traces)
	if err != nil {
		t.Fatal(err)
	}
	defer snd.Close()
	if err := snd.Send(t.Context(), payload); err != nil {
		t.Fatal(err)
	}
}

// TestMalformed sends bytes that are not OTLP, to every listener.
func TestMalformed(t *testing.T) {
	t.Parallel()
	s := start(t)
	good := crashPayload(t, "shop", 20, 2)
	for _, c := range []struct{ name, method, path string }{
		{"traces", sender.Traces, "/v1/traces"},
		{"metrics", sender.Metrics, "/v1/metrics"},
	} {
		for what, bytes := range map[string][]byte{"noise": []byte("\xff\xff\xff\xffnothing of ours"), "cut short": good[:len(good)-7]} {
			t.Run(c.name+"/"+what, func(t *testing.T) {
				before := s.refusedRequests()
				snd, err := sender.GRPC(s.OTLPGRPC, c.method)
				if err != nil {
					t.Fatal(err)
				}
				defer snd.Close()
				err = snd.Send(t.Context(), bytes)
				if status.Code(err) != codes.InvalidArgument {
					t.Errorf("gRPC: %v, want InvalidArgument", err)
				}
				t.Logf("gRPC: %v", err)
				h := sender.HTTP("http://"+s.OTLPHTTP+c.path, "")
				defer h.Close()
				err = h.Send(t.Context(), bytes)
				var se *sender.StatusError
				if !errors.As(err, &se) || se.Status != http.StatusBadRequest {
					t.Errorf("HTTP: %v, want 400", err)
				}
				t.Logf("HTTP: %v", err)
				if after := s.refusedRequests(); after != before+2 {
					t.Errorf("/metrics counts %v refused requests, %v before", after, before)
				}
			})
		}
	}
	// Bytes that say they are compressed, and a type nobody speaks.
	for _, c := range []struct {
		name, contentType, encoding string
		want                        int
	}{
		{"not gzip", "application/x-protobuf", "gzip", http.StatusBadRequest},
		{"unknown encoding", "application/x-protobuf", "lzma", http.StatusUnsupportedMediaType},
		{"unknown type", "text/plain", "", http.StatusUnsupportedMediaType},
		{"not JSON", "application/json", "", http.StatusBadRequest},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.OTLPHTTP+"/v1/traces", bytes.NewReader(good))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", c.contentType)
		if c.encoding != "" {
			req.Header.Set("Content-Encoding", c.encoding)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		t.Logf("%s: %d %q", c.name, resp.StatusCode, body)
		if resp.StatusCode != c.want {
			t.Errorf("%s: status %d, want %d", c.name, resp.StatusCode, c.want)
		}
	}
	send(t, s, good)
	s.awaitCount("span_duration_seconds", `{service="shop"}`, 20)
}

// TestBrokenParts sends batches of which a part is broken: that part is refused,
// reported as OTLP's partial success and counted, and the rest is kept.
func TestBrokenParts(t *testing.T) {
	t.Parallel()
	s := start(t)
	conn, err := grpc.NewClient(s.OTLPGRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	t.Run("spans that end before they start", func(t *testing.T) {
		before := s.refusedItems()
		var req collectortrace.ExportTraceServiceRequest
		if err := proto.Unmarshal(crashPayload(t, "shop", 20, 2), &req); err != nil {
			t.Fatal(err)
		}
		for i, sp := range req.ResourceSpans[0].ScopeSpans[0].Spans {
			if i%4 == 0 {
				sp.StartTimeUnixNano, sp.EndTimeUnixNano = sp.EndTimeUnixNano, sp.StartTimeUnixNano
			}
		}
		resp, err := collectortrace.NewTraceServiceClient(conn).Export(t.Context(), &req)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("answer: %v", resp)
		if got := resp.GetPartialSuccess().GetRejectedSpans(); got != 5 {
			t.Errorf("%d spans rejected, want 5", got)
		}
		if resp.GetPartialSuccess().GetErrorMessage() == "" {
			t.Error("no message says why")
		}
		s.awaitCount("span_duration_seconds", `{service="shop"}`, 15)
		if after := s.refusedItems(); after != before+5 {
			t.Errorf("/metrics counts %v refused, %v before", after, before)
		}
	})

	t.Run("histograms with broken buckets", func(t *testing.T) {
		before := s.refusedItems()
		now := uint64(time.Now().UnixNano())
		point := func(tenant string, count uint64, counts []uint64, bounds []float64) *metricspb.HistogramDataPoint {
			sum := 5.0
			return &metricspb.HistogramDataPoint{
				StartTimeUnixNano: now - 1e9, TimeUnixNano: now, Count: count, Sum: &sum, BucketCounts: counts, ExplicitBounds: bounds,
				Attributes: strAttrs("tenant", tenant),
			}
		}
		var req collectormetrics.ExportMetricsServiceRequest
		var like collectortrace.ExportTraceServiceRequest
		if err := proto.Unmarshal(crashPayload(t, "shop", 1, 1), &like); err != nil {
			t.Fatal(err)
		}
		delta := metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA
		req.ResourceMetrics = []*metricspb.ResourceMetrics{{
			Resource: like.ResourceSpans[0].Resource,
			ScopeMetrics: []*metricspb.ScopeMetrics{{Metrics: []*metricspb.Metric{
				{Name: "mixed", Unit: "s", Data: &metricspb.Metric_Histogram{Histogram: &metricspb.Histogram{AggregationTemporality: delta,
					DataPoints: []*metricspb.HistogramDataPoint{
						point("good", 3, []uint64{1, 1, 1}, []float64{1, 2}),
						point("counts", 9, []uint64{1, 1, 1}, []float64{1, 2}),     // buckets do not sum to the count
						point("lengths", 3, []uint64{1, 1, 1}, []float64{1, 2, 3}), // a bucket is missing
						point("order", 3, []uint64{1, 1, 1}, []float64{2, 1}),      // bounds fall
						point("good too", 4, []uint64{0, 2, 2}, []float64{1, 2}),
					}}}},
				{Name: "sound", Unit: "s", Data: &metricspb.Metric_Histogram{Histogram: &metricspb.Histogram{AggregationTemporality: delta,
					DataPoints: []*metricspb.HistogramDataPoint{point("good", 3, []uint64{1, 1, 1}, []float64{1, 2})}}}},
			}}},
		}}
		resp, err := collectormetrics.NewMetricsServiceClient(conn).Export(t.Context(), &req)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("answer: %v", resp)
		if got := resp.GetPartialSuccess().GetRejectedDataPoints(); got != 3 {
			t.Errorf("%d data points rejected, want 3", got)
		}
		s.awaitCount("mixed_seconds", "{}", 7)
		s.awaitCount("sound_seconds", "{}", 3)
		if after := s.refusedItems(); after != before+3 {
			t.Errorf("/metrics counts %v refused, %v before", after, before)
		}
	})
}

// TestSecondProcess starts a server on a directory that another has open.
func TestSecondProcess(t *testing.T) {
	t.Parallel()
	s := start(t)
	path, err := program.Build(t.Context(), "tailscope")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "serve", "--data", s.Data, "--listen", "127.0.0.1:0",
		"--otlp-grpc", "127.0.0.1:0", "--otlp-http", "127.0.0.1:0").CombinedOutput()
	t.Logf("second process: %v\n%s", err, out)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("second process: %v, want exit code 1", err)
	}
	for _, want := range []string{"another", "hint:", "--data"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("its output does not mention %q", want)
		}
	}
	send(t, s, crashPayload(t, "shop", 20, 2)) // the first is none the worse
	s.awaitCount("span_duration_seconds", `{service="shop"}`, 20)
}

// TestOverload gives a server hardly any memory and more series than fit: it
// says so in the protocol's own words, and an SDK that listens gets
// everything in.
func TestOverload(t *testing.T) {
	const (
		floods    = 8
		spansEach = 200 // of a request, every one a series of its own
		traces    = 12_000
	)
	// A long time between flushes, so that a flood from a busy machine fills the memory too.
	s := start(t, "--limits-memory", "96MiB", "--ingest-flush", "12s")
	var acked, refused atomic.Int64
	var mu sync.Mutex
	said := map[string]error{} // what was refused, by protocol

	// A flood without patience, by gRPC and HTTP, until both and the SDK have
	// been refused.
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var patient, wished atomic.Int64
	enough := func() {
		mu.Lock()
		defer mu.Unlock()
		if said["gRPC"] != nil && said["HTTP"] != nil && wished.Load() > 0 {
			stop()
		}
	}
	g, err := sender.GRPC(s.OTLPGRPC, sender.Traces)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	h := sender.HTTP("http://"+s.OTLPHTTP+"/v1/traces", "")
	defer h.Close()
	var wg sync.WaitGroup
	var next atomic.Int64
	for w := range floods {
		protocol, snd := "gRPC", g
		if w%2 == 1 {
			protocol, snd = "HTTP", h
		}
		wg.Go(func() {
			for ctx.Err() == nil {
				p := crashPayload(t, fmt.Sprintf("flood-%d", next.Add(1)), spansEach, spansEach)
				// Not ctx: a request cut off half-way is neither taken nor refused.
				if err := snd.Send(t.Context(), p); err != nil {
					refused.Add(1)
					mu.Lock()
					said[protocol] = err
					mu.Unlock()
					enough()
					pause(t, 20*time.Millisecond)
					continue
				}
				acked.Add(1)
			}
		})
	}

	// An SDK in the middle of it gets the same answer and tries again by itself.
	exp, err := otlptracegrpc.New(t.Context(), otlptracegrpc.WithInsecure(), otlptracegrpc.WithEndpoint(s.OTLPGRPC), otlptracegrpc.WithTimeout(30*time.Second),
		otlptracegrpc.WithDialOption(grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			err := invoke(ctx, method, req, reply, cc, opts...)
			if status.Code(err) == codes.ResourceExhausted {
				wished.Add(1)
				enough()
			}
			return err
		})))
	if err != nil {
		t.Fatal(err)
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "patient"))),
		sdktrace.WithBatcher(exp, sdktrace.WithBlocking()))
	tracer := provider.Tracer("e2e")
	begin := time.Now()
	for ctx.Err() == nil || patient.Load() < traces {
		_, sp := tracer.Start(t.Context(), "GET /", trace.WithSpanKind(trace.SpanKindServer),
			trace.WithAttributes(attribute.String("tenant.id", fmt.Sprintf("tenant-%d", patient.Add(1)))))
		sp.End()
		if patient.Load()%512 == 0 { // a batch is full: one export every few milliseconds
			pause(t, 2*time.Millisecond)
		}
	}
	wg.Wait()
	if err := provider.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	took := time.Since(begin)

	if said["gRPC"] == nil || said["HTTP"] == nil || wished.Load() == 0 {
		t.Fatalf("%d requests of %d series each were taken within 16 MiB; refused: %v; the SDK was refused %d times", acked.Load(), spansEach, said, wished.Load())
	}
	st, _ := status.FromError(said["gRPC"])
	var wait time.Duration
	for _, d := range st.Details() {
		if r, ok := d.(*errdetails.RetryInfo); ok {
			wait = r.RetryDelay.AsDuration()
		}
	}
	if st.Code() != codes.ResourceExhausted || wait <= 0 {
		t.Errorf("gRPC: %v with RetryInfo %v, want ResourceExhausted and a delay", st, wait)
	}
	t.Logf("gRPC: %v, retry after %v", st, wait)
	var se *sender.StatusError
	if !errors.As(said["HTTP"], &se) || se.Status != http.StatusTooManyRequests || se.Header.Get("Retry-After") == "" {
		t.Errorf("HTTP: %v, want 429 with Retry-After", said["HTTP"])
	} else {
		t.Logf("HTTP: %d, Retry-After %s", se.Status, se.Header.Get("Retry-After"))
	}
	counted := s.metric("tailscope_ingest_requests_refused_total", "reason", "overloaded")
	if want := float64(refused.Load() + wished.Load()); counted != want {
		t.Errorf("/metrics counts %v refused requests, %v were", counted, want)
	}
	s.awaitCount("span_duration_seconds", `{service="patient"}`, uint64(patient.Load()))
	s.awaitCount("span_duration_seconds", `{service!="patient"}`, uint64(acked.Load())*spansEach)
	u, err := s.Usage()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d requests of %d spans taken, %d refused; the SDK's %d spans took %v, refused %d times; resident at most %d MiB",
		acked.Load(), spansEach, refused.Load(), patient.Load(), took.Round(time.Millisecond), wished.Load(), u.PeakBytes>>20)
	if u.PeakBytes > 400<<20 {
		t.Errorf("resident memory reached %d MiB", u.PeakBytes>>20)
	}
}

// TestRestart stops a server in the ordinary way and starts it again.
func TestRestart(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	begin := time.Now()
	total := uint64(0)
	for n := range 3 {
		s := startIn(t, data)
		s.start = begin
		for range 50 {
			send(t, s, crashPayload(t, "shop", 20, 5))
			total += 20
		}
		s.stop()
		s = startIn(t, data)
		s.start = begin
		s.awaitCount("span_duration_seconds", `{service="shop"}`, total)
		s.stop()
		t.Logf("start %d: %d spans", n, total)
	}
}

// strAttrs are one OTLP attribute.
func strAttrs(k, v string) []*commonpb.KeyValue {
	return []*commonpb.KeyValue{{Key: k, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: v}}}}
}

// refusedRequests and refusedItems are what /metrics counts of requests
// refused whole, and of spans and data points refused alone.
func (s *server) refusedRequests() float64 {
	return s.metric("tailscope_ingest_requests_refused_total")
}
func (s *server) refusedItems() float64 { return s.metric("tailscope_ingest_rejected_total") }
