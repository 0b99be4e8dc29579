package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/config"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// lasting are goroutines that outlive the tests.
var lasting []goleak.Option

func TestMain(m *testing.M) {
	code := m.Run()
	http.DefaultClient.CloseIdleConnections()
	if code == 0 {
		if err := goleak.Find(lasting...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// testConfig listens on free ports of the loopback and keeps data in dir.
func testConfig(dir string) config.Config {
	c := config.Default()
	c.Data = dir
	c.Listen, c.OTLPGRPC, c.OTLPHTTP = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	return c
}

func start(t *testing.T, c config.Config) *Server {
	t.Helper()
	s, err := Start(t.Context(), Settings{Config: c, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s
}

func stop(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// sdk is an OpenTelemetry SDK that sends to exporter.
func sdk(t *testing.T, exporter *otlptrace.Exporter) *sdktrace.TracerProvider {
	t.Helper()
	res := resource.NewSchemaless(semconv.ServiceName("checkout"), semconv.ServiceVersion("1.2.3"))
	return sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithBatcher(exporter, sdktrace.WithMaxQueueSize(1<<16)))
}

// spanLoad is what was sent: exact durations in seconds by tenant.
type spanLoad struct {
	byTenant map[string][]float64
	errors   map[string]int
	total    int
}

// send ends n spans in the last minute: log-normal durations for most tenants,
// two populations for one.
func send(t *testing.T, tp *sdktrace.TracerProvider, n int, seed uint64) spanLoad {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	tracer := tp.Tracer("test")
	load := spanLoad{byTenant: map[string][]float64{}, errors: map[string]int{}, total: n}
	now := time.Now()
	for range n {
		tenant := "tenant-" + strconv.Itoa(int(5*rng.Float64()*rng.Float64()))
		ns := int64(20e6 * math.Exp(rng.NormFloat64()))
		if tenant == "tenant-0" && rng.IntN(4) == 0 {
			ns = 400e6 + rng.Int64N(50e6)
		}
		end := now.Add(-time.Duration(rng.Int64N(int64(time.Minute))))
		begin := end.Add(-time.Duration(ns))
		_, span := tracer.Start(t.Context(), "GET /cart/{id}", trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(begin),
			trace.WithAttributes(semconv.HTTPRequestMethodGet, semconv.HTTPRoute("/cart/{id}"), attribute.String("tenant.id", tenant)))
		if rng.IntN(50) == 0 {
			span.SetStatus(codes.Error, "")
			load.errors[tenant]++
		}
		span.End(trace.WithTimestamp(end))
		load.byTenant[tenant] = append(load.byTenant[tenant], time.Duration(ns).Seconds())
	}
	if err := tp.Shutdown(t.Context()); err != nil {
		t.Fatalf("send the spans: %v", err)
	}
	for _, v := range load.byTenant {
		slices.Sort(v)
	}
	return load
}

// holds compares what the server says with what was sent: counts exactly, sums
// to rounding, quantiles within the error that is stated beside them.
func holds(t *testing.T, s *Server, load spanLoad) {
	t.Helper()
	c := &client.Client{Address: s.Addr()}
	r, err := c.Distribution(t.Context(), api.DistributionRequest{
		Selection: api.Selection{Match: `{service="checkout",kind="server"}`, Start: "now-1h", End: "now+10m"},
		By:        []string{"tenant"}, Quantiles: []string{"0", "0.5", "0.75", "0.9", "0.99", "0.999", "1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Groups) != len(load.byTenant) {
		t.Errorf("%d tenants, want %d", len(r.Groups), len(load.byTenant))
	}
	for _, g := range r.Groups {
		tenant := g.Labels["tenant"]
		want := load.byTenant[tenant]
		if g.Count != uint64(len(want)) {
			t.Errorf("%s: count %d, want %d", tenant, g.Count, len(want))
			continue
		}
		sum := 0.0
		for _, v := range want {
			sum += v
		}
		if math.Abs(float64(g.Sum)-sum) > 1e-9*sum || float64(g.Min) != want[0] || float64(g.Max) != want[len(want)-1] {
			t.Errorf("%s: sum %v min %v max %v, want %v %v %v", tenant, g.Sum, g.Min, g.Max, sum, want[0], want[len(want)-1])
		}
		if g.Error <= 0 || g.Error > 0.0222 {
			t.Errorf("%s: stated error %v, want at most 0.0222", tenant, g.Error)
		}
		for name, got := range g.Quantiles {
			q, _ := strconv.ParseFloat(name, 64)
			// The q-quantile lies between the order statistics next to rank q·n.
			rank := q * float64(len(want))
			low := want[max(int(math.Ceil(rank))-1, 0)]
			high := want[min(int(math.Floor(rank)), len(want)-1)]
			if e := float64(g.Error); float64(got) < low*(1-e) || float64(got) > high*(1+e) {
				t.Errorf("%s: q%s is %v, want between %v and %v within %v", tenant, name, got, low, high, e)
			}
		}
	}

	services, err := c.Services(t.Context(), api.ServicesRequest{Selection: api.Selection{Start: "now-1h", End: "now+10m"}})
	if err != nil {
		t.Fatal(err)
	}
	wantErrors := 0
	for _, n := range load.errors {
		wantErrors += n
	}
	if len(services.Services) != 1 || services.Services[0].Requests != uint64(load.total) || services.Services[0].Errors != uint64(wantErrors) {
		t.Errorf("services: %+v, want checkout with %d requests and %d errors", services.Services, load.total, wantErrors)
	}
}

// The whole program: spans of a real SDK in, by both protocols, answers out,
// the same after a restart.
func TestSpansToAnswers(t *testing.T) {
	for _, protocol := range []string{"grpc", "http"} {
		t.Run(protocol, func(t *testing.T) {
			cfg := testConfig(t.TempDir())
			s := start(t, cfg)
			var exporter *otlptrace.Exporter
			var err error
			if protocol == "grpc" {
				exporter, err = otlptracegrpc.New(t.Context(), otlptracegrpc.WithEndpoint(s.OTLPGRPC()), otlptracegrpc.WithInsecure())
			} else {
				exporter, err = otlptracehttp.New(t.Context(), otlptracehttp.WithEndpoint(s.OTLPHTTP()), otlptracehttp.WithInsecure(),
					otlptracehttp.WithCompression(otlptracehttp.GzipCompression))
			}
			if err != nil {
				t.Fatal(err)
			}
			load := send(t, sdk(t, exporter), 5000, 1)
			if err := s.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			holds(t, s, load)

			stop(t, s)
			again := start(t, cfg)
			holds(t, again, load)
		})
	}
}

// What was acknowledged and not flushed when the server stops is there after a
// restart.
// What a sender was answered for is in the next answer, and counted once when it is flushed.
func TestAcknowledgedIsVisible(t *testing.T) {
	s := start(t, testConfig(t.TempDir()))
	const n = 3
	shop(t, s, time.Now().Add(-time.Second), n)
	seen := func() map[string]string {
		return totals(t, s, series.SpanDuration, "", "service", "operation", "tenant")
	}
	before := seen()
	if len(before) != 5 {
		t.Errorf("before the flush: %v", before)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := seen(); !maps.Equal(before, after) {
		t.Errorf("before the flush %v, after it %v", before, after)
	}
}

func TestCloseFlushes(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.Flush = time.Hour
	s := start(t, cfg)
	exporter, err := otlptracegrpc.New(t.Context(), otlptracegrpc.WithEndpoint(s.OTLPGRPC()), otlptracegrpc.WithInsecure())
	if err != nil {
		t.Fatal(err)
	}
	load := send(t, sdk(t, exporter), 500, 2)
	stop(t, s)
	holds(t, start(t, cfg), load)
}

func TestSecondServerIsRefused(t *testing.T) {
	dir := t.TempDir()
	start(t, testConfig(dir))
	s, err := Start(t.Context(), Settings{Config: testConfig(dir)})
	if !errors.Is(err, store.ErrLocked) || s != nil {
		t.Fatalf("got %v, want an error that says the directory is in use", err)
	}
}

// Its journal would be counted twice.
func TestRestoreThatDidNotEndIsRefused(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.Store = "clickhouse://127.0.0.1:1/none"
	if err := os.Mkdir(filepath.Join(cfg.Data, RestoringDir), 0o700); err != nil {
		t.Fatal(err)
	}
	if s, err := Start(t.Context(), Settings{Config: cfg}); err == nil || !strings.Contains(err.Error(), "restore again") || s != nil {
		t.Fatalf("got %v, want an error that says how the restore ends", err)
	}
	if _, err := ReadName(cfg.Data); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it has a name: %v", err)
	}
}

func TestTakenAddressLeavesNothingBehind(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cfg := testConfig(t.TempDir())
	cfg.OTLPHTTP = l.Addr().String()
	if _, err := Start(t.Context(), Settings{Config: cfg}); !errors.Is(err, ErrListen) || !strings.Contains(err.Error(), "OTLP over HTTP") {
		t.Fatalf("got %v, want an error that names the listener", err)
	}
	start(t, testConfig(cfg.Data)) // not locked
}

func TestListeners(t *testing.T) {
	s := start(t, testConfig(t.TempDir()))
	base := "http://" + s.Addr()
	for path, want := range map[string]string{
		"/healthz":           "ok",
		"/readyz":            "ready",
		"/openapi.json":      `"/api/v1/heatmap"`,
		"/api/v1/status":     s.OTLPGRPC(),
		"/api/v1/cluster":    `"alive":true,"works":[],"lag":0,"ahead":0}],"nodes":[],"agents":[],"findings":[]`,
		"/metrics":           `tailscope_build_info{version="test"} 1`,
		"/api/v1/services":   `"services":[]`,
		"/api/v1/marks":      `"marks":[]`,
		"/api/v1/families":   `"families":[]`,
		"/prometheus/graph":  "",
		"/services/shop/sla": "<html",
		"/anything/else":     "there is no /anything/else",
	} {
		status, body := get(t, base+path)
		if !strings.Contains(body, want) || status >= 500 && want != "<html" {
			t.Errorf("%s answers %d %.200s, want %q in it", path, status, body, want)
		}
	}
	if status, body := get(t, base+"/api/v1/distribution?match=%7Bservce%3D"); status != http.StatusBadRequest || !strings.Contains(body, `"field":"match"`) {
		t.Errorf("a broken matcher answers %d %s", status, body)
	}
	stop(t, s)
	if _, err := http.Get(base + "/healthz"); err == nil {
		t.Error("still listens after Close")
	}
}

// metric returns the value of a line of /metrics.
func metric(t *testing.T, s *Server, name string) float64 {
	t.Helper()
	_, body := get(t, "http://"+s.Addr()+"/metrics")
	for line := range strings.SplitSeq(body, "\n") {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(rest, 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Errorf("/metrics has no %s", name)
	return math.NaN()
}

func TestBadInputIsCounted(t *testing.T) {
	s := start(t, testConfig(t.TempDir()))
	post := func(body string) int {
		r, err := http.Post("http://"+s.OTLPHTTP()+"/v1/traces", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		_, _ = io.Copy(io.Discard, r.Body)
		return r.StatusCode
	}
	if got := post(`{"resourceSpans": 7}`); got != http.StatusBadRequest {
		t.Errorf("a malformed request answers %d, want 400", got)
	}
	now := time.Now().UnixNano()
	span := func(begin, end int64) string {
		return fmt.Sprintf(`{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","name":"x","kind":2,"startTimeUnixNano":"%d","endTimeUnixNano":"%d"}`, begin, end)
	}
	mixed := `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"s"}}]},"scopeSpans":[{"spans":[` +
		span(now-1e6, now) + "," + span(now, now-1e6) + "," + span(now-2e6, now) + `]}]}]}`
	if got := post(mixed); got != http.StatusOK {
		t.Errorf("a request with one bad span answers %d, want 200 with partial success", got)
	}
	if n := metric(t, s, "tailscope_observations_total"); n != 2 { // later the breakdown's come to them
		t.Errorf("%v observations, want 2", n)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{
		`tailscope_ingest_requests_refused_total{protocol="http",reason="malformed"}`: 1,
		`tailscope_ingest_rejected_total{reason="ends_before_start",signal="spans"}`:  1,
		`tailscope_ingest_items_total{signal="spans"}`:                                2,
		`tailscope_ingest_requests_total{protocol="http"}`:                            2,
		`tailscope_trace_requests_total`:                                              1,
		`tailscope_ingest_requests_refused_total{protocol="grpc",reason="malformed"}`: 0,
	} {
		if got := metric(t, s, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	c := &client.Client{Address: s.Addr()}
	d, err := c.Distribution(t.Context(), api.DistributionRequest{Selection: api.Selection{Match: `{service="s"}`, Start: "now-1h", End: "now+10m"}})
	if err != nil || len(d.Groups) != 1 || d.Groups[0].Count != 2 {
		t.Errorf("got %+v, %v; want the two good spans", d, err)
	}
	if n := metric(t, s, `tailscope_http_requests_total{code="200",handler="distribution"}`); n != 1 {
		t.Errorf("%v distributions counted, want 1", n)
	}
}
