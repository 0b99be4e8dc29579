package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/runtime"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
)

// telemetry is one service's OpenTelemetry SDK: spans by gRPC, metrics by
// HTTP, so that both of the server's doors are used.
type telemetry struct {
	traces  *sdktrace.TracerProvider
	metrics *sdkmetric.MeterProvider
}

// newTelemetry sets up the SDK as an application would; addresses are
// host:port of the server's OTLP listeners.
func newTelemetry(ctx context.Context, service, grpcAddr, httpAddr string) (*telemetry, error) {
	res, err := describe(service)
	if err != nil {
		return nil, err
	}
	spans, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpoint(grpcAddr), otlptracegrpc.WithInsecure())
	if err != nil {
		return nil, fmt.Errorf("export spans of %s: %w", service, err)
	}
	metrics, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpoint(httpAddr), otlpmetrichttp.WithInsecure())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("export metrics of %s: %w", service, err), spans.Shutdown(ctx))
	}
	t := &telemetry{
		traces: sdktrace.NewTracerProvider(sdktrace.WithResource(res),
			sdktrace.WithBatcher(spans, batching...)),
		metrics: sdkmetric.NewMeterProvider(sdkmetric.WithResource(res),
			sdkmetric.WithReader(sdkmetric.NewPeriodicReader(metrics, readerOptions(service)...)),
			// Exponential histograms instead of the SDK's fourteen fixed buckets:
			// they are stored as precisely as they are sent.
			sdkmetric.WithView(sdkmetric.NewView(
				sdkmetric.Instrument{Kind: sdkmetric.InstrumentKindHistogram},
				sdkmetric.Stream{Aggregation: sdkmetric.AggregationBase2ExponentialHistogram{MaxSize: 160, MaxScale: 5}}))),
	}
	return t, nil
}

// describe returns what a service says of itself.
func describe(service string) (*resource.Resource, error) {
	version := "1.0.0"
	if service == "shop" {
		version = shopVersion
	}
	host, _ := os.Hostname()
	res, err := resource.Merge(resource.Default(), resource.NewSchemaless(
		semconv.ServiceName(service), semconv.ServiceVersion(version), semconv.ServiceInstanceID(host+"-1"), semconv.DeploymentEnvironmentName("demo")))
	if err != nil {
		return nil, fmt.Errorf("describe %s: %w", service, err)
	}
	return res, nil
}

// batching is how spans wait for their export.
var batching = []sdktrace.BatchSpanProcessorOption{sdktrace.WithBatchTimeout(time.Second), sdktrace.WithMaxQueueSize(1 << 14)}

// readerOptions: the shop's also reads the pauses of the garbage collector.
func readerOptions(service string) []sdkmetric.PeriodicReaderOption {
	o := []sdkmetric.PeriodicReaderOption{sdkmetric.WithInterval(10 * time.Second)}
	if service == "shop" {
		o = append(o, sdkmetric.WithProducer(gcPauses{time.Now()}))
	}
	return o
}

// measureRuntime adds Go's own memory, scheduler and goroutine metrics, and
// the processor time.
func (t *telemetry) measureRuntime() error {
	return errors.Join(runtime.Start(runtime.WithMeterProvider(t.metrics)), measureCPU(t.metrics))
}

// close sends what is left.
func (t *telemetry) close(ctx context.Context) error {
	return errors.Join(t.traces.Shutdown(ctx), t.metrics.Shutdown(ctx))
}
