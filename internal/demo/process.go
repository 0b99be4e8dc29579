package demo

import (
	"context"
	"math"
	"runtime/metrics"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"tailscope/internal/proc"
)

// measureCPU adds the processor time of the process, which is that of the shop,
// its load and the server together: they all run in this one.
func measureCPU(mp metric.MeterProvider) error {
	_, err := mp.Meter("tailscope/demo").Float64ObservableCounter("process.cpu.time", metric.WithUnit("s"),
		metric.WithDescription("processor time of the whole demo, user and system"),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			o.Observe(proc.CPU().Seconds())
			return nil
		}))
	return err
}

// gcPauses gives the pauses of Go's garbage collector as a histogram, which
// the SDK's runtime metrics lack.
type gcPauses struct{ start time.Time }

const gcPauseMetric = "/sched/pauses/total/gc:seconds"

// Produce implements the SDK's metric.Producer.
func (g gcPauses) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	s := []metrics.Sample{{Name: gcPauseMetric}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindFloat64Histogram {
		return nil, nil
	}
	return []metricdata.ScopeMetrics{{
		Scope: instrumentation.Scope{Name: "tailscope/demo"},
		Metrics: []metricdata.Metrics{{
			Name: "go.gc.pause", Unit: "s", Description: "pauses of the garbage collector",
			Data: metricdata.Histogram[float64]{
				Temporality: metricdata.CumulativeTemporality,
				DataPoints:  []metricdata.HistogramDataPoint[float64]{pausePoint(s[0].Value.Float64Histogram(), g.start, time.Now())},
			},
		}},
	}}, nil
}

// pausePoint converts a histogram of the runtime, whose bounds include both
// ends, to OpenTelemetry's, whose bounds are those between the buckets. The
// sum is not known; the buckets' upper bounds stand for it.
func pausePoint(h *metrics.Float64Histogram, start, now time.Time) metricdata.HistogramDataPoint[float64] {
	p := metricdata.HistogramDataPoint[float64]{
		StartTime: start, Time: now,
		Bounds: h.Buckets[1 : len(h.Buckets)-1], BucketCounts: h.Counts,
	}
	for i, n := range h.Counts {
		p.Count += n
		if at := h.Buckets[i+1]; n > 0 {
			if math.IsInf(at, 1) {
				at = h.Buckets[i]
			}
			p.Sum += float64(n) * at
		}
	}
	return p
}
