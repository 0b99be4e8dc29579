package otlp

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"tailscope/hist"
	"tailscope/internal/agg"
	"tailscope/internal/store"
)

var update = flag.Bool("update", false, "rewrite golden files")

func metricsOf(attrs []*common.KeyValue, ms ...*metricspb.Metric) *collectormetrics.ExportMetricsServiceRequest {
	return &collectormetrics.ExportMetricsServiceRequest{ResourceMetrics: []*metricspb.ResourceMetrics{{
		Resource:     &resourcepb.Resource{Attributes: attrs},
		ScopeMetrics: []*metricspb.ScopeMetrics{{Scope: &common.InstrumentationScope{Name: "x", Version: "1"}, Metrics: ms}},
	}}}
}

func ptr[T any](v T) *T { return &v }

const (
	deltaT      = metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA
	cumulativeT = metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE
)

func gaugeOf(name, unit string, ps ...*metricspb.NumberDataPoint) *metricspb.Metric {
	return &metricspb.Metric{Name: name, Unit: unit, Data: &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{DataPoints: ps}}}
}

func sumOf(name, unit string, t metricspb.AggregationTemporality, monotonic bool, ps ...*metricspb.NumberDataPoint) *metricspb.Metric {
	return &metricspb.Metric{Name: name, Unit: unit, Data: &metricspb.Metric_Sum{Sum: &metricspb.Sum{DataPoints: ps, AggregationTemporality: t, IsMonotonic: monotonic}}}
}

func histogramOf(name, unit string, t metricspb.AggregationTemporality, ps ...*metricspb.HistogramDataPoint) *metricspb.Metric {
	return &metricspb.Metric{Name: name, Unit: unit, Data: &metricspb.Metric_Histogram{Histogram: &metricspb.Histogram{DataPoints: ps, AggregationTemporality: t}}}
}

func exponentialOf(name, unit string, t metricspb.AggregationTemporality, ps ...*metricspb.ExponentialHistogramDataPoint) *metricspb.Metric {
	return &metricspb.Metric{Name: name, Unit: unit, Data: &metricspb.Metric_ExponentialHistogram{ExponentialHistogram: &metricspb.ExponentialHistogram{DataPoints: ps, AggregationTemporality: t}}}
}

func double(time uint64, v float64, attrs ...*common.KeyValue) *metricspb.NumberDataPoint {
	return &metricspb.NumberDataPoint{TimeUnixNano: time, Value: &metricspb.NumberDataPoint_AsDouble{AsDouble: v}, Attributes: attrs}
}

func whole64(time uint64, v int64, attrs ...*common.KeyValue) *metricspb.NumberDataPoint {
	return &metricspb.NumberDataPoint{TimeUnixNano: time, Value: &metricspb.NumberDataPoint_AsInt{AsInt: v}, Attributes: attrs}
}

