package server

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics serves the server's own metrics at /metrics. The parts keep running totals,
// which are read at each scrape.
type metrics struct {
	registry         *prometheus.Registry
	requests         *prometheus.CounterVec
	seconds          *prometheus.HistogramVec
	maintainFailures prometheus.Counter
	maintainSeconds  prometheus.Histogram
}

func newMetrics(version string) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tailscope_http_requests_total",
			Help: "Questions answered, by what was asked and the status of the answer.",
		}, []string{"handler", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:                        "tailscope_http_request_duration_seconds",
			Help:                        "Time taken to answer, by what was asked.",
			Buckets:                     []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
			NativeHistogramBucketFactor: 1.1,
		}, []string{"handler"}),
		maintainFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tailscope_store_maintenance_failures_total",
			Help: "Rounds of compacting, rolling up and expiring that failed and will be tried again.",
		}),
		maintainSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:                        "tailscope_store_maintenance_duration_seconds",
			Help:                        "Time taken by a round of compacting, rolling up and expiring.",
			Buckets:                     []float64{.001, .01, .1, 1, 10},
			NativeHistogramBucketFactor: 1.1,
		}),
	}
	info := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tailscope_build_info", Help: "1, labelled with the version.",
		ConstLabels: prometheus.Labels{"version": version},
	}, func() float64 { return 1 })
	m.registry.MustRegister(m.requests, m.seconds, m.maintainFailures, m.maintainSeconds, info,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// measure returns h with its requests counted and timed.
func (m *metrics) measure(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		h.ServeHTTP(seen, r)
		name := handlerName(r.URL.Path)
		m.requests.WithLabelValues(name, strconv.Itoa(seen.status)).Inc()
		m.seconds.WithLabelValues(name).Observe(time.Since(begin).Seconds())
	})
}

// handlerName maps a path to one of few label values: the first word after the version
// of a known API, whatever the client asks for.
func handlerName(path string) string {
	for _, api := range []struct{ prefix, name string }{
		{"/api/v1/", ""}, {"/prometheus/api/v1/", "prometheus_"},
	} {
		rest, ok := strings.CutPrefix(path, api.prefix)
		if !ok {
			continue
		}
		segment, _, _ := strings.Cut(rest, "/")
		switch segment {
		case "services", "distribution", "heatmap", "timeline", "scaling", "leaves", "simulate", "labels", "families", "nearest", "tenants", "explain", "marks", "status", "cluster", "import",
			"breakdown", "operations", "callers", "traces", "apdex", "apdex-targets", "sla", "compare", "changes", "sessions", "check", "checks", "incidents", "maintenance", "damage",
			"query", "query_range", "series", "label", "metadata", "write":
			return api.name + segment
		}
		return api.name + "other"
	}
	return "other"
}

type statusWriter struct {
	http.ResponseWriter
	status int
	wrote  bool
}

func (w *statusWriter) WriteHeader(status int) {
	if !w.wrote {
		w.status, w.wrote = status, true
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	w.wrote = true
	return w.ResponseWriter.Write(b)
}

// Unwrap returns the underlying writer, for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
