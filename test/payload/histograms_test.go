package payload

import (
	"testing"
	"time"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	"google.golang.org/protobuf/proto"
)

// TestHistograms holds the payload to what its documentation says: counts
// that agree with their buckets, and totals that only grow.
func TestHistograms(t *testing.T) {
	for _, form := range []HistogramForm{{}, {Cumulative: true}, {Explicit: true, Cumulative: true}} {
		t.Run(form.String(), func(t *testing.T) {
			start := time.Unix(1_788_000_000, 0)
			last := map[string]uint64{}
			points, observations, size := 0, uint64(0), 0
			for _, b := range Histograms(1, HistogramProcesses, 3*HistogramProcesses, start, form) {
				size += len(b)
				var req collectormetrics.ExportMetricsServiceRequest
				if err := proto.Unmarshal(b, &req); err != nil {
					t.Fatal(err)
				}
				rm := req.ResourceMetrics[0]
				m := rm.ScopeMetrics[0].Metrics[0]
				see := func(tenant string, count uint64, buckets []uint64) {
					points++
					sum := uint64(0)
					for _, n := range buckets {
						sum += n
					}
					if sum != count {
						t.Fatalf("buckets hold %d, count says %d", sum, count)
					}
					key := rm.Resource.Attributes[2].Value.GetStringValue() + tenant
					if form.Cumulative {
						count -= last[key]
					}
					last[key] += count
					observations += count
					if count < ObservationsPerPoint/2 || count > 2*ObservationsPerPoint {
						t.Fatalf("%d observations in an interval", count)
					}
				}
				for _, p := range m.GetHistogram().GetDataPoints() {
					see(p.Attributes[3].Value.GetStringValue(), p.Count, p.BucketCounts)
				}
				for _, p := range m.GetExponentialHistogram().GetDataPoints() {
					see(p.Attributes[3].Value.GetStringValue(), p.Count, p.Positive.BucketCounts)
				}
			}
			const want = HistogramProcesses * PointsPerRequest
			if len(last) != want || points != 3*want {
				t.Errorf("%d series, %d points; want %d, %d", len(last), points, want, 3*want)
			}
			t.Logf("%d points, %.0f observations and %.0f bytes each", points, float64(observations)/float64(points), float64(size)/float64(points))
		})
	}
}
