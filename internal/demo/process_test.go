package demo

import (
	"math"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

func TestPausePoint(t *testing.T) {
	now := time.Now()
	p := pausePoint(&metrics.Float64Histogram{
		Counts: []uint64{0, 2, 1, 1}, Buckets: []float64{math.Inf(-1), 0, 1, 2, math.Inf(1)},
	}, now.Add(-time.Minute), now)
	if p.Count != 4 || p.Sum != 2*1+2+2 || len(p.Bounds) != 3 || len(p.BucketCounts) != 4 {
		t.Errorf("got %+v", p)
	}
}

func TestGCPausesAreOfThisProcess(t *testing.T) {
	runtime.GC()
	got, err := gcPauses{time.Now()}.Produce(t.Context())
	if err != nil || len(got) != 1 {
		t.Fatalf("got %v, %v", got, err)
	}
	h := got[0].Metrics[0].Data.(metricdata.Histogram[float64])
	if p := h.DataPoints[0]; p.Count == 0 || !(p.Sum > 0) {
		t.Errorf("after a collection: %d pauses of %v s", p.Count, p.Sum)
	}
}
