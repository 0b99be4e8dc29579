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
// and family are adjacent. It refuses points that are neither a counter nor a
// distribution.
func Encode(scopeName string, points []series.Point) ([]byte, error) {
	type key struct{ service, family string }
	resources := map[string]*metrics.ScopeMetrics{}
	families := map[key]*metrics.Metric{}
	out := &collector.ExportMetricsServiceRequest{}
	for _, p := range points {
		k := key{p.Labels.Get(series.LabelService), p.Family}
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
			m = &metrics.Metric{Name: p.Family}
			families[k] = m
			scope.Metrics = append(scope.Metrics, m)
		}
		if err := add(m, p); err != nil {
			return nil, fmt.Errorf("%s%s: %w", p.Family, p.Labels, err)
		}
	}
	b, err := proto.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("encode what was measured: %w", err)
	}
	return b, nil
}

// add appends a point to its metric. It covers the time from the slot's start, by
// which the server knows the slot's length, and its time lies within the slot, not at
// its beginning.
func add(m *metrics.Metric, p series.Point) error {
	begin := p.TimeNanos - p.TimeNanos%slotNanos
	start, end := uint64(begin), uint64(max(p.TimeNanos, begin+1e9))
	if p.Sampled {
		return addSample(m, p)
	}
	switch p.Kind {
	case series.Counter:
		d := m.GetSum()
		if d == nil {
			d = &metrics.Sum{AggregationTemporality: metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA, IsMonotonic: true}
			m.Data = &metrics.Metric_Sum{Sum: d}
		}
		d.DataPoints = append(d.DataPoints, &metrics.NumberDataPoint{
			Attributes: attributes(p.Labels), StartTimeUnixNano: start, TimeUnixNano: end,
			Value: &metrics.NumberDataPoint_AsDouble{AsDouble: p.Value},
		})
	case series.Distribution:
		h := p.Hist
		if h.Schema == hist.Explicit {
			return addExplicit(m, p, start, end)
		}
		d := m.GetExponentialHistogram()
		if d == nil {
			d = &metrics.ExponentialHistogram{AggregationTemporality: metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA}
			m.Data = &metrics.Metric_ExponentialHistogram{ExponentialHistogram: d}
		}
		d.DataPoints = append(d.DataPoints, &metrics.ExponentialHistogramDataPoint{
			Attributes: attributes(p.Labels), StartTimeUnixNano: start, TimeUnixNano: end,
			Count: h.Count, ZeroCount: h.ZeroCount, ZeroThreshold: h.ZeroThreshold, Scale: int32(h.Schema),
			Positive: buckets(h.Positive), Negative: buckets(h.Negative),
			Sum: known(h.Sum), Min: known(h.Min), Max: known(h.Max),
		})
	default:
		return fmt.Errorf("points of kind %v cannot be sent", p.Kind)
	}
	return nil
}

// addSample appends a raw sample: of a gauge, or of a running total whose start is not known.
func addSample(m *metrics.Metric, p series.Point) error {
	d := &metrics.NumberDataPoint{Attributes: attributes(p.Labels), TimeUnixNano: uint64(max(0, p.TimeNanos)), Value: &metrics.NumberDataPoint_AsDouble{AsDouble: p.Value}}
	switch {
	case m.Data == nil && p.Kind == series.Gauge:
		m.Data = &metrics.Metric_Gauge{Gauge: &metrics.Gauge{}}
	case m.Data == nil:
		m.Data = &metrics.Metric_Sum{Sum: &metrics.Sum{AggregationTemporality: metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE, IsMonotonic: true}}
	}
	switch {
	case p.Kind == series.Gauge && m.GetGauge() != nil:
		m.GetGauge().DataPoints = append(m.GetGauge().DataPoints, d)
	case p.Kind == series.Counter && m.GetSum() != nil:
		m.GetSum().DataPoints = append(m.GetSum().DataPoints, d)
	default:
		return fmt.Errorf("samples of kind %v cannot be sent beside others of the family", p.Kind)
	}
	return nil
}

// addExplicit appends a histogram whose buckets have bounds of their own.
func addExplicit(m *metrics.Metric, p series.Point, start, end uint64) error {
	d := m.GetHistogram()
	if d == nil {
		if m.Data != nil {
			return fmt.Errorf("buckets with and without bounds of their own are in one family")
		}
		d = &metrics.Histogram{AggregationTemporality: metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA}
		m.Data = &metrics.Metric_Histogram{Histogram: d}
	}
	h := p.Hist
	d.DataPoints = append(d.DataPoints, &metrics.HistogramDataPoint{
		Attributes: attributes(p.Labels), StartTimeUnixNano: start, TimeUnixNano: end,
		Count: h.Count, ExplicitBounds: h.Bounds, BucketCounts: h.Positive.Counts,
		Sum: known(h.Sum), Min: known(h.Min), Max: known(h.Max),
	})
	return nil
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
