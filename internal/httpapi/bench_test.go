package httpapi

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
)

// benchHours of 1,000 full series (10 services, 10 operations, 10 tenants),
// their 100 marginals and 10 totals, about 200 log-normal observations a slot.
// The week is 10 totals of another family, ten-minute slots.
const (
	benchStart = int64(1_778_313_600)
	benchHours = 6
)

func loadBench(b *testing.B) http.Handler {
	b.Helper()
	ctx := context.Background()
	end := benchStart + benchHours*3600
	now := func() time.Time { return time.Unix(end, 0) }
	st, err := pebblestore.Open(ctx, pebblestore.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := st.Close(); err != nil {
			b.Error(err)
		}
	})
	rng := rand.New(rand.NewPCG(7, 7))
	var pool [][]byte
	for range 400 {
		h := hist.New(hist.DefaultSchema)
		for range 150 + rng.IntN(101) {
			if err := h.RecordNanos(int64(1e7*math.Exp(0.7*rng.NormFloat64())), 1); err != nil {
				b.Fatal(err)
			}
		}
		data, err := h.AppendBinary(nil)
		if err != nil {
			b.Fatal(err)
		}
		pool = append(pool, data)
	}
	var all []series.Series
	for i := range 1000 {
		l := labels.NewBuilder(labels.FromStrings("service", fmt.Sprintf("service-%02d", i/100), "operation", fmt.Sprintf("GET /things/%d/{id}", i/10%10),
			"component", "app", "kind", "server", "status", "ok", "tenant", fmt.Sprintf("tenant-%02d", i%10)))
		all = append(all, series.Series{Family: series.SpanDuration, View: series.Full, Labels: l.Labels()})
		if i%10 == 0 {
			all = append(all, series.Series{Family: series.SpanDuration, View: series.Marginal, Labels: l.Del("tenant").Set("instance", "i").Labels()})
		}
		if i%100 == 0 {
			all = append(all, series.Series{Family: series.SpanDuration, View: series.Total, Labels: l.Del("tenant", "operation", "instance").Labels()})
		}
	}
	generation := uint64(0)
	for slot := benchStart; slot < end; slot += 10 {
		generation++
		batch := &store.Batch{Writer: "bench", Generation: generation, Resolution: series.Base, Series: all}
		for i := range all {
			batch.Points = append(batch.Points, store.Point{Series: uint32(i), Slot: slot, Data: pool[rng.IntN(len(pool))]})
		}
		if err := st.Put(ctx, batch); err != nil {
			b.Fatal(err)
		}
		if slot%600 == 590 {
			if err := st.Maintain(ctx, time.Unix(slot+30, 0)); err != nil {
				b.Fatal(err)
			}
		}
	}
	// A week of totals before it, as its rollups leave it.
	for slot := benchStart - 7*86400; slot < benchStart-3600; slot += 600 {
		generation++
		batch := &store.Batch{Writer: "bench", Generation: generation, Resolution: series.TenMin, Series: all}
		for i, s := range all {
			if s.View == series.Total {
				batch.Points = append(batch.Points, store.Point{Series: uint32(i), Slot: slot, Data: pool[rng.IntN(len(pool))]})
			}
		}
		if err := st.Put(ctx, batch); err != nil {
			b.Fatal(err)
		}
	}
	if err := st.Maintain(ctx, time.Unix(end+30, 0)); err != nil {
		b.Fatal(err)
	}
	return New(Options{Store: st, Now: now})
}

func BenchmarkAPI(b *testing.B) {
	h := loadBench(b)
	const everyTenant = `{tenant=~".+"}` // reads the full view
	for _, c := range []struct {
		name, path string
		params     []string
	}{
		{"work=merge-1000-series", "/api/v1/distribution", []string{"match", everyTenant}},
		{"work=by-tenant-1000-series", "/api/v1/distribution", []string{"by", "tenant", "q", "0.99"}},
		{"work=per-minute-100-series", "/api/v1/timeline", []string{"match", `{service="service-03",tenant=~".+"}`, "step", "60", "q", "0.99"}},
		{"work=heatmap-100-series", "/api/v1/heatmap", []string{"match", `{service="service-03",tenant=~".+"}`, "width", "1280"}},
		{"work=page-heatmap", "/api/v1/heatmap", []string{"match", `{service="service-03"}`, "width", "1280"}},
		{"work=page-timeline", "/api/v1/timeline", []string{"match", `{service="service-03"}`, "width", "1280"}},
		{"work=page-services", "/api/v1/services", nil},
		{"work=page-labels", "/api/v1/labels", []string{"match", `{service="service-03"}`}},
		{"work=page-tenants", "/api/v1/tenants", []string{"match", `{service="service-03"}`}},
		{"work=week-heatmap", "/api/v1/heatmap", []string{"match", `{service="service-03"}`, "start", "now-7d", "width", "1280"}},
		{"work=promql-by-tenant", "/prometheus/api/v1/query", []string{"query", `histogram_quantile(0.99, sum by (tenant) (rate(span_duration_seconds[6h])))`}},
		{"work=promql-per-minute-100-series", "/prometheus/api/v1/query_range", []string{"query", `histogram_quantile(0.99, sum (rate(span_duration_seconds{service="service-03",tenant=~".+"}[1m])))`,
			"start", fmt.Sprint(benchStart), "end", fmt.Sprint(benchStart + benchHours*3600), "step", "60"}},
		{"work=promql-each-100-series", "/prometheus/api/v1/query_range", []string{"query", `histogram_quantile(0.99, rate(span_duration_seconds{service="service-03",tenant=~".+"}[5m]))`,
			"start", fmt.Sprint(benchStart), "end", fmt.Sprint(benchStart + benchHours*3600), "step", "60"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			q := url.Values{}
			for i := 0; i < len(c.params); i += 2 {
				q.Set(c.params[i], c.params[i+1])
			}
			b.ReportAllocs()
			size := 0
			for b.Loop() {
				r := httptest.NewRequest("GET", c.path+"?"+q.Encode(), nil)
				r.Header.Set("Accept-Encoding", "gzip")
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if w.Code != http.StatusOK {
					b.Fatalf("%d: %s", w.Code, w.Body)
				}
				size = w.Body.Len()
			}
			b.ReportMetric(float64(size), "body-B")
		})
	}
}