// TestMetrics compares with testdata/metrics.txt what becomes of one metric of
// every shape, and of every kind of broken point.
func TestMetrics(t *testing.T) {
	shop := []*common.KeyValue{str("service.name", "shop"), str("service.version", "2"), str("service.instance.id", "i1"), str("tenant.id", "acme"), str("process.pid", "1")}
	var out strings.Builder
	f := func(title string, ms ...*metricspb.Metric) {
		t.Helper()
		l := newLedger()
		r := testReceiver(t, l)
		p, err := r.ingest(context.Background(), metricSignal, marshal(t, metricsOf(shop, ms...)))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s\n----\n", title)
		for line := range strings.SplitSeq(l.text(), "\n") {
			line = strings.NewReplacer(`instance="i1", `, "", `, service="shop"`, "", `service="shop", `, "", `, tenant="acme"`, "", `tenant="acme", `, "", `, version="2"`, "", `version="2"`, "").Replace(line)
			if line != "" {
				fmt.Fprintf(&out, "%s\n", line)
			}
		}
		if p.Message != "" {
			fmt.Fprintf(&out, "! %s\n", p.Message)
		}
		fmt.Fprintln(&out)
	}

	f("gauge", gaugeOf("queue.length", "{item}", whole64(5, 7, str("queue.name", "a"), str("x", "1"))))
	f("gauge, ratio", gaugeOf("cpu.utilization", "1", double(5, 0.5)))
	f("gauge in MiB", gaugeOf("heap", "MiBy", double(5, 1.5)))
	f("gauge in ms", gaugeOf("lag.ms", "ms", double(5, 5)))
	f("gauge, not a number", gaugeOf("a", "", double(5, math.NaN()), double(5, math.Inf(1)), double(0, 1), double(1<<63, 1)))
	f("gauge without a value", gaugeOf("a", "", &metricspb.NumberDataPoint{TimeUnixNano: 1, Flags: 1}, &metricspb.NumberDataPoint{TimeUnixNano: 1}))
	f("counter, cumulative", sumOf("orders", "", cumulativeT, true, whole64(5, 3)))
	f("counter, delta", sumOf("orders", "1", deltaT, true, whole64(5, 3)))
	f("counter of bytes", sumOf("io.total", "By", cumulativeT, true, double(5, 3)))
	f("counter below zero", sumOf("orders", "", cumulativeT, true, whole64(5, -3)))
	f("up-down counter, cumulative", sumOf("connections", "", cumulativeT, false, whole64(5, -3)))
	f("up-down counter, delta", sumOf("connections", "", deltaT, false, whole64(5, -3)))
	f("sum without temporality", sumOf("orders", "", 0, true, whole64(5, 3)))
	f("no name", gaugeOf("", "", whole64(5, 3)), gaugeOf("...", "", whole64(5, 3)))
	f("attributes that meet labels", gaugeOf("a", "", whole64(5, 1,
		str("service", "s"), str("a.b", "1"), str("a_b", "2"), str("le", "3"), str("__name__", "4"), str("5", "6"), str("variant", "candidate"), str("customer.id", "globex"),
		&common.KeyValue{Key: "list", Value: &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: &common.ArrayValue{Values: []*common.AnyValue{{Value: &common.AnyValue_StringValue{StringValue: `x"`}}, {Value: &common.AnyValue_IntValue{IntValue: 3}}}}}}},
		&common.KeyValue{Key: "map", Value: &common.AnyValue{Value: &common.AnyValue_KvlistValue{KvlistValue: &common.KeyValueList{Values: []*common.KeyValue{str("k", "v")}}}}},
		&common.KeyValue{Key: "bytes", Value: &common.AnyValue{Value: &common.AnyValue_BytesValue{BytesValue: []byte{1, 2}}}},
		&common.KeyValue{Key: "yes", Value: &common.AnyValue{Value: &common.AnyValue_BoolValue{BoolValue: true}}},
		str("empty", ""))))

	h := func(counts []uint64, bounds []float64, count uint64) *metricspb.HistogramDataPoint {
		return &metricspb.HistogramDataPoint{StartTimeUnixNano: 1, TimeUnixNano: 5, Count: count, Sum: ptr(12.5), BucketCounts: counts, ExplicitBounds: bounds}
	}
	f("histogram, delta", histogramOf("d", "s", deltaT, h([]uint64{1, 2, 3}, []float64{1, 2}, 6)))
	with := h([]uint64{1, 2, 3}, []float64{5, 25}, 6)
	with.Min, with.Max = ptr(2.0), ptr(30.0)
	f("histogram, cumulative, in ms", histogramOf("http.server.duration", "ms", cumulativeT, with))
	f("histogram of sizes", histogramOf("http.server.response.body.size", "KiBy", deltaT, h([]uint64{1, 1}, []float64{3}, 2)))
	f("histogram, no buckets, no sum", histogramOf("d", "s", deltaT, &metricspb.HistogramDataPoint{TimeUnixNano: 5, Count: 4}))
	f("histogram, empty", histogramOf("d", "s", deltaT, &metricspb.HistogramDataPoint{TimeUnixNano: 5, BucketCounts: []uint64{0, 0}, ExplicitBounds: []float64{1}}))
	nan := h([]uint64{1, 0}, []float64{1}, 1)
	nan.Min = ptr(math.Inf(-1))
	f("histograms, broken", histogramOf("d", "s", deltaT,
		h([]uint64{1, 2}, []float64{1, 2}, 3), h([]uint64{1, 2, 3}, []float64{2, 1}, 6), h([]uint64{1, 2, 3}, []float64{1, math.NaN()}, 6),
		h([]uint64{1, 2, 3}, []float64{1, 2}, 7), h([]uint64{math.MaxUint64, 2}, []float64{1}, 1), nan,
		h([]uint64{1, 2, 4}, []float64{1, 2}, 7)))

	e := func(scale int32, offset int32, counts ...uint64) *metricspb.ExponentialHistogramDataPoint {
		total := uint64(0)
		for _, c := range counts {
			total += c
		}
		return &metricspb.ExponentialHistogramDataPoint{StartTimeUnixNano: 1, TimeUnixNano: 5, Count: total, Sum: ptr(1.5), Scale: scale,
			Positive: &metricspb.ExponentialHistogramDataPoint_Buckets{Offset: offset, BucketCounts: counts}}
	}
	f("exponential, delta", exponentialOf("d", "s", deltaT, e(5, -3, 1, 0, 300)))
	f("exponential, leading and trailing zeros", exponentialOf("d", "s", deltaT, e(5, -3, 0, 0, 1, 0)))
	f("exponential, scale 10", exponentialOf("d", "s", deltaT, e(10, -3, 1, 2, 3, 4, 5, 6)))
	f("exponential, scale 20, all in one", exponentialOf("d", "s", deltaT, e(20, 5000, 1, 2, 3)))
	f("exponential, scale -4", exponentialOf("d", "s", deltaT, e(-4, 0, 3)))
	f("exponential, in ms: a shift by a fraction of a bucket", exponentialOf("d", "ms", deltaT, e(5, 0, 3)))
	f("exponential, in KiB: an exact shift", exponentialOf("d", "KiBy", deltaT, e(5, 0, 3)))
	zero := e(3, 0, 1)
	zero.ZeroCount, zero.ZeroThreshold, zero.Count = 4, 0.003, 6
	zero.Negative = &metricspb.ExponentialHistogramDataPoint_Buckets{Offset: 2, BucketCounts: []uint64{1}}
	f("exponential, zero bucket and negative values", exponentialOf("d", "", cumulativeT, zero))
	short := e(3, 0, 1)
	short.Count = 3
	f("exponential, broken", exponentialOf("d", "", deltaT, e(-5, 0, 1), short, e(5, math.MaxInt32, 1), e(8, 300_000, 1), e(5, 0, make([]uint64, 5000)...), e(100, 0, 1), e(5, 0, 1<<48, 1)))

	f("summary", &metricspb.Metric{Name: "rpc.duration", Unit: "ms", Data: &metricspb.Metric_Summary{Summary: &metricspb.Summary{DataPoints: []*metricspb.SummaryDataPoint{
		{TimeUnixNano: 5, Count: 10, Sum: 1000, QuantileValues: []*metricspb.SummaryDataPoint_ValueAtQuantile{{Quantile: 0.5, Value: 10}, {Quantile: 0.99, Value: 90}, {Quantile: 1, Value: math.NaN()}}},
		{TimeUnixNano: 5, Sum: math.NaN()}, {TimeUnixNano: 5, QuantileValues: []*metricspb.SummaryDataPoint_ValueAtQuantile{{Quantile: 2}}},
	}}}})
	f("nothing in it", &metricspb.Metric{Name: "a"})

	const golden = "testdata/metrics.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("differs from %s (run with -update and look at the difference):\n%s", golden, out.String())
	}
}

