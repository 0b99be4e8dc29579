//go:build servers

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"tailscope/api"
)

// unit is the length of one known sleep: long beside what calls and threads
// cost on a busy machine.
const unit = time.Second

// TestBreakdownOfThreeServices runs a gateway (Go), an order service (Python)
// and two instances of a stock service (Go) whose every delay is a sleep of a
// known length, and compares the breakdown with it. In units, what a checkout
// does, from left to right:
//
//	gateway   app    1 |                 | 1   |                   |
//	orders    app      | 1     (1)       |     |                   |   nested
//	          db       |    1            |     |                   |
//	          mail     |       ========= | === | =                 |   2.5, asynchronous
//	stock-1            |                 |     | 1                 |   parallel
//	stock-2            |                 |     | 1 1               |
//	stock-2            |                 |     |     1 (503) 1     |   retried
//
// Sleeps take longer than they are to, on a busy machine by much: the services time
// them by clocks of their own, and no figure may be off by more than 1 % and by what
// these say. Where they say much, all is done again, since little is shown then.
func TestBreakdownOfThreeServices(t *testing.T) {
	t.Parallel()
	const tries = 3
	for try := 1; try <= tries; try++ {
		late := breakdownOfThreeServices(t)
		t.Logf("sleeps and calls took %v longer per request than they were to", late.Round(time.Microsecond))
		if late < unit/20 || t.Failed() {
			return
		}
	}
}

// overtime is the time beyond the known one, by a service's own clock.
type overtime struct{ nanos atomic.Int64 }

func (o *overtime) since(begin time.Time, units float64) {
	o.nanos.Add(max(0, int64(time.Since(begin))-int64(units*float64(unit))))
}

