package payload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"
)

const (
	// Each process exports PointsPerRequest series every HistogramInterval, a process to
	// a request; HistogramProcesses are HistogramInstances of each service.
	HistogramServices  = 10
	HistogramInstances = 10
	PointsPerRequest   = 100
	HistogramProcesses = HistogramServices * HistogramInstances
	HistogramInterval  = 10 * time.Second

	// ObservationsPerPoint log-normal observations, about, fall into one
	// interval of one series.
	ObservationsPerPoint = 200
)

// HistogramForm says how histograms are written.
type HistogramForm struct {
	Explicit   bool // the SDK's default bounds, else exponential of scale 5
	Cumulative bool
}

func (f HistogramForm) String() string {
	s := "exponential"
	if f.Explicit {
		s = "explicit"
	}
	if f.Cumulative {
		return s + " cumulative"
	}
	return s + " delta"
}

// Bounds are the SDK's default bounds, in seconds.
var Bounds = []float64{.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10}

// Histograms returns n marshalled ExportMetricsServiceRequest messages of
// PointsPerRequest histograms each, in turn of so many processes, whose times begin at
// start. The same seed gives the same bytes.
func Histograms(seed uint64, processes, n int, start time.Time, form HistogramForm) [][]byte {
	rng := rand.New(rand.NewPCG(seed, 0x4157))
	series := make([]running, processes*PointsPerRequest)
	for i := range series {
		series[i].median = math.Log2(0.002) + 1.2*math.Log2E*rng.NormFloat64()
	}
	pool := make([]factor, 1<<18)
	for i := range pool {
		f := math.Exp(0.5 * rng.NormFloat64())
		pool[i] = factor{f, math.Log2(f)}
	}
	out := make([][]byte, n)
	for i := range out {
		process := i % processes
		end := start.Add(time.Duration(i/processes+1) * HistogramInterval)
		points := series[process*PointsPerRequest:][:PointsPerRequest]
		req := histogramRequest(rng, pool, process, points, start, end, form)
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(req)
		if err != nil {
			panic(err) // cannot happen: every string is ASCII
		}
		out[i] = b
	}
	return out
}

// factor is the ratio of an observation to its series' median, drawn beforehand.
type factor struct{ times, log2 float64 }

// running is one series and, if it is cumulative, what it has counted.
type running struct {
	median   float64 // log2 of seconds
	count    uint64
	sum      float64
	offset   int32 // OTLP's index of counts[0]
	counts   []uint64
	explicit []uint64
}

func histogramRequest(rng *rand.Rand, pool []factor, process int, series []running, start, end time.Time, form HistogramForm) *collectormetrics.ExportMetricsServiceRequest {
	m := &metrics.Metric{Name: "http.server.request.duration", Unit: "s", Description: "Duration of HTTP server requests."}
	temporality := metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA
	from := end.Add(-HistogramInterval)
	if form.Cumulative {
		temporality, from = metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE, start
	}
	var explicit []*metrics.HistogramDataPoint
	var expo []*metrics.ExponentialHistogramDataPoint
	for i := range series {
		s := &series[i]
		if !form.Cumulative {
			*s = running{median: s.median, counts: s.counts[:0], explicit: s.explicit}
			clear(s.explicit)
		}
		s.observe(rng, pool)
		attrs := []*common.KeyValue{
			text("http.request.method", "GET"),
			text("http.route", fmt.Sprintf("/api/v1/resource-%d", i/20)),
			number("http.response.status_code", 200),
			text("tenant.id", fmt.Sprintf("tenant-%05d", i)),
		}
		if form.Explicit {
			explicit = append(explicit, &metrics.HistogramDataPoint{
				Attributes: attrs, StartTimeUnixNano: uint64(from.UnixNano()), TimeUnixNano: uint64(end.UnixNano()),
				Count: s.count, Sum: proto.Float64(s.sum), BucketCounts: append([]uint64(nil), s.explicit...), ExplicitBounds: Bounds,
			})
			continue
		}
		expo = append(expo, &metrics.ExponentialHistogramDataPoint{
			Attributes: attrs, StartTimeUnixNano: uint64(from.UnixNano()), TimeUnixNano: uint64(end.UnixNano()),
			Count: s.count, Sum: proto.Float64(s.sum), Scale: 5,
			Positive: &metrics.ExponentialHistogramDataPoint_Buckets{Offset: s.offset, BucketCounts: append([]uint64(nil), s.counts...)},
		})
	}
	if form.Explicit {
		m.Data = &metrics.Metric_Histogram{Histogram: &metrics.Histogram{AggregationTemporality: temporality, DataPoints: explicit}}
	} else {
		m.Data = &metrics.Metric_ExponentialHistogram{ExponentialHistogram: &metrics.ExponentialHistogram{AggregationTemporality: temporality, DataPoints: expo}}
	}
	name := fmt.Sprintf("service-%d", process%HistogramServices)
	return &collectormetrics.ExportMetricsServiceRequest{ResourceMetrics: []*metrics.ResourceMetrics{{
		Resource: &resource.Resource{Attributes: []*common.KeyValue{
			text("service.name", name), text("service.version", "1.4.2"), text("service.instance.id", fmt.Sprintf("%s-%d", name, process/HistogramServices)),
		}},
		ScopeMetrics: []*metrics.ScopeMetrics{{
			Scope:   &common.InstrumentationScope{Name: "go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp", Version: "0.63.0"},
			Metrics: []*metrics.Metric{m},
		}},
	}}}
}

// observe adds one interval's observations.
func (s *running) observe(rng *rand.Rand, pool []factor) {
	if s.explicit == nil {
		s.explicit = make([]uint64, len(Bounds)+1)
	}
	median, at := math.Exp2(s.median), rng.IntN(len(pool))
	for i := range ObservationsPerPoint*3/4 + rng.IntN(ObservationsPerPoint/2) {
		f := pool[(at+i)%len(pool)]
		v := median * f.times
		s.count++
		s.sum += v
		b := 0
		for b < len(Bounds) && v > Bounds[b] {
			b++
		}
		s.explicit[b]++
		s.add(int32(math.Ceil((s.median+f.log2)*32)) - 1)
	}
}

// add counts one observation in OTLP's bucket at index.
func (s *running) add(index int32) {
	switch {
	case len(s.counts) == 0:
		s.offset = index
	case index < s.offset:
		grown := make([]uint64, int(s.offset-index)+len(s.counts))
		copy(grown[s.offset-index:], s.counts)
		s.offset, s.counts = index, grown
	}
	for int(index-s.offset) >= len(s.counts) {
		s.counts = append(s.counts, 0)
	}
	s.counts[index-s.offset]++
}
