package httpapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	promapi "github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// Prometheus' own Go client must understand every answer.
func TestPrometheusClient(t *testing.T) {
	srv := shop(t, Options{})
	c, err := promapi.NewClient(promapi.Config{Address: srv.URL + "/prometheus", Client: srv.Client()})
	if err != nil {
		t.Fatal(err)
	}
	api, ctx := promv1.NewAPI(c), context.Background()

	v, warnings, err := api.Query(ctx, `sum by (service) (increase(span_duration_seconds[1h]))`, now)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	got := map[string]float64{}
	for _, s := range v.(model.Vector) {
		if s.Histogram == nil {
			t.Fatalf("%s is not a histogram", s.Metric)
		}
		buckets := 0.0
		for _, b := range s.Histogram.Buckets {
			buckets += float64(b.Count)
		}
		if buckets != float64(s.Histogram.Count) {
			t.Errorf("%s: buckets hold %v of %v", s.Metric, buckets, s.Histogram.Count)
		}
		got[string(s.Metric["service"])] = float64(s.Histogram.Count)
	}
	// The window ends with the last slot that is surely stored, 20 s before now.
	if fmt.Sprint(got) != "map[batch:1074 checkout:3222]" {
		t.Errorf("counts %v", got)
	}

	r := promv1.Range{Start: now.Add(-30 * time.Minute), End: now, Step: time.Minute}
	m, _, err := api.QueryRange(ctx, `sum(rate(orders_total{pod="a"}[5m]))`, r)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range m.(model.Matrix)[0].Values {
		if math.Abs(float64(p.Value)-0.1) > 1e-9 {
			t.Errorf("rate %v at %v, want 0.1", p.Value, p.Timestamp)
		}
	}
	if n := len(m.(model.Matrix)[0].Values); n != 31 {
		t.Errorf("%d points, want 31", n)
	}

	sets, _, err := api.Series(ctx, []string{"heap_bytes"}, now.Add(-time.Hour), now)
	if err != nil || len(sets) != 2 {
		t.Errorf("series: %v, %v", sets, err)
	}
	names, _, err := api.LabelNames(ctx, []string{"job_seconds"}, now.Add(-time.Hour), now)
	if err != nil || fmt.Sprint(names) != "[__name__ job]" {
		t.Errorf("label names: %v, %v", names, err)
	}
	values, _, err := api.LabelValues(ctx, "tenant", nil, now.Add(-time.Hour), now)
	if err != nil || fmt.Sprint(values) != "[acme globex initech umbrella]" {
		t.Errorf("label values: %v, %v", values, err)
	}
	meta, err := api.Metadata(ctx, "job_seconds", "")
	if err != nil || meta["job_seconds"][0].Type != "histogram" || meta["job_seconds"][0].Unit != "seconds" {
		t.Errorf("metadata: %v, %v", meta, err)
	}
	if all, err := api.Metadata(ctx, "", "2"); err != nil || len(all) != 2 {
		t.Errorf("metadata of two: %v, %v", all, err)
	}
	info, err := api.Buildinfo(ctx)
	if err != nil || !strings.HasPrefix(info.Version, "3.") {
		t.Errorf("build information: %v, %v", info, err)
	}

	var e *promv1.Error
	if _, _, err := api.Query(ctx, "sum(", now); !errors.As(err, &e) || e.Type != promv1.ErrBadData {
		t.Errorf("bad query: %v", err)
	}
}