// TestStreamIdentity: the order of attributes does not matter, everything else does.
func TestStreamIdentity(t *testing.T) {
	l := newLedger()
	r := testReceiver(t, l)
	ids := map[agg.StreamID]string{}
	take := func(title string, req *collectormetrics.ExportMetricsServiceRequest) agg.StreamID {
		t.Helper()
		rec := &idRecorder{ledger: l}
		r.sink = rec
		if _, err := r.ingest(context.Background(), metricSignal, marshal(t, req)); err != nil {
			t.Fatal(err)
		}
		return rec.id
	}
	res := []*common.KeyValue{str("service.name", "a"), str("host.name", "h"), str("process.pid", "1")}
	p := func(attrs ...*common.KeyValue) *metricspb.NumberDataPoint { return whole64(5, 3, attrs...) }
	base := func() *collectormetrics.ExportMetricsServiceRequest {
		return metricsOf(res, sumOf("n", "s", deltaT, true, p(str("x", "1"), str("y", "2"))))
	}
	id := take("base", base())
	ids[id] = "base"
	swapped := metricsOf([]*common.KeyValue{res[2], res[0], res[1]}, sumOf("n", "s", deltaT, true, p(str("y", "2"), str("x", "1"))))
	if got := take("swapped", swapped); got != id {
		t.Error("the order of attributes matters")
	}
	scope := base()
	scope.ResourceMetrics[0].ScopeMetrics[0].Scope.Version = "2"
	for title, req := range map[string]*collectormetrics.ExportMetricsServiceRequest{
		"resource":   metricsOf(res[:2], sumOf("n", "s", deltaT, true, p(str("x", "1"), str("y", "2")))),
		"name":       metricsOf(res, sumOf("m", "s", deltaT, true, p(str("x", "1"), str("y", "2")))),
		"unit":       metricsOf(res, sumOf("n", "ms", deltaT, true, p(str("x", "1"), str("y", "2")))),
		"monotonic":  metricsOf(res, sumOf("n", "s", deltaT, false, p(str("x", "1"), str("y", "2")))),
		"attributes": metricsOf(res, sumOf("n", "s", deltaT, true, p(str("x", "2"), str("y", "1")))),
		"fewer":      metricsOf(res, sumOf("n", "s", deltaT, true, p(str("x", "1")))),
		"scope":      scope,
	} {
		got := take(title, req)
		if other, ok := ids[got]; ok {
			t.Errorf("%s and %s are one stream", title, other)
		}
		ids[got] = title
	}
}

