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

// loadBreakdown fills an hour of 2,000 operations in 10 services, a quarter of
// them of databases, and of a service whose 8 operations have 50 parts each.
// Every series has a point in every slot.
func loadBreakdown(b *testing.B) http.Handler {
	b.Helper()
	ctx := context.Background()
	const end = benchStart + 3600
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
	pool := func(observations int, weight uint64) [][]byte {
		var out [][]byte
		for range 200 {
			h := hist.New(hist.DefaultSchema)
			for range observations {
				if err := h.RecordN(1e-2*math.Exp(0.7*rng.NormFloat64()), 1+rng.Uint64N(weight)); err != nil {
					b.Fatal(err)
				}
			}
			data, err := h.AppendBinary(nil)
			if err != nil {
				b.Fatal(err)
			}
			out = append(out, data)
		}
		return out
	}
	durations, micros := pool(30, 1), pool(30, 5000)
	var all []series.Series
	for i := range 2000 {
		component, kind, operation := "app", "server", fmt.Sprintf("GET /things/%d", i)
		if i%4 == 3 {
			component, kind, operation = "db", "client", fmt.Sprintf("SELECT table_%d", i)
		}
		l := labels.FromStrings("service", fmt.Sprintf("service-%02d", i/200), "operation", operation, "component", component, "kind", kind, "status", "ok", "instance", "i")
		all = append(all, series.Series{Family: series.SpanDuration, View: series.Marginal, Labels: l})
	}
	own := len(all)
	for i := range 400 {
		request := labels.NewBuilder(labels.FromStrings("service", "service-00", "operation", fmt.Sprintf("GET /things/%d", i/50*8), "cohort", series.Small))
		if i%50 == 0 {
			all = append(all, series.Series{Family: series.BreakdownRequests, Labels: request.Labels()})
		}
		component, operation := "app", fmt.Sprintf("GET /things/%d", i/50*8)
		if i%50 > 0 {
			component, operation = "db", fmt.Sprintf("SELECT table_%d", i%50*4-1)
		}
		part := request.Set("part_service", "service-00").Set("component", component).Set("part_operation", operation).Labels()
		for _, f := range []string{series.BreakdownSelf, series.BreakdownCritical, series.BreakdownCalls, series.BreakdownWith} {
			all = append(all, series.Series{Family: f, Labels: part})
		}
	}
	for slot, generation := benchStart, uint64(1); slot < end; slot, generation = slot+10, generation+1 {
		batch := &store.Batch{Writer: "bench", Generation: generation, Resolution: series.Base, Series: all}
		for i := range all {
			from := micros
			if i < own || all[i].Family == series.BreakdownRequests {
				from = durations
			}
			batch.Points = append(batch.Points, store.Point{Series: uint32(i), Slot: slot, Data: from[rng.IntN(len(from))]})
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
	return New(Options{Store: st, Now: func() time.Time { return time.Unix(end, 0) }})
}

func BenchmarkBreakdown(b *testing.B) {
	h := loadBreakdown(b)
	for _, c := range []struct {
		name, path string
		params     []string
	}{
		{"work=breakdown-of-8-operations", "/api/v1/breakdown", []string{"match", `{service="service-00"}`}},
		{"work=breakdown-of-1-operation", "/api/v1/breakdown", []string{"match", `{service="service-00",operation="GET /things/8"}`}},
		{"work=operations-by-total-2000", "/api/v1/operations", nil},
		{"work=operations-by-p99-2000", "/api/v1/operations", []string{"sort", "p99"}},
		{"work=operations-of-databases-500", "/api/v1/operations", []string{"component", "db"}},
		{"work=callers", "/api/v1/callers", []string{"service", "service-00", "operation", "SELECT table_7"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			q := url.Values{"start": {"now-1h"}, "width": {"300"}}
			if c.path == "/api/v1/callers" {
				q.Del("width")
			}
			for i := 0; i < len(c.params); i += 2 {
				q.Set(c.params[i], c.params[i+1])
			}
			b.ReportAllocs()
			size := 0
			for b.Loop() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest("GET", c.path+"?"+q.Encode(), nil))
				if w.Code != http.StatusOK {
					b.Fatalf("%d: %s", w.Code, w.Body)
				}
				size = w.Body.Len()
			}
			b.ReportMetric(float64(size), "body-B")
		})
	}
}
