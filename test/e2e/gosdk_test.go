//go:build servers

package e2e

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// seconds draws from two populations, as a cache in front of a slow store
// makes them.
func seconds(rng *rand.Rand) float64 {
	if rng.Float64() < 0.7 {
		return 0.008 * math.Exp(0.3*rng.NormFloat64())
	}
	v := 0.045 * math.Exp(0.2*rng.NormFloat64())
	if rng.IntN(50) == 0 {
		v *= 20
	}
	return v
}

func TestGoSDK(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"grpc", "http"} {
		t.Run(protocol, func(t *testing.T) {
			s := start(t)
			sent := sentAll{Service: "go-" + protocol, Metrics: map[string]sentMetrics{}}
			res := resource.NewSchemaless(
				attribute.String("service.name", sent.Service),
				attribute.String("service.version", "2.0.1"),
				attribute.String("service.instance.id", "one"))
			rng := rand.New(rand.NewPCG(7, 7))
			sent.Spans = goSpans(t, s, protocol, res, rng, 8000)
			for _, temporality := range []metricdata.Temporality{metricdata.DeltaTemporality, metricdata.CumulativeTemporality} {
				name := "delta"
				if temporality == metricdata.CumulativeTemporality {
					name = "cumulative"
				}
				sent.Metrics[name] = goMetrics(t, s, protocol, res, rng, temporality, "e2e."+protocol+"."+name)
			}
			checkAll(t, s, sent, "e2e_"+protocol)
		})
	}
}

// traceExporter returns the SDK's own, with its own retries.
func traceExporter(t *testing.T, s *server, protocol string) *otlptrace.Exporter {
	t.Helper()
	var exp *otlptrace.Exporter
	var err error
	if protocol == "grpc" {
		exp, err = otlptracegrpc.New(t.Context(), otlptracegrpc.WithInsecure(), otlptracegrpc.WithEndpoint(s.OTLPGRPC))
	} else {
		exp, err = otlptracehttp.New(t.Context(), otlptracehttp.WithInsecure(), otlptracehttp.WithEndpoint(s.OTLPHTTP),
			otlptracehttp.WithCompression(otlptracehttp.GzipCompression))
	}
	if err != nil {
		t.Fatal(err)
	}
	return exp
}

func goSpans(t *testing.T, s *server, protocol string, res *resource.Resource, rng *rand.Rand, n int) []sentSpan {
	t.Helper()
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(res),
		sdktrace.WithBatcher(traceExporter(t, s, protocol), sdktrace.WithBlocking()))
	tracer := provider.Tracer("e2e")
	var sent []sentSpan
	now := time.Now()
	for i := range n / 2 {
		end := now.Add(-time.Duration(rng.Int64N(int64(2 * time.Minute))))
		tenant := fmt.Sprintf("t%d", min(rng.IntN(8), rng.IntN(8)))
		d, child := time.Duration(seconds(rng)*1e9), time.Duration(seconds(rng)*1e8)
		failed := rng.IntN(33) == 0
		ctx, span := tracer.Start(context.Background(), "GET /cart/{id}", trace.WithSpanKind(trace.SpanKindServer),
			trace.WithTimestamp(end.Add(-d)), trace.WithAttributes(
				// The names of before the semantic conventions' change.
				attribute.String("http.method", "GET"),
				attribute.String("http.route", "/cart/{id}"),
				attribute.String("http.target", fmt.Sprintf("/cart/%d", i)),
				attribute.String("tenant.id", tenant)))
		_, c := tracer.Start(ctx, "cart-db", trace.WithSpanKind(trace.SpanKindClient),
			trace.WithTimestamp(end.Add(-d)), trace.WithAttributes(
				attribute.String("db.system", "postgresql"),
				attribute.String("db.statement", fmt.Sprintf("SELECT * FROM cart WHERE id = %d AND note = 'n%d'", i, i)),
				attribute.String("tenant.id", tenant)))
		c.End(trace.WithTimestamp(end.Add(child - d)))
		status := "ok"
		if failed {
			status = "error"
			span.SetStatus(codes.Error, "no stock")
		}
		span.End(trace.WithTimestamp(end))
		sent = append(sent, sentSpan{"server", tenant, status, int64(d)}, sentSpan{"client", tenant, "ok", int64(child)})
	}
	if err := provider.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	return sent
}

func goMetrics(t *testing.T, s *server, protocol string, res *resource.Resource, rng *rand.Rand, temporality metricdata.Temporality, name string) sentMetrics {
	t.Helper()
	ctx := t.Context()
	selector := func(k sdkmetric.InstrumentKind) metricdata.Temporality {
		if k == sdkmetric.InstrumentKindUpDownCounter {
			return metricdata.CumulativeTemporality
		}
		return temporality
	}
	var exp sdkmetric.Exporter
	var err error
	if protocol == "grpc" {
		exp, err = otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithInsecure(), otlpmetricgrpc.WithEndpoint(s.OTLPGRPC),
			otlpmetricgrpc.WithTemporalitySelector(selector))
	} else {
		exp, err = otlpmetrichttp.New(ctx, otlpmetrichttp.WithInsecure(), otlpmetrichttp.WithEndpoint(s.OTLPHTTP),
			otlpmetrichttp.WithTemporalitySelector(selector))
	}
	if err != nil {
		t.Fatal(err)
	}
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithResource(res),
		sdkmetric.WithReader(sdkmetric.NewPeriodicReader(exp, sdkmetric.WithInterval(time.Hour))),
		sdkmetric.WithView(sdkmetric.NewView(sdkmetric.Instrument{Name: name + ".wait"},
			sdkmetric.Stream{Aggregation: sdkmetric.AggregationBase2ExponentialHistogram{MaxSize: 160, MaxScale: 20}})))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	meter := provider.Meter("e2e")
	wait, err := meter.Float64Histogram(name+".wait", metric.WithUnit("ms"))
	must(err)
	size, err := meter.Int64Histogram(name+".size", metric.WithUnit("By"),
		metric.WithExplicitBucketBoundaries(100, 200, 400, 800, 1600, 3200, 6400))
	must(err)
	orders, err := meter.Int64Counter(name+".orders", metric.WithUnit("{order}"))
	must(err)
	depth, err := meter.Int64Gauge(name+".depth", metric.WithUnit("{item}"))
	must(err)
	conns, err := meter.Int64UpDownCounter(name+".conns", metric.WithUnit("{connection}"))
	must(err)

	m := sentMetrics{Orders: map[string]float64{}}
	tenant := func(name string) metric.MeasurementOption {
		return metric.WithAttributes(attribute.String("tenant", name))
	}
	for range 3 {
		for range 400 {
			v := seconds(rng)
			wait.Record(ctx, v*1000, tenant("t1"))
			m.Wait = append(m.Wait, v)
			b := int64(600*math.Exp(0.8*rng.NormFloat64())) + 1
			size.Record(ctx, b, tenant("t1"))
			m.Size = append(m.Size, float64(b))
			who, n := string("ab"[rng.IntN(2)]), 1+rng.Int64N(4)
			orders.Add(ctx, n, tenant(who))
			m.Orders[who] += float64(n)
			c := []int64{1, 1, -1}[rng.IntN(3)]
			conns.Add(ctx, c)
			m.Conns += float64(c)
		}
		m.Depth = float64(rng.IntN(1000))
		depth.Record(ctx, int64(m.Depth))
		must(provider.ForceFlush(ctx))
		pause(t, 50*time.Millisecond)
	}
	must(provider.Shutdown(ctx))
	return m
}