type idRecorder struct {
	*ledger
	id agg.StreamID
}

func (r *idRecorder) NewBatch() Batch { return &idBatch{r.ledger.NewBatch(), r} }

type idBatch struct {
	Batch
	r *idRecorder
}

func (b *idBatch) DeltaNumber(t agg.Target, id agg.StreamID, nanos int64, v float64) {
	b.r.id = id
	b.Batch.DeltaNumber(t, id, nanos, v)
}

// A metric does not mix with what spans measure, whatever it is called.
func TestFamilyNames(t *testing.T) {
	for _, c := range []struct {
		shape      shape
		monotonic  bool
		name, unit string
		want       string
	}{
		{histogram, false, "http.server.request.duration", "s", "http_server_request_duration_seconds"},
		{histogram, false, "rpc.server.duration_ms", "ms", "rpc_server_duration_seconds"},
		{sum, true, "jobs", "{job}", "jobs_total"},
		{histogram, false, "span.duration", "ms", "exported_span_duration_seconds"},
		{exponential, false, "span_self_seconds", "", "exported_span_self_seconds"},
	} {
		f, err := newFamily(c.shape, c.monotonic, c.name, c.unit)
		if err != nil || f.name != c.want {
			t.Errorf("%s in %q: got %q, %v; want %q", c.name, c.unit, f.name, err, c.want)
		}
	}
}

// TestInterval: the export interval is learnt from a stream's points, and one
// outage does not change it.
func TestInterval(t *testing.T) {
	l := newLedger()
	r := testReceiver(t, l)
	send := func(seconds uint64) {
		t.Helper()
		if _, err := r.ingest(context.Background(), metricSignal, marshal(t, metricsOf(nil, gaugeOf("g", "", whole64(seconds*1e9, 1), whole64(seconds*1e9, 1, str("a", "b")))))); err != nil {
			t.Fatal(err)
		}
	}
	want := func(n int64) {
		t.Helper()
		if got := l.families["g"]; got != (store.FamilyInfo{Name: "g", Kind: 1, IntervalSeconds: n}) {
			t.Errorf("family %+v, want %d s", got, n)
		}
	}
	send(1000)
	want(0)
	send(1030)
	send(1060)
	want(30)
	send(1300)
	send(1330)
	want(30)
}