// breakdownOfThreeServices returns how much longer a request took than it is known to.
func breakdownOfThreeServices(t *testing.T) (late time.Duration) {
	interpreter := python(t)
	s := start(t, "--set=traces.grace=1s")
	orders := startOrders(t, interpreter, s.OTLPGRPC)
	var over overtime
	first, second := newStock(t, s, "stock-1", &over), newStock(t, s, "stock-2", &over)
	g := &gateway{orders: orders.url, tracer: tracerOf(t, s, "gateway", "gateway-1"), over: &over}

	// Connections first: the time to make one is not known.
	const requests = 6
	g.warm(t, requests, first, second)
	g.stock = [2]string{first, second}
	var all sync.WaitGroup
	for range requests {
		all.Go(func() { g.checkout(t) })
	}
	all.Wait()
	mails := orders.stop(t)
	g.tracer.flush(t)
	late = (time.Duration(over.nanos.Load()) + mails) / requests

	ask := func(service, operation string) api.BreakdownResponse {
		params := map[string]string{
			"match": fmt.Sprintf("{service=%q,operation=%q}", service, operation),
			"start": strconv.FormatInt(s.start.Add(-time.Minute).Unix(), 10),
			"end":   strconv.FormatInt(time.Now().Add(time.Minute).Unix(), 10),
		}
		var r api.BreakdownResponse
		for deadline := time.Now().Add(3 * visibleWithin); time.Now().Before(deadline); pause(t, 200*time.Millisecond) {
			if s.count("breakdown_requests", params["match"]) == requests {
				if r = get[api.BreakdownResponse](s, "/api/v1/breakdown", params); r.Total == requests {
					return r
				}
			}
		}
		t.Fatalf("%s of %s: %d requests in the breakdown, %d were made", operation, service, r.Total, requests)
		return r
	}

	type part struct{ service, component, operation string }
	type known struct{ self, critical, calls float64 } // per request, in units
	for _, c := range []struct {
		service, operation string
		total              float64
		parts              map[part]known
	}{
		{"gateway", "POST /checkout", 9, map[part]known{
			// While the mail is sent the gateway's second sleep is shared with it.
			{"gateway", "app", "POST /checkout"}:  {1 + 0.5, 2, 1},
			{"orders", "app", "PUT /orders/{id}"}: {1, 2, 1},
			{"orders", "db", "INSERT orders"}:     {1, 1, 1},
			{"orders", "app", "send mail"}:        {1 + 0.5 + 0.5/3, 0, 1},
			{"stock", "app", "GET /stock"}:        {(0.5/3 + 0.25) + (0.5/3 + 0.25 + 1), 2, 2},
			{"stock", "app", "GET /flaky"}:        {2, 2, 2},
		}},
		{"orders", "PUT /orders/{id}", 3, map[part]known{
			{"orders", "app", "PUT /orders/{id}"}: {1, 2, 1},
			{"orders", "db", "INSERT orders"}:     {1, 1, 1},
			{"orders", "app", "send mail"}:        {1, 0, 1},
		}},
	} {
		r := ask(c.service, c.operation)
		near := func(what string, got, units float64) {
			t.Helper()
			want := units * unit.Seconds()
			if diff := math.Abs(got - want); diff > 0.01*want+late.Seconds() {
				t.Errorf("%s of %s: %s is %.4f s, known to be %.4f s: %.2f %% off, where sleeps took %v longer", c.operation, c.service, what, got, want, 100*diff/want, late)
			} else {
				t.Logf("%s of %s: %s is %.4f s, known to be %.4f s", c.operation, c.service, what, got, want)
			}
		}
		near("the request", float64(r.Seconds)/requests, c.total)
		found, rest, sum := 0, 0.0, 0.0
		for _, p := range r.Parts {
			sum += float64(p.Seconds)
			k, ok := c.parts[part{p.Service, p.Component, p.Operation}]
			if !ok {
				rest += float64(p.Seconds)
				continue
			}
			found++
			near(fmt.Sprintf("self time of %s %s", p.Service, p.Operation), float64(p.Seconds)/requests, k.self)
			near(fmt.Sprintf("critical path in %s %s", p.Service, p.Operation), float64(p.CriticalShare)*float64(r.Seconds)/requests, k.critical)
			if got := float64(p.PerRequest); got != k.calls {
				t.Errorf("%s %s: %v calls per request, %v were made", p.Service, p.Operation, got, k.calls)
			}
		}
		if found != len(c.parts) {
			t.Errorf("%s of %s: %d of %d parts: %+v", c.operation, c.service, found, len(c.parts), r.Parts)
		}
		// What is left is the calls' own cost, outside any sleep.
		if limit := 0.01*float64(r.Seconds) + requests*late.Seconds(); rest > limit {
			t.Errorf("%s of %s: %.4f s in other parts, at most %.4f s", c.operation, c.service, rest, limit)
		}
		// Exact in each request but for the microsecond it is counted in.
		if diff := math.Abs(sum - float64(r.Seconds)); diff > 1e-6*requests {
			t.Errorf("%s of %s: the parts sum to %.9f s, the requests to %.9f s", c.operation, c.service, sum, float64(r.Seconds))
		}
		if c.service == "gateway" {
			checkFanOut(t, r, requests)
		}
	}
	return late
}

// checkFanOut: the second instance of stock is always the one waited for.
func checkFanOut(t *testing.T, r api.BreakdownResponse, requests uint64) {
	t.Helper()
	for _, f := range r.FanOuts {
		if f.Service != "gateway" || f.Operation != "GET inside" {
			continue
		}
		last := map[string]uint64{}
		for _, i := range f.Instances {
			last[i.Instance] = i.Last
		}
		if last["stock-2"] != requests || last["stock-1"] != 0 {
			t.Errorf("last to end of stock: %+v, want stock-2 in all %d", f.Instances, requests)
		}
		return
	}
	t.Errorf("no fan-out over the instances of stock: %+v", r.FanOuts)
}

// tracer is one service's SDK.
type tracer struct {
	trace.Tracer
	provider *sdktrace.TracerProvider
}

func tracerOf(t *testing.T, s *server, service, instance string) tracer {
	t.Helper()
	p := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(traceExporter(t, s, "grpc"), sdktrace.WithBatchTimeout(200*time.Millisecond)),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", service), attribute.String("service.instance.id", instance))))
	t.Cleanup(func() { _ = p.Shutdown(context.Background()) })
	return tracer{p.Tracer("e2e"), p}
}

func (tr tracer) flush(t *testing.T) {
	t.Helper()
	if err := tr.provider.ForceFlush(t.Context()); err != nil {
		t.Error(err)
	}
}

var w3c propagation.TraceContext

