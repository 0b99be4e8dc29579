package otlpsink

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"sync"

	collector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
)

const slotNanos = 10e9

// encode returns a packed ExportMetricsServiceRequest of points; see Encode.
func encode(scopeName string, points []series.Point) ([]byte, error) {
	b, err := Encode(scopeName, points)
	if err != nil {
		return nil, err
	}
	return pack(b), nil
}

// Encode returns an ExportMetricsServiceRequest of points, as protobuf; those of one service
// and family are adjacent. A family of which there are points of several forms, such as
// explicit and exponential histograms, is a metric of each. It refuses gauges that are
// not raw samples, and raw samples of distributions.
func Encode(scopeName string, points []series.Point) ([]byte, error) {
	type key struct {
		service, family string
		form            form
	}
	resources := map[string]*metrics.ScopeMetrics{}
	families := map[key]*metrics.Metric{}
	out := &collector.ExportMetricsServiceRequest{}
	for _, p := range points {
		f, err := formOf(p)
		if err != nil {
			return nil, fmt.Errorf("%s%s: %w", p.Family, p.Labels, err)
		}
		k := key{p.Labels.Get(series.LabelService), p.Family, f}
		scope := resources[k.service]
		if scope == nil {
			scope = &metrics.ScopeMetrics{Scope: &common.InstrumentationScope{Name: scopeName}}
			resources[k.service] = scope
			out.ResourceMetrics = append(out.ResourceMetrics, &metrics.ResourceMetrics{
				Resource:     &resource.Resource{Attributes: []*common.KeyValue{attribute("service.name", k.service)}},
				ScopeMetrics: []*metrics.ScopeMetrics{scope},
			})
		}
		m := families[k]
		if m == nil {
			m = newMetric(p.Family, f)
			families[k] = m
			scope.Metrics = append(scope.Metrics, m)
		}
		add(m, p)
	}
	b, err := proto.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("encode what was measured: %w", err)
	}
	return b, nil
}

// form is what a metric is in OTLP: one has points of one form.
type form uint8

const (
	delta form = iota // of a counter
	total             // raw samples of a counter whose start is not known
	gauge             // raw samples
	exponential
	explicit
)

func formOf(p series.Point) (form, error) {
	switch {
	case p.Sampled && p.Kind == series.Gauge:
		return gauge, nil
	case p.Sampled && p.Kind == series.Counter:
		return total, nil
	case p.Sampled:
		return 0, fmt.Errorf("samples of kind %v cannot be sent", p.Kind)
	case p.Kind == series.Counter:
		return delta, nil
	case p.Kind == series.Distribution && p.Hist.Schema == hist.Explicit:
		return explicit, nil
	case p.Kind == series.Distribution:
		return exponential, nil
	}
	return 0, fmt.Errorf("points of kind %v cannot be sent", p.Kind)
}

// newMetric returns a metric without points.
func newMetric(name string, f form) *metrics.Metric {
	const d, c = metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA, metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE
	m := &metrics.Metric{Name: name}
	switch f {
	case delta:
		m.Data = &metrics.Metric_Sum{Sum: &metrics.Sum{AggregationTemporality: d, IsMonotonic: true}}
	case total:
		m.Data = &metrics.Metric_Sum{Sum: &metrics.Sum{AggregationTemporality: c, IsMonotonic: true}}
	case gauge:
		m.Data = &metrics.Metric_Gauge{Gauge: &metrics.Gauge{}}
	case exponential:
		m.Data = &metrics.Metric_ExponentialHistogram{ExponentialHistogram: &metrics.ExponentialHistogram{AggregationTemporality: d}}
	case explicit:
		m.Data = &metrics.Metric_Histogram{Histogram: &metrics.Histogram{AggregationTemporality: d}}
	}
	return m
}

// add appends a point to its metric. It covers the time from the slot's start, by
// which the server knows the slot's length, and its time lies within the slot, not at
// its beginning. A raw sample has its time alone.
func add(m *metrics.Metric, p series.Point) {
	begin := p.TimeNanos - p.TimeNanos%slotNanos
	start, end := uint64(begin), uint64(max(p.TimeNanos, begin+1e9))
	if p.Sampled {
		start, end = 0, uint64(max(0, p.TimeNanos))
	}
	number := &metrics.NumberDataPoint{
		Attributes: attributes(p.Labels), StartTimeUnixNano: start, TimeUnixNano: end,
		Value: &metrics.NumberDataPoint_AsDouble{AsDouble: p.Value},
	}
	h := p.Hist
	switch data := m.Data.(type) {
	case *metrics.Metric_Gauge:
		data.Gauge.DataPoints = append(data.Gauge.DataPoints, number)
	case *metrics.Metric_Sum:
		data.Sum.DataPoints = append(data.Sum.DataPoints, number)
	case *metrics.Metric_Histogram:
		data.Histogram.DataPoints = append(data.Histogram.DataPoints, &metrics.HistogramDataPoint{
			Attributes: number.Attributes, StartTimeUnixNano: start, TimeUnixNano: end,
			Count: h.Count, ExplicitBounds: h.Bounds, BucketCounts: h.Positive.Counts,
			Sum: known(h.Sum), Min: known(h.Min), Max: known(h.Max),
		})
	case *metrics.Metric_ExponentialHistogram:
		data.ExponentialHistogram.DataPoints = append(data.ExponentialHistogram.DataPoints, &metrics.ExponentialHistogramDataPoint{
			Attributes: number.Attributes, StartTimeUnixNano: start, TimeUnixNano: end,
			Count: h.Count, ZeroCount: h.ZeroCount, ZeroThreshold: h.ZeroThreshold, Scale: int32(h.Schema),
			Positive: buckets(h.Positive), Negative: buckets(h.Negative),
			Sum: known(h.Sum), Min: known(h.Min), Max: known(h.Max),
		})
	}
}

// buckets numbers buckets by their lower bound, as OTLP does.
func buckets(b hist.Buckets) *metrics.ExponentialHistogramDataPoint_Buckets {
	if len(b.Counts) == 0 {
		return nil
	}
	return &metrics.ExponentialHistogramDataPoint_Buckets{Offset: b.Offset - 1, BucketCounts: b.Counts}
}

func known(v float64) *float64 {
	if math.IsNaN(v) {
		return nil
	}
	return &v
}

func attributes(ls labels.Labels) []*common.KeyValue {
	var out []*common.KeyValue
	ls.Range(func(l labels.Label) {
		if l.Name != series.LabelService {
			out = append(out, attribute(l.Name, l.Value))
		}
	})
	return out
}

func attribute(key, value string) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: value}}}
}

var packers = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

func pack(b []byte) []byte {
	var out bytes.Buffer
	w := packers.Get().(*gzip.Writer)
	defer packers.Put(w)
	w.Reset(&out)
	_, _ = w.Write(b) // into memory
	_ = w.Close()
	return out.Bytes()
}