// TestIntervalOfDelta: a stream that is seldom reported is exported no less often
// for that, if its points say when they began.
func TestIntervalOfDelta(t *testing.T) {
	l := newLedger()
	r := testReceiver(t, l)
	for _, seconds := range []uint64{1000, 1090, 1180, 1600} {
		p := whole64(seconds*1e9, 1, str("a", "b"))
		p.StartTimeUnixNano = (seconds - 10) * 1e9
		m := sumOf("c", "", deltaT, true, p)
		if _, err := r.ingest(context.Background(), metricSignal, marshal(t, metricsOf(nil, m))); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.families["c_total"]; got != (store.FamilyInfo{Name: "c_total", Kind: 2, IntervalSeconds: 10}) {
		t.Errorf("family %+v, want 10 s", got)
	}
}

// TestPlace: reducing OTLP buckets on the way in is what hist does afterwards.
func TestPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		finer := rapid.UintRange(0, 12).Draw(t, "finer")
		offset := rapid.Int64Range(-100_000, 100_000).Draw(t, "offset")
		counts := rapid.SliceOfN(rapid.Uint64Range(0, 3), 0, 200).Draw(t, "counts")
		want := map[int64]uint64{}
		for i, c := range counts {
			if c > 0 {
				want[(offset+int64(i))>>finer+1] += c
			}
		}
		b := hist.Buckets{Counts: append([]uint64(nil), counts...)}
		if !placeBuckets(&b, offset, finer, 0) {
			t.Fatal("refused")
		}
		for i, c := range b.Counts {
			k := int64(b.Offset) + int64(i)
			if want[k] != c {
				t.Fatalf("bucket %d: %d, want %d", k, c, want[k])
			}
			delete(want, k)
		}
		if len(want) > 0 {
			t.Fatalf("missing %v", want)
		}
	})
}

// TestShift: a converted exponential histogram covers what conversion of each
// value would have recorded, within the error it declares.
func TestShift(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"ns", "us", "ms", "min", "h", "d", "KiBy", "GBy"}).Draw(t, "unit")
		u := units[name]
		c := unit{u.times, u.by}
		schema := int8(rapid.IntRange(-4, 8).Draw(t, "schema"))
		v := rapid.Float64Range(1e-6, 1e9).Draw(t, "value")
		move, widening := c.shift(schema)
		k := hist.BucketIndex(v, schema) + int32(move)
		upper := hist.UpperBound(k, schema)
		lower := hist.UpperBound(k-1, schema)
		x := c.convert(v)
		slack := widening * (1 + 1e-9)
		if x > upper*slack || x < lower/slack {
			t.Fatalf("%v %s is %v, outside of (%v, %v] widened by %v", v, name, x, lower, upper, widening)
		}
		if half := math.Exp2(math.Ldexp(0.5, -int(schema))); widening > half*(1+1e-9) {
			t.Fatalf("widening %v, more than half a bucket %v", widening, half)
		}
	})
}

// FuzzMetrics: what the reference can read, we can, with as many points.
func FuzzMetrics(f *testing.F) {
	f.Add(marshal(f, metricsOf([]*common.KeyValue{str("service.name", "a")},
		gaugeOf("g", "ms", double(1, 2, str("a", "b"))), sumOf("s", "By", deltaT, true, whole64(3, 4)),
		histogramOf("h", "s", cumulativeT, &metricspb.HistogramDataPoint{TimeUnixNano: 5, Count: 3, Sum: ptr(2.0), BucketCounts: []uint64{1, 2}, ExplicitBounds: []float64{1}}),
		exponentialOf("e", "", deltaT, &metricspb.ExponentialHistogramDataPoint{TimeUnixNano: 5, Count: 300, Scale: 3, Positive: &metricspb.ExponentialHistogramDataPoint_Buckets{Offset: -3, BucketCounts: []uint64{300}}}))))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		l := newLedger()
		r := testReceiver(t, l)
		p, err := r.ingest(context.Background(), metricSignal, b)
		if err != nil {
			var bad *MalformedError
			if !errors.As(err, &bad) || l.len() != 0 {
				t.Fatalf("%v, and %d observations", err, l.len())
			}
		}
		var req collectormetrics.ExportMetricsServiceRequest
		if (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, &req) != nil {
			return
		}
		if err != nil {
			t.Fatalf("refused: %v", err)
		}
		n := 0
		for _, rm := range req.ResourceMetrics {
			for _, sm := range rm.ScopeMetrics {
				for _, m := range sm.Metrics {
					n += len(m.GetGauge().GetDataPoints()) + len(m.GetSum().GetDataPoints()) + len(m.GetHistogram().GetDataPoints()) + len(m.GetExponentialHistogram().GetDataPoints()) + len(m.GetSummary().GetDataPoints())
				}
			}
		}
		if p.Items != int64(n) {
			t.Fatalf("%d points, the reference has %d", p.Items, n)
		}
	})
}