// newStock serves GET /stock?units=n and GET /flaky, and returns its address.
func newStock(t *testing.T, s *server, instance string, over *overtime) string {
	t.Helper()
	tr := tracerOf(t, s, "stock", instance)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/warm" {
			return
		}
		units, _ := strconv.Atoi(r.FormValue("units"))
		defer over.since(time.Now(), float64(units))
		ctx := w3c.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		_, span := tr.Start(ctx, "GET "+r.URL.Path, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
			attribute.String("http.request.method", "GET"), attribute.String("http.route", r.URL.Path)))
		time.Sleep(time.Duration(units) * unit)
		if r.Header.Get("X-Attempt") == "1" {
			span.SetStatus(codes.Error, "out of stock")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		span.End()
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// gateway is the service whose requests are broken down.
type gateway struct {
	tracer tracer
	orders string
	stock  [2]string
	over   *overtime
	client http.Client
}

func (g *gateway) warm(t *testing.T, n int, stock ...string) {
	t.Helper()
	g.client.Transport = &http.Transport{MaxIdleConnsPerHost: 2 * n}
	var all sync.WaitGroup
	for range n {
		for _, base := range append(stock, g.orders) {
			all.Go(func() {
				method := http.MethodGet
				if base == g.orders {
					method = http.MethodPut
				}
				if _, err := g.send(t.Context(), method, base+"/warm", nil); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
}

func (g *gateway) checkout(t *testing.T) {
	defer g.over.since(time.Now(), 9)
	ctx, span := g.tracer.Start(context.Background(), "POST /checkout", trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("http.request.method", "POST"), attribute.String("http.route", "/checkout"), attribute.String("tenant.id", "acme")))
	defer span.End()
	call := func(method, target, attempt string) {
		ctx, span := g.tracer.Start(ctx, method, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
			attribute.String("http.request.method", method), attribute.String("server.address", "inside")))
		defer span.End()
		header := http.Header{}
		header.Set("X-Attempt", attempt)
		w3c.Inject(ctx, propagation.HeaderCarrier(header))
		status, err := g.send(ctx, method, target, header)
		if err != nil {
			t.Error(err)
		}
		if status >= 500 {
			span.SetStatus(codes.Error, "")
		}
	}
	time.Sleep(unit)
	call(http.MethodPut, g.orders+"/orders/7", "")
	time.Sleep(unit)
	var both sync.WaitGroup
	both.Go(func() { call(http.MethodGet, g.stock[0]+"/stock?units=1", "") })
	both.Go(func() { call(http.MethodGet, g.stock[1]+"/stock?units=2", "") })
	both.Wait()
	call(http.MethodGet, g.stock[1]+"/flaky?units=1", "1")
	call(http.MethodGet, g.stock[1]+"/flaky?units=1", "2")
}

func (g *gateway) send(ctx context.Context, method, target string, header http.Header) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, method, target, nil)
	if err != nil {
		return 0, err
	}
	if header != nil {
		r.Header = header
	}
	resp, err := g.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// orderService is the Python process.
type orderService struct {
	url   string
	cmd   *exec.Cmd
	stdin io.Closer
	lines *bufio.Reader // of its standard output
	text  *bytes.Buffer
}

func startOrders(t *testing.T, interpreter, endpoint string) *orderService {
	t.Helper()
	o := &orderService{text: &bytes.Buffer{}}
	o.cmd = exec.CommandContext(t.Context(), interpreter, "testdata/orders.py", endpoint, fmt.Sprint(unit.Seconds()))
	o.cmd.Stderr = o.text
	stdin, err := o.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	o.stdin = stdin
	stdout, err := o.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := o.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	o.lines = bufio.NewReader(stdout)
	port, err := o.lines.ReadString('\n')
	if err != nil {
		_ = o.cmd.Wait()
		t.Fatalf("orders.py: %v\n%s", err, o.text)
	}
	o.url = "http://127.0.0.1:" + strings.TrimSpace(port)
	return o
}

// stop lets it send what is left, and returns how much longer than known its mails
// took, which nobody waits for.
func (o *orderService) stop(t *testing.T) time.Duration {
	t.Helper()
	_ = o.stdin.Close()
	line, readErr := o.lines.ReadString('\n')
	if err := o.cmd.Wait(); err != nil || readErr != nil || o.text.Len() > 0 {
		t.Errorf("orders.py: %v\n%s", errors.Join(err, readErr), o.text)
	}
	mails, err := time.ParseDuration(strings.TrimSpace(line) + "s")
	if err != nil {
		t.Error(err)
	}
	return mails
}
