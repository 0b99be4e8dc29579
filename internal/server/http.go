package server

import (
	"io"
	"net/http"
	"net/http/pprof"

	"tailscope/internal/ingest/accesslog"
)

// routes puts the doors on one address: the API, Prometheus' own, the page,
// and what looks after the server asks for.
func (s *Server) routes(api, imports, page http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeText(w, http.StatusOK, "ok\n")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !s.ready.Load() {
			writeText(w, http.StatusServiceUnavailable, "starting or stopping\n")
			return
		}
		writeText(w, http.StatusOK, "ready\n")
	})
	mux.Handle("GET /metrics", s.metrics.handler())
	measured := s.metrics.measure(api)
	mux.Handle("/api/", measured)
	mux.Handle(accesslog.ImportPath, s.metrics.measure(imports))
	mux.Handle("/prometheus/", measured)
	mux.Handle("/openapi.json", measured)
	mux.Handle("/openapi.yaml", measured)
	mux.Handle("/", page)
	return mux
}

func writeText(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// debugHandler serves Go's profiles. It is never on the address of the page.
func debugHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}
